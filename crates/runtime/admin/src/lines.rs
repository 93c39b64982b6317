//! Lines of bounded length, within a bounded time, over a connection.
//!
//! The limit of time is for the whole line: a peer that sends, or takes, one byte now and then
//! holds a thread no longer than one that does nothing.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Connection;

const READ_BYTES: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a line of more than {max} bytes")]
    TooLong {
        /// The bound in bytes.
        max: usize,
    },
    #[error("not understood: {0}")]
    Malformed(serde_json::Error),
}

/// Reads lines; keeps what came behind the last one.
pub(crate) struct LineReader {
    max: usize,
    kept: Vec<u8>,
}

impl LineReader {
    /// Accepts lines of at most `max` bytes.
    pub(crate) fn new(max: usize) -> LineReader {
        LineReader {
            max,
            kept: Vec::new(),
        }
    }

    /// The next line, as the document in it; none at the end of the stream.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
        connection: &mut dyn Connection,
        limit: Duration,
    ) -> Result<Option<T>, LineError> {
        let Some(line) = self.next_line(connection, limit)? else {
            return Ok(None);
        };
        let document = serde_json::from_slice(&line).map_err(LineError::Malformed)?;
        Ok(Some(document))
    }

    fn next_line(
        &mut self,
        connection: &mut dyn Connection,
        limit: Duration,
    ) -> Result<Option<Vec<u8>>, LineError> {
        let deadline = Instant::now() + limit;
        let mut searched = 0;
        loop {
            let found = self.kept[searched..].iter().position(|byte| *byte == b'\n');
            let end = found.map(|at| searched + at);
            if end.unwrap_or(self.kept.len()) > self.max {
                return Err(LineError::TooLong { max: self.max });
            }
            if let Some(end) = end {
                let rest = self.kept.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.kept, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.kept.len();
            connection.limit_read(left(deadline)?)?;
            let mut buffer = [0; READ_BYTES];
            match connection.read(&mut buffer) {
                Ok(0) if self.kept.is_empty() => return Ok(None),
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.kept.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Sends a document as one line; an error if the peer did not take it within `limit`.
pub(crate) fn send<T: Serialize>(
    connection: &mut dyn Connection,
    document: &T,
    limit: Duration,
) -> Result<(), LineError> {
    let deadline = Instant::now() + limit;
    let mut line = serde_json::to_vec(document).map_err(LineError::Malformed)?;
    line.push(b'\n');
    let mut rest = &line[..];
    while !rest.is_empty() {
        connection.limit_write(left(deadline)?)?;
        match connection.write(rest) {
            Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    connection.limit_write(left(deadline)?)?;
    Ok(connection.flush()?)
}

/// The time until the deadline; an error once there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn read_all(bytes: Vec<u8>, max: usize) -> Vec<Result<Option<u32>, LineError>> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || theirs.write_all(&bytes));
        let mut reader = LineReader::new(max);
        let mut found = Vec::new();
        loop {
            let next = reader.next(&mut &ours, PATIENCE);
            let is_last = !matches!(next, Ok(Some(_)) | Err(LineError::Malformed(_)));
            found.push(next);
            if is_last {
                drop(ours);
                // The reader may have gone before everything was taken.
                let _ = writer.join().unwrap();
                return found;
            }
        }
    }

    #[test]
    fn lines_come_one_by_one_and_a_bad_one_spoils_no_other() {
        let found = read_all(b"1\nx\n22\n".to_vec(), 8);
        assert!(matches!(found[0], Ok(Some(1))));
        assert!(matches!(found[1], Err(LineError::Malformed(_))));
        assert!(matches!(found[2], Ok(Some(22))));
        assert!(matches!(found[3], Ok(None)), "the end");
    }

    #[test]
    fn longest_line_is_read_and_a_longer_one_refused_before_it_ends() {
        let found = read_all(b"1234\n".to_vec(), 4);
        assert!(matches!(found[0], Ok(Some(1234))));
        let found = read_all(vec![b'1'; 100_000], 4);
        assert!(matches!(found[0], Err(LineError::TooLong { max: 4 })));
    }

    #[test]
    fn half_a_line_is_an_error() {
        let found = read_all(b"1\n2".to_vec(), 8);
        assert!(matches!(found[1], Err(LineError::Io(_))));
    }

    #[test]
    fn peer_that_sends_nothing_or_takes_nothing_is_given_up() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut reader = LineReader::new(8);
        let limit = Duration::from_millis(5);
        let nothing: Result<Option<u32>, LineError> = reader.next(&mut &ours, limit);
        assert!(matches!(nothing, Err(LineError::Io(_))));
        // More than the buffers of the socket hold.
        let sent = send(&mut &ours, &"x".repeat(64 << 20), limit);
        assert!(matches!(sent, Err(LineError::Io(_))));
    }
}

//! Stalled readers: those that take nothing, or say nothing. A limit on their sockets ends them, so
//! that none keeps a seat and a thread for ever. Readers that are merely far behind are late
//! (`late_readers.rs`).

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// A reader that says nothing for so long, before its dump, is disconnected: programs ask at once.
const QUESTION_LIMIT: Duration = Duration::from_secs(10);

/// The same of one that has a session at a server: as servers have it (`wait_timeout`).
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(8 * 3600);
/// A machine that does not answer is asked after so long, so often, before its connection ends.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const ASKED_TIMES: u32 = 3;

/// Has the system notice that the machine of the other side is gone, though nothing is sent.
pub(crate) fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(&socket, ASKED_AFTER)?;
    Ok(sockopt::set_tcp_keepcnt(&socket, ASKED_TIMES)?)
}

/// Limits a reader's connection. One that takes nothing for `stalled_after` is ended.
pub(crate) fn limit_stalls(stream: &TcpStream, stalled_after: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(QUESTION_LIMIT))?;
    stream.set_write_timeout(Some(stalled_after))
}

/// Why a reader is gone. The system says no more of a limit than that nothing is ready.
pub(crate) fn why_reader_is_gone(error: &io::Error, is_in_dump: bool) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if is_in_dump => {
            "it took nothing for as long as relay.stalled_after lets it".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it said nothing for too long before it asked for a dump".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_words() {
        let limit = io::Error::from(io::ErrorKind::WouldBlock);
        assert!(why_reader_is_gone(&limit, true).contains("relay.stalled_after"));
        assert!(why_reader_is_gone(&limit, false).contains("said nothing"));
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(why_reader_is_gone(&reset, true), reset.to_string());
    }
}

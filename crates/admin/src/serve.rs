//! Answers one client: greets, then a reply for each call, until the client goes.
//!
//! A client of the socket is asked for its user here. One from another machine has proven what it
//! is before there is a connection that could be served.
//!
//! The caller gives the thread and bounds the number of clients. What a client sends is bounded in
//! length and time. A call that is not understood is refused, and the connection ends.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::connection::Connection;
use crate::lines::{self, LineError, LineReader};
use crate::protocol::{CALL_BYTES_MAX, Call, Hello, NEWEST, OLDEST, Reason, Reply, Request};
use crate::socket;

/// Time limits for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// From one reply to the end of the next call's line.
    pub idle: Duration,
    /// To take a reply.
    pub write: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            idle: Duration::from_secs(60),
            write: Duration::from_secs(5),
        }
    }
}

/// Why a client is not served any more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client may not give orders.
    #[error("a process of another user asked for a command")]
    NotAllowed,
    /// The client sent a malformed line, took too long, or broke the connection.
    #[error("a client's command: {0}")]
    Line(#[from] LineError),
}

/// Serves one client of the socket until it goes. `program` is the version of the server's program.
///
/// # Errors
/// Why the connection ends, if not because the client has gone.
pub fn serve(
    stream: &UnixStream,
    program: &str,
    limits: ServeLimits,
    answer: &dyn Fn(Request) -> Reply,
) -> Result<(), ServeError> {
    let mut connection = stream;
    if !socket::may_order(stream).map_err(LineError::Io)? {
        let text = "commands are taken from the server's own user and from root";
        let refused = Reply::refused(Reason::NotAllowed, text);
        lines::send(&mut connection, &refused, limits.write)?;
        return Err(ServeError::NotAllowed);
    }
    serve_trusted(&mut connection, program, limits, answer)
}

/// Serves one client that may give orders, until it goes. `program` is the version of the server's
/// program.
///
/// # Errors
/// Why the connection ends, if not because the client has gone.
pub fn serve_trusted(
    connection: &mut dyn Connection,
    program: &str,
    limits: ServeLimits,
    answer: &dyn Fn(Request) -> Reply,
) -> Result<(), ServeError> {
    lines::send(connection, &Reply::Hello(Hello::of(program)), limits.write)?;
    let mut reader = LineReader::new(CALL_BYTES_MAX);
    loop {
        let call = match reader.next::<Call>(connection, limits.idle) {
            Ok(Some(call)) => call,
            Ok(None) => return Ok(()),
            Err(error @ (LineError::Malformed(_) | LineError::TooLong { .. })) => {
                let refused = Reply::refused(Reason::NotUnderstood, error.to_string());
                lines::send(connection, &refused, limits.write)?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        lines::send(connection, &reply_to(call, answer), limits.write)?;
    }
}

fn reply_to(call: Call, answer: &dyn Fn(Request) -> Reply) -> Reply {
    if (OLDEST..=NEWEST).contains(&call.protocol) {
        return answer(call.request);
    }
    let text = format!(
        "this server speaks protocol versions {OLDEST} to {NEWEST}, the client {}",
        call.protocol
    );
    Reply::refused(Reason::NotUnderstood, text)
}

/// Tells a client that too many others are being served. Waits for nothing worth mentioning: the
/// line fits into the socket's buffer.
pub fn refuse_busy(mut stream: &UnixStream) {
    let text = "too many commands at a time: try again when others have ended";
    // A client that has gone needs no answer.
    let _ = lines::send(
        &mut stream,
        &Reply::refused(Reason::Busy, text),
        Duration::from_millis(100),
    );
}

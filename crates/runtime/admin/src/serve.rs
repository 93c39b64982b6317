//! Answers one client: greets, then a reply for each call, until the client goes.
//!
//! The system says which user a client of the socket is, and so which rights it has. One from
//! another machine has proven its right before there is a connection that could be served.
//!
//! The caller gives the thread and bounds the number of clients. What a client sends is bounded in
//! length and time. A call that is not understood is refused, and the connection ends.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::command_rights::CommandRights;
use crate::connection::Connection;
use crate::lines::{self, LineError, LineReader};
use crate::protocol::{CALL_BYTES_MAX, Call, Hello, NEWEST, OLDEST, Reason, Reply, Request};
use crate::socket::STATUS_GROUP;

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

/// Serves one client until it goes. `program` is the version of the server's program.
pub fn serve(
    connection: &mut dyn Connection,
    rights: CommandRights,
    program: &str,
    limits: ServeLimits,
    answer: &dyn Fn(Request) -> Reply,
) -> Result<(), LineError> {
    lines::send(connection, &Reply::Hello(Hello::of(program)), limits.write)?;
    let mut reader = LineReader::new(CALL_BYTES_MAX);
    loop {
        let call = match reader.next::<Call>(connection, limits.idle) {
            Ok(Some(call)) => call,
            Ok(None) => return Ok(()),
            Err(error @ (LineError::Malformed(_) | LineError::TooLong { .. })) => {
                let refused = Reply::refused(Reason::NotUnderstood, error.to_string());
                lines::send(connection, &refused, limits.write)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        lines::send(connection, &reply_to(call, rights, answer), limits.write)?;
    }
}

fn reply_to(call: Call, rights: CommandRights, answer: &dyn Fn(Request) -> Reply) -> Reply {
    if !(OLDEST..=NEWEST).contains(&call.protocol) {
        let text = format!(
            "this server speaks protocol versions {OLDEST} to {NEWEST}, the client {}",
            call.protocol
        );
        return Reply::refused(Reason::NotUnderstood, text);
    }
    if rights == CommandRights::Status && !call.request.is_status() {
        let text = format!(
            "orders are taken from the server's own user and from root: the group {STATUS_GROUP} \
             may only ask for the status"
        );
        return Reply::refused(Reason::NotAllowed, text);
    }
    answer(call.request)
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

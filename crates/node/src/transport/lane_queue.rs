//! The messages that wait to be sent over one lane, and the thread that waits for them.
//!
//! On an idle connection only this thread can see that the other end has closed it. Otherwise the
//! next messages would go into a socket that has no reader any more, and be lost unnoticed. So the
//! thread checks the socket from time to time while it has no messages. (To wait for messages and
//! for the end of the connection at the same time, by descriptors instead of a condition, costs
//! more for each message: a twentieth of the commits of 32 clients.)

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use synod_consensus::{GroupId, SessionId};
use synod_member::lock;
use synod_tls::PeerCredential;
use synod_wire::PeerMessage;

/// Bound on the bytes that wait for one lane. Beyond it the receiver has stopped reading: the
/// connection is closed, and the protocol repeats what is needed.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// Bytes that a message counts for beside its payload.
const MESSAGE_BYTES: usize = 256;
/// How often an idle connection is checked.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// The signs of a connection that is over; the system always checks for the last two.
const OVER: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

/// The queue of one lane, and the state of its connection.
#[derive(Default)]
pub(super) struct LaneQueue {
    state: Mutex<LaneState>,
    changed: Condvar,
}

#[derive(Default)]
struct LaneState {
    queue: VecDeque<PeerMessage>,
    bytes: usize,
    open: Option<OpenLane>,
    /// The thread is to end the present connection, or the pause before the next.
    reset: bool,
    /// The thread is to check whether the connection is over.
    suspect: bool,
    /// The thread is to end.
    closed: bool,
}

/// The connection of a lane.
pub(super) struct OpenLane {
    pub(super) stream: TcpStream,
    /// Its number among all connections that this member has opened.
    pub(super) connection: u64,
    /// The process at the other end.
    pub(super) session: SessionId,
    /// The group of the peer at the other end.
    pub(super) group: GroupId,
    /// What the process at the other end has proven.
    pub(super) shown: PeerCredential,
}

/// Whether a message was queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PushResult {
    Queued,
    /// There is no connection, or another one than the message is for.
    NotConnected,
    /// Too many bytes wait already: the connection was closed.
    Full,
}

/// Why a connection takes no more messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LaneEnd {
    /// This member has closed it, or the thread is to end.
    GivenUp,
    /// The other end has closed it.
    ByPeer,
}

impl LaneQueue {
    /// Queues a message for the present connection, which must be number `over` if that is given.
    pub(super) fn push(&self, message: PeerMessage, over: Option<u64>) -> PushResult {
        let mut state = lock(&self.state);
        let fits = |open: &OpenLane| over.is_none_or(|connection| connection == open.connection);
        if state.reset || !state.open.as_ref().is_some_and(fits) {
            return PushResult::NotConnected;
        }
        state.bytes += weight(&message);
        let pushed = if state.bytes > QUEUE_BYTES_MAX {
            state.give_up();
            PushResult::Full
        } else {
            state.queue.push_back(message);
            PushResult::Queued
        };
        self.wake(state);
        pushed
    }

    /// Ends the present connection, or the pause before the next, if `condition` holds for it.
    /// Whether it did.
    pub(super) fn reset_if(&self, condition: impl FnOnce(Option<&OpenLane>) -> bool) -> bool {
        let mut state = lock(&self.state);
        let holds = condition(state.open.as_ref());
        if holds {
            state.give_up();
            self.wake(state);
        }
        holds
    }

    /// Has the thread check whether the connection is over.
    pub(super) fn suspect(&self) {
        let mut state = lock(&self.state);
        state.suspect = true;
        self.wake(state);
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.give_up();
        self.wake(state);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// The number of the present connection.
    pub(super) fn connection(&self) -> Option<u64> {
        let state = lock(&self.state);
        state.open.as_ref().map(|open| open.connection)
    }

    /// Notes a new connection, with an empty queue.
    pub(super) fn opened(&self, open: OpenLane) {
        let mut state = lock(&self.state);
        state.forget_queue();
        state.reset = false;
        state.suspect = false;
        state.open = Some(open);
    }

    /// Notes that the connection has ended; queued messages are lost with it.
    pub(super) fn shut(&self) {
        let mut state = lock(&self.state);
        state.open = None;
        state.forget_queue();
    }

    /// Waits before the next attempt, or less if there is reason to try at once.
    pub(super) fn pause(&self, pause: Duration) {
        let mut state = lock(&self.state);
        if !state.reset && !state.closed {
            (state, _) = self.wait(state, pause);
        }
        state.reset = false;
    }

    /// The queued messages, once there are any.
    ///
    /// # Errors
    ///
    /// The connection, which is `stream`, is over or to be closed.
    pub(super) fn take(&self, stream: &TcpStream) -> Result<VecDeque<PeerMessage>, LaneEnd> {
        let mut state = lock(&self.state);
        loop {
            if state.reset || state.closed {
                return Err(LaneEnd::GivenUp);
            }
            if !state.queue.is_empty() {
                state.bytes = 0;
                return Ok(std::mem::take(&mut state.queue));
            }
            let mut idle = false;
            if !state.suspect {
                (state, idle) = self.wait(state, IDLE_CHECK);
            }
            let suspect = std::mem::take(&mut state.suspect);
            if (suspect || idle) && is_over(stream) {
                return Err(LaneEnd::ByPeer);
            }
        }
    }

    /// Waits for a change. True if none came within `limit`.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, LaneState>,
        limit: Duration,
    ) -> (MutexGuard<'a, LaneState>, bool) {
        let waited = self.changed.wait_timeout(state, limit);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, result.timed_out())
    }

    fn wake(&self, state: MutexGuard<'_, LaneState>) {
        drop(state);
        self.changed.notify_all();
    }
}

impl LaneState {
    fn give_up(&mut self) {
        if let Some(open) = &self.open {
            // Wakes a writer that is blocked. The socket may be closed already.
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        self.reset = true;
        self.forget_queue();
    }

    fn forget_queue(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

/// Whether the other end has closed this connection, or the system has.
fn is_over(stream: &TcpStream) -> bool {
    let end = &mut [PollFd::new(stream, OVER)];
    // If the system cannot answer now, it may next time.
    let polled = poll(end, Some(&Timespec::default()));
    polled.is_ok() && end[0].revents().intersects(OVER)
}

fn weight(message: &PeerMessage) -> usize {
    MESSAGE_BYTES
        + match message {
            PeerMessage::Append { payloads, .. } => {
                payloads.iter().map(|p| p.len() + MESSAGE_BYTES).sum()
            }
            PeerMessage::Propose(propose) => propose.payload.len(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const LEFT: PeerMessage = PeerMessage::LeaveReply;

    /// A lane with a connection, this end of it, and the other.
    fn open_lane() -> (LaneQueue, TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let lane = LaneQueue::default();
        lane.opened(OpenLane {
            stream: stream.try_clone().unwrap(),
            connection: 7,
            session: SessionId(1),
            group: GroupId::NONE,
            shown: PeerCredential::None,
        });
        (lane, stream, other)
    }

    #[test]
    fn idle_lane_notices_that_its_connection_is_over() {
        let (lane, stream, other) = open_lane();
        drop(other);
        assert_eq!(lane.take(&stream).unwrap_err(), LaneEnd::ByPeer);
    }

    #[test]
    fn check_ends_no_connection_that_is_whole() {
        let (lane, stream, _other) = open_lane();
        lane.suspect();
        assert_eq!(lane.push(LEFT, Some(6)), PushResult::NotConnected);
        assert_eq!(lane.push(LEFT, Some(7)), PushResult::Queued);
        assert_eq!(lane.take(&stream).unwrap(), [LEFT]);
    }

    #[test]
    fn queued_messages_are_lost_with_their_connection() {
        let (lane, stream, _other) = open_lane();
        lane.push(LEFT, None);
        lane.reset_if(|open| open.is_some_and(|open| open.session == SessionId(1)));
        assert_eq!(lane.take(&stream).unwrap_err(), LaneEnd::GivenUp);
        assert_eq!(lane.push(LEFT, None), PushResult::NotConnected);
    }
}

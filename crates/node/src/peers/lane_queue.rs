//! What waits to be sent over one lane, and the thread that waits for it.
//!
//! Nobody but this thread could see that a connection is over on which nothing is sent: the next messages
//! would go into a socket whose other end is gone, and be lost without anybody knowing. So it looks, now and
//! then, while it has nothing to do. (To wait for messages and for the end of the connection at the same
//! time, by descriptors instead of a condition, costs more per message: a twentieth of the commits of
//! 32 clients.)

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use synod_consensus::{GroupId, SessionId};
use synod_member::lock;
use synod_wire::PeerMessage;

/// Bytes waiting for one lane. Beyond this the receiver has stopped reading: the connection is given
/// up, and the protocol sends again what is needed.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// What a message weighs beside its payload.
const MESSAGE_BYTES: usize = 256;
/// How often a connection is looked at on which nothing is sent.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// What a connection has that is over; the last two are always looked for.
const OVER: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

/// See the module.
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
    /// Give the present connection, or the pause before the next, up.
    reset: bool,
    /// There is reason to look whether the connection is over.
    suspect: bool,
    /// There is to be no further connection.
    closed: bool,
}

/// The connection of a lane.
pub(super) struct OpenLane {
    pub(super) stream: TcpStream,
    /// Its number; of all connections that this member has opened.
    pub(super) connection: u64,
    /// The process at the other end.
    pub(super) session: SessionId,
    /// The group of the peer at the other end.
    pub(super) group: GroupId,
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Queued,
    /// There is no connection, or another one than it is meant for.
    Dropped,
    /// There is too much already: the connection was given up.
    Full,
}

/// Why there is nothing more to send over a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    GivenUp,
    ByPeer,
}

impl LaneQueue {
    /// Queues a message for the present connection; `over`: only if it is this one.
    pub(super) fn push(&self, message: PeerMessage, over: Option<u64>) -> Pushed {
        let mut state = lock(&self.state);
        let fits = |open: &OpenLane| over.is_none_or(|connection| connection == open.connection);
        if state.reset || !state.open.as_ref().is_some_and(fits) {
            return Pushed::Dropped;
        }
        state.bytes += weight(&message);
        let pushed = if state.bytes > QUEUE_BYTES_MAX {
            state.give_up();
            Pushed::Full
        } else {
            state.queue.push_back(message);
            Pushed::Queued
        };
        self.tell(state);
        pushed
    }

    /// Gives the present connection, or the pause before the next, up if this holds of the connection.
    pub(super) fn reset_if(&self, condition: impl FnOnce(Option<&OpenLane>) -> bool) {
        let mut state = lock(&self.state);
        if condition(state.open.as_ref()) {
            state.give_up();
            self.tell(state);
        }
    }

    /// The connection may be over: the thread looks.
    pub(super) fn suspect(&self) {
        let mut state = lock(&self.state);
        state.suspect = true;
        self.tell(state);
    }

    /// The thread is to end.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.give_up();
        self.tell(state);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// The number of the present connection.
    pub(super) fn connection(&self) -> Option<u64> {
        let state = lock(&self.state);
        state.open.as_ref().map(|open| open.connection)
    }

    /// The lane has a connection now.
    pub(super) fn opened(&self, open: OpenLane) {
        let mut state = lock(&self.state);
        state.forget_queue();
        state.reset = false;
        state.suspect = false;
        state.open = Some(open);
    }

    /// The lane has no connection any more.
    pub(super) fn shut(&self) {
        let mut state = lock(&self.state);
        state.open = None;
        state.forget_queue();
    }

    /// Sits out a pause, unless there is reason to try at once.
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
    /// The connection, which is `stream`, is over or to be given up.
    pub(super) fn take(&self, stream: &TcpStream) -> Result<VecDeque<PeerMessage>, Ended> {
        let mut state = lock(&self.state);
        loop {
            if state.reset || state.closed {
                return Err(Ended::GivenUp);
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
                return Err(Ended::ByPeer);
            }
        }
    }

    /// Waits for a change; true: in vain.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, LaneState>,
        limit: Duration,
    ) -> (MutexGuard<'a, LaneState>, bool) {
        let waited = self.changed.wait_timeout(state, limit);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, result.timed_out())
    }

    fn tell(&self, state: MutexGuard<'_, LaneState>) {
        drop(state);
        self.changed.notify_all();
    }
}

impl LaneState {
    fn give_up(&mut self) {
        if let Some(open) = &self.open {
            // Wakes a writer that is stuck; it may be closed already.
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

/// Whether the other end has closed this connection, or the system has given it up.
fn is_over(stream: &TcpStream) -> bool {
    let end = &mut [PollFd::new(stream, OVER)];
    // If the system cannot tell now, it may next time.
    let told = poll(end, Some(&Timespec::default()));
    told.is_ok() && end[0].revents().intersects(OVER)
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
        });
        (lane, stream, other)
    }

    #[test]
    fn idle_lane_sees_that_its_connection_is_over() {
        let (lane, stream, other) = open_lane();
        drop(other);
        assert_eq!(lane.take(&stream).unwrap_err(), Ended::ByPeer);
    }

    #[test]
    fn suspicion_ends_no_connection_that_is_whole() {
        let (lane, stream, _other) = open_lane();
        lane.suspect();
        assert_eq!(lane.push(LEFT, Some(6)), Pushed::Dropped);
        assert_eq!(lane.push(LEFT, Some(7)), Pushed::Queued);
        assert_eq!(lane.take(&stream).unwrap(), [LEFT]);
    }

    #[test]
    fn what_was_queued_for_a_connection_is_lost_with_it() {
        let (lane, stream, _other) = open_lane();
        lane.push(LEFT, None);
        lane.reset_if(|open| open.is_some_and(|open| open.session == SessionId(1)));
        assert_eq!(lane.take(&stream).unwrap_err(), Ended::GivenUp);
        assert_eq!(lane.push(LEFT, None), Pushed::Dropped);
    }
}

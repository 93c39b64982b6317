//! The messages that wait to be sent over one lane, and who sends them.
//!
//! Small messages are written by the thread that drives, at the end of its turn, as far as the
//! socket takes them at once ([`LaneQueue::send_now`]): no other thread has to wake up for them.
//! Everything else is the work of the lane's own thread, which waits for the socket. While that one
//! writes, it has the [`LaneWriter`], and new messages queue up for it.
//!
//! On an idle connection only this thread can see that the other end has closed it. Otherwise the
//! next messages would go into a socket that has no reader any more, and be lost unnoticed. So the
//! thread checks the socket from time to time while it has no messages. (To wait for messages and
//! for the end of the connection at the same time, by descriptors instead of a condition, costs
//! more for each message: a twentieth of the commits of 32 clients.)

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use synod_consensus::{GroupId, SessionId};
use synod_planted::planted;
use synod_tls::PeerCredential;
use synod_wire::{Compression, FrameWriter, PeerMessage, StreamError};

use super::channel::Channel;
use super::compression::{LinkSpeed, Sent};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// Bound on the bytes that wait for one lane. Beyond it the receiver has stopped reading: the
/// connection is closed, and the protocol repeats what is needed.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// Bytes that a message counts for beside its payload.
const MESSAGE_BYTES: usize = 256;
/// Bytes that wait for a lane at which they are left to its thread. A copy of so much into the
/// socket takes less time than waking that thread, or not much more.
const SEND_NOW_MAX: usize = 128 << 10;
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// The signs of a connection that is over; the system always checks for the last two.
const OVER: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

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
    /// None while the thread writes, and without a connection.
    writer: Option<LaneWriter>,
    /// Bytes are left in the writer, for the thread.
    unfinished: bool,
    /// Why the connection is over, as a writer has found that was not the thread.
    broken: Option<String>,
    /// The thread is to end the present connection, or the pause before the next.
    reset: bool,
    /// The thread is to check whether the connection is over.
    suspect: bool,
    closed: bool,
}

pub(super) struct OpenLane {
    pub(super) stream: TcpStream,
    /// Its number among all connections that this member has opened.
    pub(super) connection: u64,
    pub(super) session: SessionId,
    pub(super) group: GroupId,
    /// Credential that the process at the other end has proven.
    pub(super) shown: PeerCredential,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PushResult {
    Queued,
    /// There is no connection, or another one than the message is for.
    NotConnected,
    /// Too many bytes wait already: the connection was closed.
    Full,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LaneEnd {
    /// This member has closed it, or the thread is to end.
    GivenUp,
    /// The other end has closed it.
    ByPeer,
    /// A write has failed.
    Broken(String),
}

impl LaneQueue {
    /// Queues a message for the present connection, which must be number `over` if that is given.
    /// The caller has [`LaneQueue::send_now`] or [`LaneQueue::send_by_thread`] called then.
    pub(super) fn push(&self, message: PeerMessage, over: Option<u64>) -> PushResult {
        let mut state = lock(&self.state);
        let fits = |open: &OpenLane| over.is_none_or(|connection| connection == open.connection);
        if state.reset || !state.open.as_ref().is_some_and(fits) {
            return PushResult::NotConnected;
        }
        state.bytes += weight(&message);
        if state.bytes > QUEUE_BYTES_MAX {
            state.give_up();
            self.wake(state);
            return PushResult::Full;
        }
        state.queue.push_back(message);
        PushResult::Queued
    }

    /// Leaves what is queued to the thread.
    pub(super) fn send_by_thread(&self) {
        self.wake(lock(&self.state));
    }

    /// Writes what is queued as far as the socket takes it at once, if it is little and `may_send`
    /// says yes; leaves the rest to the thread.
    pub(super) fn send_now(&self, may_send: impl FnOnce() -> bool) -> Pushed {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        if state.queue.is_empty() || state.reset {
            return Pushed::default();
        }
        let Some(writer) = &mut state.writer else {
            // The thread writes, and looks into the queue after that.
            return Pushed::default();
        };
        let is_quick = !state.unfinished && state.bytes <= SEND_NOW_MAX && !writer.compresses();
        if !is_quick || !may_send() {
            planted!(SendUnwoken, self.wake(guard), else drop(guard));
            return Pushed::default();
        }
        state.bytes = 0;
        let pushed = writer.push(&std::mem::take(&mut state.queue));
        match writer.flush_now() {
            Ok(true) => return pushed,
            Ok(false) => state.unfinished = true,
            Err(error) => state.broken = Some(error.to_string()),
        }
        self.wake(guard);
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

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.give_up();
        self.wake(state);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    pub(super) fn connection(&self) -> Option<(u64, SessionId)> {
        let state = lock(&self.state);
        let open = state.open.as_ref();
        open.map(|open| (open.connection, open.session))
    }

    /// Notes a new connection, with an empty queue.
    pub(super) fn opened(&self, open: OpenLane) {
        let mut state = lock(&self.state);
        state.forget_queue();
        state.reset = false;
        state.suspect = false;
        state.forget_writer();
        state.open = Some(open);
    }

    /// Ends the connection; queued messages are lost with it.
    pub(super) fn shut(&self) {
        let mut state = lock(&self.state);
        if let Some(open) = state.open.take() {
            // The peer may have closed it already.
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        state.forget_writer();
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

    /// The queued messages, once there is something to be written by this thread, with the writer,
    /// which others use until then.
    pub(super) fn take(
        &self,
        writer: LaneWriter,
    ) -> Result<(VecDeque<PeerMessage>, LaneWriter), LaneEnd> {
        let mut state = lock(&self.state);
        state.writer = Some(writer);
        loop {
            if state.reset || state.closed {
                return Err(LaneEnd::GivenUp);
            }
            if let Some(reason) = state.broken.take() {
                return Err(LaneEnd::Broken(reason));
            }
            if (state.unfinished || !state.queue.is_empty())
                && let Some(writer) = state.writer.take()
            {
                state.bytes = 0;
                state.unfinished = false;
                return Ok((std::mem::take(&mut state.queue), writer));
            }
            let mut idle = false;
            planted!(TakeUnlocked, (), else {
                drop(state);
                state = lock(&self.state);
            });
            if !state.suspect {
                (state, idle) = self.wait(state, IDLE_CHECK);
            }
            let suspect = std::mem::take(&mut state.suspect);
            let is_over = |writer: &LaneWriter| is_over(writer.stream());
            if (suspect || idle) && state.writer.as_ref().is_some_and(is_over) {
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

    fn forget_writer(&mut self) {
        self.writer = None;
        self.unfinished = false;
        self.broken = None;
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
                let bytes = payloads.iter().map(|p| p.as_ref().map_or(0, Bytes::len));
                bytes.map(|bytes| bytes + MESSAGE_BYTES).sum()
            }
            PeerMessage::Propose(propose) => propose.payload.len(),
            _ => 0,
        }
}

/// Encodes messages for one connection and writes them. It belongs to the thread that sends at the
/// moment: the lane's thread, which waits for the socket, or a thread that drives, which never does
/// ([`LaneWriter::flush_now`]). What did not fit then stays here, in order, until the next flush.
pub(super) struct LaneWriter {
    frames: FrameWriter<Channel>,
    version: u16,
    /// Measurements of a lane that may compress.
    speed: Option<LinkSpeed>,
    /// Bytes pushed since the last flush, and the time that compressing them took.
    pushed: (Compression, Duration),
}

/// Result of encoding messages.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// Bytes of a lane that may compress, without and with that.
    pub(super) bytes: Compression,
    /// Why messages could not be encoded. They are left out.
    pub(super) errors: Vec<StreamError>,
}

impl LaneWriter {
    /// A writer of frames with bodies of at most `max` bytes, in this version. `speed` decides when
    /// to compress; without it, nothing is.
    pub(super) fn new(
        channel: Channel,
        version: u16,
        max: u32,
        speed: Option<LinkSpeed>,
    ) -> LaneWriter {
        LaneWriter {
            frames: FrameWriter::new(channel, max),
            version,
            speed,
            pushed: Default::default(),
        }
    }

    /// Whether messages are compressed at the moment, which takes time.
    pub(super) fn compresses(&self) -> bool {
        self.speed.as_ref().is_some_and(LinkSpeed::compresses)
    }

    fn stream(&self) -> &TcpStream {
        self.frames.get_ref().socket().stream()
    }

    /// Encodes messages; none is sent before a flush. Those that the connection's version does not
    /// have are left out.
    pub(super) fn push<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a PeerMessage>,
    ) -> Pushed {
        let (version, compressed) = (self.version, self.compresses());
        let (begun, mut result) = (Instant::now(), Pushed::default());
        for message in messages.into_iter().filter(|m| m.is_carried_by(version)) {
            let pushed = if compressed {
                self.frames.push_compressed(version, message)
            } else {
                self.frames.push(version, message)
            };
            match pushed {
                Ok(bytes) => result.bytes += bytes,
                Err(error) => result.errors.push(error),
            }
        }
        if self.speed.is_none() {
            result.bytes = Compression::default();
        }
        self.pushed.0 += result.bytes;
        if compressed {
            self.pushed.1 += begun.elapsed();
        }
        result
    }

    /// Writes everything; waits for the socket.
    pub(super) fn flush(&mut self) -> Result<(), StreamError> {
        let begun = Instant::now();
        self.frames.flush()?;
        self.note_time(begun);
        Ok(())
    }

    /// Writes what the socket takes without a wait; whether that is everything.
    fn flush_now(&mut self) -> Result<bool, StreamError> {
        let begun = Instant::now();
        self.frames.get_mut().socket_mut().set_waiting_writes(false);
        let flushed = self.frames.flush();
        self.frames.get_mut().socket_mut().set_waiting_writes(true);
        self.note_time(begun);
        match flushed {
            Ok(()) => Ok(true),
            Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes what was written since then.
    fn note_time(&mut self, begun: Instant) {
        let (bytes, compressing) = std::mem::take(&mut self.pushed);
        if let Some(speed) = &mut self.speed {
            let now = Instant::now();
            let writing = now - begun;
            let sent = Sent {
                bytes,
                compressing,
                writing,
            };
            speed.note(now, &sent);
        }
    }
}

#[cfg(all(test, feature = "shuttle"))]
#[path = "lane_model.rs"]
mod model;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use synod_consensus::{EntryKind, MemberId, Origin, Term};
    use synod_wire::{FrameReader, OUR_VERSIONS, Propose};

    use super::super::channel::TimedSocket;
    use super::*;

    const LEFT: PeerMessage = PeerMessage::LeaveReply;

    const VERSION: u16 = OUR_VERSIONS.max;

    /// A lane with a connection, the writer to this end of it, and the other end.
    fn open_lane() -> (LaneQueue, LaneWriter, TcpStream) {
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
        let channel = Channel::Plain(TimedSocket::new(stream, Duration::ZERO));
        let writer = LaneWriter::new(channel, VERSION, u32::MAX, None);
        (lane, writer, other)
    }

    /// Messages that can be told apart.
    fn numbered(number: u64) -> PeerMessage {
        let member = MemberId(1);
        PeerMessage::Propose(Propose {
            tag: Term(1),
            origin: Origin::new(member, SessionId(1), number),
            kind: EntryKind::Action,
            oldest_outstanding: 0,
            payload: vec![7; 20_000].into(),
        })
    }

    fn read(reader: &mut FrameReader<TcpStream>) -> PeerMessage {
        let frame = reader.read_frame().unwrap().unwrap();
        PeerMessage::decode(VERSION, frame).unwrap()
    }

    #[test]
    fn idle_lane_notices_that_its_connection_is_over() {
        let (lane, writer, other) = open_lane();
        drop(other);
        assert_eq!(lane.take(writer).err(), Some(LaneEnd::ByPeer));
    }

    #[test]
    fn check_ends_no_connection_that_is_whole() {
        let (lane, writer, _other) = open_lane();
        lane.suspect();
        assert_eq!(lane.push(LEFT, Some(6)), PushResult::NotConnected);
        assert_eq!(lane.push(LEFT, Some(7)), PushResult::Queued);
        assert_eq!(lane.take(writer).unwrap().0, [LEFT]);
    }

    #[test]
    fn queued_messages_are_lost_with_their_connection() {
        let (lane, writer, _other) = open_lane();
        lane.push(LEFT, None);
        lane.reset_if(|open| open.is_some_and(|open| open.session == SessionId(1)));
        assert_eq!(lane.take(writer).err(), Some(LaneEnd::GivenUp));
        assert_eq!(lane.push(LEFT, None), PushResult::NotConnected);
    }

    /// The thread of the lane, until the connection ends.
    fn writes(lane: &Arc<LaneQueue>, mut writer: LaneWriter) -> std::thread::JoinHandle<LaneEnd> {
        let lane = lane.clone();
        std::thread::spawn(move || {
            loop {
                match lane.take(writer) {
                    Ok((messages, taken)) => {
                        writer = taken;
                        writer.push(&messages);
                        if let Err(error) = writer.flush() {
                            return LaneEnd::Broken(error.to_string());
                        }
                    }
                    Err(end) => return end,
                }
            }
        })
    }

    #[test]
    fn message_is_sent_at_once_unless_the_sender_may_not() {
        let (lane, writer, other) = open_lane();
        lock(&lane.state).writer = Some(writer);
        let mut reader = FrameReader::new(other, u32::MAX);
        lane.push(LEFT, None);
        assert!(lane.send_now(|| true).errors.is_empty());
        assert_eq!(read(&mut reader), LEFT);
        lane.push(LEFT, None);
        lane.send_now(|| false);
        assert_eq!(lock(&lane.state).queue, [LEFT], "left to the thread");
    }

    #[test]
    fn messages_keep_their_order_whichever_thread_sends_them() {
        const COUNT: u64 = 2_000;
        let (lane, writer, other) = open_lane();
        let lane = Arc::new(lane);
        let thread = writes(&lane, writer);
        let reading = std::thread::spawn(move || {
            let mut reader = FrameReader::new(other, u32::MAX);
            for number in 0..COUNT {
                assert_eq!(read(&mut reader), numbered(number));
            }
        });
        for number in 0..COUNT {
            assert_eq!(lane.push(numbered(number), None), PushResult::Queued);
            match number % 5 {
                0 => lane.send_by_thread(),
                4 => {}
                _ => assert!(lane.send_now(|| true).errors.is_empty()),
            }
        }
        lane.send_now(|| true);
        reading.join().unwrap();
        lane.close();
        assert_eq!(thread.join().unwrap(), LaneEnd::GivenUp);
    }

    #[test]
    fn socket_that_takes_no_more_never_makes_the_sender_wait() {
        let (lane, writer, other) = open_lane();
        lock(&lane.state).writer = Some(writer);
        let mut count = 0;
        while !lock(&lane.state).unfinished {
            lane.push(numbered(count), None);
            lane.send_now(|| true);
            count += 1;
        }
        // The next one waits behind what is unfinished.
        lane.push(numbered(count), None);
        lane.send_now(|| true);
        let lane = Arc::new(lane);
        let writer = lock(&lane.state).writer.take().unwrap();
        let thread = writes(&lane, writer);
        let mut reader = FrameReader::new(other, u32::MAX);
        for number in 0..=count {
            assert_eq!(read(&mut reader), numbered(number));
        }
        lane.close();
        assert_eq!(thread.join().unwrap(), LaneEnd::GivenUp);
    }

    #[test]
    fn thread_hears_of_a_connection_that_broke_under_another_sender() {
        let (lane, writer, other) = open_lane();
        let stream = writer.stream().try_clone().unwrap();
        lock(&lane.state).writer = Some(writer);
        stream.shutdown(Shutdown::Both).unwrap();
        drop(other);
        lane.push(LEFT, None);
        lane.send_now(|| true);
        let writer = lock(&lane.state).writer.take().unwrap();
        let end = lane.take(writer).err();
        assert!(matches!(end, Some(LaneEnd::Broken(_))), "{end:?}");
    }
}

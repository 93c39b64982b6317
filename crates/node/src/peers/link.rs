//! One member as a receiver: a queue and a thread per lane.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Host, Level, lock};
use synod_wire::{FrameWriter, HelloReply, Lane, PeerMessage, RefuseReason, StreamError};

use super::Peers;
use super::channel::Channel;
use super::dial::dial;

/// Bytes waiting for one lane. Beyond this the receiver has stopped reading: the connection is given
/// up, and the protocol sends again what is needed.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// What a message weighs beside its payload.
const MESSAGE_BYTES: usize = 256;
/// A peer that is not in the group and has not called for so long is no longer called.
const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// A connection so young is a live peer's.
const FRESH: Duration = Duration::from_millis(200);
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Link {
    member: MemberId,
    address: Mutex<String>,
    lanes: [LaneQueue; 2],
    inbound: AtomicUsize,
    /// When the peer last hung up; at first, when it was heard of.
    alone_since: Mutex<Instant>,
    closed: AtomicBool,
}

#[derive(Default)]
struct LaneQueue {
    state: Mutex<LaneState>,
    changed: Condvar,
}

#[derive(Default)]
struct LaneState {
    queue: VecDeque<PeerMessage>,
    bytes: usize,
    /// The open connection.
    stream: Option<TcpStream>,
    /// Its number; of all connections that this member has opened.
    connection: u64,
    /// The group of the peer at the other end of `stream`.
    group: GroupId,
    /// When `stream` was opened.
    opened_at: Option<Instant>,
    /// Give the present connection, or the pause before the next, up.
    reset: bool,
}

impl Link {
    pub(super) fn new(member: MemberId, address: &str) -> Link {
        Link {
            member,
            address: Mutex::new(address.to_owned()),
            lanes: Default::default(),
            inbound: AtomicUsize::new(0),
            alone_since: Mutex::new(Instant::now()),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn set_address(&self, address: &str) {
        let mut current = lock(&self.address);
        if *current != address {
            address.clone_into(&mut current);
            drop(current);
            self.reset();
        }
    }

    /// Queues a message; drops it if there is no connection, or another one than it is meant for.
    pub(super) fn send(&self, message: PeerMessage, over: Option<u64>, host: &dyn Host) {
        let lane = &self.lanes[message.lane() as usize];
        let mut state = lock(&lane.state);
        let other = over.is_some_and(|connection| connection != state.connection);
        if state.stream.is_none() || state.reset || other {
            return;
        }
        state.bytes += weight(&message);
        let is_full = state.bytes > QUEUE_BYTES_MAX;
        if is_full {
            give_up(&mut state);
        } else {
            state.queue.push_back(message);
        }
        drop(state);
        lane.changed.notify_all();
        if is_full {
            host.log(
                Level::Warning,
                &format!(
                    "member {} takes nothing any more: closing its connection",
                    self.member
                ),
            );
        }
    }

    /// Connects anew where the peer was not known to be in this group.
    pub(super) fn reset_unless(&self, group: GroupId) {
        for lane in &self.lanes {
            let mut state = lock(&lane.state);
            if state.stream.is_some() && state.group != group {
                give_up(&mut state);
            }
            drop(state);
            lane.changed.notify_all();
        }
    }

    /// Connects anew.
    pub(super) fn reset(&self) {
        for lane in &self.lanes {
            give_up(&mut lock(&lane.state));
            lane.changed.notify_all();
        }
    }

    /// The peer hung up: connects anew, unless it has answered just now. (Otherwise both sides could
    /// go on closing what the other has just opened.)
    pub(super) fn reset_stale(&self) {
        for lane in &self.lanes {
            let mut state = lock(&lane.state);
            let is_fresh = state.opened_at.is_some_and(|at| at.elapsed() < FRESH);
            if state.stream.is_none() || !is_fresh {
                give_up(&mut state);
            }
            drop(state);
            lane.changed.notify_all();
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.reset();
    }

    pub(super) fn inbound_opened(&self) {
        self.inbound.fetch_add(1, Ordering::AcqRel);
        // The member is there: no need to sit out a pause.
        for lane in &self.lanes {
            let mut state = lock(&lane.state);
            if state.stream.is_none() {
                state.reset = true;
            }
            drop(state);
            lane.changed.notify_all();
        }
    }

    pub(super) fn inbound_closed(&self) {
        *lock(&self.alone_since) = Instant::now();
        self.inbound.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the peer is connected to this member, or was a moment ago.
    pub(super) fn is_wanted_by_peer(&self) -> bool {
        self.inbound.load(Ordering::Acquire) > 0
            || lock(&self.alone_since).elapsed() < STRANGER_LIMIT
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The number of the bulk lane's connection, if both lanes have one.
    fn connection(&self) -> Option<u64> {
        let control = lock(&self.lanes[Lane::Control as usize].state)
            .stream
            .is_some();
        let bulk = lock(&self.lanes[Lane::Bulk as usize].state);
        (control && bulk.stream.is_some()).then_some(bulk.connection)
    }

    /// Sits out a pause, unless there is reason to try at once.
    fn pause(&self, lane: Lane, pause: Duration) {
        let lane = &self.lanes[lane as usize];
        let mut state = lock(&lane.state);
        if !state.reset && !self.is_closed() {
            (state, _) = lane
                .changed
                .wait_timeout(state, pause)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.reset = false;
    }

    /// The queued messages, once there are any; `None` if the connection is to be given up.
    fn take(&self, lane: Lane) -> Option<VecDeque<PeerMessage>> {
        let lane = &self.lanes[lane as usize];
        let mut state = lock(&lane.state);
        loop {
            if state.reset || self.is_closed() {
                return None;
            }
            if !state.queue.is_empty() {
                state.bytes = 0;
                return Some(std::mem::take(&mut state.queue));
            }
            state = lane
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The lane has a connection now.
    fn opened(&self, lane: Lane, opened: &Opened, number: u64) -> bool {
        let mut state = lock(&self.lanes[lane as usize].state);
        state.queue.clear();
        state.bytes = 0;
        state.reset = false;
        state.connection = number;
        state.opened_at = Some(Instant::now());
        state.group = opened.group;
        state.stream = opened.channel.stream().try_clone().ok();
        state.stream.is_some()
    }

    fn shut(&self, lane: Lane) {
        let mut state = lock(&self.lanes[lane as usize].state);
        state.stream = None;
        state.queue.clear();
        state.bytes = 0;
    }
}

fn give_up(state: &mut LaneState) {
    if let Some(stream) = &state.stream {
        // Wakes a writer that is stuck; it may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
    state.reset = true;
    state.queue.clear();
    state.bytes = 0;
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

/// Keeps one lane connected until the link is closed.
pub(super) fn run(peers: &Peers, link: &Link, lane: Lane) {
    let mut pause = RETRY_MIN;
    let mut said = None;
    while !link.is_closed() && !peers.is_stopping() {
        let address = lock(&link.address).clone();
        match dial(peers, &address, lane) {
            Ok((
                channel,
                HelloReply::Welcome {
                    version,
                    member,
                    session,
                    group,
                    ..
                },
            )) if member == link.member => {
                if let Some(why) = objection(peers, member, session, &channel) {
                    pause = RETRY_MAX;
                    complain(peers, Level::Info, &address, &mut said, Some(why));
                    link.pause(lane, pause);
                    continue;
                }
                (pause, said) = (RETRY_MIN, None);
                let opened = Opened {
                    channel,
                    version,
                    group,
                };
                serve(peers, link, lane, opened);
            }
            Ok((_, HelloReply::Welcome { .. })) => pause = RETRY_MAX,
            Ok((_, HelloReply::Refused { reason, text })) => {
                pause = RETRY_MAX;
                if reason != RefuseReason::Busy {
                    peers.refused(&address, reason, &text);
                }
            }
            Err(error) => {
                pause = (pause * 2).min(RETRY_MAX);
                // That nobody answers is what happens to members; that they do not trust each other
                // is for the operator to mend.
                complain(peers, Level::Warning, &address, &mut said, error.trouble());
            }
        }
        link.pause(lane, pause);
    }
}

/// Why this server has nothing to do with whoever answered.
fn objection(
    peers: &Peers,
    member: MemberId,
    session: SessionId,
    channel: &Channel,
) -> Option<String> {
    let at = match channel.stream().peer_addr() {
        Ok(at) => at.ip().to_canonical(),
        Err(error) => return Some(error.to_string()),
    };
    let objects = !peers.deals_with(member, session, at);
    objects.then(|| format!("{at} is not in the allowlist"))
}

/// Says what is in the way of a connection, once until it is something else.
fn complain(
    peers: &Peers,
    level: Level,
    address: &str,
    said: &mut Option<String>,
    now: Option<String>,
) {
    if let Some(text) = now.as_ref().filter(|_| now != *said) {
        let text = format!("cannot call {address}: {text}");
        peers.host.log(level, &text);
    }
    *said = now;
}

/// A connection on which the greeting is over.
struct Opened {
    channel: Channel,
    version: u16,
    /// The peer's.
    group: GroupId,
}

fn serve(peers: &Peers, link: &Link, lane: Lane, opened: Opened) {
    let number = peers.next_connection.fetch_add(1, Ordering::Relaxed);
    if !link.opened(lane, &opened, number) {
        return;
    }
    // Looked at only now: whoever sets the group, or isolates this node, closes the connections it
    // finds.
    let own = lock(&peers.identity).group;
    let is_foreign = own != GroupId::NONE && opened.group != GroupId::NONE && opened.group != own;
    if is_foreign || peers.is_isolated() {
        link.shut(lane);
        return;
    }
    if let Some(connection) = link.connection() {
        peers.tell(Event::LinkUp {
            member: link.member,
            connection,
        });
    }
    let Opened {
        channel, version, ..
    } = opened;
    let mut writer = FrameWriter::new(channel, peers.limits.of(lane));
    while let Some(messages) = link.take(lane) {
        if let Err(error) = write_all(peers, &mut writer, version, &messages) {
            peers.host.log(
                Level::Info,
                &format!(
                    "connection to member {} ({lane:?}) broke: {error}",
                    link.member
                ),
            );
            break;
        }
    }
    link.shut(lane);
    let _ = writer.get_ref().stream().shutdown(Shutdown::Both);
    peers.tell(Event::LinkDown {
        member: link.member,
    });
}

fn write_all(
    peers: &Peers,
    writer: &mut FrameWriter<Channel>,
    version: u16,
    messages: &VecDeque<PeerMessage>,
) -> Result<(), StreamError> {
    for message in messages {
        match writer.push(version, message) {
            Ok(()) => {}
            Err(error @ StreamError::Io(_)) => return Err(error),
            // Only this message is at fault.
            Err(error) => peers
                .host
                .log(Level::Error, &format!("message not sent: {error}")),
        }
    }
    writer.flush()
}

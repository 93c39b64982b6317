//! One member as a receiver: a queue and a thread per lane.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_consensus::MemberId;
use synod_wire::{FrameWriter, HelloReply, Lane, PeerMessage, RefuseReason, StreamError};

use super::Peers;
use super::dial::dial;
use crate::driver::Event;
use crate::host::{Host, Level};
use crate::shared::lock;

/// Bytes waiting for one lane. Beyond this the receiver has stopped reading: the connection is given
/// up, and the protocol sends again what is needed.
const QUEUE_BYTES_MAX: usize = 128 << 20;
/// What a message weighs beside its payload.
const MESSAGE_BYTES: usize = 256;
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Link {
    member: MemberId,
    address: Mutex<String>,
    lanes: [LaneQueue; 2],
    inbound: AtomicUsize,
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

    /// Queues a message; drops it if there is no connection.
    pub(super) fn send(&self, message: PeerMessage, host: &dyn Host) {
        let lane = &self.lanes[message.lane() as usize];
        let mut state = lock(&lane.state);
        if state.stream.is_none() {
            return;
        }
        state.bytes += weight(&message);
        if state.bytes > QUEUE_BYTES_MAX {
            host.log(
                Level::Warning,
                &format!("member {} takes nothing any more: closing its connection", self.member),
            );
            give_up(&mut state);
        } else {
            state.queue.push_back(message);
        }
        drop(state);
        lane.changed.notify_all();
    }

    /// Connects anew.
    pub(super) fn reset(&self) {
        for lane in &self.lanes {
            give_up(&mut lock(&lane.state));
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
        self.inbound.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn has_inbound(&self) -> bool {
        self.inbound.load(Ordering::Acquire) > 0
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn is_up(&self) -> bool {
        self.lanes.iter().all(|lane| lock(&lane.state).stream.is_some())
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
            state = lane.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The lane has a connection now.
    fn opened(&self, lane: Lane, stream: &TcpStream) -> bool {
        let mut state = lock(&self.lanes[lane as usize].state);
        state.queue.clear();
        state.bytes = 0;
        state.reset = false;
        state.stream = stream.try_clone().ok();
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
    while !link.is_closed() && !peers.is_stopping() {
        let address = lock(&link.address).clone();
        match dial(&address, &peers.hello(lane)) {
            Ok((stream, HelloReply::Welcome { version, member, .. })) if member == link.member => {
                pause = RETRY_MIN;
                serve(peers, link, lane, version, &stream);
            }
            Ok((_, HelloReply::Welcome { .. })) => pause = RETRY_MAX,
            Ok((_, HelloReply::Refused { reason, text })) => {
                pause = RETRY_MAX;
                if reason != RefuseReason::Busy {
                    peers.tell(Event::SeedRefused {
                        text: format!("{address} refuses this member: {text}"),
                        is_final: super::seek::is_final(reason),
                    });
                }
            }
            Err(_) => pause = (pause * 2).min(RETRY_MAX),
        }
        link.pause(lane, pause);
    }
}

fn serve(peers: &Peers, link: &Link, lane: Lane, version: u16, stream: &TcpStream) {
    if !link.opened(lane, stream) {
        return;
    }
    if link.is_up() {
        peers.tell(Event::LinkUp { member: link.member });
    }
    let mut writer = FrameWriter::new(stream, peers.limits.of(lane));
    while let Some(messages) = link.take(lane) {
        if let Err(error) = write_all(peers, &mut writer, version, &messages) {
            peers.host.log(
                Level::Info,
                &format!("connection to member {} ({lane:?}) broke: {error}", link.member),
            );
            break;
        }
    }
    link.shut(lane);
    let _ = stream.shutdown(Shutdown::Both);
    peers.tell(Event::LinkDown { member: link.member });
}

fn write_all(
    peers: &Peers,
    writer: &mut FrameWriter<&TcpStream>,
    version: u16,
    messages: &VecDeque<PeerMessage>,
) -> Result<(), StreamError> {
    for message in messages {
        match writer.push(version, message) {
            Ok(()) => {}
            Err(error @ StreamError::Io(_)) => return Err(error),
            // Only this message is at fault.
            Err(error) => peers.host.log(Level::Error, &format!("message not sent: {error}")),
        }
    }
    writer.flush()
}

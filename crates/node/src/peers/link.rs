//! One member as a receiver: a queue and a thread per lane.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Host, Level, lock};
use synod_wire::{FrameWriter, HelloReply, Lane, PeerMessage, RefuseReason, StreamError};

use super::Peers;
use super::channel::Channel;
use super::dial::dial;
use super::lane_queue::{Ended, LaneQueue, OpenLane, Pushed};

/// A peer that is not in the group and has not called for so long is no longer called.
const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// A connection that ends sooner was not worth opening: the next one waits longer.
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
}

impl Link {
    pub(super) fn new(member: MemberId, address: &str) -> Link {
        Link {
            member,
            address: Mutex::new(address.to_owned()),
            lanes: Default::default(),
            inbound: AtomicUsize::new(0),
            alone_since: Mutex::new(Instant::now()),
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
        let lane = self.lane(message.lane());
        if lane.push(message, over) == Pushed::Full {
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
            lane.reset_if(|open| open.is_some_and(|open| open.group != group));
        }
    }

    /// Connects anew.
    pub(super) fn reset(&self) {
        for lane in &self.lanes {
            lane.reset_if(|_| true);
        }
    }

    pub(super) fn close(&self) {
        for lane in &self.lanes {
            lane.close();
        }
    }

    /// The member is there, as this process: no need to sit out a pause, nor to go on with another one.
    pub(super) fn inbound_opened(&self, session: SessionId) {
        self.inbound.fetch_add(1, Ordering::AcqRel);
        for lane in &self.lanes {
            lane.reset_if(|open| open.is_none_or(|open| open.session != session));
        }
    }

    /// The member has hung up; if it is gone, so are the connections to it.
    pub(super) fn inbound_closed(&self) {
        *lock(&self.alone_since) = Instant::now();
        self.inbound.fetch_sub(1, Ordering::AcqRel);
        for lane in &self.lanes {
            lane.suspect();
        }
    }

    /// Whether the peer is connected to this member, or was a moment ago.
    pub(super) fn is_wanted_by_peer(&self) -> bool {
        self.inbound.load(Ordering::Acquire) > 0
            || lock(&self.alone_since).elapsed() < STRANGER_LIMIT
    }

    fn lane(&self, lane: Lane) -> &LaneQueue {
        &self.lanes[lane as usize]
    }

    /// The number of the bulk lane's connection, if both lanes have one.
    fn connection(&self) -> Option<u64> {
        self.lane(Lane::Control).connection()?;
        self.lane(Lane::Bulk).connection()
    }
}

/// Keeps one lane connected until the link is closed.
pub(super) fn run(peers: &Peers, link: &Link, lane: Lane) {
    let mut pause = RETRY_MIN;
    let mut said = None;
    while !link.lane(lane).is_closed() && !peers.is_stopping() {
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
                    link.lane(lane).pause(pause);
                    continue;
                }
                said = None;
                let opened = Opened {
                    channel,
                    version,
                    session,
                    group,
                };
                let begun = Instant::now();
                serve(peers, link, lane, opened);
                pause = match begun.elapsed() < FRESH {
                    true => (pause * 2).min(RETRY_MAX),
                    false => RETRY_MIN,
                };
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
        link.lane(lane).pause(pause);
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
    session: SessionId,
    group: GroupId,
}

fn serve(peers: &Peers, link: &Link, lane: Lane, opened: Opened) {
    let Opened {
        channel,
        version,
        session,
        group,
    } = opened;
    let Ok(stream) = channel.stream().try_clone() else {
        return;
    };
    let connection = peers.next_connection.fetch_add(1, Ordering::Relaxed);
    let queue = link.lane(lane);
    queue.opened(OpenLane {
        stream,
        connection,
        session,
        group,
    });
    // Looked at only now: whoever sets the group, or isolates this node, closes the connections it
    // finds.
    let own = lock(&peers.identity).group;
    let is_foreign = own != GroupId::NONE && group != GroupId::NONE && group != own;
    if is_foreign || peers.is_isolated() {
        queue.shut();
        return;
    }
    if let Some(connection) = link.connection() {
        peers.tell(Event::LinkUp {
            member: link.member,
            connection,
        });
    }
    let mut writer = FrameWriter::new(channel, peers.limits.of(lane));
    if let Some(why) = send_all(peers, queue, version, &mut writer) {
        let text = format!(
            "connection to member {} ({lane:?}) broke: {why}",
            link.member
        );
        peers.host.log(Level::Info, &text);
    }
    queue.shut();
    let _ = writer.get_ref().stream().shutdown(Shutdown::Both);
    peers.tell(Event::LinkDown {
        member: link.member,
    });
}

/// Sends what is queued until the connection is over; why, if it was not given up.
fn send_all(
    peers: &Peers,
    queue: &LaneQueue,
    version: u16,
    writer: &mut FrameWriter<Channel>,
) -> Option<String> {
    loop {
        match queue.take(writer.get_ref().stream()) {
            Ok(messages) => {
                if let Err(error) = write_all(peers, writer, version, &messages) {
                    return Some(error.to_string());
                }
            }
            Err(Ended::ByPeer) => return Some("it was closed at the other end".to_owned()),
            Err(Ended::GivenUp) => return None,
        }
    }
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

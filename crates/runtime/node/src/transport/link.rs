//! One member as a receiver: a queue and a thread for each lane.
//!
//! Each thread dials until it is welcome, sends what others leave to it until the connection ends,
//! and dials again after a pause. Both lanes up make an [`Event::LinkUp`], either one down an
//! [`Event::LinkDown`].

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Level, lock};
use synod_tls::PeerCredential;
use synod_wire::{HelloReply, Lane, PeerMessage, RefuseReason, has_compression};

use super::Transport;
use super::channel::Channel;
use super::dial::dial;
use super::lane_queue::{LaneEnd, LaneQueue, OpenLane, PushResult};
use super::lane_writer::LaneWriter;
use super::link_speed::LinkSpeed;
use super::per_address_limit::Source;

/// A peer outside the configuration that has not been connected for this time is no longer called.
const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// A connection that ends sooner failed: the next attempt waits longer.
const FRESH: Duration = Duration::from_millis(200);
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Address that a link calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `host:port`.
    pub(super) address: String,
    /// The only host to call, whatever the address leads to.
    pub(super) only_at: Option<IpAddr>,
}

impl Target {
    /// An address that this member trusts.
    pub(super) fn at(address: &str) -> Target {
        let (address, only_at) = (address.to_owned(), None);
        Target { address, only_at }
    }
}

/// The connections to one member, and their queues.
pub(super) struct Link {
    member: MemberId,
    target: Mutex<Target>,
    /// The driver ordered it, so what its member answers counts; otherwise a stranger that called
    /// is called back.
    is_ordered: AtomicBool,
    /// Source of the stranger's call; none if the driver ordered the link at first.
    source: Option<Source>,
    begun: Instant,
    lanes: [LaneQueue; 2],
    /// Whether what is sent is compressed at the moment.
    compresses: AtomicBool,
    /// How many connections the peer has open to this member.
    inbound: AtomicUsize,
    /// When the peer last closed a connection; at first, when it was found.
    alone_since: Mutex<Instant>,
}

impl Link {
    /// A link that the driver orders.
    pub(super) fn ordered(member: MemberId, address: &str) -> Link {
        Link::new(member, Target::at(address), None)
    }

    /// A link to a stranger that called.
    pub(super) fn to_stranger(member: MemberId, target: Target, source: Source) -> Link {
        Link::new(member, target, Some(source))
    }

    fn new(member: MemberId, target: Target, source: Option<Source>) -> Link {
        Link {
            member,
            target: Mutex::new(target),
            is_ordered: AtomicBool::new(source.is_none()),
            source,
            begun: Instant::now(),
            lanes: Default::default(),
            compresses: AtomicBool::new(false),
            inbound: AtomicUsize::new(0),
            alone_since: Mutex::new(Instant::now()),
        }
    }

    /// The driver orders the link, at this address.
    pub(super) fn order_at(&self, address: &str) {
        self.is_ordered.store(true, Ordering::Release);
        let mut current = lock(&self.target);
        let moves = current.address != address;
        *current = Target::at(address);
        drop(current);
        if moves {
            self.reset();
        }
    }

    /// The stranger has called again, as another process.
    pub(super) fn call_back_at(&self, target: Target) {
        if self.is_ordered() {
            return;
        }
        let mut current = lock(&self.target);
        if *current != target {
            *current = target;
            drop(current);
            self.reset();
        }
    }

    /// Whether it calls this address.
    pub(super) fn is_to(&self, address: &str) -> bool {
        lock(&self.target).address == address
    }

    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    /// Whether what is sent to the member is compressed at the moment.
    pub(super) fn compresses(&self) -> bool {
        self.compresses.load(Ordering::Relaxed)
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered.load(Ordering::Acquire)
    }

    /// Source of the stranger's call, and since when the stranger is called; none for a link that
    /// the driver has ordered.
    pub(super) fn place(&self) -> Option<(Source, Instant)> {
        let source = self.source.filter(|_| !self.is_ordered())?;
        Some((source, self.begun))
    }

    /// Queues a message for its lane. It is lost if there is no connection, or another one than
    /// `over`.
    pub(super) fn push(&self, message: PeerMessage, over: Option<u64>) -> PushResult {
        self.lane(message.lane()).push(message, over)
    }

    /// Connects again unless the peer is known to be in this group.
    pub(super) fn reset_unless(&self, group: GroupId) {
        for lane in &self.lanes {
            lane.reset_if(|open| open.is_some_and(|open| open.group != group));
        }
    }

    /// Connects again where the process at the other end has proven this; how many lanes.
    pub(super) fn reset_if_shown(&self, is_wrong: impl Fn(&PeerCredential) -> bool) -> usize {
        let is_open_to = |open: Option<&OpenLane>| open.is_some_and(|open| is_wrong(&open.shown));
        let lanes = self.lanes.iter();
        lanes.filter(|lane| lane.reset_if(is_open_to)).count()
    }

    /// Connects both lanes again.
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

    /// The peer has connected, as this process: ends pauses, and connections to another process of
    /// it.
    pub(super) fn inbound_opened(&self, session: SessionId) {
        self.inbound.fetch_add(1, Ordering::AcqRel);
        for lane in &self.lanes {
            lane.reset_if(|open| open.is_none_or(|open| open.session != session));
        }
    }

    /// The peer has closed a connection. If it has ended, the connections to it are over, too.
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

    pub(super) fn lane(&self, lane: Lane) -> &LaneQueue {
        &self.lanes[lane as usize]
    }

    /// Number, session and version of the bulk lane's connection, if both lanes have one.
    fn connection(&self) -> Option<(u64, SessionId, u16)> {
        self.lane(Lane::Control).connection()?;
        self.lane(Lane::Bulk).connection()
    }
}

/// Keeps one lane connected until the link is closed.
pub(super) fn run(transport: &Transport, link: &Link, lane: Lane) {
    let mut pause = RETRY_MIN;
    let mut logged = None;
    while !link.lane(lane).is_closed() && !transport.is_stopping() {
        let target = lock(&link.target).clone();
        let address = &target.address;
        let obstacle = match dial(transport, &target, lane) {
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
                if let Some(reason) = objection(transport, member, session, &channel) {
                    pause = RETRY_MAX;
                    Some((Level::Info, reason))
                } else {
                    let greeted = GreetedConnection {
                        channel,
                        version,
                        session,
                        group,
                    };
                    let begun = Instant::now();
                    serve(transport, link, lane, greeted);
                    pause = if begun.elapsed() < FRESH {
                        (pause * 2).min(RETRY_MAX)
                    } else {
                        RETRY_MIN
                    };
                    None
                }
            }
            Ok((_, HelloReply::Welcome { .. })) => {
                pause = RETRY_MAX;
                link.lane(lane).pause(pause);
                continue;
            }
            Ok((channel, HelloReply::Refused { reason, text })) => {
                pause = RETRY_MAX;
                let objection = transport.objection(link.member, channel.peer());
                // Neither a stranger nor a process in a member's place has a say.
                if link.is_ordered() && objection.is_none() && reason != RefuseReason::Busy {
                    transport.refused_by_member(link.member, address, reason, &text);
                }
                objection.map(|reason| (Level::Warning, reason))
            }
            Err(error) => {
                pause = (pause * 2).min(RETRY_MAX);
                // A member that does not answer is normal. Members that do not trust each other
                // need their operator.
                error.for_operator().map(|reason| (Level::Warning, reason))
            }
        };
        log_obstacle(transport, link, address, &mut logged, obstacle);
        link.lane(lane).pause(pause);
    }
}

/// Why this member must not use the connection to the process that answered.
fn objection(
    transport: &Transport,
    member: MemberId,
    session: SessionId,
    channel: &Channel,
) -> Option<String> {
    let at = match channel.stream().peer_addr() {
        Ok(at) => at.ip().to_canonical(),
        Err(error) => return Some(error.to_string()),
    };
    if !transport.deals_with(member, session, at) {
        return Some(format!("{at} is not in the allowlist"));
    }
    transport.objection(member, channel.peer())
}

/// Logs why there is no connection, unless that was the last reason logged.
fn log_obstacle(
    transport: &Transport,
    link: &Link,
    address: &str,
    logged: &mut Option<String>,
    obstacle: Option<(Level, String)>,
) {
    let Some((level, why)) = obstacle else {
        *logged = None;
        return;
    };
    if logged.as_ref() != Some(&why) {
        let text = || format!("cannot call {address}: {why}");
        transport.log_of_link(link, level, &why, text);
    }
    *logged = Some(why);
}

/// A connection after its handshake.
struct GreetedConnection {
    channel: Channel,
    version: u16,
    /// The session of the process at the other end.
    session: SessionId,
    group: GroupId,
}

fn serve(transport: &Transport, link: &Link, lane: Lane, greeted: GreetedConnection) {
    let GreetedConnection {
        channel,
        version,
        session,
        group,
    } = greeted;
    let Ok(stream) = channel.stream().try_clone() else {
        return;
    };
    let connection = transport.next_connection.fetch_add(1, Ordering::Relaxed);
    let queue = link.lane(lane);
    queue.opened(OpenLane {
        stream,
        connection,
        version,
        session,
        group,
        shown: channel.peer().clone(),
    });
    // Checked only now: a thread that sets the group or the known members, or isolates this node,
    // closes the connections that it finds in the queue.
    let own = lock(&transport.identity).group;
    let is_foreign = own != GroupId::NONE && group != GroupId::NONE && group != own;
    let objection = transport.objection(link.member, channel.peer());
    if is_foreign || objection.is_some() || transport.is_isolated() {
        queue.shut();
        return;
    }
    if let Some((connection, session, version)) = link.connection() {
        transport.send_event(Event::LinkUp {
            member: link.member,
            connection,
            session,
            version,
        });
    }
    // What the control lane carries is small, and must not wait.
    let speed = (lane == Lane::Bulk && has_compression(version))
        .then(|| LinkSpeed::new(transport.compression, Instant::now()));
    let writer = LaneWriter::new(channel, version, transport.limits.of(lane), speed);
    if let Some(reason) = send_all(transport, link, lane, writer) {
        let member = link.member;
        let text = || format!("connection to member {member} ({lane:?}) broke: {reason}");
        transport.log_of_link(link, Level::Info, &reason, text);
    }
    queue.shut();
    link.compresses.store(false, Ordering::Relaxed);
    transport.send_event(Event::LinkDown {
        member: link.member,
    });
}

/// Sends what is left to this thread until the connection is over. Returns the reason, unless this
/// member closed it.
fn send_all(
    transport: &Transport,
    link: &Link,
    lane: Lane,
    mut writer: LaneWriter,
) -> Option<String> {
    loop {
        match link.lane(lane).take(writer) {
            Ok(_) if transport.is_isolated() => return None,
            Ok((messages, taken)) => {
                writer = taken;
                transport.note_sent(link, writer.push(&messages));
                if let Err(error) = writer.flush() {
                    return Some(error.to_string());
                }
                if lane == Lane::Bulk {
                    let compresses = writer.compresses();
                    link.compresses.store(compresses, Ordering::Relaxed);
                }
            }
            Err(LaneEnd::ByPeer) => return Some("it was closed at the other end".to_owned()),
            Err(LaneEnd::Broken(reason)) => return Some(reason),
            Err(LaneEnd::GivenUp) => return None,
        }
    }
}

//! One member as a receiver: a queue and a thread for each lane.
//!
//! Each thread dials until it is welcome, sends what others leave to it until the connection ends,
//! and dials again after a pause. Both lanes up make an [`Event::LinkUp`], either one down an
//! [`Event::LinkDown`].

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Level, SignOfLife, lock};
use synod_tls::PeerCredential;
use synod_wire::{HelloReply, Lane, PeerMessage};

use super::Transport;
use super::address_limit::{CallSource, oldest_of_fullest_address};
use super::channel::Channel;
use super::compression::LinkSpeed;
use super::dial::{CallLimits, dial};
use super::greeting::AdmittedCaller;
use super::lane::{LaneEnd, LaneQueue, LaneWriter, OpenLane, PushResult};

/// A peer outside the configuration that has not been connected for this time is no longer called.
const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// A connection that ends sooner failed: the next attempt waits longer.
const FRESH: Duration = Duration::from_millis(200);
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Strangers that are called at a time; the oldest of the address with the most makes room.
const CALL_BACKS_MAX: usize = 16;
/// Links to strangers that are called, or whose threads have not ended yet.
const CALL_BACK_THREADS_MAX: usize = 48;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: String,
    /// The only host to call, whatever the address leads to.
    pub(super) only_at: Option<IpAddr>,
    pub(super) limits: CallLimits,
}

impl Target {
    /// An address that this member trusts.
    pub(super) fn at(address: &str) -> Target {
        Target {
            address: address.to_owned(),
            only_at: None,
            limits: CallLimits::MEMBER,
        }
    }
}

pub(super) struct Link {
    member: MemberId,
    target: Mutex<Target>,
    /// The driver ordered it, so what its member answers counts; otherwise a stranger that called
    /// is called back.
    is_ordered: AtomicBool,
    /// Source of the stranger's call; none if the driver ordered the link at first.
    source: Option<CallSource>,
    begun: Instant,
    lanes: [LaneQueue; 2],
    compresses: AtomicBool,
    /// How many connections the peer has open to this member.
    inbound: AtomicUsize,
    /// When the peer last closed a connection; at first, when it was found.
    alone_since: Mutex<Instant>,
}

impl Link {
    pub(super) fn ordered(member: MemberId, address: &str) -> Link {
        Link::new(member, Target::at(address), None)
    }

    fn to_stranger(member: MemberId, target: Target, source: CallSource) -> Link {
        Link::new(member, target, Some(source))
    }

    fn new(member: MemberId, target: Target, source: Option<CallSource>) -> Link {
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

    fn call_back_at(&self, target: Target) {
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

    pub(super) fn is_to(&self, address: &str) -> bool {
        lock(&self.target).address == address
    }

    /// Whether both lanes are connected, to one of these addresses.
    pub(super) fn is_connected_at(&self, addresses: &[SocketAddr]) -> bool {
        let target = lock(&self.target).address.clone();
        let mut leads_to = target.to_socket_addrs().into_iter().flatten();
        self.connection().is_some() && leads_to.any(|at| addresses.contains(&at))
    }

    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    pub(super) fn compresses(&self) -> bool {
        self.compresses.load(Ordering::Relaxed)
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered.load(Ordering::Acquire)
    }

    /// Source of the stranger's call, and since when the stranger is called; none for a link that
    /// the driver has ordered.
    pub(super) fn place(&self) -> Option<(CallSource, Instant)> {
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

    /// Number and session of the bulk lane's connection, if both lanes have one.
    fn connection(&self) -> Option<(u64, SessionId)> {
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
                    note_failed(transport, link, address, SignOfLife::Distrust, || {
                        format!("is not used: {reason}")
                    });
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
            Ok((_, HelloReply::Welcome { member, name, .. })) => {
                pause = RETRY_MAX;
                let sign = SignOfLife::OtherMember(member);
                note_failed(transport, link, address, sign, || {
                    format!("answers as another member, {name}")
                });
                link.lane(lane).pause(pause);
                continue;
            }
            Ok((channel, HelloReply::Refused { reason, text })) => {
                pause = RETRY_MAX;
                let objection = transport.objection(link.member, channel.peer());
                // Neither a stranger nor a process in a member's place has a say.
                match &objection {
                    None if link.is_ordered() => {
                        transport.refused_by_member(link.member, address, reason, &text);
                    }
                    None => {}
                    Some(why) => {
                        note_failed(transport, link, address, SignOfLife::Distrust, || {
                            format!("is not used: {why}")
                        })
                    }
                }
                objection.map(|reason| (Level::Warning, reason))
            }
            Err(error) => {
                pause = (pause * 2).min(RETRY_MAX);
                note_failed(transport, link, address, error.sign(), || error.in_words());
                // A member that does not answer is normal. Members that do not trust each other
                // need their operator.
                error.for_operator().map(|reason| (Level::Warning, reason))
            }
        };
        log_obstacle(transport, link, address, &mut logged, obstacle);
        link.lane(lane).pause(pause);
    }
}

/// Tells the driver what a call has found that it has ordered.
fn note_failed(
    transport: &Transport,
    link: &Link,
    address: &str,
    sign: SignOfLife,
    why: impl FnOnce() -> String,
) {
    if link.is_ordered() {
        transport.call_failed(address, Some(link.member), why(), sign);
    }
}

/// Why this member must not use the connection to the process that answered.
fn objection(
    transport: &Transport,
    member: MemberId,
    session: SessionId,
    channel: &Channel,
) -> Option<String> {
    let at = match channel.socket().stream().peer_addr() {
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

struct GreetedConnection {
    channel: Channel,
    version: u16,
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
    let Ok(stream) = channel.socket().stream().try_clone() else {
        return;
    };
    let connection = transport.next_connection.fetch_add(1, Ordering::Relaxed);
    let queue = link.lane(lane);
    queue.opened(OpenLane {
        stream,
        connection,
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
    if let Some((connection, session)) = link.connection() {
        transport.send_event(Event::LinkUp {
            member: link.member,
            connection,
            session,
        });
    }
    // What the control lane carries is small, and must not wait.
    let speed = (lane == Lane::Bulk).then(|| LinkSpeed::new(transport.compression, Instant::now()));
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

/// Calls back to callers. Each direction is a connection of its own, so a caller that is to get
/// answers has to be called. A stranger that has proven nothing could name any address: it is
/// called only where it called from, so no host gets calls because another one asked for them.
/// Links to strangers are few, and the links that the driver orders have room of their own.
impl Transport {
    /// A caller was welcomed: sees to it that it is called, too.
    pub(super) fn called_by(self: &Arc<Self>, caller: &AdmittedCaller) {
        let (member, address) = (caller.hello.member, &caller.hello.address);
        let is_authenticated = caller.is_authenticated();
        if !self.known.has(member) {
            self.call_back(caller, is_authenticated);
        } else if caller.presence.is_alone() && !self.calls(member, address) {
            if is_authenticated || is_at(address, caller.ip) {
                self.connect(member, address);
            } else {
                self.log_not_called(caller);
            }
        }
    }

    fn call_back(self: &Arc<Self>, caller: &AdmittedCaller, is_authenticated: bool) {
        let (member, address) = (caller.hello.member, &caller.hello.address);
        if !is_authenticated && is_elsewhere(address, caller.ip) {
            return self.log_not_called(caller);
        }
        let target = Target {
            address: address.clone(),
            only_at: (!is_authenticated).then_some(caller.ip),
            limits: match is_authenticated {
                true => CallLimits::MEMBER,
                false => CallLimits::STRANGER,
            },
        };
        let mut links = lock(&self.links);
        if let Some(link) = links.get(&member) {
            if caller.presence.is_alone() {
                link.call_back_at(target);
            }
            return;
        }
        let pool = links.iter().filter_map(|(member, link)| {
            let (source, begun) = link.place()?;
            Some((*member, source, begun))
        });
        let leaves =
            (pool.clone().count() >= CALL_BACKS_MAX).then(|| oldest_of_fullest_address(pool));
        if let Some(link) = leaves.flatten().and_then(|member| links.remove(&member)) {
            link.close();
        }
        let mut running = lock(&self.call_backs);
        running.retain(|link| link.strong_count() > 0);
        if running.len() >= CALL_BACK_THREADS_MAX {
            let why = "too many strangers to call back";
            let text = || format!("not calling {address} back: {why}");
            return self.log_about(caller.ip, Level::Warning, why, text);
        }
        let link = Arc::new(Link::to_stranger(member, target, CallSource::of(caller.ip)));
        running.push(Arc::downgrade(&link));
        drop(running);
        self.start_link(&mut links, link);
    }

    fn log_not_called(&self, caller: &AdmittedCaller) {
        let (name, address, ip) = (&caller.hello.name, &caller.hello.address, caller.ip);
        let why = "it names an address of another host, and its connection proves nothing";
        self.log_about(ip, Level::Warning, why, || {
            format!(
                "not calling {address} back for {name}, which calls from {ip}: {why}. Have it \
                 state the address that it calls from, or give all members credentials"
            )
        });
    }
}

/// Links to strangers whose threads may run.
pub(super) type CallBacks = Vec<Weak<Link>>;

/// Whether an address leads to this host. May ask the resolver.
fn is_at(address: &str, ip: IpAddr) -> bool {
    let candidates = address.to_socket_addrs();
    candidates.is_ok_and(|mut all| all.any(|at| at.ip().to_canonical() == ip))
}

/// Whether an address is, without a question to the resolver, that of another host.
fn is_elsewhere(address: &str, ip: IpAddr) -> bool {
    let literal = address.parse::<SocketAddr>();
    literal.is_ok_and(|at| at.ip().to_canonical() != ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_host_of_a_caller_is_known_by_its_address() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert!(is_at("127.0.0.1:4567", ip) && is_at("[::ffff:127.0.0.1]:4567", ip));
        assert!(!is_at("127.0.0.2:4567", ip) && !is_at("nowhere", ip));
        assert!(is_elsewhere("127.0.0.2:4567", ip) && is_elsewhere("[::1]:4567", ip));
        assert!(!is_elsewhere("127.0.0.1:1", ip));
        assert!(!is_elsewhere("a-name:4567", ip), "its link finds out");
    }
}

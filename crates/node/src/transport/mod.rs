//! Connections to the other members (the peers).
//!
//! Every connection carries messages one way, from the member that opened it. To each peer there
//! are two: the control lane and the bulk lane, so that a vote or an acknowledgement never waits
//! for data. Each has a thread of its own here ([`link`]) and one at the other side ([`inbound`]).
//! [`discovery`] looks for members that are not known yet.
//!
//! Nothing here decides: messages and changes of connections become events for the core thread. A
//! message is lost when its connection breaks; the protocol repeats what it needs.

mod channel;
mod dial;
mod discovery;
mod inbound;
mod lane_queue;
mod link;
mod log_rate_limit;
mod network;
mod open_channels;
mod outbound_answers;
mod security;
mod session_registry;

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;
use socket2::SockRef;
use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Host, lock};
use synod_tls::TlsError;
use synod_wire::{FrameLimits, Hello, HelloReply, Lane, LocalIdentity, PeerMessage, RefuseReason};

use crate::config::NodeError;
use crate::threads::core::Incoming;
use crate::threads::spawn;
use crate::wait::ByteBudget;
use link::Link;
use log_rate_limit::LogRateLimit;
pub(crate) use network::DriverNetwork;
use outbound_answers::OutboundAnswers;
pub(crate) use security::Security;
use session_registry::SessionRegistry;

/// Inbound connections at a time; more are refused.
const INBOUND_MAX: usize = 512;

/// How long a caller that is not in the allowlist waits for the answer to a call of this member to
/// it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Members that are called at a time. Members of no configuration count until they are removed.
const LINKS_MAX: usize = 256;

/// A connection of another thread, kept so that it can be closed.
struct OpenConnection {
    stream: TcpStream,
    /// The peer's group, once it has said so.
    group: Option<GroupId>,
}

/// The connections of a member, and what their threads share.
pub(crate) struct Transport {
    identity: Mutex<LocalIdentity>,
    /// Where this member listens, as peers see it.
    address: String,
    limits: FrameLimits,
    security: Security,
    log_limit: Mutex<LogRateLimit>,
    events: Sender<Incoming>,
    inbound_budget: Arc<ByteBudget>,
    host: Arc<dyn Host>,
    links: Mutex<HashMap<MemberId, Arc<Link>>>,
    sessions: SessionRegistry,
    answers: OutboundAnswers,
    /// Connections opened by others, and those opened by this member until the handshake is over.
    open: Mutex<HashMap<u64, OpenConnection>>,
    next_open: AtomicU64,
    /// Number of the next outbound connection, see [`Event::LinkUp`].
    next_connection: AtomicU64,
    listener: TcpListener,
    stopping: AtomicBool,
    /// Separated from all others on purpose.
    isolated: AtomicBool,
    /// Whether the group is still to be found.
    discovering: Mutex<bool>,
    discovery_changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What [`Transport::start`] needs.
pub(crate) struct TransportStart {
    pub(crate) identity: LocalIdentity,
    pub(crate) address: String,
    pub(crate) listener: TcpListener,
    pub(crate) security: Security,
    pub(crate) seeds: Vec<String>,
    pub(crate) events: Sender<Incoming>,
    pub(crate) inbound_budget: Arc<ByteBudget>,
    pub(crate) host: Arc<dyn Host>,
}

impl Transport {
    /// Listens, and looks for the group at the seeds.
    pub(crate) fn start(start: TransportStart) -> Result<Arc<Transport>, NodeError> {
        let TransportStart {
            identity,
            address,
            listener,
            security,
            seeds,
            events,
            inbound_budget,
            host,
        } = start;
        let transport = Arc::new(Transport {
            identity: Mutex::new(identity),
            address,
            limits: FrameLimits::default(),
            security,
            log_limit: Mutex::default(),
            events,
            inbound_budget,
            host,
            links: Mutex::new(HashMap::new()),
            sessions: SessionRegistry::default(),
            answers: OutboundAnswers::default(),
            open: Mutex::new(HashMap::new()),
            next_open: AtomicU64::new(1),
            next_connection: AtomicU64::new(1),
            listener,
            stopping: AtomicBool::new(false),
            isolated: AtomicBool::new(false),
            discovering: Mutex::new(true),
            discovery_changed: Condvar::new(),
            threads: Mutex::new(Vec::new()),
        });
        let accepting = transport.clone();
        transport.run("synod-accept", move || inbound::accept(&accepting))?;
        let discovering = transport.clone();
        transport.run("synod-seek", move || discovery::run(&discovering, &seeds))?;
        Ok(transport)
    }

    /// Queues a message. It is lost if the member is not known or not connected. Never waits.
    pub(crate) fn send(&self, to: MemberId, message: PeerMessage) {
        if let Some(link) = self.link(to) {
            link.send(message, None, &*self.host);
        }
    }

    /// As [`Transport::send`], but only over this connection: a message never overtakes an earlier
    /// one that was lost with it.
    pub(crate) fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        if let Some(link) = self.link(to) {
            link.send(message, Some(connection), &*self.host);
        }
    }

    /// Whether a process with this member's identity answers at an address.
    pub(crate) fn finds_duplicate_at(&self, address: &str) -> bool {
        let answer = dial::dial(self, address, Lane::Control);
        matches!(
            answer,
            Ok((
                _,
                HelloReply::Refused {
                    reason: RefuseReason::DuplicateIdentity,
                    ..
                }
            ))
        )
    }

    /// What its operator can do about a process that is not the only one of its member.
    pub(crate) fn duplicate_identity_text(&self) -> String {
        session_registry::duplicate_identity_text(lock(&self.identity).member)
    }

    /// Whether this member keeps a connection to that one, or tries to.
    pub(crate) fn knows(&self, member: MemberId) -> bool {
        lock(&self.links).contains_key(&member)
    }

    /// An address refuses this member.
    fn refused(&self, address: &str, reason: RefuseReason, text: &str) {
        self.send_event(Event::SeedRefused {
            text: format!("{address} refuses this member: {text}"),
            is_final: discovery::is_final(reason),
        });
    }

    /// A member that this member calls refuses it.
    fn refused_by_member(&self, by: MemberId, address: &str, reason: RefuseReason, text: &str) {
        if reason == RefuseReason::DuplicateIdentity {
            let text = self.duplicate_identity_text();
            return self.send_event(Event::DuplicateIdentity { by, text });
        }
        self.refused(address, reason, text);
    }

    /// Whether this member exchanges messages with a member's process at this host, in both
    /// directions. (A peer that was only refused inbound would still receive the group's data.)
    fn deals_with(&self, member: MemberId, session: SessionId, ip: IpAddr) -> bool {
        let peer = (member, session, ip);
        self.host.allows(&ip.to_string()) || self.answers.has_answered(peer, ANSWER_LIMIT)
    }

    /// Keeps connections to this member from now on, at this address.
    pub(crate) fn connect(self: &Arc<Self>, member: MemberId, address: &str) {
        let mut links = lock(&self.links);
        if self.is_stopping() {
            return;
        }
        if let Some(link) = links.get(&member) {
            link.set_address(address);
            return;
        }
        if links.len() >= LINKS_MAX {
            self.host.log(
                synod_member::Level::Warning,
                &format!("not calling {address}: {LINKS_MAX} members are known already"),
            );
            return;
        }
        let link = Arc::new(Link::new(member, address));
        for lane in [Lane::Control, Lane::Bulk] {
            let (transport, link) = (self.clone(), link.clone());
            let name = format!("synod-out-{}", short(member));
            let closing = link.clone();
            if let Err(error) = self.run(&name, move || link::run(&transport, &link, lane)) {
                closing.close();
                self.host
                    .log(synod_member::Level::Error, &error.to_string());
                return;
            }
        }
        links.insert(member, link);
    }

    /// Closes connections to members that are neither wanted nor connected to this member.
    pub(crate) fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        lock(&self.links).retain(|member, link| {
            let keep = wanted(*member) || link.is_wanted_by_peer();
            if !keep {
                link.close();
            }
            keep
        });
    }

    /// This member belongs to a group from now on.
    pub(crate) fn set_group(&self, group: GroupId) {
        lock(&self.identity).group = group;
        // A peer of another group, or of none that is known, has to repeat the handshake.
        for link in lock(&self.links).values() {
            link.reset_unless(group);
        }
        for open in lock(&self.open).values() {
            if open.group.is_some_and(|other| other != group) {
                let _ = open.stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// See [`Security::reload`].
    pub(crate) fn reload_tls(&self) -> Result<(), TlsError> {
        let closed = self.security.reload()?;
        let summary = self.security.summary();
        let text = match closed {
            0 => summary,
            _ => format!("{summary}; closed {closed} connections by a secret that was removed"),
        };
        self.host.log(synod_member::Level::Info, &text);
        Ok(())
    }

    /// Separates this member from all others, in both directions, or connects it again.
    pub(crate) fn set_isolated(&self, isolated: bool) {
        self.isolated.store(isolated, Ordering::SeqCst);
        for link in lock(&self.links).values() {
            link.reset();
        }
        if isolated {
            for open in lock(&self.open).values() {
                let _ = open.stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::SeqCst)
    }

    /// Ends the search: the group is found.
    pub(crate) fn stop_discovery(&self) {
        *lock(&self.discovering) = false;
        self.discovery_changed.notify_all();
    }

    /// Closes everything and waits for the threads.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stop_discovery();
        self.inbound_budget.close();
        // Wakes the accepting thread; it may have ended already.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for link in lock(&self.links).values() {
            link.close();
        }
        for open in lock(&self.open).values() {
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        // A thread may have started another one before it saw the stop.
        loop {
            let threads = std::mem::take(&mut *lock(&self.threads));
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                // A thread that panicked has printed the reason.
                let _ = thread.join();
            }
        }
    }

    /// Keeps a connection until [`Transport::forget`], so that it can be closed. `None` if it must
    /// not be used: there are too many, or the node stops or is isolated.
    fn remember(&self, stream: &TcpStream, open_max: usize) -> Option<u64> {
        let handle = stream.try_clone().ok()?;
        let id = self.next_open.fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.open);
        // Checked under the lock: a thread that stops or isolates this node closes what it finds
        // there.
        if self.is_stopping() || self.is_isolated() || open.len() >= open_max {
            return None;
        }
        let (stream, group) = (handle, None);
        open.insert(id, OpenConnection { stream, group });
        Some(id)
    }

    fn forget(&self, id: u64) {
        lock(&self.open).remove(&id);
    }

    /// Notes the group of the peer at the other end. False if this member is in another group.
    fn introduced(&self, id: u64, group: GroupId) -> bool {
        if let Some(open) = lock(&self.open).get_mut(&id) {
            open.group = Some(group);
        }
        let own = lock(&self.identity).group;
        own == GroupId::NONE || group == GroupId::NONE || own == group
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn run(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), NodeError> {
        let thread = spawn(name, body)?;
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    fn hello(&self, lane: Lane) -> Hello {
        let identity = lock(&self.identity);
        Hello {
            versions: identity.versions,
            group: identity.group,
            cluster_name: identity.cluster_name.clone(),
            member: identity.member,
            session: identity.session,
            name: identity.name.clone(),
            address: self.address.clone(),
            lane,
        }
    }

    fn link(&self, member: MemberId) -> Option<Arc<Link>> {
        lock(&self.links).get(&member).cloned()
    }

    /// As [`Transport::send_event`], of an event that took bytes from the inbound budget.
    fn send_event_with_bytes(&self, event: Event, bytes: usize) {
        let _ = self.events.send(Incoming::with_bytes(event, bytes));
    }

    fn send_event(&self, event: Event) {
        // The core thread may have ended; then this thread ends soon.
        let _ = self.events.send(event.into());
    }
}

/// The start of a member's id: thread names have 15 characters.
fn short(member: MemberId) -> String {
    member.to_string()[..4].to_owned()
}

//! Connections to the other members.
//!
//! Every connection carries messages one way, from the member that opened it. To each peer there are
//! two: the control lane and the bulk lane, so that a vote or an acknowledgement never waits behind
//! data. Each has a thread of its own here ([`link`]) and one at the other side ([`inbound`]).
//! Members not known yet are looked for by [`seek`].

mod called;
mod callers;
mod channel;
mod complaints;
mod dial;
mod inbound;
mod lane_queue;
mod link;
mod security;
mod seek;

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

use crate::budget::ByteBudget;
use crate::config::NodeError;
use crate::core_thread::Incoming;
use crate::threads::spawn;
use called::Called;
use callers::Callers;
use complaints::Complaints;
use link::Link;
pub(crate) use security::Security;

/// Connections served at a time; more are refused.
const INBOUND_MAX: usize = 512;

/// How long a caller who is not allowed to call waits for the end of a call to it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Members connected to at a time; more are not called. Strangers count until they go.
const LINKS_MAX: usize = 256;

/// A connection, kept at hand so that it can be closed.
struct Open {
    stream: TcpStream,
    /// The peer's group, once it has said so.
    group: Option<GroupId>,
}

/// What the threads of this module share.
pub(crate) struct Peers {
    identity: Mutex<LocalIdentity>,
    /// Where this member listens, as peers see it.
    address: String,
    limits: FrameLimits,
    security: Security,
    complaints: Mutex<Complaints>,
    events: Sender<Incoming>,
    inbound_budget: Arc<ByteBudget>,
    host: Arc<dyn Host>,
    links: Mutex<HashMap<MemberId, Arc<Link>>>,
    callers: Callers,
    called: Called,
    /// Connections opened by others, and by this member while they are greeting.
    open: Mutex<HashMap<u64, Open>>,
    next_open: AtomicU64,
    /// See [`Event::LinkUp`].
    next_connection: AtomicU64,
    listener: TcpListener,
    stopping: AtomicBool,
    /// Cut off from everybody on purpose.
    isolated: AtomicBool,
    seeking: Mutex<bool>,
    seek_changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What [`Peers::start`] needs.
pub(crate) struct PeersStart {
    pub(crate) identity: LocalIdentity,
    pub(crate) address: String,
    pub(crate) listener: TcpListener,
    pub(crate) security: Security,
    pub(crate) seeds: Vec<String>,
    pub(crate) events: Sender<Incoming>,
    pub(crate) inbound_budget: Arc<ByteBudget>,
    pub(crate) host: Arc<dyn Host>,
}

impl Peers {
    /// Listens, and looks for the group at the seeds.
    pub(crate) fn start(start: PeersStart) -> Result<Arc<Peers>, NodeError> {
        let PeersStart {
            identity,
            address,
            listener,
            security,
            seeds,
            events,
            inbound_budget,
            host,
        } = start;
        let peers = Arc::new(Peers {
            identity: Mutex::new(identity),
            address,
            limits: FrameLimits::default(),
            security,
            complaints: Mutex::default(),
            events,
            inbound_budget,
            host,
            links: Mutex::new(HashMap::new()),
            callers: Callers::default(),
            called: Called::default(),
            open: Mutex::new(HashMap::new()),
            next_open: AtomicU64::new(1),
            next_connection: AtomicU64::new(1),
            listener,
            stopping: AtomicBool::new(false),
            isolated: AtomicBool::new(false),
            seeking: Mutex::new(true),
            seek_changed: Condvar::new(),
            threads: Mutex::new(Vec::new()),
        });
        let accepting = peers.clone();
        peers.run("synod-accept", move || inbound::accept(&accepting))?;
        let seeking = peers.clone();
        peers.run("synod-seek", move || seek::run(&seeking, &seeds))?;
        Ok(peers)
    }

    /// Sends a message, if the member is known and reachable; otherwise it is lost, as in any
    /// network. Never waits.
    pub(crate) fn send(&self, to: MemberId, message: PeerMessage) {
        if let Some(link) = self.link(to) {
            link.send(message, None, &*self.host);
        }
    }

    /// As [`Peers::send`], but only over this connection: what was meant for it does not overtake
    /// what got lost with it.
    pub(crate) fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        if let Some(link) = self.link(to) {
            link.send(message, Some(connection), &*self.host);
        }
    }

    /// Whether a process with this member's identity answers at an address.
    pub(crate) fn has_twin_at(&self, address: &str) -> bool {
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

    /// Tells a process what to do that is not the only one of its member.
    pub(crate) fn twin_text(&self) -> String {
        callers::twin_text(lock(&self.identity).member)
    }

    /// Whether there is, or is to be, a connection to this member.
    pub(crate) fn knows(&self, member: MemberId) -> bool {
        lock(&self.links).contains_key(&member)
    }

    /// This member is not let in somewhere.
    fn refused(&self, address: &str, reason: RefuseReason, text: &str) {
        if reason == RefuseReason::DuplicateIdentity {
            return self.tell(Event::DuplicateIdentity(self.twin_text()));
        }
        self.tell(Event::SeedRefused {
            text: format!("{address} refuses this member: {text}"),
            is_final: seek::is_final(reason),
        });
    }

    /// Whether this server has to do with a member's process at this host: whether it may call, and is
    /// called. (Who was only not listened to would go on getting the group's data.)
    fn deals_with(&self, member: MemberId, session: SessionId, ip: IpAddr) -> bool {
        let peer = (member, session, ip);
        self.host.allows(&ip.to_string()) || self.called.has_answered(peer, ANSWER_LIMIT)
    }

    /// Keeps a connection to this member from now on, at this address.
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
            let (peers, link) = (self.clone(), link.clone());
            let name = format!("synod-out-{}", short(member));
            let closing = link.clone();
            if let Err(error) = self.run(&name, move || link::run(&peers, &link, lane)) {
                closing.close();
                self.host
                    .log(synod_member::Level::Error, &error.to_string());
                return;
            }
        }
        links.insert(member, link);
    }

    /// Drops connections to members that are neither wanted nor connected to us.
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
        // Whoever is in another group, or in none that is known, has to introduce itself again.
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
        self.security.reload()?;
        self.host
            .log(synod_member::Level::Info, &self.security.summary());
        Ok(())
    }

    /// Cuts this member off from all others, in both directions, or lets it have contact again.
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

    /// The group is found.
    pub(crate) fn stop_seeking(&self) {
        *lock(&self.seeking) = false;
        self.seek_changed.notify_all();
    }

    /// Closes everything and waits for the threads.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stop_seeking();
        self.inbound_budget.close();
        // Wakes the accepting thread; it may have ended already.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for link in lock(&self.links).values() {
            link.close();
        }
        for open in lock(&self.open).values() {
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        // A thread may have started another one before it saw that all is over.
        loop {
            let threads = std::mem::take(&mut *lock(&self.threads));
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                // A thread that panicked has said so.
                let _ = thread.join();
            }
        }
    }

    /// Keeps a connection at hand until [`Peers::forget`]; `None` if it is not to be used: there are
    /// too many, or the node stops.
    fn remember(&self, stream: &TcpStream, open_max: usize) -> Option<u64> {
        let handle = stream.try_clone().ok()?;
        let id = self.next_open.fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.open);
        // Checked under the lock: whoever stops or isolates this node closes what it finds there.
        if self.is_stopping() || self.is_isolated() || open.len() >= open_max {
            return None;
        }
        let (stream, group) = (handle, None);
        open.insert(id, Open { stream, group });
        Some(id)
    }

    fn forget(&self, id: u64) {
        lock(&self.open).remove(&id);
    }

    /// The peer at the other end belongs to this group. False if that is the wrong one meanwhile.
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

    /// As [`Peers::tell`], of something that took bytes from the inbound budget.
    fn tell_weighing(&self, event: Event, bytes: usize) {
        let _ = self.events.send(Incoming::weighing(event, bytes));
    }

    fn tell(&self, event: Event) {
        // The core thread may have ended; then this thread will soon.
        let _ = self.events.send(event.into());
    }
}

/// Thread names have 15 characters.
fn short(member: MemberId) -> String {
    member.to_string()[..4].to_owned()
}

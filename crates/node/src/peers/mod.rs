//! Connections to the other members.
//!
//! Every connection carries messages one way, from the member that opened it. To each peer there are
//! two: the control lane and the bulk lane, so that a vote or an acknowledgement never waits behind
//! data. Each has a thread of its own here ([`link`]) and one at the other side ([`inbound`]).
//! Members not known yet are looked for by [`seek`].

mod dial;
mod inbound;
mod link;
mod seek;

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use socket2::SockRef;
use synod_consensus::{GroupId, MemberId};
use synod_wire::{FrameLimits, Hello, Lane, LocalIdentity, PeerMessage};

use crate::budget::ByteBudget;
use crate::config::NodeError;
use crate::driver::Event;
use crate::host::Host;
use crate::shared::lock;
use crate::threads::spawn;
use link::Link;

/// Connections served at a time; more are refused.
const INBOUND_MAX: usize = 512;

/// What the threads of this module share.
pub(crate) struct Peers {
    identity: Mutex<LocalIdentity>,
    /// Where this member listens, as peers see it.
    address: String,
    limits: FrameLimits,
    events: Sender<Event>,
    inbound_budget: Arc<ByteBudget>,
    host: Arc<dyn Host>,
    links: Mutex<HashMap<MemberId, Arc<Link>>>,
    inbound: Mutex<HashMap<u64, TcpStream>>,
    next_inbound: AtomicU64,
    listener: TcpListener,
    stopping: AtomicBool,
    seeking: Mutex<bool>,
    seek_changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What [`Peers::start`] needs.
pub(crate) struct PeersStart {
    pub(crate) identity: LocalIdentity,
    pub(crate) address: String,
    pub(crate) listener: TcpListener,
    pub(crate) seeds: Vec<String>,
    pub(crate) events: Sender<Event>,
    pub(crate) inbound_budget: Arc<ByteBudget>,
    pub(crate) host: Arc<dyn Host>,
}

impl Peers {
    /// Listens, and looks for the group at the seeds.
    pub(crate) fn start(start: PeersStart) -> Result<Arc<Peers>, NodeError> {
        let PeersStart { identity, address, listener, seeds, events, inbound_budget, host } = start;
        let peers = Arc::new(Peers {
            identity: Mutex::new(identity),
            address,
            limits: FrameLimits::default(),
            events,
            inbound_budget,
            host,
            links: Mutex::new(HashMap::new()),
            inbound: Mutex::new(HashMap::new()),
            next_inbound: AtomicU64::new(1),
            listener,
            stopping: AtomicBool::new(false),
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
        let link = lock(&self.links).get(&to).cloned();
        if let Some(link) = link {
            link.send(message, &*self.host);
        }
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
        let link = Arc::new(Link::new(member, address));
        for lane in [Lane::Control, Lane::Bulk] {
            let (peers, link) = (self.clone(), link.clone());
            let name = format!("synod-out-{}", short(member));
            if let Err(error) = self.run(&name, move || link::run(&peers, &link, lane)) {
                self.host.log(crate::host::Level::Error, &error.to_string());
                return;
            }
        }
        links.insert(member, link);
    }

    /// Drops connections to members that are neither wanted nor connected to us.
    pub(crate) fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        lock(&self.links).retain(|member, link| {
            let keep = wanted(*member) || link.has_inbound();
            if !keep {
                link.close();
            }
            keep
        });
    }

    /// This member belongs to a group from now on.
    pub(crate) fn set_group(&self, group: GroupId) {
        lock(&self.identity).group = group;
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
        let _ = SockRef::from(&self.listener).shutdown(std::net::Shutdown::Both);
        for link in lock(&self.links).values() {
            link.close();
        }
        for stream in lock(&self.inbound).values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
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

    fn tell(&self, event: Event) {
        // The core thread may have ended; then this thread will soon.
        let _ = self.events.send(event);
    }
}

/// Thread names have 15 characters.
fn short(member: MemberId) -> String {
    member.to_string()[..4].to_owned()
}

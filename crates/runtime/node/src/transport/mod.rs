//! Connections to the other members (the peers).
//!
//! Every connection carries messages one way, from the member that opened it. To each peer there
//! are two: the control lane and the bulk lane, so that a vote or an acknowledgement never waits
//! for data. Each has a thread of its own here ([`link`]) and one at the other side ([`inbound`]).
//! Small messages do not need the thread here: the thread that drives writes them ([`lane`]).
//! [`discovery`] looks for members that are not known yet. [`pings`] measure how far away the known
//! ones are.
//!
//! Nothing here decides: messages and changes of connections become events for the driver. A
//! message is lost when its connection breaks; the protocol repeats what it needs.

mod address_limit;
mod channel;
mod compression;
mod dial;
mod discovery;
mod driver_network;
mod encryption;
pub mod galera;
mod greeting;
mod inbound;
mod known_peers;
mod lane;
mod link;
mod open_connections;
mod pings;
mod session_registry;
mod stranger_limits;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Shutdown, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;
use synod_consensus::{MemberId, SessionId};
use synod_member::{Event, FailedCall, Host, KnownPeer, Level, Setting, SignOfLife, lock};
use synod_tls::{PeerCredential, TlsError};
use synod_wire::{FrameLimits, Hello, HelloReply, Lane, LocalIdentity, PeerMessage, RefuseReason};

use crate::config::NodeError;
use crate::threads::core::{Events, Incoming};
use crate::threads::spawn;
use crate::wait::{BudgetShare, ByteBudget, EventCount, InboundBudgets};
pub use address_limit::{CallSource, oldest_of_fullest_address};
use compression::CompressionTotals;
pub use compression::{CompressionChoice, CompressionStatus};
use dial::{CallLimits, DialError};
use discovery::OutboundAnswers;
pub(crate) use discovery::group_at;
pub(crate) use driver_network::DriverNetwork;
pub(crate) use encryption::ConnectionEncryption;
pub use inbound::{CommandConnection, CommandHandler};
use known_peers::{Admission, KnownPeers};
use lane::{PushResult, Pushed};
use link::{CallBacks, Link, Target};
use open_connections::OpenConnections;
pub(crate) use pings::PingThread;
use pings::Pings;
pub use pings::{ClockOffset, LinkStatus};
use session_registry::SessionRegistry;
pub use stranger_limits::LogRateLimit;

/// How long a caller that is not in the allowlist waits for the answer to a call of this member to
/// it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Members that are called at a time by the driver's order.
const LINKS_MAX: usize = 256;

/// Turns that a thread drives at a time that has received messages: it reads nothing meanwhile.
const TURNS_MAX: usize = 4;

/// Bound on the bytes of received messages of strangers that are not handled yet, all together.
const STRANGER_BYTES_MAX: usize = 1 << 20;

/// The connections of a member, and what their threads share.
pub(crate) struct Transport {
    identity: Mutex<LocalIdentity>,
    address: String,
    limits: FrameLimits,
    encryption: ConnectionEncryption,
    log_limit: Mutex<LogRateLimit<IpAddr>>,
    /// About members that the driver has called: room of their own, which no caller uses up.
    link_log_limit: Mutex<LogRateLimit<MemberId>>,
    events: Arc<Events>,
    inbound_budgets: InboundBudgets,
    stranger_budget: Arc<ByteBudget>,
    host: Arc<dyn Host>,
    compression: CompressionChoice,
    compression_totals: CompressionTotals,
    known: KnownPeers,
    links: Mutex<HashMap<MemberId, Arc<Link>>>,
    /// Lanes with messages of the present turn.
    unsent: Mutex<Vec<(Arc<Link>, Lane)>>,
    call_backs: Mutex<CallBacks>,
    sessions: Arc<SessionRegistry>,
    answers: OutboundAnswers,
    pings: Pings,
    /// Connections opened by others, and those opened by this member until the handshake is over.
    connections: Arc<OpenConnections>,
    /// Number of the next outbound connection, see [`Event::LinkUp`].
    next_connection: AtomicU64,
    /// Serves clients; none until the host has given one.
    command_handler: OnceLock<Arc<CommandHandler>>,
    listener: TcpListener,
    stopping: AtomicBool,
    /// Separated from all others on purpose.
    isolated: AtomicBool,
    /// Counts up when the group is found; stopped with this transport.
    group_found: EventCount,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct TransportStart {
    pub(crate) identity: LocalIdentity,
    pub(crate) address: String,
    pub(crate) listener: TcpListener,
    pub(crate) encryption: ConnectionEncryption,
    pub(crate) seeds: Vec<String>,
    pub(crate) events: Arc<Events>,
    pub(crate) inbound_budgets: InboundBudgets,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) compression: CompressionChoice,
    /// Microseconds since 1970.
    pub(crate) wall_clock: fn() -> u64,
}

impl Transport {
    /// Listens, and looks for the group at the seeds.
    pub(crate) fn start(start: TransportStart) -> Result<Arc<Transport>, NodeError> {
        let TransportStart {
            identity,
            address,
            listener,
            encryption,
            seeds,
            events,
            inbound_budgets,
            host,
            compression,
            wall_clock,
        } = start;
        let transport = Arc::new(Transport {
            identity: Mutex::new(identity),
            address,
            limits: FrameLimits::default(),
            encryption,
            compression,
            compression_totals: CompressionTotals::default(),
            log_limit: Mutex::default(),
            link_log_limit: Mutex::default(),
            events,
            inbound_budgets,
            stranger_budget: Arc::new(ByteBudget::new(STRANGER_BYTES_MAX)),
            host,
            known: KnownPeers::default(),
            links: Mutex::new(HashMap::new()),
            unsent: Mutex::default(),
            call_backs: Mutex::default(),
            sessions: Arc::default(),
            answers: OutboundAnswers::default(),
            pings: Pings::new(wall_clock),
            connections: Arc::default(),
            next_connection: AtomicU64::new(1),
            command_handler: OnceLock::new(),
            listener,
            stopping: AtomicBool::new(false),
            isolated: AtomicBool::new(false),
            group_found: EventCount::default(),
            threads: Mutex::new(Vec::new()),
        });
        let accepting = transport.clone();
        transport.run("synod-accept", move || inbound::accept(&accepting))?;
        let discovering = transport.clone();
        transport.run("synod-seek", move || discovery::run(&discovering, &seeds))?;
        Ok(transport)
    }

    /// Sends a message, by the thread of its lane. It is lost if the member is not known or not
    /// connected. Never waits.
    pub(crate) fn send(&self, to: MemberId, message: PeerMessage) {
        let lane = message.lane();
        if let Some(link) = self.push(to, message, None) {
            link.lane(lane).send_by_thread();
        }
    }

    /// Like [`Transport::send`], but with the others of this turn, see [`Transport::end_turn`];
    /// only over this connection, if one is given: a message never overtakes an earlier one that
    /// was lost with it.
    fn send_in_turn(&self, to: MemberId, connection: Option<u64>, message: PeerMessage) {
        let lane = message.lane();
        let Some(link) = self.push(to, message, connection) else {
            return;
        };
        let mut unsent = lock(&self.unsent);
        let is_noted = |(to, at): &(Arc<Link>, Lane)| Arc::ptr_eq(to, &link) && *at == lane;
        if !unsent.iter().any(is_noted) {
            unsent.push((link, lane));
        }
    }

    /// Sends the messages of a turn: what the sockets take at once in this thread, the rest by the
    /// threads of the lanes. Never waits.
    pub(crate) fn end_turn(&self) {
        let unsent = std::mem::take(&mut *lock(&self.unsent));
        for (link, lane) in unsent {
            let pushed = link.lane(lane).send_now(|| !self.is_isolated());
            self.note_sent(&link, pushed);
        }
    }

    /// Queues a message for its lane; none if it is lost.
    fn push(&self, to: MemberId, message: PeerMessage, over: Option<u64>) -> Option<Arc<Link>> {
        let link = self.link(to)?;
        match link.push(message, over) {
            PushResult::Queued => return Some(link),
            PushResult::NotConnected => {}
            PushResult::Full => {
                let why = "does not read its messages: closing its connection";
                let text = || format!("member {} {why}", link.member());
                self.log_of_link(&link, Level::Warning, why, text);
            }
        }
        None
    }

    /// Counts what was sent, and logs why messages could not be encoded.
    fn note_sent(&self, link: &Link, pushed: Pushed) {
        self.compression_totals.add(pushed.bytes);
        for error in pushed.errors {
            let why = error.to_string();
            let text = || format!("message not sent: {why}");
            self.log_of_link(link, Level::Error, &why, text);
        }
    }

    /// Whether a process with this member's identity answers at an address.
    pub(crate) fn finds_duplicate_at(&self, address: &str) -> bool {
        let answer = dial::dial(self, &Target::at(address), Lane::Control);
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

    /// The other process that answers at this member's own address, if one does; a part of a
    /// sentence. Members without the same credentials, and this one where its own host is not in
    /// its allowlist, cannot be told apart here.
    pub(crate) fn other_at_own_address(&self) -> Option<String> {
        let own = lock(&self.identity).member;
        let target = Target {
            limits: CallLimits::AT_START,
            ..Target::at(&self.address)
        };
        match dial::dial(self, &target, Lane::Control) {
            Ok((_, HelloReply::Welcome { member, name, .. })) => {
                (member != own).then(|| format!("the member {name}"))
            }
            Ok((_, HelloReply::Refused { reason, text })) => match reason {
                RefuseReason::WrongGroup
                | RefuseReason::WrongClusterName
                | RefuseReason::UnknownVersion => Some(format!("another member ({text})")),
                RefuseReason::NotAllowed
                | RefuseReason::Busy
                | RefuseReason::Self_
                | RefuseReason::DuplicateIdentity => None,
            },
            Err(DialError::Connect(error)) => {
                let text = format!(
                    "nothing answers at {} when called from here ({error}): {} of this member, at \
                     which the others have to reach it",
                    self.address,
                    self.host.setting_name(Setting::MemberAddress),
                );
                self.host.log(Level::Info, &text);
                None
            }
            Err(_) => None,
        }
    }

    /// Advice to the operator of a process that is not the only one of this member.
    pub(crate) fn duplicate_identity_text(&self) -> String {
        session_registry::duplicate_identity_text(lock(&self.identity).member)
    }

    fn call_failed(&self, address: &str, member: Option<MemberId>, why: String, sign: SignOfLife) {
        // A node that stops or is isolated ends its calls itself.
        if self.may_open() {
            self.send_event(Event::CallFailed(FailedCall {
                address: address.to_owned(),
                member,
                why,
                sign,
            }));
        }
    }

    fn refused(&self, address: &str, member: Option<MemberId>, reason: RefuseReason, text: &str) {
        let sign = match reason {
            RefuseReason::Self_ => SignOfLife::OtherMember(lock(&self.identity).member),
            _ if discovery::is_final(reason) => SignOfLife::RefusedForGood,
            _ => SignOfLife::Listens,
        };
        let why = format!("refuses this member: {text}");
        self.call_failed(address, member, why, sign);
    }

    fn refused_by_member(&self, by: MemberId, address: &str, reason: RefuseReason, text: &str) {
        if reason == RefuseReason::DuplicateIdentity {
            let text = self.duplicate_identity_text();
            return self.send_event(Event::DuplicateIdentity { by, text });
        }
        self.refused(address, Some(by), reason, text);
    }

    /// Whether this member exchanges messages with a member's process at this host, in both
    /// directions. (A peer that was only refused inbound would still receive the group's data.)
    fn deals_with(&self, member: MemberId, session: SessionId, ip: IpAddr) -> bool {
        let peer = (member, session, ip);
        self.host.allows(&ip.to_string()) || self.answers.has_answered(peer, ANSWER_LIMIT)
    }

    fn objection(&self, member: MemberId, shown: &PeerCredential) -> Option<String> {
        if !self.encryption.accepts(shown) {
            return Some(
                "the secret that it was opened with has been removed meanwhile".to_owned(),
            );
        }
        let takes_clear = self.encryption.takes_clear();
        self.known.objection(member, shown, takes_clear)
    }

    /// Present class of a connection in a member's name, by what it shows.
    fn admission(&self, member: MemberId, shown: &PeerCredential) -> Admission {
        if self.objection(member, shown).is_some() {
            Admission::Refused
        } else if self.known.has(member) {
            Admission::Known
        } else {
            Admission::Stranger
        }
    }

    /// The members that may exchange messages with this one from now on. All others are strangers.
    /// Open connections are judged again: one may have been opened in a member's name before this
    /// member knew what that one is bound to.
    fn set_known(&self, known: &BTreeMap<MemberId, KnownPeer>) {
        // The driver names them often, and seldom others.
        if self.known.set(known) {
            self.judge_again();
        }
    }

    /// Judges the open connections of both directions; how many it closes.
    fn judge_again(&self) -> usize {
        let inbound = self
            .connections
            .judge_again(|member, shown| self.admission(member, shown));
        let clients = self
            .connections
            .close_clients_unless(|shown| self.encryption.accepts(shown));
        let outbound = lock(&self.links)
            .values()
            .map(|link| link.reset_if_shown(|shown| self.objection(link.member(), shown).is_some()))
            .sum::<usize>();
        inbound + clients + outbound
    }

    /// Keeps connections to this member from now on, at this address.
    fn connect(self: &Arc<Self>, member: MemberId, address: &str) {
        let mut links = lock(&self.links);
        if let Some(link) = links.get(&member) {
            link.order_at(address);
            return;
        }
        if links.values().filter(|link| link.is_ordered()).count() >= LINKS_MAX {
            self.host.log(
                Level::Warning,
                &format!("not calling {address}: {LINKS_MAX} members are known already"),
            );
            return;
        }
        self.start_link(&mut links, Arc::new(Link::ordered(member, address)));
    }

    fn calls(&self, member: MemberId, address: &str) -> bool {
        let link = self.link(member);
        link.is_some_and(|link| link.is_ordered() && link.is_to(address))
    }

    fn start_link(self: &Arc<Self>, links: &mut HashMap<MemberId, Arc<Link>>, link: Arc<Link>) {
        if self.is_stopping() {
            return;
        }
        let member = link.member();
        for lane in [Lane::Control, Lane::Bulk] {
            let (transport, link) = (self.clone(), link.clone());
            let name = format!("synod-out-{}", short(member));
            let closing = link.clone();
            if let Err(error) = self.run(&name, move || link::run(&transport, &link, lane)) {
                closing.close();
                self.host.log(Level::Error, &error.to_string());
                return;
            }
        }
        links.insert(member, link);
    }

    pub(crate) fn reload_tls(&self) -> Result<(), TlsError> {
        self.encryption.reload()?;
        let closed = self.judge_again();
        let summary = self.encryption.summary();
        let text = match closed {
            0 => summary,
            _ => format!("{summary}; closed {closed} connections by a secret that was removed"),
        };
        self.host.log(Level::Info, &text);
        Ok(())
    }

    /// Separates this member from all others, in both directions, or connects it again.
    pub(crate) fn set_isolated(&self, isolated: bool) {
        self.isolated.store(isolated, Ordering::SeqCst);
        for link in lock(&self.links).values() {
            link.reset();
        }
        if isolated {
            self.connections.close_all();
        }
    }

    /// Whether this member exchanges nothing with others, by order of an operator or because its
    /// host has cut itself off. The host may do so in a signal handler, so this is asked before
    /// each message.
    fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::SeqCst) || self.host.is_isolated()
    }

    /// Serves clients by this handler from now on. The first handler stays.
    pub(crate) fn serve_commands(&self, handler: Arc<CommandHandler>) {
        // A node has one host.
        let _ = self.command_handler.set(handler);
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.group_found.stop();
        self.pings.end();
        self.inbound_budgets.close();
        self.stranger_budget.close();
        // Wakes the accepting thread; it may have ended already.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for link in lock(&self.links).values() {
            link.close();
        }
        self.connections.close_all();
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

    /// Whether connections may be opened: the node neither stops nor is isolated.
    fn may_open(&self) -> bool {
        !self.is_stopping() && !self.is_isolated()
    }

    /// Logs what happened with a caller, unless much was logged already ([`LogRateLimit`]).
    fn log_about(&self, ip: IpAddr, level: Level, why: &str, text: impl FnOnce() -> String) {
        self.log_limited(&self.log_limit, ip, level, why, text);
    }

    /// Like [`Transport::log_about`], but about a process that this member calls.
    fn log_of_link(&self, link: &Link, level: Level, why: &str, text: impl FnOnce() -> String) {
        match link.place() {
            Some((source, _)) => self.log_about(source.ip(), level, why, text),
            None => self.log_limited(&self.link_log_limit, link.member(), level, why, text),
        }
    }

    fn log_limited<About: Eq + Hash>(
        &self,
        limit: &Mutex<LogRateLimit<About>>,
        about: About,
        level: Level,
        why: &str,
        text: impl FnOnce() -> String,
    ) {
        // A node that stops or is isolated closes its connections itself.
        if !self.may_open() {
            return;
        }
        let permit = lock(limit).permits(about, why, Instant::now());
        match permit {
            None => {}
            Some(0) => self.host.log(level, &text()),
            Some(omitted) => {
                let text = format!("{} ({omitted} such lines were left out)", text());
                self.host.log(level, &text);
            }
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

    /// Queues an event that took bytes from a budget. The caller owes a [`Transport::drive`].
    fn queue_event(&self, event: Event, lane: Lane, budget: &Arc<ByteBudget>, bytes: usize) {
        let share = BudgetShare::of(budget.clone(), bytes);
        let incoming = Incoming::with_share(event, lane, share);
        self.events.queue(incoming);
    }

    /// Drives what is queued, if no other thread does.
    fn drive(&self) {
        self.events.drive_queued(TURNS_MAX);
    }

    fn send_event(&self, event: Event) {
        // If the driver has stopped, this thread ends soon.
        self.events.send(event.into());
    }

    /// Sends an event that keeps its place among the messages of a lane.
    fn send_event_on(&self, lane: Lane, event: Event) {
        self.events.send(Incoming::on_lane(event, lane));
    }
}

/// The start of a member's id: thread names have 15 characters.
fn short(member: MemberId) -> String {
    member.to_string()[..4].to_owned()
}

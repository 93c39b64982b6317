//! Start of a node: identity, then queues, then threads.
//!
//! 1. Identity: certificates are read, then the log is opened, and the address is listened on; then
//!    the member's core is restored from the log. A log that was copied from another machine is
//!    refused here, before this process takes part in anything. So is a group that would begin
//!    beside one that runs, before the log has a name for it.
//! 2. Queues between the threads, and the budgets that bound the payloads in them.
//! 3. Threads: log, core, catch-up, ping; delivery only when the host asks for it
//!    ([`Node::deliver_after`]), or at once on a member without a database.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, Sender, unbounded};
use synod_consensus::{GroupId, MemberId, SessionId};
use synod_log::{Files, Opened, RealFiles};
use synod_member::{
    Driver, DriverLinks, Host, Job, Level, ReadForPeer, Setting, Shared, Start, StartEntropy,
    StartMode, Storage, Tuning, has_history,
};
use synod_wire::{Hello, Lane, LocalIdentity, OUR_VERSIONS};

use crate::clock::{Clock, wall_us};
use crate::config::{NodeConfig, NodeError};
use crate::node::Node;
use crate::threads::core::{CoreThread, Events};
use crate::threads::delivery::Delivery;
use crate::threads::disk::{CatchUpThread, DiskQueues, LogThread};
use crate::transport::{
    ConnectionEncryption, DriverNetwork, PingThread, Transport, TransportStart, group_at,
};
use crate::wait::{ByteBudget, InboundBudgets};

impl Node {
    /// Opens the log, listens, and takes part. Returns at once; [`Host::joined`] is called when the
    /// group has this member.
    pub fn start(
        config: NodeConfig,
        mode: StartMode,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Node>, NodeError> {
        Node::start_on(Arc::new(RealFiles), config, mode, host)
    }

    /// Like [`Node::start`], with the log on these files.
    pub fn start_on(
        files: Arc<dyn Files>,
        mut config: NodeConfig,
        mode: StartMode,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Node>, NodeError> {
        if mode != StartMode::Join && !config.has_data && !config.keeps_log_only {
            return Err(NodeError::BeginWithoutData);
        }
        // Before the log is opened: a member that should encrypt never takes part without.
        let encryption = ConnectionEncryption::new(config.tls.clone(), &*host)?;
        host.log(Level::Info, &encryption.summary());
        let opened = config.open_log(files, &host)?;
        if mode != StartMode::Join && !has_history(&opened) {
            refuse_beside_other_group(&config, &encryption, &*host)?;
        }
        let listener = listen(&config.listen, &*host)?;
        let endpoint = Endpoint {
            encryption,
            listener,
        };
        let subject = endpoint.encryption.subject();
        let member = Identity::establish(opened, &mut config, subject, mode, &host)?;
        refuse_other_member(&member.start, &config, &*host)?;
        refuse_other_subject(&member.start, &endpoint.encryption, &*host)?;
        let queues = Queues::new(&config);
        let transport = endpoint.start_transport(&config, &member.start, &queues, &host)?;
        let node = Arc::new(Node::new(config, &member, &queues, host, transport));
        if let Err(error) = node.start_threads(member, queues) {
            node.stop();
            return Err(error);
        }
        Ok(node)
    }

    fn new(
        config: NodeConfig,
        member: &Identity,
        queues: &Queues,
        host: Arc<dyn Host>,
        transport: Arc<Transport>,
    ) -> Node {
        let me = member.start.me();
        let reader = member.opened.reader.clone();
        let delivery = Arc::new(Delivery::default());
        let moving = delivery.clone();
        let (written, applied) = (reader.last_index(), config.database.seqno);
        Node {
            me,
            events: queues.events.clone(),
            shared: Arc::new(Shared::new(written, applied, move || moving.moved())),
            delivery,
            reader,
            host,
            transport,
            pending_budget: queues.pending_budget.clone(),
            chunk_budget: queues.chunk_budget.clone(),
            next_action: AtomicU64::new(1),
            next_question: AtomicU64::new(first_question(me.session)),
            threads: Mutex::new(Vec::new()),
            clock: member.clock,
            config,
        }
    }

    fn start_threads(&self, member: Identity, queues: Queues) -> Result<(), NodeError> {
        let Identity {
            start,
            opened,
            clock,
        } = member;
        let log = LogThread {
            clock,
            storage: Storage::new(
                opened.writer,
                self.reader.clone(),
                self.host.clone(),
                self.shared.clone(),
            ),
            jobs: queues.jobs.1,
            events: self.events.clone(),
        };
        let links = DriverLinks {
            peers: Box::new(DriverNetwork(self.transport.clone())),
            disk: Box::new(DiskQueues {
                jobs: queues.jobs.0,
                catch_up: queues.catch_up.0,
            }),
            host: self.host.clone(),
            shared: self.shared.clone(),
            reader: self.reader.clone(),
            observer: None,
        };
        let core = CoreThread {
            driver: Driver::new(start, links, clock.now()),
            clock,
            transport: self.transport.clone(),
            events: queues.events,
            delivery: self.delivery.clone(),
            pending_budget: queues.pending_budget,
            chunk_budget: queues.chunk_budget,
            inbound_budgets: queues.inbound_budgets,
        };
        let catch_up = CatchUpThread {
            requests: queues.catch_up.1,
            reader: self.reader.clone(),
            transport: self.transport.clone(),
            host: self.host.clone(),
            events: self.events.clone(),
        };
        let ping = PingThread {
            transport: self.transport.clone(),
            host: self.host.clone(),
            shared: self.shared.clone(),
        };
        self.run("synod-log", move || log.run())?;
        self.run("synod-core", move || core.run())?;
        self.run("synod-catchup", move || catch_up.run())?;
        self.run("synod-ping", move || ping.run())?;
        if !self.config.has_data {
            self.skip_deliveries()?;
        }
        Ok(())
    }
}

/// The socket on which other members reach this one, and the encryption of its connections.
struct Endpoint {
    encryption: ConnectionEncryption,
    listener: TcpListener,
}

impl Endpoint {
    /// Starts to connect to other members. Fails if one of them is another process with the
    /// identity of this member.
    fn start_transport(
        self,
        config: &NodeConfig,
        start: &Start,
        queues: &Queues,
        host: &Arc<dyn Host>,
    ) -> Result<Arc<Transport>, NodeError> {
        let me = start.me();
        let transport = Transport::start(TransportStart {
            identity: LocalIdentity {
                versions: OUR_VERSIONS,
                group: start.group(),
                cluster_name: config.cluster_name.clone(),
                member: me.member,
                session: me.session,
                name: config.name.clone(),
            },
            address: config.address.clone(),
            listener: self.listener,
            encryption: self.encryption,
            seeds: config.seeds.clone(),
            events: queues.events.clone(),
            inbound_budgets: queues.inbound_budgets.clone(),
            host: host.clone(),
            compression: config.compression,
            wall_clock: wall_us,
        })?;
        let refused = refuse_duplicate(config, start, &transport)
            .and_then(|()| refuse_address_of_other(config, &transport, &**host));
        if let Err(error) = refused {
            transport.stop();
            return Err(error);
        }
        Ok(transport)
    }
}

struct Identity {
    start: Start,
    opened: Opened,
    clock: Clock,
}

impl Identity {
    /// Restores the member from its log, or begins its log. The database's position in `config` is
    /// afterwards what a bootstrap has settled.
    fn establish(
        mut opened: Opened,
        config: &mut NodeConfig,
        certificate: Option<String>,
        mode: StartMode,
        host: &Arc<dyn Host>,
    ) -> Result<Identity, NodeError> {
        let clock = Clock::start();
        let start = Start::new(
            config.member(certificate),
            Tuning::default()
                .for_flushes_every(config.flush_period)
                .for_log_cache_of(config.log.cache_bytes),
            mode,
            draw_entropy()?,
            &mut opened,
            host,
            clock.now(),
        );
        let start = start.map_err(|error| config.explain(error))?;
        config.database = start.database();
        Ok(Identity {
            start,
            opened,
            clock,
        })
    }
}

/// Chunks of large actions that are split off ahead of their way to the leader: as many as may be
/// on their way, and as many more.
const CHUNKS_SPLIT_MAX: usize = 8;

type Queue<T> = (Sender<T>, Receiver<T>);

/// The queues between the threads, and the budgets that bound them.
struct Queues {
    /// To the driver. The budgets bound the payloads in it.
    events: Arc<Events>,
    /// To the log thread: writes and purges, in the driver's order.
    jobs: Queue<Job>,
    /// To the catch-up thread: ranges of entries to read.
    catch_up: Queue<ReadForPeer>,
    pending_budget: Arc<ByteBudget>,
    chunk_budget: Arc<ByteBudget>,
    inbound_budgets: InboundBudgets,
}

impl Queues {
    fn new(config: &NodeConfig) -> Queues {
        let chunk_bytes = CHUNKS_SPLIT_MAX.saturating_mul(config.chunk_bytes);
        let chunk_bytes = chunk_bytes.min(config.pending_bytes / 2);
        Queues {
            events: Arc::new(Events::new()),
            jobs: unbounded(),
            catch_up: unbounded(),
            pending_budget: Arc::new(ByteBudget::new(config.pending_bytes)),
            chunk_budget: Arc::new(ByteBudget::new(chunk_bytes)),
            inbound_budgets: InboundBudgets::default(),
        }
    }
}

fn listen(address: &str, host: &dyn Host) -> Result<TcpListener, NodeError> {
    let error = |source| NodeError::Listen {
        address: address.to_owned(),
        setting: host.setting_name(Setting::ListenAddress),
        source,
    };
    let candidates: Vec<_> = address.to_socket_addrs().map_err(error)?.collect();
    TcpListener::bind(candidates.as_slice()).map_err(error)
}

/// Refuses to begin a group where a member of one with the same name and credentials answers. The
/// question is asked in the name of no member, and before this one listens: its own address may be
/// on its list.
fn refuse_beside_other_group(
    config: &NodeConfig,
    encryption: &ConnectionEncryption,
    host: &dyn Host,
) -> Result<(), NodeError> {
    let hello = Hello {
        versions: OUR_VERSIONS,
        group: GroupId::NONE,
        cluster_name: config.cluster_name.clone(),
        member: MemberId(random_u64()?),
        session: new_session(SystemTime::now(), random_u64()?),
        name: config.name.clone(),
        address: config.address.clone(),
        lane: Lane::Control,
    };
    let found = group_at(encryption, &hello, &config.seeds);
    found.map_or(Ok(()), |(address, name, group)| {
        Err(NodeError::GroupRuns {
            address,
            name,
            group,
            setting: host.setting_name(Setting::GroupAddress),
        })
    })
}

/// A log that was copied to another machine has the address of the original in its configuration.
/// If this member's own identity answers at that address, the original runs.
fn refuse_duplicate(
    config: &NodeConfig,
    start: &Start,
    transport: &Transport,
) -> Result<(), NodeError> {
    let Some(address) = start.configured_address() else {
        return Ok(());
    };
    if address == config.address || !transport.finds_duplicate_at(address) {
        return Ok(());
    }
    Err(NodeError::DuplicateIdentity {
        address: address.to_owned(),
        text: transport.duplicate_identity_text(),
    })
}

/// A member that states the address of another one calls all others and is called by none: it would
/// hear none, as if the group were lost.
fn refuse_address_of_other(
    config: &NodeConfig,
    transport: &Transport,
    host: &dyn Host,
) -> Result<(), NodeError> {
    match transport.other_at_own_address() {
        None => Ok(()),
        Some(other) => Err(NodeError::AddressOfOther {
            address: config.address.clone(),
            setting: host.setting_name(Setting::MemberAddress),
            name: config.name.clone(),
            name_setting: host.setting_name(Setting::MemberName),
            other,
        }),
    }
}

/// Refuses the log of another member. A member with a database would take one without for its own
/// past self, and the reverse. A member without a database has nothing but its name that says whose
/// log it is, so that is not changed by a start.
fn refuse_other_member(
    start: &Start,
    config: &NodeConfig,
    host: &dyn Host,
) -> Result<(), NodeError> {
    let Some((name, has_data)) = start.configured_kind() else {
        return Ok(());
    };
    if has_data != config.has_data {
        return Err(NodeError::OtherKind {
            log_dir: config.log_dir.clone(),
            name: name.to_owned(),
            has_data,
            dir_setting: host.setting_name(Setting::LogDirectory),
        });
    }
    if !has_data && name != config.name {
        return Err(NodeError::OtherMember {
            log_dir: config.log_dir.clone(),
            name: name.to_owned(),
            own_name: config.name.clone(),
            name_setting: host.setting_name(Setting::MemberName),
            dir_setting: host.setting_name(Setting::LogDirectory),
        });
    }
    Ok(())
}

/// Refuses a certificate by which the other members would not know this one: they would refuse
/// every connection, and this member would wait for them without end.
fn refuse_other_subject(
    start: &Start,
    encryption: &ConnectionEncryption,
    host: &dyn Host,
) -> Result<(), NodeError> {
    match (start.configured_certificate(), encryption.subject()) {
        (Some(bound), Some(shown)) if bound != shown => Err(NodeError::OtherSubject {
            bound: bound.to_owned(),
            shown,
            name_setting: host.setting_name(Setting::MemberName),
        }),
        _ => Ok(()),
    }
}

/// An answer to a question of an earlier session must not pass for an answer to this session's.
fn first_question(session: SessionId) -> u64 {
    (session.0 << 32) >> 1
}

const RANDOM_BITS: u32 = 22;

/// The random inputs of a start. The crates below draw nothing by themselves, so that the simulator
/// can repeat what they do.
fn draw_entropy() -> Result<StartEntropy, NodeError> {
    Ok(StartEntropy {
        session: new_session(SystemTime::now(), random_u64()?),
        seed: random_u64()?,
        group: GroupId(random_uuid()?),
    })
}

/// The time in milliseconds, and below it 22 random bits: a member's sessions differ even where a
/// clock is set back, and views list members in the order in which they came
/// ([`synod_member::View::members`]). No other rule depends on a correct clock.
fn new_session(now: SystemTime, random: u64) -> SessionId {
    let since_1970 = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    let number = (ms << RANDOM_BITS) | (random >> (u64::BITS - RANDOM_BITS));
    // Zero means no session.
    SessionId(number.max(1))
}

fn random_u64() -> Result<u64, NodeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // Zero is kept for "none".
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn random_uuid() -> Result<[u8; 16], NodeError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // RFC 4122, version 4.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    const TODAY: u64 = 1_790_000_000_000;

    #[test]
    fn later_sessions_have_larger_numbers() {
        assert!(new_session(at(TODAY), u64::MAX) < new_session(at(TODAY + 1), 0));
        let in_2100 = at(4_102_444_800_000);
        assert!(new_session(at(TODAY), u64::MAX) < new_session(in_2100, 0));
    }

    #[test]
    fn two_sessions_of_one_moment_differ() {
        let (a, b) = (1 << 63, 1 << 42);
        assert_ne!(new_session(at(TODAY), a), new_session(at(TODAY), b));
        assert_ne!(new_session(at(TODAY), 0), new_session(at(TODAY), b));
    }

    #[test]
    fn session_without_a_clock_has_a_number() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_ne!(new_session(before, 0), SessionId(0));
    }
}

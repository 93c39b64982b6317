//! The provider behind the boundary: options, positions, and the present connection.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use synod_node::{
    DatabasePosition, GroupId, KeyType, Limits, LogOptions, Node, NodeConfig, Seqno, StartMode,
    Timing,
};
use wsrep_sys as sys;

use crate::api::{
    AbortOutcome, Callbacks, CertifyOutcome, Gtid, InitArgs, InitError, LogLevel, ProviderApi,
    RecvContext, ReplayContext, StatVar, Status, TrxHandle, TrxMeta, WsFlags,
};
use crate::capabilities::CAPABILITIES;
use crate::connection::{Connection, Received};
use crate::counters::Counters;
use crate::grastate::{self, SavedPosition};
use crate::options::{ClusterUrl, Defaults, Options, Update, key};
use crate::status;
use crate::total_order::Statements;
use crate::transaction::Transactions;

/// A member that belongs to a group waits so long for the others at start, so that a restart of all
/// of them needs nobody's help.
const REJOIN_LIMIT: Duration = Duration::from_secs(600);
/// A disconnect waits so long for what local clients have begun.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Certification history in actions.
const CERTIFICATION_SPAN: u64 = 100_000;

/// See the module.
pub struct Provider {
    args: InitArgs,
    callbacks: Callbacks,
    options: Mutex<Options>,
    position: Mutex<DatabasePosition>,
    connection: RwLock<Option<Arc<Connection>>>,
    counters: Arc<Counters>,
    transactions: Arc<Transactions>,
    statements: Statements,
}

/// Builds the provider from what the server passed to `init`.
///
/// # Errors
/// Wrong options, or an unreadable position file.
pub fn create(args: InitArgs, callbacks: Callbacks) -> Result<Arc<dyn ProviderApi>, InitError> {
    let defaults = Defaults {
        data_dir: args.data_dir.clone(),
        node_address: args.node_address.clone(),
    };
    let (options, update) = Options::new(defaults, &args.options)?;
    log_notices(&callbacks, &update);
    let saved =
        grastate::read(args.data_dir.as_ref()).map_err(|error| InitError::Other(error.into()))?;
    let position = start_position(args.start_position, saved, &callbacks);
    Ok(Arc::new(Provider {
        args,
        callbacks,
        options: Mutex::new(options),
        position: Mutex::new(position),
        connection: RwLock::new(None),
        counters: Arc::default(),
        transactions: Arc::default(),
        statements: Statements::default(),
    }))
}

/// Where the database is. What the engine itself says (`wsrep_start_position`, from
/// `--wsrep-recover`) is better than what was saved at a clean stop.
fn start_position(
    start: Gtid,
    saved: Option<SavedPosition>,
    callbacks: &Callbacks,
) -> DatabasePosition {
    if start.is_defined() {
        return DatabasePosition {
            group: start.group,
            seqno: Seqno(start.seqno),
        };
    }
    let saved = saved.unwrap_or(SavedPosition::UNDEFINED);
    if saved.group != GroupId::NONE && saved.seqno < 0 {
        callbacks.log(
            LogLevel::Info,
            "the last stop was not clean and no wsrep_start_position was given, so it is not known \
             where the database is: a full copy will be asked for. To avoid that, run mariadbd \
             --wsrep-recover first and pass what it prints, as galera_recovery does",
        );
    }
    DatabasePosition {
        group: saved.group,
        seqno: Seqno(saved.seqno),
    }
}

fn log_notices(callbacks: &Callbacks, update: &Update) {
    for notice in &update.notices {
        callbacks.log(LogLevel::Info, &notice.to_string());
    }
}

impl Provider {
    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn log_error(&self, text: impl AsRef<str>) -> Status {
        self.callbacks.log(LogLevel::Error, text.as_ref());
        Status::NodeFail
    }

    fn position(&self) -> DatabasePosition {
        *self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers for the next start where the database is; -1 while that changes.
    fn save_position(&self, group: GroupId, seqno: i64) {
        let position = SavedPosition {
            group,
            seqno,
            safe_to_bootstrap: false,
        };
        if let Err(error) = grastate::write(self.args.data_dir.as_ref(), &position) {
            self.callbacks.log(LogLevel::Error, &error.to_string());
        }
    }

    fn node_config(&self, name: &str, url: &ClusterUrl) -> NodeConfig {
        let options = self.options();
        let listen = options.listen_address();
        let port = listen.port.unwrap_or_default();
        let mut host = options.text(key::BASE_HOST).to_owned();
        if host.is_empty() {
            host = host_of(&self.args.node_incoming);
        }
        let log_dir = match options.text(key::LOG_DIR) {
            "" => PathBuf::from(&self.args.data_dir),
            dir => PathBuf::from(dir),
        };
        let election = micros(options.duration(key::ELECTION_TIMEOUT));
        NodeConfig {
            name: self.args.node_name.clone(),
            cluster_name: name.to_owned(),
            listen: format!("{}:{port}", listen.host_text()),
            address: if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            },
            incoming: self.args.node_incoming.clone(),
            seeds: url.peers.iter().map(ToString::to_string).collect(),
            log_dir,
            log: LogOptions {
                segment_bytes: options.unsigned(key::LOG_SEGMENT_SIZE),
                cache_bytes: options.unsigned(key::LOG_CACHE_SIZE),
                retain_bytes: options.unsigned(key::LOG_RETAIN_SIZE),
                retain_age: options.duration(key::LOG_RETAIN_AGE),
                ..LogOptions::default()
            },
            timing: Timing {
                heartbeat_us: micros(options.duration(key::HEARTBEAT_PERIOD)),
                promise_us: micros(options.duration(key::LEASE)),
                election_timeout_min_us: election,
                election_timeout_max_us: election * 2,
                ..Timing::default()
            },
            limits: Limits::default(),
            chunk_bytes: usize::try_from(options.unsigned(key::CHUNK_SIZE)).unwrap_or(1 << 20),
            suspect: options.duration(key::EVS_SUSPECT_TIMEOUT),
            pending_bytes: usize::try_from(options.unsigned(key::MAX_PENDING_SIZE))
                .unwrap_or(usize::MAX),
            certification_span: CERTIFICATION_SPAN,
            database: self.position(),
        }
    }

    /// Starts a node and waits until the group has it.
    fn connect_node(
        &self,
        name: &str,
        url: &ClusterUrl,
        donor: &str,
        bootstrap: bool,
    ) -> Result<Arc<Connection>, String> {
        let config = self.node_config(name, url);
        let mode = if bootstrap {
            StartMode::Bootstrap
        } else {
            StartMode::Join
        };
        let queue_bytes =
            usize::try_from(self.options().unsigned(key::APPLY_QUEUE_SIZE)).unwrap_or(usize::MAX);
        let connection = Arc::new(Connection::new(
            self.callbacks.clone(),
            self.counters.clone(),
            self.transactions.clone(),
            donor_list(donor),
            self.position().seqno.0,
            queue_bytes,
        ));
        let node = Node::start(config, mode, connection.clone()).map_err(|e| e.to_string())?;
        connection.set_node(node.clone());
        match self.wait_until_joined(&connection, &node) {
            Ok(()) => Ok(connection),
            Err(why) => {
                node.stop();
                Err(why)
            }
        }
    }

    fn wait_until_joined(&self, connection: &Connection, node: &Node) -> Result<(), String> {
        let is_member = node.status().group != GroupId::NONE;
        let limit = {
            let options = self.options();
            if !options.bool(key::PC_WAIT_PRIM) {
                return Ok(());
            }
            let limit = options.duration(key::PC_WAIT_PRIM_TIMEOUT);
            if is_member {
                limit.max(REJOIN_LIMIT)
            } else {
                limit
            }
        };
        let outcome = connection.wait_for(Instant::now().checked_add(limit), |state| {
            match (&state.joined, &state.failure) {
                (Some(_), _) => Some(Ok(())),
                (None, Some(why)) => Some(Err(why.clone())),
                (None, None) => None,
            }
        });
        outcome.unwrap_or_else(|| {
            Err(format!(
                "the group was not reached within {limit:?} (pc.wait_prim_timeout): is a majority of \
                 its members running, and is wsrep_cluster_address right?"
            ))
        })
    }

    fn with<T>(&self, without: T, with: impl FnOnce(&Connection) -> T) -> T {
        match self.connection() {
            Some(connection) => with(&connection),
            None => without,
        }
    }

    /// What a changed option means for what runs. The rest is read where it is used.
    fn apply_update(&self, update: &Update) {
        log_notices(&self.callbacks, update);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The host part of `host:port`.
fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        "127.0.0.1".to_owned()
    } else {
        host.to_owned()
    }
}

/// `wsrep_sst_donor`: names in order of preference; a comma at the end allows anybody else.
fn donor_list(donor: &str) -> (Vec<String>, bool) {
    let names: Vec<String> = donor
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(str::to_owned)
        .collect();
    let any = names.is_empty() || donor.trim_end().ends_with(',');
    (names, any)
}

const NO_PLACE: CertifyOutcome = CertifyOutcome {
    status: Status::ConnFail,
    meta: None,
};

impl ProviderApi for Provider {
    fn capabilities(&self) -> u32 {
        CAPABILITIES
    }

    fn options_set(&self, text: &str) -> Status {
        let result = self.options().set(text);
        match result {
            Ok(update) => {
                self.apply_update(&update);
                Status::Ok
            }
            Err(error) => self.log_error(error.to_string()),
        }
    }

    fn options_get(&self) -> String {
        self.options().to_text()
    }

    fn connect(&self, name: &str, url: &str, donor: &str, bootstrap: bool) -> Status {
        let base_port = u16::try_from(self.options().int(key::BASE_PORT)).unwrap_or_default();
        let parsed = match ClusterUrl::parse(url, base_port) {
            Ok(parsed) => parsed,
            Err(error) => return self.log_error(error.to_string()),
        };
        let update = self.options().set_from_url(&parsed.options);
        match update {
            Ok(update) => self.apply_update(&update),
            Err(error) => return self.log_error(error.to_string()),
        }
        let bootstrap = bootstrap || parsed.is_bootstrap();
        match self.connect_node(name, &parsed, donor, bootstrap) {
            Ok(connection) => {
                self.save_position(connection.group(), -1);
                *self
                    .connection
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Some(connection);
                Status::Ok
            }
            Err(why) => self.log_error(why),
        }
    }

    fn disconnect(&self) -> Status {
        let Some(connection) = self.connection() else {
            return Status::Ok;
        };
        let Some(node) = connection.node() else {
            return Status::Ok;
        };
        node.leave();
        // Fails what clients wait for, and ends deliveries, before the order ends.
        connection.sequencer.stop();
        node.stop();
        connection
            .sequencer
            .wait_drained(Instant::now() + DRAIN_LIMIT);
        connection.wait_for(None, |state| state.ended.then_some(()));
        let (consistent, in_order) = {
            let state = connection.state();
            (
                state.local != status::LocalState::Inconsistent,
                state.in_order,
            )
        };
        if consistent && in_order {
            let released = connection.sequencer.released();
            let group = connection.group();
            self.save_position(group, released);
            *self.position.lock().unwrap_or_else(PoisonError::into_inner) = DatabasePosition {
                group,
                seqno: Seqno(released),
            };
        }
        Status::Ok
    }

    fn recv(&self, ctx: RecvContext) -> Status {
        self.with(Status::ConnFail, |connection| connection.recv(ctx))
    }

    fn certify(&self, conn: u64, handle: &mut TrxHandle, flags: WsFlags) -> CertifyOutcome {
        self.with(NO_PLACE, |connection| {
            connection.certify(conn, handle, flags)
        })
    }

    fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.commit_order_enter(handle, meta)
        })
    }

    fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
    ) -> Status {
        let isolated = handle.trx_id == sys::WSREP_UNDEFINED_TRX_ID;
        self.with(Status::ConnFail, |connection| {
            connection.commit_order_leave(handle, meta, error, isolated)
        })
    }

    fn release(&self, handle: &mut TrxHandle) -> Status {
        if handle.opaque.is_none() {
            return Status::Ok;
        }
        match self.connection() {
            Some(connection) => connection.release_transaction(handle),
            None => {
                self.transactions.remove(handle);
                Status::Ok
            }
        }
    }

    fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        self.with(Status::TrxFail, |connection| connection.replay(handle, ctx))
    }

    fn abort_certification(&self, bf_seqno: i64, victim: u64) -> AbortOutcome {
        let unknown = AbortOutcome {
            status: Status::Ok,
            victim_seqno: -1,
        };
        self.with(unknown, |connection| connection.abort(bf_seqno, victim))
    }

    fn rollback(&self, _trx: u64) -> Status {
        // Only for streamed transactions, which do not exist yet.
        Status::NotImplemented
    }

    fn append_key(&self, handle: &mut TrxHandle, parts: &[&[u8]], kind: u32) -> Status {
        let Some(kind) = u8::try_from(kind).ok().and_then(KeyType::from_code) else {
            return self.log_error(format!("unknown key type {kind}"));
        };
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        if gathered.must_abort {
            return Status::BfAbort;
        }
        gathered.keys.append(parts, kind);
        Status::Ok
    }

    fn append_data(&self, handle: &mut TrxHandle, data: &[u8], kind: u32) -> Status {
        if kind != sys::WSREP_DATA_ORDERED {
            return Status::NotImplemented;
        }
        let limit = self.options().unsigned(key::REPL_MAX_WS_SIZE);
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        if (gathered.data.len() + data.len()) as u64 > limit {
            return Status::SizeExceeded;
        }
        gathered.data.extend_from_slice(data);
        Status::Ok
    }

    fn sync_wait(&self, upto: Option<Gtid>, timeout_s: i32) -> (Status, Gtid) {
        let timeout = match u64::try_from(timeout_s) {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => self.options().duration(key::REPL_CAUSAL_READ_TIMEOUT),
        };
        let failed = (Status::TrxFail, Gtid::UNDEFINED);
        self.with(failed, |connection| connection.sync_wait(upto, timeout))
    }

    fn last_committed(&self) -> Gtid {
        self.with(Gtid::UNDEFINED, |connection| connection.last_committed())
    }

    fn to_execute_start(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> CertifyOutcome {
        self.with(NO_PLACE, |connection| {
            connection.to_execute_start(&self.statements, conn, keys, action, flags)
        })
    }

    fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.to_execute_end(&self.statements, conn, error)
        })
    }

    fn sst_sent(&self, gtid: Gtid, code: i32) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.copy_sent(gtid, code)
        })
    }

    fn sst_received(&self, gtid: Gtid, code: i32) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.update(|state| state.received = Some(Received { gtid, code }));
            Status::Ok
        })
    }

    fn stats(&self) -> Vec<StatVar> {
        let connection = self.connection();
        status::stat_vars(&crate::status_inputs::gather(
            connection.as_deref(),
            &self.counters,
            &self.transactions,
            self.position(),
        ))
    }

    fn stats_reset(&self) {
        self.counters.reset();
    }

    fn pause(&self) -> i64 {
        self.with(None, |connection| connection.sequencer.pause())
            .unwrap_or(-1)
    }

    fn resume(&self) -> Status {
        self.with(Status::Ok, |connection| {
            connection.sequencer.resume();
            Status::Ok
        })
    }

    fn desync(&self) -> Status {
        self.with(Status::ConnFail, Connection::desync)
    }

    fn resync(&self) -> Status {
        self.with(Status::Ok, Connection::resync)
    }

    fn shutdown(&self) {
        if let Some(connection) = self.connection() {
            connection.sequencer.stop();
            if let Some(node) = connection.node() {
                node.stop();
            }
        }
    }

    fn fenced(&self, _reason: &str, ctx: Option<RecvContext>) {
        let Some(connection) = self.connection() else {
            return;
        };
        connection.update(|state| state.local = status::LocalState::Inconsistent);
        connection.sequencer.stop_broken();
        if let Some(ctx) = ctx {
            connection.show_end(ctx);
        }
    }
}

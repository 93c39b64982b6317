//! The provider behind the boundary: options, positions, and the present connection.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use synod_node::{
    GroupId, InconsistencyPolicy, KeyType, Limits, LogOptions, Node, NodeConfig, NodeStatus,
    OUR_VERSIONS, QuorumLossPolicy, StartMode, Timing,
};
use wsrep_sys as sys;

use crate::api::{
    AbortOutcome, Callbacks, CertifyOutcome, Gtid, InitArgs, InitError, LogLevel, ProviderApi,
    RecvContext, ReplayContext, StatVar, Status, TrxHandle, TrxMeta, WsFlags,
};
use crate::capabilities::CAPABILITIES;
use crate::connection::{Connection, Received, Shared, State};
use crate::counters::Counters;
use crate::options::{ClusterUrl, Defaults, Options, Update, Value, key};
use crate::position::PositionKeeper;
use crate::settings::Settings;
use crate::status;
use crate::stream_ends::StreamEnd;
use crate::transaction::Transactions;

/// Number of the connection that a starting server makes.
const FIRST_SERIAL: u64 = 1;

/// See the module.
pub(crate) struct Provider {
    args: InitArgs,
    callbacks: Callbacks,
    options: Mutex<Options>,
    settings: Arc<Settings>,
    position: Arc<PositionKeeper>,
    /// The present connection, or the last one.
    connection: RwLock<Option<Arc<Connection>>>,
    /// Held during `connect` and `disconnect`.
    changing: Mutex<()>,
    next_serial: AtomicU64,
    counters: Arc<Counters>,
    transactions: Arc<Transactions>,
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
    let data_dir = PathBuf::from(&args.data_dir);
    let position = PositionKeeper::load(data_dir, args.start_position, callbacks.clone())
        .map_err(|error| InitError::Other(error.into()))?;
    let settings = Settings::default();
    settings.update(&options);
    Ok(Arc::new(Provider {
        args,
        callbacks,
        options: Mutex::new(options),
        settings: Arc::new(settings),
        position: Arc::new(position),
        connection: RwLock::new(None),
        changing: Mutex::new(()),
        next_serial: AtomicU64::new(FIRST_SERIAL),
        counters: Arc::default(),
        transactions: Arc::default(),
    }))
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

    fn set_connection(&self, connection: Arc<Connection>) {
        *self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    fn log_error(&self, text: impl AsRef<str>) -> Status {
        self.callbacks.log(LogLevel::Error, text.as_ref());
        Status::NodeFail
    }

    fn node_config(&self, name: &str, url: &ClusterUrl) -> NodeConfig {
        let options = self.options();
        let log_dir = match options.text(key::LOG_DIR) {
            "" => PathBuf::from(&self.args.data_dir),
            dir => PathBuf::from(dir),
        };
        let election = micros(options.duration(key::ELECTION_TIMEOUT));
        NodeConfig {
            name: self.args.node_name.clone(),
            cluster_name: name.to_owned(),
            listen: options.listen_address().to_string(),
            address: options.own_address(&self.args.node_incoming).to_string(),
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
            chunk_bytes: to_usize(options.unsigned(key::CHUNK_SIZE)),
            suspect: options.duration(key::EVS_SUSPECT_TIMEOUT),
            pending_bytes: to_usize(options.unsigned(key::MAX_PENDING_SIZE)),
            certification_span: options.unsigned(key::CERTIFICATION_SPAN),
            wants_vote: options.bool(key::VOTER),
            tls: options.tls(),
            database: self.position.current(),
            versions: OUR_VERSIONS,
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
        self.close_last()?;
        let config = self.node_config(name, url);
        let mode = match bootstrap {
            true => StartMode::Bootstrap,
            false => StartMode::Join,
        };
        let shared = Shared {
            callbacks: self.callbacks.clone(),
            counters: self.counters.clone(),
            transactions: self.transactions.clone(),
            settings: self.settings.clone(),
            position: self.position.clone(),
        };
        let queue_bytes = to_usize(self.options().unsigned(key::APPLY_QUEUE_SIZE));
        let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(
            shared,
            serial,
            donor_list(donor),
            queue_bytes,
        ));
        let node = Node::start(config, mode, connection.clone()).map_err(|e| e.to_string())?;
        connection.set_node(node.clone());
        node.set_quorum_loss_policy(self.survivor_policy());
        node.set_inconsistency_policy(self.vote_policy());
        node.set_leader_preference(self.options().leader_preference());
        if let Err(error) = connection.start_stream_ends() {
            connection.shut_down();
            return Err(format!("cannot start thread synod-streams: {error}"));
        }
        if bootstrap && self.position.may_go_on_alone() {
            self.begin_from_this_member(&connection, &node);
        }
        match self.wait_until_joined(&connection, &node.status()) {
            Ok(()) => Ok(connection),
            Err(why) => {
                connection.shut_down();
                Err(why)
            }
        }
    }

    /// Sees to it that nothing of the last connection is left.
    fn close_last(&self) -> Result<(), String> {
        let Some(last) = self.connection() else {
            return Ok(());
        };
        if !last.is_closing() {
            return Err("this server is connected to a group already".to_owned());
        }
        last.close_node();
        last.join_closer();
        Ok(())
    }

    /// An operator begins the group anew from this server. If the group turns out to live, it joins.
    fn begin_from_this_member(&self, connection: &Connection, node: &Node) {
        let patience = self.options().duration(key::EVS_SUSPECT_TIMEOUT);
        let joined = |state: &mut State| state.joined.is_some().then_some(());
        if connection
            .wait_for(Some(Instant::now() + patience), joined)
            .is_some()
        {
            return;
        }
        if let Err(error) = node.force_primary() {
            let text = format!("safe_to_bootstrap in grastate.dat has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    fn wait_until_joined(&self, connection: &Connection, node: &NodeStatus) -> Result<(), String> {
        let (is_member, limit, name) = {
            let options = self.options();
            if !options.bool(key::PC_WAIT_PRIM) {
                return Ok(());
            }
            let limit = options.duration(key::PC_WAIT_PRIM_TIMEOUT);
            let rejoin = options.duration(key::REJOIN_TIMEOUT);
            // Whoever connects a running server anew waits at a client's prompt.
            let is_start = connection.serial == FIRST_SERIAL;
            match node.group != GroupId::NONE {
                true if rejoin > limit && is_start => (true, rejoin, "synod.rejoin_timeout"),
                is_member => (is_member, limit, "pc.wait_prim_timeout"),
            }
        };
        if is_member {
            let text = format!(
                "this member belongs to group {}: waiting up to {limit:?} ({name}) for a majority \
                 of its members",
                node.group
            );
            self.callbacks.log(LogLevel::Info, &text);
        }
        let outcome = connection.wait_for(Instant::now().checked_add(limit), |state| {
            match (&state.joined, &state.failure) {
                (Some(_), _) => Some(Ok(())),
                (None, Some(why)) => Some(Err(why.clone())),
                (None, None) => None,
            }
        });
        let last_resort = match is_member {
            true => {
                " If the others are lost for good, write 'safe_to_bootstrap: 1' into grastate.dat and \
                 start this server with --wsrep-new-cluster: what only they had is lost then"
            }
            false => "",
        };
        outcome.unwrap_or_else(|| {
            Err(format!(
                "the group was not reached within {limit:?} ({name}): is a majority of its members \
                 running, and is wsrep_cluster_address right?{last_resort}"
            ))
        })
    }

    fn with<T>(&self, without: T, with: impl FnOnce(&Connection) -> T) -> T {
        match self.connection() {
            Some(connection) => with(&connection),
            None => without,
        }
    }

    /// Obeys `socket.ssl_reload`, if it was set. Without a connection there is nothing to do: the next
    /// one reads the files.
    fn reload_certificates(&self, update: &Update) -> Status {
        let wanted = update.value(key::SOCKET_SSL_RELOAD) == Some(&Value::Bool(true));
        let connection = self.connection().filter(|_| wanted);
        match connection.as_ref().and_then(|connection| connection.node()) {
            None => Status::Ok,
            Some(node) => match node.reload_tls() {
                Ok(()) => Status::Ok,
                Err(error) => self.log_error(format!(
                    "socket.ssl_reload: {error}. The certificates read before stay in use"
                )),
            },
        }
    }

    fn survivor_policy(&self) -> QuorumLossPolicy {
        let options = self.options();
        match options.bool(key::PC_IGNORE_QUORUM) {
            true => QuorumLossPolicy::ContinueAlone,
            false if options.bool(key::PC_IGNORE_SB) => QuorumLossPolicy::ContinueWithHalf,
            false => QuorumLossPolicy::Wait,
        }
    }

    fn vote_policy(&self) -> InconsistencyPolicy {
        match self.options().unsigned(key::GCS_VOTE_POLICY) {
            0 => InconsistencyPolicy::MostFrequent,
            enough => InconsistencyPolicy::SuccessOf(u32::try_from(enough).unwrap_or(u32::MAX)),
        }
    }

    fn apply_to_node(&self, update: &Update, node: &Node) {
        if let Some(Value::Int(number)) = update.value(key::GMCAST_ISOLATE) {
            node.set_isolated(*number != 0);
        }
        if let Some(Value::Duration(limit)) = update.value(key::EVS_SUSPECT_TIMEOUT) {
            node.set_suspect_timeout(*limit);
        }
        node.set_quorum_loss_policy(self.survivor_policy());
        node.set_leader_preference(self.options().leader_preference());
        if let Some(Value::Bool(true)) = update.value(key::PC_BOOTSTRAP)
            && let Err(error) = node.force_primary()
        {
            let text = format!("pc.bootstrap has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    /// What changed options mean for what runs. The rest is read where it is used.
    fn apply_update(&self, update: &Update) {
        log_notices(&self.callbacks, update);
        let queue_bytes = {
            let options = self.options();
            self.settings.update(&options);
            to_usize(options.unsigned(key::APPLY_QUEUE_SIZE))
        };
        let Some(connection) = self.connection() else {
            return;
        };
        connection.sequencer.set_queue_bytes_max(queue_bytes);
        if let Some(node) = connection.node() {
            self.apply_to_node(update, node);
        }
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
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
                self.reload_certificates(&update)
            }
            Err(error) => self.log_error(error.to_string()),
        }
    }

    fn options_get(&self) -> String {
        self.options().to_text()
    }

    fn connect(&self, name: &str, url: &str, donor: &str, bootstrap: bool) -> Status {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
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
                self.set_connection(connection);
                Status::Ok
            }
            Err(why) => self.log_error(why),
        }
    }

    fn disconnect(&self) -> Status {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = self.connection() {
            connection.disconnect();
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
        self.with(Status::ConnFail, |connection| {
            connection.commit_order_leave(handle, meta, error)
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

    fn rollback(&self, trx: u64) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.end_stream(StreamEnd::of(trx))
        })
    }

    fn append_key(&self, handle: &mut TrxHandle, parts: &[&[u8]], kind: u32) -> Status {
        let Some(kind) = u8::try_from(kind).ok().and_then(KeyType::from_code) else {
            return self.log_error(format!("unknown key type {kind}"));
        };
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        // Aborted meanwhile: it is refused when it comes to be certified. An error here would make the
        // server write a warning for each victim.
        if !gathered.must_abort {
            gathered.keys.append(parts, kind);
        }
        Status::Ok
    }

    fn append_data(&self, handle: &mut TrxHandle, data: &[u8], kind: u32) -> Status {
        if kind != sys::WSREP_DATA_ORDERED {
            return Status::NotImplemented;
        }
        let limit = self.settings.write_set_bytes_max();
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        if (gathered.data.len() + data.len()) as u64 > limit {
            return Status::SizeExceeded;
        }
        if !gathered.must_abort {
            gathered.data.extend_from_slice(data);
        }
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
            connection.to_execute_start(conn, keys, action, flags)
        })
    }

    fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        self.with(Status::ConnFail, |connection| {
            connection.to_execute_end(conn, error)
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
        let inputs = crate::status_inputs::gather(
            connection.as_deref(),
            &self.counters,
            &self.transactions,
            self.position.current(),
            self.options().int(key::GMCAST_SEGMENT),
        );
        status::stat_vars(&inputs)
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
            connection.shut_down();
        }
    }

    fn fenced(&self, _reason: &str, ctx: Option<RecvContext>) {
        if let Some(connection) = self.connection() {
            connection.fence(ctx);
        }
    }
}

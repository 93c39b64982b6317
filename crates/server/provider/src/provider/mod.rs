//! The provider behind the boundary: options, positions, and the present connection.

mod change_options;
mod serve_commands;
mod start_node;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use synod_node::KeyType;
use wsrep_sys as sys;

use crate::api::CAPABILITIES;
use crate::api::{
    AbortOutcome, Callbacks, CertifyOutcome, Gtid, InitArgs, InitError, LogLevel, ProviderApi,
    RecvContext, ReplayContext, StatVar, Status, TrxHandle, TrxMeta, WsFlags,
};
use crate::apply::client_waits;
use crate::boundary::{self, StatementErrors, at_process_exit, hear_statement_errors};
use crate::commands::{CommandServer, EventLog};
use crate::connection::departure::Restart;
use crate::connection::joiner::{self, Received};
use crate::connection::{Connection, donor};
use crate::live_options::LiveOptions;
use crate::options::{ClusterUrl, Defaults, Options, Parameter, Update, key};
use crate::other_replication::OtherReplication;
use crate::position::{self, PositionKeeper, engine};
use crate::server_program::{ServerProgram, Settings};
use crate::status;
use crate::status::counters::Counters;
use crate::status::inputs::StatusInputs;
use crate::transaction::Transactions;
use crate::transaction::abort::abort;
use crate::transaction::statements::NewStatement;
use crate::transaction::streamed_transactions::{StreamRollback, roll_back_stream};

/// Number of the connection that a starting server makes.
pub(crate) const FIRST_SERIAL: u64 = 1;

pub(crate) struct Provider {
    args: InitArgs,
    callbacks: Callbacks,
    options: Mutex<Options>,
    live: Arc<LiveOptions>,
    position: Arc<PositionKeeper>,
    flush_period: Duration,
    restart: Arc<Restart>,
    other_replication: Arc<OtherReplication>,
    connection: RwLock<Option<Arc<Connection>>>,
    /// The newest connection, from before it is joined on: a server that waits at its start for a
    /// majority answers commands.
    newest: Mutex<Weak<Connection>>,
    /// Held during `connect` and `disconnect`.
    changing: Mutex<()>,
    next_serial: AtomicU64,
    counters: Arc<Counters>,
    transactions: Arc<Transactions>,
    events: Arc<EventLog>,
    commands: CommandServer,
    itself: Weak<Provider>,
}

pub fn create(args: InitArgs, callbacks: Callbacks) -> Result<Arc<dyn ProviderApi>, InitError> {
    let defaults = Defaults {
        data_dir: args.data_dir.clone(),
        node_address: args.node_address.clone(),
    };
    let (options, update) = Options::new(defaults, &args.options)?;
    log_notices(&callbacks, &update);
    hear_of_failed_statements(&callbacks);
    let data_dir = PathBuf::from(&args.data_dir);
    // Before the database is asked where it is: they may still write into it.
    end_leftover_copy(&data_dir, &callbacks);
    let program = ServerProgram::of_this_process().map_err(|e| InitError::Other(e.into()))?;
    let own = data_dir.clone();
    let recover = || position::recover(&program, &own, &callbacks);
    let log_dir = options.log_dir(Path::new(&args.data_dir));
    let start = args.start_position;
    let position = PositionKeeper::load(data_dir, &log_dir, start, callbacks.clone(), recover)
        .map_err(|error| InitError::Other(error.into()))?;
    let position = Arc::new(position);
    let settings = program.settings().unwrap_or_else(|error| {
        let text = format!("the server's settings at its start are not known: {error}");
        callbacks.log(LogLevel::Info, &text);
        Settings::default()
    });
    let flush_period = engine::flush_period(&settings, &callbacks);
    let other_replication = OtherReplication::new(&settings);
    if let Some(warning) = other_replication.warning() {
        callbacks.log(LogLevel::Warn, &warning);
    }
    save_at_exit(position.clone(), &callbacks);
    let live = LiveOptions::default();
    live.update(&options);
    let segment_bytes = options.unsigned(key::LOG_SEGMENT_SIZE);
    let restart = Restart::new(program, [own, log_dir], segment_bytes, flush_period);
    Ok(Arc::new_cyclic(|itself| Provider {
        args,
        callbacks,
        options: Mutex::new(options),
        live: Arc::new(live),
        position,
        flush_period,
        restart: Arc::new(restart),
        other_replication: Arc::new(other_replication),
        connection: RwLock::new(None),
        newest: Mutex::default(),
        changing: Mutex::new(()),
        next_serial: AtomicU64::new(FIRST_SERIAL),
        counters: Arc::default(),
        transactions: Arc::default(),
        events: Arc::default(),
        commands: CommandServer::default(),
        itself: itself.clone(),
    }))
}

/// Servers can only agree on how a statement has ended if each knows how it ended there.
fn hear_of_failed_statements(callbacks: &Callbacks) {
    let (level, text) = match hear_statement_errors() {
        StatementErrors::Heard => return,
        StatementErrors::HeardNow { was, is } => (
            LogLevel::Info,
            format!(
                "wsrep_ignore_apply_errors was {was} and is now {is}: the servers compare how \
                 statements (DDL) end"
            ),
        ),
        StatementErrors::Unheard => (
            LogLevel::Warn,
            "this server has no variable wsrep_ignore_apply_errors: a statement (DDL) that fails \
             here alone will not be noticed"
                .to_owned(),
        ),
    };
    callbacks.log(level, &text);
}

/// Has the position of a clean stop saved once the server has closed its engines.
fn save_at_exit(position: Arc<PositionKeeper>, callbacks: &Callbacks) {
    if !at_process_exit(move || position.process_exits()) {
        let text = "cannot save the position of the database at an orderly stop: the next start \
                    will have to ask the database for it";
        callbacks.log(LogLevel::Warn, text);
    }
}

fn end_leftover_copy(data_dir: &Path, callbacks: &Callbacks) {
    let ended = boundary::end_leftover_copy(data_dir);
    if !ended.is_empty() {
        let text = format!(
            "a server that was killed had left programs of a full copy (SST) at work in {}: ended \
             {}",
            data_dir.display(),
            ended.join(", ")
        );
        callbacks.log(LogLevel::Info, &text);
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

    fn set_connection(&self, connection: Arc<Connection>) {
        *self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    /// Whether the row that a client has changed must be refused; it was told why. (Not the data of
    /// a commit: the server ignores an error there.) The fragments of a streamed transaction are
    /// left to the leader: the others have to hear of its end.
    fn refuses_write(&self, handle: &TrxHandle) -> bool {
        let is_streamed = || {
            let known = self.transactions.get(handle);
            known.is_some_and(|transaction| transaction.lock().stream.is_some())
        };
        self.with(false, |connection| {
            let is_refused = !connection.write_gate.admits(handle.trx_id) && !is_streamed();
            if is_refused {
                connection.write_gate.refuse(&connection.session);
            }
            is_refused
        })
    }

    fn log_error(&self, text: impl AsRef<str>) -> Status {
        self.callbacks.log(LogLevel::Error, text.as_ref());
        // The server's own lines about it come next.
        self.callbacks.flush_log();
        Status::NodeFail
    }

    pub(crate) fn position(&self) -> &PositionKeeper {
        &self.position
    }

    pub(crate) fn status_inputs(&self, connection: Option<&Connection>) -> StatusInputs {
        status::inputs::gather(
            connection,
            &self.counters,
            &self.transactions,
            &self.position,
            self.options().int(key::GMCAST_SEGMENT),
        )
    }

    fn with<T>(&self, without: T, with: impl FnOnce(&Connection) -> T) -> T {
        match self.connection() {
            Some(connection) => with(&connection),
            None => without,
        }
    }
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
        // What may be refused comes first: then nothing is changed.
        let wanted = match self.options_in_force().set(text) {
            Ok(update) => update,
            Err(error) => return self.log_error(error.to_string()),
        };
        for ask in [Provider::reload_certificates, Provider::set_for_group] {
            match ask(self, &wanted) {
                Status::Ok => {}
                refused => return refused,
            }
        }
        self.say_what_is_not_restored(&wanted);
        let set = self.options().set(text);
        match set {
            Ok(update) => {
                self.apply_update(&update);
                self.try_staleness(&update);
                Status::Ok
            }
            Err(error) => self.log_error(error.to_string()),
        }
    }

    fn options_get(&self) -> String {
        self.options_in_force().to_text()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.options_in_force().parameters()
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
        self.callbacks.start_log_thread();
        match self.connect_node(name, &parsed, donor, bootstrap) {
            Ok(connection) => {
                self.set_connection(connection);
                Status::Ok
            }
            Err(why) => {
                let failed = self.log_error(why);
                if self.connection().is_none() {
                    boundary::end_if_started_to_begin();
                }
                failed
            }
        }
    }

    fn disconnect(&self) -> Status {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = self.connection() {
            let is_first = !connection.session.is_closing();
            connection.session.disconnect();
            // Later the option may be set again, for the next connection.
            if is_first {
                self.keep_leader_weight(&connection);
            }
        }
        self.callbacks.flush_log();
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
        self.with(Status::BfAbort, |connection| {
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
        self.with(unknown, |connection| {
            abort(&connection.session, bf_seqno, victim)
        })
    }

    fn rollback(&self, trx: u64) -> Status {
        self.with(Status::ConnFail, |connection| {
            roll_back_stream(&connection.session, StreamRollback::of(trx))
        })
    }

    fn append_key(&self, handle: &mut TrxHandle, parts: &[&[u8]], kind: u32) -> Status {
        let Some(kind) = u8::try_from(kind).ok().and_then(KeyType::from_code) else {
            return self.log_error(format!("unknown key type {kind}"));
        };
        if self.refuses_write(handle) {
            return Status::NotAllowed;
        }
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        // Aborted meanwhile: it is refused when it comes to be certified. An error here would make
        // the server write a warning for each victim.
        if !gathered.must_abort {
            gathered.keys.bound_rows(self.live.row_keys_max());
            gathered.keys.append(parts, kind);
            gathered.touched.touch(parts);
        }
        Status::Ok
    }

    fn append_data(&self, handle: &mut TrxHandle, data: &[u8], kind: u32) -> Status {
        if kind != sys::WSREP_DATA_ORDERED {
            return Status::NotImplemented;
        }
        let limit = self.live.write_set_bytes_max();
        let transaction = self.transactions.open(handle);
        let mut gathered = transaction.lock();
        if (gathered.data.server_bytes() + data.len()) as u64 > limit {
            // The server may certify nevertheless, without these bytes: it is refused then, too.
            gathered.is_too_large = true;
            return Status::SizeExceeded;
        }
        if !gathered.must_abort {
            gathered.data.extend(data);
        }
        Status::Ok
    }

    fn sync_wait(&self, upto: Option<Gtid>, timeout_s: i32) -> (Status, Gtid) {
        let timeout = match u64::try_from(timeout_s) {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => self.options().duration(key::REPL_CAUSAL_READ_TIMEOUT),
        };
        let failed = (Status::TrxFail, Gtid::UNDEFINED);
        self.with(failed, |connection| {
            client_waits::sync_wait(&connection.session, upto, timeout)
        })
    }

    fn last_committed(&self) -> Gtid {
        self.with(Gtid::UNDEFINED, |connection| {
            client_waits::last_committed(&connection.session)
        })
    }

    fn to_execute_start(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> CertifyOutcome {
        self.with(NO_PLACE, |connection| {
            let Connection {
                session,
                statements,
                write_gate,
                ..
            } = connection;
            let statement = NewStatement {
                conn,
                keys,
                action,
                flags: WsFlags(flags),
            };
            statements.begin(session, write_gate, &statement)
        })
    }

    fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        self.with(Status::ConnFail, |connection| {
            let Connection {
                session,
                statements,
                votes,
                ..
            } = connection;
            statements.end(session, votes, conn, error)
        })
    }

    fn sst_sent(&self, gtid: Gtid, code: i32) -> Status {
        self.with(Status::ConnFail, |connection| {
            donor::copy_sent(&connection.session, gtid, code)
        })
    }

    fn sst_received(&self, gtid: Gtid, code: i32) -> Status {
        self.with(Status::ConnFail, |connection| {
            joiner::copy_received(&connection.session, Received { gtid, code });
            Status::Ok
        })
    }

    fn stats(&self) -> Vec<StatVar> {
        let connection = self.connection();
        status::variables::stat_vars(&self.status_inputs(connection.as_deref()))
    }

    fn stats_reset(&self) {
        let connection = self.connection();
        let node = connection
            .as_ref()
            .and_then(|connection| connection.session.node());
        let paused = node.map_or(Duration::ZERO, |node| node.status().pace.paused);
        self.counters.reset();
        self.counters.paused.reset(Instant::now(), paused);
    }

    fn pause(&self) -> i64 {
        self.with(None, |connection| connection.session.sequencer.pause())
            .unwrap_or(-1)
    }

    fn resume(&self) -> Status {
        self.with(Status::Ok, |connection| donor::resume(&connection.session))
    }

    fn desync(&self) -> Status {
        self.with(Status::ConnFail, |connection| {
            donor::desync(&connection.session)
        })
    }

    fn resync(&self) -> Status {
        self.with(Status::Ok, |connection| donor::resync(&connection.session))
    }

    fn shutdown(&self) {
        if let Some(connection) = self.connection() {
            connection.session.shut_down();
        }
        // After the node: an order that waits for it has its answer.
        self.commands.stop();
        self.callbacks.stop_log_thread();
    }

    fn fenced(&self, reason: &str, ctx: Option<RecvContext>) {
        if let Some(connection) = self.connection() {
            connection.session.fence(reason, ctx);
        }
    }
}

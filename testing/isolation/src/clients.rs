//! Clients of all servers: they run transactions and record what they are told.
//!
//! An error before COMMIT was sent means that the transaction is rolled back. After that, only the
//! errors of `docs/operating/client-errors.md` mean that; all others leave its outcome unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Error, OptsBuilder};
use synod_e2e::dice::Dice;
use synod_e2e::{Outcome, Why};
use synod_local_cluster::wait_for;

use crate::checker::anomaly::Level;
use crate::checker::history::{Outcome as End, Transaction};
use crate::workload::{Client, Ids, Workload};

/// Account of the clients, from any address.
pub const USER: &str = "isolation";
/// Errors that mean, as an answer to COMMIT, that the transaction is rolled back.
const REFUSALS: [u16; 4] = [1213, 1020, 1290, 1047];
/// The same for a statement that commits by itself.
const STATEMENT_REFUSALS: [u16; 6] = [1213, 1020, 1290, 1047, 1205, 1062];
/// A client takes part of the processor, not all.
const PAUSE: Duration = Duration::from_millis(3);
/// After an error of a connection, and between attempts to connect.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Time within which each node can be read at the end.
const READ_ALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for an answer; longer than an election.
const PATIENCE: Duration = Duration::from_secs(6);

/// Settings of all clients.
#[derive(Debug, Clone)]
pub struct Settings {
    pub workload: Workload,
    /// Address and port of each node's server.
    pub servers: BTreeMap<u8, (IpAddr, u16)>,
    pub causal: bool,
    /// Whether a client's order is promised across servers.
    pub is_ordered_across_servers: bool,
    /// Whether each statement travels as a fragment of its own.
    pub streamed: bool,
    pub upserts: bool,
    pub seed: u64,
}

#[derive(Debug)]
struct Board {
    settings: Settings,
    ids: Ids,
    begun: Instant,
    sessions: AtomicU32,
    stop: AtomicBool,
    history: Mutex<Vec<Transaction>>,
}

/// Running clients.
#[derive(Debug)]
pub struct Clients {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub fn start(settings: Settings, count: u32) -> Clients {
        let board = Arc::new(Board {
            settings,
            ids: Ids::default(),
            begun: Instant::now(),
            sessions: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            history: Mutex::default(),
        });
        let run = |number| {
            let board = Arc::clone(&board);
            std::thread::spawn(move || board.run(number))
        };
        let threads = (0..count).map(run).collect();
        Clients { board, threads }
    }

    /// Number of transactions that have committed.
    pub fn committed(&self) -> usize {
        let history = self
            .board
            .history
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        history
            .iter()
            .filter(|transaction| transaction.outcome == End::Committed)
            .count()
    }

    /// Ends the clients.
    pub fn stop(&mut self) {
        self.board.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has printed why; what it recorded before counts.
            let _ = thread.join();
        }
    }

    /// Reads everything on each node, and gives the history.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn finish(mut self) -> Outcome<Vec<Transaction>> {
        self.stop();
        let board = &self.board;
        for node in board.settings.servers.keys() {
            // An election that a busy machine has called for refuses reads for a moment.
            let mut last = Ok(());
            let read = || {
                last = board.read_all(*node);
                last.is_ok().then_some(())
            };
            if wait_for(READ_ALL_TIMEOUT, read).is_none() {
                last.why(format_args!("reading all of node{node}"))?;
            }
        }
        let mut history = board.history.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut history))
    }
}

impl Board {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn new_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, transaction: Transaction) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.push(transaction);
    }

    fn client<'c>(&'c self, connection: &'c mut Conn, dice: &'c mut Dice) -> Client<'c> {
        Client {
            connection,
            dice,
            ids: &self.ids,
            upserts: self.settings.upserts,
            operations: Vec::new(),
        }
    }

    fn connect(&self, node: u8, causal: bool) -> mysql::Result<Conn> {
        let (address, port) = self.settings.servers[&node];
        let options = OptsBuilder::new()
            .ip_or_hostname(Some(address.to_string()))
            .tcp_port(port)
            .user(Some(USER))
            .pass(Some(USER))
            .db_name(Some(USER))
            .prefer_socket(false)
            .tcp_nodelay(true)
            .tcp_connect_timeout(Some(Duration::from_secs(2)))
            .read_timeout(Some(PATIENCE))
            .write_timeout(Some(PATIENCE));
        let mut connection = Conn::new(options)?;
        let level = match self.settings.workload.level() {
            Level::ReadCommitted => "READ COMMITTED",
            Level::Snapshot => "REPEATABLE READ",
        };
        let fragment = u8::from(self.settings.streamed);
        connection.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))?;
        connection.query_drop(format!(
            "SET SESSION wsrep_sync_wait = {}, innodb_lock_wait_timeout = 3,
             wsrep_trx_fragment_unit = 'statements', wsrep_trx_fragment_size = {fragment}",
            u8::from(causal)
        ))?;
        Ok(connection)
    }

    /// Reads everything on a node, in a transaction that is recorded as a last one.
    fn read_all(&self, node: u8) -> mysql::Result<()> {
        let mut connection = self.connect(node, true)?;
        let mut dice = Dice::of(0);
        let mut client = self.client(&mut connection, &mut dice);
        let begin_us = self.now();
        client.connection.query_drop("BEGIN")?;
        self.settings.workload.read_all(&mut client)?;
        let operations = client.operations;
        self.record(Transaction {
            node,
            session: self.new_session(),
            begin_us,
            end_us: self.now(),
            outcome: End::Committed,
            is_final: true,
            operations,
        });
        Ok(())
    }

    fn run(&self, number: u32) {
        let nodes: Vec<u8> = self.settings.servers.keys().copied().collect();
        let mut dice = Dice::of(self.settings.seed.wrapping_mul(1000) + u64::from(number));
        let mut open: BTreeMap<u8, (Conn, u32)> = BTreeMap::new();
        // With causal reads a client's order is promised across servers, too.
        let whole = self.new_session();
        while !self.stop.load(Ordering::Relaxed) {
            let node = if self.settings.workload.hops() {
                dice.one_of(&nodes)
            } else {
                nodes[number as usize % nodes.len()]
            };
            let connection = open.remove(&node).or_else(|| {
                let connection = self.connect(node, self.settings.causal).ok()?;
                Some((connection, self.new_session()))
            });
            let Some((mut connection, session)) = connection else {
                std::thread::sleep(RETRY_AFTER);
                continue;
            };
            let promised = if self.settings.is_ordered_across_servers {
                whole
            } else {
                session
            };
            let is_usable = self.transaction(node, promised, &mut connection, &mut dice);
            if is_usable {
                open.insert(node, (connection, session));
                std::thread::sleep(PAUSE);
            } else {
                std::thread::sleep(RETRY_AFTER);
            }
        }
    }

    /// Runs a transaction and records it; whether the connection can be used again.
    fn transaction(&self, node: u8, session: u32, connection: &mut Conn, dice: &mut Dice) -> bool {
        let begin_us = self.now();
        let mut client = self.client(connection, dice);
        let (outcome, error) = execute(self.settings.workload, &mut client);
        let operations = client.operations;
        if !operations.is_empty() {
            self.record(Transaction {
                node,
                session,
                begin_us,
                end_us: self.now(),
                outcome,
                is_final: false,
                operations,
            });
        }
        // After some errors only the statement is rolled back.
        let is_answer = matches!(&error, Some(Error::MySqlError(error)) if error.code != 1047);
        match error {
            None => true,
            Some(_) if is_answer => connection.query_drop("ROLLBACK").is_ok(),
            Some(_) => false,
        }
    }
}

/// Runs a transaction from its begin to its end; how it ended.
fn execute(workload: Workload, client: &mut Client<'_>) -> (End, Option<Error>) {
    let refused = |error: &Error, codes: &[u16]| match error {
        Error::MySqlError(error) => codes.contains(&error.code),
        _ => false,
    };
    if workload.is_single() {
        return match workload.run(client) {
            Ok(()) => (End::Committed, None),
            Err(error) if refused(&error, &STATEMENT_REFUSALS) => (End::Refused, Some(error)),
            Err(error) => (End::Unknown, Some(error)),
        };
    }
    let begun = client.connection.query_drop("BEGIN");
    if let Err(error) = begun.and_then(|()| workload.run(client)) {
        return (End::Refused, Some(error));
    }
    match client.connection.query_drop("COMMIT") {
        Ok(()) => (End::Committed, None),
        Err(error) if refused(&error, &REFUSALS) => (End::Refused, Some(error)),
        Err(error) => (End::Unknown, Some(error)),
    }
}

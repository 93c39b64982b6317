//! Clients that write and clients that read, and whether a read missed what the servers had
//! acknowledged before it began.
//!
//! One writer per server inserts rows with growing numbers. Readers of every server wait for an
//! answer of any writer and read at once: the moment at which a read is most easily stale. Before
//! a read, its client notes the greatest acknowledged number of each writer. A read that shows
//! less is *stale*. A read that the server refuses, or that has no answer, promises nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use crate::failure::{Outcome, Why};
use crate::harness::{TestCluster, client_options};

/// A reader reads after this time when nothing was acknowledged meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Between attempts of a writer that is refused, and of clients to connect.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// With `wsrep_sync_wait=1`.
    Causal,
    /// With `wsrep_sync_wait=0`, which promises nothing.
    Plain,
}

impl Reading {
    fn setting(self) -> &'static str {
        match self {
            Reading::Causal => "SET SESSION wsrep_sync_wait = 1",
            Reading::Plain => "SET SESSION wsrep_sync_wait = 0",
        }
    }
}

/// Results of reads.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Reads with an answer, stale ones included.
    pub answered: u64,
    /// Answers that lacked an acknowledged row.
    pub stale: u64,
    /// Reads that the server refused with an error.
    pub refused: u64,
    /// Reads without an answer: connection lost, or the client's timeout.
    pub unanswered: u64,
    /// The first stale answer, in words.
    pub example: Option<String>,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} answered, {} stale, {} refused, {} without an answer",
            self.answered, self.stale, self.refused, self.unanswered
        )
    }
}

/// The greatest acknowledged number by writer.
type Numbers = BTreeMap<u8, u64>;

/// State shared by all clients.
#[derive(Debug)]
struct Board {
    table: String,
    acknowledged: Mutex<Numbers>,
    grown: Condvar,
    causal: Mutex<Tally>,
    plain: Mutex<Tally>,
    stop: AtomicBool,
}

impl Board {
    fn acknowledge(&self, writer: u8, number: u64) {
        lock(&self.acknowledged).insert(writer, number);
        self.grown.notify_all();
    }

    /// Waits, for a bounded time, until more is acknowledged than was `seen`.
    fn await_more(&self, seen: &Numbers) {
        let numbers = lock(&self.acknowledged);
        let unchanged = |numbers: &mut Numbers| numbers == seen;
        drop(
            self.grown
                .wait_timeout_while(numbers, LONGEST_PAUSE, unchanged),
        );
    }

    fn tally(&self, reading: Reading) -> MutexGuard<'_, Tally> {
        lock(match reading {
            Reading::Causal => &self.causal,
            Reading::Plain => &self.plain,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Running writers and readers.
#[derive(Debug)]
pub struct Clients {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Makes the empty table `e2e_data.NAME`. Starts a writer on each node, and `readers` readers
    /// of each way to read.
    pub fn start(cluster: &TestCluster, name: &str, readers: u8) -> Outcome<Clients> {
        let table = format!("e2e_data.{name}");
        let columns = "writer TINYINT UNSIGNED, number BIGINT UNSIGNED";
        let key = "PRIMARY KEY (writer, number)";
        let create = format!("CREATE OR REPLACE TABLE {table} ({columns}, {key})");
        cluster.execute(1, &create)?;
        let board = Arc::new(Board {
            table,
            acknowledged: Mutex::default(),
            grown: Condvar::new(),
            causal: Mutex::default(),
            plain: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        for node in cluster.nodes() {
            let server = client_options(cluster.port(node));
            let (to, shared) = (server.clone(), board.clone());
            threads.push(std::thread::spawn(move || write(&to, node, &shared)));
            for reading in [Reading::Causal, Reading::Plain] {
                for _ in 0..readers {
                    let (of, shared) = (server.clone(), board.clone());
                    threads.push(std::thread::spawn(move || {
                        read(&of, node, reading, &shared)
                    }));
                }
            }
        }
        Ok(Clients { board, threads })
    }

    /// Number of acknowledged rows, over all writers. Numbers that failed count too.
    pub fn acknowledged(&self) -> u64 {
        lock(&self.board.acknowledged).values().sum()
    }

    /// Number of answered plain reads.
    pub fn plain_reads(&self) -> u64 {
        self.board.tally(Reading::Plain).answered
    }

    /// A reader of its own, connected now, that reads when it is told to.
    pub fn reader(&self, cluster: &TestCluster, node: u8, reading: Reading) -> Outcome<Reader> {
        let server = client_options(cluster.port(node));
        let connection = connect(&server, reading).why(format_args!("a reader of node{node}"))?;
        Ok(Reader {
            node,
            reading,
            connection,
            board: self.board.clone(),
        })
    }

    /// Ends the clients; what came of the causal and of the plain reads.
    pub fn finish(self) -> (Tally, Tally) {
        self.board.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // A client that panicked has printed why; its reads before that count.
            let _ = thread.join();
        }
        let (causal, plain) = (lock(&self.board.causal), lock(&self.board.plain));
        (causal.clone(), plain.clone())
    }
}

#[derive(Debug)]
pub struct Reader {
    node: u8,
    reading: Reading,
    connection: Conn,
    board: Arc<Board>,
}

impl Reader {
    /// Reads once, and counts what came of it. Calls `go` between the note of what is
    /// acknowledged and the read, and returns the note.
    ///
    /// # Errors
    /// The connection's, after which it is of no use. An error of the server only counts.
    fn try_read(&mut self, go: impl FnOnce()) -> Result<Numbers, mysql::Error> {
        let due = lock(&self.board.acknowledged).clone();
        go();
        let table = &self.board.table;
        let select = format!("SELECT writer, MAX(number) FROM {table} GROUP BY writer");
        let answer = self.connection.query::<(u8, u64), _>(select);
        let mut tally = self.board.tally(self.reading);
        match answer {
            Ok(rows) => {
                tally.answered += 1;
                let shown: Numbers = rows.into_iter().collect();
                if is_stale(&due, &shown) {
                    tally.stale += 1;
                    let node = self.node;
                    tally.example.get_or_insert_with(|| {
                        format!("node{node} showed {shown:?} after {due:?} was acknowledged")
                    });
                }
            }
            Err(mysql::Error::MySqlError(_)) => tally.refused += 1,
            Err(error) => {
                tally.unanswered += 1;
                return Err(error);
            }
        }
        Ok(due)
    }

    /// Reads once, and counts what came of it. Calls `go` between the note of what is
    /// acknowledged and the read.
    pub fn read(mut self, go: impl FnOnce()) {
        // A lost connection is counted; this reader is used up either way.
        let _ = self.try_read(go);
    }
}

fn is_stale(due: &Numbers, shown: &Numbers) -> bool {
    due.iter()
        .any(|(writer, number)| shown.get(writer).is_none_or(|shown| shown < number))
}

fn connect(server: &Opts, reading: Reading) -> Result<Conn, mysql::Error> {
    let mut connection = Conn::new(server.clone())?;
    connection.query_drop(reading.setting())?;
    Ok(connection)
}

/// Reads after every acknowledgement, on new connections when one is lost.
fn read(server: &Opts, node: u8, reading: Reading, board: &Arc<Board>) {
    while !board.is_stopped() {
        let Ok(connection) = connect(server, reading) else {
            std::thread::sleep(RETRY_AFTER);
            continue;
        };
        let mut reader = Reader {
            node,
            reading,
            connection,
            board: board.clone(),
        };
        while !board.is_stopped() {
            let Ok(seen) = reader.try_read(|| ()) else {
                break;
            };
            board.await_more(&seen);
        }
    }
}

/// Inserts rows, each with the next number; a number that was not acknowledged is not used again.
fn write(server: &Opts, writer: u8, board: &Board) {
    let mut number = 0;
    let mut connection = None;
    while !board.is_stopped() {
        let open = connection.take().or_else(|| Conn::new(server.clone()).ok());
        let Some(mut open) = open else {
            std::thread::sleep(RETRY_AFTER);
            continue;
        };
        number += 1;
        let insert = format!("INSERT INTO {} VALUES ({writer}, {number})", board.table);
        match open.query_drop(insert) {
            Ok(()) => {
                board.acknowledge(writer, number);
                connection = Some(open);
            }
            Err(_) => std::thread::sleep(RETRY_AFTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbers, is_stale};

    #[test]
    fn stale_is_what_lacks_a_number_of_any_writer() {
        let numbers = |of: &[(u8, u64)]| of.iter().copied().collect::<Numbers>();
        let due = numbers(&[(1, 5), (2, 7)]);
        assert!(!is_stale(&due, &due));
        assert!(!is_stale(&due, &numbers(&[(1, 9), (2, 7), (3, 1)])));
        assert!(!is_stale(&numbers(&[]), &numbers(&[])));
        assert!(is_stale(&due, &numbers(&[(1, 4), (2, 7)])));
        assert!(is_stale(&due, &numbers(&[(1, 5)])));
    }
}

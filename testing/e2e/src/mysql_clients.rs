//! Clients that insert rows with unique ids by the writer of a group of MySQL, whichever server is
//! that, and a check of the tables against the answers: an acknowledged row is on each server
//! exactly once, a refused one on none, and all servers have the same rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use synod_local_cluster::wait_for;

use crate::failure::{Outcome, Why, ensure};
use crate::mysql_group::MysqlGroup;

/// The error of a server that takes no writes.
pub const READ_ONLY: u16 = 1290;
/// The error of a transaction that the group has refused.
pub const REFUSED: u16 = 3101;
/// The rows of clients.
const TABLE: &str = "e2e.written";
/// Ids of one client begin at its number times this.
const IDS_PER_CLIENT: u64 = 1 << 32;
/// A server that does not answer for so long is left for the next.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Ids that a failed check shows, of each kind.
const IDS_SHOWN: usize = 5;
const NEXT_AFTER: Duration = Duration::from_millis(20);

/// Answers to all clients.
#[derive(Debug, Default)]
pub struct Answers {
    /// Ids, and when the acknowledgement came.
    pub acknowledged: Vec<(u64, Instant)>,
    /// Ids that are to be on no server.
    refused: Vec<u64>,
    unknown: u64,
    /// How often each of the server's errors came.
    pub errors: BTreeMap<u16, u64>,
    /// Text of the last error, for the reader of a failed test.
    last_error: String,
}

/// Clients that run until they are finished or dropped.
#[derive(Debug)]
pub struct Clients {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    answers: Arc<Mutex<Answers>>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Makes an empty table on the writer, and starts clients that write into it.
    pub fn start(group: &MysqlGroup, writer: usize, number: u64) -> Outcome<Clients> {
        group.servers[writer].execute(&[
            "CREATE DATABASE IF NOT EXISTS e2e",
            &format!("DROP TABLE IF EXISTS {TABLE}"),
            // An id twice is to be seen, not refused.
            &format!(
                "CREATE TABLE {TABLE} (place BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT, KEY (id))"
            ),
        ])?;
        let mut clients = Clients {
            stop: Arc::default(),
            count: Arc::default(),
            answers: Arc::default(),
            threads: Vec::new(),
        };
        let ports: Vec<u16> = group.servers.iter().map(|server| server.port).collect();
        for client in 1..=number {
            let (stop, count) = (Arc::clone(&clients.stop), Arc::clone(&clients.count));
            let (answers, ports) = (Arc::clone(&clients.answers), ports.clone());
            let body =
                move || insert_rows(&ports, client * IDS_PER_CLIENT, &stop, &count, &answers);
            clients.threads.push(std::thread::spawn(body));
        }
        Ok(clients)
    }

    /// Number of acknowledged rows.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until so many further rows have been acknowledged; returns how long that took.
    ///
    /// # Errors
    /// When that takes longer than `limit`.
    pub fn await_more(&self, more: u64, limit: Duration) -> Outcome<Duration> {
        let (since, goal) = (Instant::now(), self.count() + more);
        let reached = wait_for(limit, || (self.count() >= goal).then_some(()));
        ensure(reached.is_some(), || {
            let answers = lock(&self.answers);
            let (errors, last) = (&answers.errors, &answers.last_error);
            format!("fewer than {more} rows in {limit:?}; errors {errors:?}, the last: {last}")
        })?;
        Ok(since.elapsed())
    }

    /// Ends all clients; their answers.
    pub fn finish(mut self) -> Answers {
        self.end();
        std::mem::take(&mut *lock(&self.answers))
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("a client panicked");
            }
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.end();
    }
}

impl Answers {
    /// Checks the rows of all servers against the answers; they are to be the same on all.
    pub fn check(&self, group: &MysqlGroup) -> Outcome {
        let rows = group.same_rows(&format!("SELECT id FROM {TABLE} ORDER BY place"))?;
        let ids: Result<Vec<u64>, _> = rows.iter().map(|id| id.parse()).collect();
        let ids = ids.why("an id")?;
        eprintln!(
            "  {} acknowledged, {} refused, {} unknown, {} rows on each server; errors: {:?}",
            self.acknowledged.len(),
            self.refused.len(),
            self.unknown,
            ids.len(),
            self.errors
        );
        self.check_ids(&ids)
    }

    fn check_ids(&self, rows: &[u64]) -> Outcome {
        let mut times: HashMap<u64, usize> = HashMap::new();
        for id in rows {
            *times.entry(*id).or_default() += 1;
        }
        let acknowledged = self.acknowledged.iter().map(|(id, _)| id);
        let lost = acknowledged.filter(|id| !times.contains_key(id));
        let lost: Vec<_> = lost.take(IDS_SHOWN).collect();
        let refused = self.refused.iter().filter(|id| times.contains_key(id));
        let refused: Vec<_> = refused.take(IDS_SHOWN).collect();
        let twice = times.iter().filter(|(_, times)| **times > 1);
        let twice: Vec<_> = twice.take(IDS_SHOWN).collect();
        ensure(!self.acknowledged.is_empty(), || {
            "nothing was acknowledged".to_owned()
        })?;
        ensure(lost.is_empty(), || {
            format!("acknowledged, and lost: {lost:?}")
        })?;
        ensure(refused.is_empty(), || {
            format!("refused, and there: {refused:?}")
        })?;
        ensure(twice.is_empty(), || {
            format!("there more than once: {twice:?}")
        })
    }

    /// The longest time without an acknowledgement from this moment on.
    pub fn longest_gap_after(&self, moment: Instant) -> Duration {
        let mut times: Vec<Instant> = self.acknowledged.iter().map(|(_, at)| *at).collect();
        times.retain(|at| *at > moment);
        times.push(moment);
        times.sort_unstable();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects to the server at this port, for short waits only.
pub fn connect(port: u16) -> mysql::Result<Conn> {
    connect_as("root", port)
}

/// Connects as a user without a password, for short waits only.
pub fn connect_as(user: &str, port: u16) -> mysql::Result<Conn> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .user(Some(user))
        .prefer_socket(false)
        .tcp_connect_timeout(Some(ANSWER_LIMIT))
        .read_timeout(Some(ANSWER_LIMIT))
        .write_timeout(Some(ANSWER_LIMIT));
    Conn::new(options)
}

/// One client's life.
fn insert_rows(
    ports: &[u16],
    first: u64,
    stop: &AtomicBool,
    count: &AtomicU64,
    answers: &Mutex<Answers>,
) {
    let (mut at, mut id, mut connection) = (0, first, None);
    while !stop.load(Ordering::Relaxed) {
        let Some(mut open) = connection.take().or_else(|| connect(ports[at]).ok()) else {
            at = (at + 1) % ports.len();
            std::thread::sleep(NEXT_AFTER);
            continue;
        };
        id += 1;
        let result = open.query_drop(format!("INSERT INTO {TABLE} (id) VALUES ({id})"));
        let mut answers = lock(answers);
        let code = match &result {
            Err(mysql::Error::MySqlError(error)) => Some(error.code),
            _ => None,
        };
        if let Some(code) = code {
            *answers.errors.entry(code).or_default() += 1;
        }
        match result {
            Ok(()) => {
                answers.acknowledged.push((id, Instant::now()));
                count.fetch_add(1, Ordering::Relaxed);
                connection = Some(open);
            }
            Err(error) => {
                answers.last_error = error.to_string();
                match code {
                    Some(READ_ONLY | REFUSED) => answers.refused.push(id),
                    _ => answers.unknown += 1,
                }
                drop(answers);
                at = (at + 1) % ports.len();
                std::thread::sleep(NEXT_AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_refused_and_repeated_rows_are_noticed() {
        let answers = Answers {
            acknowledged: vec![(1, Instant::now()), (2, Instant::now())],
            refused: vec![9],
            ..Answers::default()
        };
        let fails = |rows: &[u64]| answers.check_ids(rows).unwrap_err().0;
        assert!(answers.check_ids(&[1, 2, 77]).is_ok());
        assert!(fails(&[1, 77]).contains("lost: [2]"));
        assert!(fails(&[1, 2, 9]).contains("refused, and there: [9]"));
        assert!(fails(&[1, 2, 77, 77]).contains("more than once: [(77, 2)]"));
        assert!(Answers::default().check_ids(&[]).is_err());
    }
}

//! Clients that run transactions and record the result of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::error::{MeterError, Result};
use super::group::{DATABASE, Group, Server};
use super::timeline::{Attempt, Ending, is_refusal};

/// Time on the clients' clock, in microseconds.
pub(crate) fn us_since(clock: Instant) -> u64 {
    us_at(Instant::now(), clock)
}

fn us_at(at: Instant, clock: Instant) -> u64 {
    let since = at.saturating_duration_since(clock);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Pause of a client before it connects again.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// Transaction that a client repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// One statement that writes the how-many-th transaction this is into the client's own row of
    /// `TABLE (id, n)`: rows are numbered from 1 over all clients. No two clients meet.
    OwnRow(String),
    /// A transaction that adds one to two random rows of `TABLE (id, n)`, which has this many rows.
    RandomRows(String, u32),
    /// One statement that inserts a row into `TABLE (mark)`, which says when the statement began:
    /// a [`mark`] that readers of the binlog find.
    Marks(String),
    /// One statement that inserts the row [`unique_id`] into `TABLE (id)`.
    UniqueRows(String),
}

/// The row that a client, by its number from 1, inserts as its how-many-th.
pub fn unique_id(client: u32, number: u64) -> u64 {
    (u64::from(client) << 32) + number
}

pub const MARK: &str = "synod-mark-";

/// The mark of a statement that began so many microseconds after the clock's start.
pub fn mark(begun_us: u64) -> String {
    format!("{MARK}{begun_us:016}")
}

#[derive(Debug, Clone)]
pub struct Crew {
    pub work: Work,
    pub clients: u32,
    /// Transactions per second of all clients of all servers. None: each begins the next one at
    /// once.
    pub rate: Option<f64>,
    /// The longest wait for an answer of clients that go to the next server of the group when one
    /// does not answer or takes no writes, as drivers with a list of servers do. None: clients
    /// stay, and wait long.
    pub patience: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerLog {
    pub server: usize,
    /// The clients' transactions: by client, in their order.
    pub by_client: Vec<Vec<Attempt>>,
}

impl ServerLog {
    pub fn attempts(&self) -> Vec<Attempt> {
        self.by_client.iter().flatten().copied().collect()
    }
}

#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<(usize, JoinHandle<Vec<Attempt>>)>,
}

impl Crew {
    /// Connects all clients and starts them on these servers of the group (by their places). If one
    /// cannot connect, none starts. Times count from `clock` on.
    pub fn start(&self, group: &Group, servers: &[usize], clock: Instant) -> Result<Running> {
        let count = servers.len() as u32 * self.clients;
        let mut clients = Vec::new();
        for place in servers {
            let server = &group.servers[*place];
            for _ in 0..self.clients {
                let connection = connect(server, self.patience)?;
                clients.push((*place, connection));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (number, (place, connection)) in (1..).zip(clients) {
            let client = Client {
                number,
                servers: group.servers.clone(),
                at: place,
                patience: self.patience,
                work: self.work.clone(),
                pace: self.rate.map(|rate| Pace::of(rate, count, number)),
                clock,
                stop: Arc::clone(&stop),
                random: SmallRng::seed_from_u64(u64::from(number)),
            };
            let thread = std::thread::spawn(move || client.run(connection));
            threads.push((place, thread));
        }
        Ok(Running { stop, threads })
    }
}

impl Running {
    /// Ends the clients and gives what they saw, by server in the group's order.
    pub fn finish(mut self) -> Result<Vec<ServerLog>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut logs: Vec<ServerLog> = Vec::new();
        for (server, thread) in std::mem::take(&mut self.threads) {
            let attempts = thread.join().map_err(|_| MeterError::Panicked)?;
            match logs.iter_mut().find(|log| log.server == server) {
                Some(log) => log.by_client.push(attempts),
                None => logs.push(ServerLog {
                    server,
                    by_client: vec![attempts],
                }),
            }
        }
        Ok(logs)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in std::mem::take(&mut self.threads) {
            let _ = thread.join(); // a panic has been printed
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    every: Duration,
    /// Clients begin one after the other, so that the group sees an even load.
    first: Duration,
}

impl Pace {
    fn of(rate: f64, clients: u32, number: u32) -> Pace {
        let every = Duration::from_secs_f64(f64::from(clients) / rate);
        Pace {
            every,
            first: every * (number - 1) / clients.max(1),
        }
    }
}

fn connect(server: &Server, patience: Option<Duration>) -> Result<Conn> {
    match patience {
        Some(patience) => server.connect_patiently(patience),
        None => server.connect(),
    }
}

struct Client {
    number: u32,
    servers: Vec<Server>,
    /// The place of its server in the group.
    at: usize,
    patience: Option<Duration>,
    work: Work,
    pace: Option<Pace>,
    clock: Instant,
    stop: Arc<AtomicBool>,
    random: SmallRng,
}

impl Client {
    fn run(mut self, connection: Conn) -> Vec<Attempt> {
        let mut connection = Some(connection);
        let mut attempts = Vec::new();
        let mut due = Instant::now() + self.pace.map_or(Duration::ZERO, |pace| pace.first);
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if connection.is_none() && self.patience.is_some() {
                connection = self.next_connection();
                continue; // nothing was sent
            }
            number += 1;
            let begun = Instant::now();
            let ending = self.attempt(&mut connection, number);
            attempts.push(Attempt {
                due_us: self.us(due),
                begun_us: self.us(begun),
                ended_us: self.us(Instant::now()),
                ending,
            });
            if connection.is_none() && self.patience.is_none() {
                connection = self.next_connection();
            }
            due = self.pace.map_or_else(Instant::now, |pace| due + pace.every);
        }
        attempts
    }

    fn next_connection(&mut self) -> Option<Conn> {
        std::thread::sleep(RECONNECT_AFTER);
        if self.patience.is_some() {
            self.at = (self.at + 1) % self.servers.len();
        }
        connect(&self.servers[self.at], self.patience).ok()
    }

    fn us(&self, at: Instant) -> u64 {
        us_at(at, self.clock)
    }

    /// Takes the connection away if it is of no use any more.
    fn attempt(&mut self, slot: &mut Option<Conn>, number: u64) -> Ending {
        let Some(connection) = slot else {
            return Ending::Lost;
        };
        match self.transaction(connection, number) {
            Ok(()) => Ending::Committed,
            Err(mysql::Error::MySqlError(error)) => {
                // After some errors the transaction is still open.
                let stays = self.patience.is_none() || is_refusal(error.code);
                if !stays || connection.query_drop("ROLLBACK").is_err() {
                    *slot = None;
                }
                Ending::Refused(error.code)
            }
            Err(_) => {
                *slot = None;
                Ending::Lost
            }
        }
    }

    fn transaction(&mut self, connection: &mut Conn, number: u64) -> mysql::Result<()> {
        match &self.work {
            Work::OwnRow(table) => connection.query_drop(format!(
                "UPDATE {DATABASE}.{table} SET n = {number} WHERE id = {}",
                self.number
            )),
            Work::RandomRows(table, rows) => {
                // In ascending order: clients of one server wait for each other and do not
                // deadlock, so that refusals come from other servers only.
                let mut pair = [(); 2].map(|()| self.random.random_range(1..=*rows));
                pair.sort_unstable();
                connection.query_drop("BEGIN")?;
                for id in pair {
                    let update = format!("UPDATE {DATABASE}.{table} SET n = n + 1 WHERE id = {id}");
                    connection.query_drop(update)?;
                }
                connection.query_drop("COMMIT")
            }
            Work::UniqueRows(table) => connection.query_drop(format!(
                "INSERT INTO {DATABASE}.{table} (id) VALUES ({})",
                unique_id(self.number, number)
            )),
            Work::Marks(table) => connection.query_drop(format!(
                "INSERT INTO {DATABASE}.{table} (mark) VALUES ('{}')",
                mark(self.us(Instant::now()))
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_the_rate_and_begin_one_after_the_other() {
        // 200 per second from 4 clients: each every 20 ms, 5 ms apart.
        let ms = Duration::from_millis;
        for (number, first) in [(1, 0), (2, 5), (4, 15)] {
            let expected = Pace {
                every: ms(20),
                first: ms(first),
            };
            assert_eq!(Pace::of(200.0, 4, number), expected);
        }
    }
}

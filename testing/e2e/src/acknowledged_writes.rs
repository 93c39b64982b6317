//! Clients that insert rows with unique ids and record the server's answers, and a check of the SQL
//! tables against these answers.
//!
//! Each answer has a rule. *Acknowledged*: the row is on every node. *Refused* (a conflict, rolled
//! back by the server): the row is on no node, and never will be: an application would repeat the
//! transaction. *Unknown* (connection lost, node not ready, timeout): the row may be there or not,
//! but the same on every node (`agreement`).
//!
//! The table takes an id twice. So a transaction that was executed twice, by whomever, shows.
//!
//! This is not the judgement of the oracle in `testing/chaos`. That needs the whole history of each
//! database, with positions and snapshots, which SQL tables do not show; it judges order, lost
//! updates and stale reads. Here only the presence of rows is checked, and gaps in the service are
//! measured.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, ensure};
use crate::harness::{TestCluster, client_options};

/// Errors by which the server says that the transaction was rolled back.
const REFUSALS: [u16; 4] = [1213, 1205, 1020, NOT_THE_WRITER];
/// The error of a server that takes no writes.
pub const NOT_THE_WRITER: u16 = 1290;
/// Between attempts to connect to a node that is down: it refuses at once, and without a pause the
/// writer would take the processor from the others.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Ids of one writer begin at its number times this.
const IDS_PER_WRITER: u64 = 1 << 32;
/// Bytes that [`Style::Large`] inserts beside its row.
const LARGE_BYTES: usize = 500_000;
/// Pause of a writer of [`Style::Large`] after each insert, so that a test writes some hundred
/// megabytes and not as many gigabytes.
const LARGE_PAUSE: Duration = Duration::from_millis(50);
/// Pause of a writer of [`Style::Calm`] after each insert.
const CALM_PAUSE: Duration = Duration::from_millis(20);
/// Rows that conflicting writers fight for.
const HOT_ROWS: u64 = 8;

/// Style of a writer's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Inserts a row, in a statement that commits by itself. The server may repeat it.
    Alone,
    /// The same with a pause, so that a replica keeps up, whose transactions come one by one.
    Calm,
    /// Inserts a row, changes one that others change as well, and inserts into the range of
    /// [`Style::Locking`], in one transaction.
    Conflicting,
    /// Locks a range without changing it, and inserts a row, in one transaction. An insert into the
    /// range aborts it by force on its own server, and is no conflict to the group.
    Locking,
    /// Changes a row that others change as well, then inserts a row, in one transaction.
    Hot,
    /// Inserts a row and half a megabyte beside it, in one transaction.
    Large,
}

/// The answers that one writer got.
#[derive(Debug, Default, Clone)]
pub struct Record {
    /// The node it wrote to.
    pub node: u8,
    /// Acknowledged ids, and when the acknowledgement came.
    pub acknowledged: Vec<(u64, Instant)>,
    /// Ids whose insert was rolled back.
    pub refused: Vec<u64>,
    /// Ids whose insert had no clear answer.
    pub unknown: Vec<u64>,
    /// The numbers of the server's errors, and when they came.
    pub errors: Vec<(u16, Instant)>,
    /// The last error, for the reader of a failed test.
    pub last_error: String,
}

#[derive(Debug)]
pub struct Writers {
    table: String,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    records: Vec<Arc<Mutex<Record>>>,
    threads: Vec<JoinHandle<()>>,
    /// Longest wait of a writer for the answer to a statement; none: that of all clients of tests.
    patience: Option<Duration>,
}

impl Writers {
    /// Makes an empty table `e2e_data.NAME` and starts `per_node` writers on each of `nodes`.
    pub fn start(
        cluster: &TestCluster,
        name: &str,
        nodes: &[u8],
        per_node: u64,
    ) -> Outcome<Writers> {
        let mut writers = Writers::prepare(cluster, name)?;
        for node in nodes {
            writers.add(cluster, *node, per_node, Style::Alone);
        }
        Ok(writers)
    }

    /// Makes the empty table `e2e_data.NAME`, and the rows that are fought for.
    pub fn prepare(cluster: &TestCluster, name: &str) -> Outcome<Writers> {
        let table = format!("e2e_data.{name}");
        let columns = "place BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT UNSIGNED, node INT, \
                       payload VARCHAR(100), KEY (id)";
        let hot = format!("{table}_hot");
        for sql in [
            format!("CREATE OR REPLACE TABLE {table} ({columns})"),
            format!("CREATE OR REPLACE TABLE {hot} (id INT PRIMARY KEY, changes BIGINT)"),
            format!("CREATE OR REPLACE TABLE {table}_range (id SERIAL)"),
            format!("CREATE OR REPLACE TABLE {table}_large (id SERIAL, v MEDIUMBLOB)"),
            format!("INSERT INTO {hot} SELECT seq, 0 FROM e2e_data.seq_1_to_{HOT_ROWS}"),
        ] {
            cluster.execute(1, &sql)?;
        }
        Ok(Writers {
            table,
            stop: Arc::default(),
            count: Arc::default(),
            records: Vec::new(),
            threads: Vec::new(),
            patience: None,
        })
    }

    /// Sets the longest wait for an answer, for writers added from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = Some(patience);
    }

    /// Starts `count` writers on a node.
    pub fn add(&mut self, cluster: &TestCluster, node: u8, count: u64, style: Style) {
        for _ in 0..count {
            self.add_one(node, cluster.port(node), style);
        }
    }

    fn add_one(&mut self, node: u8, port: u16, style: Style) {
        let record = Arc::new(Mutex::new(Record {
            node,
            ..Record::default()
        }));
        let options = OptsBuilder::from_opts(client_options(port));
        let options = match self.patience {
            Some(patience) => options.read_timeout(Some(patience)),
            None => options,
        };
        let writer = Writer {
            options: options.into(),
            table: self.table.clone(),
            stop: Arc::clone(&self.stop),
            count: Arc::clone(&self.count),
            record: Arc::clone(&record),
            style,
            next_id: (self.records.len() as u64 + 1) * IDS_PER_WRITER,
        };
        self.records.push(record);
        self.threads.push(std::thread::spawn(move || writer.run()));
    }

    /// Waits until `more` further inserts have been acknowledged.
    ///
    /// # Errors
    /// When that takes longer than `timeout`.
    pub fn await_more(&self, more: u64, timeout: Duration) -> Outcome {
        let goal = self.count.load(Ordering::Relaxed) + more;
        let reached = || (self.count.load(Ordering::Relaxed) >= goal).then_some(());
        wait_for(timeout, reached).ok_or_else(|| self.too_slow(more, timeout))
    }

    /// Waits until a writer of `node` has been given an acknowledgement later than `time`.
    ///
    /// # Errors
    /// When that takes longer than `timeout`.
    pub fn await_commit_after(&self, node: u8, time: Instant, timeout: Duration) -> Outcome {
        let later = |record: &Record| {
            record.node == node && record.acknowledged.last().is_some_and(|(_, at)| *at > time)
        };
        let seen = || {
            self.records
                .iter()
                .any(|record| later(&read(record)))
                .then_some(())
        };
        wait_for(timeout, seen)
            .ok_or_else(|| Failure(format!("node{node}: {}", self.too_slow(1, timeout).0)))
    }

    /// Number of inserts that a node has acknowledged.
    pub fn acknowledged_by(&self, node: u8) -> usize {
        let records = self.records.iter().map(|record| read(record));
        let of_node = records.filter(|record| record.node == node);
        of_node.map(|record| record.acknowledged.len()).sum()
    }

    fn too_slow(&self, more: u64, timeout: Duration) -> Failure {
        let errors: Vec<String> = self
            .records
            .iter()
            .map(|record| read(record).last_error.clone())
            .collect();
        Failure(format!(
            "fewer than {more} commits in {} s; the writers' last errors: {errors:?}",
            timeout.as_secs()
        ))
    }

    /// Ends all writers and returns the answers that they got.
    pub fn finish(mut self) -> Report {
        self.stop_all();
        let records = self
            .records
            .iter()
            .map(|record| read(record).clone())
            .collect();
        Report {
            table: self.table.clone(),
            records,
        }
    }

    fn stop_all(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("a writer panicked");
            }
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn read(record: &Mutex<Record>) -> std::sync::MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer {
    options: Opts,
    table: String,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    record: Arc<Mutex<Record>>,
    style: Style,
    next_id: u64,
}

impl Writer {
    fn run(mut self) {
        let mut connection = None;
        while !self.stop.load(Ordering::Relaxed) {
            connection = match connection.take() {
                Some(open) => self.insert(open),
                None => self.connect(),
            };
            match self.style {
                Style::Large => self.pause(LARGE_PAUSE),
                Style::Calm => self.pause(CALM_PAUSE),
                Style::Alone | Style::Conflicting | Style::Locking | Style::Hot => {}
            }
        }
    }

    fn connect(&self) -> Option<Conn> {
        match Conn::new(self.options.clone()) {
            Ok(connection) => Some(connection),
            Err(error) => {
                read(&self.record).last_error = error.to_string();
                self.pause(RETRY_AFTER);
                None
            }
        }
    }

    /// Waits, unless the test ends.
    fn pause(&self, time: Duration) {
        let stopping = || self.stop.load(Ordering::Relaxed).then_some(());
        wait_for(time, stopping);
    }

    /// Inserts one row; returns the connection if it can still be used.
    fn insert(&mut self, mut connection: Conn) -> Option<Conn> {
        let id = self.next_id;
        self.next_id += 1;
        let outcome = self.write(&mut connection, id);
        let mut record = read(&self.record);
        if let Err(mysql::Error::MySqlError(error)) = &outcome {
            record.errors.push((error.code, Instant::now()));
        }
        match outcome {
            Ok(()) => {
                record.acknowledged.push((id, Instant::now()));
                self.count.fetch_add(1, Ordering::Relaxed);
                Some(connection)
            }
            Err(mysql::Error::MySqlError(error)) if REFUSALS.contains(&error.code) => {
                record.refused.push(id);
                drop(record);
                if error.code == NOT_THE_WRITER {
                    self.pause(RETRY_AFTER);
                }
                // Of some errors only the statement was rolled back.
                connection.query_drop("ROLLBACK").ok().map(|()| connection)
            }
            Err(error) => {
                record.unknown.push(id);
                record.last_error = error.to_string();
                drop(record);
                self.pause(RETRY_AFTER);
                None
            }
        }
    }
}

impl Writer {
    fn write(&self, connection: &mut Conn, id: u64) -> mysql::Result<()> {
        let (table, node) = (&self.table, read(&self.record).node);
        let insert = format!(
            "INSERT INTO {table} (id, node, payload) VALUES ({id}, {node}, REPEAT('x', 80))"
        );
        let statements = match self.style {
            Style::Alone | Style::Calm => return connection.query_drop(insert),
            Style::Conflicting => {
                let hot = 1 + id % HOT_ROWS;
                vec![
                    insert,
                    format!("INSERT INTO {table}_range VALUES ()"),
                    format!("UPDATE {table}_hot SET changes = changes + 1 WHERE id = {hot}"),
                ]
            }
            Style::Hot => {
                let hot = 1 + id % HOT_ROWS;
                vec![
                    format!("UPDATE {table}_hot SET changes = changes + 1 WHERE id = {hot}"),
                    insert,
                ]
            }
            Style::Large => vec![
                insert,
                format!("INSERT INTO {table}_large (v) VALUES (REPEAT('y', {LARGE_BYTES}))"),
            ],
            Style::Locking => vec![
                format!("SELECT id FROM {table}_range WHERE id > {IDS_PER_WRITER} FOR UPDATE"),
                insert,
            ],
        };
        connection.query_drop("START TRANSACTION")?;
        for sql in statements {
            connection.query_drop(sql)?;
        }
        connection.query_drop("COMMIT")
    }
}

/// The answers of all writers, for checks afterwards.
#[derive(Debug)]
pub struct Report {
    table: String,
    pub records: Vec<Record>,
}

impl Report {
    /// Number of acknowledged inserts.
    pub fn acknowledged_count(&self) -> usize {
        self.records
            .iter()
            .map(|record| record.acknowledged.len())
            .sum()
    }

    /// Checks on each of `nodes` that the table has all acknowledged rows, no refused one, and none
    /// twice.
    ///
    /// # Errors
    /// Naming the node and the first ids that are wrong.
    pub fn check_rows(&self, cluster: &TestCluster, nodes: &[u8]) -> Outcome {
        for node in nodes {
            let sql = format!(
                "SET SESSION wsrep_sync_wait=1; SELECT id FROM {}",
                self.table
            );
            let ids = cluster.rows(*node, &sql)?;
            let there: HashSet<u64> = ids.iter().filter_map(|id| id.parse().ok()).collect();
            self.check_one(*node, &there)?;
            ensure(there.len() == ids.len(), || {
                let twice = ids.len() - there.len();
                format!("node{node} has {twice} rows of {} twice", self.table)
            })?;
        }
        eprintln!("  {}: {}", self.table, self.figures());
        Ok(())
    }

    /// Number of errors with this number from these nodes in this time.
    pub fn errors_on(&self, nodes: &[u8], number: u16, from: Instant, to: Instant) -> usize {
        let records = self.records.iter().filter(|r| nodes.contains(&r.node));
        let errors = records.flat_map(|record| &record.errors);
        let counted = |(code, at): &&(u16, Instant)| *code == number && (from..to).contains(at);
        errors.filter(counted).count()
    }

    /// Number of inserts by writers to these nodes without a clear answer.
    pub fn unknown_on(&self, nodes: &[u8]) -> usize {
        let records = self.records.iter().filter(|r| nodes.contains(&r.node));
        records.map(|record| record.unknown.len()).sum()
    }

    /// Number of ids by answer, as a text.
    pub fn figures(&self) -> String {
        let unknown: usize = self.records.iter().map(|record| record.unknown.len()).sum();
        let refused: usize = self.records.iter().map(|record| record.refused.len()).sum();
        let acknowledged = self.acknowledged_count();
        format!("{acknowledged} acknowledged, {refused} refused, {unknown} unknown")
    }

    fn check_one(&self, node: u8, there: &HashSet<u64>) -> Outcome {
        let acknowledged = self.records.iter().flat_map(|record| &record.acknowledged);
        let lost: Vec<u64> = acknowledged
            .map(|(id, _)| *id)
            .filter(|id| !there.contains(id))
            .collect();
        ensure(lost.is_empty(), || {
            let first = &lost[..lost.len().min(5)];
            format!(
                "node{node} lost {} acknowledged rows of {}: {first:?}",
                lost.len(),
                self.table
            )
        })?;
        let refused = self.records.iter().flat_map(|record| &record.refused);
        let ghosts: Vec<u64> = refused.copied().filter(|id| there.contains(id)).collect();
        ensure(ghosts.is_empty(), || {
            let first = &ghosts[..ghosts.len().min(5)];
            format!(
                "node{node} has {} refused rows of {}: {first:?}",
                ghosts.len(),
                self.table
            )
        })
    }

    /// The longest time without an acknowledgement by any of `nodes`, between two moments.
    pub fn longest_gap(&self, nodes: &[u8], from: Instant, to: Instant) -> Duration {
        let mut times = self.times(nodes, from, to);
        times.push(from);
        times.push(to);
        times.sort_unstable();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }

    /// Whole seconds from `from` on, up to `to`, in which none of `nodes` acknowledged anything.
    pub fn empty_seconds(&self, nodes: &[u8], from: Instant, to: Instant) -> Vec<u64> {
        let filled: HashSet<u64> = self
            .times(nodes, from, to)
            .iter()
            .map(|at| (*at - from).as_secs())
            .collect();
        (0..(to - from).as_secs())
            .filter(|second| !filled.contains(second))
            .collect()
    }

    fn times(&self, nodes: &[u8], from: Instant, to: Instant) -> Vec<Instant> {
        let records = self
            .records
            .iter()
            .filter(|record| nodes.contains(&record.node));
        let all = records.flat_map(|record| record.acknowledged.iter().map(|(_, at)| *at));
        all.filter(|at| *at >= from && *at <= to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(begin: Instant, milliseconds: &[u64]) -> Report {
        let at = |ms: &u64| (*ms, begin + Duration::from_millis(*ms));
        let acknowledged = milliseconds.iter().map(at).collect();
        let record = Record {
            node: 1,
            acknowledged,
            refused: vec![9],
            ..Record::default()
        };
        Report {
            table: "t".into(),
            records: vec![record],
        }
    }

    #[test]
    fn gaps_and_empty_seconds_are_found() {
        let begin = Instant::now();
        let report = report(begin, &[100, 900, 2100, 3500]);
        let end = begin + Duration::from_secs(4);
        assert_eq!(
            report.longest_gap(&[1], begin, end),
            Duration::from_millis(1400)
        );
        assert_eq!(report.empty_seconds(&[1], begin, end), [1]);
        assert_eq!(report.empty_seconds(&[2], begin, end), [0, 1, 2, 3]);
    }

    #[test]
    fn lost_and_refused_rows_are_noticed() {
        let report = report(Instant::now(), &[1, 2]);
        assert!(report.check_one(1, &HashSet::from([1, 2, 77])).is_ok());
        assert!(
            report
                .check_one(1, &HashSet::from([1]))
                .unwrap_err()
                .0
                .contains("lost 1")
        );
        assert!(
            report
                .check_one(1, &HashSet::from([1, 2, 9]))
                .unwrap_err()
                .0
                .contains("refused")
        );
    }
}

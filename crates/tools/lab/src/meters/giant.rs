//! `giant`: effect of one statement that changes millions of rows on small transactions of all
//! servers: how long they wait, how late they become visible, and how much memory the statement
//! takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::clients::{Crew, ServerLog, Work, us_since};
use super::error::{MeterError, Result};
use super::group::{DATABASE, Group, Server, number};
use super::memory;
use super::record::{GiantFindings, GiantServer};
use super::timeline;
use super::visibility::{Sighting, Written, lateness};
use super::watch::{Moment, Watch};
use crate::statistics::Distribution;

/// A row of the giant's table takes as much as one of sysbench's: some 190 bytes.
const COLUMNS: &str =
    "id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL";

const VALUES: &str = "seq, 0, REPEAT(MD5(seq), 3), MD5(seq + 1)";

/// Interval at which each server is asked for the rows of all small clients.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Small transactions run for this time before the statement begins, and after it has ended.
const MARGIN: Duration = Duration::from_secs(3);

/// Longest time to apply a huge transaction.
const APPLY_TIMEOUT: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, PartialEq)]
pub struct GiantPlan {
    pub rows: u64,
    pub origin: usize,
    /// Small transactions per second, all servers; one part of the run each.
    pub rates: Vec<f64>,
    pub clients: u32,
    /// `wsrep_trx_fragment_size` for the statement, bytes; 0: no fragments.
    pub fragment_bytes: u64,
}

/// A refusal of the huge statement is a finding, any other refusal an error.
pub fn run(group: &Group, plan: &GiantPlan) -> Result<Vec<GiantFindings>> {
    let _database = group.make_database()?;
    group.make_table("giant", COLUMNS, VALUES, plan.rows)?;
    let small = u64::from(plan.clients) * group.servers.len() as u64;
    group.make_table(
        "small",
        "id INT PRIMARY KEY, n BIGINT NOT NULL",
        "seq, 0",
        small,
    )?;
    let mut findings = Vec::new();
    for rate in &plan.rates {
        findings.push(run_part(group, plan, *rate)?);
        group.servers[0].execute(&[&format!("UPDATE {DATABASE}.small SET n = 0")])?;
        group.await_agreement(&group.servers[0], APPLY_TIMEOUT)?;
    }
    Ok(findings)
}

fn run_part(group: &Group, plan: &GiantPlan, rate: f64) -> Result<GiantFindings> {
    let origin = &group.servers[plan.origin];
    let mut statement = Statement::prepare(group, plan)?;
    let before: Vec<Option<u64>> = group.servers.iter().map(begin_memory).collect();
    let clock = Instant::now();
    let watch = Watch::start(group)?;
    let looks = group
        .servers
        .iter()
        .map(|server| Look::start(server, clock))
        .collect::<Result<Vec<Look>>>()?;
    let crew = Crew {
        work: Work::OwnRow("small".into()),
        clients: plan.clients,
        rate: Some(rate),
        patience: None,
    };
    let all: Vec<usize> = (0..group.servers.len()).collect();
    let running = crew.start(group, &all, clock)?;
    thread::sleep(MARGIN);
    let term = term_of(origin);
    let answer = statement.execute();
    let visible = match &answer.refused {
        None => statement.await_visible(group)?,
        Some(_) => vec![None; group.servers.len()],
    };
    thread::sleep(MARGIN);
    let elections = term_of(origin)
        .zip(term)
        .map(|(after, before)| after - before);
    let end_us = us_since(clock);
    let logs = running.finish()?;
    group.await_agreement(origin, APPLY_TIMEOUT)?;
    thread::sleep(LOOK_EVERY * 5); // every row is read once more
    let mut servers = Vec::new();
    let moments = watch.finish()?;
    for (place, look) in looks.into_iter().enumerate() {
        let written = written_elsewhere(&logs, plan.clients, place);
        let late = lateness(&written, &look.finish()?);
        let server = GiantServer {
            visible_after_ms: visible[place],
            resident_before_bytes: before[place],
            peak_bytes: group.servers[place].pid.and_then(memory::peak_bytes),
            library_bytes: greatest_bytes(&moments, place),
            ..of_clients(&group.servers[place], &logs[place], end_us)
        };
        servers.push(with_lateness(server, &late));
    }
    Ok(GiantFindings {
        rows: plan.rows,
        fragment_bytes: plan.fragment_bytes,
        origin: origin.name.clone(),
        rate,
        seconds: answer.seconds,
        refused: answer.refused,
        elections,
        servers,
    })
}

fn begin_memory(server: &Server) -> Option<u64> {
    let pid = server.pid?;
    memory::forget_peak(pid);
    memory::resident_bytes(pid)
}

fn term_of(server: &Server) -> Option<i64> {
    number(&server.status().ok()?, "wsrep_synod_term")
}

fn written_elsewhere(logs: &[ServerLog], clients: u32, place: usize) -> Vec<Written> {
    let mut written = Vec::new();
    let all = logs
        .iter()
        .flat_map(|log| log.by_client.iter().map(|c| (log.server, c)));
    // Clients have the numbers of their rows in the order of servers: see `Crew::start`.
    for (row, (server, client)) in (1..).zip(all) {
        debug_assert_eq!(server, (row as usize - 1) / clients as usize);
        if server == place {
            continue;
        }
        let commits = (1..).zip(client).filter(|(_, attempt)| attempt.is_commit());
        written.extend(commits.map(|(number, attempt)| Written {
            row,
            number,
            at_us: attempt.ended_us,
        }));
    }
    written
}

fn of_clients(server: &Server, log: &ServerLog, end_us: u64) -> GiantServer {
    let attempts = log.attempts();
    let begin_us = attempts
        .iter()
        .map(|a| a.begun_us)
        .min()
        .unwrap_or_default();
    GiantServer {
        server: server.name.clone(),
        commits: timeline::commits(&attempts),
        longest_wait_ms: timeline::longest_wait_ms(&attempts),
        longest_gap_ms: timeline::longest_gap_ms(&attempts, begin_us, end_us),
        longest_behind_ms: timeline::longest_behind_ms(&attempts),
        errors: timeline::errors_by_kind(&attempts),
        ..GiantServer::default()
    }
}

fn with_lateness(server: GiantServer, late: &[Option<u64>]) -> GiantServer {
    let times: Vec<f64> = late.iter().flatten().map(|us| timeline::ms(*us)).collect();
    GiantServer {
        never_seen: (late.len() - times.len()) as u64,
        late: Distribution::of(&times),
        ..server
    }
}

/// The greatest values of the library's variables that tell bytes of memory.
fn greatest_bytes(moments: &[Moment], place: usize) -> std::collections::BTreeMap<String, i64> {
    let mut greatest = std::collections::BTreeMap::new();
    let statuses = moments.iter().filter_map(|m| m.get(place)?.as_ref());
    for (name, value) in statuses.flatten() {
        // The log is on disk.
        let is_memory = name.starts_with("wsrep_synod_") && name.ends_with("_bytes");
        if !is_memory || name == "wsrep_synod_log_size_bytes" {
            continue;
        }
        if let Ok(value) = value.parse::<i64>() {
            let most = greatest.entry(name.clone()).or_insert(value);
            *most = value.max(*most);
        }
    }
    greatest
}

struct Statement {
    connection: Conn,
    readers: Vec<Conn>,
    value: i64,
    rows: u64,
}

struct Answer {
    seconds: f64,
    refused: Option<String>,
}

impl Statement {
    fn prepare(group: &Group, plan: &GiantPlan) -> Result<Statement> {
        let origin = &group.servers[plan.origin];
        let mut connection = origin.connect_for_giants()?;
        if plan.fragment_bytes > 0 {
            let set = format!(
                "SET SESSION wsrep_trx_fragment_unit = 'bytes', \
                 SESSION wsrep_trx_fragment_size = {}",
                plan.fragment_bytes
            );
            let done = connection.query_drop(&set);
            done.map_err(|source| origin.refused(&set, source))?;
        }
        let mut readers = Vec::new();
        for server in &group.servers {
            readers.push(server.connect()?);
        }
        let mut statement = Statement {
            connection,
            readers,
            value: 0,
            rows: plan.rows,
        };
        statement.value = statement.value_at(plan.origin).unwrap_or_default();
        Ok(statement)
    }

    fn execute(&mut self) -> Answer {
        let begin = Instant::now();
        let update = format!("UPDATE {DATABASE}.giant SET k = k + 1");
        let done = self.connection.query_drop(update);
        Answer {
            seconds: begin.elapsed().as_secs_f64(),
            refused: done.err().map(|error| error.to_string()),
        }
    }

    /// Waits until the rows are visible; gives for each server how long that took, milliseconds.
    fn await_visible(&mut self, group: &Group) -> Result<Vec<Option<f64>>> {
        let begin = Instant::now();
        let mut visible = vec![None; group.servers.len()];
        while visible.contains(&None) && begin.elapsed() < APPLY_TIMEOUT {
            for (place, seen) in visible.iter_mut().enumerate() {
                if seen.is_none() && self.value_at(place) > Some(self.value) {
                    *seen = Some(begin.elapsed().as_secs_f64() * 1000.0);
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(visible)
    }

    /// The value of the last row on a server; none if the server does not answer.
    fn value_at(&mut self, place: usize) -> Option<i64> {
        let read = format!("SELECT k FROM {DATABASE}.giant WHERE id = {}", self.rows);
        self.readers.get_mut(place)?.query_first(read).ok()?
    }
}

/// Reads the rows of all small clients on one server, again and again.
struct Look {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Sighting>>>,
}

impl Look {
    fn start(server: &Server, clock: Instant) -> Result<Look> {
        let mut connection = server.connect()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut sightings = Vec::new();
            let mut newest = std::collections::BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                let at_us = us_since(clock);
                let read = format!("SELECT id, n FROM {DATABASE}.small");
                let rows: Vec<(u32, u64)> = connection.query(read).unwrap_or_default();
                for (row, number) in rows {
                    if newest.insert(row, number) != Some(number) {
                        sightings.push(Sighting { row, number, at_us });
                    }
                }
                std::thread::sleep(LOOK_EVERY);
            }
            sightings
        });
        Ok(Look {
            stop,
            thread: Some(thread),
        })
    }

    fn finish(mut self) -> Result<Vec<Sighting>> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        joined
            .unwrap_or(Ok(Vec::new()))
            .map_err(|_| MeterError::Panicked)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has been printed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Attempt, Ending};
    use super::*;

    #[test]
    fn writes_of_other_servers_carry_the_numbers_that_their_rows_show() {
        let attempt = |ended_us, ending| Attempt {
            due_us: 0,
            begun_us: 0,
            ended_us,
            ending,
        };
        let client = vec![
            attempt(10, Ending::Committed),
            attempt(20, Ending::Refused(1213)),
            attempt(30, Ending::Committed),
        ];
        let log = |server| ServerLog {
            server,
            by_client: vec![client.clone(), Vec::new()],
        };
        let written = written_elsewhere(&[log(0), log(1)], 2, 0);
        let expected = |number, at_us| Written {
            row: 3,
            number,
            at_us,
        };
        assert_eq!(written, [expected(1, 10), expected(3, 30)]);
    }

    #[test]
    fn greatest_value_of_each_variable_of_memory_is_kept() {
        let status = |name: &str, value: &str| {
            Some(super::super::group::Status::from([(
                name.to_owned(),
                value.to_owned(),
            )]))
        };
        let moments = [
            vec![status("wsrep_synod_queue_bytes", "5")],
            vec![status("wsrep_synod_queue_bytes", "9")],
            vec![status("wsrep_synod_queue_bytes", "7")],
            vec![status("wsrep_synod_log_size_bytes", "99")],
        ];
        let expected = [("wsrep_synod_queue_bytes".to_owned(), 9)];
        assert_eq!(greatest_bytes(&moments, 0), expected.into());
    }
}

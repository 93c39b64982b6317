//! The programs of `examples/clients`, each with the connector of its language, while servers die,
//! hang and hand over. Each order that they were given is there once, in one order, on all servers,
//! and they end without an error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use synod_e2e::harness::{PASSWORD, USER};
use synod_e2e::programs::{lead, signal};
use synod_e2e::readers::Readers;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 20706;
const ALL: [u8; 3] = [1, 2, 3];
/// Orders of each client that show that it continues.
const SOME: u64 = 30;
/// For a client that waits for an answer first, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Errors of transactions that met another one, which need no fault: 1213, 1020, 1205.
const CONFLICTS: [&str; 3] = [
    "Deadlock found",
    "Record has changed since last read",
    "Lock wait timeout exceeded",
];

#[test]
fn programs_of_four_languages_commit_each_order_once() -> Outcome {
    let programs = Readers::install()?.clients();
    let mut cluster = TestCluster::fresh("connectors", BASE_PORT)?;
    let tables = place::workspace().join("examples/clients/orders.sql");
    for statement in fs::read_to_string(tables).why("orders.sql")?.split(";\n") {
        if !statement.trim().is_empty() {
            cluster.execute(1, statement)?;
        }
    }
    let mut clients = Vec::new();
    for (number, (language, command)) in programs.into_iter().enumerate() {
        clients.push(Client::start(&cluster, language, command, number)?);
    }
    let outcome = order(&mut cluster, &clients).and_then(|()| judge(&cluster, clients));
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn order(cluster: &mut TestCluster, clients: &[Client]) -> Outcome {
    continue_all(clients)?;
    let writer = cluster.leader();
    noticed("a leader is killed", clients, 1, || {
        cluster.kill(writer).map(drop).why("kill")
    })?;
    come_back(cluster, writer)?;

    let one = "SET GLOBAL wsrep_provider_options = 'synod.writers=leader'";
    noticed("one server writes", clients, 1, || cluster.execute(1, one))?;
    let all = clients.len();
    let writer = cluster.follower();
    noticed("a hand-over", clients, all, || lead(cluster, writer))?;
    noticed("the writer is killed", clients, all, || {
        cluster.kill(writer).map(drop).why("kill")
    })?;
    come_back(cluster, writer)?;
    let writer = cluster.leader();
    let hung = noticed("the writer hangs", clients, all, || {
        signal(cluster, writer, "-STOP")
    });
    // Whatever happened, no server stays behind that stands still.
    signal(cluster, writer, "-CONT")?;
    hung?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
    continue_all(clients)
}

fn come_back(cluster: &mut TestCluster, node: u8) -> Outcome {
    cluster.start(node, &|_, _| ()).why("start")?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")
}

/// Makes a fault; so many clients at least must have met it when all continue.
fn noticed(what: &str, clients: &[Client], by: usize, fault: impl FnOnce() -> Outcome) -> Outcome {
    let before: Vec<usize> = clients.iter().map(Client::faults).collect();
    fault()?;
    continue_all(clients)?;
    let told = clients.iter().zip(before);
    let told: Vec<&str> = told
        .filter(|(client, before)| client.faults() > *before)
        .map(|(client, _)| client.language)
        .collect();
    eprintln!("  {what}: met by {told:?}");
    ensure(told.len() >= by, || format!("{what}: met by {told:?} only"))
}

fn continue_all(clients: &[Client]) -> Outcome {
    let goals: Vec<u64> = clients.iter().map(|client| client.taken() + SOME).collect();
    for (client, goal) in clients.iter().zip(goals) {
        let come = wait_for(PATIENCE, || (client.taken() >= goal).then_some(()));
        ensure(come.is_some(), || {
            let taken = client.taken();
            format!(
                "{}: {taken} orders, not {goal}: {}",
                client.language,
                client.says()
            )
        })?;
    }
    Ok(())
}

fn judge(cluster: &TestCluster, clients: Vec<Client>) -> Outcome {
    let mut expected = BTreeSet::new();
    for client in clients {
        let (language, faults) = (client.language, client.faults());
        let count = client.finish()?;
        eprintln!("  {language}: {count} orders, {faults} faults met");
        expected.extend((0..count).map(|number| order_of(language, number)));
    }
    agreement::check(cluster, &ALL)?;
    let found = cluster.rows(1, "SELECT id FROM shop.orders")?;
    let found: BTreeSet<String> = found.into_iter().collect();
    ensure(found == expected, || {
        let lost: Vec<_> = expected.difference(&found).collect();
        let other: Vec<_> = found.difference(&expected).collect();
        format!("lost: {lost:?}; there, and not taken: {other:?}")
    })?;
    // A transaction that was executed twice, or has overwritten another one's, shows here.
    let count = expected.len();
    let pieces = "SELECT COUNT(DISTINCT piece), MIN(piece), MAX(piece), (SELECT pieces FROM \
                  shop.sold) FROM shop.orders";
    let pieces = cluster.rows(1, pieces)?;
    ensure(pieces == [format!("{count}\t1\t{count}\t{count}")], || {
        format!("{pieces:?} of {count} orders")
    })
}

fn order_of(language: &str, number: u64) -> String {
    format!("{language}-{number}")
}

/// A program that takes orders, one after the other, until it is told to end.
struct Client {
    language: &'static str,
    process: Child,
    log: PathBuf,
    taken: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    customer: Option<JoinHandle<Outcome>>,
}

impl Client {
    /// Starts it at another server than the one before.
    fn start(
        cluster: &TestCluster,
        language: &'static str,
        mut command: Command,
        number: usize,
    ) -> Outcome<Client> {
        let mut servers = ALL.map(|node| format!("127.0.0.1:{}", cluster.port(node)));
        servers.rotate_left(number % ALL.len());
        let log = cluster.settings().dir.join(format!("{language}.log"));
        let mut process = command
            .arg(servers.join(","))
            .env("DB_USER", USER)
            .env("DB_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).why("a log")?)
            .spawn()
            .why(language)?;
        let taken = Arc::<AtomicU64>::default();
        let stop = Arc::<AtomicBool>::default();
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (asks, answers) = pipes.ok_or("no pipes").why(language)?;
        let customer = std::thread::spawn({
            let (taken, stop) = (Arc::clone(&taken), Arc::clone(&stop));
            move || ask(language, asks, BufReader::new(answers), &taken, &stop)
        });
        Ok(Client {
            language,
            process,
            log,
            taken,
            stop,
            customer: Some(customer),
        })
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn says(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often it was told of more than a conflict.
    fn faults(&self) -> usize {
        let is_conflict = |line: &&str| CONFLICTS.iter().any(|text| line.contains(text));
        let says = self.says();
        says.lines().filter(|line| !is_conflict(line)).count()
    }

    /// Lets it end; the number of orders that it was given, all of which it has taken.
    fn finish(mut self) -> Outcome<u64> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(customer) = self.customer.take() {
            let asked = customer.join();
            let asked = asked.unwrap_or_else(|_| Err(Failure("a customer panicked".to_owned())));
            asked.map_err(|Failure(why)| Failure(format!("{why}: {}", self.says())))?;
        }
        let ended = wait_for(PATIENCE, || self.process.try_wait().ok().flatten());
        ensure(ended.is_some_and(|status| status.success()), || {
            format!("{}: {ended:?}: {}", self.language, self.says())
        })?;
        Ok(self.taken())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(
    language: &str,
    mut asks: ChildStdin,
    mut answers: BufReader<ChildStdout>,
    taken: &AtomicU64,
    stop: &AtomicBool,
) -> Outcome {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let order = order_of(language, number);
        writeln!(asks, "{order}").why(&order)?;
        let mut answer = String::new();
        answers.read_line(&mut answer).why(&order)?;
        ensure(answer.trim_end() == order, || {
            format!("{order} is answered by '{answer}'")
        })?;
        taken.store(number + 1, Ordering::Relaxed);
    }
    Ok(())
}

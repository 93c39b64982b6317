//! Latency of single-row commits, Synod next to Galera's library: the same servers, settings,
//! tables and clients, one cluster of three nodes at a time, in alternating rounds.
//!
//! ```text
//! make bench          (2 rounds of 10 s; set SYNOD_BENCH_ROUNDS and SYNOD_BENCH_SECONDS)
//! ```
//!
//! Clients are connected to node 1. `SYNOD_E2E_PROVIDER` names another library to measure,
//! `SYNOD_BENCH_GALERA` Galera's; without the latter, only the former is measured.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::{Failure, Outcome, TestCluster, Why, exit_code, place, usage};

/// Numbers of clients measured.
const THREADS: [usize; 2] = [1, 32];
/// Path of Galera's library in Debian's package.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

/// One library, its cluster, and what was measured with it.
struct Candidate {
    name: &'static str,
    cluster: TestCluster,
    /// Commit latencies by index into [`THREADS`], over all rounds.
    latencies: [Vec<Duration>; 2],
    measured: [Duration; 2],
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Outcome {
    let rounds = place::number("SYNOD_BENCH_ROUNDS", 2);
    let time = Duration::from_secs(place::number("SYNOD_BENCH_SECONDS", 10));
    let mut candidates = vec![Candidate::new("synod", 26306, place::provider()?)?];
    let galera =
        std::env::var_os("SYNOD_BENCH_GALERA").map_or(PathBuf::from(GALERA), PathBuf::from);
    if galera.is_file() {
        candidates.push(Candidate::new("galera", 27306, galera)?);
    } else {
        eprintln!("{} is not there: nothing to compare with", galera.display());
    }
    for round in 1..=rounds {
        for candidate in &mut candidates {
            eprintln!("round {round} of {rounds}: {}", candidate.name);
            candidate.measure(time)?;
        }
    }
    print_table(&mut candidates);
    for candidate in &mut candidates {
        candidate.cluster.destroy().why("removing the cluster")?;
    }
    Ok(())
}

impl Candidate {
    fn new(name: &'static str, base_port: u16, provider: PathBuf) -> Outcome<Candidate> {
        let cluster = TestCluster::with_provider(&format!("bench-{name}"), base_port, 3, provider)?;
        Ok(Candidate {
            name,
            cluster,
            latencies: Default::default(),
            measured: Default::default(),
        })
    }

    /// Starts the cluster, measures each number of clients, stops it.
    fn measure(&mut self, time: Duration) -> Outcome {
        self.cluster.up(&|_, _| ()).why("up")?;
        self.cluster.create_account()?;
        let columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(100)";
        self.cluster.execute(
            1,
            &format!("CREATE OR REPLACE TABLE e2e_data.bench ({columns})"),
        )?;
        for (index, threads) in THREADS.into_iter().enumerate() {
            inserts(&self.cluster, threads, time / 5)?; // warm up
            let begin = Instant::now();
            self.latencies[index].extend(inserts(&self.cluster, threads, time)?);
            self.measured[index] += begin.elapsed();
        }
        self.print_state()?;
        self.cluster.down(&|_, _| ()).why("down")
    }

    fn print_state(&self) -> Outcome {
        for node in self.cluster.nodes() {
            let status = self.cluster.node_status(node);
            let pid = status
                .pid
                .ok_or_else(|| Failure(format!("node{node} is down")))?;
            let mebibytes = usage::resident_bytes(pid)? / (1024 * 1024);
            let role = status.role.unwrap_or_else(|| "-".into());
            eprintln!("  node{node}: role {role}, {mebibytes} MiB resident");
        }
        Ok(())
    }
}

/// Commit latencies of `threads` clients that insert for `time`.
fn inserts(cluster: &TestCluster, threads: usize, time: Duration) -> Outcome<Vec<Duration>> {
    let connections: Vec<Conn> = (0..threads)
        .map(|_| cluster.connect(1))
        .collect::<Outcome<_>>()?;
    let end = Instant::now() + time;
    let clients: Vec<_> = connections
        .into_iter()
        .map(|connection| std::thread::spawn(move || client(connection, end)))
        .collect();
    let mut all = Vec::new();
    for client in clients {
        all.extend(
            client
                .join()
                .map_err(|_| Failure("client panicked".into()))??,
        );
    }
    Ok(all)
}

fn client(mut connection: Conn, end: Instant) -> Outcome<Vec<Duration>> {
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        let insert = "INSERT INTO e2e_data.bench (payload) VALUES (REPEAT('x', 80))";
        connection.query_drop(insert).why("insert")?;
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}

fn print_table(candidates: &mut [Candidate]) {
    println!("single-row autocommit inserts on node 1 of 3\n");
    println!(
        "{:<8} {:>7} {:>10} {:>10} {:>12}",
        "library", "clients", "p50 ms", "p99 ms", "commits/s"
    );
    for (index, threads) in THREADS.into_iter().enumerate() {
        let mut rows = Vec::new();
        for candidate in candidates.iter_mut() {
            let row = candidate.summary(index);
            println!(
                "{:<8} {threads:>7} {:>10.3} {:>10.3} {:>12.0}",
                candidate.name, row[0], row[1], row[2]
            );
            rows.push(row);
        }
        if let [one, two] = rows.as_slice() {
            let ratio = |i: usize| one[i] / two[i];
            println!(
                "{:<8} {threads:>7} {:>10.2} {:>10.2} {:>12.2}",
                "ratio",
                ratio(0),
                ratio(1),
                ratio(2)
            );
        }
    }
}

impl Candidate {
    /// p50 and p99 in milliseconds, commits per second.
    fn summary(&mut self, index: usize) -> [f64; 3] {
        let latencies = &mut self.latencies[index];
        latencies.sort_unstable();
        let percentile = |per_cent: usize| {
            let rank = (latencies.len() * per_cent / 100).min(latencies.len().saturating_sub(1));
            latencies
                .get(rank)
                .map_or(f64::NAN, |latency| latency.as_secs_f64() * 1000.0)
        };
        let rate = latencies.len() as f64 / self.measured[index].as_secs_f64();
        [percentile(50), percentile(99), rate]
    }
}

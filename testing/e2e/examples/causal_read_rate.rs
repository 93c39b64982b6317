//! Causal reads per second of one client, with a lease and without: two clusters of three nodes
//! beside each other, measured in turns, on the leader and on a follower.
//!
//! ```text
//! cargo run --release -p synod-e2e --example causal_read_rate
//! ```
//!
//! `SYNOD_BENCH_ROUNDS` (default 4) and `SYNOD_BENCH_SECONDS` per figure and round (default 3)
//! change how long it takes; `SYNOD_E2E_PROVIDER` names another library.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::{Outcome, TestCluster, Why, exit_code, place};

/// Candidates: a name, its first port, and the provider's options.
const CANDIDATES: [(&str, u16, &str); 2] = [
    ("without-lease", 20306, "synod.lease=PT0S"),
    ("with-lease", 20706, "synod.lease=PT0.4S"),
];

/// A cluster, and what was measured.
struct Candidate {
    cluster: TestCluster,
    leader: Rate,
    follower: Rate,
}

/// Reads and the time that they took.
#[derive(Default)]
struct Rate {
    reads: u32,
    time: Duration,
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Outcome {
    let rounds = place::number("SYNOD_BENCH_ROUNDS", 4);
    let time = Duration::from_secs(place::number("SYNOD_BENCH_SECONDS", 3));
    let mut candidates = Vec::new();
    for (name, port, options) in CANDIDATES {
        candidates.push(Candidate::start(name, port, options)?);
    }
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        // Who comes second finds other caches and another load of the machine.
        candidates.reverse();
        for candidate in &mut candidates {
            candidate.measure(time)?;
        }
    }
    candidates.sort_by_key(|candidate| candidate.cluster.settings().base_port);
    print_table(&candidates);
    for candidate in &mut candidates {
        candidate.cluster.destroy().why("removing the cluster")?;
    }
    Ok(())
}

impl Candidate {
    fn start(name: &str, base_port: u16, options: &str) -> Outcome<Candidate> {
        let mut cluster = TestCluster::empty(&format!("reads-{name}"), base_port, 3)?;
        cluster.settings_mut().provider_options = options.into();
        cluster.up(&|_, _| ()).why("starting the cluster")?;
        cluster.create_account()?;
        for sql in [
            "CREATE TABLE e2e_data.one (id INT PRIMARY KEY, value INT)",
            "INSERT INTO e2e_data.one VALUES (1, 1)",
        ] {
            cluster.execute(1, sql)?;
        }
        Ok(Candidate {
            cluster,
            leader: Rate::default(),
            follower: Rate::default(),
        })
    }

    fn measure(&mut self, time: Duration) -> Outcome {
        let (leader, follower) = (self.cluster.leader(), self.cluster.follower());
        self.leader.add(&self.cluster, leader, time)?;
        self.follower.add(&self.cluster, follower, time)
    }
}

impl Rate {
    fn add(&mut self, cluster: &TestCluster, node: u8, time: Duration) -> Outcome {
        let mut client = cluster.connect(node)?;
        let causal = "SET SESSION wsrep_sync_wait = 1";
        client.query_drop(causal).why("wsrep_sync_wait")?;
        reads(&mut client, time / 5)?; // warm up
        let begin = Instant::now();
        self.reads += reads(&mut client, time)?;
        self.time += begin.elapsed();
        Ok(())
    }

    fn per_second(&self) -> f64 {
        f64::from(self.reads) / self.time.as_secs_f64()
    }
}

/// Reads one row again and again; how often.
fn reads(client: &mut mysql::Conn, time: Duration) -> Outcome<u32> {
    let end = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < end {
        let select = "SELECT value FROM e2e_data.one WHERE id = 1";
        client.query_drop(select).why("causal read")?;
        count += 1;
    }
    Ok(count)
}

fn print_table(candidates: &[Candidate]) {
    println!("causal reads per second, one client\n");
    println!("{:<20} {:>9} {:>9}", "options", "leader", "follower");
    for candidate in candidates {
        let options = &candidate.cluster.settings().provider_options;
        let (leader, follower) = (&candidate.leader, &candidate.follower);
        let (leader, follower) = (leader.per_second(), follower.per_second());
        println!("{options:<20} {leader:>9.0} {follower:>9.0}");
    }
    if let [without, with] = candidates {
        let leader = without.leader.per_second() / with.leader.per_second();
        let follower = without.follower.per_second() / with.follower.per_second();
        println!("{:<20} {leader:>9.2} {follower:>9.2}", "ratio");
    }
}

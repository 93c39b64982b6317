//! Errors of a server's clients while the server fails in each way.
//!
//! Error 1213 means: not committed, and never will be. Applications repeat the transaction, and so
//! does the server itself (`wsrep_retry_autocommit`). So no row of a refused transaction may be
//! there afterwards, every acknowledged row must be, and none may be there twice. Any other error
//! leaves it open.
//!
//! Clients of the victim insert rows, some of them in transactions that conflict with those of
//! other servers. The victim falls behind before each failure: it is applying a large transaction,
//! so its clients have transactions that are ordered and wait for their turn.

use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::programs::signal;
use synod_e2e::small_disk::SmallDisk;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 28306;
const ALL: [u8; 3] = [1, 2, 3];
/// The server that fails.
const VICTIM: u8 = 2;
const SURVIVORS: [u8; 2] = [1, 3];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longer than `evs.suspect_timeout`: clients do not wait for a group that is lost for so long.
const ABSENCE: Duration = Duration::from_secs(12);
/// A transaction that takes a second or more.
const LARGE: &str =
    "INSERT INTO e2e_data.large SELECT seq, REPEAT('y', 100) FROM e2e_data.seq_1_to_100000";
/// Room for the log that runs full.
const DISK_BYTES: u64 = 192 << 20;

/// A way to fail.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// No failure: the victim's appliers abort transactions of its clients.
    BruteForce,
    /// An action fails on the victim alone.
    Outvoted,
    /// Nothing more can be written to the victim's log.
    LogDiskFull,
    /// The others stand still for longer than the victim's clients wait.
    CutOff,
    /// `SIGTERM`.
    Stopped,
    /// `SIGKILL`.
    Killed,
}

const WAYS: [Way; 6] = [
    Way::BruteForce,
    Way::Outvoted,
    Way::LogDiskFull,
    Way::CutOff,
    Way::Stopped,
    Way::Killed,
];

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn refused_means_never_committed_however_a_server_fails() -> Outcome {
    let mut cluster = TestCluster::empty("answers", BASE_PORT, 3)?;
    let disk = SmallDisk::mount(cluster.settings().dir.join("log-disk"), DISK_BYTES)?;
    let own = cluster.settings_mut().overrides.entry(VICTIM).or_default();
    own.provider_options = Some(format!(
        "synod.log_dir={};synod.log_segment_size=1M;synod.log_retain_size=64M",
        disk.path().display()
    ));
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    cluster.execute(1, "CREATE TABLE e2e_data.large (id INT, text VARCHAR(100))")?;
    let mut failures = Vec::new();
    for round in 0..place::rounds() {
        for way in WAYS {
            let name = format!("{way:?}_{round}").to_lowercase();
            if let Err(Failure(why)) = fail_under_load(&mut cluster, way, &name, &disk) {
                eprintln!("  {name}: {why}");
                failures.push(format!("{name}: {why}"));
                // It may have left, and run; its disk may be full.
                cluster.kill(VICTIM).why("ending the victim")?;
                disk.clear()?;
                cluster.up(&|_, _| ()).why("starting what has ended")?;
            }
        }
    }
    cluster.kill_all().why("ending the cluster")?;
    ensure(failures.is_empty(), || failures.join("\n"))
}

fn fail_under_load(cluster: &mut TestCluster, way: Way, name: &str, disk: &SmallDisk) -> Outcome {
    let differs = format!("e2e_data.{name}_differs");
    cluster.execute(1, &format!("CREATE TABLE {differs} (id INT PRIMARY KEY)"))?;
    let mut writers = Writers::prepare(cluster, name)?;
    writers.add(cluster, VICTIM, 8, Style::Alone);
    writers.add(cluster, VICTIM, 4, Style::Conflicting);
    writers.add(cluster, VICTIM, 8, Style::Locking);
    for node in SURVIVORS {
        writers.add(cluster, node, 2, Style::Conflicting);
    }
    writers.await_more(200, PATIENCE)?;
    make_lag(cluster)?;
    match way {
        Way::BruteForce => writers.await_more(500, PATIENCE)?,
        Way::Outvoted => {
            let mut alone = cluster.connect(VICTIM)?;
            alone
                .query_drop("SET SESSION wsrep_on = OFF")
                .why("wsrep_on")?;
            alone
                .query_drop(format!("INSERT INTO {differs} VALUES (1)"))
                .why("a row that the others lack")?;
            // The victim works at it, and others come after it, before it fails.
            let mut large = cluster.connect(1)?;
            for sql in [
                "START TRANSACTION".to_owned(),
                LARGE.to_owned(),
                format!("INSERT INTO {differs} VALUES (1)"),
                "COMMIT".to_owned(),
            ] {
                large.query_drop(sql).why("what fails on the victim")?;
            }
            await_left(cluster)?;
        }
        Way::LogDiskFull => {
            // A member purges its log before it gives up, as far as its database has applied it.
            await_status_while(cluster, "wsrep_ready", "OFF", || disk.fill())?;
        }
        Way::CutOff => {
            SURVIVORS
                .iter()
                .try_for_each(|node| signal(cluster, *node, "-STOP"))?;
            // Statements that hang are what an operator ends first.
            end_statements(cluster)?;
            // This tests the time.
            std::thread::sleep(ABSENCE);
            SURVIVORS
                .iter()
                .try_for_each(|node| signal(cluster, *node, "-CONT"))?;
            cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        }
        Way::Stopped => {
            cluster.stop(VICTIM).why("stop")?;
        }
        Way::Killed => {
            cluster.kill(VICTIM).why("kill")?;
        }
    }
    writers.await_more(50, PATIENCE)?;
    let report = writers.finish();
    report.check_rows(cluster, &SURVIVORS)?;
    if matches!(way, Way::Outvoted) {
        // It comes back, and fails once more: only then its data are known to differ.
        await_status(cluster, "wsrep_local_state_comment", "Inconsistent")?;
    }
    if matches!(way, Way::LogDiskFull | Way::Outvoted) {
        let stopped = cluster.stop(VICTIM).why("stopping the victim")?;
        ensure(stopped, || "the victim had ended by itself".into())?;
    }
    if matches!(way, Way::LogDiskFull) {
        disk.clear()?;
    }
    if cluster.pid(VICTIM).is_none() {
        cluster
            .start(VICTIM, &|_, _| ())
            .why("starting the victim")?;
    }
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
    report.check_rows(cluster, &ALL)?;
    agreement::check(cluster, &ALL)
}

/// The victim has much to apply when this returns.
fn make_lag(cluster: &TestCluster) -> Outcome {
    cluster.execute(1, LARGE)
}

/// Waits until the victim has left the group by itself.
fn await_left(cluster: &TestCluster) -> Outcome {
    await_status(cluster, "wsrep_ready", "OFF")
}

fn await_status(cluster: &TestCluster, name: &str, value: &str) -> Outcome {
    await_status_while(cluster, name, value, || Ok(()))
}

/// Does something again and again until the victim's status is so.
fn await_status_while(
    cluster: &TestCluster,
    name: &str,
    value: &str,
    act: impl Fn() -> Outcome,
) -> Outcome {
    let reached = wait_for(PATIENCE, || {
        act().ok()?;
        let status = cluster.rows(VICTIM, &format!("SHOW STATUS LIKE '{name}'"));
        let is_so = |row: &String| row.contains(value);
        status.ok()?.iter().any(is_so).then_some(())
    });
    ensure(reached.is_some(), || {
        let tail = cluster.log_tail(VICTIM);
        format!("the victim's {name} is not {value}:\n{tail}")
    })
}

/// `KILL QUERY` for whatever a client of the victim executes.
fn end_statements(cluster: &TestCluster) -> Outcome {
    let mut operator = cluster.connect(VICTIM)?;
    let busy = "SELECT id FROM information_schema.processlist \
                WHERE command = 'Query' AND id <> CONNECTION_ID() AND user = CURRENT_USER";
    let busy = busy.replace("CURRENT_USER", "SUBSTRING_INDEX(CURRENT_USER(), '@', 1)");
    let ids: Vec<u64> = operator.query(busy).why("what runs")?;
    eprintln!("  ending {} statements", ids.len());
    for id in ids {
        // It may have ended by itself.
        let _ = operator.query_drop(format!("KILL QUERY {id}"));
    }
    Ok(())
}

//! The drills of `docs/operating/migration.md` between Galera and Synod, with the page's own
//! commands, while clients write; and what servers say that are half-way.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::doctor::Doctor;
use synod_e2e::machines::{IN_PLACE, Machines};
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 20306;
const PATIENCE: Duration = Duration::from_secs(90);
const SQL_TIMEOUT: Duration = Duration::from_secs(10);
/// Acknowledgements before and after a drill: clients are served.
const SOME: u64 = 50;
const ALL: [u8; 3] = [1, 2, 3];

const THERE: &str = "Galera to Synod, in place";
const BACK: &str = "Synod to Galera, in place";

/// A table that each server has for itself. A full copy (SST) would replace it by the donor's.
struct OwnTable;

impl OwnTable {
    fn create(cluster: &TestCluster) -> Outcome<OwnTable> {
        for node in ALL {
            let sql = format!(
                "SET SESSION wsrep_on = OFF; CREATE DATABASE own; CREATE TABLE own.node (n INT);
                 INSERT INTO own.node VALUES ({node})"
            );
            cluster.query(node, &sql, SQL_TIMEOUT).why("own tables")?;
        }
        Ok(OwnTable)
    }

    /// No server was copied since.
    fn check(&self, cluster: &TestCluster) -> Outcome {
        for node in ALL {
            let rows = cluster.rows(node, "SELECT n FROM own.node")?;
            ensure(rows == [node.to_string()], || {
                format!("db{node} has taken a full copy: its own table says {rows:?}")
            })?;
        }
        Ok(())
    }

    fn drop(self, cluster: &TestCluster) -> Outcome {
        for node in ALL {
            let sql = "SET SESSION wsrep_on = OFF; DROP DATABASE own";
            cluster.query(node, sql, SQL_TIMEOUT).why("own tables")?;
        }
        Ok(())
    }
}

/// Goes through a drill while clients write; gives when it began and ended.
fn run(machines: &mut Machines, writers: &Writers, title: &str) -> Outcome<(Instant, Instant)> {
    writers.await_more(SOME, PATIENCE).why(title)?;
    let begin = Instant::now();
    for step in IN_PLACE.steps(title)? {
        let name = format!("{}# {}", step.machine, step.command);
        machines.perform(&step).why(name)?;
    }
    machines.check_compared().why(title)?;
    writers.await_more(SOME, PATIENCE).why(title)?;
    for node in ALL {
        writers.await_commit_after(node, begin, PATIENCE)?;
    }
    Ok((begin, Instant::now()))
}

fn there_and_back(machines: &mut Machines) -> Outcome {
    machines.cluster.up(&|_, _| ()).why("starting Galera")?;
    machines.cluster.create_account()?;
    let own = OwnTable::create(&machines.cluster)?;
    let writers = Writers::start(&machines.cluster, "moved", &ALL, 1)?;

    let there = run(machines, &writers, THERE)?;
    own.check(&machines.cluster).why(THERE)?;
    let kept_log = keep_log(machines)?;

    let back = run(machines, &writers, BACK)?;
    own.check(&machines.cluster).why(BACK)?;

    let report = writers.finish();
    for (title, (from, to)) in [(THERE, there), (BACK, back)] {
        let gap = report.longest_gap(&ALL, from, to).as_secs_f32();
        eprintln!("  {title}: {gap:.1} s without writes");
    }
    own.drop(&machines.cluster)?;
    report.check_rows(&machines.cluster, &ALL)?;
    agreement::check(&machines.cluster, &ALL)?;
    log_from_before_is_refused(machines, &kept_log)
}

/// Keeps the log of the first server, as a careless operator would.
fn keep_log(machines: &Machines) -> Outcome<Vec<PathBuf>> {
    let data = machines.cluster.files(1).data;
    let entries = fs::read_dir(&data).why("the data directory")?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("synod-") && name.ends_with(".log")
    };
    let kept: Vec<PathBuf> = paths.filter(is_log).collect();
    ensure(!kept.is_empty(), || "db1 has no log".to_owned())?;
    for path in &kept {
        let copy = path.with_extension("kept");
        fs::copy(path, &copy).why("keeping the log")?;
    }
    Ok(kept)
}

/// Galera has written since: the log must not be used again.
fn log_from_before_is_refused(machines: &mut Machines, kept: &[PathBuf]) -> Outcome {
    machines.cluster.down(&|_, _| ()).why("stopping Galera")?;
    for path in kept {
        let copy = path.with_extension("kept");
        fs::rename(copy, path).why("putting the log back")?;
        machines.cluster.user().give(path).why("the log")?;
    }
    machines.change_library(1)?;
    machines.cluster.spawn(1, true).why("starting db1")?;
    machines
        .cluster
        .await_line(1, "from before Galera's library served this database")?;
    let ended = wait_for(PATIENCE, || machines.cluster.ended(1));
    ensure(ended.is_some(), || "db1 runs with an old log".to_owned())
}

/// Runs a test; prints what the servers said if it fails.
fn with(mut machines: Machines, body: impl FnOnce(&mut Machines) -> Outcome) -> Outcome {
    let done = body(&mut machines);
    if done.is_err() {
        eprintln!("{}", machines.cluster.describe());
    }
    done
}

#[test]
fn group_goes_from_galera_to_synod_and_back_in_place() -> Outcome {
    with(
        Machines::prepared("migration", BASE_PORT, 3)?,
        there_and_back,
    )
}

#[test]
fn servers_of_both_kinds_say_what_they_have_met() -> Outcome {
    with(Machines::prepared("half-way", BASE_PORT, 2)?, |machines| {
        machines.change_library(2)?;
        let cluster = &mut machines.cluster;
        cluster.spawn(1, true).why("starting Galera")?;
        cluster.await_synced(&[1], &|_, _| ()).why("Galera")?;
        cluster.spawn(2, false).why("starting Synod beside it")?;
        cluster.await_line(2, "a node of Galera answers there")?;
        let ended = wait_for(PATIENCE, || cluster.ended(2));
        ensure(ended.is_some(), || "db2 waits without end".to_owned())?;

        cluster.stop(1).why("stopping Galera")?;
        cluster.wipe(2).why("db2 begins a group of its own")?;
        cluster.spawn(2, true).why("starting Synod")?;
        cluster.await_synced(&[2], &|_, _| ()).why("Synod")?;
        cluster.spawn(1, false).why("starting Galera beside it")?;
        cluster.await_line(2, "hung up, as nodes of Galera do")?;
        cluster.create_account_on(2)?;
        let (findings, _) = Doctor::of(cluster, 2)?.findings()?;
        let is_named = |finding: &String| {
            finding.starts_with("problem network this server runs Synod, and Galera answers at")
        };
        ensure(findings.iter().any(is_named), || format!("{findings:#?}"))
    })
}

#[test]
fn databases_of_killed_servers_are_taken_over_where_they_are() -> Outcome {
    with(Machines::prepared("killed", BASE_PORT, 3)?, |machines| {
        machines.cluster.up(&|_, _| ()).why("starting Galera")?;
        machines.cluster.create_account()?;
        let own = OwnTable::create(&machines.cluster)?;
        for node in ALL {
            let sql = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
            machines.cluster.execute(node, sql)?;
        }
        let writers = Writers::start(&machines.cluster, "killed", &ALL, 1)?;
        writers.await_more(SOME, PATIENCE)?;
        let report = writers.finish();
        report.check_rows(&machines.cluster, &ALL)?;
        machines.cluster.kill_all().why("killing Galera")?;

        // As in a container: no program asks the database before the server starts.
        machines.cluster.settings_mut().recovers = false;
        for node in ALL {
            machines.change_library(node)?;
        }
        machines.cluster.spawn(1, true).why("starting db1")?;
        machines
            .cluster
            .await_synced(&[1], &|_, _| ())
            .why("beginning the group")?;
        for node in [2, 3] {
            machines.cluster.spawn(node, false).why("starting it")?;
        }
        machines
            .cluster
            .await_synced(&[2, 3], &|_, _| ())
            .why("joining the group")?;
        for node in ALL {
            for line in ["not stopped in order here", "the database is at"] {
                machines.cluster.await_line(node, line)?;
            }
        }
        own.check(&machines.cluster)?;
        own.drop(&machines.cluster)?;
        report.check_rows(&machines.cluster, &ALL)?;
        agreement::check(&machines.cluster, &ALL)
    })
}

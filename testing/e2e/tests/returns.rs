//! Servers that come back: from a stop that was cut short, and after a failure that is over.

use std::process::Command;
use std::time::Duration;

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};

const BASE_PORT: u16 = 24306;
const ALL: [u8; 3] = [1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(90);
/// The server's line when it has shown that it is out of the group. Its engines are open still.
const LEFT: &str = "Server status change disconnecting -> disconnected";

/// Ends a node in order, and kills it as soon as it has left the group. False if it was faster.
fn cut_stop_short(cluster: &mut TestCluster, node: u8) -> Outcome<bool> {
    let Some(pid) = cluster.pid(node) else {
        return Ok(false);
    };
    let log = cluster.files(node).error_log;
    let asked = Command::new("kill")
        .args(["-TERM", &pid.to_string()])
        .status();
    ensure(asked.is_ok_and(|status| status.success()), || {
        "kill -TERM failed".into()
    })?;
    // No pause between two looks: the server needs some milliseconds to close its engines.
    let end = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < end {
        let text = std::fs::read_to_string(&log).why("reading the error log")?;
        if text.contains(LEFT) {
            let killed = cluster.kill(node).why("killing it")?;
            let text = cluster.log_text(node);
            return Ok(killed.is_some() && !text.contains("Shutdown completed"));
        }
    }
    ensure(false, || {
        format!("node {node} does not leave:\n{}", cluster.log_tail(node))
    })?;
    Ok(false)
}

/// The position in `grastate.dat`.
fn saved_seqno(cluster: &TestCluster, node: u8) -> Outcome<i64> {
    let file = cluster.files(node).data.join("grastate.dat");
    let text = std::fs::read_to_string(file).why("reading grastate.dat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("seqno:"));
    let seqno = line.and_then(|value| value.trim().parse().ok());
    seqno.ok_or_else(|| Failure(format!("grastate.dat has no seqno:\n{text}")))
}

/// What InnoDB has in memory only when it is killed is not taken for what is in the database.
#[test]
fn stop_that_is_cut_short_costs_neither_data_nor_a_full_copy() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    let mut cluster = TestCluster::empty("cut-short", BASE_PORT, 3)?;
    let own = cluster.settings_mut().overrides.entry(3).or_default();
    // It flushes when it closes, and hardly before.
    own.extra_lines = vec!["innodb_flush_log_at_timeout = 2000".into()];
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    for round in 0..5 {
        let table = format!("cut_short_{round}");
        let writers = Writers::start(&cluster, &table, &[1, 2], 2)?;
        writers.await_more(300, PATIENCE)?;
        let was_cut = cut_stop_short(&mut cluster, 3)?;
        writers.await_more(100, PATIENCE)?;
        let report = writers.finish();
        ensure(saved_seqno(&cluster, 3)? == -1 || !was_cut, || {
            "grastate.dat says more than is on disk".into()
        })?;
        cluster.settings_mut().recovers = false;
        cluster
            .spawn(3, false)
            .why("starting node 3 without a position")?;
        cluster
            .await_synced(&ALL, &|_, _| ())
            .why("waiting for node 3")?;
        cluster.settings_mut().recovers = true;
        report.check_rows(&cluster, &ALL)?;
        agreement::check(&cluster, &ALL)?;
        let text = cluster.log_text(3);
        ensure(!text.contains("asking for a full copy"), || {
            "node 3 took a full copy".into()
        })?;
        if was_cut {
            cluster.stop(3).why("stopping node 3")?;
            let seqno = saved_seqno(&cluster, 3)?;
            ensure(seqno > 0, || {
                format!("after an orderly stop: seqno {seqno}")
            })?;
            return cluster.kill_all().why("ending the cluster");
        }
        // The next round looks for its own lines.
        std::fs::write(cluster.files(3).error_log, "").why("emptying the error log")?;
    }
    ensure(false, || "node 3 was never killed in time".into())
}

//! Members die and return under load. One shared cluster.
//!
//! No acknowledged row may be lost, and the service may pause only for a bounded time.

use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Report, Writers};
use synod_e2e::{Outcome, Shared, TestCluster, Why, agreement, ensure};
use synod_local_cluster::{SstMethod, wait_for};

static CLUSTER: Shared = Shared::new("crash", 22306);

const ALL: [u8; 3] = [1, 2, 3];
/// Log text of a server that runs the script of a full copy.
const SST_MARK: &str = "--role 'joiner'";
/// For load to get going, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time of load with a member missing.
const ABSENCE: Duration = Duration::from_secs(5);

#[test]
fn dead_follower_is_not_missed_and_catches_up_without_a_full_copy() {
    CLUSTER.scenario("kill a follower", |cluster| {
        let victim = cluster.follower();
        let others = cluster.others(victim);
        let writers = Writers::start(cluster, "dead_follower", &ALL, 2)?;
        writers.await_more(300, PATIENCE)?;
        let killed = Instant::now();
        cluster.kill(victim).why("kill")?;
        run_without(&writers, &others, killed)?;
        cluster.start(victim, &|_, _| ()).why("start")?;
        let back = Instant::now();
        writers.await_commit_after(victim, back, PATIENCE)?;
        let report = writers.finish();
        eprintln!(
            "  longest gap: {:?}",
            longest_gaps(&report, &others, killed, back)
        );
        check_no_empty_second(&report, &others, killed, back)?;
        check_copy(cluster, victim, None)?;
        report.check_rows(cluster, &ALL)?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn dead_leader_is_replaced_within_two_seconds_and_returns_as_follower() {
    CLUSTER.scenario("kill the leader", |cluster| {
        let victim = cluster.leader();
        let others = cluster.others(victim);
        let writers = Writers::start(cluster, "dead_leader", &ALL, 2)?;
        writers.await_more(300, PATIENCE)?;
        let killed = Instant::now();
        cluster.kill(victim).why("kill")?;
        run_without(&writers, &others, killed)?;
        let seen = Instant::now();
        cluster.start(victim, &|_, _| ()).why("start")?;
        writers.await_commit_after(victim, Instant::now(), PATIENCE)?;
        let report = writers.finish();
        let gaps = longest_gaps(&report, &others, killed, seen);
        eprintln!("  longest gap: {gaps:?}");
        ensure(
            gaps.iter().all(|(_, gap)| *gap < Duration::from_secs(2)),
            || format!("after the leader died, commits paused for 2 s or longer: {gaps:?}"),
        )?;
        check_copy(cluster, victim, None)?;
        let role = cluster.node_status(victim).role;
        ensure(role.as_deref() == Some("follower"), || {
            format!("node{victim} led, died and returned as {role:?}, not as a follower")
        })?;
        report.check_rows(cluster, &ALL)?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn group_returns_by_itself_after_all_were_killed_and_nothing_is_lost() {
    CLUSTER.scenario("kill all", |cluster| {
        let writers = Writers::start(cluster, "all_killed", &ALL, 4)?;
        writers.await_more(1000, PATIENCE)?;
        cluster.kill_all().why("kill all")?;
        let report = writers.finish();
        restart_all(cluster)?;
        for node in ALL {
            check_copy(cluster, node, None)?;
        }
        report.check_rows(cluster, &ALL)?;
        agreement::check(cluster, &ALL)
    });
}

/// Plain starts, one node after the other, as a person would.
fn restart_all(cluster: &mut TestCluster) -> Outcome {
    for node in ALL {
        let started = cluster
            .start(node, &|_, _| ())
            .why(format_args!("start {node}"))?;
        eprintln!("  start {node}: {started:?}");
    }
    cluster
        .await_synced(&ALL, &|_, _| ())
        .why("after all were started")
}

#[test]
fn wiped_member_returns_by_rsync_under_load() {
    CLUSTER.scenario("full copy by rsync", |cluster| {
        wipe_and_return(cluster, SstMethod::Rsync)
    });
}

#[test]
fn wiped_member_returns_by_mariabackup_under_load() {
    CLUSTER.scenario("full copy by mariabackup", |cluster| {
        wipe_and_return(cluster, SstMethod::Mariabackup)
    });
}

fn wipe_and_return(cluster: &mut TestCluster, method: SstMethod) -> Outcome {
    let others = [1, 2];
    let writers = Writers::start(cluster, &format!("copied_{}", method.name()), &others, 2)?;
    writers.await_more(300, PATIENCE)?;
    let begin = Instant::now();
    cluster.kill(3).why("kill")?;
    cluster.wipe(3).why("wipe")?;
    cluster.settings_mut().sst_method = method;
    cluster.start(3, &|_, _| ()).why("start")?;
    let back = Instant::now();
    writers.await_more(100, PATIENCE)?;
    let report = writers.finish();
    let gap = report.longest_gap(&others, begin, back);
    eprintln!(
        "  back after {:.1} s, longest gap {gap:.2?}",
        (back - begin).as_secs_f32()
    );
    check_copy(cluster, 3, Some(method))?;
    let empty = report.empty_seconds(&others, begin, back);
    ensure(empty.is_empty(), || {
        format!("no commit on nodes 1 and 2 in seconds {empty:?}")
    })?;
    report.check_rows(cluster, &ALL)?;
    agreement::check(cluster, &ALL)
}

/// Lets load run on the others for a while; a node's client may be slow to come back.
fn run_without(writers: &Writers, others: &[u8], since: Instant) -> Outcome {
    for node in others {
        writers.await_commit_after(*node, since + ABSENCE, PATIENCE)?;
    }
    Ok(())
}

fn longest_gaps(report: &Report, nodes: &[u8], from: Instant, to: Instant) -> Vec<(u8, Duration)> {
    nodes
        .iter()
        .map(|node| (*node, report.longest_gap(&[*node], from, to)))
        .collect()
}

fn check_no_empty_second(report: &Report, nodes: &[u8], from: Instant, to: Instant) -> Outcome {
    for node in nodes {
        let empty = report.empty_seconds(&[*node], from, to);
        ensure(empty.is_empty(), || {
            format!("node{node} committed nothing in seconds {empty:?} after the follower died")
        })?;
    }
    Ok(())
}

/// Checks in the server's log whether its last start ran a full copy, and by which method.
fn check_copy(cluster: &TestCluster, node: u8, expected: Option<SstMethod>) -> Outcome {
    let find = || {
        let log = cluster.log_text(node);
        log.lines()
            .find(|line| line.contains(SST_MARK))
            .map(str::to_owned)
    };
    match expected {
        None => match find() {
            None => Ok(()),
            Some(line) => ensure(false, || format!("node{node} took a full copy: {line}")),
        },
        Some(method) => {
            let line = wait_for(Duration::from_secs(5), find).unwrap_or_default();
            let script = format!("wsrep_sst_{}", method.name());
            ensure(line.contains(&script), || {
                format!("node{node} was to be copied to by {script}, but its log says: '{line}'")
            })
        }
    }
}

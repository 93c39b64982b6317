//! One server's disk hangs, for longer than a client would wait for it; or all are slow.
//!
//! A minority never stops the majority: while the disk hangs, commits continue through the other
//! servers, at the cost of one election if the sick server led. Nothing acknowledged is lost, and
//! the sick server stays a member and serves again as soon as its disk answers. Its clients wait
//! meanwhile, and get their answers.
//!
//! Each test prints the longest time without an acknowledgement on the other servers.

use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::hanging_disks::{self, Disk, HangingDisks};
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, ensure_says};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 26706;
const ALL: [u8; 3] = [1, 2, 3];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Shortest hang of the disk.
const HANG: Duration = Duration::from_secs(15);
/// The longest time without a commit that passes, on a busy machine; the promise is 3 s.
const GAP_MAX: Duration = Duration::from_secs(10);
/// Rows that are committed one after the other while all logs are slow.
const SLOW_ROWS: usize = 9;
/// The longest time without a commit after the end of a leader while all logs are slow, on a busy
/// machine: four syncs, the time until it is missed, and once more.
const ELECTION_MAX: Duration = Duration::from_secs(30);
/// Rows of a table on which a statement takes a second or so.
const MANY: usize = 400_000;
/// Commits on each other server that show that it still serves.
const SOME: usize = 100;

#[test]
fn log_disk_of_the_leader_hangs_and_the_others_continue() -> Outcome {
    check(TestCluster::leader, &[Disk::Log])
}

#[test]
fn log_disk_of_a_follower_hangs_and_the_others_continue() -> Outcome {
    check(TestCluster::follower, &[Disk::Log])
}

#[test]
fn log_and_database_of_the_leader_hang_and_the_others_continue() -> Outcome {
    let disks = [Disk::Log, Disk::Database];
    check(TestCluster::leader, &disks)
}

/// Not even the error log can be written.
#[test]
fn leader_can_write_nothing_and_the_others_continue() -> Outcome {
    check(TestCluster::leader, &[Disk::All])
}

/// A leader that works stays, however slow its log is; and if it dies, another one is elected.
#[test]
fn group_whose_logs_all_take_a_second_for_a_sync_has_a_leader() -> Outcome {
    let mut cluster = TestCluster::empty("slow", BASE_PORT, 3)?;
    hanging_disks::prepare(&mut cluster)?;
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    let outcome = logs_are_slow(&mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn logs_are_slow(cluster: &mut TestCluster) -> Outcome {
    cluster.execute(1, "CREATE TABLE e2e_data.slow (id INT PRIMARY KEY)")?;
    let leader = cluster.leader();
    let term = cluster.synod_status(leader, "term")?;
    let slow = HangingDisks::slow_logs(cluster, &(300..=1500))?;
    let began = Instant::now();
    for row in 0..SLOW_ROWS {
        let node = ALL[row % ALL.len()];
        cluster.execute(node, &format!("INSERT INTO e2e_data.slow VALUES ({row})"))?;
    }
    eprintln!("  {SLOW_ROWS} commits in {:.1?}", began.elapsed());
    let now = (cluster.leader(), cluster.synod_status(leader, "term")?);
    ensure(now == (leader, term), || {
        format!("node{leader} led, now {now:?}")
    })?;

    cluster.kill(leader).why("killing the leader")?;
    let began = Instant::now();
    let others = cluster.others(leader);
    let insert = format!("INSERT IGNORE INTO e2e_data.slow VALUES ({SLOW_ROWS})");
    let serves = wait_for(PATIENCE, || cluster.execute(others[0], &insert).ok());
    let took = began.elapsed();
    ensure(serves.is_some() && took < ELECTION_MAX, || {
        format!("no commit {took:?} after the leader's end")
    })?;
    eprintln!("  a commit {took:.1?} after the leader's end");
    drop(slow);
    cluster.start(leader, &|_, _| ()).why("the former leader")?;
    let rows = cluster.rows(leader, "SELECT COUNT(*) FROM e2e_data.slow")?;
    ensure(rows == [(SLOW_ROWS + 1).to_string()], || {
        format!("{rows:?} rows")
    })?;
    agreement::check(cluster, &ALL)
}

/// The server has moved its engine's position over a statement that failed, and dies before the
/// member's record says so: the record's disk hangs.
fn killed_at_the_end_of_a_statement(cluster: &mut TestCluster) -> Outcome {
    let (leader, node) = (cluster.leader(), cluster.follower());
    for sql in [
        "CREATE TABLE e2e_data.ends (id INT PRIMARY KEY, v INT)".to_owned(),
        format!(
            "INSERT INTO e2e_data.ends SELECT seq, LEAST(seq, {MANY} - 1) \
             FROM e2e_data.seq_1_to_{MANY}"
        ),
    ] {
        cluster.execute(leader, &sql)?;
    }
    cluster.await_synced(&ALL, &|_, _| ()).why("the rows")?;
    let executing = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'ALTER%'";
    let (answer, hanging) = std::thread::scope(|scope| {
        let by: &TestCluster = cluster;
        let client = scope.spawn(|| {
            let sql = "ALTER TABLE e2e_data.ends ADD UNIQUE (v), ALGORITHM=COPY";
            by.execute(leader, sql)
        });
        let begun = wait_for(PATIENCE, || {
            let rows = by.rows(node, executing).ok()?;
            (rows != ["0"]).then_some(())
        });
        let hanging = HangingDisks::begin(by, node, &[Disk::Log])?;
        ensure(begun.is_some(), || "the statement has not begun".to_owned())?;
        // The others decide without this server's answer.
        let answer = client.join();
        let answer = answer.map_err(|_| Failure("the client panicked".to_owned()))?;
        Ok((answer, hanging))
    })?;
    // InnoDB flushes its position once a second.
    wait_for(Duration::from_secs(3), || None::<()>);
    cluster.kill(node).why("kill")?;
    drop(hanging);
    ensure(answer.is_err(), || "the statement was executed".to_owned())?;
    let started = cluster.start(node, &|_, _| ());
    ensure(started.is_err(), || "it trusts its data".to_owned())?;
    ensure_says(
        &cluster.log_text(node),
        "whether this server had it is not known",
    )?;
    cluster.start(node, &|_, _| ()).why("second start")?;
    cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
    agreement::check(cluster, &ALL)
}

#[test]
fn server_killed_at_the_end_of_a_statement_takes_a_full_copy() -> Outcome {
    check_on_hanging_disks(killed_at_the_end_of_a_statement)
}

fn check(sick: fn(&TestCluster) -> u8, disks: &[Disk]) -> Outcome {
    check_on_hanging_disks(|cluster| {
        let sick = sick(cluster);
        disk_hangs(cluster, sick, disks)
    })
}

fn check_on_hanging_disks(run: impl FnOnce(&mut TestCluster) -> Outcome) -> Outcome {
    let mut cluster = TestCluster::empty("sick", BASE_PORT, 3)?;
    hanging_disks::prepare(&mut cluster)?;
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    let outcome = run(&mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn disk_hangs(cluster: &mut TestCluster, sick: u8, disks: &[Disk]) -> Outcome {
    let others = cluster.others(sick);
    let led = cluster.leader() == sick;
    let writers = load(cluster, &others)?;
    writers.await_more(500, PATIENCE)?;

    let before = others.iter().map(|node| writers.acknowledged_by(*node));
    let before: Vec<usize> = before.collect();
    let hanging = HangingDisks::begin(cluster, sick, disks)?;
    let began = Instant::now();
    // The time is the fault itself; a disk that comes back sooner would hide that one waits for it.
    wait_for(HANG, || None::<()>);
    let others_continue = wait_for(PATIENCE, || {
        let mut pairs = others.iter().zip(&before);
        pairs
            .all(|(node, before)| writers.acknowledged_by(*node) >= before + SOME)
            .then_some(())
    });
    let leader_is_other = others.iter().any(|node| {
        let status = cluster.node_status(*node);
        status.role.as_deref() == Some("leader")
    });
    let ended = Instant::now();
    drop(hanging);
    ensure(others_continue.is_some(), || {
        format!("fewer than {SOME} commits on each of nodes {others:?} while a disk hung")
    })?;
    ensure(leader_is_other, || {
        format!("node{sick}, whose disk hangs, led on (at first: {led})")
    })?;

    writers.await_commit_after(sick, ended, PATIENCE)?;
    cluster
        .await_synced(&ALL, &|_, _| ())
        .why("waiting for the sick server")?;
    let report = writers.finish();
    let gap = report.longest_gap(&others, began, ended);
    eprintln!(
        "  {disks:?} of node{sick} hung for {:.1} s (leader: {led}): longest gap of nodes {others:?} {:.2} s, \
         of node{sick} {:.2} s; {} without an answer",
        (ended - began).as_secs_f32(),
        gap.as_secs_f32(),
        report
            .longest_gap(&[sick], began, Instant::now())
            .as_secs_f32(),
        report.unknown_on(&ALL),
    );
    ensure(gap < GAP_MAX, || {
        format!("no commit on nodes {others:?} for {gap:?}")
    })?;
    ensure(report.unknown_on(&ALL) == 0, || {
        format!("clients got no answer: {}", report.figures())
    })?;
    report.check_rows(cluster, &ALL)?;
    agreement::check(cluster, &ALL)
}

/// Clients everywhere, and on the other servers large rows: more than the sick server can keep in
/// memory without its disk.
fn load(cluster: &TestCluster, others: &[u8]) -> Outcome<Writers> {
    let mut writers = Writers::prepare(cluster, "sick")?;
    writers.set_patience(PATIENCE);
    for node in ALL {
        writers.add(cluster, node, 2, Style::Alone);
    }
    for node in others {
        writers.add(cluster, *node, 1, Style::Large);
    }
    Ok(writers)
}

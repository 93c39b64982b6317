//! Full copies that fail: the joiner takes another one by itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use synod_e2e::logger::Logger;
use synod_e2e::programs::{self, new_group_secret};
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure};
use synod_local_cluster::{is_alive, wait_for};

const BASE_PORT: u16 = 31906;
const JOINER: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of a full copy that work on a node's data, by their process ids.
fn copy_programs(cluster: &TestCluster, node: u8) -> BTreeMap<i32, String> {
    let data = cluster.files(node).data;
    let program = |entry: fs::DirEntry| {
        let place = entry.path();
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let works_here = fs::read_link(place.join("cwd")).ok()? == data;
        let environment = fs::read(place.join("environ")).ok()?;
        let text = String::from_utf8_lossy(&environment);
        let of_copy = text
            .split('\0')
            .any(|v| v.starts_with("WSREP_SST_OPT_AUTH"));
        let name = fs::read_to_string(place.join("comm")).ok()?;
        (works_here && of_copy).then(|| (pid, name.trim_end().to_owned()))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(program).collect()
}

/// Sends programs a signal, as `kill` names it.
fn signal(name: &str, programs: &BTreeMap<i32, String>) -> Outcome {
    let mut kill = Command::new("kill");
    kill.arg(name).args(programs.keys().map(i32::to_string));
    // A program that has ended since is no mistake.
    kill.stderr(Stdio::null()).status().why("kill").map(|_| ())
}

/// The programs that send a copy, once there are some, and the node whose server runs them.
fn await_donor(cluster: &TestCluster) -> Outcome<(u8, BTreeMap<i32, String>)> {
    let sending = || {
        let given = [1, 2].map(|node| (node, copy_programs(cluster, node)));
        given.into_iter().find(|(_, programs)| !programs.is_empty())
    };
    let found = wait_for(PATIENCE, sending).ok_or("none begins");
    found.why("the donor's script")
}

/// Two servers and a voter without a database: one server may be lost.
fn donors() -> Outcome<(TestCluster, Logger)> {
    let secret = new_group_secret()?;
    let mut cluster = TestCluster::empty("copy-again", BASE_PORT, 3)?;
    cluster.settings_mut().group_secret = Some(secret.trim().to_owned());
    cluster.spawn(1, true).why("starting node 1")?;
    cluster.await_synced(&[1], &|_, _| ()).why("node 1")?;
    let mut logger = Logger::beside(&cluster, "witness", &secret)?;
    logger.join()?;
    cluster.spawn(2, false).why("starting node 2")?;
    cluster.await_synced(&[2], &|_, _| ()).why("node 2")?;
    cluster.create_account()?;
    // A copy takes some time.
    cluster.execute(
        1,
        "CREATE TABLE e2e_data.large (id INT PRIMARY KEY, v LONGBLOB)",
    )?;
    let rows = "SELECT seq, REPEAT(SHA2(RAND(), 256), 50000) FROM e2e_data.seq_1_to_20";
    cluster.execute(1, &format!("INSERT INTO e2e_data.large {rows}"))?;
    agreement::check(&cluster, &[1, 2])?;
    Ok((cluster, logger))
}

#[test]
fn joiner_whose_copy_fails_takes_another_one() -> Outcome {
    let (mut cluster, _logger) = donors()?;
    let outcome = fail_copies(&mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn fail_copies(cluster: &mut TestCluster) -> Outcome {
    const AGAIN: &str = "this server takes another full copy by itself";
    cluster.spawn(JOINER, false).why("starting the joiner")?;
    let (_, script) = await_donor(cluster)?;
    signal("-KILL", &script)?;
    cluster.await_line(JOINER, AGAIN)?;
    // Now the donor itself dies, with all that it runs.
    let (donor, script) = await_donor(cluster)?;
    cluster.kill(donor).why("killing the donor")?;
    signal("-KILL", &script)?;
    cluster
        .await_synced(&[JOINER], &|_, _| ())
        .why("the joiner")?;
    let text = cluster.log_text(JOINER);
    ensure(text.matches(AGAIN).count() >= 2, || {
        format!("no second '{AGAIN}':\n{text}")
    })?;
    cluster.spawn(donor, false).why("the donor again")?;
    cluster
        .await_synced(&[donor], &|_, _| ())
        .why("the donor")?;
    agreement::check(cluster, &[1, 2, JOINER])?;
    take_over_port(cluster)
}

/// The server alone is killed that takes a copy: its daemon stays on the port.
fn take_over_port(cluster: &mut TestCluster) -> Outcome {
    cluster.kill(JOINER).why("losing the joiner")?;
    cluster.wipe(JOINER).why("and its disk")?;
    cluster.spawn(JOINER, false).why("a new one")?;
    let (donor, sending) = await_donor(cluster)?;
    // So the copy lasts.
    signal("-STOP", &sending)?;
    programs::signal(cluster, JOINER, "-KILL")?;
    let ended = wait_for(PATIENCE, || cluster.ended(JOINER));
    ensure(ended.is_some(), || "the joiner lives".to_owned())?;
    let left = copy_programs(cluster, JOINER);
    let has_daemon = left.values().any(|name| name == "rsync");
    ensure(has_daemon, || format!("nothing is left: {left:?}"))?;
    // The donor takes no writes meanwhile.
    let insert = "INSERT INTO e2e_data.large VALUES (100, 'later')";
    cluster.execute(3 - donor, insert)?;
    cluster.spawn(JOINER, false).why("starting it again")?;
    cluster.await_line(JOINER, "had left programs of a full copy (SST) at work")?;
    // The other server is its donor now.
    let synced = cluster.await_synced(&[JOINER], &|_, _| ());
    signal("-CONT", &sending)?;
    synced.why("the joiner again")?;
    let survive = left.keys().filter(|pid| is_alive(**pid)).count();
    ensure(survive == 0, || format!("{left:?} run on"))?;
    cluster
        .await_synced(&[1, 2], &|_, _| ())
        .why("the donors")?;
    agreement::check(cluster, &[1, 2, JOINER])
}

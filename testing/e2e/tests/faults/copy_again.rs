//! Full copies that fail: the joiner takes another one by itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

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

fn kill<'a>(pids: impl Iterator<Item = &'a i32>) -> Outcome {
    let mut kill = Command::new("kill");
    kill.arg("-KILL").args(pids.map(i32::to_string));
    // A program that has ended since is no mistake.
    kill.stderr(Stdio::null()).status().why("kill").map(|_| ())
}

fn await_joined(cluster: &mut TestCluster, line: &str) -> Outcome {
    cluster
        .await_synced(&[JOINER], &|_, _| ())
        .why("the joiner")?;
    let text = cluster.log_text(JOINER);
    ensure(text.contains(line), || format!("no '{line}':\n{text}"))?;
    agreement::check(cluster, &[1, 2, JOINER])
}

#[test]
fn joiner_whose_copy_fails_takes_another_one() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    let mut cluster = TestCluster::empty("copy-again", BASE_PORT, 3)?;
    cluster.spawn(1, true).why("starting node 1")?;
    cluster.await_synced(&[1], &|_, _| ()).why("node 1")?;
    cluster.spawn(2, false).why("starting node 2")?;
    cluster.await_synced(&[2], &|_, _| ()).why("node 2")?;
    cluster.create_account()?;

    cluster.spawn(JOINER, false).why("starting the joiner")?;
    let donors = || {
        let given = [1, 2].map(|node| copy_programs(&cluster, node));
        let programs: Vec<i32> = given.iter().flat_map(|g| g.keys().copied()).collect();
        (!programs.is_empty()).then_some(programs)
    };
    let script = wait_for(PATIENCE, donors)
        .ok_or("none begins")
        .why("the donor's script")?;
    kill(script.iter())?;
    await_joined(
        &mut cluster,
        "this server takes another full copy by itself",
    )
}

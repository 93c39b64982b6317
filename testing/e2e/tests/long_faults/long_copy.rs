//! A full copy that takes longer than the joiner's log reaches: what is missing between the two is
//! fetched from another member, and no second copy is taken.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use serde_json::Value;
use synod_e2e::programs::output_of;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 31706;
const JOINER: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(90);
/// The joiner's log keeps twice 4 MiB, whatever the disk has.
const SHORT_LOG: &str =
    "synod.log_retain_size=4M; synod.log_segment_size=1M; synod.log_min_free=100";

/// A process that stands still until this is dropped.
struct Held(String);

impl Held {
    fn new(pid: String) -> Outcome<Held> {
        output_of(Command::new("kill").args(["-STOP", &pid]), "kill -STOP")?;
        Ok(Held(pid))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its end is no mistake.
        let _ = Command::new("kill").args(["-CONT", &self.0]).status();
    }
}

/// The script that receives the joiner's copy.
fn joiner_script(cluster: &TestCluster) -> Option<String> {
    let data = cluster.files(JOINER).data.display().to_string();
    let is_script = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        let has = |wanted: &str| {
            let mut words = words.iter();
            words.any(|word| String::from_utf8_lossy(word).contains(wanted))
        };
        has("wsrep_sst_") && has("joiner") && has(&data)
    };
    let mut processes = fs::read_dir("/proc").ok()?.flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    // The script's own helpers have its command line for a moment; the oldest is the script.
    let mut found: Vec<u32> = (&mut processes)
        .map(name)
        .filter(|pid| pid.parse::<u32>().is_ok() && is_script(pid))
        .filter_map(|pid| pid.parse().ok())
        .collect();
    found.sort_unstable();
    found.first().map(u32::to_string)
}

/// Number of copies that nodes 1 and 2 have given.
fn copies_given(cluster: &TestCluster) -> usize {
    let given = |node| cluster.log_text(node).matches("SST sent:").count();
    given(1) + given(2)
}

/// First action in the log of the joiner, which takes no SQL yet.
fn log_begins_at(cluster: &TestCluster) -> Outcome<i64> {
    let mut ask = Command::new(place::program()?);
    ask.args(["status", "--json", "--dir"])
        .arg(&cluster.files(JOINER).data);
    let text = output_of(&mut ask, "synod status")?;
    let status: Value = serde_json::from_slice(&text).why("synod status")?;
    let first = status["log"]["first_seqno"].as_i64();
    first.ok_or_else(|| status.to_string()).why("its log")
}

fn committed(cluster: &TestCluster) -> Outcome<i64> {
    let sql = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS
               WHERE VARIABLE_NAME = 'wsrep_last_committed'";
    let rows = cluster.rows(1, sql)?;
    let seqno = rows.first().and_then(|row| row.parse().ok());
    seqno.ok_or("no number").why("the position of node 1")
}

/// Writes until the joiner's log begins after this action.
fn write_until_log_begins_after(cluster: &TestCluster, seqno: i64) -> Outcome {
    let mut client = cluster.connect(1)?;
    let until = Instant::now() + PATIENCE;
    while log_begins_at(cluster)? <= seqno + 1 {
        ensure(Instant::now() < until, || {
            format!("the joiner's log still has action {}", seqno + 1)
        })?;
        for _ in 0..4 {
            client
                .query_drop("INSERT INTO e2e_data.written (b) VALUES (REPEAT('x', 200000))")
                .why("writing")?;
        }
    }
    Ok(())
}

#[test]
fn what_a_long_copy_left_behind_is_fetched() -> Outcome {
    let mut cluster = TestCluster::empty("long-copy", BASE_PORT, 3)?;
    let own = cluster.settings_mut().overrides.entry(JOINER).or_default();
    own.provider_options = Some(SHORT_LOG.into());
    cluster.spawn(1, true).why("starting node 1")?;
    cluster.await_synced(&[1], &|_, _| ()).why("node 1")?;
    cluster.spawn(2, false).why("starting node 2")?;
    cluster.await_synced(&[2], &|_, _| ()).why("node 2")?;
    cluster.create_account()?;
    cluster.execute(
        1,
        "CREATE TABLE e2e_data.written (id SERIAL, b LONGTEXT NOT NULL)",
    )?;

    let before = copies_given(&cluster);
    cluster.spawn(JOINER, false).why("starting the joiner")?;
    cluster.await_line(JOINER, "asking for a full copy")?;
    let script = joiner_script(&cluster).ok_or("there is none");
    let held = Held::new(script.why("the joiner's script")?)?;
    let copied = || (copies_given(&cluster) > before).then_some(());
    ensure(wait_for(PATIENCE, copied).is_some(), || {
        "the donor does not end".into()
    })?;
    write_until_log_begins_after(&cluster, committed(&cluster)?)?;

    drop(held);
    cluster
        .await_synced(&[JOINER], &|_, _| ())
        .why("the joiner")?;
    agreement::check(&cluster, &[1, 2, JOINER])?;
    let text = cluster.log_text(JOINER);
    for line in [
        "the actions between are fetched from",
        "has been fetched: delivery continues from it",
    ] {
        ensure(text.contains(line), || {
            format!("no '{line}':\n{}", cluster.log_tail(JOINER))
        })?;
    }
    let copies = text.matches("asking for a full copy").count();
    ensure(copies == 1, || format!("{copies} full copies"))
}

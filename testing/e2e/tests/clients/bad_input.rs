//! Wrong options, names and directories: the server's error log names the thing, the process ends
//! in time, and never by a crash.

use std::time::Duration;

use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

/// Time limit for a server to say what is wrong, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Marks of a crash in the error log.
const CRASH_MARKS: [&str; 4] = ["got signal", "Assertion", "panicked", "stack_bottom"];

/// A server with these options says all of `expected`, ends in time, and does not crash.
fn refused(name: &str, options: &str, expected: &[&str]) -> Outcome {
    let mut cluster = TestCluster::empty(name, 23306, 1)?;
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    own.provider_options = Some(options.to_owned());
    cluster.spawn(1, true).why("starting the server")?;
    let ended = wait_for(PATIENCE, || cluster.ended(1));
    ensure(ended.is_some(), || "the server still runs".to_owned())?;
    let text = cluster.log_text(1);
    let says_all = expected.iter().all(|part| text.contains(part));
    let mark = CRASH_MARKS.iter().find(|mark| text.contains(**mark));
    ensure(says_all && mark.is_none(), || {
        format!(
            "no {expected:?}, or a crash ({mark:?}):\n{}",
            cluster.log_tail(1)
        )
    })
}

#[test]
fn unknown_option_of_ours_is_named_with_the_nearest_known_one() -> Outcome {
    let expected = ["synod.log_dri", "synod.log_dir"];
    refused("unknown-option", "synod.log_dri=/x", &expected)
}

#[test]
fn log_directory_that_cannot_be_written_is_named() -> Outcome {
    let options = "synod.log_dir=/proc/synod-log";
    refused("log-dir", options, &["/proc/synod-log"])
}

#[test]
fn server_with_the_name_of_a_live_one_ends_and_both_logs_name_it() -> Outcome {
    let mut cluster = TestCluster::empty("name-twice", 23306, 2)?;
    let own = cluster.settings_mut().overrides.entry(2).or_default();
    own.extra_lines.push("wsrep_node_name = node1".into());
    cluster.spawn(1, true).why("starting node 1")?;
    cluster
        .await_synced(&[1], &|_, _| ())
        .why("starting node 1")?;
    cluster.create_account()?;
    cluster.spawn(2, false).why("starting node 2")?;
    let ended = wait_for(PATIENCE, || cluster.ended(2));
    ensure(ended.is_some(), || "node 2 does not end".to_owned())?;
    for node in [1, 2] {
        let text = cluster.log_text(node);
        let words = "two members cannot have one name or one address";
        let settings = ["wsrep_node_name", "wsrep_node_address", "'node1' at"];
        let is_it = |line: &&str| line.contains(words) && settings.iter().all(|s| line.contains(s));
        let said: Vec<&str> = text.lines().filter(is_it).collect();
        ensure(!said.is_empty(), || {
            format!("node {node} does not say so:\n{}", cluster.log_tail(node))
        })?;
        ensure(node == 2 || said.len() == 1, || format!("{said:?}"))?;
    }
    ensure(cluster.node_status(1).is_synced(), || "node 1".to_owned())
}

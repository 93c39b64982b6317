//! Wrong options, addresses, ports and directories: the server's error log names the thing, the
//! process ends in time, and never by a crash. Each case is a cluster of one node that is to be
//! bootstrapped.

use std::net::TcpListener;
use std::time::Duration;

use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

/// Time limit for a server to say what is wrong, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Marks of a crash in the error log.
const CRASH_MARKS: [&str; 4] = ["got signal", "Assertion", "panicked", "stack_bottom"];

/// Bad input of a case.
#[derive(Default)]
struct Case {
    provider_options: Option<String>,
    cluster_address: Option<String>,
    extra_lines: Vec<String>,
    /// Give the bootstrap option.
    bootstrap: bool,
}

/// Starts a server so, and gives it and what its error log says when `expected` is all there.
fn start(name: &str, base_port: u16, case: Case, expected: &[&str]) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty(name, base_port, 1)?;
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    own.provider_options = case.provider_options;
    own.cluster_address = case.cluster_address;
    own.extra_lines = case.extra_lines;
    cluster
        .spawn(1, case.bootstrap)
        .why("starting the server")?;
    let missing = |text: &str| -> Vec<String> {
        expected
            .iter()
            .filter(|part| !text.contains(**part))
            .map(|s| (*s).to_owned())
            .collect()
    };
    let said = wait_for(PATIENCE, || {
        missing(&cluster.log_text(1)).is_empty().then_some(())
    });
    let text = cluster.log_text(1);
    ensure(said.is_some(), || {
        format!(
            "the error log does not say {:?}:\n{}",
            missing(&text),
            cluster.log_tail(1)
        )
    })?;
    Ok(cluster)
}

/// The server must refuse: say it, end in time, and not crash.
fn refused(name: &str, base_port: u16, case: Case, expected: &[&str]) -> Outcome {
    let mut cluster = start(name, base_port, case, expected)?;
    let ended = wait_for(PATIENCE, || cluster.ended(1));
    ensure(ended.is_some(), || {
        format!(
            "the server still runs {} s after saying what is wrong",
            PATIENCE.as_secs()
        )
    })?;
    check_no_crash(&cluster)
}

fn check_no_crash(cluster: &TestCluster) -> Outcome {
    let text = cluster.log_text(1);
    let mark = CRASH_MARKS.iter().find(|mark| text.contains(**mark));
    ensure(mark.is_none(), || {
        format!("the server crashed ({mark:?}):\n{}", cluster.log_tail(1))
    })
}

fn options(text: impl Into<String>) -> Case {
    Case {
        provider_options: Some(text.into()),
        bootstrap: true,
        ..Case::default()
    }
}

#[test]
fn unknown_option_of_ours_is_named_with_the_nearest_known_one() -> Outcome {
    let expected = ["synod.log_dri", "synod.log_dir"];
    refused(
        "unknown-option",
        23306,
        options("synod.log_dri=/x"),
        &expected,
    )
}

#[test]
fn galera_option_without_meaning_gets_a_notice_and_the_server_starts() -> Outcome {
    let expected = "evs.send_window";
    let mut cluster = start(
        "galera-option",
        23306,
        options("evs.send_window=8"),
        &[expected],
    )?;
    cluster
        .await_synced(&[1], &|_, _| ())
        .why("starting with an option of Galera's")
}

#[test]
fn group_port_in_use_is_named() -> Outcome {
    let listener = TcpListener::bind(("127.0.0.1", 0)).why("taking a port")?;
    let port = listener.local_addr().why("taking a port")?.port();
    let options = options(format!(
        "base_port={port};gmcast.listen_addr=tcp://127.0.0.1:{port}"
    ));
    refused("port-in-use", 23306, options, &[&format!("{port}")])
}

#[test]
fn log_directory_that_cannot_be_written_is_named() -> Outcome {
    let options = options("synod.log_dir=/proc/synod-log");
    refused("log-dir", 23306, options, &["/proc/synod-log"])
}

#[test]
fn address_that_cannot_be_understood_is_named() -> Outcome {
    let address = "synod://127.0.0.1:not-a-port".to_owned();
    let case = Case {
        cluster_address: Some(address),
        ..Case::default()
    };
    refused("bad-address", 23306, case, &["not-a-port"])
}

#[test]
fn address_where_no_member_answers_is_named() -> Outcome {
    // Nothing listens on port 1. The member may keep trying: the others may just be late.
    let address = "synod://127.0.0.1:1".to_owned();
    let case = Case {
        cluster_address: Some(address),
        ..Case::default()
    };
    let cluster = start("no-other-member", 23306, case, &["127.0.0.1:1"])?;
    check_no_crash(&cluster)
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

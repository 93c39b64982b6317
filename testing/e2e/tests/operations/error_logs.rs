//! Error logs of servers that start, join, and stop in order: a healthy event is no warning.

use std::fs;
use std::net::TcpStream;

use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::ports::Ports;

const BASE_PORT: u16 = 18506;
const ALL: [u8; 3] = [1, 2, 3];
/// The server's own at each start, about addresses of this machine.
const OF_THE_SERVER: &str = "wsrep_sst_receive_address is set to";
/// A server that stops may end the group's service by that: its operator may not have meant it.
const LAST_MAJORITY: &str = "the voters that are left are no majority without it";
/// A look at the port is no caller that was refused.
const LOOK: &str = "ended before the handshake";

/// Lines about replication at the level of a warning, or above; and those about looks at the port.
fn loud_lines(cluster: &TestCluster) -> Outcome<Vec<String>> {
    let is_loud = |line: &&str| {
        let marks = ["[Warning] WSREP:", "[ERROR] WSREP:", LOOK];
        marks.iter().any(|mark| line.contains(mark))
    };
    let mut loud = Vec::new();
    for node in ALL {
        // Of all starts.
        let text = fs::read_to_string(cluster.files(node).error_log).why("an error log")?;
        let lines = text.lines().filter(is_loud);
        loud.extend(lines.map(|line| format!("node{node}: {line}")));
    }
    Ok(loud)
}

#[test]
fn healthy_starts_joins_and_stops_are_no_warnings() -> Outcome {
    let mut cluster = TestCluster::fresh("error-logs", BASE_PORT)?;
    for node in ALL {
        cluster.stop(node).why("an orderly stop")?;
        cluster.start(node, &|_, _| ()).why("starting it again")?;
        cluster.await_synced(&ALL, &|_, _| ()).why("all three")?;
    }
    // As a monitor does, and 'synod doctor' on another machine.
    for node in ALL {
        let port = Ports::of(BASE_PORT, node).group;
        TcpStream::connect(("127.0.0.1", port)).why("a look at the port")?;
    }
    cluster.down(&|_, _| ()).why("stopping all")?;
    cluster.up(&|_, _| ()).why("starting all")?;
    let (of_the_server, ours): (Vec<_>, Vec<_>) = loud_lines(&cluster)?
        .into_iter()
        .partition(|line| line.contains(OF_THE_SERVER));
    // Three starts of each: warnings are found.
    ensure(of_the_server.len() == 9, || format!("{of_the_server:#?}"))?;
    let (last, other): (Vec<_>, Vec<_>) = ours
        .into_iter()
        .partition(|line| line.contains(LAST_MAJORITY));
    ensure(other.is_empty() && last.len() <= 1, || {
        format!("{other:#?}, {last:#?}")
    })
}

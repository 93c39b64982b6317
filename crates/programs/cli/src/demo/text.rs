//! Output of the demo: progress, the table of nodes, what to try next.
//!
//! Progress goes to standard error with the seconds since the command began; the rest to standard
//! output.

use std::path::Path;
use std::time::Instant;

use synod_local_cluster::{Cluster, NodeStatus, Result, Started};

use super::answer;
use crate::table::{lay_out, or_dash};
use crate::visible;

/// Prints progress to standard error, with the seconds since the command began.
#[derive(Debug)]
pub(super) struct Reporter {
    begin: Instant,
}

impl Reporter {
    pub(super) fn new() -> Reporter {
        Reporter {
            begin: Instant::now(),
        }
    }

    pub(super) fn say(&self, node: u8, what: &str) {
        eprintln!(
            "[{:5.1} s] node{node}: {}",
            self.begin.elapsed().as_secs_f32(),
            visible(what)
        );
    }

    /// Reports something about the whole cluster.
    pub(super) fn note(&self, what: &str) {
        let seconds = self.begin.elapsed().as_secs_f32();
        eprintln!("[{seconds:5.1} s] {}", visible(what));
    }
}

pub(super) fn print_status(cluster: &Cluster, json: bool) -> Result<()> {
    let status = cluster.status();
    if json {
        // Plain data without maps: serialising cannot fail.
        return answer(&serde_json::to_string_pretty(&status).unwrap_or_default());
    }
    answer(&table(&status))
}

pub(super) fn started(node: u8, started: Started) -> String {
    match started {
        Started::Already(pid) => format!("node{node} is already running (pid {pid})"),
        Started::Synced => format!("node{node} is synced"),
        Started::AwaitingMajority { running, needed } => format!(
            "node{node} has started and waits for the others: {running} running, {needed} are \
             needed for a majority; start one more with 'synod demo start', or all with \
             'synod demo up'"
        ),
    }
}

fn table(status: &[NodeStatus]) -> String {
    let head = ["name", "role", "weight", "address", "state", "seqno", "pid"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(status.iter().map(row));
    lay_out(&rows)
}

fn row(node: &NodeStatus) -> [String; 7] {
    let has_no_majority = node.pid.is_some() && node.member_state != "starting" && !node.primary;
    let state = if has_no_majority {
        format!("{} (no majority)", node.member_state)
    } else {
        node.member_state.clone()
    };
    [
        node.name.clone(),
        or_dash(node.role.clone()),
        or_dash(node.leader_weight),
        format!("127.0.0.1:{}", node.port),
        state,
        or_dash(node.last_committed),
        or_dash(node.pid),
    ]
}

pub(super) fn what_next(dir: &Path, is_default: bool, cluster: &Cluster) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "synod".into());
    let demo = if is_default {
        format!("{program} demo")
    } else {
        format!("{program} demo --dir {}", dir.display())
    };
    let port = cluster.settings().base_port;
    let status = cluster.status();
    let leader = status
        .iter()
        .position(|node| node.role.as_deref() == Some("leader"));
    let victim = leader.map_or(1, |index| index + 1);
    let other = if victim == 1 { 2 } else { 1 };
    format!(
        "
Connect (the account may write to database 'demo'):
  mariadb -h 127.0.0.1 -P {port} -u demo -pdemo demo

Try next:
  {demo} sql 1 \"INSERT INTO demo.notes (text) VALUES ('hello')\"
  {demo} sql 2 \"SELECT * FROM demo.notes\"
  {demo} kill {victim}        # a crash{leader_note}
  {demo} sql {other} \"INSERT INTO demo.notes (text) VALUES ('still here')\"
  {demo} start {victim}       # it fetches what it missed
  {demo} status
  {demo} down          # 'up' brings everything back, 'destroy' removes it

Error logs: {logs}/node*/error.log",
        leader_note = if leader.is_some() {
            " of the leader"
        } else {
            ""
        },
        logs = dir.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, pid: Option<i32>, primary: bool) -> NodeStatus {
        NodeStatus {
            name: name.into(),
            pid,
            port: 13306,
            member_state: if pid.is_some() {
                "Synced".into()
            } else {
                "down".into()
            },
            role: primary.then(|| "leader".into()),
            leader_weight: primary.then_some(50),
            term: None,
            commit_index: None,
            last_committed: pid.map(|_| 42),
            view_size: None,
            trouble: None,
            primary,
        }
    }

    #[test]
    fn table_has_aligned_columns_and_dashes_for_the_unknown() {
        let text = table(&[node("node1", Some(7), true), node("node2", None, false)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "name   role    weight  address          state   seqno  pid"
        );
        assert_eq!(
            lines[1],
            "node1  leader  50      127.0.0.1:13306  Synced  42     7"
        );
        assert_eq!(
            lines[2],
            "node2  -       -       127.0.0.1:13306  down    -      -"
        );
    }

    #[test]
    fn node_without_majority_says_so() {
        assert!(table(&[node("node1", Some(7), false)]).contains("Synced (no majority)"));
    }
}

//! The status of a node: one row of `synod demo status`.
//!
//! The row comes from the server's own status variables, so it works with Synod and with Galera;
//! what only one of them has is optional.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::client::{self, Target};
use crate::files::NodeFiles;
use crate::ports::Ports;
use crate::process;
use crate::settings::Settings;

/// A server that does not answer a status query in this time counts as starting.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// State of one node. Fields without a value (the node is down, or its provider has no such
/// variable) are none, `null` in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// `node1`, `node2`, …
    pub name: String,
    pub pid: Option<i32>,
    /// SQL port on 127.0.0.1.
    pub port: u16,
    /// `wsrep_local_state_comment`; `down` without a process, `starting` while the server does
    /// not answer.
    pub member_state: String,
    /// Why it is out of its group, or what is wrong with its data.
    pub trouble: Option<String>,
    /// `leader`, `follower`, `learner` or `logger`.
    pub role: Option<String>,
    /// Its leader weight, 0 to 100.
    pub leader_weight: Option<u8>,
    pub term: Option<u64>,
    /// Its commit index: the highest log index that it knows to be durable on a quorum.
    pub commit_index: Option<u64>,
    /// Seqno of the last transaction committed in its database.
    pub last_committed: Option<i64>,
    pub view_size: Option<u32>,
    pub primary: bool,
}

impl NodeStatus {
    /// Asks node `node` of the cluster; never fails, never takes longer than a few seconds.
    pub fn ask(settings: &Settings, admin: &str, node: u8) -> NodeStatus {
        let files = NodeFiles::of(&settings.dir, node);
        let pid = process::server_pid(&files.cnf);
        let variables = match pid {
            Some(_) => read_variables(Target {
                node,
                socket: &files.socket,
                admin,
            }),
            None => None,
        };
        let port = Ports::of(settings.base_port, node).sql;
        NodeStatus::from_variables(node, port, pid, variables.as_ref())
    }

    /// Whether it takes reads and writes as a full member.
    pub fn is_synced(&self) -> bool {
        self.primary && self.member_state == "Synced"
    }

    /// Whether it has left its group and does not come back by itself.
    pub fn waits_for_person(&self) -> bool {
        let trouble = self.trouble.as_deref().unwrap_or_default();
        self.member_state == "Inconsistent" || trouble.contains("waits for a person")
    }

    fn from_variables(
        node: u8,
        port: u16,
        pid: Option<i32>,
        variables: Option<&BTreeMap<String, String>>,
    ) -> NodeStatus {
        let text = |name: &str| variables.and_then(|all| all.get(name)).cloned();
        let silent = if pid.is_some() { "starting" } else { "down" };
        NodeStatus {
            name: format!("node{node}"),
            pid,
            port,
            member_state: text("wsrep_local_state_comment").unwrap_or_else(|| silent.into()),
            trouble: text("wsrep_synod_trouble").filter(|trouble| !trouble.is_empty()),
            role: text("wsrep_synod_role").filter(|role| !role.is_empty()),
            leader_weight: text("wsrep_synod_leader_weight").and_then(|value| value.parse().ok()),
            term: text("wsrep_synod_term").and_then(|value| value.parse().ok()),
            commit_index: text("wsrep_synod_commit_index").and_then(|value| value.parse().ok()),
            last_committed: text("wsrep_last_committed").and_then(|value| value.parse().ok()),
            view_size: text("wsrep_cluster_size").and_then(|value| value.parse().ok()),
            primary: text("wsrep_cluster_status").is_some_and(|value| value == "Primary"),
        }
    }
}

fn read_variables(target: Target<'_>) -> Option<BTreeMap<String, String>> {
    let rows = client::query(target, "SHOW GLOBAL STATUS LIKE 'wsrep%'", ANSWER_TIMEOUT).ok()?;
    let pair = |row: Vec<String>| {
        let mut fields = row.into_iter();
        Some((fields.next()?, fields.next().unwrap_or_default()))
    };
    Some(rows.into_iter().filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn node_without_process_is_down() {
        let status = NodeStatus::from_variables(3, 13308, None, None);
        assert_eq!(status.member_state, "down");
        assert!(!status.primary && status.term.is_none());
    }

    #[test]
    fn process_that_does_not_answer_is_starting() {
        let status = NodeStatus::from_variables(3, 13308, Some(7), None);
        assert_eq!(status.member_state, "starting");
    }

    #[test]
    fn server_that_waits_for_a_person_is_known_by_its_own_words() {
        let status = |trouble| {
            let known = variables(&[
                ("wsrep_local_state_comment", "Initialized"),
                ("wsrep_synod_trouble", trouble),
            ]);
            NodeStatus::from_variables(1, 13306, Some(7), Some(&known))
        };
        assert!(status("out of its group, waits for a person: x").waits_for_person());
        assert!(!status("out of its group, comes back by itself: x").waits_for_person());
        assert_eq!(status("").trouble, None);
    }

    #[test]
    fn json_has_the_promised_fields_and_null_for_unknown_ones() {
        let known = variables(&[
            ("wsrep_local_state_comment", "Synced"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_size", "3"),
            ("wsrep_last_committed", "42"),
            ("wsrep_synod_role", "leader"),
            ("wsrep_synod_term", "5"),
            ("wsrep_synod_leader_weight", "80"),
        ]);
        let status = NodeStatus::from_variables(1, 13306, Some(7), Some(&known));
        assert!(status.is_synced());
        let expected = r#"{"name":"node1","pid":7,"port":13306,"member_state":"Synced",
            "trouble":null,"role":"leader","leader_weight":80,"term":5,"commit_index":null,"last_committed":42,
            "view_size":3,"primary":true}"#;
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), expected);
    }
}

//! MariaDB's own replication beside the group: a binlog, or the role of a replica.
//!
//! The group's log brings rows back after a crash, and nothing else that was committed with them.
//! What a replica has executed is such a thing, unless the write sets name the GTIDs themselves.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// Settings by which every write set of a replica names its GTID.
const NEEDED: [&str; 3] = ["log_bin", "log_slave_updates", "wsrep_gtid_mode"];

/// Whether a server of a group with Synod has a binlog, or is a replica, too.
pub(super) fn is_beside_group(server: &ServerFacts) -> bool {
    server.is_in_group() && (server.variable("log_bin") == "ON" || server.is_replica())
}

pub(super) fn judge(server: &ServerFacts) -> Option<Finding> {
    if !server.is_in_group() || !server.is_replica() {
        return None;
    }
    let lacks = |name: &&str| server.variable(name) != "ON";
    let missing: Vec<&str> = NEEDED.into_iter().filter(lacks).collect();
    let sources = server.sources.iter().flatten();
    let by_file: Vec<&str> = sources
        .filter(|source| !source.by_gtid)
        .map(|source| source.name.as_str())
        .collect();
    if missing.is_empty() && by_file.is_empty() {
        return Some(Finding::good(
            Subject::Settings,
            "the group is told up to which GTID this replica is",
        ));
    }
    let (what, remedy) = if missing.is_empty() {
        (
            format!(
                "this server is a replica that does not use GTIDs (connection '{}')",
                by_file.join("', '")
            ),
            "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE".to_owned(),
        )
    } else {
        (
            format!("this server is a replica, and lacks {}", missing.join(", ")),
            "the lines of relay.md, \"A server of a group as the replica\", on all servers, one \
             restart after the other"
                .to_owned(),
        )
    };
    Some(Finding::new(
        Subject::Settings,
        Severity::Problem,
        what,
        "the group is not told up to where it is: after a crash, rows that it had executed come \
         back from the group's log, its position does not, and START SLAVE executes them again, \
         on all servers, whatever InnoDB flushes",
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::SourceFacts;

    fn replica(on: &[&str], by_gtid: bool) -> ServerFacts {
        let mut server = ServerFacts::default();
        let mut set = |name: &str, value: &str| {
            server.variables.insert(name.to_owned(), value.to_owned());
        };
        set("wsrep_on", "ON");
        set("wsrep_provider", "/usr/lib/libsynod.so");
        for name in on {
            set(name, "ON");
        }
        let name = String::new();
        server.sources = Some(vec![SourceFacts { name, by_gtid }]);
        server
    }

    #[test]
    fn replica_must_tell_the_group_where_it_is() {
        let found = judge(&replica(&["log_bin", "log_slave_updates"], true)).unwrap();
        assert_eq!(found.severity, Severity::Problem);
        assert!(found.what.ends_with("lacks wsrep_gtid_mode"), "{found:?}");
        let found = judge(&replica(&NEEDED, false)).unwrap();
        assert!(found.what.contains("does not use GTIDs"), "{found:?}");
        let found = judge(&replica(&NEEDED, true)).unwrap();
        assert_eq!(found.severity, Severity::Good);
    }

    #[test]
    fn server_without_a_source_or_a_group_is_left_alone() {
        let mut server = replica(&[], true);
        server.sources = Some(Vec::new());
        assert!(judge(&server).is_none() && !is_beside_group(&server));
        // An account that may not see sources sees how many run.
        server.sources = None;
        assert!(judge(&server).is_none());
        let running = ("slaves_running".to_owned(), "1".to_owned());
        server.status.extend([running]);
        assert!(judge(&server).is_some() && is_beside_group(&server));
        server
            .variables
            .insert("wsrep_on".to_owned(), "OFF".to_owned());
        assert!(judge(&server).is_none() && !is_beside_group(&server));
    }
}

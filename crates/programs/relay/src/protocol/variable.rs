//! Variables: those of the relay, which no statement changes, and those that a reader has set for
//! its connection.

use std::collections::BTreeMap;

use synod_binlog::GtidList;
use synod_node::Seqno;

use super::greeting::SERVER_VERSION;
use crate::identity::Identity;

/// Limits for the variables of a reader: their number, and the size of a value in bytes.
const SET_MAX: usize = 64;
const VALUE_MAX: usize = 64 << 10;

/// Variables by which a reader says what it is to get, and how.
const OBEYED: [&str; 6] = [
    "mariadb_slave_capability",
    "master_binlog_checksum",
    "master_heartbeat_period",
    "rpl_semi_sync_slave",
    "slave_connect_state",
    "slave_until_gtid",
];
/// Variables that change nothing. Whatever a reader says, a relay refuses what it cannot continue,
/// has a reader wait that is ahead, and knows a reader by its `server_id`.
const HARMLESS: [&str; 3] = [
    "slave_gtid_ignore_duplicates",
    "slave_gtid_strict_mode",
    "slave_uuid",
];
/// Names of MySQL 8 for some of them.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("replica_uuid", "slave_uuid"),
    ("rpl_semi_sync_replica", "rpl_semi_sync_slave"),
    ("source_binlog_checksum", "master_binlog_checksum"),
    ("source_heartbeat_period", "master_heartbeat_period"),
];
/// The names of variables by which readers ask a server for something begin with these.
const ASKING: [&str; 6] = [
    "mariadb_", "master_", "replica_", "rpl_", "slave_", "source_",
];

/// Whether a reader asks by this variable for something that relays do not know. It would expect
/// to get that.
pub(crate) fn asks_for_unknown(name: &str) -> bool {
    let name = one_name(name);
    let is_known = OBEYED.contains(&&*name) || HARMLESS.contains(&&*name);
    !is_known && ASKING.iter().any(|begin| name.starts_with(begin))
}

/// The name of a variable in lower case, and in MariaDB's words.
fn one_name(name: &str) -> String {
    let name = name.to_lowercase();
    match OTHER_NAMES.iter().find(|(other, _)| *other == name) {
        Some((_, known)) => (*known).to_owned(),
        None => name,
    }
}

/// The relay's facts, as variables.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Domain and server of the GTIDs.
    pub(crate) identity: Identity,
    /// The oldest action in the log.
    pub(crate) first: Seqno,
    /// The last committed action.
    pub(crate) last: Seqno,
    /// The newest GTID of each domain.
    pub(crate) gtids: GtidList,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

impl Facts {
    /// The value of a variable, by its name in lower case.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let all = self.variables();
        let found = all.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    /// All variables, by name.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let version = SERVER_VERSION.trim_start_matches("5.5.5-");
        let newest = self.gtids.to_string();
        let texts = |text: &str| text.to_owned();
        vec![
            ("binlog_checksum", texts("CRC32")),
            ("binlog_format", texts("ROW")),
            ("collation_server", texts("utf8mb4_general_ci")),
            ("gtid_binlog_pos", newest.clone()),
            ("gtid_binlog_state", newest.clone()),
            ("gtid_current_pos", newest),
            ("gtid_domain_id", self.identity.domain.to_string()),
            ("gtid_strict_mode", texts("1")),
            ("log_bin", texts("ON")),
            ("max_allowed_packet", texts("1073741824")),
            ("rpl_semi_sync_master_enabled", texts("ON")),
            ("server_id", self.identity.server_id.to_string()),
            ("system_time_zone", texts("UTC")),
            ("time_zone", texts("SYSTEM")),
            ("version", version.to_owned()),
            ("version_comment", texts("synod relay")),
        ]
    }
}

/// Variables that a reader has set for its connection, by names as [`one_name`] gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReaderVariables(BTreeMap<String, Option<String>>);

impl ReaderVariables {
    /// Sets a variable. Returns whether there was room.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>) -> bool {
        let name = one_name(name);
        let is_new = !self.0.contains_key(&name);
        let bytes = name.len() + value.as_ref().map_or(0, String::len);
        if bytes > VALUE_MAX || (is_new && self.0.len() >= SET_MAX) {
            return false;
        }
        self.0.insert(name, value);
        true
    }

    /// The value; none if it is NULL or was not set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&one_name(name))?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_asks_for_is_known_or_not() {
        for known in [
            "slave_until_gtid",
            "Source_Binlog_Checksum",
            "replica_uuid",
            "mine",
        ] {
            assert!(!asks_for_unknown(known), "{known}");
        }
        for unknown in [
            "slave_until_log",
            "rpl_semi_sync_other",
            "MASTER_x",
            "replica_",
        ] {
            assert!(asks_for_unknown(unknown), "{unknown}");
        }
        let mut variables = ReaderVariables::default();
        variables.set("source_binlog_checksum", Some("NONE".to_owned()));
        assert_eq!(variables.get("master_binlog_checksum"), Some("NONE"));
    }

    #[test]
    fn variables_of_a_reader_are_bounded() {
        let mut variables = ReaderVariables::default();
        assert!(variables.set("A", Some("1".to_owned())));
        assert_eq!(variables.get("a"), Some("1"));
        assert!(!variables.set("long", Some("x".repeat(VALUE_MAX))));
        for number in 1..SET_MAX {
            assert!(variables.set(&number.to_string(), None));
        }
        assert!(!variables.set("one more", None));
        assert!(variables.set("a", None));
        assert_eq!(variables.get("a"), None);
    }
}

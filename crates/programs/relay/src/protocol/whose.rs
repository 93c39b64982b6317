//! The owner of a statement, on a relay that passes statements on to a server: the relay has those
//! about the binlog, since a server has another one or none.
//!
//! Invariant: no statement that names a position of the binlog reaches a server, whose answer would
//! be for another binlog.

use crate::protocol::question::{
    after_binlog_status, after_word, after_words, asks_for_filter, is_for_relays, parts, unquoted,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The relay's, whatever a server has.
    Relay,
    /// The relay's, about the place of what the session reads at its server.
    Place,
    /// Both: a list of variables of which some are for the relay.
    Both,
    Server,
    /// The server's, but for the values of the relay's variables among its rows.
    Variables,
}

/// Names of positions.
const PLACES: [&str; 4] = [
    "binlog_gtid_pos",
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
];
/// Variables that are about the binlog, and say nothing about the data.
const OWN: [&str; 7] = [
    "binlog_checksum",
    "binlog_format",
    "gtid_domain_id",
    "gtid_strict_mode",
    "log_bin",
    "rpl_semi_sync_master_enabled",
    "server_id",
];

/// Whether the relay's value of a variable takes the place of the server's.
pub(crate) fn is_of_relay(variable: &str) -> bool {
    OWN.contains(&variable) || PLACES.contains(&variable)
}

pub(crate) fn whose(statement: &str) -> Whose {
    let statement = bare(statement).trim_end_matches([';', ' ', '\n']);
    if let Some(what) = after_word(statement, "SHOW") {
        return show(what);
    }
    if has_word(statement, &PLACES) {
        return Whose::Place;
    }
    if let Some(list) = after_word(statement, "SELECT") {
        return select(list);
    }
    if let Some(list) = after_word(statement, "SET") {
        return set(list);
    }
    // Numbers of connections here are not those there.
    match after_word(statement, "KILL") {
        Some(_) => Whose::Relay,
        None => Whose::Server,
    }
}

fn show(what: &str) -> Whose {
    let what = ["GLOBAL", "SESSION"]
        .iter()
        .find_map(|scope| after_word(what, scope))
        .unwrap_or(what);
    if let Some(rest) = after_word(what, "VARIABLES") {
        let asked = after_word(rest, "LIKE").and_then(unquoted);
        let asked = asked.map(str::to_lowercase).unwrap_or_default();
        return match () {
            () if PLACES.contains(&&*asked) => Whose::Place,
            () if OWN.contains(&&*asked) => Whose::Relay,
            () => Whose::Variables,
        };
    }
    let begins = |words: &[&str]| after_words(what, words).is_some();
    if after_binlog_status(what).is_some()
        || (begins(&["STATUS"]) && what.to_lowercase().contains("binlog_snapshot"))
    {
        return Whose::Place;
    }
    let is_list =
        begins(&["BINARY", "LOGS"]) || begins(&["MASTER", "LOGS"]) || begins(&["BINLOG", "EVENTS"]);
    match is_list {
        true => Whose::Relay,
        false => Whose::Server,
    }
}

fn select(list: &str) -> Whose {
    let of_relay = |part: &str| match part.strip_prefix('@') {
        Some(name) => !name.starts_with('@') && is_for_relays(name),
        None => ["UNIX_TIMESTAMP()", "VERSION()"]
            .iter()
            .any(|call| part.eq_ignore_ascii_case(call)),
    };
    let names_own = list.contains("@@") && has_word(list, &OWN);
    match names_own || parts(list).into_iter().any(of_relay) {
        true => Whose::Relay,
        false => Whose::Server,
    }
}

fn set(list: &str) -> Whose {
    let parts = parts(list);
    let assigned = parts.iter().filter_map(|part| part.split_once('='));
    if assigned
        .clone()
        .any(|(name, value)| asks_for_filter(name.trim(), value))
    {
        return Whose::Relay;
    }
    let for_relay = assigned.filter(|(name, _)| {
        let name = name.trim().trim_end_matches(':').trim_end();
        name.strip_prefix('@').is_some_and(is_for_relays)
    });
    match for_relay.count() {
        0 => Whose::Server,
        count if count == parts.len() => Whose::Relay,
        _ => Whose::Both,
    }
}

/// Whether the text has one of these words, which are in lower case.
fn has_word(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    let mut found = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    found.any(|word| words.contains(&word))
}

/// The statement behind what programs put before it: comments, and variables for it alone, as the
/// driver of MariaDB for Java does for a time limit.
pub(crate) fn bare(statement: &str) -> &str {
    let mut rest = statement.trim_start();
    loop {
        let after = match rest {
            // What is in these is executed.
            _ if rest.starts_with("/*!") || rest.starts_with("/*M!") => None,
            _ if rest.starts_with("/*") => rest.split_once("*/"),
            _ if rest.starts_with("-- ") || rest.starts_with('#') => rest.split_once('\n'),
            _ => None,
        };
        let after = after.map(|(_, after)| after).or_else(|| for_which(rest));
        match after {
            Some(after) => rest = after.trim_start(),
            None => return rest,
        }
    }
}

fn for_which(statement: &str) -> Option<&str> {
    let list = after_words(statement, &["SET", "STATEMENT"])?;
    let ends = list.match_indices(char::is_whitespace);
    ends.map(|(at, _)| list.get(at..).unwrap_or_default())
        .find_map(|rest| after_word(rest, "FOR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_the_binlog_are_the_relays() {
        for statement in [
            "SHOW MASTER STATUS",
            "show binary log status;",
            "/* app */ SHOW MASTER STATUS",
            "SET STATEMENT max_statement_time=600 FOR SHOW MASTER STATUS",
            "SHOW GLOBAL VARIABLES LIKE 'GTID_BINLOG_POS'",
            "SHOW STATUS LIKE 'binlog_snapshot_%'",
            "SELECT @@global.gtid_current_pos",
            "SELECT BINLOG_GTID_POS('synod.00000000000000000009', 4)",
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES \
             WHERE VARIABLE_NAME = 'GTID_BINLOG_POS'",
        ] {
            assert_eq!(whose(statement), Whose::Place, "{statement}");
        }
        for statement in [
            "SELECT UNIX_TIMESTAMP()",
            "SELECT VERSION()",
            "SHOW VARIABLES LIKE 'SERVER_ID'",
            "SELECT @@GLOBAL.SERVER_ID",
            "SET @master_heartbeat_period= 30000001024, @slave_uuid= 'a'",
            "SELECT @master_binlog_checksum",
            "SET @mariadb_slave_capability=4",
            "SET SESSION skip_replication=1",
            "SHOW BINARY LOGS",
            "SHOW BINLOG EVENTS",
            "KILL 7",
        ] {
            assert_eq!(whose(statement), Whose::Relay, "{statement}");
        }
    }

    #[test]
    fn statements_about_data_are_the_servers() {
        for statement in [
            "SELECT 1",
            "SELECT id, server_id FROM shop.orders",
            "SELECT @@time_zone, @@max_allowed_packet",
            "SET NAMES utf8mb4",
            "SET autocommit=0",
            "SET @mine = 1",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "FLUSH TABLES WITH READ LOCK",
            "SHOW CREATE TABLE shop.orders",
            "SHOW STATUS LIKE 'wsrep_ready'",
            "/*!40100 SET @@SQL_MODE='' */",
            "",
        ] {
            assert_eq!(whose(statement), Whose::Server, "{statement}");
        }
        for statement in [
            "SHOW VARIABLES",
            "SHOW VARIABLES LIKE '%bin%'",
            "SHOW VARIABLES WHERE Variable_name IN ('character_set_server','collation_server')",
        ] {
            assert_eq!(whose(statement), Whose::Variables, "{statement}");
        }
        let both = "SET @master_heartbeat_period = 1, wait_timeout = 9";
        assert_eq!(whose(both), Whose::Both);
    }
}

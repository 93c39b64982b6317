//! The server's variables, held against the configuration that Synod is run with.

use std::net::{IpAddr, SocketAddr};

use super::replication;
use crate::facts::{ServerFacts, is_on};
use crate::finding::{Finding, Severity, Subject};

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub line: &'static str,
    why: &'static str,
    pub severity: Severity,
    accepts: fn(&str) -> bool,
    applies: Applies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applies {
    Always,
    InGroup,
    /// To members of a group with Synod that have no other replication: elsewhere it would lose
    /// commits.
    GroupOnly,
    /// To members of a group with Synod that have a binlog or are replicas, too.
    GroupAndOther,
}

impl Applies {
    fn to(self, server: &ServerFacts) -> bool {
        let has_other = replication::is_beside_group(server);
        match self {
            Applies::Always => true,
            Applies::InGroup => server.is_in_group(),
            Applies::GroupOnly => server.is_in_group() && !has_other,
            Applies::GroupAndOther => has_other,
        }
    }
}

/// Settings, one a row: name, right value, severity, to whom it applies, accepted values, why.
macro_rules! settings {
    ($(
        $name:literal = $value:literal, $severity:ident, $applies:ident, $accepts:expr,
        $why:literal;
    )*) => {
        &[$(Setting {
            name: $name,
            line: concat!($name, " = ", $value),
            why: $why,
            severity: Severity::$severity,
            accepts: $accepts,
            applies: Applies::$applies,
        }),*]
    };
}

/// `docs/operating/settings.md` has the same, with more words.
const SETTINGS: &[Setting] = settings! {
    "binlog_format" = "ROW", Problem, Always, |value| value == "ROW",
        "only rows replicate: statements of another format are refused or differ";
    "wsrep_forced_binlog_format" = "NONE", Problem, Always, |value| matches!(value, "NONE" | "ROW"),
        "only rows replicate: a forced format makes statements of them";
    "innodb_autoinc_lock_mode" = "2", Problem, Always, |value| value == "2",
        "parallel appliers deadlock on the lock of auto-increment columns";
    "default_storage_engine" = "InnoDB", Warning, Always,
        |value| value.eq_ignore_ascii_case("InnoDB"),
        "new tables would be of an engine that does not replicate";
    "innodb_snapshot_isolation" = "ON", Warning, Always, |value| value == "ON",
        "a transaction may overwrite a row that has changed since its snapshot, unseen";
    "innodb_lock_wait_timeout" = "10", Note, Always,
        |value| value.parse().is_ok_and(|seconds: u64| seconds <= 10),
        "while a transaction waits for a lock that it will not get, this server may apply nothing";
    "innodb_flush_log_at_trx_commit" = "0", Note, GroupOnly, |value| value == "0",
        "the group's log holds each commit on a majority of disks; flushing InnoDB's log at each \
         commit, too, only costs time";
    "innodb_flush_log_at_trx_commit" = "1", Problem, GroupAndOther, |value| value == "1",
        "after a crash the group's log gives back the rows that InnoDB has lost, and nothing else \
         that was committed with them: they are written to the binlog a second time, and what a \
         replica had executed is executed again, on all servers";
    "sync_binlog" = "1", Warning, GroupAndOther, |value| value == "1",
        "after a power loss the binlog may lack what its readers have got already; it comes back \
         under other numbers, and they get it again";
    "wsrep_ignore_apply_errors" = "3", Problem, InGroup,
        |value| value.parse().is_ok_and(|kept: u32| kept & 4 == 0),
        "a statement (DDL) that fails on one server only goes unnoticed, and data differ from then \
         on";
    "log_bin_compress" = "OFF", Note, Always, |value| value == "OFF",
        "a relay shows rows as they were written, and programs for change data capture may pass \
         over compressed ones without an error, even if this server has no binlog";
    "wsrep_slave_threads" = "4", Warning, Always,
        |value| value.parse().is_ok_and(|threads: u64| threads >= 4),
        "with few appliers this server lags behind the others' writes";
    "wsrep_sst_method" = "mariabackup", Warning, Always,
        |value| matches!(value, "mariabackup" | "rsync"),
        "full copies are made by mariabackup or rsync; another method blocks its donor or is not \
         tested";
};

/// The settings that are not as they should be, and are not so in the configuration files either.
/// Leaves out variables that this server does not know.
pub fn wrong_settings(server: &ServerFacts) -> impl Iterator<Item = &'static Setting> + '_ {
    applying(server).filter(|setting| {
        let is_right = (setting.accepts)(server.variable(setting.name));
        setting
            .in_files(server)
            .map_or(!is_right, |(_, is_right)| !is_right)
    })
}

/// The settings that are wrong in the running server, and right in its files.
pub(super) fn right_in_files(server: &ServerFacts) -> impl Iterator<Item = &'static Setting> + '_ {
    applying(server).filter(|setting| {
        let is_right = (setting.accepts)(server.variable(setting.name));
        !is_right && matches!(setting.in_files(server), Some((_, true)))
    })
}

fn applying(server: &ServerFacts) -> impl Iterator<Item = &'static Setting> + '_ {
    let known = |name| match server.is_silent() {
        true => server.in_files.contains_key(name),
        false => server.variables.contains_key(name),
    };
    let known = SETTINGS.iter().filter(move |setting| known(setting.name));
    known.filter(move |setting| setting.applies.to(server))
}

impl Setting {
    /// The value in the configuration files, and whether it is as it should be.
    fn in_files<'a>(&self, server: &'a ServerFacts) -> Option<(&'a str, bool)> {
        let value = server.in_files.get(self.name)?;
        let is_right = (self.accepts)(value) || is_on(value) && (self.accepts)("ON");
        Some((value, is_right))
    }

    /// Compares the running server and its files with the setting; names which of them is wrong.
    /// Says nothing of a setting that is right in the files: another check names all of those.
    fn judge(&self, server: &ServerFacts) -> Option<Finding> {
        let running = server.variable(self.name);
        let (what, remedy) = match ((self.accepts)(running), self.in_files(server)) {
            (true, None) | (_, Some((_, true))) => return None,
            (true, Some((value, false))) => (
                format!("{} is {running}, and {value} in the files", self.name),
                format!(
                    "{}: the server reads its files at its next start",
                    self.line
                ),
            ),
            (false, None | Some((_, false))) => {
                (format!("{} is {running}", self.name), self.line.to_owned())
            }
        };
        let (severity, why) = (self.severity, self.why);
        Some(Finding::new(Subject::Settings, severity, what, why, remedy))
    }
}

pub(super) fn judge(server: &ServerFacts) -> Vec<Finding> {
    let wrong = applying(server).filter_map(|setting| setting.judge(server));
    let mut findings: Vec<Finding> = wrong.collect();
    findings.extend(address(server));
    findings.extend(listens_to_itself(server));
    findings.extend(binary_log(server));
    if findings.is_empty() {
        findings.push(Finding::good(
            Subject::Settings,
            "the server's settings fit",
        ));
    }
    findings
}

/// Debian's own file has 127.0.0.1. A group on this machine alone, as in a test, may keep to it.
fn listens_to_itself(server: &ServerFacts) -> Option<Finding> {
    let is_loopback = |name: &str| {
        let address = server.variable(name);
        let ip = address.parse::<IpAddr>().ok();
        let ip = ip.or_else(|| Some(address.parse::<SocketAddr>().ok()?.ip()));
        address == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
    };
    if !is_loopback("bind_address") || is_loopback("wsrep_node_address") {
        return None;
    }
    // Another value in the files is said once, with the other settings there.
    let in_files = server.in_files.get("bind_address");
    if in_files.is_some_and(|value| value != server.variable("bind_address")) {
        return None;
    }
    let remedy = "bind_address = *, and a firewall that lets clients reach port 3306";
    let severity = match server.replicates() {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let what = format!("bind_address is {}", server.variable("bind_address"));
    let why = "no client and no proxy on another machine reaches this server";
    Some(Finding::new(Subject::Settings, severity, what, why, remedy))
}

/// Without an address the server tells the others one that it guesses.
fn address(server: &ServerFacts) -> Option<Finding> {
    let is_empty = server.variable("wsrep_node_address").is_empty();
    (server.replicates() && is_empty).then(|| {
        Finding::new(
            Subject::Settings,
            Severity::Warning,
            "wsrep_node_address is empty",
            "the server guesses at which address the others reach it; with several networks the \
             guess may be wrong",
            "wsrep_node_address = ADDRESS",
        )
    })
}

/// Never part of a configuration file that is written: a replica may read that log.
fn binary_log(server: &ServerFacts) -> Option<Finding> {
    let is_needless = server.is_in_group() && server.variable("log_bin") == "ON";
    is_needless.then(|| {
        Finding::new(
            Subject::Settings,
            Severity::Note,
            "log_bin is ON",
            "the group needs no binary log: it costs a sync and space",
            "skip_log_bin, unless a replica or another program reads it; a relay (relay.md) can \
             serve these instead",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(variables: &[(&str, &str)]) -> ServerFacts {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        ServerFacts {
            variables: variables.collect(),
            ..ServerFacts::default()
        }
    }

    #[test]
    fn wrong_values_are_named_with_the_line_that_is_right() {
        let found = judge(&server(&[("binlog_format", "MIXED"), ("log_bin", "OFF")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "binlog_format is MIXED");
        assert_eq!(found[0].remedy, "binlog_format = ROW");
        assert_eq!(found[0].severity, Severity::Problem);
    }

    #[test]
    fn rows_that_readers_of_a_relay_may_lose_are_noted() {
        assert_eq!(
            judge(&server(&[("log_bin_compress", "OFF")]))[0].severity,
            Severity::Good
        );
        let found = judge(&server(&[("log_bin_compress", "ON")])).remove(0);
        assert_eq!(
            (found.severity, found.remedy.as_str()),
            (Severity::Note, "log_bin_compress = OFF")
        );
        assert!(found.why.contains("change data capture"), "{found:?}");
    }

    #[test]
    fn files_and_running_server_are_told_apart() {
        let judged = |running: &str, in_file: &str| {
            let mut server = server(&[("binlog_format", running)]);
            let file = ("binlog_format".to_owned(), in_file.to_owned());
            server.in_files.extend([file]);
            let written = crate::fix::configuration(&server).is_some();
            let finding = judge(&server).remove(0);
            (finding.what, finding.remedy, written)
        };
        let (what, _, written) = judged("MIXED", "ROW");
        assert_eq!(what, "the server's settings fit", "said with others");
        assert!(!written);
        let (what, remedy, written) = judged("ROW", "MIXED");
        assert_eq!(what, "binlog_format is ROW, and MIXED in the files");
        assert!(remedy.starts_with("binlog_format = ROW:") && written);
        assert_eq!(judged("MIXED", "MIXED").1, "binlog_format = ROW");
        assert_eq!(judged("ROW", "ROW").0, "the server's settings fit");
    }

    #[test]
    fn server_that_only_its_own_machine_reaches_is_told_so() {
        let found = |address: &str, variables: &[(&str, &str)]| {
            let bind = [
                ("bind_address", "127.0.0.1"),
                ("wsrep_node_address", address),
            ];
            judge(&server(&[&bind, variables].concat())).remove(0)
        };
        assert_eq!(found("127.0.0.1", &[]).severity, Severity::Good);
        assert_eq!(found("127.0.0.1:4567", &[]).severity, Severity::Good);
        assert_eq!(found("", &[]).severity, Severity::Note);
        let group = [
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
        ];
        let member = found("192.0.2.1", &group);
        assert_eq!(member.severity, Severity::Warning);
        assert!(member.remedy.starts_with("bind_address = *"), "{member:?}");
    }

    #[test]
    fn right_values_and_unknown_variables_are_left_alone() {
        let found = judge(&server(&[
            ("binlog_format", "ROW"),
            ("wsrep_slave_threads", "16"),
        ]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Good);
    }

    #[test]
    fn member_of_a_group_should_say_its_address() {
        let group = [
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
        ];
        let found = judge(&server(&group));
        assert_eq!(found[0].what, "wsrep_node_address is empty");
    }

    #[test]
    fn durability_is_given_up_only_where_the_groups_log_has_it() {
        let alone = [("innodb_flush_log_at_trx_commit", "1"), ("wsrep_on", "OFF")];
        assert_eq!(judge(&server(&alone))[0].severity, Severity::Good);
        let group = [
            ("innodb_flush_log_at_trx_commit", "1"),
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
            ("wsrep_node_address", "db1"),
        ];
        assert_eq!(
            judge(&server(&group))[0].remedy,
            "innodb_flush_log_at_trx_commit = 0"
        );
    }

    #[test]
    fn durability_is_demanded_beside_a_binlog() {
        let with_binlog = [
            ("innodb_flush_log_at_trx_commit", "0"),
            ("sync_binlog", "0"),
            ("log_bin", "ON"),
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
            ("wsrep_node_address", "db1"),
        ];
        let member = server(&with_binlog);
        let found = judge(&member);
        let by_line = |line: &str| found.iter().find(|finding| finding.remedy == line).unwrap();
        let flush = by_line("innodb_flush_log_at_trx_commit = 1");
        assert_eq!(flush.severity, Severity::Problem);
        assert_eq!(by_line("sync_binlog = 1").severity, Severity::Warning);
        assert!(
            crate::fix::configuration(&member)
                .unwrap()
                .contains("commit = 1\n")
        );
        let alone = server(&with_binlog[..3]);
        assert_eq!(judge(&alone)[0].severity, Severity::Good, "no group");
    }

    /// An asynchronous primary would lose its replicas.
    #[test]
    fn binary_log_is_never_switched_off_by_a_file() {
        let group = [
            ("log_bin", "ON"),
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
            ("wsrep_node_address", "db1"),
        ];
        let member = server(&group);
        assert_eq!(judge(&member)[0].what, "log_bin is ON");
        assert_eq!(crate::fix::configuration(&member), None);
        let alone = judge(&server(&group[..1]));
        assert_eq!(alone[0].severity, Severity::Good);
    }

    /// A wrong line in a configuration file would keep the server from starting.
    #[test]
    fn lines_set_what_they_are_about() {
        for setting in SETTINGS {
            let name = setting.line.split(" = ").next().unwrap();
            assert_eq!(name, setting.name);
            let (_, value) = setting.line.split_once(" = ").unwrap();
            assert!((setting.accepts)(value), "{}", setting.line);
        }
    }
}

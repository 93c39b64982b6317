//! A server of MySQL, which Synod's plugin (experimental) makes a member of a group.

use super::{clock, disk, elsewhere, tables};
use crate::facts::{Facts, ServerFacts, is_on};
use crate::finding::{Finding, Severity, Subject};

const PLUGIN: &str = "synod";
const FLUSH: &str = "innodb_flush_log_at_trx_commit";
const PAGE: &str = "docs/operating/mysql.md";

/// The series that the plugin was tried with.
const TRIED: &str = "9.7.";

pub(crate) struct Setting {
    name: &'static str,
    value: &'static str,
    why: &'static str,
}

/// Settings without which the plugin takes no part: the same as in its `wrong_setting`.
const SETTINGS: [Setting; 11] = [
    Setting {
        name: "log_bin",
        value: "ON",
        why: "the group's transactions are those of the binlog",
    },
    Setting {
        name: "gtid_mode",
        value: "ON",
        why: "GTIDs are the numbers of the group's order",
    },
    Setting {
        name: "enforce_gtid_consistency",
        value: "ON",
        why: "GTIDs need it",
    },
    Setting {
        name: "binlog_format",
        value: "ROW",
        why: "statements may end otherwise on other servers",
    },
    Setting {
        name: "binlog_row_image",
        value: "FULL",
        why: "other servers find rows by all their values",
    },
    Setting {
        name: FLUSH,
        value: "1",
        why: "after a crash the binlog would claim transactions that InnoDB has lost",
    },
    Setting {
        name: "innodb_flush_log_at_timeout",
        value: "1",
        why: "the group's log is kept for what a replica has not flushed",
    },
    Setting {
        name: "log_replica_updates",
        value: "OFF",
        why: "the position of the applier would be the binlog's, too, which may claim more than \
              InnoDB has after a crash",
    },
    Setting {
        name: "binlog_order_commits",
        value: "ON",
        why: "a crash would lose earlier commits, and keep later ones",
    },
    Setting {
        name: "replica_preserve_commit_order",
        value: "ON",
        why: "commits would be seen in another order",
    },
    Setting {
        name: "binlog_error_action",
        value: "ABORT_SERVER",
        why: "a transaction that the group has would be missing here only",
    },
];

impl Setting {
    fn is_right(&self, value: &str) -> bool {
        match self.value {
            "ON" => is_on(value),
            "OFF" => !is_on(value),
            wanted => value == wanted,
        }
    }

    pub(crate) fn line(&self) -> String {
        match self.name {
            "log_bin" => "log_bin = binlog".to_owned(),
            name => format!("{name} = {}", self.value),
        }
    }
}

/// Settings that the server shows, and that must be otherwise. The plugin itself lets a replica
/// commit without a flush.
pub(crate) fn wrong_settings(server: &ServerFacts) -> impl Iterator<Item = &'static Setting> {
    let state = server.status.get("synod_state").map(String::as_str);
    let is_the_plugins = move |setting: &Setting| {
        setting.name == FLUSH && matches!(state, Some("replica" | "joining" | "failed"))
    };
    let known = |setting: &&Setting| !server.variable(setting.name).is_empty();
    let wrong = move |setting: &&Setting| {
        !setting.is_right(server.variable(setting.name)) && !is_the_plugins(setting)
    };
    SETTINGS.iter().filter(known).filter(wrong)
}

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let server = &facts.server;
    let mut findings = vec![version(server)];
    findings.extend(plugins(server));
    findings.extend(settings(server));
    findings.extend(read_only(server));
    findings.extend(tables::judge(server));
    findings.extend(prepared(server));
    match &facts.local {
        Some(local) => {
            findings.push(disk::judge_speed(&local.disk));
            findings.extend(disk::judge_space(&local.disk, &facts.options));
            findings.push(clock::judge(local.is_clock_synchronised));
        }
        None => findings.push(elsewhere(server.variable("hostname"))),
    }
    findings
}

fn version(server: &ServerFacts) -> Finding {
    let what = format!("the server is MySQL {}", server.version);
    match server.version.starts_with(TRIED) {
        true => Finding::new(
            Subject::Version,
            Severity::Note,
            what,
            "groups of MySQL are experimental: not for data that matter",
            PAGE,
        ),
        false => Finding::new(
            Subject::Version,
            Severity::Problem,
            what,
            "the plugin was tried with MySQL 9.7 only, and a server loads only one that is built \
             with the headers of its own version",
            "a server of MySQL 9.7, or MariaDB",
        ),
    }
}

fn plugins(server: &ServerFacts) -> Vec<Finding> {
    let is_active = |name: &str| server.plugins.iter().any(|plugin| plugin == name);
    let mut findings = Vec::new();
    match is_active(PLUGIN) {
        true => findings.push(state(server)),
        false => findings.push(Finding::new(
            Subject::Group,
            Severity::Problem,
            "the plugin synod is not active",
            "without it the server is in no group",
            format!("plugin_load_add = synod_mysql.so in [mysqld], and a restart. {PAGE}"),
        )),
    }
    // The plugin's own one of this name needs no other.
    if is_active("group_replication") && !is_active(PLUGIN) {
        findings.push(Finding::new(
            Subject::Group,
            Severity::Problem,
            "the plugin group_replication is active, and synod is not",
            "it is MySQL's own: its applier and Synod's would be the same channel of the server",
            "STOP GROUP_REPLICATION; leave group_replication.so out of plugin_load_add; UNINSTALL \
             PLUGIN group_replication if mysql.plugin lists it",
        ));
    }
    if !is_active("clone") {
        findings.push(Finding::new(
            Subject::Programs,
            Severity::Warning,
            "the plugin clone is not active",
            "a server whose data are lost gets a copy by it, and both servers need it",
            "plugin_load_add = mysql_clone.so in [mysqld], and a restart",
        ));
    }
    findings
}

fn state(server: &ServerFacts) -> Finding {
    let of = |name: &str| server.status.get(name).map_or("", String::as_str);
    let (state, problem) = (of("synod_state"), of("synod_problem"));
    match state {
        "writer" | "replica" => Finding::good(
            Subject::Group,
            format!("this server is a {state} of its group"),
        ),
        "joining" => Finding::new(
            Subject::Group,
            Severity::Warning,
            "this server looks for its group, or waits for a majority of it",
            "until then it takes no writes",
            "see which servers run, whether synod_members names them, and the error log",
        ),
        state => Finding::new(
            Subject::Group,
            Severity::Problem,
            format!("this server takes no part in its group ({state}): {problem}"),
            "it takes no writes, and its data are old",
            PAGE,
        ),
    }
}

fn settings(server: &ServerFacts) -> Vec<Finding> {
    let wrong = wrong_settings(server).map(|setting| {
        let (name, value) = (setting.name, server.variable(setting.name));
        Finding::new(
            Subject::Settings,
            Severity::Problem,
            format!("{name} is {value}, and must be {}", setting.value),
            setting.why,
            format!("{} in [mysqld], and a restart", setting.line()),
        )
    });
    let mut findings: Vec<Finding> = wrong.collect();
    if findings.is_empty() {
        let text = format!("{} settings are as the plugin asks for", SETTINGS.len());
        findings.push(Finding::good(Subject::Settings, text));
    }
    if server
        .number("sync_binlog")
        .is_some_and(|period| period > 0)
    {
        findings.push(Finding::new(
            Subject::Settings,
            Severity::Note,
            "sync_binlog is not 0",
            "each commit waits for one more sync. After a crash the group's log has what a binlog \
             lost",
            "SET PERSIST sync_binlog = 0",
        ));
    }
    findings
}

/// Whether clients can change a server that does not write.
fn read_only(server: &ServerFacts) -> Option<Finding> {
    let state = server.status.get("synod_state")?;
    let is_open = state != "writer" && !is_on(server.variable("super_read_only"));
    is_open.then(|| {
        Finding::new(
            Subject::Settings,
            Severity::Problem,
            format!("super_read_only is OFF, and this server is {state}, not the writer"),
            "a change with sql_log_bin=OFF would be on this server only, and stop its applier later",
            "SET GLOBAL super_read_only = ON, and super_read_only = ON in [mysqld]",
        )
    })
}

fn prepared(server: &ServerFacts) -> Option<Finding> {
    let count = server.counter("com_xa_prepare");
    (count > 0).then(|| {
        Finding::new(
            Subject::Features,
            Severity::Problem,
            format!("XA PREPARE was asked for {count} times since the start"),
            "a group refuses it (error 3101): a prepared transaction is in no order yet",
            "have the application use transactions of one server",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(server: &mut ServerFacts, name: &str, value: &str) {
        server.variables.insert(name.to_owned(), value.to_owned());
    }

    fn good() -> ServerFacts {
        let mut server = ServerFacts {
            version: "9.7.4-1".to_owned(),
            plugins: ["synod", "clone"].map(str::to_owned).into(),
            ..ServerFacts::default()
        };
        for setting in &SETTINGS {
            set(&mut server, setting.name, setting.value);
        }
        set(&mut server, "super_read_only", "ON");
        set(&mut server, "sync_binlog", "0");
        server.status.insert("synod_state".into(), "writer".into());
        server
    }

    fn found(server: &ServerFacts) -> Vec<Finding> {
        let all = [plugins(server), settings(server)].concat();
        let more = [read_only(server), prepared(server)];
        let all = all.into_iter().chain(more.into_iter().flatten());
        all.filter(|finding| finding.severity > Severity::Note)
            .collect()
    }

    #[test]
    fn plugin_and_doctor_ask_for_the_same_settings() {
        let plugin = include_str!("../../../../server/mysql-shim/member.cc");
        let (_, list) = plugin.split_once("wanted[] = {").unwrap();
        let (list, _) = list.split_once("};").unwrap();
        let pairs: Vec<(&str, &str)> = list
            .split("{\"")
            .skip(1)
            .map(|entry| {
                let mut texts = entry.split('"');
                (texts.next().unwrap(), texts.nth(1).unwrap())
            })
            .collect();
        let own: Vec<(&str, &str)> = SETTINGS.iter().map(|s| (s.name, s.value)).collect();
        assert_eq!(own, pairs);
    }

    #[test]
    fn each_wrong_setting_is_a_problem_with_its_line() {
        assert_eq!(found(&good()), []);
        for setting in &SETTINGS {
            let mut server = good();
            let wrong = if setting.value == "ON" { "OFF" } else { "ON" };
            set(&mut server, setting.name, wrong);
            let [finding] = &found(&server)[..] else {
                panic!("{}", setting.name);
            };
            assert_eq!(finding.severity, Severity::Problem);
            assert!(finding.remedy.starts_with(&setting.line()), "{finding:?}");
        }
    }

    #[test]
    fn plugins_states_and_xa_are_judged() {
        let says = |change: fn(&mut ServerFacts)| {
            let mut server = good();
            change(&mut server);
            let found = found(&server);
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].what.clone()
        };
        let mut theirs = good();
        theirs.plugins = ["group_replication", "clone"].map(str::to_owned).into();
        assert_eq!(
            found(&theirs).len(),
            2,
            "synod is missing, and another one is there"
        );
        let mut ours = good();
        ours.plugins.push("group_replication".into());
        assert_eq!(found(&ours), []);
        assert!(says(|s| s.plugins.truncate(1)).contains("clone is not active"));
        let open = says(|s| {
            s.status.insert("synod_state".into(), "replica".into());
            set(s, "super_read_only", "OFF");
        });
        assert!(open.starts_with("super_read_only is OFF"));
        let mut replica = good();
        replica
            .status
            .insert("synod_state".into(), "replica".into());
        set(&mut replica, FLUSH, "0");
        assert_eq!(found(&replica), [], "set by the plugin");
        let xa = says(|s| {
            s.status.insert("com_xa_prepare".into(), "2".into());
        });
        assert!(xa.contains("2 times"));
        let failed = says(|s| {
            s.status.insert("synod_state".into(), "failed".into());
            s.status.insert("synod_problem".into(), "the disk".into());
        });
        assert!(failed.ends_with("(failed): the disk"), "{failed}");
    }
}

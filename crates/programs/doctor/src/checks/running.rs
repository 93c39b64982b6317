//! The running server and its files: whether it runs with what they say, or at all.

use synod_admin::span;
use synod_admin::status::Status;

use super::settings;
use crate::facts::{ChangedFile, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

/// Settings that make a server a member, and one that others reach. Not `wsrep_cluster_address`: it
/// is another one in a server that has begun its group.
const OF_A_MEMBER: [&str; 6] = [
    "bind_address",
    "wsrep_on",
    "wsrep_provider",
    "wsrep_cluster_name",
    "wsrep_node_name",
    "wsrep_node_address",
];

/// A running server whose files say something else: one finding, for they have one remedy.
pub(super) fn stale(server: &ServerFacts, changed: Option<&ChangedFile>) -> Option<Finding> {
    let differ = OF_A_MEMBER.iter().filter(|name| differs(server, name));
    let differ: Vec<&str> = differ.copied().collect();
    let right: Vec<_> = settings::right_in_files(server).collect();
    let names = right.iter().map(|setting| setting.name);
    let names: Vec<&str> = differ.iter().copied().chain(names).collect();
    if server.is_silent() || names.is_empty() {
        return None;
    }
    let severities = right.iter().map(|setting| setting.severity);
    let worst = severities.max().unwrap_or(Severity::Warning);
    let severity = if differ.is_empty() {
        worst
    } else {
        Severity::Problem
    };
    Some(Finding::new(
        Subject::Settings,
        severity,
        format!("{}: it runs with its old settings", times(server, changed)),
        format!(
            "a server reads its files at its start only. {}",
            values(server, &names)
        ),
        "systemctl restart mariadb ('start' does nothing to a server that runs). The first server \
         of a new group, and only that one: galera_new_cluster",
    ))
}

fn differs(server: &ServerFacts, name: &str) -> bool {
    let plain = |value: &str| match value.to_ascii_lowercase().as_str() {
        "on" | "true" => "1".to_owned(),
        "off" | "false" | "none" | "" => "0".to_owned(),
        _ => value.to_owned(),
    };
    let in_files = server.in_files.get(name);
    let known = server.variables.contains_key(name);
    known && in_files.is_some_and(|value| plain(value) != plain(server.variable(name)))
}

fn times(server: &ServerFacts, changed: Option<&ChangedFile>) -> String {
    let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let Some(uptime) = server.uptime() else {
        return "the server has not been restarted since its files were changed".to_owned();
    };
    let runs = format!("the server has run for {}", span::text(ms(uptime)));
    match changed.filter(|file| file.age < uptime) {
        Some(file) => format!(
            "{runs}, and {} was changed {} ago",
            file.path.display(),
            span::text(ms(file.age))
        ),
        None => format!("{runs}, and its files say something else"),
    }
}

fn values(server: &ServerFacts, names: &[&str]) -> String {
    let shown = |value: &str| if value.is_empty() { "''" } else { value }.to_owned();
    let each = names.iter().map(|name| {
        let in_files = server.in_files.get(*name).map_or("", String::as_str);
        format!(
            "{name}: {}, in the files {}",
            shown(server.variable(name)),
            shown(in_files)
        )
    });
    each.collect::<Vec<String>>().join("; ")
}

/// Facts about a server that does not answer. `own`: its library's, if it tells; `busy`: ports of a
/// member at which something listens. One that looks for its first group listens and tells nothing.
pub(super) fn silent(
    silence: &str,
    server: &ServerFacts,
    own: Option<&Status>,
    busy: &[u16],
) -> Vec<Finding> {
    let finding = |severity, what: &str, why: &str, remedy: &str| {
        Finding::new(Subject::Data, severity, what, why, remedy)
    };
    let state = match own {
        Some(own) => {
            let trouble = own.server.trouble.as_deref();
            finding(
                Severity::Problem,
                "the server runs, and waits: it does not answer clients yet",
                trouble.unwrap_or("a server answers once it is in its group and has its data"),
                "see the other findings; 'synod why' says what it has met, 'journalctl -u \
                 mariadb' all that it says. 'systemctl stop mariadb' ends the wait",
            )
        }
        None if !busy.is_empty() => finding(
            Severity::Problem,
            &format!(
                "the server does not answer clients, and something listens at port {}",
                busy.iter()
                    .map(u16::to_string)
                    .collect::<Vec<_>>()
                    .join(" and ")
            ),
            "most likely the server runs, and waits for its group or for its data",
            "see the other findings, and 'journalctl -u mariadb'. ss -tlnp names the program at \
             that port: if it is not mariadbd, the server cannot start, so stop that program",
        ),
        None => finding(
            Severity::Problem,
            "the server does not answer: it does not run, or has not come to its group yet",
            silence,
            "see the other findings; then 'systemctl start mariadb', and 'journalctl -u mariadb' \
             says why it ends",
        ),
    };
    let what = "version, accounts, tables and features were not looked at; settings and options \
                are those of the files";
    let later = "run synod doctor again when the server answers";
    let mut findings = vec![
        state,
        finding(Severity::Note, what, "only the server tells", later),
    ];
    if !server.in_files.contains_key("wsrep_on") {
        findings.push(finding(
            Severity::Problem,
            "no file of this machine's server sets wsrep_on",
            "it starts alone, in no group",
            "cp /usr/share/synod-provider/synod.cnf /etc/mysql/mariadb.conf.d/60-synod.cnf, and \
             change the names and addresses in it",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn server(running: &[(&str, &str)], in_files: &[(&str, &str)]) -> ServerFacts {
        let pairs = |all: &[(&str, &str)]| {
            let each = all.iter();
            each.map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        ServerFacts {
            variables: pairs(running),
            in_files: pairs(in_files),
            status: pairs(&[("uptime", "7200")]),
            ..ServerFacts::default()
        }
    }

    #[test]
    fn server_that_was_not_restarted_is_told_so_in_one_finding() {
        let stale_one = server(
            &[
                ("wsrep_on", "OFF"),
                ("wsrep_node_name", "db2"),
                ("binlog_format", "MIXED"),
            ],
            &[
                ("wsrep_on", "1"),
                ("wsrep_node_name", "db2"),
                ("binlog_format", "ROW"),
            ],
        );
        let file = ChangedFile {
            path: "/etc/mysql/mariadb.conf.d/60-synod.cnf".into(),
            age: Duration::from_secs(600),
        };
        let found = stale(&stale_one, Some(&file)).unwrap();
        assert_eq!(found.severity, Severity::Problem);
        assert_eq!(
            found.what,
            "the server has run for 2.0 h, and /etc/mysql/mariadb.conf.d/60-synod.cnf was changed \
             10 min ago: it runs with its old settings"
        );
        assert!(
            found
                .why
                .contains("wsrep_on: OFF, in the files 1; binlog_format"),
            "{found:?}"
        );
        let judged = settings::judge(&stale_one);
        assert_eq!(judged[0].severity, Severity::Good, "folded: {judged:?}");
    }

    #[test]
    fn setting_that_was_changed_while_the_server_runs_is_as_bad_as_itself() {
        let running = server(
            &[("innodb_lock_wait_timeout", "50")],
            &[("innodb_lock_wait_timeout", "10")],
        );
        let found = stale(&running, None).unwrap();
        assert_eq!(found.severity, Severity::Note);
        assert!(
            found.what.contains("its files say something else"),
            "{found:?}"
        );
        let same = server(
            &[("wsrep_on", "ON"), ("wsrep_provider", "none")],
            &[("wsrep_on", "on"), ("wsrep_provider", "")],
        );
        assert_eq!(stale(&same, None), None);
    }

    #[test]
    fn waiting_server_is_told_from_one_that_does_not_run() {
        let files = server(&[], &[("wsrep_on", "ON")]);
        let waits = silent("ERROR 2002", &files, Some(&Status::default()), &[]);
        assert!(waits[0].what.contains("waits"), "{waits:?}");
        let looks_for_a_group = silent("ERROR 2002", &files, None, &[4567]);
        let what = &looks_for_a_group[0].what;
        assert!(what.ends_with("something listens at port 4567"), "{what}");
        let down = silent("ERROR 2002", &files, None, &[]);
        assert!(down[0].what.contains("does not run"), "{down:?}");
        assert_eq!(down[1].severity, Severity::Note, "names what was not seen");
        assert_eq!(
            silent("", &server(&[], &[]), None, &[]).len(),
            3,
            "no configuration"
        );
    }
}

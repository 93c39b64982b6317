//! A logger or a relay: whether it runs, and whether its file is one of this machine.

use synod_admin::status::Status;
use synod_options::whereabouts;

use super::{clock, credentials, disk, group, network};
use crate::facts::{MemberFacts, ServerFacts, WithoutDatabase};
use crate::finding::{Finding, Severity, Subject};

/// Judges all facts of a logger or relay; the worst findings come first.
pub fn judge_member(facts: &MemberFacts) -> Vec<Finding> {
    let member = &facts.member;
    // It has no settings of a server.
    let server = ServerFacts::default();
    let own = facts.own.as_deref();
    let mut findings = vec![running(member, own.map_err(String::as_str))];
    findings.extend(group::judge(&server, own.ok(), &facts.peers));
    findings.extend(network::judge(&server, &facts.peers));
    // A member that others have reached is where they look for it.
    if !own.is_ok_and(Status::is_in_service) {
        findings.extend(foreign_address(member, facts.has_own_address));
    }
    findings.push(disk::judge_speed(&facts.disk));
    findings.extend(disk::judge_space(&facts.disk, &facts.options));
    if facts.log_dir.is_dir() {
        findings.push(credentials::judge(&facts.options, &facts.log_dir, false));
    }
    findings.push(clock::judge(facts.is_clock_synchronised));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A file that the member refuses: there is nothing else to look at.
pub fn judge_wrong_file(kind: &str, error: &str) -> Finding {
    Finding::new(
        Subject::Options,
        Severity::Problem,
        error,
        format!("the {kind} does not start"),
        format!("correct the file, and: systemctl restart synod-{kind}"),
    )
}

fn running(member: &WithoutDatabase, own: Result<&Status, &str>) -> Finding {
    let (kind, name) = (member.kind, &member.name);
    let error = match own {
        Ok(status) => {
            let outlook = status.group.as_ref().map(|group| group.outlook.as_str());
            let outlook = outlook.unwrap_or("it is in no group yet");
            let what = format!("{kind} '{name}' runs; {outlook}");
            return Finding::good(Subject::Data, what);
        }
        Err(error) => error,
    };
    Finding::new(
        Subject::Data,
        Severity::Problem,
        format!("{kind} '{name}' does not run, or does not answer: {error}"),
        "it counts as absent in its group; its vote, if it has one, is missing",
        format!("systemctl enable --now synod-{kind}; journalctl -u synod-{kind} says why it ends"),
    )
}

fn foreign_address(member: &WithoutDatabase, is_here: Option<bool>) -> Option<Finding> {
    let fault = whereabouts::fault_of_own(is_here)?;
    Some(Finding::new(
        Subject::Network,
        Severity::Problem,
        format!("address is {}, {fault}", member.address),
        "the other members connect to this one there. It may be right only where a router \
         translates addresses",
        format!(
            "in {}, address is one of these: hostname --all-ip-addresses",
            member.file.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use synod_admin::status::Group;
    use synod_options::{Address, Defaults, Options};

    fn logger(log_dir: &std::path::Path, more: &str) -> WithoutDatabase {
        let text = format!("synod.log_dir={};{more}", log_dir.display());
        WithoutDatabase {
            kind: "logger",
            file: PathBuf::from("/etc/synod/logger.toml"),
            name: "witness".to_owned(),
            cluster_name: "payments".to_owned(),
            address: Address::parse("127.0.0.1:1").unwrap(),
            peers: Vec::new(),
            options: Options::new(Defaults::default(), &text).unwrap().0,
        }
    }

    fn found(member: WithoutDatabase) -> Vec<(Severity, String)> {
        let findings = judge_member(&MemberFacts::gather(member));
        findings
            .into_iter()
            .map(|one| (one.severity, one.what))
            .collect()
    }

    #[track_caller]
    fn assert_found(all: &[(Severity, String)], severity: Severity, part: &str) {
        let is_found = |(at, what): &(Severity, String)| *at == severity && what.contains(part);
        assert!(all.iter().any(is_found), "{part}: {all:?}");
    }

    #[test]
    fn logger_that_does_not_run_is_a_problem_and_its_disk_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let all = found(logger(&dir.path().join("not-made-yet"), ""));
        assert!(
            all.iter().any(|(_, what)| what.contains("a sync takes")),
            "{all:?}"
        );
        let all = found(logger(dir.path(), ""));
        assert_found(&all, Severity::Problem, "logger 'witness' does not run");
        assert_found(&all, Severity::Problem, "names no group secret");
        assert!(
            all.iter().any(|(_, what)| what.contains("a sync takes")),
            "{all:?}"
        );
    }

    #[test]
    fn address_and_peers_of_another_machine_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut copied = logger(dir.path(), "");
        // Reserved for documentation: no machine has it.
        copied.address = Address::parse("198.51.100.1:4567").unwrap();
        copied.peers = vec![Address::parse("no-such-host.invalid").unwrap()];
        let all = found(copied);
        assert_found(
            &all,
            Severity::Problem,
            "which is no address of this machine",
        );
        assert_found(
            &all,
            Severity::Warning,
            "no-such-host.invalid:4567 is not reached",
        );
    }

    #[test]
    fn logger_that_runs_is_told_with_what_its_group_survives() {
        let group = Group {
            outlook: "3 voters: 1 may fail at a time".to_owned(),
            ..Group::default()
        };
        let status = Status {
            group: Some(group),
            ..Status::default()
        };
        let member = logger(std::path::Path::new("/log"), "");
        let finding = running(&member, Ok(&status));
        assert_eq!(finding.severity, Severity::Good);
        assert!(
            finding.what.ends_with("1 may fail at a time"),
            "{finding:?}"
        );
    }

    #[test]
    fn file_that_is_refused_is_a_problem() {
        let finding = judge_wrong_file("relay", "/etc/synod/relay.toml: 'peers' is missing");
        assert_eq!(finding.severity, Severity::Problem);
        assert!(finding.remedy.contains("synod-relay"), "{finding:?}");
    }
}

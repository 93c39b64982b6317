//! Judges the facts. Each file has one subject, and asks nothing.

mod boot;
mod clock;
mod credentials;
mod disk;
mod features;
mod group;
mod identity;
mod leftovers;
mod limits;
mod memory;
mod mysql;
mod network;
mod options;
mod programs;
mod replication;
mod running;
mod settings;
mod sst_account;
mod table_remedy;
mod tables;
mod trouble;
mod version;
mod without_database;

pub(crate) use mysql::wrong_settings as wrong_mysql_settings;
pub use settings::{Setting, wrong_settings};
pub use without_database::{judge_member, judge_wrong_file};

use crate::facts::{Facts, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

/// Judges all facts; the worst findings come first.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = match facts.server.is_mysql() {
        true => mysql::judge(facts),
        false => of_mariadb(facts),
    };
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn of_mariadb(facts: &Facts) -> Vec<Finding> {
    let server = &facts.server;
    let own = facts.own.as_deref();
    let changed = facts
        .local
        .as_ref()
        .and_then(|local| local.changed_file.as_ref());
    let mut findings: Vec<Finding> = running::stale(server, changed).into_iter().collect();
    match &server.silence {
        Some(silence) => {
            let local = facts.local.as_ref();
            let busy = local.map_or(&[][..], |local| &local.busy_ports);
            findings.extend(running::silent(silence, server, own, busy));
        }
        None => findings.extend(of_running_server(server)),
    }
    findings.extend(group::judge(server, own, &facts.peers));
    findings.extend(settings::judge(server));
    findings.extend(options::judge(&facts.options));
    findings.extend(network::judge(server, &facts.peers));
    findings.extend(network::to_be_open(server, &facts.peers));
    match &facts.local {
        Some(local) => {
            findings.extend(identity::judge(server, local, &facts.peers));
            let is_member = server.replicates() || server.is_silent();
            findings.extend(network::busy_ports(is_member, &local.busy_ports));
            findings.push(disk::judge_speed(&local.disk));
            findings.extend(disk::judge_space(&local.disk, &facts.options));
            let loads_galera = server.variable("wsrep_provider").contains("galera");
            let (options, data_dir) = (&facts.options, &local.data_dir);
            findings.push(credentials::judge(options, data_dir, loads_galera));
            findings.extend(leftovers::judge(server, &local.data_dir, &local.leftovers));
            findings.push(clock::judge(local.is_clock_synchronised));
            findings.extend(limits::judge(server, &local.machine));
            findings.extend(boot::judge(&local.machine));
            findings.extend(memory::judge(server, &local.machine));
            findings.extend(programs::judge_library(local.missing_library.as_deref()));
            findings.push(programs::judge(
                server.variable("wsrep_sst_method"),
                local.programs,
            ));
        }
        None => findings.push(elsewhere(server.variable("hostname"))),
    }
    findings
}

fn of_running_server(server: &ServerFacts) -> Vec<Finding> {
    let mut findings = vec![version::judge(server)];
    findings.extend(trouble::judge(server));
    findings.extend(replication::judge(server));
    findings.extend(sst_account::judge(server));
    findings.extend(tables::judge(server));
    findings.extend(features::judge(server));
    findings
}

fn elsewhere(hostname: &str) -> Finding {
    Finding::new(
        Subject::Disk,
        Severity::Note,
        format!("the server runs on another machine, {hostname}"),
        "disk, clock, memory, limits, credentials and old files were not looked at",
        format!("run synod doctor on {hostname}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_on_another_machine_is_said_to_be_one() {
        let finding = elsewhere("db1");
        assert_eq!(finding.severity, Severity::Note);
        assert_eq!(finding.remedy, "run synod doctor on db1");
    }
}

//! Limits of the operating system and of systemd.

use std::time::Duration;

use crate::bytes_text;
use crate::facts::{MachineFacts, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

/// Rate at which a full copy surely comes, and a server writes what it has in memory, in bytes a
/// second.
const COPY_RATE: u64 = 50 << 20;
/// Time that a stop takes besides: leadership, votes and connections are given up.
const LEAVE_TIME: Duration = Duration::from_secs(30);

/// Files of the group's library and of the server itself, beside tables and connections.
const OTHER_FILES: u64 = 1000;

pub(super) fn judge(server: &ServerFacts, machine: &MachineFacts) -> Vec<Finding> {
    let found = [
        open_files(server, machine),
        start_limit(server, machine),
        stop_limit(server, machine),
    ];
    let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
    if findings.is_empty() {
        findings.push(Finding::good(Subject::Limits, "limits fit"));
    }
    findings
}

fn open_files(server: &ServerFacts, machine: &MachineFacts) -> Option<Finding> {
    let limit = machine.open_files?;
    let connections = server.number("max_connections").unwrap_or(0);
    let tables = server.number("table_open_cache").unwrap_or(0);
    let wanted = connections + 2 * tables + OTHER_FILES;
    (limit < wanted).then(|| {
        Finding::new(
            Subject::Limits,
            Severity::Warning,
            format!("the server may open {limit} files"),
            format!(
                "its settings may need {wanted}. Without a free one, it and the group's log fail \
                 to open what they need"
            ),
            format!(
                "systemctl edit mariadb: [Service] LimitNOFILE={}",
                wanted.next_power_of_two()
            ),
        )
    })
}

/// systemd stops a server that has not started in time; a joiner has when its copy is complete.
fn start_limit(server: &ServerFacts, machine: &MachineFacts) -> Option<Finding> {
    let limit = machine.start_limit?;
    let bytes = server.tables.iter().map(|table| table.bytes).sum::<u64>();
    let copy = Duration::from_secs(bytes / COPY_RATE);
    (copy > limit).then(|| {
        Finding::new(
            Subject::Limits,
            Severity::Warning,
            format!(
                "systemd gives the server {} min to start",
                limit.as_secs() / 60
            ),
            format!(
                "a full copy of {} may take {} min, and is broken off when the time is over",
                bytes_text(bytes),
                copy.as_secs() / 60
            ),
            "systemctl edit mariadb: [Service] TimeoutStartSec=infinity",
        )
    })
}

/// systemd kills a server that has not stopped in time. Nothing is lost then, but the next start
/// has to repair the database.
fn stop_limit(server: &ServerFacts, machine: &MachineFacts) -> Option<Finding> {
    let limit = machine.stop_limit?;
    let pool = server.number("innodb_buffer_pool_size").unwrap_or(0);
    let stop = Duration::from_secs(pool / COPY_RATE) + LEAVE_TIME;
    (stop > limit).then(|| {
        Finding::new(
            Subject::Limits,
            Severity::Warning,
            format!("systemd gives the server {} s to stop", limit.as_secs()),
            format!(
                "a buffer pool of {} may take {} s to write. A server that is killed before loses \
                 nothing, but its next start is a recovery",
                bytes_text(pool),
                stop.as_secs()
            ),
            format!(
                "systemctl edit mariadb: [Service] TimeoutStopSec={}",
                (2 * stop).as_secs().next_multiple_of(60)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::TableFacts;

    #[test]
    fn limits_are_held_against_what_the_server_may_need() {
        let table = TableFacts {
            bytes: 100 << 30,
            ..TableFacts::default()
        };
        let mut server = ServerFacts {
            tables: vec![table],
            ..ServerFacts::default()
        };
        server
            .variables
            .insert("table_open_cache".to_owned(), "4000".to_owned());
        let machine = MachineFacts {
            open_files: Some(4096),
            start_limit: Some(Duration::from_secs(900)),
            ..MachineFacts::default()
        };
        let found = judge(&server, &machine);
        assert_eq!(found.len(), 2);
        assert!(found[0].remedy.contains("LimitNOFILE=16384"), "{found:?}");
        assert!(found[1].why.contains("34 min"), "{found:?}");
        server.variables.insert(
            "innodb_buffer_pool_size".to_owned(),
            (16_u64 << 30).to_string(),
        );
        let machine = MachineFacts {
            stop_limit: Some(Duration::from_secs(90)),
            ..MachineFacts::default()
        };
        let found = judge(&server, &machine);
        assert_eq!(found.len(), 1);
        assert!(found[0].why.contains("357 s"), "{found:?}");
        assert!(found[0].remedy.contains("TimeoutStopSec=720"), "{found:?}");
        let machine = MachineFacts {
            stop_limit: Some(Duration::from_secs(900)),
            ..MachineFacts::default()
        };
        assert_eq!(judge(&server, &machine)[0].severity, Severity::Good);
        let unknown = judge(&server, &MachineFacts::default());
        assert_eq!(unknown[0].severity, Severity::Good);
    }
}

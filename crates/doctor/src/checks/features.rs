//! What applications use that a group does not do, or does on one server only: as far as the server
//! counts it.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// A counter of the server's, and what it means if it is not zero.
struct Use {
    counter: &'static str,
    what: &'static str,
    why: &'static str,
    remedy: &'static str,
    severity: Severity,
}

const USES: [Use; 4] = [
    Use {
        counter: "Com_lock_tables",
        what: "LOCK TABLES",
        why: "the lock holds on one server only: writes of others' clients come in between. (Dumps \
              use it, too, and may.)",
        remedy: "use transactions with SELECT ... FOR UPDATE",
        severity: Severity::Warning,
    },
    Use {
        counter: "Com_xa_start",
        what: "XA transactions",
        why: "the server refuses them while it replicates",
        remedy: "use ordinary transactions, or keep these clients on another server",
        severity: Severity::Problem,
    },
    Use {
        counter: "Com_ha_open",
        what: "HANDLER statements",
        why: "what they read is not part of a transaction",
        remedy: "use SELECT",
        severity: Severity::Note,
    },
    Use {
        counter: "Binlog_cache_disk_use",
        what: "transactions larger than binlog_cache_size",
        why: "other servers apply a large transaction as a whole, and what commits after it becomes \
              visible there after it",
        remedy: "wsrep_trx_fragment_size, for the sessions that do it: 'Large transactions' in \
                 settings.md",
        severity: Severity::Note,
    },
];

pub(super) fn judge(server: &ServerFacts) -> Vec<Finding> {
    let used = USES.iter().filter_map(|used| {
        let count = server.counter(used.counter);
        (count > 0).then(|| {
            Finding::new(
                Subject::Features,
                used.severity,
                format!("{}: {count} since the server's start", used.what),
                used.why,
                used.remedy,
            )
        })
    });
    let mut findings: Vec<Finding> = used.collect();
    findings.extend(named_locks(server));
    findings.extend(
        server
            .events
            .iter()
            .map(|event| event_runs_everywhere(event)),
    );
    let is_counted = server.get_lock_statements.is_some();
    if findings.is_empty() && is_counted {
        findings.push(Finding::good(
            Subject::Features,
            "nothing in use that does not replicate",
        ));
    } else if !is_counted {
        findings.push(Finding::new(
            Subject::Features,
            Severity::Note,
            "whether clients use GET_LOCK is not known: performance_schema is off",
            "such a lock holds on one server only",
            "look through the application for GET_LOCK",
        ));
    }
    findings
}

fn named_locks(server: &ServerFacts) -> Option<Finding> {
    let count = server.get_lock_statements.filter(|count| *count > 0)?;
    Some(Finding::new(
        Subject::Features,
        Severity::Warning,
        format!("GET_LOCK: {count} statements since the server's start"),
        "the lock holds on one server only: clients of two servers may both get it",
        "lock a row with SELECT ... FOR UPDATE, and write it",
    ))
}

fn event_runs_everywhere(event: &str) -> Finding {
    Finding::new(
        Subject::Features,
        Severity::Warning,
        format!("the event {event} is enabled"),
        "an event that a full copy takes along runs on the new server, too; one that is created in \
         the group runs on the server that created it, and on no other",
        "decide which server runs events: event_scheduler = ON there, OFF on the others",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(counters: &[(&str, u64)], get_lock_statements: Option<u64>) -> Vec<Finding> {
        let status = counters
            .iter()
            .map(|(name, count)| (name.to_lowercase(), count.to_string()));
        judge(&ServerFacts {
            status: status.collect(),
            get_lock_statements,
            ..ServerFacts::default()
        })
    }

    #[test]
    fn what_was_used_is_told_with_its_count() {
        let found = used(&[("Com_xa_start", 3), ("Com_lock_tables", 0)], Some(7));
        let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        let expected = [
            "XA transactions: 3 since the server's start",
            "GET_LOCK: 7 statements since the server's start",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_is_not_counted_is_said_to_be_unknown() {
        assert_eq!(used(&[], Some(0))[0].severity, Severity::Good);
        let unknown = used(&[], None);
        assert_eq!(unknown.len(), 1);
        assert_eq!(unknown[0].severity, Severity::Note);
    }
}

//! Features that a group lacks, or runs on one server only, as far as the server counts their use.

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
    findings.extend(events(server));
    findings.extend(sequences(server));
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

/// Servers of a group count each by itself, and meet where they count alike.
fn sequences(server: &ServerFacts) -> impl Iterator<Item = Finding> {
    let known = server.sequences.iter().flatten();
    known
        .filter(|sequence| sequence.increment != 0)
        .map(|sequence| {
            Finding::new(
                Subject::Features,
                Severity::Warning,
                format!(
                    "the sequence {} rises by {} on each server",
                    sequence.name, sequence.increment
                ),
                "clients of two servers may get the same number",
                format!(
                    "ALTER SEQUENCE {} INCREMENT BY 0 CACHE 1000;",
                    sequence.name
                ),
            )
        })
}

/// Effect of a group on events: with one writer, or any.
fn events(server: &ServerFacts) -> Vec<Finding> {
    let enabled = server.events.iter();
    let writers = server.status.get("wsrep_synod_writers");
    if writers.is_none_or(|writers| writers != "leader") {
        return enabled.map(|event| event_runs_everywhere(event)).collect();
    }
    let elsewhere = server.events_elsewhere.iter();
    let lacking = elsewhere.map(|event| event_ends_with_the_writer(event));
    let one = server.variable("event_scheduler") != "ON" && enabled.len() > 0;
    lacking.chain(one.then(events_do_not_run)).collect()
}

fn event_ends_with_the_writer(event: &str) -> Finding {
    Finding::new(
        Subject::Features,
        Severity::Warning,
        format!("the event {event} does not run here: another server made it"),
        "when this server is the writer (synod.writers=leader), the event runs nowhere: here it is \
         SLAVESIDE_DISABLED, and where it is enabled its writes are refused",
        format!(
            "have the event ask wsrep_synod_takes_writes first, and enable it here: SET SESSION \
             wsrep_on=OFF; ALTER EVENT {event} ENABLE (docs/operating/single-primary.md, Events)"
        ),
    )
}

fn events_do_not_run() -> Finding {
    Finding::new(
        Subject::Features,
        Severity::Warning,
        "event_scheduler is not ON, and events are enabled",
        "when this server is the writer (synod.writers=leader), they run nowhere",
        "event_scheduler = ON on all servers",
    )
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
    use crate::facts::SequenceFacts;

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
    fn event_of_a_single_writer_has_to_be_enabled_on_every_server() {
        let found = |writers: &str, scheduler: &str| -> Vec<String> {
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let found = judge(&ServerFacts {
                status: [pair("wsrep_synod_writers", writers)].into(),
                variables: [pair("event_scheduler", scheduler)].into(),
                events: vec!["shop.here".to_owned()],
                events_elsewhere: vec!["shop.there".to_owned()],
                get_lock_statements: Some(0),
                ..ServerFacts::default()
            });
            found.into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(found("any", "ON"), ["the event shop.here is enabled"]);
        let there = "the event shop.there does not run here: another server made it";
        assert_eq!(found("leader", "ON"), [there]);
        assert_eq!(found("leader", "OFF").len(), 2);
    }

    #[test]
    fn sequence_that_gives_one_number_on_two_servers_is_told_of() {
        let found = |increment| {
            let name = "`shop`.`s`".to_owned();
            let found = judge(&ServerFacts {
                sequences: Some(vec![SequenceFacts { name, increment }]),
                get_lock_statements: Some(0),
                ..ServerFacts::default()
            });
            found.into_iter().next().unwrap()
        };
        assert_eq!(found(0).severity, Severity::Good);
        let remedy = "ALTER SEQUENCE `shop`.`s` INCREMENT BY 0 CACHE 1000;";
        assert_eq!(found(1).remedy, remedy);
    }

    #[test]
    fn what_is_not_counted_is_said_to_be_unknown() {
        assert_eq!(used(&[], Some(0))[0].severity, Severity::Good);
        let unknown = used(&[], None);
        assert_eq!(unknown.len(), 1);
        assert_eq!(unknown[0].severity, Severity::Note);
    }
}

//! The server: its state, its log, what waits on it.

use std::fmt;

use synod_admin::status::Status;

use super::families::{Families, seconds};

/// States as `wsrep_local_state_comment` has them.
const STATES: [&str; 7] = [
    "Initialized",
    "Joining",
    "Joining: receiving State Transfer",
    "Joined",
    "Donor/Desynced",
    "Synced",
    "Inconsistent",
];

pub(super) fn write(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    state(page, status)?;
    log(page, status)?;
    queues(page, status)
}

fn state(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let server = &status.server;
    page.gauges(
        "synod_server_info",
        "Name of the server and version of its library. The value is always 1",
        [(
            [("server", &*server.name), ("version", &*server.program)],
            1_u64,
        )],
    )?;
    page.gauge(
        "synod_ready",
        "Whether the server takes statements (1): it hears a leader with a majority, and is synced",
        Some(u64::from(server.is_ready)),
    )?;
    page.gauges(
        "synod_state",
        "State of the server, as in wsrep_local_state_comment: 1 at the present one",
        stateset("state", &STATES, &server.state),
    )?;
    page.gauge(
        "synod_status_timestamp_seconds",
        "Clock of the server when these values were gathered",
        Some(seconds(status.at_unix_ms)),
    )?;
    page.gauge(
        "synod_committed_seqno",
        "The last action that the server's database has committed, with all before it",
        server.committed_seqno,
    )
}

/// One value for each known state, and for the present one if it is another.
pub(super) fn stateset<'a>(
    label: &'static str,
    known: &[&'static str],
    present: &'a str,
) -> Vec<([(&'static str, &'a str); 1], u64)> {
    let mut rows: Vec<([(&'static str, &'a str); 1], u64)> = known
        .iter()
        .map(|state| ([(label, *state)], u64::from(*state == present)))
        .collect();
    if !known.contains(&present) {
        rows.push(([(label, present)], 1));
    }
    rows
}

fn log(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let log = &status.log;
    page.gauge(
        "synod_log_size_bytes",
        "Size of the server's log on disk. Above synod.log_retain_size for long: log is kept for a \
         member that lags or is absent",
        Some(log.bytes),
    )?;
    page.counter(
        "synod_log_syncs",
        "Syncs of the log to its disk, since the server connected",
        log.syncs,
    )?;
    page.gauge(
        "synod_log_last_index",
        "The last index in the log",
        Some(log.last_index),
    )?;
    page.gauge(
        "synod_log_durable_index",
        "The last index that is durable on the server's disk",
        Some(log.durable_index),
    )?;
    page.gauge(
        "synod_log_first_seqno",
        "The oldest action in the log. A server that needs an older one takes a full copy (SST)",
        log.first_seqno,
    )?;
    page.gauge(
        "synod_log_begin_timestamp_seconds",
        "When the oldest file of the log was begun: how far back it reaches",
        log.begins_unix_ms.map(seconds),
    )
}

fn queues(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let queues = &status.queues;
    page.gauge(
        "synod_apply_queue_actions",
        "Committed actions that the server's database lacks. If it keeps growing, the server \
         applies more slowly than the group commits",
        Some(queues.apply_actions),
    )?;
    page.gauge(
        "synod_pending_actions",
        "Commits of the server's clients that wait for their place in the order",
        Some(queues.pending_actions),
    )?;
    page.gauge(
        "synod_open_transactions",
        "Transactions of the server's clients that the library knows",
        Some(queues.open_transactions),
    )?;
    page.gauge(
        "synod_certification_keys",
        "Keys with which new transactions are compared. They take memory",
        Some(queues.certification_keys),
    )
}

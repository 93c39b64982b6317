//! Commits of this server: how many, how long each step takes, which lost to other servers.

use std::fmt;

use synod_admin::status::Status;

use super::families::Families;

pub(super) fn write(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    counters(page, status)?;
    traffic(page, status)?;
    times(page, status)?;
    conflicts(page, status)
}

fn counters(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let counted = &status.counters;
    page.counter(
        "synod_local_commits",
        "Transactions of this server's clients that were committed. FLUSH STATUS sets it to 0, \
         and those below",
        counted.local_commits,
    )?;
    page.counter(
        "synod_local_refused",
        "Transactions of this server's clients that certification refused (error 1213)",
        counted.local_refused,
    )?;
    page.counter(
        "synod_local_replays",
        "Transactions of this server's clients that were rolled back and replayed in their place",
        counted.local_replays,
    )?;
    page.counter(
        "synod_writes_refused",
        "Statements and commits of clients and events that were refused because another server is \
         the writer (synod.writers=leader)",
        counted.writes_refused,
    )?;
    page.counter(
        "synod_causal_reads",
        "Reads that waited for the group's position (wsrep_sync_wait)",
        counted.causal_reads,
    )?;
    page.counter(
        "synod_refused_messages",
        "Messages that were refused because their senders have no right to them",
        counted.refused_messages,
    )
}

fn traffic(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let counted = &status.counters;
    page.counter(
        "synod_replicated_actions",
        "Actions that this server gave to the group",
        counted.replicated_actions,
    )?;
    page.counter(
        "synod_replicated_bytes",
        "Bytes of the actions that this server gave to the group, with their keys",
        counted.replicated_bytes,
    )?;
    page.counter(
        "synod_received_actions",
        "Actions and views that this server received from others",
        counted.received_actions,
    )?;
    page.counter(
        "synod_received_bytes",
        "Bytes of the actions that this server received from others",
        counted.received_bytes,
    )?;
    page.counter(
        "synod_compression_saved_bytes",
        "Bytes that compression kept off the network",
        counted.compression_saved_bytes,
    )
}

fn times(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let bounds = &status.time_bounds_us;
    page.histogram(
        "synod_commit_seconds",
        "Time of a commit of this server's clients, from the COMMIT to the OK. FLUSH STATUS changes \
         neither this nor the steps below",
        bounds,
        &status.commits,
    )?;
    let steps = status.commit_steps.iter();
    page.histograms(
        "synod_commit_step_seconds",
        "Time of a step of a commit. queue: until it is handed over; order: network and disks of a \
         majority, of which certify is the comparison with actions before it (at the leader, for \
         all members), append is the write to this server's log, fsync the sync of its disk, and \
         quorum the wait from the append to the majority; wake: processor; turn: commits before \
         it; engine, release: the server; applied: the other databases, with \
         synod.commit_wait=applied. apply and apply_turn are of other servers' actions: changing \
         the rows, commits before it",
        bounds,
        steps.map(|step| ([("step", &*step.step)], &step.times)),
    )
}

fn conflicts(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let lost = &status.conflicts;
    page.counters(
        "synod_conflicts",
        "Transactions of this server's clients that lost to others. refused: an action ordered \
         before changed the same rows; aborted: an action needed their locks; too_old: the \
         history to compare with was gone; given_up: their first part was discarded",
        [
            ([("reason", "refused")], lost.refused),
            ([("reason", "too_old")], lost.too_old),
            ([("reason", "given_up")], lost.given_up),
            ([("reason", "aborted")], lost.aborted),
        ],
    )?;
    page.counters(
        "synod_table_conflicts",
        "Transactions that lost after they had changed this table. One that changed several counts \
         for each",
        lost.tables
            .iter()
            .map(|lost| ([("table", &*lost.table)], lost.total)),
    )?;
    page.counters(
        "synod_conflicts_won",
        "Transactions of this server's clients that lost to actions of this other server",
        lost.winners
            .iter()
            .map(|winner| ([("winner", &*winner.name)], winner.total)),
    )
}

//! Gathers the values of one `SHOW STATUS`.
//!
//! Short, and takes leaf locks only: the server calls it with locks of its own held.

use std::time::Instant;

use crate::api::Gtid;
use crate::connection::Connection;
use crate::position::PositionKeeper;
use crate::status::counters::Counters;
use crate::status::inputs::{GroupStatus, LocalState, StatusInputs, Trouble};
use crate::transaction::Transactions;

/// Everything for one `SHOW STATUS`.
pub(crate) fn gather(
    connection: Option<&Connection>,
    counters: &Counters,
    transactions: &Transactions,
    position: &PositionKeeper,
    segment: i64,
) -> StatusInputs {
    let saved = position.current();
    let mut inputs = StatusInputs {
        last_committed: Gtid {
            group: saved.group,
            seqno: saved.seqno.0,
        },
        counters: counters.shown(),
        open_transactions: to_i64(transactions.len()),
        trouble: trouble(connection, position),
        ..StatusInputs::default()
    };
    let Some((connection, node)) = connection.and_then(|c| c.node().map(|node| (c, node))) else {
        return inputs;
    };
    let status = node.status();
    inputs.last_committed = connection.last_committed();
    inputs.send_queue = to_i64(status.pending);
    let lag = status.commit_seqno.0 - connection.sequencer.released();
    inputs.recv_queue = lag.max(0);
    inputs.cached_downto = status.first_seqno.0;
    inputs.deps_distance = counters.deps_distance();
    inputs.cert_index_size = to_i64(status.cert_keys);
    let (local, desyncs, ended) = {
        let state = connection.state();
        let lifecycle = &state.lifecycle;
        (
            lifecycle.local(),
            state.donor.desyncs(),
            lifecycle.has_ended(),
        )
    };
    inputs.state = local;
    if local == LocalState::Inconsistent {
        // The database is at no position of the group.
        inputs.last_committed = Gtid::UNDEFINED;
    }
    if ended {
        return inputs;
    }
    inputs.incoming_addresses = status
        .view
        .members
        .iter()
        .map(|m| m.incoming.clone())
        .collect();
    inputs.group = Some(GroupStatus {
        compression: node.compression(),
        desync_count: i64::from(desyncs),
        latency: counters
            .latency
            .shown(Instant::now(), connection.shared.options.stats_period()),
        paused: counters.paused.share(Instant::now(), status.pace.paused),
        takes_writes: status.primary && connection.takes_writes(),
        member: connection.own_uuid(),
        segment,
        node: status,
    });
    inputs
}

/// A departure explains more than a defect that it may have left.
fn trouble(connection: Option<&Connection>, position: &PositionKeeper) -> Trouble {
    let departure = connection.and_then(Connection::departure);
    let is_copying = connection.is_some_and(|connection| {
        connection.state().lifecycle.local() == LocalState::ReceivingStateTransfer
    });
    match departure {
        Some((why, true)) => Trouble::WaitsForPerson(why),
        Some((why, false)) => Trouble::ComesBack(why),
        None if is_copying => Trouble::None,
        None => match position.defects() {
            defects if defects.is_empty() => Trouble::None,
            defects => Trouble::Defects(defects),
        },
    }
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

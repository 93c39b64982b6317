//! Gathers the values of one `SHOW STATUS`.
//!
//! Short, and takes leaf locks only: the server calls it with locks of its own held.

use std::time::{Duration, Instant};

use synod_node::{
    CommitWait, CommitWaitStatus, CompressionStatus, MemberId, NodeStatus, PaceStatus, RoleName,
    Writers,
};

use crate::api::Gtid;
use crate::connection::Connection;
use crate::connection::write_gate::Writer;
use crate::position::PositionKeeper;
use crate::status::counters::Counters;
use crate::status::inputs::{
    CommitWaitInputs, ConsensusStatus, GroupStatus, LocalState, PaceInputs, StatusInputs, Trouble,
    WritersInputs,
};
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
        protocol: i64::from(status.protocol),
        voters: to_i64(status.members.iter().filter(|m| m.voter).count()),
        desync_count: i64::from(desyncs),
        latency: counters
            .latency
            .shown(Instant::now(), connection.shared.options.stats_period()),
        operational: status.primary,
        member: connection.own_uuid(),
        segment,
    });
    inputs.consensus = consensus(&status, &node.compression());
    inputs.pace = pace(&status.pace, &status, counters);
    inputs.commit_wait = commit_wait(&status.commit_wait);
    inputs.writers = writers(&status, status.primary && connection.takes_writes());
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

fn consensus(status: &NodeStatus, compression: &CompressionStatus) -> ConsensusStatus {
    let role = match status.role {
        Some(RoleName::Leader) => "leader",
        Some(_) if !status.voter => "learner",
        Some(RoleName::Follower) => "follower",
        Some(RoleName::PreCandidate | RoleName::Candidate) => "candidate",
        None => "",
    };
    ConsensusStatus {
        role: role.to_owned(),
        term: status.term.0,
        commit_index: status.commit_index.0,
        leader: status.leader_name.clone(),
        log_size_bytes: status.log_bytes,
        log_syncs: status.log_syncs,
        log_first_seqno: status.first_seqno.0,
        voters: status.members.iter().filter(|m| m.voter).count() as u64,
        leader_weight: status.leader_weight.get(),
        region: own_region(status),
        refused_messages: status.refused_messages,
        compression_saved_bytes: compression
            .plain_bytes
            .saturating_sub(compression.sent_bytes),
        compressed_to: names_of(&compression.members, status),
    }
}

fn own_region(status: &NodeStatus) -> String {
    let own = status.members.iter().find(|m| m.member == status.member);
    let region = own.and_then(|member| member.region.as_ref());
    region.map_or_else(String::new, ToString::to_string)
}

fn names_of(members: &[MemberId], status: &NodeStatus) -> String {
    let known = status.members.iter();
    let named = known.filter(|member| members.contains(&member.member));
    let names: Vec<&str> = named.map(|member| member.name.as_str()).collect();
    names.join(",")
}

fn pace(pace: &PaceStatus, status: &NodeStatus, counters: &Counters) -> PaceInputs {
    let paused_us = micros(pace.paused);
    let own = status.members.iter().find(|m| m.member == status.member);
    let own = own.map_or("", |member| &member.name);
    let is_active = pace.rate > 0;
    let reason = format!(
        "{} lags {} ms and is needed for a majority",
        pace.slowest,
        pace.slowest_lag.as_millis()
    );
    let lags = pace.lags.iter().map(|(name, actions, lag)| {
        let lag_ms = lag.as_millis();
        format!("{name}:{actions}:{lag_ms}")
    });
    PaceInputs {
        lag_ms: micros(pace.own_lag) / 1000,
        rate: if is_active {
            pace.rate as f64 / 1000.0
        } else {
            -1.0
        },
        reason: if is_active { reason } else { String::new() },
        lags: lags.collect::<Vec<String>>().join(","),
        paused_ns: paused_us.saturating_mul(1000),
        paused: counters.paused.share(Instant::now(), pace.paused),
        sent: pace.caused,
        received: pace.pauses,
        active: is_active,
        requested: is_active && pace.slowest == own,
    }
}

fn commit_wait(status: &CommitWaitStatus) -> CommitWaitInputs {
    CommitWaitInputs {
        in_force: match status.in_force {
            CommitWait::Durable => "durable",
            CommitWait::Applied => "applied",
        },
        excluded: status.excluded.join(","),
        exclusions: status.exclusions,
    }
}

fn writers(status: &NodeStatus, here: bool) -> WritersInputs {
    let writer = Writer::of(status).filter(|_| status.writers == Writers::Leader);
    let (writer, writer_address) =
        writer.map_or_else(Default::default, |writer| (writer.name, writer.incoming));
    WritersInputs {
        writers: match status.writers {
            Writers::Any => "any",
            Writers::Leader => "leader",
        },
        writer,
        writer_address,
        here,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

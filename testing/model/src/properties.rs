//! Properties: conditions of every state, and conditions that some state must meet.
//!
//! The first are the promises of `docs/protocol.md`, section 5. The second guard the check itself:
//! a model in which no step is possible would violate nothing.

use stateright::{Expectation, Property};

use crate::bounds::Bounds;
use crate::group::Group;
use crate::log::{Kind, Log};
use crate::mistake::Mistake;
use crate::rules::election::config_of;
use crate::state::State;

/// All properties that make sense within these bounds.
pub(crate) fn properties(bounds: &Bounds) -> Vec<Property<Group>> {
    let mut all = safety();
    all.extend(coverage(bounds));
    all
}

fn always(name: &'static str, condition: fn(&Group, &State) -> bool) -> Property<Group> {
    Property {
        expectation: Expectation::Always,
        name,
        condition,
    }
}

fn sometimes(name: &'static str, condition: fn(&Group, &State) -> bool) -> Property<Group> {
    Property {
        expectation: Expectation::Sometimes,
        name,
        condition,
    }
}

fn safety() -> Vec<Property<Group>> {
    vec![
        always("one leader per term", |_, s| !s.broken.two_leaders),
        always("logs match", |_, s| logs_match(s)),
        always("committed is never lost", |_, s| !s.broken.committed_lost),
        always("acknowledged by an origin is never lost", |_, s| {
            !s.broken.acknowledged_lost
        }),
        always("counted is durable on a majority", |_, s| {
            !s.broken.not_durable
        }),
        always("no member truncates what it knows committed", |_, s| {
            !s.broken.committed_truncated
        }),
        always("what is delivered is settled, and the same", |_, s| {
            delivered_is_settled(s)
        }),
        always("one uncommitted configuration", |_, s| one_open_config(s)),
        always("no two disjoint quorums", no_disjoint_quorums),
        always("reads see what was acknowledged", reads_are_causal),
    ]
}

fn coverage(bounds: &Bounds) -> Vec<Property<Group>> {
    let mut all = vec![sometimes("something is committed", |_, s| {
        s.settled.by_leaders > 0
    })];
    let several = bounds.voters > 1;
    if several {
        all.push(sometimes("settled without the leader's disk", |_, s| {
            leader_disk_lacks_settled(s)
        }));
    }
    if bounds.origin_counts {
        all.push(sometimes("an origin knows before the leader", |_, s| {
            s.settled.log.len() > s.settled.by_leaders
        }));
    }
    if bounds.terms > 1 {
        all.push(sometimes("another leader after a commit", |_, s| {
            later_leader(s, |s| s.settled.by_leaders > 0)
        }));
        all.push(sometimes("an older entry commits with a newer", |_, s| {
            older_entry_settled(s)
        }));
        if several {
            all.push(sometimes("an entry that has to be sent again", |_, s| {
                doomed_entry(s)
            }));
        }
    }
    if bounds.changes > 0 {
        all.push(sometimes("a configuration is committed", |_, s| {
            config_settled(s)
        }));
        if bounds.terms > 1 {
            all.push(sometimes("another leader after a configuration", |_, s| {
                later_leader(s, config_settled)
            }));
        }
        if several {
            all.push(sometimes("a leader without a vote", |g, s| {
                leads_without_vote(g, s)
            }));
        }
    }
    all
}

/// Raft, section 5.3: equal term at equal position, equal logs up to there.
fn logs_match(state: &State) -> bool {
    let logs = || state.members.iter().map(|member| &member.log);
    logs().all(|a| logs().all(|b| match_up(a, b)))
}

fn match_up(a: &Log, b: &Log) -> bool {
    let common = a.common(b);
    let shared = common + 1..=a.len().min(b.len());
    shared
        .into_iter()
        .all(|index| a.term_at(index) != b.term_at(index))
}

/// A member delivers up to its commit index.
fn delivered_is_settled(state: &State) -> bool {
    state.members.iter().all(|member| {
        let delivered = member.log.prefix(member.commit);
        delivered.len() == member.commit && delivered.is_prefix_of(&state.settled.log)
    })
}

fn one_open_config(state: &State) -> bool {
    let settled = usize::from(state.settled.log.len());
    let is_config = |kind: Kind| matches!(kind, Kind::Config(_));
    state.members.iter().all(|member| {
        let open = member.log.entries().iter().skip(settled);
        open.filter(|entry| is_config(entry.kind)).count() <= 1
    })
}

/// Whether a leader could still find a majority of its voters that knows of no higher term.
fn has_quorum(group: &Group, state: &State, id: u8) -> bool {
    let term = state.member(id).term;
    let (_, voters) = config_of(group, state, id);
    voters.majority(|voter| state.member(voter).disk.term <= term)
}

/// A leader was elected by a majority that has entered its term. Then no leader of an older term
/// can have one, by any configuration that one of them uses.
fn no_disjoint_quorums(group: &Group, state: &State) -> bool {
    let leaders = || state.ids().filter(|id| state.member(*id).leads());
    let newest = leaders().map(|id| state.member(id).term).max();
    leaders().all(|id| Some(state.member(id).term) == newest || !has_quorum(group, state, id))
}

/// Requires of a leader's position, asked for now and confirmed by a majority later, that it is not
/// before anything that was acknowledged already (dissertation, section 6.4).
fn reads_are_causal(group: &Group, state: &State) -> bool {
    let by_end = group.bounds.origin_counts && !group.has(Mistake::ReadAtCommit);
    state.ids().all(|id| {
        let member = state.member(id);
        let ready = member.log.term_at(member.commit) == member.term;
        let answers = member.leads() && ready && has_quorum(group, state, id);
        let position = if by_end {
            member.log.len()
        } else {
            member.commit
        };
        !answers || state.settled.log.is_prefix_of(&member.log.prefix(position))
    })
}

fn later_leader(state: &State, condition: fn(&State) -> bool) -> bool {
    let first = state.settled.by[0];
    condition(state)
        && state
            .members
            .iter()
            .any(|member| member.leads() && member.term > first)
}

fn leader_disk_lacks_settled(state: &State) -> bool {
    let lacks = |id: u8| {
        let member = state.member(id);
        member.leads()
            && !state.settled.log.is_prefix_of(&member.disk.log)
            && state.settled.log.is_prefix_of(&member.log)
    };
    state.ids().any(lacks)
}

fn older_entry_settled(state: &State) -> bool {
    let entries = state.settled.log.entries().iter();
    entries
        .zip(state.settled.by)
        .any(|(entry, by)| entry.term < by)
}

/// A disk holds an entry where something else is settled.
fn doomed_entry(state: &State) -> bool {
    let settled = &state.settled.log;
    state.members.iter().any(|member| {
        let log = &member.disk.log;
        log.common(settled) < log.len().min(settled.len())
    })
}

fn config_settled(state: &State) -> bool {
    let committed = usize::from(state.settled.by_leaders);
    let entries = state.settled.log.entries().iter().take(committed);
    entries
        .into_iter()
        .any(|entry| matches!(entry.kind, Kind::Config(_)))
}

fn leads_without_vote(group: &Group, state: &State) -> bool {
    state
        .ids()
        .any(|id| state.member(id).leads() && !config_of(group, state, id).1.contains(id))
}

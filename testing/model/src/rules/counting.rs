//! Settled entries: those that clients have an answer for, and what must hold of them afterwards.
//!
//! An entry is *settled* once a leader has counted it, or an origin. A settled entry must be
//! durable on a majority, and in the log of every later leader.

use crate::group::Group;
use crate::log::Log;
use crate::mistake::Mistake;
use crate::state::State;
use crate::voters::Voters;

/// Origins count as soon as they can; to count later adds nothing. An origin may count
/// - acknowledgements given in one term,
/// - for entries of that term's leader's own,
/// - by the configuration in force at the entry,
/// - with the leader's own disk as the leader reports it.
pub(crate) fn count_at_origins(group: &Group, state: &mut State) {
    for term in 1..=group.bounds.terms {
        let said = state.term(term);
        if said.leader.is_none() {
            continue;
        }
        let sent = said.sent;
        let highest = (1..=sent.len()).rev().find(|index| {
            let own_term = sent.term_at(*index) == term;
            let counts = own_term || group.has(Mistake::OriginOlderTerms);
            let (_, voters) = sent.config_at(*index, group.bounds.initial());
            counts && voters.majority(|voter| heard_durable(group, state, term, voter) >= *index)
        });
        if let Some(index) = highest.filter(|index| *index > settled_as(state, &sent)) {
            let (_, voters) = sent.config_at(index, group.bounds.initial());
            settle(state, term, sent.prefix(index), voters);
        }
    }
}

/// The position up to which a member has acknowledged a term's log to an origin.
fn heard_durable(group: &Group, state: &State, term: u8, voter: u8) -> u8 {
    let at = usize::from(voter);
    let said = state.term(term);
    if group.has(Mistake::OriginTrustsLeader) && said.leader == Some(voter) {
        return said.sent.len();
    }
    if group.has(Mistake::OriginAcrossTerms) {
        let in_any = state.terms.iter().map(|said| said.durable[at]).max();
        return in_any.unwrap_or(0);
    }
    said.durable[at]
}

/// Part of this log that is settled already.
fn settled_as(state: &State, log: &Log) -> u8 {
    state.settled.log.common(log)
}

/// A leader or an origin has counted this log in `term` by these voters, and clients have an
/// answer: it must never be lost.
pub(crate) fn settle(state: &mut State, term: u8, log: Log, voters: Voters) {
    let holds = |id: u8| log.is_prefix_of(&state.member(id).disk.log);
    if !voters.majority(holds) {
        state.broken.not_durable = true;
    }
    let known = state.settled.log;
    let common = known.common(&log);
    if common < known.len().min(log.len()) {
        return note_lost(state, common + 1);
    }
    if log.len() <= known.len() {
        return;
    }
    state.settled.log = log;
    for index in known.len()..log.len() {
        state.settled.by[usize::from(index)] = term;
    }
    // Leaders of later terms that there are already must have it.
    let later: Vec<Log> = (term + 1..=state.terms.len() as u8)
        .map(|later| state.term(later))
        .filter(|said| said.leader.is_some())
        .map(|said| said.sent)
        .collect();
    for sent in later {
        let common = sent.common(&log);
        if common < log.len() {
            note_lost(state, common + 1);
        }
    }
}

/// A new leader of `term` must have everything that was counted in earlier terms (Raft, section
/// 5.4: leader completeness).
pub(crate) fn expect_settled_in(state: &mut State, term: u8, log: Log) {
    let settled = &state.settled;
    let missing = (1..=settled.log.len()).find(|index| {
        let earlier = settled.by[usize::from(*index) - 1] < term;
        earlier && log.at(*index) != settled.log.at(*index)
    });
    if let Some(index) = missing {
        note_lost(state, index);
    }
}

fn note_lost(state: &mut State, index: u8) {
    if index <= state.settled.by_leaders {
        state.broken.committed_lost = true;
    } else {
        state.broken.acknowledged_lost = true;
    }
}

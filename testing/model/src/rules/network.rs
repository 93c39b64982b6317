//! Messages leave a member as soon as its disk allows.
//!
//! A lost or late message needs no step of its own: the members that could take it need not do so.

use crate::group::Group;
use crate::mistake::Mistake;
use crate::rules::counting;
use crate::state::{Role, State, Term};

/// Sends everything that may be sent now, and has origins count it.
pub(crate) fn speak(group: &Group, state: &mut State) {
    for id in state.ids() {
        send_vote(state, id);
        acknowledge(group, state, id);
    }
    if group.bounds.origin_counts {
        counting::count_at_origins(group, state);
    }
    if !group.learns_commits_late() {
        for id in state.ids() {
            learn_commit(state, id);
        }
    }
    clear_old_terms(state);
}

/// A vote counts, and a candidate asks for others, once it is durable.
fn send_vote(state: &mut State, voter: u8) {
    let disk = &state.member(voter).disk;
    let (term, Some(candidate)) = (disk.term, disk.vote) else {
        return;
    };
    let candidate = state.member_mut(candidate);
    if candidate.term == term
        && let Role::Candidate { granted } = &mut candidate.role
    {
        *granted = granted.with(voter);
    }
}

/// "Durable up to here, of the log of this term's leader"; not before the term itself is durable.
fn acknowledge(group: &Group, state: &mut State, id: u8) {
    let member = state.member(id);
    let term_is_durable = member.disk.term == member.term;
    let durable = match member.role {
        Role::Leader if group.has(Mistake::CountOwnDiskEarly) => member.log.len(),
        Role::Leader => member.durable(),
        Role::Follower if group.has(Mistake::AckBeforeSync) => member.matched,
        Role::Follower if term_is_durable => member.durable().min(member.matched),
        Role::Follower | Role::Candidate { .. } => return,
    };
    if member.term == 0 || durable == 0 {
        return;
    }
    let term = member.term;
    let said = &mut state.term_mut(term).durable[usize::from(id)];
    *said = (*said).max(durable);
}

/// A follower takes over the commit index as far as its log is known to be the leader's.
pub(crate) fn learn_commit(state: &mut State, id: u8) {
    let Some(index) = learnable(state, id) else {
        return;
    };
    state.member_mut(id).commit = index;
}

/// Commit index that [`learn_commit`] would set, if it is higher than the member's.
pub(crate) fn learnable(state: &State, id: u8) -> Option<u8> {
    let member = state.member(id);
    if member.role != Role::Follower || member.term == 0 {
        return None;
    }
    let learned = state.term(member.term).commit_sent.min(member.matched);
    (learned > member.commit).then_some(learned)
}

/// No member will take a message of a term that is below every disk's.
fn clear_old_terms(state: &mut State) {
    let oldest = state.members.iter().map(|m| m.disk.term).min().unwrap_or(0);
    for term in 1..oldest {
        *state.term_mut(term) = Term::default();
    }
}

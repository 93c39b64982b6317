//! Elections (Raft, sections 5.2 and 5.4.1).
//!
//! There are no timers: any voter may be a candidate at any time, and a candidate takes votes until
//! its term ends, however late they are. That includes everything that pre-votes, windows, promises
//! and leader transfers could lead to, and more.

use crate::group::Group;
use crate::log::{Entry, Kind};
use crate::mistake::Mistake;
use crate::state::{Role, State};
use crate::voters::Voters;

/// The voters that a member counts: those of the last configuration in its log, with its position.
pub(crate) fn config_of(group: &Group, state: &State, id: u8) -> (u8, Voters) {
    let member = state.member(id);
    let end = if group.has(Mistake::ConfigWhenCommitted) {
        member.commit
    } else {
        member.log.len()
    };
    member.log.config_at(end, group.bounds.initial())
}

/// A voter by its own configuration may become a candidate in the next term. A leader may, too: it
/// may have lost its quorum, or have seen a higher term.
pub(crate) fn may_stand(group: &Group, state: &State, id: u8) -> bool {
    state.member(id).term < group.bounds.terms && config_of(group, state, id).1.contains(id)
}

/// See [`may_stand`].
pub(crate) fn stand(state: &mut State, id: u8) {
    let member = state.member_mut(id);
    member.term += 1;
    member.vote = Some(id);
    member.matched = 0;
    let granted = Voters::default();
    member.role = Role::Candidate { granted };
}

/// One vote per term, for a log at least as complete by the last entry. The voter's own
/// configuration does not matter.
pub(crate) fn may_vote(group: &Group, state: &State, voter: u8, candidate: u8) -> bool {
    let (asking, asked) = (state.member(candidate), state.member(voter));
    let Role::Candidate { granted } = asking.role else {
        return false;
    };
    let has_asked = granted.contains(candidate);
    let free = asked.term < asking.term
        || (asked.term == asking.term && asked.vote.is_none() && !asked.leads());
    let complete = asking.log.last() >= asked.log.last() || group.has(Mistake::VoteForAnyLog);
    voter != candidate && has_asked && free && complete
}

/// See [`may_vote`]. The vote leaves when it is durable.
pub(crate) fn vote(group: &Group, state: &mut State, voter: u8, candidate: u8) {
    let term = state.member(candidate).term;
    let member = state.member_mut(voter);
    member.follow(term);
    member.vote = Some(candidate);
    if group.has(Mistake::ForgetVote)
        && let Role::Candidate { granted } = &mut state.member_mut(candidate).role
    {
        *granted = granted.with(voter);
    }
}

/// A candidate has a majority of the voters of its own configuration; its own vote is durable.
pub(crate) fn may_lead(group: &Group, state: &State, id: u8) -> bool {
    let Role::Candidate { granted } = state.member(id).role else {
        return false;
    };
    let (_, voters) = config_of(group, state, id);
    granted.contains(id) && voters.majority(|voter| granted.contains(voter))
}

/// See [`may_lead`]. The term begins with an entry of the leader's own.
pub(crate) fn lead(state: &mut State, id: u8) {
    let member = state.member_mut(id);
    let (term, log) = (member.term, member.log);
    member.role = Role::Leader;
    member.matched = 0;
    if state.term(term).leader.is_some() {
        state.broken.two_leaders = true;
    }
    super::counting::expect_settled_in(state, term, log);
    state.term_mut(term).leader = Some(id);
    let kind = Kind::NoOp;
    super::replication::append(state, id, Entry { term, kind });
}

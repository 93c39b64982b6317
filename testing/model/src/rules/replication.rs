//! Replication (Raft, section 5.3).
//!
//! Leaders append and send in one step. Followers make their logs equal to the leader's, one entry
//! at a time, and a leader counts what a majority of its voters has on disk.

use crate::group::Group;
use crate::log::{Entry, Kind};
use crate::mistake::Mistake;
use crate::rules::counting;
use crate::rules::election::config_of;
use crate::state::{Role, State};

/// A leader appends an entry, and sends it before its own disk has it.
pub(crate) fn append(state: &mut State, id: u8, entry: Entry) {
    let member = state.member_mut(id);
    member.log.push(entry);
    let (term, log) = (member.term, member.log);
    state.term_mut(term).sent = log;
}

/// A leader orders an action.
pub(crate) fn propose(state: &mut State, id: u8) {
    let term = state.member(id).term;
    let kind = Kind::Action;
    append(state, id, Entry { term, kind });
    state.left.entries -= 1;
}

/// Whether a member can take messages of this term's leader.
fn may_hear(state: &State, id: u8, term: u8) -> bool {
    let (member, said) = (state.member(id), state.term(term));
    let higher = member.term < term;
    let same = member.term == term && !member.leads();
    said.leader.is_some_and(|leader| leader != id) && (higher || same)
}

/// A probe, or entries that the member has: it learns how far its log is the leader's.
pub(crate) fn may_match(state: &State, id: u8, term: u8) -> bool {
    let member = state.member(id);
    let news = member.term < term
        || member.role != Role::Follower
        || member.matched < member.log.common(&state.term(term).sent);
    may_hear(state, id, term) && news
}

/// See [`may_match`]. The longest common part at once: with less the member would only acknowledge
/// less.
pub(crate) fn learn_match(state: &mut State, id: u8, term: u8) {
    let sent = state.term(term).sent;
    let member = state.member_mut(id);
    member.follow(term);
    member.matched = member.log.common(&sent).max(member.commit);
}

/// The next entry of the leader's, after the common part. Several in one message are several steps:
/// a crash between them leaves what a torn write would.
pub(crate) fn may_take(state: &State, id: u8, term: u8) -> bool {
    let (member, sent) = (state.member(id), &state.term(term).sent);
    let common = member.log.common(sent);
    let follows = member.term == term && member.role == Role::Follower;
    may_hear(state, id, term) && follows && member.matched == common && common < sent.len()
}

/// See [`may_take`]. Truncates what contradicts the entry.
pub(crate) fn take(state: &mut State, id: u8, term: u8) {
    let sent = state.term(term).sent;
    let member = state.member_mut(id);
    let common = member.log.common(&sent);
    let truncates_committed = member.log.len() > common && common < member.commit;
    if let Some(entry) = sent.at(common + 1) {
        member.log = member.log.prefix(common);
        member.log.push(entry);
        member.matched = common + 1;
    }
    state.broken.committed_truncated |= truncates_committed;
}

/// Position up to which a leader can count: the highest, with an entry of its own term, that a
/// majority of the voters of *its latest* configuration has durably (Raft, section 5.4.2;
/// dissertation, 4.1).
pub(crate) fn countable(group: &Group, state: &State, id: u8) -> Option<u8> {
    let member = state.member(id);
    if !member.leads() {
        return None;
    }
    let (_, voters) = config_of(group, state, id);
    let durable = state.term(member.term).durable;
    let mut above = (member.commit + 1..=member.log.len()).rev();
    above.find(|index| {
        let own_term = member.log.term_at(*index) == member.term;
        let counts = own_term || group.has(Mistake::CommitOlderTerms);
        counts && voters.majority(|voter| durable[usize::from(voter)] >= *index)
    })
}

/// A leader counts, sends its commit index, and steps down if it has removed itself from the
/// voters.
pub(crate) fn commit(group: &Group, state: &mut State, id: u8, index: u8) {
    let (_, counted_by) = config_of(group, state, id);
    let member = state.member_mut(id);
    member.commit = index;
    let (term, log) = (member.term, member.log.prefix(index));
    state.term_mut(term).commit_sent = index;
    counting::settle(state, term, log, counted_by);
    state.settled.by_leaders = state.settled.by_leaders.max(index);
    let (at, voters) = config_of(group, state, id);
    if at <= index && !voters.contains(id) {
        state.member_mut(id).role = Role::Follower;
    }
}

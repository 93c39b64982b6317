//! Changes of one voter at a time (dissertation, section 4.1, and Ongaro's correction of 2015).
//!
//! A configuration is in force as soon as it is in a member's log, and out of force when it is
//! truncated.

use crate::group::Group;
use crate::log::{Entry, Kind};
use crate::mistake::Mistake;
use crate::rules::election::config_of;
use crate::rules::replication::append;
use crate::state::State;

/// A leader that has committed an entry of its own term may add or remove one voter, if every
/// earlier configuration is committed. A voter must be left.
pub(crate) fn may_change(group: &Group, state: &State, id: u8, who: u8) -> bool {
    let member = state.member(id);
    let is_ready = member.log.term_at(member.commit) == member.term;
    let (latest, voters) = member
        .log
        .config_at(member.log.len(), group.bounds.initial());
    let settled = latest <= member.commit;
    member.leads()
        && state.left.changes > 0
        && (is_ready || group.has(Mistake::ChangeBeforeOwnCommit))
        && (settled || group.has(Mistake::TwoChangesAtOnce))
        && !voters.toggled(who).is_empty()
}

/// See [`may_change`].
pub(crate) fn change(group: &Group, state: &mut State, id: u8, who: u8) {
    let member = state.member(id);
    let (_, voters) = if group.has(Mistake::ConfigWhenCommitted) {
        // On top of the latest, which need not be the one in use.
        member
            .log
            .config_at(member.log.len(), group.bounds.initial())
    } else {
        config_of(group, state, id)
    };
    let (term, kind) = (member.term, Kind::Config(voters.toggled(who)));
    append(state, id, Entry { term, kind });
    state.left.changes -= 1;
}

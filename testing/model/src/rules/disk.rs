//! Syncs and crashes.
//!
//! A sync stores everything that a member has written; a crash loses everything that is not stored.

use crate::group::Group;
use crate::mistake::Mistake;
use crate::state::{Disk, Role, State};

/// Whether memory holds something the disk does not.
pub(crate) fn may_sync(state: &State, id: u8) -> bool {
    let member = state.member(id);
    let disk = &member.disk;
    (member.term, member.vote, &member.log) != (disk.term, disk.vote, &disk.log)
}

/// Stores everything that a member has written.
pub(crate) fn sync(group: &Group, state: &mut State, id: u8) {
    let member = state.member_mut(id);
    let vote = if group.has(Mistake::ForgetVote) {
        member.vote.filter(|vote| *vote == id)
    } else {
        member.vote
    };
    member.disk = Disk {
        term: member.term,
        vote,
        log: member.log,
    };
}

/// A crash that would change nothing need not be tried.
pub(crate) fn may_crash(state: &State, id: u8) -> bool {
    let member = state.member(id);
    let rests = member.role == Role::Follower && member.matched == 0 && member.commit == 0;
    state.left.crashes > 0 && (!rests || may_sync(state, id))
}

/// The member starts again from its disk.
pub(crate) fn crash(state: &mut State, id: u8) {
    let member = state.member_mut(id);
    let Disk { term, vote, log } = member.disk;
    (member.term, member.vote, member.log) = (term, vote, log);
    (member.role, member.matched, member.commit) = (Role::Follower, 0, 0);
    state.left.crashes -= 1;
}

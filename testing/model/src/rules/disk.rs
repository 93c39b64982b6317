//! Flushes and crashes.

use crate::group::Group;
use crate::mistake::Mistake;
use crate::state::{Disk, Role, State};

/// Whether memory holds something the disk does not.
pub(crate) fn may_flush(state: &State, id: u8) -> bool {
    let member = state.member(id);
    let disk = &member.disk;
    (member.term, member.vote, &member.log) != (disk.term, disk.vote, &disk.log)
}

/// Everything written so far is on stable storage.
pub(crate) fn flush(group: &Group, state: &mut State, id: u8) {
    let member = state.member_mut(id);
    let vote = match group.has(Mistake::ForgetVote) {
        true => member.vote.filter(|vote| *vote == id),
        false => member.vote,
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
    state.left.crashes > 0 && (!rests || may_flush(state, id))
}

/// The member starts again from its disk.
pub(crate) fn crash(state: &mut State, id: u8) {
    let member = state.member_mut(id);
    let Disk { term, vote, log } = member.disk;
    (member.term, member.vote, member.log) = (term, vote, log);
    (member.role, member.matched, member.commit) = (Role::Follower, 0, 0);
    state.left.crashes -= 1;
}

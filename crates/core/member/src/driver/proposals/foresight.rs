//! Foresight: the proposals of this session that the leader will refuse for certain.
//!
//! The proposal is compared with this member's own log, as far as that is a part of the leader's:
//!
//! - If the last entry of this log is of the present term, the leader of the term has sent it, and
//!   has everything before it (Raft's log matching). A leader refuses because of what is in its
//!   log, committed or not. So does an origin that has the same in its own.
//! - Otherwise only what is committed counts: every leader has that.

use bytes::Bytes;
use synod_consensus::{Core, EntryKind, Origin, Seqno, Writers};
use synod_planted::planted;

use super::Ordering;
use crate::certification::CertificationState;
use crate::driver::Me;

/// State of this member by which it foresees the leader's verdicts.
pub(super) struct Foresight<'a> {
    certification: &'a CertificationState,
    /// Origin of the proposals; their numbers are of no interest.
    origin: Origin,
    /// Up to here this log is a part of the leader's. Zero if nothing is to be foreseen: this
    /// member leads, so the verdict itself costs no more; or the group takes the leader's writes
    /// only, which the leader looks at first.
    leader_has: Seqno,
}

impl<'a> Foresight<'a> {
    pub(super) fn new(core: &Core, ordering: &'a Ordering, me: Me) -> Foresight<'a> {
        let certification = &ordering.certification;
        let is_only_leaders = core.config().config.writers == Writers::Leader;
        let leader_has = if core.is_leader() || is_only_leaders {
            Seqno(0)
        } else {
            leader_has(core, certification)
        };
        Foresight {
            certification,
            origin: Origin {
                member: me.member,
                session: me.session,
                number: 0,
            },
            leader_has,
        }
    }

    /// The action that a proposal loses to, if that is certain.
    pub(super) fn conflict(&self, kind: EntryKind, payload: &Bytes) -> Option<Seqno> {
        if self.leader_has == Seqno(0) {
            return None;
        }
        let (certification, origin) = (self.certification, &self.origin);
        certification.foreseen_conflict(origin, kind, payload, self.leader_has)
    }
}

fn leader_has(core: &Core, certification: &CertificationState) -> Seqno {
    let last = core.last_id();
    let is_of_this_term = planted!(ForeseeTruncated, last.term == core.term(), else true);
    // Certification learns of a truncation when the core's effects are performed.
    if is_of_this_term && certification.last_index() == last.index {
        return core.last_seqno();
    }
    let committed = core.seqno_at(core.commit_index());
    committed.unwrap_or(core.base().seqno)
}

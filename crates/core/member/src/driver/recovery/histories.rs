//! A database that may be of a history that the group has left.
//!
//! A member's log shows which history its database follows. A database whose log is gone, damaged
//! or too short shows only how far it is. As long as a group has one history, that is enough. Once
//! a primary was forced in it, which its terms show for ever, the action at that position may be
//! another one here: only a full copy is sure.

use std::sync::atomic::Ordering;

use synod_consensus::{MemberId, Seqno};
use synod_planted::planted;

use crate::driver::Driver;
use crate::host::{Level, Topic};

impl Driver {
    /// At the start, before anything is written to the log: whether the log holds the position of
    /// the database.
    pub(in crate::driver) fn look_at_database(&mut self) {
        let seqno = self.ctx.identity.config.database.seqno;
        let is_held = self.ctx.links.reader.seek_database(seqno).is_ok();
        let is_unproven = seqno > Seqno(0) && !is_held;
        self.recovery.is_unproven = planted!(TrustDatabase, is_unproven, else false);
    }

    /// A leader is heard, before this member has joined.
    pub(in crate::driver) fn doubt_database(&mut self, leader: MemberId) {
        let may_differ = self.recovery.is_unproven
            && leader != self.ctx.identity.me.member
            && self.ctx.core.has_forced_history()
            && !self.membership.join.is_completed();
        if !may_differ {
            return;
        }
        self.recovery.is_unproven = false;
        self.ctx
            .links
            .shared
            .database_diverged
            .store(true, Ordering::Release);
        let text = format!(
            "the group was once ordered to continue without a majority, and this member's log does \
             not show that its database, at {}, is of the history that continued: the database has \
             to be copied again",
            self.ctx.identity.config.database.seqno
        );
        self.ctx.note(Topic::Membership, Level::Warning, text);
    }
}

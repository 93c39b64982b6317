//! The driver's dealings with [`super::CommitWaits`]: it asks the other members, tells those that
//! ask, and tells the host up to where no commit has to wait.

use synod_consensus::{EntryHeader, EntryKind, MemberId, Seqno, SessionId};
use synod_wire::{AppliedPosition, PeerMessage, may_ask_for_positions};

use super::others::Question;
use super::{CommitWait, NO_WAIT};
use crate::driver::Driver;
use crate::host::{Level, Topic};
use crate::shared::lock;

impl Driver {
    // --- asking ------------------------------------------------------------------------------

    /// The host wants its clients to wait for this.
    pub(in crate::driver) fn set_commit_wait(&mut self, wanted: CommitWait) {
        self.commit_wait.wanted = wanted;
        self.commit_wait.is_in_force = None;
        self.everywhere_tick();
    }

    /// Asks the others, and excludes those that have been too slow.
    pub(in crate::driver) fn everywhere_tick(&mut self) {
        self.commit_wait.askers.expire(self.ctx.turns.now);
        self.look_whether_positions_are_told();
        self.ask_for_positions();
        self.publish_everywhere();
    }

    /// A group with members that run older programs cannot do what is wanted.
    fn look_whether_positions_are_told(&mut self) {
        let version = self.ctx.core.config().config.protocol;
        let is_in_force = may_ask_for_positions(version);
        let is_wanted = self.commit_wait.wanted == CommitWait::Applied;
        if !is_wanted || version == 0 || self.commit_wait.is_in_force == Some(is_in_force) {
            return;
        }
        self.commit_wait.is_in_force = Some(is_in_force);
        if is_in_force {
            self.ctx.log(
                Level::Info,
                "commits wait until all synced servers have applied them",
            );
        } else {
            let text = format!(
                "commits do not wait for the other servers, as they should: the group speaks \
                 protocol version {version}, because some of its members run older programs. They \
                 will wait once all members are upgraded"
            );
            self.ctx.log(Level::Warning, text);
        }
    }

    /// The other members that are present with a database.
    fn other_databases(&self) -> Vec<(MemberId, SessionId)> {
        let me = self.ctx.identity.me.member;
        let view = self.ctx.views.committed();
        let others = view.members.iter().filter(|present| present.member != me);
        others.map(|p| (p.member, p.session)).collect()
    }

    /// Asks the others where they are. What they have said may be lost, or be too old.
    pub(in crate::driver) fn ask_for_positions(&self) {
        if self.commit_wait.is_on() {
            let others = self.other_databases();
            others
                .iter()
                .for_each(|(member, _)| self.ask_for_position(*member));
        }
    }

    /// A connection to this member is up.
    pub(in crate::driver) fn ask_for_position(&self, member: MemberId) {
        let is_wanted = |(other, _): &(MemberId, SessionId)| *other == member;
        if self.commit_wait.is_on() && self.other_databases().iter().any(is_wanted) {
            let session = self.ctx.identity.me.session;
            self.ctx.send(member, PeerMessage::AppliedQuery { session });
        }
    }

    /// A member says where its database is.
    pub(in crate::driver) fn position_told(&mut self, from: MemberId, position: AppliedPosition) {
        if self.commit_wait.is_on() {
            self.commit_wait
                .others
                .note(self.ctx.turns.now, from, position);
            self.publish_everywhere();
        }
    }

    /// Tells the host up to where no commit has to wait any more.
    pub(in crate::driver) fn publish_everywhere(&mut self) {
        let is_on = self.commit_wait.is_on() && self.ctx.links.shared.is_primary();
        let everywhere = if is_on {
            self.look_everywhere()
        } else {
            NO_WAIT
        };
        if self.commit_wait.told != everywhere {
            self.commit_wait.told = everywhere;
            self.ctx.links.host.applied_everywhere(everywhere);
        }
    }

    fn look_everywhere(&mut self) -> Seqno {
        let patience = self.ctx.identity.config.suspect;
        let (everywhere, excluded) = self.commit_wait.others.everywhere(Question {
            now: self.ctx.turns.now,
            present: self.other_databases().into_iter(),
            patience,
            committed: self.ctx.links.shared.commit_seqno(),
        });
        for member in excluded {
            let text = format!(
                "commits do not wait for {} any more: it has lacked one for {patience:?}. They \
                 will again when it has caught up",
                self.ctx.name_of(member)
            );
            self.ctx.note(Topic::Pace, Level::Warning, text);
        }
        everywhere
    }

    pub(in crate::driver) fn publish_commit_wait(&mut self) {
        let excluded = self.commit_wait.excluded();
        let excluded: Vec<String> = excluded.map(|member| self.ctx.name_of(member)).collect();
        let mut status = lock(&self.ctx.links.shared.status);
        let shown = &mut status.commit_wait;
        shown.in_force = match self.commit_wait.is_on() {
            true => CommitWait::Applied,
            false => CommitWait::Durable,
        };
        shown.excluded = excluded;
        shown.exclusions = self.commit_wait.others.exclusions();
    }

    // --- telling -----------------------------------------------------------------------------

    /// A member wants to know when its actions are finished here.
    pub(in crate::driver) fn handle_applied_query(&mut self, from: MemberId, session: SessionId) {
        self.commit_wait
            .askers
            .ask(self.ctx.turns.now, from, session);
        self.send_position(from);
    }

    /// An entry is committed: an asker, or this member's own host, may wait for it.
    pub(in crate::driver) fn awaited_committed(&mut self, header: &EntryHeader) {
        if header.kind != EntryKind::Action {
            return;
        }
        let (now, seqno, is_own) = (self.ctx.turns.now, header.seqno, self.is_own_action(header));
        let everywhere = &mut self.commit_wait;
        everywhere.askers.committed(seqno, &header.origin);
        if everywhere.is_on() && is_own {
            everywhere.others.own_committed(now, seqno, everywhere.told);
        }
    }

    /// Tells the askers whose actions are finished here. The host will wake the driver
    /// ([`crate::Event::Applied`]) when the first of the others is.
    pub(in crate::driver) fn tell_askers(&mut self) {
        while let Some(target) = self.commit_wait.askers.next_target() {
            // Before the position is read: the host must not get past it unnoticed.
            self.ctx.links.shared.call_when_applied(target);
            let applied = self.ctx.links.shared.applied();
            if applied < target {
                return;
            }
            for member in self.commit_wait.askers.reached(applied) {
                self.send_position(member);
            }
        }
    }

    /// The state of this member's database has changed.
    pub(in crate::driver) fn tell_all_askers(&mut self) {
        let askers: Vec<MemberId> = self.commit_wait.askers.members().collect();
        for member in askers {
            self.send_position(member);
        }
    }

    fn send_position(&self, member: MemberId) {
        let position = self.applied_position();
        self.ctx
            .send(member, PeerMessage::AppliedPosition(position));
    }
}

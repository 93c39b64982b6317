//! Going on without a majority, by order of an operator.

use std::sync::atomic::Ordering;

use synod_consensus::{
    Body, EntryHeader, EntryId, EntryKind, ForceError, LogIndex, MemberId, Message, Seqno, WriteOp,
};

use super::Driver;
use crate::config::DatabasePosition;
use crate::host::Level;

/// What a member does when the majority is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuorumLossPolicy {
    /// Nothing: it waits until it hears a majority again. The only safe one.
    #[default]
    Wait,
    /// Goes on if at least half of the voters are still connected: what is left of two may serve.
    ContinueWithHalf,
    /// Goes on whoever is gone.
    ContinueAlone,
}

impl Driver {
    /// Makes this member the only voter.
    pub(super) fn force(&mut self) -> Result<(), ForceError> {
        self.core.force(self.now())?;
        self.forced = true;
        self.log(
            Level::Info,
            "going on without the other voters, as ordered: what they have committed and this member \
             has not seen is lost",
        );
        Ok(())
    }

    /// Whether this message can be obeyed. A leader that was elected has all that is committed; one that went on by order
    /// while the majority lived may want it replaced.
    pub(super) fn may_obey(&mut self, message: &Message) -> bool {
        let Body::Append(append) = &message.body else {
            return true;
        };
        let base = self.core.base().last.index;
        let holds = |id: EntryId| self.core.term_at(id.index) == Some(id.term);
        let committed = self.core.commit_index();
        let contradicts = |header: &&EntryHeader| {
            header.index > base && header.index <= committed && !holds(header.id())
        };
        let first = append.entries.iter().find(contradicts);
        let Some(first) = first else {
            return true;
        };
        let is_heard = message.term >= self.core.term();
        let follows = append.prev.index < base || holds(append.prev);
        if !is_heard || !follows {
            return true;
        }
        let kept = self.core.seqno_at(first.index.prev()).unwrap_or_default();
        let last = self.links.shared.commit_seqno();
        self.fail(&format!(
            "{} was ordered to go on without a majority, and without what is at {} to {last} here, which is \
             committed, too. There are two histories now. Compare them by hand if that matters; then delete the \
             data of the servers of one, and start those of the other one again",
            self.name_of(message.from),
            kept.next(),
        ));
        false
    }

    /// Whether this can be done to the log, or the group goes on without what is in the database here. Only
    /// an order to go on brings that about: a leader that was elected has all that is committed (Raft,
    /// section 5.4.3), so the core has nothing to undo that was ever applied.
    pub(super) fn may_write(&mut self, op: &WriteOp) -> bool {
        let WriteOp::Truncate { from } = op else {
            return true;
        };
        let kept = self.core.seqno_at(from.prev());
        let kept = kept.or_else(|| {
            let header = self.links.reader.header(from.prev());
            header.ok().map(|header| header.seqno)
        });
        let applied = self.applied();
        let forgets = synod_planted::is(synod_planted::Bug::UndoApplied);
        if forgets || kept.is_none_or(|kept| applied <= kept) {
            return true;
        }
        let first = kept.unwrap_or_default().next();
        if self.has_action(*from, applied) {
            self.stop_with_lost(first, applied);
        } else if self.membership.join.is_completed() {
            self.fail(
                "the group was ordered to go on without a majority, and without the views in which this member \
                 was alone. Start it again; its database will be copied anew",
            );
        } else {
            self.log(
                Level::Info,
                format!(
                    "the group was ordered to go on without the views {first} to {applied} in which this \
                     member was alone: its database has to be copied anew"
                ),
            );
            self.links
                .shared
                .database_diverged
                .store(true, Ordering::Release);
            return true;
        }
        false
    }

    /// Whether the log has an action of a client from an entry on, up to `last`. It is taken to have one if it does
    /// not tell.
    fn has_action(&self, from: LogIndex, last: Seqno) -> bool {
        let mut index = from;
        loop {
            match self.links.reader.header(index) {
                Ok(header) if header.seqno > last => return false,
                Ok(header) if header.kind == EntryKind::Action => return true,
                Ok(header) if header.seqno == last && header.kind == EntryKind::View => {
                    return false;
                }
                Ok(_) => index = index.next(),
                Err(_) => return true,
            }
        }
    }

    /// Whether the database goes with a view that has this member for the first time. Each view comes after
    /// all that was ever committed before it, unless that was lost.
    pub(super) fn may_join(&mut self, view: Seqno) -> bool {
        let applied = self.applied();
        if applied >= view {
            self.stop_with_lost(view, applied);
        }
        applied < view
    }

    fn stop_with_lost(&mut self, first: Seqno, last: Seqno) {
        self.fail(&format!(
            "the group was ordered to go on without a majority, and without the actions {first} to {last} \
             that are in this member's database. Compare them by hand if they matter; then delete this \
             member's data and start it again"
        ));
    }

    /// What is in the database, whether or not it has joined already.
    fn applied(&self) -> Seqno {
        let database = self.database();
        let at_start = match database.group == self.group {
            true => database.seqno,
            false => Seqno(0),
        };
        match self.membership.join.is_completed() {
            true => self.links.shared.applied().max(at_start),
            false => at_start,
        }
    }

    /// Where the database was at the start, if that is worth anything.
    pub(super) fn database(&self) -> DatabasePosition {
        self.links.shared.position_of(self.config.database)
    }

    /// Follows the policy at the moment when this member would stop being primary: clients that wait
    /// for a commit go on waiting, and get it.
    pub(super) fn watch_survivors(&mut self) {
        let Some(since) = self.leaderless_since else {
            return;
        };
        let is_lost = self.now.since(since) >= self.config.suspect;
        let waits = self.survivor_policy == QuorumLossPolicy::Wait;
        if waits
            || !is_lost
            || self.membership.leave.is_under_way()
            || !self.membership.join.is_completed()
        {
            return;
        }
        let voters: Vec<MemberId> = self.core.config().config.voters().collect();
        let me = self.me.member;
        let is_here = |id: &MemberId| {
            *id == me
                || self
                    .membership
                    .presence
                    .is_alive(self.now, *id, self.config.suspect / 2)
        };
        let here = voters.iter().filter(|id| is_here(id)).count();
        let enough = match self.survivor_policy {
            QuorumLossPolicy::Wait => false,
            QuorumLossPolicy::ContinueWithHalf => here * 2 >= voters.len(),
            QuorumLossPolicy::ContinueAlone => true,
        };
        // Of those that see each other, one.
        let is_first = voters.iter().find(|id| is_here(id)) == Some(&me);
        if enough && is_first && self.core.leader().is_none() {
            self.leaderless_since = Some(self.now);
            if let Err(error) = self.force() {
                self.log(Level::Info, format!("cannot go on alone: {error}"));
            }
        }
    }
}

//! Going on without a majority, by order of an operator.

use synod_consensus::{ForceError, MemberId, Seqno, WriteOp};

use super::Driver;
use crate::host::Level;

/// What a member does when the majority is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SurvivorPolicy {
    /// Nothing: it waits until it hears a majority again. The only safe one.
    #[default]
    Wait,
    /// Goes on if at least half of the voters are still connected: what is left of two may serve.
    GoOnWithHalf,
    /// Goes on whoever is gone.
    GoOn,
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
        self.stop_with_lost(kept.unwrap_or_default().next(), applied);
        false
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
        let shared = &self.links.shared;
        let database = self.config.database;
        let at_start = match database.group == self.group {
            true => database.seqno,
            false => Seqno(0),
        };
        shared.applied().max(at_start)
    }

    /// Follows the policy at the moment when this member would stop being primary: clients that wait
    /// for a commit go on waiting, and get it.
    pub(super) fn watch_survivors(&mut self) {
        let Some(since) = self.leaderless_since else {
            return;
        };
        let is_lost = self.now.since(since) >= self.config.suspect;
        let waits = self.survivor_policy == SurvivorPolicy::Wait;
        if waits || !is_lost || self.leaving.is_some() || !self.joined_host {
            return;
        }
        let voters: Vec<MemberId> = self.core.config().config.voters().collect();
        let me = self.me.member;
        let is_here = |id: &MemberId| {
            *id == me
                || self
                    .presence
                    .is_alive(self.now, *id, self.config.suspect / 2)
        };
        let here = voters.iter().filter(|id| is_here(id)).count();
        let enough = match self.survivor_policy {
            SurvivorPolicy::Wait => false,
            SurvivorPolicy::GoOnWithHalf => here * 2 >= voters.len(),
            SurvivorPolicy::GoOn => true,
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

//! The driver's care for the number of voters as the leader: newcomers that wait, voters that are
//! dead, learners that never came back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{ConfigChange, MemberId, Role};
use synod_wire::Report;

use super::voters::{Facts, Loss, forgotten, loss, promotable};
use crate::driver::Driver;
use crate::host::Level;

/// Owner of the sets that [`Facts`] borrows: the members as the leader knows them.
struct Known {
    answering: BTreeSet<MemberId>,
    present: BTreeSet<MemberId>,
    silent: BTreeMap<MemberId, Duration>,
    willing: BTreeSet<MemberId>,
    ready: BTreeSet<MemberId>,
}

impl Driver {
    fn known(&mut self) -> Known {
        let presence = &self.membership.presence;
        let is_of_this_session =
            |report: &&Report| presence.session_of(report.member) == Some(report.session);
        let reports = presence.reports().filter(is_of_this_session);
        let reports: Vec<Report> = reports.cloned().collect();
        let mut willing = BTreeSet::new();
        for report in reports {
            let is_learner = !self.ctx.core.config().config.is_voter(report.member);
            if is_learner && self.may_want_vote(&report) && report.state.is_whole() {
                willing.insert(report.member);
            }
        }
        let config = &self.ctx.core.config().config;
        let membership = &self.membership;
        let is_present = |id: &MemberId| membership.presence.session_of(*id).is_some();
        let now = self.ctx.turns.now;
        Known {
            answering: self.answering(),
            present: config.members.keys().copied().filter(is_present).collect(),
            silent: config
                .members
                .keys()
                .map(|id| (*id, membership.silence.of(now, *id)))
                .collect(),
            ready: willing
                .iter()
                .copied()
                .filter(|id| self.ctx.core.is_ready_to_vote(*id))
                .collect(),
            willing,
        }
    }

    fn with_facts<T>(&mut self, ask: impl FnOnce(&Driver, &Facts) -> T) -> T {
        let known = self.known();
        let facts = Facts {
            config: &self.ctx.core.config().config,
            answering: &known.answering,
            present: &known.present,
            silent: &known.silent,
            willing: &known.willing,
            ready: &known.ready,
        };
        ask(self, &facts)
    }

    /// Says who may be promoted, and takes a dead voter or a forgotten learner out. One change at a
    /// time: the next tick continues.
    pub(in crate::driver) fn care_for_voters(&mut self) {
        let me = self.ctx.identity.me.member;
        let others = self.ctx.core.config().config.members.keys().copied();
        let (now, pause_max) = (self.ctx.turns.now, self.ctx.identity.config.suspect);
        let others = others.filter(|id| *id != me);
        self.membership.silence.look(now, others, pause_max);
        if self.awaits_successor() {
            return self.let_learners_vote();
        }
        let policy = self.ctx.identity.config.voter_policy;
        let lost = self.with_facts(|_, facts| loss(&policy, facts));
        if let Some(lost) = lost {
            return self.take_vote(lost);
        }
        self.let_learners_vote();
        let after = self.membership.learner_patience;
        if let Some(learner) = self.with_facts(|_, facts| forgotten(facts, after)) {
            self.forget(learner);
        }
    }

    /// Whether a dead voter has made room for a learner that has not taken it yet. No other vote is
    /// taken before: one learner replaces one voter.
    fn awaits_successor(&self) -> bool {
        let config = &self.ctx.core.config().config;
        let is_learner = |id: &MemberId| config.members.contains_key(id) && !config.is_voter(*id);
        let successor = self.membership.successor.filter(is_learner);
        successor.is_some_and(|id| self.membership.presence.session_of(id).is_some())
    }

    fn take_vote(&mut self, Loss { voter, successor }: Loss) {
        let name = self.ctx.name_of(voter);
        let change = ConfigChange::Demote(voter);
        if self
            .ctx
            .core
            .change_config(self.ctx.turns.now, change)
            .is_err()
        {
            // Another change is under way: the next tick tries again.
            return;
        }
        self.membership.successor = successor;
        let dead_after = self.ctx.identity.config.voter_policy.dead_after;
        let then = successor.map_or_else(
            || "a majority needs one vote less".to_owned(),
            |id| format!("{} takes its place", self.ctx.name_of(id)),
        );
        let text = format!("{name} has been silent for {dead_after:?}: it loses its vote, {then}");
        self.ctx.log(Level::Warning, text);
    }

    /// Tells the core which learners it may promote when they have caught up.
    pub(in crate::driver) fn let_learners_vote(&mut self) {
        let successor = self.membership.successor;
        if successor.is_some_and(|id| self.ctx.core.config().config.is_voter(id)) {
            self.membership.successor = None;
        }
        let successor = self.membership.successor;
        let promotable = self.with_facts(|_, facts| promotable(facts, successor));
        let members = self.ctx.core.config().config.members.iter();
        let learners: Vec<MemberId> = members
            .filter(|(_, member)| member.role == Role::Learner)
            .map(|(id, _)| *id)
            .collect();
        // Those that may not first: the others are promoted at once.
        let (may, may_not): (Vec<_>, Vec<_>) =
            learners.into_iter().partition(|id| promotable.contains(id));
        for id in may_not {
            self.ctx.core.set_eligible(id, false);
        }
        for id in may {
            self.ctx.core.set_eligible(id, true);
        }
    }

    /// Makes room for a newcomer in a full group; whether there is any.
    pub(super) fn make_room(&mut self) -> bool {
        let suspect = self.ctx.identity.config.suspect;
        let longest = self.with_facts(|_, facts| forgotten(facts, suspect));
        longest.is_some_and(|learner| self.forget(learner))
    }

    fn forget(&mut self, learner: MemberId) -> bool {
        let (name, now) = (self.ctx.name_of(learner), self.ctx.turns.now);
        let silent = self.membership.silence.of(now, learner);
        let change = ConfigChange::Remove(learner);
        if self
            .ctx
            .core
            .change_config(self.ctx.turns.now, change)
            .is_err()
        {
            return false;
        }
        let text = format!(
            "{name} has no vote, and has been silent for {silent:?}: the group forgets it. It \
             joins again when it starts"
        );
        self.ctx.log(Level::Info, text);
        true
    }
}

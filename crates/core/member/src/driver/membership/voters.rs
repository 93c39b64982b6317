//! Rules for votes: which dead voter loses its vote, and which learners may be promoted by
//! themselves. While a voter is absent, a newcomer may be meant to replace it. So it waits as a
//! learner: until the voter is back, and the group really grows; or until the voter is dead, and
//! the newcomer takes its place. The number of voters does not grow by a replacement.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{Config, ConfigChange, MemberId, Role};
use synod_planted::planted;
use synod_wire::Report;

use super::Membership;
use super::as_leader::voters_of_regions;
use super::voter_policy::VoterPolicy;
use crate::driver::commands::Commands;
use crate::driver::context::Context;
use crate::host::Level;

pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    /// Members that answer the leader, itself included.
    pub(super) answering: &'a BTreeSet<MemberId>,
    pub(super) present: &'a BTreeSet<MemberId>,
    pub(super) silent: &'a BTreeMap<MemberId, Duration>,
    /// Voters that keep their votes: commits need their regions.
    pub(super) kept: &'a BTreeSet<MemberId>,
    /// Learners that want to vote, with a whole database if they have one.
    pub(super) willing: &'a BTreeSet<MemberId>,
    /// Learners of `willing` that have caught up.
    pub(super) ready: &'a BTreeSet<MemberId>,
}

impl Facts<'_> {
    fn silence(&self, id: MemberId) -> Duration {
        self.silent.get(&id).copied().unwrap_or_default()
    }

    fn dead(&self, policy: &VoterPolicy) -> Option<MemberId> {
        let voters = self.config.voters();
        let dead = voters.filter(|id| {
            let is_silent = self.silence(*id) >= policy.dead_after;
            is_silent && !self.answering.contains(id) && !self.kept.contains(id)
        });
        dead.max_by_key(|id| self.silence(*id))
    }

    fn dead_count(&self, policy: &VoterPolicy) -> usize {
        let is_dead = |id: &MemberId| self.silence(*id) >= policy.dead_after;
        self.config.voters().filter(is_dead).count()
    }

    fn is_majority_without(&self, voter: MemberId) -> bool {
        let others = || self.config.voters().filter(|id| *id != voter);
        let answering = others().filter(|id| self.answering.contains(id)).count();
        answering * 2 > others().count()
    }

    /// A voter that has just died is present for a while, and does not answer any more.
    fn all_voters_are_present(&self) -> bool {
        let is_present = |id| self.present.contains(&id) && self.answering.contains(&id);
        self.config.voters().all(is_present)
    }
}

/// A dead voter that is to lose its vote, and the learner that takes its place if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) voter: MemberId,
    pub(super) successor: Option<MemberId>,
}

/// The dead voter that loses its vote now. It does if a learner waits for its place; or if the
/// group may go to the next smaller odd number of voters ([`VoterPolicy`]).
fn loss(policy: &VoterPolicy, facts: &Facts) -> Option<Loss> {
    let voter = facts.dead(policy)?;
    if !facts.is_majority_without(voter) {
        return None;
    }
    let all = facts.config.voters().count();
    let successor = facts.ready.first().copied();
    let fewest = policy.fewest(all);
    let may_shrink = if all.is_multiple_of(2) {
        all > fewest
    } else {
        all >= fewest + 2 && facts.dead_count(policy) >= 2
    };
    (successor.is_some() || may_shrink).then_some(Loss { voter, successor })
}

/// Learners that may be promoted by themselves, `successor` being the one that a dead voter has
/// made room for.
fn promotable(facts: &Facts, successor: Option<MemberId>) -> BTreeSet<MemberId> {
    if planted!(GrowByReplacement, facts.all_voters_are_present(), else true) {
        return facts.willing.clone();
    }
    let is_willing = |id: &MemberId| facts.willing.contains(id);
    successor.filter(is_willing).into_iter().collect()
}

/// The learner that has been silent for longest, and for at least so long.
fn forgotten(facts: &Facts, after: Duration) -> Option<MemberId> {
    let members = facts.config.members.iter();
    let learners = members.filter(|(_, member)| member.role == Role::Learner);
    let silent = learners
        .map(|(id, _)| *id)
        .filter(|id| !facts.present.contains(id) && facts.silence(*id) >= after);
    silent.max_by_key(|id| facts.silence(*id))
}

struct Known {
    kept: BTreeSet<MemberId>,
    answering: BTreeSet<MemberId>,
    present: BTreeSet<MemberId>,
    silent: BTreeMap<MemberId, Duration>,
    willing: BTreeSet<MemberId>,
    ready: BTreeSet<MemberId>,
}

impl Membership {
    fn known(&self, ctx: &mut Context, commands: &mut Commands) -> Known {
        let presence = &self.presence;
        let is_of_this_session =
            |report: &&Report| presence.session_of(report.member) == Some(report.session);
        let reports = presence.reports().filter(is_of_this_session);
        let reports: Vec<Report> = reports.cloned().collect();
        let mut willing = BTreeSet::new();
        for report in reports {
            let is_learner = !ctx.core.config().config.is_voter(report.member);
            if is_learner && commands.may_want_vote(ctx, &report) && report.state.is_whole() {
                willing.insert(report.member);
            }
        }
        let config = &ctx.core.config().config;
        let is_present = |id: &MemberId| self.presence.session_of(*id).is_some();
        let (now, me) = (ctx.turns.now, ctx.identity.me.member);
        let others = config.members.keys().filter(|id| **id != me);
        Known {
            kept: voters_of_regions(ctx),
            answering: ctx.answering(),
            present: config.members.keys().copied().filter(is_present).collect(),
            silent: others
                .map(|id| (*id, self.presence.silence(now, *id)))
                .collect(),
            ready: willing
                .iter()
                .copied()
                .filter(|id| ctx.core.is_ready_to_vote(*id))
                .collect(),
            willing,
        }
    }

    fn with_facts<T>(
        &self,
        ctx: &mut Context,
        commands: &mut Commands,
        ask: impl FnOnce(&Facts) -> T,
    ) -> T {
        let known = self.known(ctx, commands);
        let facts = Facts {
            config: &ctx.core.config().config,
            answering: &known.answering,
            present: &known.present,
            silent: &known.silent,
            kept: &known.kept,
            willing: &known.willing,
            ready: &known.ready,
        };
        ask(&facts)
    }

    /// Says who may be promoted, and takes a dead voter or a forgotten learner out. One change at a
    /// time: the next tick continues.
    pub(in crate::driver) fn care_for_voters(
        &mut self,
        ctx: &mut Context,
        commands: &mut Commands,
    ) {
        let (now, pause_max) = (ctx.turns.now, ctx.identity.config.suspect);
        self.presence.look(now, pause_max);
        if self.awaits_successor(ctx) {
            return self.let_learners_vote(ctx, commands);
        }
        let policy = ctx.identity.config.voter_policy;
        let lost = self.with_facts(ctx, commands, |facts| loss(&policy, facts));
        if let Some(lost) = lost {
            return self.take_vote(ctx, lost);
        }
        self.let_learners_vote(ctx, commands);
        let after = self.learner_patience;
        if let Some(learner) = self.with_facts(ctx, commands, |facts| forgotten(facts, after)) {
            self.forget(ctx, learner);
        }
    }

    /// Whether a dead voter has made room for a learner that has not taken it yet. No other vote is
    /// taken before: one learner replaces one voter.
    fn awaits_successor(&self, ctx: &Context) -> bool {
        let config = &ctx.core.config().config;
        let is_learner = |id: &MemberId| config.members.contains_key(id) && !config.is_voter(*id);
        let successor = self.successor.filter(is_learner);
        successor.is_some_and(|id| self.presence.session_of(id).is_some())
    }

    fn take_vote(&mut self, ctx: &mut Context, Loss { voter, successor }: Loss) {
        let name = ctx.name_of(voter);
        let change = ConfigChange::Demote(voter);
        if ctx.core.change_config(ctx.turns.now, change).is_err() {
            // Another change is under way: the next tick tries again.
            return;
        }
        self.successor = successor;
        let dead_after = ctx.identity.config.voter_policy.dead_after;
        let then = successor.map_or_else(
            || "a majority needs one vote less".to_owned(),
            |id| format!("{} takes its place", ctx.name_of(id)),
        );
        let text = format!("{name} has been silent for {dead_after:?}: it loses its vote, {then}");
        ctx.log(Level::Warning, text);
    }

    /// Tells the core which learners it may promote when they have caught up.
    pub(super) fn let_learners_vote(&mut self, ctx: &mut Context, commands: &mut Commands) {
        let successor = self.successor;
        if successor.is_some_and(|id| ctx.core.config().config.is_voter(id)) {
            self.successor = None;
        }
        let successor = self.successor;
        let promotable = self.with_facts(ctx, commands, |facts| promotable(facts, successor));
        let members = ctx.core.config().config.members.iter();
        let learners: Vec<MemberId> = members
            .filter(|(_, member)| member.role == Role::Learner)
            .map(|(id, _)| *id)
            .collect();
        // Those that may not first: the others are promoted at once.
        let (may, may_not): (Vec<_>, Vec<_>) =
            learners.into_iter().partition(|id| promotable.contains(id));
        for id in may_not {
            ctx.core.set_eligible(id, false);
        }
        for id in may {
            ctx.core.set_eligible(id, true);
        }
    }

    /// Makes room for a newcomer in a full group; whether there is any.
    pub(super) fn make_room(&self, ctx: &mut Context, commands: &mut Commands) -> bool {
        let suspect = ctx.identity.config.suspect;
        let longest = self.with_facts(ctx, commands, |facts| forgotten(facts, suspect));
        longest.is_some_and(|learner| self.forget(ctx, learner))
    }

    fn forget(&self, ctx: &mut Context, learner: MemberId) -> bool {
        let (name, now) = (ctx.name_of(learner), ctx.turns.now);
        let silent = self.presence.silence(now, learner);
        let change = ConfigChange::Remove(learner);
        if ctx.core.change_config(ctx.turns.now, change).is_err() {
            return false;
        }
        let text = format!(
            "{name} has no vote, and has been silent for {silent:?}: the group forgets it. It \
             joins again when it starts"
        );
        ctx.log(Level::Info, text);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::voters_and_learners as config;

    const DEAD: Duration = Duration::from_secs(600);

    fn ids(ids: &[u64]) -> BTreeSet<MemberId> {
        ids.iter().copied().map(MemberId).collect()
    }

    /// Asks about a group of which these members have been silent for this long, and all others
    /// are present and answer.
    fn ask<T>(config: &Config, silent: &[(u64, Duration)], of: impl FnOnce(&Facts) -> T) -> T {
        let silent: BTreeMap<MemberId, Duration> = silent
            .iter()
            .map(|(id, time)| (MemberId(*id), *time))
            .collect();
        let members = config.members.iter();
        let live: BTreeSet<MemberId> = members
            .clone()
            .map(|(id, _)| *id)
            .filter(|id| !silent.contains_key(id))
            .collect();
        let learners: BTreeSet<MemberId> = members
            .filter(|(_, member)| member.role == Role::Learner)
            .map(|(id, _)| *id)
            .collect();
        let ready = &learners & &live;
        of(&Facts {
            config,
            answering: &live,
            present: &live,
            silent: &silent,
            kept: &BTreeSet::new(),
            willing: &ready,
            ready: &ready,
        })
    }

    fn lost(
        wanted: usize,
        config: &Config,
        silent: &[(u64, Duration)],
    ) -> Option<(u64, Option<u64>)> {
        let policy = VoterPolicy {
            wanted,
            dead_after: DEAD,
        };
        let loss = ask(config, silent, |facts| loss(&policy, facts))?;
        Some((loss.voter.0, loss.successor.map(|id| id.0)))
    }

    #[test]
    fn dead_voter_makes_room_for_a_learner_that_is_ready() {
        let early = DEAD.saturating_sub(Duration::from_secs(1));
        assert_eq!(lost(0, &config(3, 1), &[(3, DEAD)]), Some((3, Some(4))));
        assert_eq!(lost(0, &config(3, 1), &[(3, early)]), None);
        assert_eq!(lost(0, &config(3, 1), &[(3, DEAD), (4, early)]), None);
        assert_eq!(lost(0, &config(3, 0), &[(3, DEAD)]), None);
    }

    #[test]
    fn no_voter_loses_its_vote_without_a_majority_of_the_others() {
        assert_eq!(lost(0, &config(3, 1), &[(2, DEAD), (3, DEAD)]), None);
        let (short, long) = (Duration::from_secs(9), DEAD * 2);
        assert_eq!(
            lost(0, &config(4, 1), &[(2, short), (3, DEAD)]),
            Some((3, Some(5)))
        );
        assert_eq!(
            lost(0, &config(5, 1), &[(2, long), (3, DEAD)]),
            Some((2, Some(6)))
        );
        assert_eq!(
            lost(0, &config(5, 1), &[(2, short), (3, DEAD), (4, short)]),
            None,
            "two of the four others"
        );
    }

    #[test]
    fn without_a_successor_the_number_goes_to_the_next_odd_one_that_is_wanted() {
        assert_eq!(lost(0, &config(4, 0), &[(4, DEAD)]), Some((4, None)));
        assert_eq!(lost(4, &config(4, 0), &[(4, DEAD)]), None);
        assert_eq!(lost(0, &config(5, 0), &[(4, DEAD), (5, DEAD)]), None);
        assert_eq!(
            lost(3, &config(5, 0), &[(4, DEAD * 2), (5, DEAD)]),
            Some((4, None))
        );
        assert_eq!(lost(3, &config(5, 0), &[(5, DEAD)]), None, "one of five");
    }

    #[test]
    fn newcomers_wait_while_a_voter_is_absent() {
        let absent = Duration::from_secs(1);
        let promotable = |silent: &[(u64, Duration)], successor: Option<u64>| {
            ask(&config(3, 2), silent, |facts| {
                promotable(facts, successor.map(MemberId))
            })
        };
        assert_eq!(promotable(&[], None), ids(&[4, 5]));
        assert_eq!(promotable(&[(3, absent)], None), ids(&[]));
        assert_eq!(promotable(&[(3, absent)], Some(5)), ids(&[5]));
        assert_eq!(promotable(&[(3, absent), (5, absent)], Some(5)), ids(&[]));
    }

    #[test]
    fn learner_that_is_silent_for_longest_is_forgotten_and_voters_never_are() {
        let week = Duration::from_secs(7 * 24 * 3600);
        let gone = |silent: &[(u64, Duration)], after| {
            ask(&config(3, 2), silent, |facts| forgotten(facts, after))
        };
        assert_eq!(gone(&[(4, week), (5, week * 2)], week), Some(MemberId(5)));
        assert_eq!(gone(&[(3, week), (4, DEAD)], week), None);
        assert_eq!(gone(&[(4, DEAD)], DEAD), Some(MemberId(4)));
    }
}

//! Decides whether leadership should follow the writers.
//!
//! A commit costs its client the way to the leader, and the leader the way to the nearest majority.
//! Clients of the leader's own region save the first. So where nearly all writes come from another
//! region, the leader should be there.
//!
//! The leader counts the actions that it orders, by the region of their origin; a member without a
//! region counts by itself. A *sample* is the actions of a second, the *window* the last five
//! samples. If another region has made at least [`SHARE_PERCENT`] of the window's actions, at every
//! look for the trial time, leadership moves there.
//!
//! What keeps leadership from moving back and forth:
//! - A member that leads stays for the pause (30 s) at least, after its election and after each
//!   attempt to move. So two moves of a group are at least the pause apart, also if the leader
//!   changes.
//! - Two regions cannot both have 60 %. Writers that alternate faster than the trial time move
//!   nothing.
//! - Leadership never moves to a voter of lower weight by this rule, and only to one of higher
//!   weight by the rule of weights. So the two rules cannot play it back and forth.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use synod_consensus::{LeaderWeight, LogIndex, MemberId, Time};
use synod_planted::planted;
use synod_wire::Region;

use crate::tuning::Tuning;

/// Samples in the window.
const SAMPLES: usize = 5;
/// Least share of the window's actions that another region must have made, in percent.
const SHARE_PERCENT: u64 = 60;
/// Fewer actions in a window are no reason to move: one in each sample.
const ACTIONS_MIN: u64 = SAMPLES as u64;

/// Policy of a leader when writes come from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderPlacement {
    /// The leader stays.
    #[default]
    Stay,
    /// The leader hands over to a voter in the region that nearly all writes come from.
    FollowWriters,
}

/// Source of actions: a region, or a member without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::driver) enum Place {
    /// From members of a region.
    Region(Region),
    /// From a member that has named none.
    Member(MemberId),
}

impl Place {
    /// The place of a member that has named this region.
    pub(super) fn of(member: MemberId, region: Option<&Region>) -> Place {
        region.map_or(Place::Member(member), |region| {
            Place::Region(region.clone())
        })
    }
}

/// A voter that could lead: it has a database in step, answers, and has caught up.
#[derive(Clone, Copy, Debug)]
pub(super) struct FitVoter {
    pub(super) member: MemberId,
    pub(super) weight: LeaderWeight,
    /// Up to where its log is known to be durable.
    pub(super) log_end: LogIndex,
}

/// Another place than the leader's, from which nearly all writes have come for the trial time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WritingPlace {
    pub(super) place: Place,
    /// Its share of the window's actions, in percent.
    pub(super) percent: u64,
    /// Commit index at the look before: a voter that keeps up has reached it.
    pub(super) committed_before: LogIndex,
    /// Actions of the window, by origin.
    actions: BTreeMap<MemberId, u64>,
}

impl WritingPlace {
    /// The voter to lead: of those of the place that are at least as heavy as the leader, and not
    /// of weight zero, the heaviest; of these the one that writes most.
    pub(super) fn choose(
        &self,
        own_weight: LeaderWeight,
        voters: impl Iterator<Item = FitVoter>,
        place_of: impl Fn(MemberId) -> Place,
    ) -> Option<MemberId> {
        let may_lead = |voter: &FitVoter| {
            let is_there = place_of(voter.member) == self.place;
            is_there && voter.weight.get() > 0 && voter.weight >= own_weight
        };
        let best = voters.filter(may_lead).max_by_key(|voter| {
            let writes = self.actions.get(&voter.member).copied();
            (voter.weight, writes, voter.log_end, voter.member)
        });
        best.map(|voter| voter.member)
    }
}

/// The component that counts who writes, as the leader, and says where leadership should be.
pub(in crate::driver) struct FollowWriters {
    placement: LeaderPlacement,
    /// Length of a sample.
    sample: Duration,
    /// For how long another place must have made nearly all actions.
    trial: Duration,
    /// For how long a leader stays at least.
    pause: Duration,
    /// Leadership is not moved before this time.
    not_before: Time,
    /// Actions of the sample under way, by origin, and when the sample ends.
    counts: BTreeMap<MemberId, u64>,
    sample_ends: Time,
    /// The window: the last samples, oldest first.
    window: VecDeque<BTreeMap<MemberId, u64>>,
    /// The other place that makes nearly all actions, and the first look that found it so.
    source: Option<(Place, Time)>,
    /// Commit index at the latest look.
    committed: LogIndex,
    /// Moves begun since the start.
    moves: u64,
    /// The target of the latest move, and why leadership moves there.
    reason: Option<(MemberId, String)>,
}

impl FollowWriters {
    pub(in crate::driver) fn new(tuning: &Tuning, now: Time) -> FollowWriters {
        FollowWriters {
            placement: LeaderPlacement::default(),
            sample: tuning.writers_sample,
            trial: tuning.writers_trial,
            pause: tuning.leader_pause,
            not_before: now,
            counts: BTreeMap::new(),
            sample_ends: now,
            window: VecDeque::new(),
            source: None,
            committed: LogIndex(0),
            moves: 0,
            reason: None,
        }
    }

    pub(in crate::driver) fn set_placement(&mut self, now: Time, placement: LeaderPlacement) {
        if placement != self.placement {
            self.placement = placement;
            self.forget(now);
        }
    }

    /// This member leads from now on.
    pub(in crate::driver) fn begin_leading(&mut self, now: Time) {
        self.not_before = now.plus(self.pause);
        self.forget(now);
    }

    /// Counts from zero.
    pub(super) fn forget(&mut self, now: Time) {
        self.counts.clear();
        self.window.clear();
        self.source = None;
        self.sample_ends = now.plus(self.sample);
    }

    /// Leader only: an action of this member was ordered.
    pub(in crate::driver) fn ordered(&mut self, origin: MemberId) {
        if self.placement == LeaderPlacement::FollowWriters {
            *self.counts.entry(origin).or_default() += 1;
        }
    }

    /// Looks, once per sample, whether leadership should move away from `own`, and says to where.
    /// Entries up to `committed` are committed.
    pub(super) fn look(
        &mut self,
        now: Time,
        committed: LogIndex,
        own: &Place,
        place_of: impl Fn(MemberId) -> Place,
    ) -> Option<WritingPlace> {
        if self.placement == LeaderPlacement::Stay || now < self.sample_ends {
            return None;
        }
        self.sample_ends = now.plus(self.sample);
        if self.window.len() == SAMPLES {
            self.window.pop_front();
        }
        self.window.push_back(std::mem::take(&mut self.counts));
        let committed_before = std::mem::replace(&mut self.committed, committed);
        let found = self.writing_place(committed_before, place_of);
        let found = found.filter(|found| found.place != *own);
        let before = self.source.take();
        let found = found?;
        let same = before.filter(|(place, _)| *place == found.place);
        let since = same.map_or(now, |(_, since)| since);
        self.source = Some((found.place.clone(), since));
        let has_paused = planted!(FollowAtOnce, now >= self.not_before, else true);
        (has_paused && now.since(since) >= self.trial).then_some(found)
    }

    /// The place that has made nearly all actions of the window.
    fn writing_place(
        &self,
        committed_before: LogIndex,
        place_of: impl Fn(MemberId) -> Place,
    ) -> Option<WritingPlace> {
        let mut actions: BTreeMap<MemberId, u64> = BTreeMap::new();
        for (origin, count) in self.window.iter().flatten() {
            *actions.entry(*origin).or_default() += count;
        }
        let mut places: BTreeMap<Place, u64> = BTreeMap::new();
        for (origin, count) in &actions {
            *places.entry(place_of(*origin)).or_default() += count;
        }
        let total: u64 = places.values().sum();
        let (place, most) = places.into_iter().max_by_key(|(_, count)| *count)?;
        let percent = most.saturating_mul(100) / total.max(1);
        (total >= ACTIONS_MIN && percent >= SHARE_PERCENT).then_some(WritingPlace {
            place,
            percent,
            committed_before,
            actions,
        })
    }

    /// Leadership is being moved to this voter, for this reason.
    pub(super) fn moves_to(&mut self, now: Time, to: MemberId, reason: String) {
        self.not_before = now.plus(self.pause);
        self.source = None;
        self.moves += 1;
        self.reason = Some((to, reason));
    }

    /// Why leadership moves to this voter, if this rule has begun it. Asked once.
    pub(super) fn take_reason(&mut self, to: MemberId) -> Option<String> {
        let (_, reason) = self.reason.take_if(|(member, _)| *member == to)?;
        Some(reason)
    }

    /// How often this member has begun to move leadership to the writers, since its start.
    pub(in crate::driver) fn moves(&self) -> u64 {
        self.moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time(9).plus(Duration::from_secs(seconds))
    }

    /// Members 1 and 2 are in the north, 3 and 4 in the south, 5 has named no region.
    fn place(member: MemberId) -> Place {
        let region: Option<Region> = match member.0 {
            1 | 2 => "north".parse().ok(),
            3 | 4 => "south".parse().ok(),
            _ => None,
        };
        Place::of(member, region.as_ref())
    }

    fn following() -> FollowWriters {
        let mut follow = FollowWriters::new(&Tuning::default(), at(0));
        follow.set_placement(at(0), LeaderPlacement::FollowWriters);
        follow.begin_leading(at(0));
        follow
    }

    /// One second in which these members write so much, at whose end member 1 looks.
    fn second(follow: &mut FollowWriters, end: u64, writes: &[(u64, u64)]) -> Option<WritingPlace> {
        for (origin, count) in writes {
            (0..*count).for_each(|_| follow.ordered(MemberId(*origin)));
        }
        follow.look(at(end), LogIndex(end), &place(MemberId(1)), place)
    }

    /// The first second at whose end leadership should move.
    fn first_move(seconds: u64, writes: impl Fn(u64) -> Vec<(u64, u64)>) -> Option<u64> {
        let mut follow = following();
        (1..=seconds).find(|s| second(&mut follow, *s, &writes(*s)).is_some())
    }

    #[test]
    fn lone_writer_of_another_place_gets_the_leader_after_trial_and_pause() {
        assert_eq!(first_move(60, |_| vec![(3, 2)]), Some(30), "the pause");
        let late = |s| if s > 40 { vec![(3, 2)] } else { vec![] };
        assert_eq!(
            first_move(80, late),
            Some(53),
            "2 s for 5 actions, and the trial"
        );
        assert_eq!(
            first_move(60, |_| vec![(5, 1)]),
            Some(30),
            "without a region"
        );
        assert_eq!(
            first_move(60, |_| vec![(2, 100)]),
            None,
            "the leader's own region"
        );
    }

    #[test]
    fn members_of_a_region_count_together_and_most_is_not_enough() {
        assert_eq!(first_move(60, |_| vec![(1, 4), (3, 3), (4, 3)]), Some(30));
        assert_eq!(first_move(60, |_| vec![(1, 41), (3, 59)]), None);
        assert_eq!(first_move(60, |_| vec![(1, 3), (3, 4), (5, 3)]), None);
    }

    #[test]
    fn bursts_and_a_few_writes_move_nothing() {
        let burst = |s| if s % 20 < 5 { vec![(3, 1000)] } else { vec![] };
        assert_eq!(first_move(600, burst), None);
        let few = |s| if s % 2 == 0 { vec![(3, 1)] } else { vec![] };
        assert_eq!(first_move(600, few), None, "less than one a second");
    }

    #[test]
    fn leader_that_stays_counts_nothing() {
        let mut follow = following();
        follow.set_placement(at(0), LeaderPlacement::Stay);
        for s in 1..60 {
            assert_eq!(second(&mut follow, s, &[(3, 9)]), None);
        }
        assert!(follow.counts.is_empty() && follow.window.is_empty());
    }

    #[test]
    fn heaviest_voter_of_the_place_leads_and_of_equals_the_one_that_writes() {
        let mut follow = following();
        let found = (1..=30).find_map(|s| second(&mut follow, s, &[(3, 1), (4, 9)]));
        let found = found.expect("the south writes");
        assert_eq!((found.percent, found.committed_before), (100, LogIndex(29)));
        let weight = |weight| LeaderWeight::new(weight).unwrap();
        let choose = |own: u8, voters: &[(u64, u8)]| {
            let voters = voters.iter().map(|(member, of)| FitVoter {
                member: MemberId(*member),
                weight: weight(*of),
                log_end: LogIndex(7),
            });
            found.choose(weight(own), voters, place).map(|id| id.0)
        };
        assert_eq!(
            choose(50, &[(2, 90), (3, 50), (4, 50)]),
            Some(4),
            "it writes most"
        );
        assert_eq!(choose(50, &[(3, 60), (4, 50)]), Some(3), "the heavier one");
        assert_eq!(
            choose(50, &[(2, 50), (3, 49), (4, 0)]),
            None,
            "lighter than the leader"
        );
        assert_eq!(choose(0, &[(3, 0), (4, 0)]), None, "weight zero never");
        assert_eq!(choose(50, &[]), None);
    }

    #[test]
    fn reason_belongs_to_the_target_and_is_given_once() {
        let mut follow = following();
        follow.moves_to(at(1), MemberId(3), "because".into());
        assert_eq!(follow.take_reason(MemberId(2)), None);
        assert_eq!(follow.take_reason(MemberId(3)), Some("because".into()));
        assert_eq!(follow.take_reason(MemberId(3)), None);
        assert_eq!(follow.moves(), 1);
    }

    /// A change of the leader, from a second on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Change {
        second: u64,
        leader: MemberId,
        is_by_weight: bool,
    }

    /// A group of five with these weights that follows its writers, led by member 1 at first. A
    /// heavier voter gets leadership in any case if `hands_over`.
    fn changes_of(writes: &[Vec<(u64, u64)>], weights: [u8; 5], hands_over: bool) -> Vec<Change> {
        let weight_of = |id: MemberId| LeaderWeight::new(weights[id.0 as usize - 1]).unwrap();
        let mut leader = MemberId(1);
        let mut follow = following();
        let mut changes = Vec::new();
        for (second, writes) in (1..).zip(writes) {
            for (origin, count) in writes {
                (0..*count).for_each(|_| follow.ordered(MemberId(*origin)));
            }
            let others = (1..=5).map(MemberId).filter(|id| *id != leader);
            let voters = others.clone().map(|member| FitVoter {
                member,
                weight: weight_of(member),
                log_end: LogIndex(0),
            });
            let found = follow.look(at(second), LogIndex(0), &place(leader), place);
            let chosen = found.and_then(|found| found.choose(weight_of(leader), voters, place));
            let heaviest = others.max_by_key(|id| weight_of(*id));
            let heavier = heaviest.filter(|id| hands_over && weight_of(*id) > weight_of(leader));
            if let Some(next) = chosen.or(heavier) {
                leader = next;
                changes.push(Change {
                    second,
                    leader,
                    is_by_weight: chosen.is_none(),
                });
                follow = FollowWriters::new(&Tuning::default(), at(second));
                follow.set_placement(at(second), LeaderPlacement::FollowWriters);
                follow.begin_leading(at(second));
            }
        }
        changes
    }

    /// The seconds at which a group of equal weights follows its writers.
    fn moves_of(writes: &[Vec<(u64, u64)>]) -> Vec<u64> {
        let changes = changes_of(writes, [50; 5], true).into_iter();
        changes.map(|change| change.second).collect()
    }

    /// Phases in which one or two members write.
    fn phases() -> impl Strategy<Value = Vec<Vec<(u64, u64)>>> {
        let writer = (1_u64..=5, 0_u64..40);
        let phase = (1_usize..40, proptest::collection::vec(writer, 0..3));
        let phases = proptest::collection::vec(phase, 1..30);
        phases.prop_map(|phases| {
            let seconds = phases.into_iter();
            let seconds = seconds.flat_map(|(length, writes)| vec![writes; length]);
            seconds.collect()
        })
    }

    proptest! {
        #[test]
        fn moves_are_at_least_the_pause_apart(writes in phases()) {
            let pause = Tuning::default().leader_pause.as_secs();
            let mut before = 0;
            for second in moves_of(&writes) {
                prop_assert!(second >= before + pause, "{second} after {before}");
                before = second;
            }
        }

        #[test]
        fn weights_and_writers_do_not_play_leadership_back_and_forth(
            writes in phases(),
            weights in proptest::array::uniform5(0_u8..4),
            hands_over in any::<bool>(),
        ) {
            let weight_of = |id: MemberId| weights[id.0 as usize - 1];
            let changes = changes_of(&writes, weights, hands_over);
            let mut before = MemberId(1);
            for change in &changes {
                let (old, new) = (weight_of(before), weight_of(change.leader));
                prop_assert!(new > 0 && new >= old, "{change:?} from weight {old} to {new}");
                before = change.leader;
            }
            let by_weight = changes.iter().filter(|change| change.is_by_weight).count();
            prop_assert!(by_weight <= 3, "weights only rise: {changes:?}");
        }

        #[test]
        fn place_that_leadership_moves_to_has_written_for_the_trial_time(writes in phases()) {
            let trial = Tuning::default().writers_trial.as_secs();
            let mut follow = following();
            for (end, writes_now) in (1_u64..).zip(&writes) {
                let Some(found) = second(&mut follow, end, writes_now) else { continue };
                let seen = &writes[(end - trial) as usize..end as usize];
                let window = SAMPLE.as_secs() * SAMPLES as u64;
                let longest_gap = seen
                    .split(|writes| {
                        writes.iter().any(|(m, n)| *n > 0 && place(MemberId(*m)) == found.place)
                    })
                    .map(<[_]>::len)
                    .max();
                prop_assert!(longest_gap.unwrap_or(0) < window as usize, "{seen:?}");
                prop_assert!(found.percent >= SHARE_PERCENT && found.place != place(MemberId(1)));
            }
        }

        #[test]
        fn writers_that_alternate_faster_than_the_trial_move_nothing(period in 1_u64..8) {
            let alternate = |s: u64| vec![(if (s / period).is_multiple_of(2) { 1 } else { 3 }, 10)];
            let writes: Vec<_> = (0..600).map(alternate).collect();
            prop_assert_eq!(moves_of(&writes), Vec::<u64>::new());
        }

        #[test]
        fn lone_writer_moves_the_leader_once(writer in 3_u64..=5, rate in 1_u64..100) {
            let writes = vec![vec![(writer, rate)]; 600];
            prop_assert_eq!(moves_of(&writes), vec![30]);
        }
    }
}

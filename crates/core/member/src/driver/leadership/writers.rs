//! Counts who writes, and says from where nearly all writes come.
//!
//! The leader counts the actions that it orders, by the region of their origin (decision 028); a
//! member without a region counts by itself. A *sample* is the actions of a second, the *window*
//! the last five samples. Two regions cannot both have [`SHARE_PERCENT`] of a window.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use synod_consensus::{MemberId, Time};
use synod_wire::Region;

use crate::tuning::Tuning;

const SAMPLES: usize = 5;
/// Least share of the window's actions that another region must have made, in percent.
const SHARE_PERCENT: u64 = 60;
/// Fewer actions in a window are no reason to move: one in each sample.
const ACTIONS_MIN: u64 = SAMPLES as u64;

/// Policy of a leader when writes come from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderPlacement {
    #[default]
    Stay,
    /// The leader hands over to a voter in the region that nearly all writes come from.
    FollowWriters,
}

/// Source of actions: a region, or a member without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::driver) enum Place {
    Region(Region),
    /// From a member that has named none.
    Member(MemberId),
}

impl Place {
    pub(super) fn of(member: MemberId, region: Option<&Region>) -> Place {
        region.map_or(Place::Member(member), |region| {
            Place::Region(region.clone())
        })
    }
}

/// Another place than the leader's, from which nearly all writes of the window have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriterShare {
    pub(super) place: Place,
    pub(super) percent: u64,
    /// Actions of the window, by origin.
    pub(super) actions: BTreeMap<MemberId, u64>,
}

pub(in crate::driver) struct WriterCounts {
    placement: LeaderPlacement,
    sample: Duration,
    /// Actions of the sample under way, by origin, and when the sample ends.
    counts: BTreeMap<MemberId, u64>,
    sample_ends: Time,
    /// The window: the last samples, oldest first.
    window: VecDeque<BTreeMap<MemberId, u64>>,
    found: Option<WriterShare>,
}

impl WriterCounts {
    pub(super) fn new(tuning: &Tuning, now: Time) -> WriterCounts {
        WriterCounts {
            placement: LeaderPlacement::default(),
            sample: tuning.writers_sample,
            counts: BTreeMap::new(),
            sample_ends: now,
            window: VecDeque::new(),
            found: None,
        }
    }

    pub(in crate::driver) fn set_placement(&mut self, now: Time, placement: LeaderPlacement) {
        if placement != self.placement {
            self.placement = placement;
            self.forget(now);
        }
    }

    pub(super) fn forget(&mut self, now: Time) {
        self.counts.clear();
        self.window.clear();
        self.found = None;
        self.sample_ends = now.plus(self.sample);
    }

    pub(in crate::driver) fn ordered(&mut self, origin: MemberId) {
        if self.placement == LeaderPlacement::FollowWriters {
            *self.counts.entry(origin).or_default() += 1;
        }
    }

    /// Looks, once per sample, from where nearly all writes have come, if not from `own`.
    pub(super) fn look(&mut self, now: Time, own: &Place, place_of: impl Fn(MemberId) -> Place) {
        if self.placement == LeaderPlacement::Stay || now < self.sample_ends {
            return;
        }
        self.sample_ends = now.plus(self.sample);
        if self.window.len() == SAMPLES {
            self.window.pop_front();
        }
        self.window.push_back(std::mem::take(&mut self.counts));
        let found = self.writing_place(place_of);
        self.found = found.filter(|found| found.place != *own);
    }

    pub(super) fn found(&self) -> Option<&WriterShare> {
        self.found.as_ref()
    }

    fn writing_place(&self, place_of: impl Fn(MemberId) -> Place) -> Option<WriterShare> {
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
        let is_found = total >= ACTIONS_MIN && percent >= SHARE_PERCENT;
        is_found.then_some(WriterShare {
            place,
            percent,
            actions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn following() -> WriterCounts {
        let mut writers = WriterCounts::new(&Tuning::default(), at(0));
        writers.set_placement(at(0), LeaderPlacement::FollowWriters);
        writers.forget(at(0));
        writers
    }

    /// One second in which these members write so much, at whose end member 1 looks. Answers the
    /// share of the place that leadership should follow.
    fn second(writers: &mut WriterCounts, end: u64, writes: &[(u64, u64)]) -> Option<u64> {
        for (origin, count) in writes {
            (0..*count).for_each(|_| writers.ordered(MemberId(*origin)));
        }
        writers.look(at(end), &place(MemberId(1)), place);
        writers.found().map(|found| found.percent)
    }

    /// The seconds in a row, of so many, in which leadership should be elsewhere: the most.
    fn longest(seconds: u64, writes: impl Fn(u64) -> Vec<(u64, u64)>) -> usize {
        let mut writers = following();
        let found = (1..=seconds).map(|s| second(&mut writers, s, &writes(s)).is_some());
        let found: Vec<bool> = found.collect();
        found
            .split(|found| !found)
            .map(<[_]>::len)
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn lone_writer_of_another_place_is_found_when_it_has_written_enough() {
        let late = |s| if s > 40 { vec![(3, 2)] } else { vec![] };
        assert_eq!(longest(60, late), 18, "2 s for 5 actions");
        assert_eq!(longest(60, |_| vec![(5, 1)]), 56, "without a region");
        assert_eq!(longest(60, |_| vec![(2, 100)]), 0, "the own region");
        let few = |s| if s % 2 == 0 { vec![(3, 1)] } else { vec![] };
        assert_eq!(longest(600, few), 0, "less than one a second");
    }

    #[test]
    fn members_of_a_region_count_together_and_most_is_not_enough() {
        let mut writers = following();
        assert_eq!(second(&mut writers, 1, &[(1, 4), (3, 3), (4, 3)]), Some(60));
        assert_eq!(longest(60, |_| vec![(1, 41), (3, 59)]), 0);
        assert_eq!(longest(60, |_| vec![(1, 3), (3, 4), (5, 3)]), 0);
    }

    #[test]
    fn bursts_end_before_a_trial_does() {
        let burst = |s| if s % 20 < 5 { vec![(3, 1000)] } else { vec![] };
        let trial = Tuning::default().writers_trial.as_secs() as usize;
        assert!(longest(600, burst) < trial);
        for period in 1..8 {
            let member = |s: u64| if (s / period).is_multiple_of(2) { 1 } else { 3 };
            assert!(longest(600, |s| vec![(member(s), 10)]) < trial, "{period}");
        }
    }

    #[test]
    fn leader_that_stays_counts_nothing() {
        let mut writers = following();
        writers.set_placement(at(0), LeaderPlacement::Stay);
        for s in 1..60 {
            assert_eq!(second(&mut writers, s, &[(3, 9)]), None);
        }
        assert!(writers.counts.is_empty() && writers.window.is_empty());
    }
}

//! Commits in several regions (decision 049): where the configuration asks for it, a leader commits
//! an entry once it is durable on a majority of the voters, and on a voter in each of so many
//! regions. This only ever delays a commit, so whatever holds of a majority holds as before.
//!
//! The driver says in which region each voter is. A voter that it does not know of may be in any:
//! so it counts as a region of its own for what is needed, and as none for what is there. Where the
//! voters are in fewer regions than the configuration asks for, all of theirs are enough, or no
//! group could begin.
//!
//! Commits wait for a region that does not answer, for ever or for the leader's *patience*. After
//! that a majority is enough, until the regions have everything up to a mark within the same time.

use std::collections::{BTreeMap, BTreeSet};

use synod_planted::planted;

use crate::core::{Core, State};
use crate::membership::config::Config;
use crate::types::{LogIndex, MemberId, Time};

/// The regions of members by number, as the driver knows them.
#[derive(Debug, Default)]
pub(crate) struct VoterRegions {
    /// `None`: the member has named no region, and is in none. Members that are not here are not
    /// known.
    places: BTreeMap<MemberId, Option<u32>>,
    /// For how long commits wait for a region, in microseconds; `None`: without end.
    patience_us: Option<u64>,
}

impl VoterRegions {
    /// How many regions a commit needs; below two, a majority is enough.
    fn needed(&self, config: &Config, without: Option<MemberId>) -> usize {
        let wanted = usize::from(config.settings.commit_regions.get());
        if wanted < 2 {
            return wanted;
        }
        let mut named = BTreeSet::new();
        let mut unknown = 0;
        for voter in config.voters().filter(|id| Some(*id) != without) {
            match self.places.get(&voter) {
                Some(Some(region)) => {
                    named.insert(*region);
                }
                Some(None) => {}
                None => unknown += 1,
            }
        }
        wanted.min(named.len() + unknown)
    }

    /// The highest index that voters in `needed` regions have on their disks.
    fn reached(
        &self,
        config: &Config,
        needed: usize,
        of: impl Fn(MemberId) -> LogIndex,
    ) -> LogIndex {
        let mut best: BTreeMap<u32, LogIndex> = BTreeMap::new();
        for voter in config.voters() {
            if let Some(Some(region)) = self.places.get(&voter) {
                let best = best.entry(*region).or_default();
                *best = of(voter).max(*best);
            }
        }
        let mut best: Vec<LogIndex> = best.into_values().collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        best.get(needed - 1).copied().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegionWait {
    /// Each region that is needed has what a majority has.
    #[default]
    None,
    /// A majority has entries that are not in enough regions.
    Waiting {
        /// When that began, or the last commit before it.
        since: Time,
        commit: LogIndex,
    },
    /// The patience is over: a majority is enough.
    GivenUp {
        /// The regions must have this much, so long after `since` at most as the patience is.
        mark: LogIndex,
        since: Time,
    },
}

impl RegionWait {
    /// Answers how far may be committed: `majority` and `regions` are how far each of them is.
    fn note(
        &mut self,
        now: Time,
        patience_us: Option<u64>,
        commit: LogIndex,
        last: LogIndex,
        (majority, regions): (LogIndex, LogIndex),
    ) -> LogIndex {
        if let RegionWait::GivenUp { mark, since } = *self {
            if regions < mark {
                return majority;
            }
            let is_late = patience_us.is_some_and(|patience| now.since_us(since) > patience);
            if is_late && regions < last {
                *self = RegionWait::GivenUp {
                    mark: last,
                    since: now,
                };
                return majority;
            }
        }
        let is_new = !matches!(*self, RegionWait::Waiting { commit: known, .. } if known == commit);
        if majority <= regions {
            *self = RegionWait::None;
        } else if is_new {
            *self = RegionWait::Waiting { since: now, commit };
        }
        majority.min(regions)
    }
}

impl Core {
    /// Sets in which regions members are, by numbers that mean the same for all; `None` for a
    /// member that has named none. Members left out count as not known: commits wait for them
    /// rather than without them.
    pub fn set_regions(&mut self, now: Time, places: BTreeMap<MemberId, Option<u32>>) {
        self.observe(now);
        if self.regions.places != places {
            self.regions.places = places;
            self.advance_commit();
        }
    }

    /// Sets for how long commits wait for a region while this member leads, in microseconds;
    /// `None`: without end.
    pub fn set_region_patience(&mut self, patience_us: Option<u64>) {
        self.regions.patience_us = patience_us;
    }

    /// In how many regions a commit needs a voter's disk: as many as the configuration asks for,
    /// unless the voters are in fewer.
    pub fn regions_needed(&self) -> usize {
        self.regions.needed(&self.log.config().config, None)
    }

    /// Whether commits would need fewer regions if this voter had no vote.
    pub fn holds_region(&self, voter: MemberId) -> bool {
        let config = &self.log.config().config;
        self.regions.needed(config, Some(voter)) < self.regions.needed(config, None)
    }

    /// The wait for regions; [`RegionWait::None`] on members that do not lead.
    pub fn region_wait(&self) -> RegionWait {
        self.leading()
            .map_or(RegionWait::None, |leading| leading.region_wait)
    }

    /// Highest index that may be committed, up to what a majority has; `own` is that of this disk.
    pub(crate) fn in_regions(&mut self, majority: LogIndex, own: LogIndex) -> LogIndex {
        let (me, commit, last) = (self.id, self.commit, self.log.last().index);
        let config = &self.log.config().config;
        let needed = self.regions.needed(config, None);
        let State::Leader(leading) = &mut self.state else {
            return majority;
        };
        let durable = |id| leading.value_of(id, me, own, |peer| peer.match_index);
        let regions = if planted!(ForgetRegions, needed < 2, else true) {
            majority
        } else {
            self.regions.reached(config, needed, durable)
        };
        let patience = self.regions.patience_us;
        let reached = (majority, regions);
        let wait = &mut leading.region_wait;
        wait.note(self.now, patience, commit, last, reached)
    }

    /// With each heartbeat of a leader: gives regions up that it has waited for long enough.
    pub(crate) fn tick_regions(&mut self) {
        let (now, mark) = (self.now, self.log.last().index);
        let patience = self.regions.patience_us;
        let State::Leader(leading) = &mut self.state else {
            return;
        };
        let RegionWait::Waiting { since, .. } = leading.region_wait else {
            return;
        };
        if patience.is_some_and(|patience| now.since_us(since) >= patience) {
            leading.region_wait = RegionWait::GivenUp { mark, since: now };
            self.advance_commit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;

    fn group(wanted: u8, voters: u64) -> Config {
        use crate::membership::config::{Member, Role, VersionRange};
        use crate::membership::settings::{CommitRegions, GroupSetting};
        let member = |id: u64| Member {
            role: Role::Voter,
            has_data: true,
            name: id.to_string(),
            address: format!("{id}:1"),
            versions: VersionRange { min: 1, max: 1 },
            certificate: None,
        };
        let wanted = CommitRegions::new(wanted).unwrap();
        let config = Config::default();
        Config {
            settings: config.settings.with(GroupSetting::CommitRegions(wanted)),
            members: (1..=voters).map(|id| (MemberId(id), member(id))).collect(),
            ..config
        }
    }

    fn regions(places: &[(u64, Option<u32>)]) -> VoterRegions {
        let places = places.iter().map(|(id, place)| (MemberId(*id), *place));
        VoterRegions {
            places: places.collect(),
            patience_us: None,
        }
    }

    #[test]
    fn regions_of_the_voters_are_enough_and_an_unknown_one_may_be_another() {
        let three = group(2, 3);
        let needed = |places: &[(u64, Option<u32>)]| regions(places).needed(&three, None);
        assert_eq!(needed(&[(1, Some(0)), (2, Some(0)), (3, Some(1))]), 2);
        assert_eq!(needed(&[(1, Some(0)), (2, Some(0)), (3, Some(0))]), 1);
        assert_eq!(needed(&[(1, Some(0)), (2, Some(0))]), 2, "3 is not known");
        assert_eq!(needed(&[(1, Some(0)), (2, None), (3, None)]), 1);
        assert_eq!(needed(&[(1, None), (2, None), (3, None)]), 0);
        let known = regions(&[(1, Some(0)), (2, Some(0)), (3, Some(1))]);
        assert_eq!(known.needed(&group(1, 3), None), 1);
        assert_eq!(known.needed(&three, Some(MemberId(3))), 1);
        assert_eq!(known.needed(&three, Some(MemberId(2))), 2);
    }

    #[test]
    fn region_that_is_given_up_counts_again_once_it_keeps_up() {
        let (mut wait, patience) = (RegionWait::None, Some(SECOND));
        let index = LogIndex;
        let note = |wait: &mut RegionWait, now, commit, majority, regions| {
            let reached = (index(majority), index(regions));
            let last = index(20);
            wait.note(Time(now), patience, index(commit), last, reached)
                .0
        };
        assert_eq!(note(&mut wait, 0, 5, 7, 6), 6);
        assert_eq!(note(&mut wait, 9, 6, 8, 6), 6);
        let since = |since| RegionWait::Waiting {
            since: Time(since),
            commit: index(6),
        };
        assert_eq!(wait, since(9), "the wait begins with the last commit");
        assert_eq!(note(&mut wait, SECOND, 6, 9, 6), 6);
        assert_eq!(wait, since(9));
        let given_up = |mark, since| RegionWait::GivenUp {
            mark: index(mark),
            since: Time(since),
        };
        wait = given_up(10, SECOND);
        assert_eq!(note(&mut wait, 2 * SECOND, 6, 9, 6), 9);
        assert_eq!(note(&mut wait, 4 * SECOND, 9, 15, 10), 15, "too late");
        assert_eq!(wait, given_up(20, 4 * SECOND));
        assert_eq!(note(&mut wait, 5 * SECOND, 15, 25, 20), 20);
        assert!(matches!(wait, RegionWait::Waiting { .. }), "{wait:?}");
        assert_eq!(note(&mut wait, 6 * SECOND, 20, 25, 25), 25);
        assert_eq!(wait, RegionWait::None);
    }

    proptest! {
        #[test]
        fn what_regions_have_reached_survives_the_loss_of_all_but_one_of_them(
            wanted in 1u8..5,
            voters in prop::collection::vec((0u32..4, 0u64..30), 1..8),
        ) {
            let config = group(wanted, voters.len() as u64);
            let place = |(n, (region, _)): (usize, &(u32, u64))| (n as u64 + 1, Some(*region));
            let places: Vec<_> = voters.iter().enumerate().map(place).collect();
            let known = regions(&places);
            let needed = known.needed(&config, None);
            let of = |id: MemberId| LogIndex(voters[id.0 as usize - 1].1);
            let reached = known.reached(&config, needed, of);
            let holding = |index: LogIndex| {
                let holders = voters.iter().filter(|(_, has)| *has >= index.0);
                holders.map(|(region, _)| region).collect::<BTreeSet<_>>().len()
            };
            prop_assert!(holding(reached) >= needed);
            prop_assert!(holding(reached.next()) < needed);
        }
    }
}

//! Weights and regions of members: each reports its own to the leader, whose status has them all.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{Config, LeaderWeight, MemberId};
use synod_wire::{DataState, Region, Report};

/// The weights of the members that are fit to lead. A member whose database is not in step is busy,
/// with its disk among other things; a member without a database never is.
pub(super) fn weights<'a>(
    config: &Config,
    reports: impl Iterator<Item = &'a Report>,
) -> BTreeMap<MemberId, LeaderWeight> {
    let is_fit = |report: &&Report| {
        let has_data = config.members.get(&report.member).map(|m| m.has_data);
        report.state == DataState::Synced || has_data == Some(false)
    };
    let fit = reports.filter(is_fit);
    fit.map(|report| (report.member, report.weight)).collect()
}

/// The component that knows the regions of members, also of those that are absent now.
pub(in crate::driver) struct Regions {
    me: MemberId,
    /// This member's own, as its operator has named it.
    own: Option<Region>,
    /// Without those that have not been heard; `None`: it has named none.
    others: BTreeMap<MemberId, Option<Region>>,
}

impl Regions {
    pub(in crate::driver) fn new(me: MemberId, own: Option<Region>) -> Regions {
        let others = BTreeMap::new();
        Regions { me, own, others }
    }

    pub(super) fn note<'a>(
        &mut self,
        config: &Config,
        reports: impl Iterator<Item = &'a Report>,
    ) -> bool {
        let known = self.others.len();
        self.others.retain(|id, _| config.members.contains_key(id));
        let mut changed = self.others.len() != known;
        for report in reports {
            changed |= self.hear(report);
        }
        changed
    }

    /// Whether that is news.
    pub(super) fn hear(&mut self, report: &Report) -> bool {
        let (member, region) = (report.member, &report.region);
        if member == self.me || self.others.get(&member) == Some(region) {
            return false;
        }
        self.others.insert(member, region.clone());
        true
    }

    /// The region that a member has reported last; none: it has named none, or is not known.
    pub(in crate::driver) fn of(&self, member: MemberId) -> Option<&Region> {
        self.known(member).flatten()
    }

    /// `None`: it is not known; within: the member has named none.
    pub(super) fn known(&self, member: MemberId) -> Option<Option<&Region>> {
        if member == self.me {
            Some(self.own.as_ref())
        } else {
            self.others.get(&member).map(Option::as_ref)
        }
    }

    /// The regions of the members that are known, as numbers.
    pub(super) fn numbers(&self) -> BTreeMap<MemberId, Option<u32>> {
        let all = || {
            let others = self.others.iter();
            others.chain([(&self.me, &self.own)])
        };
        let names: BTreeSet<&Region> = all().filter_map(|(_, region)| region.as_ref()).collect();
        let numbers: BTreeMap<&Region, u32> = names.into_iter().zip(0..).collect();
        let number = |region: &Option<Region>| numbers.get(region.as_ref()?).copied();
        all().map(|(id, region)| (*id, number(region))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::{voters_and_learners, with_logger};

    fn report(member: u64, region: &str) -> Report {
        Report {
            member: MemberId(member),
            region: region.parse().ok(),
            ..Report::default()
        }
    }

    #[test]
    fn region_of_an_absent_member_stays_known_until_it_is_removed() {
        let mut regions = Regions::new(MemberId(9), "west".parse().ok());
        let both = [report(1, "north"), report(2, "south")];
        assert!(regions.note(&voters_and_learners(2, 0), both.iter()));
        assert!(!regions.note(&voters_and_learners(2, 0), both.iter()));
        assert!(
            !regions.note(&voters_and_learners(2, 0), both[..1].iter()),
            "2 is absent"
        );
        let south = regions.of(MemberId(2)).map(Region::as_str);
        assert_eq!(south, Some("south"));
        assert!(
            regions.note(&voters_and_learners(1, 0), both[..1].iter()),
            "2 is removed"
        );
        assert_eq!(regions.known(MemberId(2)), None);
        let numbers = [(MemberId(1), Some(0)), (MemberId(9), Some(1))];
        assert_eq!(regions.numbers(), numbers.into());
        assert!(regions.note(&voters_and_learners(1, 0), [report(1, "")].iter()));
        assert_eq!(regions.known(MemberId(1)), Some(None));
        assert_eq!(regions.of(MemberId(1)), None);
        assert!(
            !regions.note(&voters_and_learners(1, 0), [report(9, "east")].iter()),
            "its own"
        );
        assert_eq!(regions.of(MemberId(9)).map(Region::as_str), Some("west"));
    }

    #[test]
    fn only_members_in_step_or_without_a_database_have_a_weight() {
        let states = [
            (1, DataState::Synced),
            (2, DataState::Joined),
            (3, DataState::Disconnected),
        ];
        let reports = states.map(|(id, state)| Report {
            state,
            ..report(id, "")
        });
        let weights = weights(&with_logger(1..=3), reports.iter());
        let fit: Vec<u64> = weights.keys().map(|id| id.0).collect();
        assert_eq!(fit, [1, 3]);
    }
}

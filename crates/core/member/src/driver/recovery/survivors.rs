//! Reports of other survivors.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Time};
use synod_wire::SurvivorReport;

/// A report counts for so long. A survivor repeats it much more often.
const CURRENT_FOR: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(super) struct Survivors {
    reports: BTreeMap<MemberId, (Time, SurvivorReport)>,
}

impl Survivors {
    pub(super) fn report(&mut self, now: Time, member: MemberId, report: SurvivorReport) {
        self.reports.insert(member, (now, report));
    }

    pub(super) fn keep_only(&mut self, is_kept: impl Fn(MemberId) -> bool) {
        self.reports.retain(|id, _| is_kept(*id));
    }

    /// Latest report of a survivor, if it is a moment old at most, and its age.
    pub(super) fn current(
        &self,
        now: Time,
        member: MemberId,
    ) -> Option<(Duration, SurvivorReport)> {
        let (at, report) = self.reports.get(&member)?;
        let age = now.since(*at);
        (age < CURRENT_FOR).then_some((age, *report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemberId = MemberId(1);

    fn at(ms: u64) -> Time {
        Time(7).plus(Duration::from_millis(ms))
    }

    #[test]
    fn report_counts_for_a_moment() {
        let mut survivors = Survivors::default();
        survivors.report(at(0), ONE, SurvivorReport::default());
        let age = |ms| survivors.current(at(ms), ONE).map(|(age, _)| age);
        assert_eq!(age(2999), Some(Duration::from_millis(2999)));
        assert_eq!(age(3000), None);
        survivors.keep_only(|_| false);
        assert_eq!(survivors.current(at(0), ONE), None);
    }
}

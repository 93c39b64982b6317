//! Announcements of leaders about their admission, added up over leaders: how long and how often
//! the group's clients waited for databases.

use std::time::Duration;

use synod_consensus::MemberId;
use synod_wire::PaceReport;

#[derive(Default)]
pub(super) struct Announced {
    last: Option<PaceReport>,
    paused: Duration,
    pauses: u64,
    caused: u64,
}

impl Announced {
    /// The leader of a term announces its counters, which began with the term. Those of the first
    /// term that this member hears of began before it came.
    pub(super) fn note(&mut self, me: MemberId, report: PaceReport) {
        let (paused_us, pauses) = match &self.last {
            Some(last) if last.term == report.term => (last.paused_us, last.pauses),
            Some(_) => (0, 0),
            None => (report.paused_us, report.pauses),
        };
        let more = report.pauses.saturating_sub(pauses);
        let more_us = report.paused_us.saturating_sub(paused_us);
        self.paused = self.paused.saturating_add(Duration::from_micros(more_us));
        self.pauses = self.pauses.saturating_add(more);
        if report.slowest == me {
            self.caused = self.caused.saturating_add(more);
        }
        self.last = Some(report);
    }

    pub(super) fn last(&self) -> Option<&PaceReport> {
        self.last.as_ref()
    }

    /// For how long, how often, and how often because of this member.
    pub(super) fn counters(&self) -> (Duration, u64, u64) {
        (self.paused, self.pauses, self.caused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::Term;

    fn report(term: u64, paused_us: u64, pauses: u64, slowest: u64) -> PaceReport {
        PaceReport {
            term: Term(term),
            paused_us,
            pauses,
            slowest: MemberId(slowest),
            ..PaceReport::default()
        }
    }

    #[test]
    fn counters_are_added_up_over_leaders_from_this_members_start() {
        let (me, mut announced) = (MemberId(1), Announced::default());
        announced.note(me, report(3, 900, 9, 1));
        assert_eq!(announced.counters(), (Duration::ZERO, 0, 0));
        announced.note(me, report(3, 1000, 10, 2));
        announced.note(me, report(3, 1300, 12, 1));
        announced.note(me, report(4, 50, 1, 1));
        let paused = Duration::from_micros(450);
        assert_eq!(announced.counters(), (paused, 4, 3));
    }
}

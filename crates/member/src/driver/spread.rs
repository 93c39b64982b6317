//! How far what is committed has spread to databases: what a log may drop if it has to.
//!
//! A log that reaches its disk bound drops what some members still need. It must not drop what is nowhere
//! else (promise P1): only what most databases of those present have surely flushed. If that is not
//! enough, the leader takes no new actions until it is (`Driver::order`).

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{Config, Seqno, Time};
use synod_wire::{DataState, Report};

/// Samples within one margin.
const SAMPLES: u32 = 8;

/// See the module.
pub(super) struct Spread {
    /// What was applied so long ago is flushed.
    margin: Duration,
    samples: VecDeque<(Time, Seqno)>,
    flushed: Seqno,
}

impl Spread {
    pub(super) fn new(margin: Duration) -> Spread {
        Spread {
            margin,
            samples: VecDeque::new(),
            flushed: Seqno(0),
        }
    }

    /// Notes what the members present say of their databases.
    pub(super) fn note(&mut self, now: Time, config: &Config, reports: &[Report]) {
        if let Some(applied) = applied_by_most(config, reports) {
            let step = self.margin / SAMPLES;
            let is_due = |last: &(Time, Seqno)| now.since(last.0) >= step;
            if self.samples.back().is_none_or(is_due) {
                self.samples.push_back((now, applied));
            }
        }
        let margin = self.margin;
        let is_flushed = |sample: &(Time, Seqno)| now.since(sample.0) >= margin;
        while self.samples.front().is_some_and(is_flushed) {
            if let Some((_, applied)) = self.samples.pop_front() {
                self.flushed = self.flushed.max(applied);
            }
        }
    }

    /// Most databases have this on their own disks.
    pub(super) fn flushed(&self) -> Seqno {
        self.flushed
    }
}

/// As far as more than half of the databases present have come; none if there is no database.
fn applied_by_most(config: &Config, reports: &[Report]) -> Option<Seqno> {
    let whole = |report: &&Report| {
        let has_data = config
            .members
            .get(&report.member)
            .is_some_and(|m| m.has_data);
        has_data
            && matches!(
                report.state,
                DataState::Joined | DataState::Synced | DataState::Donor
            )
    };
    let mut applied: Vec<Seqno> = reports.iter().filter(whole).map(|r| r.applied).collect();
    applied.sort_unstable();
    // Of four, three have come as far as the second; of three, two.
    applied.get(applied.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{Member, MemberId, Role, SessionId, VersionRange};

    fn config(with_data: &[u64], without: &[u64]) -> Config {
        let member = |id: u64, has_data| {
            let member = Member {
                role: Role::Voter,
                has_data,
                name: id.to_string(),
                address: String::new(),
                versions: VersionRange { min: 1, max: 1 },
            };
            (MemberId(id), member)
        };
        let data = with_data.iter().map(|id| member(*id, true));
        let loggers = without.iter().map(|id| member(*id, false));
        Config {
            protocol: 1,
            members: data.chain(loggers).collect(),
        }
    }

    fn report(member: u64, applied: i64, state: DataState) -> Report {
        Report {
            member: MemberId(member),
            session: SessionId(1),
            state,
            applied: Seqno(applied),
            ..Report::default()
        }
    }

    #[test]
    fn most_databases_count_and_nothing_else() {
        let synced = |reports: &[(u64, i64)]| -> Vec<Report> {
            let report = |(id, applied): &(u64, i64)| report(*id, *applied, DataState::Synced);
            reports.iter().map(report).collect()
        };
        let three = config(&[1, 2, 3], &[4]);
        let most = |reports: &[Report]| applied_by_most(&three, reports);
        assert_eq!(most(&[]), None);
        assert_eq!(most(&synced(&[(4, 99)])), None, "a logger");
        assert_eq!(most(&synced(&[(1, 10), (2, 20), (3, 30)])), Some(Seqno(20)));
        assert_eq!(most(&synced(&[(1, 10), (2, 20)])), Some(Seqno(10)));
        let mut reports = synced(&[(1, 10), (2, 20), (3, 30)]);
        reports[2].state = DataState::Joining;
        assert_eq!(most(&reports), Some(Seqno(10)), "half a copy is none");
    }

    #[test]
    fn what_was_applied_counts_after_the_margin() {
        let mut spread = Spread::new(Duration::from_secs(60));
        let start = Time(1_000);
        let config = config(&[1], &[]);
        let mut note = |seconds: u64, applied: i64| {
            let now = start.plus(Duration::from_secs(seconds));
            spread.note(now, &config, &[report(1, applied, DataState::Synced)]);
            assert!(spread.samples.len() <= SAMPLES as usize + 1);
            spread.flushed()
        };
        assert_eq!(note(0, 5), Seqno(0));
        for second in 1..60 {
            assert_eq!(note(second, 5 + second as i64), Seqno(0));
        }
        assert_eq!(note(60, 100), Seqno(5));
        assert!(note(70, 200) < Seqno(20));
    }
}

//! The rates and delays of the last minutes, one point for each look.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::Serialize;
use synod_admin::status::Status;

/// Points that are kept: five minutes.
const POINTS_MAX: usize = 300;
/// The step of a commit whose time is drawn: from its submission until it is durable on a majority.
const STEP: &str = "order";

/// Values of one look; none: unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Time, in milliseconds since 1970, by the agent's clock.
    pub(crate) at_unix_ms: u64,
    /// Commits of the group per second since the look before.
    pub(crate) commits_per_second: Option<f64>,
    /// Transactions of the server's clients that lost, per second since the look before.
    pub(crate) conflicts_per_second: Option<f64>,
    /// Half of the commits of the server's clients took at most so long.
    pub(crate) commit_p50_us: Option<u64>,
    /// 99 of a hundred did.
    pub(crate) commit_p99_us: Option<u64>,
    /// For how long each member's database has lacked a committed action, by name.
    pub(crate) lags_ms: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
    last: Option<Counted>,
}

#[derive(Clone, Debug)]
struct Counted {
    at: Instant,
    /// Rates are between looks at one process in one group.
    pid: u32,
    group: String,
    commits: i64,
    conflicts: u64,
}

impl History {
    /// The points, oldest first.
    pub(crate) fn points(&self) -> &VecDeque<Point> {
        &self.points
    }

    /// Notes what a look at `at` has shown; none: the server could not be asked. Returns the point.
    pub(crate) fn note(&mut self, at: Instant, unix_ms: u64, status: Option<&Status>) -> Point {
        let counted = status.and_then(|status| Counted::of(at, status));
        let rates = self.last.as_ref().zip(counted.as_ref());
        let rates = rates.and_then(|(before, now)| now.rates_since(before));
        self.last = counted;
        let mut point = status.map(Point::of).unwrap_or_default();
        point.at_unix_ms = unix_ms;
        point.commits_per_second = rates.map(|(commits, _)| commits);
        point.conflicts_per_second = rates.map(|(_, conflicts)| conflicts);
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point.clone());
        point
    }
}

impl Point {
    fn of(status: &Status) -> Point {
        let step = status.commit_steps.iter().find(|step| step.step == STEP);
        let step = step.filter(|step| step.samples > 0);
        let present = status.members.iter().filter(|member| member.answers());
        let lags = present.filter_map(|member| Some((member.name.clone(), member.lag_ms?)));
        Point {
            commit_p50_us: step.map(|step| step.p50_us),
            commit_p99_us: step.map(|step| step.p99_us),
            lags_ms: lags.collect(),
            ..Point::default()
        }
    }
}

impl Counted {
    fn of(at: Instant, status: &Status) -> Option<Counted> {
        let group = status.group.as_ref()?;
        Some(Counted {
            at,
            pid: status.server.pid,
            group: group.id.clone(),
            commits: group.commit_seqno,
            conflicts: status.conflicts.total(),
        })
    }

    /// Commits and conflicts per second; none if the counts are not of one history.
    fn rates_since(&self, before: &Counted) -> Option<(f64, f64)> {
        let elapsed = self.at.saturating_duration_since(before.at);
        let is_same = self.pid == before.pid && self.group == before.group;
        if !is_same || elapsed == Duration::ZERO {
            return None;
        }
        let commits = u64::try_from(self.commits.checked_sub(before.commits)?).ok()?;
        let conflicts = self.conflicts.checked_sub(before.conflicts)?;
        let rate = |count: u64| count as f64 / elapsed.as_secs_f64();
        Some((rate(commits), rate(conflicts)))
    }
}

#[cfg(test)]
mod tests {
    use synod_admin::status::{CommitStep, Group, Member};

    use super::*;

    fn status(commits: i64, refused: u64) -> Status {
        let mut status = Status {
            group: Some(Group {
                id: "g".into(),
                commit_seqno: commits,
                ..Group::default()
            }),
            ..Status::default()
        };
        status.conflicts.refused = refused;
        status
    }

    #[test]
    fn rates_are_counts_since_the_look_before_over_its_age() {
        let mut history = History::default();
        let begin = Instant::now();
        let first = history.note(begin, 1, Some(&status(100, 5)));
        assert_eq!(first.commits_per_second, None);
        let later = begin + Duration::from_secs(2);
        let second = history.note(later, 2, Some(&status(150, 6)));
        assert_eq!(second.commits_per_second, Some(25.0));
        assert_eq!(second.conflicts_per_second, Some(0.5));
        assert_eq!(history.points().len(), 2);
    }

    /// A rate over them would be a peak that never was.
    #[test]
    fn counts_of_another_process_or_group_and_counts_that_fell_make_no_rate() {
        let other_process = |status: &mut Status| status.server.pid = 7;
        let other_group = |status: &mut Status| status.group = Some(Group::default());
        let fallen = |status: &mut Status| status.conflicts.refused = 4;
        for change in [other_process, other_group, fallen] {
            let mut history = History::default();
            let begin = Instant::now();
            history.note(begin, 1, Some(&status(100, 5)));
            let mut next = status(200, 5);
            change(&mut next);
            let point = history.note(begin + Duration::from_secs(1), 2, Some(&next));
            assert_eq!(point.commits_per_second, None);
        }
        let mut history = History::default();
        let begin = Instant::now();
        history.note(begin, 1, Some(&status(100, 5)));
        history.note(begin + Duration::from_secs(1), 2, None);
        let point = history.note(begin + Duration::from_secs(2), 3, Some(&status(300, 5)));
        assert_eq!(point.commits_per_second, None);
    }

    #[test]
    fn what_is_not_measured_is_none_and_the_number_of_points_is_bounded() {
        let mut status = status(1, 0);
        status.commit_steps = vec![CommitStep {
            step: STEP.into(),
            ..CommitStep::default()
        }];
        let member = |name: &str, is_present| Member {
            name: name.into(),
            is_present,
            lag_ms: Some(3),
            ..Member::default()
        };
        status.members = vec![member("a", true), member("b", false)];
        let mut history = History::default();
        for at in 0..=POINTS_MAX as u64 {
            history.note(Instant::now(), at, Some(&status));
        }
        assert_eq!(history.points().len(), POINTS_MAX);
        let oldest = &history.points()[0];
        assert_eq!((oldest.at_unix_ms, oldest.commit_p50_us), (1, None));
        assert_eq!(oldest.lags_ms, BTreeMap::from([("a".to_owned(), 3)]));
    }
}

//! Positions of the members' databases, as the leader knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Seqno, SessionId, Time};
use synod_planted::planted;
use synod_wire::{AppliedPosition, DataState};

use super::FEEDBACK_AGE_MAX;

#[derive(Clone, Copy)]
struct Applier {
    heard: Time,
    position: AppliedPosition,
    /// Since when it has had something to pass, and has passed nothing.
    stands_since: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// So many databases and the loggers that answer are a majority of the voters. At least one.
    databases: usize,
    /// A database that has passed nothing for so long, although it had something to pass, is not
    /// waited for.
    patience: Duration,
}

impl Needed {
    /// `loggers` have no database and answer the leader.
    pub(super) fn new(voters: usize, loggers: usize, patience: Duration) -> Needed {
        let databases = (voters / 2 + 1).saturating_sub(loggers).max(1);
        Needed {
            databases,
            patience,
        }
    }
}

/// The position and the lag of a majority of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MajorityPace {
    /// Everything up to here has left the commit order of a majority. It never goes back while the
    /// same databases are counted.
    pub(super) left: Seqno,
    /// None of them lags more.
    pub(super) lag: Duration,
    /// Committed actions that a majority does not have.
    pub(super) backlog: u64,
    pub(super) slowest: MemberId,
}

#[derive(Default)]
pub(super) struct Appliers {
    known: BTreeMap<MemberId, Applier>,
}

impl Appliers {
    pub(super) fn note(&mut self, now: Time, member: MemberId, position: AppliedPosition) {
        let before = self.known.get(&member);
        let same = before.filter(|before| before.position.left == position.left);
        let applier = Applier {
            heard: now,
            position,
            stands_since: same.and_then(|before| before.stands_since),
        };
        self.known.insert(member, applier);
    }

    pub(super) fn look(&mut self, now: Time, committed: Seqno) {
        for applier in self.known.values_mut() {
            if applier.position.left < committed {
                applier.stands_since.get_or_insert(now);
            } else {
                applier.stands_since = None;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    pub(super) fn lags(
        &self,
        now: Time,
        committed: Seqno,
    ) -> impl Iterator<Item = (MemberId, Seqno, Duration)> + '_ {
        self.known.iter().map(move |(member, applier)| {
            let lag = lag_of(now, committed, applier);
            (*member, applier.position.left, lag)
        })
    }

    /// The majority of `members`, each named with its present session, that keeps up best. Counted
    /// are databases that follow the group: not those of donors, joiners, and of members whose
    /// operators have taken them out (desynced); nor those that stand still while others move.
    /// Loggers that answer are a part of the majority, so fewer databases are needed beside them.
    pub(super) fn best_majority(
        &self,
        now: Time,
        committed: Seqno,
        members: impl Iterator<Item = (MemberId, SessionId)>,
        needed: Needed,
    ) -> Option<MajorityPace> {
        let following = members.filter_map(|(member, session)| {
            let applier = self.known.get(&member)?;
            let position = &applier.position;
            let follows = position.session == session && position.state == DataState::Synced;
            let counted = (lag_of(now, committed, applier), member, position.left);
            follows.then_some((applier.stands_still(now, needed.patience), counted))
        });
        let following: Vec<(bool, (Duration, MemberId, Seqno))> = following.collect();
        let all_stand = following.iter().all(|(stands, _)| *stands);
        let (all, half) = (following.len(), following.len() / 2);
        let counted = following.into_iter();
        let counted = counted.filter(|(stands, _)| all_stand || !stands);
        let mut counted: Vec<(Duration, MemberId, Seqno)> =
            counted.map(|(_, counted)| counted).collect();
        counted.sort_unstable();
        let majority = needed.databases.min(half + 1);
        let majority = planted!(SlowestSetsThePace, majority, else all).min(counted.len());
        let best = counted.get(..majority)?;
        let (lag, slowest, _) = *best.last()?;
        // By position, and not of those that lag least: which these are changes all the time, and
        // with it the position would go to and fro.
        let mut positions: Vec<Seqno> = counted.iter().map(|(_, _, left)| *left).collect();
        positions.sort_unstable_by(|a, b| b.cmp(a));
        let left = *positions.get(majority.checked_sub(1)?)?;
        let backlog = u64::try_from(committed.0.saturating_sub(left.0)).unwrap_or(0);
        Some(MajorityPace {
            left,
            lag,
            backlog,
            slowest,
        })
    }
}

impl Applier {
    fn stands_still(&self, now: Time, patience: Duration) -> bool {
        self.stands_since
            .is_some_and(|since| now.since(since) >= patience)
    }
}

/// A member that has been silent with work left lags more by now.
fn lag_of(now: Time, committed: Seqno, applier: &Applier) -> Duration {
    let position = &applier.position;
    let lag = Duration::from_micros(position.lag_us);
    if position.left < committed {
        lag + now.since(applier.heard).saturating_sub(FEEDBACK_AGE_MAX)
    } else {
        lag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(9_000_000);

    fn position(left: i64, lag_ms: u64, state: DataState) -> AppliedPosition {
        AppliedPosition {
            session: SessionId(1),
            state,
            left: Seqno(left),
            released: Seqno(left),
            lag_us: lag_ms * 1000,
        }
    }

    fn appliers(known: &[(u64, i64, u64, DataState)]) -> Appliers {
        let mut appliers = Appliers::default();
        for (member, left, lag_ms, state) in known {
            appliers.note(NOW, MemberId(*member), position(*left, *lag_ms, *state));
        }
        appliers
    }

    const PATIENCE: Duration = Duration::from_secs(5);

    fn best(appliers: &Appliers, now: Time, members: u64) -> Option<(i64, u64, u64)> {
        best_beside(appliers, now, members, 0)
    }

    /// Best majority of members 1 to `members`, beside so many loggers that answer.
    fn best_beside(
        appliers: &Appliers,
        now: Time,
        members: u64,
        loggers: usize,
    ) -> Option<(i64, u64, u64)> {
        let needed = Needed::new(members as usize + loggers, loggers, PATIENCE);
        let members = (1..=members).map(|id| (MemberId(id), SessionId(1)));
        let pace = appliers.best_majority(now, Seqno(100), members, needed)?;
        let lag_ms = pace.lag.as_millis() as u64;
        Some((pace.left.0, lag_ms, pace.slowest.0))
    }

    use DataState::{Donor, Joining, Synced};

    #[test]
    fn slow_minority_does_not_count() {
        let three = appliers(&[
            (1, 90, 3, Synced),
            (2, 10, 60_000, Synced),
            (3, 80, 7, Synced),
        ]);
        assert_eq!(best(&three, NOW, 3), Some((80, 7, 3)));
        let five = appliers(&[
            (1, 90, 3, Synced),
            (2, 10, 60_000, Synced),
            (3, 80, 7, Synced),
            (4, 20, 50_000, Synced),
            (5, 70, 9, Synced),
        ]);
        assert_eq!(best(&five, NOW, 5), Some((70, 9, 5)));
    }

    /// Lags are as old as the messages that bring them, so the order by lag and the order by
    /// position differ for moments.
    #[test]
    fn position_does_not_go_back_when_the_order_of_lags_changes() {
        let mut three = appliers(&[
            (1, 90, 30, Synced),
            (2, 50, 40, Synced),
            (3, 80, 35, Synced),
        ]);
        assert_eq!(best(&three, NOW, 3), Some((80, 35, 3)));
        three.note(NOW, MemberId(2), position(51, 20, Synced));
        assert_eq!(best(&three, NOW, 3), Some((80, 30, 1)));
    }

    #[test]
    fn slow_majority_counts_and_who_is_away_does_not() {
        let two_slow = appliers(&[
            (1, 90, 3, Synced),
            (2, 10, 6000, Synced),
            (3, 8, 7000, Synced),
        ]);
        assert_eq!(best(&two_slow, NOW, 3), Some((10, 6000, 2)));
        let away = appliers(&[
            (1, 90, 3, Synced),
            (2, 10, 6000, Donor),
            (3, 8, 7000, Joining),
        ]);
        assert_eq!(best(&away, NOW, 3), Some((90, 3, 1)));
        assert_eq!(best(&Appliers::default(), NOW, 3), None);
    }

    #[test]
    fn loggers_take_the_place_of_databases_in_the_majority() {
        let two = appliers(&[(1, 90, 3, Synced), (2, 10, 60_000, Synced)]);
        assert_eq!(best_beside(&two, NOW, 2, 0), Some((10, 60_000, 2)));
        assert_eq!(best_beside(&two, NOW, 2, 1), Some((90, 3, 1)));
        assert_eq!(best_beside(&two, NOW, 2, 2), Some((90, 3, 1)));
        let three = appliers(&[
            (1, 90, 3, Synced),
            (2, 10, 60_000, Synced),
            (3, 80, 7, Synced),
        ]);
        assert_eq!(best_beside(&three, NOW, 3, 1), Some((80, 7, 3)));
        assert_eq!(best_beside(&three, NOW, 3, 2), Some((90, 3, 1)));
    }

    #[test]
    fn database_that_stands_still_is_not_waited_for_while_others_move() {
        let later = |ms| NOW.plus(Duration::from_millis(ms));
        let mut two = appliers(&[(1, 80, 0, Synced), (2, 10, 0, Synced)]);
        two.look(NOW, Seqno(100));
        let slow = best(&two, later(4999), 2).map(|(left, _, slowest)| (left, slowest));
        assert_eq!(slow, Some((10, 2)));
        two.note(later(4999), MemberId(1), position(90, 3, Synced));
        two.note(later(4999), MemberId(2), position(10, 5000, Synced));
        two.look(later(5000), Seqno(100));
        assert_eq!(best(&two, later(5000), 2), Some((90, 3, 1)));
        two.note(later(5001), MemberId(2), position(11, 5000, Synced));
        two.look(later(5001), Seqno(100));
        assert_eq!(best(&two, later(5001), 2), Some((11, 5000, 2)));
        let all_stand = best(&two, later(20_000), 2).map(|(left, ..)| left);
        assert_eq!(all_stand, Some(11), "one action takes long on all");
        two.look(later(20_000), Seqno(11));
        two.look(later(20_001), Seqno(100));
        let idle = best(&two, later(20_001), 2).map(|(left, ..)| left);
        assert_eq!(idle, Some(11), "it had nothing to pass");
    }

    #[test]
    fn feedback_of_another_session_does_not_count() {
        let mut one = appliers(&[(1, 90, 3, Synced)]);
        let other = AppliedPosition {
            session: SessionId(2),
            ..position(50, 900, Synced)
        };
        one.note(NOW, MemberId(2), other);
        assert_eq!(best(&one, NOW, 2), Some((90, 3, 1)));
    }

    #[test]
    fn silent_member_with_work_left_lags_more_and_more() {
        let one = appliers(&[(1, 90, 3, Synced)]);
        let later = |ms| NOW.plus(Duration::from_millis(ms));
        assert_eq!(best(&one, later(300), 1), Some((90, 3, 1)));
        assert_eq!(best(&one, later(1300), 1), Some((90, 1003, 1)));
        let done = appliers(&[(1, 100, 0, Synced)]);
        assert_eq!(best(&done, later(1300), 1), Some((100, 0, 1)));
    }
}

//! A slow minority changes nothing (P5), and the lag of the majority that keeps up best stays
//! within a bound (P7).
//!
//! The lag of a database is the time since the first action that it lacks was committed by any
//! member. So it is known here whatever members say of themselves.

use std::collections::VecDeque;

use synod_consensus::{MemberId, Seqno};

use super::{Checked, require};

/// The name of these rules.
const RULE: &str = "the pace is that of the majority that keeps up best";

/// Times at which actions were committed.
///
/// Invariant: ascending by seqno and by time.
#[derive(Default)]
pub(crate) struct Lags {
    commits: VecDeque<(Seqno, u64)>,
}

impl Lags {
    /// An action was committed by the first member, in microseconds of the world's time.
    pub(crate) fn committed(&mut self, now_us: u64, seqno: Seqno) {
        if self.commits.back().is_none_or(|(last, _)| *last < seqno) {
            self.commits.push_back((seqno, now_us));
        }
    }

    /// For how long a database has lacked an action, if everything up to `applied` is in it.
    pub(crate) fn lag_us(&self, now_us: u64, applied: Seqno) -> u64 {
        let has = self.commits.partition_point(|(seqno, _)| *seqno <= applied);
        let first = self.commits.get(has);
        first.map_or(0, |(_, at_us)| now_us - at_us)
    }
}

/// The largest lag within as many databases as are needed for a majority, of those that lag least.
pub(crate) fn of_best(majority: usize, mut lags_us: Vec<u64>) -> u64 {
    lags_us.sort_unstable();
    lags_us.get(majority - 1).copied().unwrap_or(0)
}

/// While `slow` lag, and they are a minority, as much is committed as without them.
pub(crate) fn pace_is_kept(slow: &[MemberId], committed: u64, at_least: u64) -> Checked {
    require(committed >= at_least, RULE, || {
        format!(
            "while the databases of {slow:?} are slow, {committed} actions are committed in a \
             time in which the others take {at_least}"
        )
    })
}

/// Slow databases do not stop the clients.
pub(crate) fn goes_on(slow: &[MemberId], committed: u64) -> Checked {
    require(committed > 0, RULE, || {
        format!("nothing is committed while the databases of {slow:?} are slow")
    })
}

/// The majority that keeps up best lags no more than this.
pub(crate) fn is_bounded(lag_us: u64, max_us: u64) -> Checked {
    require(lag_us <= max_us, RULE, || {
        format!("the best majority lags {lag_us} us, {max_us} us are allowed")
    })
}

/// A member whose database was slow runs on with the same database, and has caught up.
pub(crate) fn caught_up(member: MemberId, runs_on: bool, has_all: bool) -> Checked {
    require(runs_on, RULE, || {
        format!("{member} stopped, or took a full copy, because its database was slow")
    })?;
    require(has_all, RULE, || {
        format!("{member}, whose database is not slow any more, does not catch up")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_from_the_first_commit_of_what_is_lacking() {
        let mut lags = Lags::default();
        for (seqno, at_us) in [(1, 10), (2, 20), (2, 25), (3, 40)] {
            lags.committed(at_us, Seqno(seqno));
        }
        assert_eq!(lags.lag_us(100, Seqno(0)), 90);
        assert_eq!(lags.lag_us(100, Seqno(1)), 80);
        assert_eq!(lags.lag_us(100, Seqno(3)), 0);
    }

    #[test]
    fn slow_minority_does_not_count() {
        assert_eq!(of_best(2, vec![900, 3, 7]), 7);
        assert_eq!(of_best(3, vec![900, 3, 7, 800, 9]), 9);
        assert_eq!(of_best(2, vec![900, 800, 7]), 800);
        assert_eq!(of_best(1, vec![900, 7]), 7, "beside a logger");
    }
}

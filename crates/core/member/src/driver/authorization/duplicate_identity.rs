//! Members that say that another process has this member's identity.
//!
//! Two processes of one identity would vote twice, so one of them has to stop. But a member that
//! stops at the word of one other can be stopped by that one: a broken or hostile member must not
//! end the others one by one. A majority of the other voters has to say so, and at the same time.
//!
//! A process that has not been in a view stops at the word of one voter. The copy of a running
//! member's log is such a process. Often only the leader can say so: followers send each other
//! nothing, so they do not hear the original.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Time};

/// Age from which a report does not count any more: its sender would repeat it.
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Not from a voter, or not the first of this voter within the window.
    Nothing,
    TooFew,
    /// This member has to stop.
    Enough,
}

#[derive(Default)]
pub(in crate::driver) struct DuplicateIdentity {
    reports: BTreeMap<MemberId, Time>,
}

impl DuplicateIdentity {
    /// `by` says so. `others` are the voters of the configuration without this member;
    /// `has_joined`: this process was in a view.
    pub(super) fn reported(
        &mut self,
        now: Time,
        by: MemberId,
        others: impl Iterator<Item = MemberId>,
        has_joined: bool,
    ) -> Report {
        self.reports.retain(|_, at| now.since(*at) < WINDOW);
        let (mut voters, mut reporters, mut is_voter) = (0, 0, false);
        for voter in others {
            voters += 1;
            is_voter |= voter == by;
            reporters += usize::from(voter == by || self.reports.contains_key(&voter));
        }
        if !is_voter {
            return Report::Nothing;
        }
        let is_new = self.reports.insert(by, now).is_none();
        let is_enough = !has_joined || 2 * reporters > voters;
        match (is_enough, is_new) {
            (true, _) => Report::Enough,
            (false, true) => Report::TooFew,
            (false, false) => Report::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(7).plus(Duration::from_secs(seconds))
    }

    fn report(state: &mut DuplicateIdentity, seconds: u64, by: u64, others: u64) -> Report {
        state.reported(at(seconds), MemberId(by), (1..=others).map(MemberId), true)
    }

    #[test]
    fn process_that_was_in_no_view_stops_at_the_word_of_one_voter() {
        let mut state = DuplicateIdentity::default();
        let mut report = |by| state.reported(at(0), MemberId(by), (1..=4).map(MemberId), false);
        assert_eq!(report(9), Report::Nothing, "no voter");
        assert_eq!(report(2), Report::Enough);
    }

    #[test]
    fn majority_of_the_other_voters_within_ten_seconds_is_enough() {
        let mut state = DuplicateIdentity::default();
        assert_eq!(report(&mut state, 0, 1, 4), Report::TooFew);
        assert_eq!(report(&mut state, 1, 1, 4), Report::Nothing, "again");
        assert_eq!(report(&mut state, 2, 2, 4), Report::TooFew, "half");
        assert_eq!(report(&mut state, 3, 3, 4), Report::Enough);
        assert_eq!(report(&mut state, 13, 4, 4), Report::TooFew, "too late");
    }

    #[test]
    fn in_a_group_of_two_the_other_one_is_enough() {
        let mut state = DuplicateIdentity::default();
        assert_eq!(report(&mut state, 0, 1, 1), Report::Enough);
    }

    #[test]
    fn process_that_does_not_vote_is_not_counted() {
        let mut state = DuplicateIdentity::default();
        for by in [0, 3, 9] {
            assert_eq!(report(&mut state, 0, by, 2), Report::Nothing);
        }
        assert_eq!(report(&mut state, 0, 9, 0), Report::Nothing);
        assert_eq!(report(&mut state, 0, 1, 2), Report::TooFew);
    }
}

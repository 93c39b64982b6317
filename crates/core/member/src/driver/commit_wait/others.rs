//! Positions of the other databases, as their members have told this one, and the choice of those
//! that its commits wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Seqno, SessionId, Time};
use synod_planted::planted;
use synod_wire::{AppliedPosition, DataState};

use super::NO_WAIT;
use crate::driver::commit_times::CommitTimes;

/// A database that was excluded is waited for again when it lags less than this part of the time
/// that it was excluded for.
const KEEPS_UP: u32 = 4;

struct Other {
    session: SessionId,
    /// When it was told, and what; none before that.
    position: Option<(Time, AppliedPosition)>,
    /// Not waited for before it has everything up to here.
    excluded: Option<Seqno>,
}

impl Other {
    fn new(session: SessionId) -> Other {
        Other {
            session,
            position: None,
            excluded: None,
        }
    }

    fn released(&self) -> Seqno {
        self.position
            .as_ref()
            .map_or(Seqno::UNDEFINED, |(_, position)| position.released)
    }

    /// Whether it follows the group, or may: it has not told yet, or not lately.
    fn may_follow(&self, now: Time, patience: Duration) -> bool {
        self.position.as_ref().is_none_or(|(at, position)| {
            position.state == DataState::Synced || now.since(*at) >= patience
        })
    }

    fn include_if_it_keeps_up(&mut self, patience: Duration) {
        let Some((until, (_, position))) = self.excluded.zip(self.position) else {
            return;
        };
        let lag = Duration::from_micros(position.lag_us);
        if position.released >= until && lag < patience / KEEPS_UP {
            self.excluded = None;
        }
    }
}

/// Facts for a question about the databases: the members that are present, and how long they are
/// waited for.
pub(super) struct Question<I> {
    pub(super) now: Time,
    pub(super) present: I,
    /// A database that lacks an action for this long is excluded.
    pub(super) patience: Duration,
    pub(super) committed: Seqno,
}

#[derive(Default)]
pub(super) struct Others {
    known: BTreeMap<MemberId, Other>,
    own: CommitTimes,
    exclusions: u64,
}

impl Others {
    pub(super) fn note(&mut self, now: Time, member: MemberId, position: AppliedPosition) {
        let new = || Other::new(position.session);
        let other = self.known.entry(member).or_insert_with(new);
        if other.session != position.session {
            *other = new();
        }
        other.position = Some((now, position));
    }

    /// An action of a client of this member is committed; up to `everywhere` none is waited for.
    pub(super) fn own_committed(&mut self, now: Time, seqno: Seqno, everywhere: Seqno) {
        let done = if everywhere == NO_WAIT {
            seqno.prev()
        } else {
            everywhere
        };
        self.own.committed(now, seqno, done);
    }

    /// Up to where all databases that are waited for have finished everything; and members that
    /// are excluded from now on.
    pub(super) fn everywhere(
        &mut self,
        question: Question<impl Iterator<Item = (MemberId, SessionId)>>,
    ) -> (Seqno, Vec<MemberId>) {
        let Question {
            now,
            present,
            patience,
            committed,
        } = question;
        let (mut everywhere, mut excluded) = (NO_WAIT, Vec::new());
        let mut before = std::mem::take(&mut self.known);
        for (member, session) in present {
            let known = before.remove(&member).filter(|o| o.session == session);
            let mut other = known.unwrap_or_else(|| Other::new(session));
            other.include_if_it_keeps_up(patience);
            if !other.may_follow(now, patience) {
                // It is waited for again once it follows.
                other.excluded = None;
            } else if other.excluded.is_none() {
                let released = other.released();
                if self.own.lag(now, released) >= patience {
                    other.excluded = Some(committed);
                    self.exclusions += 1;
                    excluded.push(member);
                } else {
                    everywhere = planted!(WaitForOne, everywhere.min(released), else released);
                }
            }
            self.known.insert(member, other);
        }
        (everywhere, excluded)
    }

    pub(super) fn excluded(&self) -> impl Iterator<Item = MemberId> + '_ {
        let is_excluded = |(member, other): (&MemberId, &Other)| other.excluded.map(|_| *member);
        self.known.iter().filter_map(is_excluded)
    }

    pub(super) fn exclusions(&self) -> u64 {
        self.exclusions
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.own.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn at(ms: u64) -> Time {
        Time(1_000_000).plus(Duration::from_millis(ms))
    }

    fn position(released: i64, state: DataState) -> AppliedPosition {
        AppliedPosition {
            session: SessionId(1),
            state,
            left: Seqno(released + 1),
            released: Seqno(released),
            lag_us: 0,
        }
    }

    fn ask(others: &mut Others, ms: u64, members: &[u64]) -> (Seqno, Vec<MemberId>) {
        others.everywhere(Question {
            now: at(ms),
            present: members.iter().map(|id| (MemberId(*id), SessionId(1))),
            patience: PATIENCE,
            committed: Seqno(50),
        })
    }

    use DataState::{Donor, Joined, Synced};

    #[test]
    fn slowest_database_that_follows_the_group_counts() {
        let mut others = Others::default();
        others.own_committed(at(0), Seqno(20), Seqno(10));
        others.note(at(0), MemberId(2), position(12, Synced));
        others.note(at(0), MemberId(3), position(15, Synced));
        others.note(at(0), MemberId(4), position(3, Donor));
        others.note(at(0), MemberId(5), position(2, Joined));
        others.note(at(0), MemberId(6), position(1, Synced));
        assert_eq!(ask(&mut others, 1, &[2, 3, 4, 5]).0, Seqno(12));
        others.note(at(0), MemberId(2), position(20, Synced));
        assert_eq!(ask(&mut others, 1, &[2, 3, 4, 5]).0, Seqno(15));
        others.note(at(0), MemberId(3), position(15, Donor));
        assert_eq!(ask(&mut others, 1, &[2, 3, 4, 5]).0, Seqno(20));
        assert_eq!(ask(&mut others, 1, &[]).0, NO_WAIT, "alone");
    }

    #[test]
    fn member_that_has_not_told_is_waited_for() {
        let mut others = Others::default();
        others.own_committed(at(0), Seqno(20), NO_WAIT);
        assert_eq!(ask(&mut others, 1, &[2]), (Seqno::UNDEFINED, Vec::new()));
        let other_session = AppliedPosition {
            session: SessionId(7),
            ..position(90, Synced)
        };
        others.note(at(0), MemberId(2), other_session);
        assert_eq!(ask(&mut others, 1, &[2]).0, Seqno::UNDEFINED);
        others.note(at(0), MemberId(2), position(20, Synced));
        assert_eq!(ask(&mut others, 1, &[2]).0, Seqno(20));
    }

    #[test]
    fn member_that_lacks_an_action_for_too_long_is_excluded_until_it_keeps_up() {
        let mut others = Others::default();
        others.note(at(0), MemberId(2), position(19, Synced));
        others.note(at(0), MemberId(3), position(30, Synced));
        others.own_committed(at(0), Seqno(20), Seqno(19));
        others.own_committed(at(3000), Seqno(30), Seqno(19));
        assert_eq!(ask(&mut others, 4999, &[2, 3]), (Seqno(19), Vec::new()));
        let excluded = vec![MemberId(2)];
        assert_eq!(ask(&mut others, 5000, &[2, 3]), (Seqno(30), excluded));
        assert_eq!(others.excluded().collect::<Vec<_>>(), [MemberId(2)]);
        // It has some of it, then all, but lags.
        others.note(at(0), MemberId(2), position(49, Synced));
        assert_eq!(ask(&mut others, 5001, &[2, 3]).0, Seqno(30));
        let lags = AppliedPosition {
            lag_us: 2_000_000,
            ..position(50, Synced)
        };
        others.note(at(0), MemberId(2), lags);
        assert_eq!(ask(&mut others, 5002, &[2]).0, NO_WAIT);
        others.note(at(0), MemberId(2), position(51, Synced));
        assert_eq!(ask(&mut others, 5003, &[2]).0, Seqno(51));
        assert_eq!((others.excluded().count(), others.exclusions()), (0, 1));
    }

    #[test]
    fn that_a_database_does_not_follow_the_group_has_to_be_told_again() {
        let mut others = Others::default();
        others.note(at(0), MemberId(2), position(10, Joined));
        others.own_committed(at(4000), Seqno(20), NO_WAIT);
        assert_eq!(ask(&mut others, 4999, &[2]).0, NO_WAIT);
        assert_eq!(ask(&mut others, 5000, &[2]).0, Seqno(10));
        others.note(at(5001), MemberId(2), position(11, Joined));
        assert_eq!(ask(&mut others, 5002, &[2]).0, NO_WAIT);
    }

    #[test]
    fn member_is_not_excluded_for_actions_that_it_has() {
        let mut others = Others::default();
        others.note(at(0), MemberId(2), position(20, Synced));
        others.own_committed(at(0), Seqno(20), Seqno(19));
        let later = 60_000;
        assert_eq!(ask(&mut others, later, &[2]), (Seqno(20), Vec::new()));
        others.own_committed(at(later), Seqno(40), Seqno(20));
        assert_eq!(ask(&mut others, later + 1, &[2]), (Seqno(20), Vec::new()));
    }
}

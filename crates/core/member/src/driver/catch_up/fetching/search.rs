//! The search for the entries: the member to ask next, and when the search is given up. Members are
//! asked one after the other, first the one that has answered last. A round ends when all that can
//! be reached were asked. If all members say that their logs have lost the entries, no member has
//! them. Those that do not answer, cannot be reached, or lag themselves, are asked again in the
//! next rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{EntryId, MemberId, Seqno, Time};
use synod_wire::FetchRefusal;

use super::check::Expected;
use crate::fetch::FetchWish;

/// After so many rounds in which some say that they have lost the entries, and the others say
/// nothing, no member has them.
const ROUNDS_MAX: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Next {
    Ask(MemberId),
    Wait,
    GiveUp,
}

#[derive(Debug)]
pub(in crate::driver) struct Sought {
    pub(in crate::driver) wish: FetchWish,
    /// Names the question; the same for all members that are asked.
    pub(in crate::driver) number: u64,
    pub(in crate::driver) base: (EntryId, Seqno),
    asked: Option<MemberId>,
    /// When a member was asked last, or a round ended.
    since: Time,
    /// First actions in the logs that have lost the entries, by member.
    pub(in crate::driver) refused: BTreeMap<MemberId, Seqno>,
    /// Asked at any time: others have no say.
    questioned: BTreeSet<MemberId>,
    tried: BTreeSet<MemberId>,
    rounds: u32,
}

impl Sought {
    pub(super) fn was_asked_of(&self, member: MemberId) -> bool {
        self.questioned.contains(&member)
    }

    pub(in crate::driver) fn expected(&self) -> Expected {
        let base = self.base;
        let to = self.wish.to.unwrap_or(base.0.index);
        Expected {
            from: self.wish.from,
            to: to.min(base.0.index),
            base,
            with_payloads: self.wish.with_payloads,
        }
    }
}

#[derive(Debug, Default)]
pub(in crate::driver) struct Search {
    sought: Option<Sought>,
    number: u64,
    source: Option<MemberId>,
    /// Members to which a connection broke, and which have sent nothing since.
    unreachable: BTreeSet<MemberId>,
}

impl Search {
    /// Entries are wanted, and the own log begins after `base`. False if they are sought already.
    pub(in crate::driver) fn begin(
        &mut self,
        now: Time,
        wish: FetchWish,
        base: (EntryId, Seqno),
    ) -> bool {
        if self
            .sought
            .as_ref()
            .is_some_and(|sought| sought.wish == wish)
        {
            return false;
        }
        self.number += 1;
        self.sought = Some(Sought {
            wish,
            number: self.number,
            base,
            asked: None,
            since: now,
            refused: BTreeMap::new(),
            questioned: BTreeSet::new(),
            tried: BTreeSet::new(),
            rounds: 0,
        });
        true
    }

    /// The own log begins after `base` by now: those asked from now on are asked up to there. A
    /// reader sees that the log was purged before the driver hears of it, so a question may have
    /// ended before the entries that it was about.
    pub(super) fn log_begins_after(&mut self, base: (EntryId, Seqno)) {
        if let Some(sought) = self.sought.as_mut().filter(|sought| sought.base != base) {
            sought.base = base;
            sought.tried.clear();
        }
    }

    pub(in crate::driver) fn sought(&self) -> Option<&Sought> {
        self.sought.as_ref()
    }

    pub(in crate::driver) fn source(&self) -> Option<MemberId> {
        self.source
    }

    pub(in crate::driver) fn found(&mut self, from: MemberId) {
        self.source = Some(from);
        self.sought = None;
    }

    pub(super) fn given_up(&mut self) -> Option<Sought> {
        self.source = None;
        self.sought.take()
    }

    /// `None`: wrong entries have come. Answers whether another member is to be asked now.
    pub(in crate::driver) fn refused(
        &mut self,
        from: MemberId,
        refusal: Option<FetchRefusal>,
    ) -> bool {
        let Some(sought) = &mut self.sought else {
            return false;
        };
        sought.tried.insert(from);
        if let Some(FetchRefusal::Purged { first }) = refusal {
            sought.refused.insert(from, first);
        }
        sought.asked == Some(from)
    }

    /// The connection to a member broke. Whether another one is to be asked now.
    pub(in crate::driver) fn lost(&mut self, member: MemberId) -> bool {
        self.unreachable.insert(member);
        let sought = self.sought.as_ref();
        sought.is_some_and(|sought| sought.asked == Some(member))
    }

    pub(in crate::driver) fn heard(&mut self, member: MemberId) {
        self.unreachable.remove(&member);
    }

    pub(super) fn is_overdue(&self, now: Time, patience: Duration) -> bool {
        let sought = self.sought.as_ref();
        sought.is_some_and(|sought| now.since(sought.since) >= patience)
    }

    /// `others`: the members of the group.
    pub(in crate::driver) fn next(
        &mut self,
        now: Time,
        others: impl Iterator<Item = MemberId>,
    ) -> Next {
        let Some(sought) = &mut self.sought else {
            return Next::Wait;
        };
        let open: Vec<MemberId> = others
            .filter(|id| !sought.refused.contains_key(id))
            .collect();
        let reachable = open.iter().filter(|id| !self.unreachable.contains(id));
        let mut untried = reachable.filter(|id| !sought.tried.contains(id));
        let last_source = untried.clone().find(|id| Some(**id) == self.source);
        sought.since = now;
        sought.asked = last_source.or_else(|| untried.next()).copied();
        if let Some(member) = sought.asked {
            sought.questioned.insert(member);
            sought.tried.insert(member);
            return Next::Ask(member);
        }
        let some_have_lost_it = !sought.refused.is_empty();
        sought.rounds += u32::from(some_have_lost_it);
        sought.tried.clear();
        if some_have_lost_it && (open.is_empty() || sought.rounds >= ROUNDS_MAX) {
            return Next::GiveUp;
        }
        Next::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::LogIndex;
    use synod_wire::FetchFrom;

    const PURGED: Option<FetchRefusal> = Some(FetchRefusal::Purged { first: Seqno(50) });
    const BEHIND: Option<FetchRefusal> = Some(FetchRefusal::Behind);

    fn wish(seqno: i64) -> FetchWish {
        FetchWish::all_from(FetchFrom::After(Seqno(seqno)), LogIndex(0))
    }

    fn begun() -> Search {
        let mut search = Search::default();
        assert!(search.begin(Time(0), wish(7), Default::default()));
        search
    }

    /// The next one of members 1, 2 and 3.
    fn next(search: &mut Search) -> Next {
        search.next(Time(0), (1..=3).map(MemberId))
    }

    #[test]
    fn members_are_asked_one_after_the_other_and_no_member_has_it_if_all_have_lost_it() {
        let mut search = begun();
        for id in 1..=3 {
            assert_eq!(next(&mut search), Next::Ask(MemberId(id)));
            assert!(!search.refused(MemberId(9), BEHIND), "not the one asked");
            assert!(search.refused(MemberId(id), PURGED));
        }
        assert_eq!(next(&mut search), Next::GiveUp);
        let sought = search.given_up().unwrap();
        assert_eq!(sought.refused.len(), 3);
    }

    #[test]
    fn members_are_asked_again_at_once_when_the_own_log_was_purged_since() {
        let mut search = begun();
        for id in 1..=3 {
            assert_eq!(next(&mut search), Next::Ask(MemberId(id)));
            assert!(search.refused(MemberId(id), BEHIND));
        }
        let base = (EntryId::default(), Seqno(0));
        search.log_begins_after(base);
        assert_eq!(next(&mut search), Next::Wait, "it begins where it began");
        for id in 1..=3 {
            assert_eq!(next(&mut search), Next::Ask(MemberId(id)));
            assert!(search.refused(MemberId(id), BEHIND));
        }
        let (term, index) = (synod_consensus::Term(1), LogIndex(40));
        search.log_begins_after((EntryId { term, index }, Seqno(30)));
        assert_eq!(next(&mut search), Next::Ask(MemberId(1)));
        assert_eq!(search.sought().unwrap().expected().to, index);
    }

    #[test]
    fn member_that_has_sent_entries_is_asked_first() {
        let mut search = begun();
        search.found(MemberId(2));
        assert!(search.begin(Time(0), wish(8), Default::default()));
        assert!(!search.begin(Time(0), wish(8), Default::default()), "known");
        assert_eq!(next(&mut search), Next::Ask(MemberId(2)));
        assert_eq!(next(&mut search), Next::Ask(MemberId(1)));
    }

    #[test]
    fn dead_member_is_not_asked_until_it_is_heard_again() {
        let mut search = begun();
        assert_eq!(next(&mut search), Next::Ask(MemberId(1)));
        assert!(search.lost(MemberId(1)));
        assert!(!search.lost(MemberId(3)), "that one was not asked");
        assert_eq!(next(&mut search), Next::Ask(MemberId(2)));
        assert!(search.refused(MemberId(2), PURGED));
        search.heard(MemberId(3));
        assert_eq!(next(&mut search), Next::Ask(MemberId(3)));
        search.lost(MemberId(3));
        assert_eq!(next(&mut search), Next::Wait, "it may come back");
        search.heard(MemberId(3));
        assert_eq!(next(&mut search), Next::Ask(MemberId(3)));
    }

    #[test]
    fn members_that_stay_away_are_waited_for_some_rounds() {
        let mut search = begun();
        search.lost(MemberId(2));
        search.lost(MemberId(3));
        assert_eq!(next(&mut search), Next::Ask(MemberId(1)));
        search.refused(MemberId(1), PURGED);
        for _ in 1..ROUNDS_MAX {
            assert_eq!(next(&mut search), Next::Wait);
        }
        assert_eq!(next(&mut search), Next::GiveUp);
        // Without a leader the search continues.
        search.heard(MemberId(2));
        assert_eq!(next(&mut search), Next::Ask(MemberId(2)));
    }

    #[test]
    fn silent_members_and_those_behind_are_asked_again_in_later_rounds() {
        let mut search = begun();
        for _ in 0..10 {
            for id in 1..=3 {
                assert_eq!(next(&mut search), Next::Ask(MemberId(id)));
                search.refused(MemberId(id), BEHIND);
            }
            assert_eq!(next(&mut search), Next::Wait, "none has lost it");
        }
        assert_eq!(next(&mut search), Next::Ask(MemberId(1)));
        search.refused(MemberId(1), PURGED);
        for _ in 1..ROUNDS_MAX {
            assert_eq!(next(&mut search), Next::Ask(MemberId(2)));
            assert_eq!(next(&mut search), Next::Ask(MemberId(3)));
            assert_eq!(next(&mut search), Next::Wait);
        }
        assert_eq!(next(&mut search), Next::Ask(MemberId(2)));
        assert_eq!(next(&mut search), Next::Ask(MemberId(3)));
        assert_eq!(next(&mut search), Next::GiveUp);
    }

    #[test]
    fn time_to_answer_begins_with_the_question() {
        let (mut search, patience) = (begun(), Duration::from_micros(10));
        assert!(!search.is_overdue(Time(9), patience));
        assert!(search.is_overdue(Time(10), patience));
        search.next(Time(10), std::iter::once(MemberId(1)));
        assert!(!search.is_overdue(Time(19), patience));
        search.found(MemberId(1));
        assert!(!search.is_overdue(Time(99), patience));
    }
}

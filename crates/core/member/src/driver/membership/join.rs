//! This member's way into the group: where it asks, how often, and when it gives up. Addresses lead
//! to members, members lead to the leader, and the leader admits this member. Refusals are logged
//! once each. A refusal that repetition cannot change ends the attempt, but never a member that was
//! in a view of this session already.

use std::collections::BTreeSet;
use std::time::Duration;

use synod_consensus::{MemberId, Term, Time};
use synod_wire::JoinReply;

use super::admission::MEMBERS_MAX;
use crate::config::StartMode;

const RETRY: Duration = Duration::from_millis(400);
/// Different refusals remembered, so that each is logged once.
const REFUSALS_MAX: usize = 64;
/// A new member gives up when all addresses that answered have refused it for so long.
const NEWCOMER_PATIENCE: Duration = Duration::from_secs(2);
/// A member of a group waits longer: one wrong setting must not keep others from starting.
const MEMBER_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) is_new: bool,
    pub(super) is_fatal: bool,
}

/// The component that finds the group. Invariant: once the member has joined, no refusal is fatal.
pub(in crate::driver) struct Join {
    mode: StartMode,
    /// This session was in a committed view, and the host knows.
    completed: bool,
    /// A member without a database, which no view lists, has heard a leader with a quorum.
    takes_part: bool,
    last_sent: Option<Time>,
    /// When a leader has last accepted this session, and in which term.
    accepted: Option<(Term, Time)>,
    contacts: Vec<MemberId>,
    last_answer: String,
    wait: Option<String>,
    refusals: BTreeSet<String>,
    /// Since when addresses refuse this member for good, and no member of a group was found.
    refused_since: Option<Time>,
    /// Since when the configuration that this member knows to be committed lacks it, although it
    /// had joined. A member that was added again finds that out from the log a moment later.
    removed_since: Option<Time>,
    /// Answers that this member's name is taken. The name may be that of its own former process,
    /// whose death the group has not noticed yet: only answers that keep coming count.
    name_taken: Recurring,
    /// The latest such answer, while no other one has come.
    taken: Option<String>,
}

impl Join {
    pub(super) fn new(mode: StartMode) -> Join {
        Join {
            mode,
            completed: false,
            takes_part: false,
            last_sent: None,
            accepted: None,
            contacts: Vec::new(),
            last_answer: String::new(),
            wait: None,
            refusals: BTreeSet::new(),
            refused_since: None,
            removed_since: None,
            name_taken: Recurring::default(),
            taken: None,
        }
    }

    pub(in crate::driver) fn begins_group(&self) -> bool {
        self.mode != StartMode::Join
    }

    pub(in crate::driver) fn is_completed(&self) -> bool {
        self.completed
    }

    /// Whether this session takes part in its group: it was in a committed view, or, without a
    /// database, has heard a leader with a quorum.
    pub(in crate::driver) fn has_joined(&self) -> bool {
        self.completed || self.takes_part
    }

    /// This member without a database has heard a leader with a quorum. True for the first time.
    pub(super) fn take_part(&mut self) -> bool {
        !std::mem::replace(&mut self.takes_part, true)
    }

    /// This session is in a committed view. Other members are found by the configuration now.
    pub(in crate::driver) fn complete(&mut self) {
        self.completed = true;
        self.contacts.clear();
    }

    pub(in crate::driver) fn is_contact(&self, member: MemberId) -> bool {
        self.contacts.contains(&member)
    }

    pub(super) fn has_contacts(&self) -> bool {
        !self.contacts.is_empty()
    }

    pub(super) fn accepted(&mut self, now: Time, term: Term) {
        self.accepted = Some((term, now));
    }

    /// Whether the leader of this term has accepted this session within `limit`. A leader forgets
    /// members that are silent, and the silent one may not notice.
    pub(super) fn was_accepted(&self, now: Time, term: Term, limit: Duration) -> bool {
        self.accepted
            .is_some_and(|(by, at)| by == term && now.since(at) < limit)
    }

    pub(super) fn answered(&mut self, answer: String) {
        self.last_answer = answer;
    }

    pub(super) fn last_answer(&self) -> String {
        if self.last_answer.is_empty() {
            "it has not answered the request to join".to_owned()
        } else {
            format!(
                "its last answer to the request to join: {}",
                self.last_answer
            )
        }
    }

    pub(super) fn put_off(&mut self, reply: &JoinReply) {
        match reply {
            JoinReply::Retry { text } => self.wait = Some(text.clone()),
            JoinReply::Accepted { .. } | JoinReply::Refused { .. } => self.wait = None,
            JoinReply::NotLeader { .. } => {}
        }
    }

    pub(in crate::driver) fn wait(&self) -> Option<&str> {
        self.wait.as_deref()
    }

    pub(super) fn found(&mut self, member: MemberId) {
        self.refused_since = None;
        self.add_contact(member);
    }

    pub(in crate::driver) fn contacts(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.contacts.iter().copied()
    }

    /// A member that does not lead has named the leader. A new contact is asked at once.
    pub(super) fn leader_named(&mut self, leader: MemberId) {
        if self.add_contact(leader) {
            self.last_sent = None;
        }
    }

    fn add_contact(&mut self, member: MemberId) -> bool {
        let is_new = !self.contacts.contains(&member) && self.contacts.len() < MEMBERS_MAX;
        if is_new {
            self.contacts.push(member);
        }
        is_new
    }

    /// Whom to ask now: the leader if it is known, otherwise all contacts and `others`; none before
    /// the last requests had time for an answer.
    pub(super) fn targets(
        &mut self,
        now: Time,
        leader: Option<MemberId>,
        others: impl Iterator<Item = MemberId>,
    ) -> Vec<MemberId> {
        if self.last_sent.is_some_and(|at| now.since(at) < RETRY) {
            return Vec::new();
        }
        let all = || {
            let all: BTreeSet<MemberId> = others.chain(self.contacts.iter().copied()).collect();
            all.into_iter().collect()
        };
        let targets = leader.map_or_else(all, |leader| vec![leader]);
        if !targets.is_empty() {
            self.last_sent = Some(now);
        }
        targets
    }

    /// An address did not let this member in. Fatal if it has been so for long, and no other
    /// address leads to the group.
    pub(super) fn refused_by_address(
        &mut self,
        now: Time,
        text: &str,
        is_final: bool,
        has_leader: bool,
        is_in_group: bool,
    ) -> Refusal {
        let is_new = self.is_new_refusal(text);
        let is_alone = self.contacts.is_empty() && !has_leader;
        if !is_final || self.has_joined() || !is_alone {
            return Refusal {
                is_new,
                is_fatal: false,
            };
        }
        let since = *self.refused_since.get_or_insert(now);
        let patience = if is_in_group {
            MEMBER_PATIENCE
        } else {
            NEWCOMER_PATIENCE
        };
        Refusal {
            is_new,
            is_fatal: now.since(since) >= patience,
        }
    }

    pub(super) fn refused_by_group(&mut self, text: &str, is_final: bool) -> Refusal {
        Refusal {
            is_new: self.is_new_refusal(text),
            is_fatal: is_final && !self.has_joined(),
        }
    }

    /// Takes note whether the committed configuration lacks this member; whether that has been so
    /// for `patience` since it had joined.
    pub(super) fn removed(&mut self, now: Time, is_out: bool, patience: Duration) -> bool {
        if !is_out || !self.has_joined() {
            self.removed_since = None;
            return false;
        }
        now.since(*self.removed_since.get_or_insert(now)) >= patience
    }

    /// Whether this member seems to be removed: it does not ask to join again by itself.
    pub(super) fn is_removed(&self) -> bool {
        self.removed_since.is_some()
    }

    /// The group says that this member's name or address is taken; whether that has lasted for too
    /// long.
    pub(super) fn name_taken(&mut self, now: Time, suspect: Duration, text: &str) -> bool {
        self.taken = Some(text.to_owned());
        self.name_taken.again(now, suspect) > suspect * 2
    }

    pub(super) fn name_not_taken(&mut self) {
        self.name_taken = Recurring::default();
        self.taken = None;
    }

    pub(super) fn taken(&self) -> Option<&str> {
        self.taken.as_deref()
    }

    fn is_new_refusal(&mut self, text: &str) -> bool {
        if self.refusals.len() >= REFUSALS_MAX {
            self.refusals.clear();
        }
        self.refusals.insert(text.to_owned())
    }
}

/// Messages that mean something only if they keep coming.
#[derive(Default)]
pub(super) struct Recurring {
    since: Option<Time>,
    last: Option<Time>,
}

impl Recurring {
    /// One more. Answers how long they have been coming without a pause of more than `pause_max`.
    pub(super) fn again(&mut self, now: Time, pause_max: Duration) -> Duration {
        let continues = |last: Time| now.since(last) <= pause_max;
        if !self.last.is_some_and(continues) {
            self.since = None;
        }
        self.last = Some(now);
        now.since(*self.since.get_or_insert(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(7).plus(Duration::from_millis(ms))
    }

    #[test]
    fn only_answers_that_keep_coming_mean_that_a_name_is_taken() {
        let pause_max = Duration::from_secs(2);
        let mut taken = Recurring::default();
        let mut again = |ms| taken.again(at(ms), pause_max).as_millis();
        assert_eq!(again(0), 0);
        assert_eq!(again(500), 500);
        assert_eq!(again(2500), 2500);
        assert_eq!(again(4501), 0, "this process or the leader stood still");
        assert_eq!(again(6000), 1499);
    }

    #[test]
    fn leader_is_asked_if_known_and_all_contacts_otherwise() {
        use std::iter::empty;
        let mut join = Join::new(StartMode::Join);
        assert!(join.targets(at(0), None, empty()).is_empty());
        join.found(MemberId(2));
        join.found(MemberId(3));
        join.found(MemberId(2));
        assert_eq!(
            join.targets(at(0), None, empty()),
            [MemberId(2), MemberId(3)]
        );
        assert!(join.targets(at(399), None, empty()).is_empty(), "too early");
        assert_eq!(
            join.targets(at(400), Some(MemberId(9)), empty()),
            [MemberId(9)]
        );
        join.leader_named(MemberId(3));
        assert!(
            join.targets(at(401), None, empty()).is_empty(),
            "known already"
        );
        join.leader_named(MemberId(4));
        assert_eq!(
            join.targets(at(401), None, empty()).len(),
            3,
            "a new contact"
        );
        let lost = join.targets(at(900), None, [MemberId(8), MemberId(2)].into_iter());
        assert_eq!(lost, [2, 3, 4, 8].map(MemberId));
    }

    #[test]
    fn member_gives_up_when_nothing_but_refusals_came_for_long() {
        let mut join = Join::new(StartMode::Join);
        let mut refused = |ms, in_group| {
            let refusal = join.refused_by_address(at(ms), "no", true, false, in_group);
            (refusal.is_new, refusal.is_fatal)
        };
        assert_eq!(refused(0, false), (true, false));
        assert_eq!(refused(1999, false), (false, false));
        assert_eq!(refused(2000, true), (false, false));
        assert_eq!(refused(2000, false), (false, true));
        join.found(MemberId(2));
        let refusal = join.refused_by_address(at(9000), "no", true, false, false);
        assert!(!refusal.is_fatal, "a member of the group was found");
    }

    #[test]
    fn member_is_removed_if_it_had_joined_and_is_not_added_again() {
        let mut join = Join::new(StartMode::Join);
        let patience = Duration::from_secs(5);
        assert!(!join.removed(at(0), true, patience), "it is joining");
        assert!(!join.is_removed());
        join.complete();
        assert!(!join.removed(at(1000), true, patience));
        assert!(join.is_removed());
        assert!(!join.removed(at(2000), false, patience), "added again");
        assert!(!join.is_removed());
        assert!(!join.removed(at(3000), true, patience));
        assert!(join.removed(at(8000), true, patience));
    }

    #[test]
    fn member_without_a_database_is_removed_likewise() {
        let mut join = Join::new(StartMode::Join);
        let patience = Duration::from_secs(5);
        join.take_part();
        assert!(!join.removed(at(0), true, patience) && join.is_removed());
        assert!(join.removed(at(5000), true, patience));
    }

    #[test]
    fn acceptance_holds_for_one_term_and_for_a_while() {
        let mut join = Join::new(StartMode::Join);
        let limit = Duration::from_secs(5);
        assert!(!join.was_accepted(at(0), Term(0), limit));
        join.accepted(at(0), Term(3));
        assert!(join.was_accepted(at(4999), Term(3), limit));
        assert!(!join.was_accepted(at(5000), Term(3), limit));
        assert!(!join.was_accepted(at(1), Term(4), limit));
    }

    #[test]
    fn refusal_of_the_group_is_fatal_until_this_member_has_joined() {
        let mut join = Join::new(StartMode::Join);
        assert!(!join.refused_by_group("wait", false).is_fatal);
        assert!(join.refused_by_group("no", true).is_fatal);
        join.complete();
        assert!(!join.refused_by_group("no", true).is_fatal);
    }

    #[test]
    fn member_without_a_database_has_joined_when_it_has_heard_a_leader() {
        let mut join = Join::new(StartMode::Join);
        assert!(join.refused_by_group("no", true).is_fatal);
        assert!(join.take_part());
        assert!(!join.take_part(), "not for the first time");
        assert!(!join.refused_by_group("no", true).is_fatal);
        assert!(join.has_joined() && !join.is_completed());
    }
}

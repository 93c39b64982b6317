//! Partial actions that are continued, completed, discarded and truncated.

use super::*;
use proptest::prelude::*;
use synod_consensus::{MemberId, SessionId};

const NOW: Time = Time(1_000);

fn id(action_no: u64) -> PartialActionId {
    PartialActionId {
        member: MemberId(1),
        session: SessionId(2),
        action_no,
    }
}

fn chunk(action_no: u64, chunk_index: u32, part: Part) -> Chunk {
    Chunk {
        part,
        chunk_index,
        action_no,
        bytes: Bytes::from(vec![action_no as u8, chunk_index as u8]),
    }
}

/// Adds the chunk with this index of an action, at a log index.
fn add(actions: &mut PartialActions, index: u64, action_no: u64, chunk_index: u32) {
    let chunk = chunk(action_no, chunk_index, Part::Keys);
    let preceding = Seqno(index as i64 * 10);
    actions.add_chunk(NOW, id(action_no), LogIndex(index), preceding, chunk);
}

/// The numbers of the actions that have not ended.
fn not_ended(actions: &PartialActions) -> Vec<u64> {
    let later = Time(NOW.0 + 1);
    let stale = actions.stale(later, Duration::ZERO);
    stale.into_iter().map(|id| id.action_no).collect()
}

#[test]
fn oldest_action_is_the_one_that_began_first() {
    let mut actions = PartialActions::default();
    assert_eq!((actions.oldest(), actions.first_chunk()), (None, None));
    add(&mut actions, 4, 9, 0);
    add(&mut actions, 5, 3, 0);
    add(&mut actions, 6, 9, 1);
    assert_eq!(actions.oldest(), Some((id(9), Seqno(40))));
    assert_eq!(actions.first_chunk(), Some(LogIndex(4)));
}

#[test]
fn ended_action_is_kept_until_its_end_is_committed() {
    let mut actions = PartialActions::default();
    add(&mut actions, 4, 9, 0);
    add(&mut actions, 5, 3, 0);
    actions.complete(NOW, id(9), LogIndex(6));
    assert_eq!(actions.oldest(), Some((id(3), Seqno(50))));
    assert_eq!(actions.first_chunk(), Some(LogIndex(4)), "still needed");
    assert_eq!(actions.forget_ended(LogIndex(5)), None);
    assert_eq!(actions.forget_ended(LogIndex(6)), Some(LogIndex(4)));
    assert_eq!(actions.first_chunk(), Some(LogIndex(5)));
}

#[test]
fn action_without_its_beginning_counts_as_older_than_the_log() {
    let mut actions = PartialActions::default();
    add(&mut actions, 4, 9, 0);
    add(&mut actions, 5, 3, 1);
    assert_eq!(actions.oldest(), Some((id(3), Seqno(0))));
    assert_eq!(actions.first_chunk(), Some(LogIndex(0)));
    actions.discard(LogIndex(6), &Discard::BegunBy(LogIndex(0)));
    assert_eq!(not_ended(&actions), [9]);
}

#[test]
fn discard_ends_what_it_names_and_nothing_else() {
    let mut actions = PartialActions::default();
    for action_no in 1..=4 {
        add(&mut actions, action_no, action_no, 0);
    }
    actions.discard(LogIndex(5), &Discard::Action(id(3)));
    assert_eq!(not_ended(&actions), [1, 2, 4]);
    assert_eq!(actions.last_bulk_discard(), None);
    actions.discard(LogIndex(6), &Discard::BegunBy(LogIndex(2)));
    assert_eq!(not_ended(&actions), [4]);
    let latest = Some((LogIndex(6), LogIndex(2)));
    assert_eq!(actions.last_bulk_discard(), latest);
    actions.discard(LogIndex(7), &Discard::Action(id(77)));
    assert_eq!(not_ended(&actions), [4], "an unknown action ends silently");
}

#[test]
fn truncation_brings_back_what_a_discard_ended() {
    let mut actions = PartialActions::default();
    add(&mut actions, 1, 1, 0);
    actions.discard(LogIndex(2), &Discard::BegunBy(LogIndex(1)));
    assert!(
        actions
            .check_next_chunk(&id(1), &chunk(1, 1, Part::Data))
            .is_err()
    );
    actions.truncate(LogIndex(2));
    assert_eq!(not_ended(&actions), [1]);
    assert_eq!(actions.last_bulk_discard(), None);
    let next = chunk(1, 1, Part::Data);
    assert_eq!(actions.check_next_chunk(&id(1), &next), Ok(()));
}

#[test]
fn action_is_stale_once_it_has_not_been_continued_for_longer_than_the_limit() {
    let mut actions = PartialActions::default();
    let add_at = |actions: &mut PartialActions, at, chunk_index| {
        let chunk = chunk(1, chunk_index, Part::Data);
        let index = LogIndex(1 + u64::from(chunk_index));
        actions.add_chunk(Time(at), id(1), index, Seqno(0), chunk);
    };
    let limit = Duration::from_micros(100);
    add_at(&mut actions, 1_000, 0);
    assert_eq!(actions.stale(Time(1_100), limit), []);
    assert_eq!(actions.stale(Time(1_101), limit), [id(1)]);
    add_at(&mut actions, 1_090, 1);
    assert_eq!(actions.stale(Time(1_101), limit), []);
}

#[test]
fn keys_are_those_of_all_chunks_in_their_order() {
    let mut actions = PartialActions::default();
    add(&mut actions, 1, 7, 0);
    let data = chunk(7, 1, Part::Data);
    actions.add_chunk(NOW, id(7), LogIndex(2), Seqno(0), data);
    add(&mut actions, 3, 7, 2);
    assert_eq!(actions.keys_of_chunks(&id(7), 3), Ok(vec![7, 0, 7, 2]));
    let too_few = actions.keys_of_chunks(&id(7), 4);
    assert_eq!(too_few, Err(CertifyError::ChunksUnknown));
    let too_many = actions.keys_of_chunks(&id(7), 2);
    assert!(matches!(too_many, Err(CertifyError::Malformed(_))));
}

/// A step of a log's life. A number chooses among the actions that have not ended, so that
/// every list of steps is possible.
#[derive(Clone, Debug)]
enum Step {
    Begin,
    Continue(usize),
    Complete(usize),
    Discard(usize),
    DiscardBegunBy(u64),
    Truncate(u64),
    Commit(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Begin),
        6 => (0..8usize).prop_map(Step::Continue),
        2 => (0..8usize).prop_map(Step::Complete),
        1 => (0..8usize).prop_map(Step::Discard),
        1 => (0..20u64).prop_map(Step::DiscardBegunBy),
        1 => (0..8u64).prop_map(Step::Truncate),
        2 => (0..8u64).prop_map(Step::Commit),
    ]
}

#[derive(Clone, Debug)]
enum Entry {
    Chunk(u64, u32),
    Last(u64),
    Discard(Discard),
}

/// A log of chunks, last pieces and discards, with the component that follows it.
#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    committed: u64,
    /// Numbers given to actions, never twice.
    begun: u64,
    actions: PartialActions,
}

impl Log {
    fn append(&mut self, entry: Entry) {
        self.entries.push(entry.clone());
        feed(&mut self.actions, self.entries.len() as u64, &entry);
    }

    /// One of the actions that have not ended, and how many chunks it has.
    fn choose(&self, choice: usize) -> Option<(u64, u32)> {
        let numbers = not_ended(&self.actions);
        let number = *numbers.get(choice % numbers.len().max(1))?;
        Some((
            number,
            self.actions.actions[&id(number)].chunks.len() as u32,
        ))
    }

    fn perform(&mut self, step: &Step) {
        let end = self.entries.len() as u64;
        match *step {
            Step::Begin => {
                self.begun += 1;
                self.append(Entry::Chunk(self.begun, 0));
            }
            Step::Continue(choice) => {
                if let Some((number, chunks)) = self.choose(choice) {
                    self.append(Entry::Chunk(number, chunks));
                }
            }
            Step::Complete(choice) => {
                if let Some((number, _)) = self.choose(choice) {
                    self.append(Entry::Last(number));
                }
            }
            Step::Discard(choice) => {
                if let Some((number, _)) = self.choose(choice) {
                    self.append(Entry::Discard(Discard::Action(id(number))));
                }
            }
            Step::DiscardBegunBy(ago) => {
                let begun_by = LogIndex(end.saturating_sub(ago));
                self.append(Entry::Discard(Discard::BegunBy(begun_by)));
            }
            Step::Truncate(entries) => {
                let kept = end.saturating_sub(entries).max(self.committed);
                self.entries.truncate(kept as usize);
                self.actions.truncate(LogIndex(kept + 1));
            }
            Step::Commit(entries) => {
                self.committed = (self.committed + entries).min(end);
                self.actions.forget_ended(LogIndex(self.committed));
            }
        }
    }

    /// The component as it would be without truncations: fed with what is left of the log.
    fn rebuilt(&self) -> PartialActions {
        let mut actions = PartialActions::default();
        for (index, entry) in (1..).zip(&self.entries) {
            feed(&mut actions, index, entry);
        }
        actions.forget_ended(LogIndex(self.committed));
        actions
    }
}

fn feed(actions: &mut PartialActions, index: u64, entry: &Entry) {
    match entry {
        Entry::Chunk(number, chunk_index) => add(actions, index, *number, *chunk_index),
        Entry::Last(number) => actions.complete(NOW, id(*number), LogIndex(index)),
        Entry::Discard(discard) => actions.discard(LogIndex(index), discard),
    }
}

proptest! {
    /// Truncations leave nothing behind, and take nothing with them that the log still has.
    #[test]
    fn state_is_that_of_the_log_that_is_left(
        steps in proptest::collection::vec(any_step(), 1..120),
    ) {
        let mut log = Log::default();
        for step in &steps {
            log.perform(step);
            let rebuilt = log.rebuilt();
            prop_assert_eq!(log.actions.oldest(), rebuilt.oldest());
            prop_assert_eq!(log.actions.first_chunk(), rebuilt.first_chunk());
            prop_assert_eq!(not_ended(&log.actions), not_ended(&rebuilt));
            for number in not_ended(&rebuilt) {
                let chunks = rebuilt.actions[&id(number)].chunks.len();
                let keys = log.actions.keys_of_chunks(&id(number), chunks);
                prop_assert_eq!(keys, rebuilt.keys_of_chunks(&id(number), chunks));
            }
            let discard = log.actions.last_bulk_discard();
            prop_assert!(discard.is_none() || discard == rebuilt.last_bulk_discard());
        }
    }

    /// The first chunk that is still needed is at or before the beginning of every action that
    /// has not ended.
    #[test]
    fn needed_chunks_cover_every_action_that_has_not_ended(
        steps in proptest::collection::vec(any_step(), 1..120),
    ) {
        let mut log = Log::default();
        for step in &steps {
            log.perform(step);
            for number in not_ended(&log.actions) {
                let begins = log.actions.actions[&id(number)].first_chunk;
                prop_assert!(log.actions.first_chunk().is_some_and(|first| first <= begins));
            }
        }
    }
}

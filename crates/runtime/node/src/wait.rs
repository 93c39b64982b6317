//! Types that threads of a node wait on, and nothing else: they know no protocol. Each can be ended
//! for good, so that a node that stops leaves no thread asleep.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use synod_member::{Client, ProposalResult, ResultSlot, WaitPolicy};
use synod_planted::planted;
use synod_wire::Lane;

use crate::sync::{Condvar, Mutex, MutexGuard, lock};

#[derive(Debug, Default)]
struct EventState {
    /// How many notifications there were.
    count: u64,
    waiting: usize,
    stopped: bool,
}

/// A count of notifications that threads wait on. Stopping it is final.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    state: Mutex<EventState>,
    changed: Condvar,
}

impl EventCount {
    /// Counts one more event and wakes all waiters.
    pub(crate) fn notify(&self) {
        let mut state = lock(&self.state);
        state.count += 1;
        let has_waiters = state.waiting > 0;
        drop(state);
        if has_waiters {
            planted!(WakeOne, self.changed.notify_all(), else self.changed.notify_one());
        }
    }

    /// Ends every wait, now and later.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// The number of events so far; `None` once stopped.
    pub(crate) fn count(&self) -> Option<u64> {
        let state = lock(&self.state);
        (!state.stopped).then_some(state.count)
    }

    /// Waits until the count exceeds `seen`, or the event count is stopped. A waiter reads the
    /// count first, then looks at the state, then waits beyond the count that it read: no event
    /// between the look and the wait is missed.
    pub(crate) fn wait_beyond(&self, seen: u64) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let waited = self
            .changed
            .wait_while(state, |state| !state.stopped && state.count <= seen);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// Like [`EventCount::wait_beyond`], at most until `deadline`.
    pub(crate) fn wait_beyond_until(&self, seen: u64, deadline: Instant) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let limit = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.stopped && state.count <= seen);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
    }
}

/// A bound in bytes on what is under way between threads. A thread that wants to add bytes waits
/// for room, so a slow consumer slows its producers down instead of filling the memory.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    /// Bytes that may be taken at the same time.
    total: usize,
    state: Mutex<BudgetState>,
    freed: Condvar,
}

#[derive(Debug)]
struct BudgetState {
    used: usize,
    /// How many have taken bytes and not given them back.
    takers: usize,
    closed: bool,
}

impl ByteBudget {
    pub(crate) fn new(total: usize) -> ByteBudget {
        ByteBudget {
            total,
            state: Mutex::new(BudgetState {
                used: 0,
                takers: 0,
                closed: false,
            }),
            freed: Condvar::new(),
        }
    }

    /// Waits until `bytes` are free and takes them. A taker may exceed the total while no other
    /// bytes are taken, so that a single large item passes. False if the budget is closed.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        self.take_unless(bytes, || false)
    }

    /// Like [`ByteBudget::take`], but false, with nothing taken, if `unwanted` holds. A thread that
    /// makes it hold calls [`ByteBudget::look_again`].
    pub(crate) fn take_unless(&self, bytes: usize, unwanted: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        loop {
            if unwanted() {
                return false;
            }
            if state.closed || state.used == 0 || state.used + bytes <= self.total {
                break;
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.take(bytes);
        !state.closed
    }

    /// Makes those who wait for room look whether they still want it.
    fn look_again(&self) {
        // A thread that has looked before this holds the lock until it waits.
        planted!(LookAgainUnlocked, drop(lock(&self.state)), else ());
        self.freed.notify_all();
    }

    /// Like [`ByteBudget::take`], but without a wait: false also if there is no room now.
    pub(crate) fn take_now(&self, bytes: usize) -> bool {
        let mut state = lock(&self.state);
        let fits = state.used == 0 || state.used + bytes <= self.total;
        let takes = fits && !state.closed;
        if takes {
            state.take(bytes);
        }
        takes
    }

    /// How many have taken bytes and not given them back.
    pub(crate) fn takers(&self) -> usize {
        lock(&self.state).takers
    }

    fn give_back(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.used = state.used.saturating_sub(bytes);
        state.takers = state.takers.saturating_sub(1);
        drop(state);
        self.freed.notify_all();
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.freed.notify_all();
    }
}

impl BudgetState {
    fn take(&mut self, bytes: usize) {
        self.used += bytes;
        self.takers += 1;
    }
}

/// Bytes that were taken from a budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl BudgetShare {
    /// Takes charge of bytes that were taken from the budget.
    pub(crate) fn of(budget: Arc<ByteBudget>, bytes: usize) -> BudgetShare {
        BudgetShare { budget, bytes }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// Bound for the control lanes of all members together. Each of their messages is small.
const CONTROL_BYTES_MAX: usize = 8 << 20;
const BULK_BYTES_MAX: usize = 64 << 20;

/// Bounds on the bytes of received messages that are not handled yet, one for each lane: a vote
/// waits for no room that data has taken.
#[derive(Clone, Debug)]
pub(crate) struct InboundBudgets {
    control: Arc<ByteBudget>,
    bulk: Arc<ByteBudget>,
}

impl Default for InboundBudgets {
    fn default() -> InboundBudgets {
        InboundBudgets::of_bytes(CONTROL_BYTES_MAX, BULK_BYTES_MAX)
    }
}

impl InboundBudgets {
    pub(crate) fn of_bytes(control: usize, bulk: usize) -> InboundBudgets {
        InboundBudgets {
            control: Arc::new(ByteBudget::new(control)),
            bulk: Arc::new(ByteBudget::new(bulk)),
        }
    }

    pub(crate) fn of(&self, lane: Lane) -> &Arc<ByteBudget> {
        match lane {
            Lane::Control => &self.control,
            Lane::Bulk => &self.bulk,
        }
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        self.control.close();
        self.bulk.close();
    }
}

/// How a [`Pending::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    ProposalResult(ProposalResult),
    /// [`Pending::interrupt`] was called before there was a result.
    Interrupted,
}

#[derive(Debug, Default)]
struct PendingState {
    slot: ResultSlot,
    interrupted: bool,
    /// The last piece is handed over: only the group knows what becomes of the action.
    is_with_group: bool,
    /// When the result came; none for one that is not the driver's.
    decided_at: Option<Instant>,
}

/// A proposed action, as its client's thread waits for it. The first result is final. Until the
/// last piece is handed over, the action can be withdrawn: it is then never ordered.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<PendingState>,
    changed: Condvar,
    policy: WaitPolicy,
    /// Budget that the submission of a piece may be waiting for.
    room: Option<Arc<ByteBudget>>,
}

impl Pending {
    pub(crate) fn new(epoch: Arc<AtomicU64>, policy: WaitPolicy, room: Arc<ByteBudget>) -> Pending {
        let state = PendingState {
            slot: ResultSlot::new(epoch),
            ..PendingState::default()
        };
        Pending {
            state: Mutex::new(state),
            changed: Condvar::new(),
            policy,
            room: Some(room),
        }
    }

    /// The last piece is about to be handed over; false if the action has a result already.
    pub fn begin_last_piece(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_with_group = true;
        state.slot.result().is_none()
    }

    /// Ends the submission of an action of which the last piece is not handed over yet, with
    /// [`ProposalResult::Withdrawn`]. False if it is too late: the action is with the group, or has
    /// another result. Never blocks.
    pub fn withdraw(&self) -> bool {
        let mut state = lock(&self.state);
        if state.is_with_group || !state.slot.decide(ProposalResult::Withdrawn) {
            return false;
        }
        drop(state);
        self.changed.notify_all();
        if let Some(room) = &self.room {
            room.look_again();
        }
        true
    }

    /// Whether it was withdrawn, so that it will never be ordered.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.result() == Some(ProposalResult::Withdrawn)
    }

    /// Waits for the result or an interruption. A result that is known wins.
    pub fn wait(&self) -> WaitResult {
        let state = self.wait_while(|state| state.slot.result().is_none() && !state.interrupted);
        match state.slot.result() {
            Some(result) => WaitResult::ProposalResult(result),
            None => WaitResult::Interrupted,
        }
    }

    /// Waits for the result, whether interrupted or not.
    pub fn wait_for_result(&self) -> ProposalResult {
        let state = self.wait_while(|state| state.slot.result().is_none());
        state.slot.result().expect("waited until there is one")
    }

    fn wait_while(
        &self,
        condition: impl Fn(&PendingState) -> bool,
    ) -> MutexGuard<'_, PendingState> {
        let waited = self
            .changed
            .wait_while(lock(&self.state), |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a present or future [`Pending::wait`] return.
    pub fn interrupt(&self) {
        lock(&self.state).interrupted = true;
        self.changed.notify_all();
    }

    /// The result; `None` while there is none.
    pub fn result(&self) -> Option<ProposalResult> {
        lock(&self.state).slot.result()
    }

    /// When the group's result came; `None` while there is none.
    pub fn decided_at(&self) -> Option<Instant> {
        lock(&self.state).decided_at
    }

    /// Ends the wait: without a result yet, the action gets [`ProposalResult::Unknown`]. Returns
    /// the result.
    pub fn give_up(&self) -> Option<ProposalResult> {
        let result = lock(&self.state).slot.give_up();
        self.changed.notify_all();
        Some(result)
    }
}

impl Client for Pending {
    fn patience(&self) -> WaitPolicy {
        self.policy
    }

    fn is_decided(&self) -> bool {
        self.result().is_some()
    }

    fn decide(&self, result: ProposalResult) -> bool {
        let mut state = lock(&self.state);
        let is_first = state.slot.decide(result);
        if is_first {
            state.decided_at = Some(Instant::now());
        }
        drop(state);
        self.changed.notify_all();
        is_first
    }
}

#[cfg(all(test, feature = "shuttle"))]
#[path = "wait_model.rs"]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn event_between_look_and_wait_is_not_missed() {
        let events = EventCount::default();
        let seen = events.count().unwrap();
        events.notify();
        events.wait_beyond(seen);
        assert_eq!(events.count(), Some(seen + 1));
    }

    #[test]
    fn wait_ends_at_its_deadline_without_an_event() {
        let events = EventCount::default();
        events.notify();
        let seen = events.count().unwrap();
        events.wait_beyond_until(seen, Instant::now());
        assert_eq!(events.count(), Some(seen));
    }

    #[test]
    fn stopping_ends_the_wait() {
        let events = Arc::new(EventCount::default());
        let waiting = {
            let events = events.clone();
            std::thread::spawn(move || events.wait_beyond(0))
        };
        events.stop();
        waiting.join().unwrap();
        assert_eq!(events.count(), None);
    }

    fn used(budget: &ByteBudget) -> usize {
        budget.state.lock().unwrap().used
    }

    #[test]
    fn one_large_item_passes_alone() {
        let budget = ByteBudget::new(10);
        assert!(budget.take(100));
        assert_eq!(used(&budget), 100);
        budget.give_back(100);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn taker_waits_until_there_is_room() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let waiting = {
            let budget = budget.clone();
            std::thread::spawn(move || budget.take(5))
        };
        assert_eq!(used(&budget), 8);
        budget.give_back(8);
        assert!(waiting.join().unwrap());
        assert_eq!(used(&budget), 5);
    }

    #[test]
    fn taker_that_does_not_want_room_any_more_takes_none() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let unwanted = Arc::new(AtomicBool::new(false));
        let waiting = {
            let (budget, unwanted) = (budget.clone(), unwanted.clone());
            std::thread::spawn(move || budget.take_unless(5, || unwanted.load(Ordering::SeqCst)))
        };
        unwanted.store(true, Ordering::SeqCst);
        budget.look_again();
        assert!(!waiting.join().unwrap());
        assert_eq!(used(&budget), 8);
    }

    #[test]
    fn taker_that_does_not_wait_takes_what_is_free() {
        let budget = ByteBudget::new(10);
        assert!(budget.take_now(100), "a single large item passes");
        assert!(!budget.take_now(1));
        budget.give_back(95);
        assert!(budget.take_now(5));
        assert_eq!(used(&budget), 10);
        budget.close();
        budget.give_back(10);
        assert!(!budget.take_now(1));
    }

    #[test]
    fn share_is_given_back_when_it_is_dropped() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let share = BudgetShare::of(budget.clone(), 8);
        assert_eq!((used(&budget), budget.takers()), (8, 1));
        drop(share);
        assert_eq!((used(&budget), budget.takers()), (0, 0));
    }

    #[test]
    fn closing_ends_present_and_later_waits() {
        let budget = Arc::new(ByteBudget::new(1));
        assert!(budget.take(1));
        let waiting = {
            let budget = budget.clone();
            std::thread::spawn(move || budget.take(1))
        };
        budget.close();
        assert!(!waiting.join().unwrap());
        assert!(!budget.take(1));
    }

    #[test]
    fn decision_ends_the_wait() {
        let pending = Pending::default();
        assert!(pending.decide(ProposalResult::TooOld));
        assert_eq!(
            pending.wait(),
            WaitResult::ProposalResult(ProposalResult::TooOld)
        );
        assert_eq!(pending.wait_for_result(), ProposalResult::TooOld);
        assert_eq!(pending.give_up(), Some(ProposalResult::TooOld));
    }

    #[test]
    fn action_can_be_withdrawn_until_its_last_piece_is_handed_over() {
        let pending = Pending::default();
        assert!(pending.withdraw());
        assert_eq!(pending.wait_for_result(), ProposalResult::Withdrawn);
        assert!(!pending.begin_last_piece(), "it is not sent");
        assert!(!pending.withdraw());

        let pending = Pending::default();
        assert!(pending.begin_last_piece());
        assert!(!pending.withdraw());
        assert_eq!(pending.result(), None);
    }

    #[test]
    fn interruption_wakes_a_wait_and_is_no_decision() {
        let pending = Pending::default();
        pending.interrupt();
        assert_eq!(pending.wait(), WaitResult::Interrupted);
        assert_eq!(pending.result(), None);
    }
}

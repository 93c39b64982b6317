//! Each rule of the sequencer by itself. What must not happen is checked at moments when everything
//! else has come to rest; what must happen is waited for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{Origin, Seqno, View};

use super::*;

/// Longer than anything takes here, unless it hangs.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn action(seqno: i64, depends_on: i64) -> Queued {
    Queued::Action {
        seqno,
        depends_on,
        origin: Origin::default(),
        data: Bytes::new(),
    }
}

pub(super) fn view(seqno: i64) -> Queued {
    Queued::View(View {
        seqno: Seqno(seqno),
        ..View::default()
    })
}

fn sized(seqno: i64, bytes: usize) -> Queued {
    let data = Bytes::from(vec![0; bytes]);
    Queued::Action {
        seqno,
        depends_on: seqno - 1,
        origin: Origin::default(),
        data,
    }
}

/// An order after 0 with some appliers counted.
fn sequencer(appliers: usize) -> Arc<Sequencer> {
    let sequencer = Sequencer::new(0, usize::MAX);
    for _ in 0..appliers {
        sequencer.applier_enters();
    }
    Arc::new(sequencer)
}

fn far() -> Instant {
    Instant::now() + LIMIT
}

/// The task that an applier would get without waiting.
fn pick(sequencer: &Sequencer) -> Option<Work> {
    sequencer.lock().pick()
}

#[track_caller]
fn assert_starts(sequencer: &Sequencer, expected: i64) {
    match pick(sequencer) {
        Some(Work::Apply(item)) => assert_eq!(item.seqno(), expected),
        other => panic!("expected {expected}, not {other:?}"),
    }
}

#[track_caller]
fn assert_idle(sequencer: &Sequencer) {
    let work = pick(sequencer);
    assert!(work.is_none(), "{work:?}");
}

fn finish_one(sequencer: &Sequencer, seqno: i64) {
    assert_eq!(sequencer.enter(seqno, None), Entered::Yes);
    sequencer.leave(seqno);
    sequencer.release(seqno);
}

/// Runs a call that may wait.
fn started<T: Send + 'static>(
    sequencer: &Arc<Sequencer>,
    call: impl FnOnce(&Sequencer) -> T + Send + 'static,
) -> Receiver<T> {
    let (done, result) = channel();
    let sequencer = sequencer.clone();
    thread::spawn(move || {
        let _ = done.send(call(&sequencer));
    });
    result
}

/// Waits until something holds of the state.
fn until(sequencer: &Sequencer, holds: impl Fn(&State) -> bool) {
    let deadline = far();
    while !holds(&sequencer.lock()) {
        assert!(Instant::now() < deadline, "it never came to that");
        thread::yield_now();
    }
}

fn until_waiting_to_enter(sequencer: &Sequencer, seqno: i64) {
    until(sequencer, |state| state.enter_waiters.contains_key(&seqno));
}

fn result<T>(waiting: &Receiver<T>) -> T {
    waiting.recv_timeout(LIMIT).expect("it must not hang")
}

#[track_caller]
fn assert_waits<T>(waiting: &Receiver<T>) {
    let answer = waiting.recv_timeout(Duration::ZERO);
    assert!(
        matches!(answer, Err(RecvTimeoutError::Timeout)),
        "it did not wait"
    );
}

#[test]
#[should_panic(expected = "released twice")]
fn releasing_twice_is_a_bug() {
    let sequencer = sequencer(0);
    finish_one(&sequencer, 1);
    sequencer.release(1);
}

#[test]
#[should_panic(expected = "enters again")]
fn entering_again_is_a_bug_and_does_not_hang() {
    let sequencer = sequencer(0);
    finish_one(&sequencer, 1);
    sequencer.enter(1, None);
}

#[test]
fn what_has_nothing_to_do_passes_when_its_turn_comes() {
    let sequencer = sequencer(1);
    assert!(sequencer.push_local(2));
    sequencer.skip(2);
    sequencer.skip(3);
    assert_eq!(sequencer.released(), 0);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    sequencer.leave(1);
    assert_eq!(sequencer.released(), 0, "after what is before it");
    sequencer.release(1);
    assert_eq!(sequencer.released(), 3);
    assert!(sequencer.is_settled());
    assert_eq!(sequencer.enter(4, None), Entered::Yes);
}

#[test]
fn what_has_nothing_to_do_waits_for_the_end_of_a_pause_and_is_waited_for_at_the_end() {
    let sequencer = sequencer(1);
    assert_eq!(sequencer.pause(), Some(0));
    sequencer.skip(1);
    assert_eq!(sequencer.released(), 0);
    sequencer.resume();
    assert_eq!(sequencer.released(), 1);
    sequencer.skip(3);
    sequencer.stop(far());
    assert_eq!(
        sequencer.enter(2, None),
        Entered::Yes,
        "it is before what is to finish"
    );
    sequencer.leave(2);
    sequencer.release(2);
    sequencer.finish();
    assert_eq!(sequencer.released(), 3);
}

#[test]
fn ready_action_overtakes_one_that_waits() {
    let sequencer = sequencer(3);
    sequencer.push(action(1, 0));
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    assert_starts(&sequencer, 1);
    assert_starts(&sequencer, 3);
    assert_idle(&sequencer);
}

#[test]
fn last_free_applier_is_kept_for_the_first_action() {
    let sequencer = sequencer(2);
    sequencer.push_local(1);
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    sequencer.push(action(4, 0));
    assert_starts(&sequencer, 3);
    assert_idle(&sequencer);
    finish_one(&sequencer, 1);
    assert_starts(&sequencer, 2);
}

#[test]
fn single_applier_works_in_order() {
    let sequencer = sequencer(1);
    sequencer.push_local(1);
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    assert_idle(&sequencer);
    finish_one(&sequencer, 1);
    assert_starts(&sequencer, 2);
    finish_one(&sequencer, 2);
    assert_starts(&sequencer, 3);
}

#[test]
fn view_is_a_barrier_in_both_directions() {
    let sequencer = sequencer(4);
    sequencer.push(action(1, 0));
    sequencer.push(view(2));
    // Its leader thought it might overtake the view.
    sequencer.push(action(3, 0));
    assert_starts(&sequencer, 1);
    assert_idle(&sequencer);
    finish_one(&sequencer, 1);
    assert_starts(&sequencer, 2);
    assert_idle(&sequencer);
    sequencer.pass(2);
    assert_idle(&sequencer);
    sequencer.release(2);
    assert_starts(&sequencer, 3);
}

#[test]
fn dependency_on_itself_or_later_does_not_block_for_ever() {
    let sequencer = sequencer(1);
    sequencer.push(action(1, 7));
    assert_starts(&sequencer, 1);
}

#[test]
fn what_is_delivered_again_is_not_applied_again() {
    let sequencer = sequencer(1);
    finish_one(&sequencer, 1);
    sequencer.push(action(1, 0));
    assert_idle(&sequencer);
}

#[test]
fn task_waits_for_what_was_delivered_before_it_and_holds_back_what_comes_after() {
    let sequencer = sequencer(2);
    sequencer.push(action(1, 0));
    sequencer.add_task(0, Task::Synced);
    sequencer.push(action(2, 0));
    assert_starts(&sequencer, 1);
    assert_idle(&sequencer);
    finish_one(&sequencer, 1);
    assert!(matches!(pick(&sequencer), Some(Work::Do(Task::Synced))));
    assert_idle(&sequencer);
    sequencer.task_done();
    assert_starts(&sequencer, 2);
}

#[test]
fn task_for_a_later_position_lets_earlier_actions_pass() {
    let sequencer = sequencer(1);
    sequencer.add_task(2, Task::Synced);
    for seqno in 1..=2 {
        sequencer.push(action(seqno, seqno - 1));
        assert_starts(&sequencer, seqno);
        finish_one(&sequencer, seqno);
    }
    assert!(matches!(pick(&sequencer), Some(Work::Do(Task::Synced))));
}

#[test]
fn interrupted_local_transaction_can_enter_later_without_the_flag() {
    let sequencer = sequencer(0);
    let flag = Arc::new(AtomicBool::new(false));
    let own = flag.clone();
    let waiting = started(&sequencer, move |s| s.enter(2, Some(&own)));
    until_waiting_to_enter(&sequencer, 2);
    assert!(sequencer.interrupt(2, &flag));
    assert_eq!(result(&waiting), Entered::Interrupted);
    finish_one(&sequencer, 1);
    assert_eq!(sequencer.enter(2, None), Entered::Yes);
}

#[test]
fn who_has_entered_cannot_be_interrupted() {
    let sequencer = sequencer(0);
    let flag = AtomicBool::new(false);
    assert_eq!(sequencer.enter(1, Some(&flag)), Entered::Yes);
    assert!(!sequencer.interrupt(1, &flag));
}

#[test]
fn statement_that_is_alone_waits_for_releases() {
    let sequencer = sequencer(0);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    let alone = started(&sequencer, |s| s.enter_alone(2));
    sequencer.leave(1);
    until(&sequencer, |state| {
        state.entered == 2 && !state.release_waiters.is_empty()
    });
    assert_waits(&alone);
    sequencer.release(1);
    assert_eq!(result(&alone), Entered::Yes);
}

#[test]
fn wait_for_a_release_ends_at_its_deadline() {
    let sequencer = sequencer(0);
    assert!(!sequencer.wait_released(1, Some(Instant::now())));
    assert!(
        sequencer.lock().release_waiters.is_empty(),
        "nothing is left behind"
    );
    assert!(sequencer.wait_released(0, Some(Instant::now())));
}

#[test]
fn wait_for_a_release_ends_when_it_is_interrupted() {
    let sequencer = sequencer(0);
    let flag = Arc::new(AtomicBool::new(false));
    let waits = {
        let flag = flag.clone();
        started(&sequencer, move |s| s.wait_released_unless(1, None, &flag))
    };
    until(&sequencer, |state| !state.release_waiters.is_empty());
    sequencer.interrupt_waits(&flag);
    assert!(!result(&waits));
    assert!(sequencer.lock().release_waiters.is_empty());
}

#[test]
fn statement_that_is_alone_is_known_until_it_is_released() {
    let sequencer = sequencer(0);
    assert_eq!(sequencer.alone(), 0);
    assert_eq!(sequencer.enter_alone(1), Entered::Yes);
    assert_eq!(sequencer.alone(), 1);
    let waits = started(&sequencer, |s| s.wait_released(s.alone(), None));
    until(&sequencer, |state| !state.release_waiters.is_empty());
    assert_waits(&waits);
    sequencer.leave(1);
    sequencer.release(1);
    assert!(result(&waits));
}

#[test]
fn pauses_wait_for_each_other() {
    let sequencer = sequencer(0);
    assert_eq!(sequencer.pause(), Some(0));
    let second = started(&sequencer, Sequencer::pause);
    until(&sequencer, |state| state.pause_waiters == 1);
    assert_waits(&second);
    sequencer.resume();
    assert_eq!(result(&second), Some(0));
}

#[test]
fn delivery_waits_for_room_and_stop_ends_the_wait() {
    let sequencer = Arc::new(Sequencer::new(0, 10_000));
    sequencer.applier_enters();
    assert!(sequencer.push(sized(1, 9_000)));
    assert!(
        sequencer.push(sized(2, 9_000)),
        "a single one may exceed the bound"
    );
    let third = started(&sequencer, |s| s.push(sized(3, 10)));
    until(&sequencer, |state| state.room_wanted);
    assert!(matches!(sequencer.next(), Work::Apply(_)));
    assert_waits(&third);
    finish_one(&sequencer, 1);
    assert!(matches!(sequencer.next(), Work::Apply(_)));
    assert!(result(&third));
    assert!(sequencer.push(sized(4, 20_000)));
    let fifth = started(&sequencer, |s| s.push(sized(5, 10)));
    until(&sequencer, |state| state.room_wanted);
    sequencer.stop(far());
    assert!(!result(&fifth));
    assert!(!sequencer.push_local(5));
}

#[test]
fn more_room_lets_delivery_go_on() {
    let sequencer = Arc::new(Sequencer::new(0, 1_000));
    assert!(sequencer.push(sized(1, 9_000)));
    let second = started(&sequencer, |s| s.push(sized(2, 10)));
    until(&sequencer, |state| state.room_wanted);
    sequencer.set_queue_bytes_max(1 << 20);
    assert!(result(&second));
}

#[test]
fn applier_may_go_unless_others_need_it() {
    let sequencer = sequencer(2);
    sequencer.push_local(1);
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    assert_starts(&sequencer, 3);
    assert!(!sequencer.applier_may_go(), "2 would never be started");
    finish_one(&sequencer, 1);
    assert_starts(&sequencer, 2);
    assert!(sequencer.applier_may_go());
    assert!(!sequencer.applier_may_go(), "the last one stays");
}

#[test]
fn abandoned_local_action_that_all_appliers_wait_for_is_told() {
    let sequencer = sequencer(1);
    sequencer.push_local(1);
    sequencer.push(action(2, 0));
    assert_starts(&sequencer, 2);
    assert_eq!(sequencer.adopt(action(1, 0)), Err(NoApplier));
}

#[test]
fn idle_appliers_are_woken_one_for_each_ready_action() {
    let sequencer = sequencer(3);
    let idle: Vec<_> = (0..3)
        .map(|_| started(&sequencer, Sequencer::next))
        .collect();
    until(&sequencer, |state| state.idle.len() == 3);
    sequencer.push_local(1);
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    until(&sequencer, |state| {
        state.idle.len() == 2 && state.running.contains(&3)
    });
    sequencer.push(action(4, 3));
    assert_eq!(
        sequencer.lock().idle.len(),
        2,
        "4 cannot start, so no applier is woken for it"
    );
    drop(idle);
    sequencer.abort();
}

#[test]
fn stop_finishes_what_has_begun_and_drops_the_rest() {
    let sequencer = sequencer(2);
    sequencer.push(action(1, 0));
    sequencer.push(action(2, 1));
    sequencer.push(action(3, 0));
    sequencer.push(action(4, 3));
    assert_starts(&sequencer, 1);
    sequencer.push_local(5);
    // Runs ahead of 2, which therefore has to be finished too.
    assert_eq!(sequencer.lock().begun(), 1);
    sequencer.lock().locals.clear();
    let third = {
        let mut state = sequencer.lock();
        state.appliers = 3;
        state.pick()
    };
    assert!(matches!(third, Some(Work::Apply(item)) if item.seqno() == 3));
    sequencer.stop(far());
    finish_one(&sequencer, 1);
    assert_starts(&sequencer, 2);
    finish_one(&sequencer, 2);
    assert_idle(&sequencer);
    finish_one(&sequencer, 3);
    assert!(matches!(pick(&sequencer), Some(Work::End { last: false })));
    assert!(matches!(pick(&sequencer), Some(Work::End { last: false })));
    assert!(matches!(pick(&sequencer), Some(Work::End { last: true })));
    assert_eq!(sequencer.released(), 3);
    assert!(sequencer.is_settled());
}

#[test]
fn stop_waits_for_local_transactions_that_were_delivered() {
    let sequencer = sequencer(1);
    sequencer.push_local(1);
    let waiting = started(&sequencer, |s| s.enter(3, None));
    until_waiting_to_enter(&sequencer, 3);
    sequencer.stop(far());
    assert_eq!(result(&waiting), Entered::Stopped, "3 was not delivered");
    assert_idle(&sequencer);
    finish_one(&sequencer, 1);
    assert!(matches!(pick(&sequencer), Some(Work::End { last: true })));
}

#[test]
fn abandoned_local_action_is_still_applied_after_stop() {
    let sequencer = sequencer(1);
    sequencer.push_local(1);
    sequencer.stop(far());
    assert_eq!(sequencer.adopt(action(1, 0)), Ok(()));
    assert_eq!(
        sequencer.adopt(action(2, 0)),
        Ok(()),
        "beyond the end: forgotten"
    );
    assert_starts(&sequencer, 1);
    finish_one(&sequencer, 1);
    assert!(matches!(pick(&sequencer), Some(Work::End { last: true })));
}

#[test]
fn stop_keeps_a_pause() {
    let sequencer = sequencer(1);
    assert_eq!(sequencer.pause(), Some(0));
    sequencer.push_local(1);
    let client = started(&sequencer, |s| s.enter(1, None));
    until_waiting_to_enter(&sequencer, 1);
    sequencer.stop(far());
    assert_eq!(
        result(&client),
        Entered::Stopped,
        "a backup copies the files"
    );
    assert!(matches!(pick(&sequencer), Some(Work::End { last: true })));
}

#[test]
fn appliers_go_at_the_deadline_even_if_a_client_never_finishes() {
    let sequencer = sequencer(2);
    sequencer.push_local(1);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    let appliers: Vec<_> = (0..2)
        .map(|_| started(&sequencer, Sequencer::next))
        .collect();
    until(&sequencer, |state| state.idle.len() == 2);
    sequencer.stop(Instant::now());
    let last: Vec<bool> = appliers
        .iter()
        .map(|applier| matches!(result(applier), Work::End { last: true }))
        .collect();
    assert_eq!(
        last.iter().filter(|last| **last).count(),
        1,
        "exactly one is the last"
    );
    assert!(!sequencer.is_settled(), "the client is inside");
}

#[test]
fn cut_lets_every_waiter_go() {
    let sequencer = sequencer(1);
    sequencer.push(action(1, 0));
    assert_starts(&sequencer, 1);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    let enters = started(&sequencer, |s| s.enter(2, None));
    let reads = started(&sequencer, |s| s.wait_released(1, None));
    let pauses = started(&sequencer, Sequencer::pause);
    let applies = started(&sequencer, Sequencer::next);
    until_waiting_to_enter(&sequencer, 2);
    until(&sequencer, |s| {
        !s.release_waiters.is_empty() && s.pause_waiters == 1 && s.idle.len() == 1
    });
    sequencer.abort();
    assert_eq!(result(&enters), Entered::Stopped);
    assert!(!result(&reads), "1 will never be released");
    assert_eq!(result(&pauses), None);
    assert!(matches!(result(&applies), Work::End { last: true }));
    assert_eq!(
        sequencer.enter(2, None),
        Entered::Stopped,
        "also who comes later"
    );
    assert_eq!(sequencer.pause(), None);
}

#[test]
fn who_is_inside_when_the_order_is_aborted_may_finish() {
    let sequencer = sequencer(1);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    sequencer.abort();
    sequencer.leave(1);
    sequencer.release(1);
    assert_eq!(sequencer.released(), 1);
    assert_eq!(sequencer.enter(2, None), Entered::Stopped);
}

#[test]
fn finish_cuts_what_is_late() {
    let sequencer = sequencer(0);
    sequencer.push_local(1);
    sequencer.stop(Instant::now());
    sequencer.finish();
    assert!(sequencer.is_aborted_before(1));
}

#[test]
fn late_applier_hears_of_the_end() {
    let sequencer = sequencer(0);
    sequencer.stop(far());
    sequencer.applier_enters();
    assert!(matches!(sequencer.next(), Work::End { last: true }));
}

#[test]
fn lost_applier_is_not_counted() {
    let sequencer = sequencer(2);
    sequencer.applier_lost();
    sequencer.abort();
    assert!(matches!(sequencer.next(), Work::End { last: true }));
    sequencer.applier_lost();
    assert_eq!(sequencer.appliers(), 0);
}

#[test]
fn pause_waits_for_a_replay_that_has_begun() {
    let sequencer = sequencer(0);
    assert!(sequencer.begin_local(1));
    let paused = started(&sequencer, Sequencer::pause);
    until(&sequencer, |state| state.pause_at == Some(1));
    assert_waits(&paused);
    finish_one(&sequencer, 1);
    assert_eq!(result(&paused), Some(1));
}

#[test]
fn replay_does_not_begin_during_a_pause() {
    let sequencer = sequencer(0);
    assert_eq!(sequencer.pause(), Some(0));
    let replay = started(&sequencer, |s| s.begin_local(1));
    until(&sequencer, |state| state.pause_waiters == 1);
    assert_waits(&replay);
    sequencer.resume();
    assert!(result(&replay));
}

#[test]
fn replay_that_waits_for_the_end_of_a_pause_is_ended_by_a_stop() {
    let sequencer = sequencer(0);
    assert_eq!(sequencer.pause(), Some(0));
    let replay = started(&sequencer, |s| s.begin_local(1));
    until(&sequencer, |state| state.pause_waiters == 1);
    sequencer.stop(far());
    assert!(!result(&replay));
    assert!(
        sequencer.is_aborted_before(1),
        "its failure is no failure to apply"
    );
}

/// Servers leave without having looked whether they were let in.
#[test]
fn what_was_not_let_into_an_aborted_order_does_not_leave_it() {
    let sequencer = Sequencer::new(0, 1 << 20);
    assert_eq!(sequencer.enter(1, None), Entered::Yes);
    sequencer.abort();
    assert_eq!(sequencer.enter(2, None), Entered::Stopped);
    assert!(!sequencer.leave(2));
    assert_eq!(sequencer.left(), 0);
    assert!(sequencer.leave(1), "what is inside may finish");
    assert!(!sequencer.leave(2));
    assert_eq!(sequencer.left(), 1);
}

//! Waits and those who end them, under schedules that are chosen.

use std::sync::atomic::{AtomicUsize, Ordering};

use synod_planted::Bug;

use super::*;
use crate::sync::{model, thread};

fn joined(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Two threads wait for what two others do.
fn every_event_is_seen() {
    let (events, done) = (
        Arc::new(EventCount::default()),
        Arc::new(AtomicUsize::new(0)),
    );
    let spawn = |body: fn(&EventCount, &AtomicUsize)| {
        let (events, done) = (events.clone(), done.clone());
        thread::spawn(move || body(&events, &done))
    };
    let waits: fn(&EventCount, &AtomicUsize) = |events, done| {
        while let Some(seen) = events.count() {
            if done.load(Ordering::SeqCst) == 2 {
                return;
            }
            events.wait_beyond(seen);
        }
    };
    let does: fn(&EventCount, &AtomicUsize) = |events, done| {
        done.fetch_add(1, Ordering::SeqCst);
        events.notify();
    };
    joined(vec![spawn(waits), spawn(waits), spawn(does), spawn(does)]);
}

/// Two threads wait for events until the end.
fn stop_ends_every_wait() {
    let events = Arc::new(EventCount::default());
    let waiting = [(); 2].map(|()| {
        let events = events.clone();
        thread::spawn(move || {
            while let Some(seen) = events.count() {
                events.wait_beyond(seen);
            }
        })
    });
    events.notify();
    events.stop();
    joined(waiting.into());
}

/// Three threads need more room than there is, and give it back.
fn room_is_handed_on() {
    let budget = Arc::new(ByteBudget::new(10));
    let takers = [6, 4, 20].map(|bytes| {
        let budget = budget.clone();
        thread::spawn(move || {
            assert!(budget.take(bytes));
            let used = lock(&budget.state).used;
            assert!(used <= 10 || used == bytes, "{used}");
            drop(BudgetShare::of(budget, bytes));
        })
    });
    joined(takers.into());
    let state = lock(&budget.state);
    assert_eq!((state.used, state.takers), (0, 0));
}

/// An action is withdrawn while its next piece waits for room that never comes; or the node stops.
fn wait_for_room_ends(end: fn(&Pending, &ByteBudget)) {
    let budget = Arc::new(ByteBudget::new(10));
    assert!(budget.take(8));
    let pending = Arc::new(Pending::new(
        Arc::default(),
        WaitPolicy::default(),
        budget.clone(),
    ));
    let waiting = thread::spawn({
        let (pending, budget) = (pending.clone(), budget.clone());
        move || assert!(!budget.take_unless(5, || pending.is_withdrawn()))
    });
    end(&pending, &budget);
    waiting.join().unwrap();
}

fn withdrawal_ends_a_wait_for_room() {
    wait_for_room_ends(|pending, _| assert!(pending.withdraw()));
}

fn closing_ends_a_wait_for_room() {
    wait_for_room_ends(|_, budget| budget.close());
}

/// The result, a KILL and the end of the node come at once: there is one result, and both threads
/// that wait hear of it.
fn action_has_one_result() {
    let pending = Arc::new(Pending::default());
    let waits = |wait: fn(&Pending)| {
        let pending = pending.clone();
        thread::spawn(move || wait(&pending))
    };
    let threads = vec![
        waits(|pending| {
            pending.wait_for_result();
        }),
        waits(|pending| {
            pending.wait();
        }),
        waits(Pending::interrupt),
        waits(|pending| {
            pending.decide(ProposalResult::TooOld);
        }),
    ];
    let given_up = pending.give_up();
    joined(threads);
    assert_eq!(pending.result(), given_up);
}

#[test]
fn no_wait_lasts_longer_than_its_reason_in_every_schedule() {
    model::holds(every_event_is_seen);
    model::holds(stop_ends_every_wait);
    model::holds(room_is_handed_on);
    model::holds(withdrawal_ends_a_wait_for_room);
    model::holds(closing_ends_a_wait_for_room);
    model::holds(action_has_one_result);
}

#[test]
fn planted_bugs_are_found() {
    model::finds(Bug::WakeOne, every_event_is_seen);
    model::finds(Bug::LookAgainUnlocked, withdrawal_ends_a_wait_for_room);
}

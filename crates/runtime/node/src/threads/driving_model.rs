//! A few events from a few threads, under schedules that are chosen.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_planted::Bug;

use super::*;
use crate::sync::{model, thread};

const SENDERS: usize = 3;
const EACH: usize = 3;

/// The sender's number, and how many events it has sent before.
struct Sent(usize, usize);

impl Queued for Sent {
    fn goes_first(&self) -> bool {
        self.0 == 0
    }
}

/// Checks that no event is doubled or overtaken. With the last one a turn is due, and with that
/// it stops: a lost event or turn leaves the core thread asleep.
struct Counter {
    next: BTreeMap<usize, usize>,
    handled: usize,
    turns_after_all: usize,
}

impl Counter {
    fn has_all(&self) -> bool {
        self.handled == SENDERS * EACH
    }
}

impl Machine<Sent> for Counter {
    fn begin(&mut self) {
        assert_eq!(self.handled, 0);
    }

    fn handle(&mut self, Sent(sender, count): Sent) {
        let next = self.next.entry(sender).or_default();
        assert_eq!(count, *next, "of sender {sender}");
        *next += 1;
        self.handled += 1;
    }

    fn is_long(&self) -> bool {
        self.handled.is_multiple_of(2)
    }

    fn turn(&mut self) {
        self.turns_after_all += usize::from(self.has_all());
    }

    fn due(&self) -> Time {
        match self.has_all() {
            true => Time(0),
            false => Time(u64::MAX - 1),
        }
    }

    fn is_stopped(&self) -> bool {
        self.turns_after_all > 1
    }

    fn end(&mut self) {
        assert!(self.has_all());
    }
}

fn each_event_is_handled_and_the_last_turn_is_made() {
    let driving = Arc::new(Driving::new());
    let core = thread::spawn({
        let driving = driving.clone();
        let machine = Box::new(Counter {
            next: BTreeMap::new(),
            handled: 0,
            turns_after_all: 0,
        });
        move || driving.run_core(machine, |at| Duration::from_micros(at.0))
    });
    for sender in 0..SENDERS {
        let driving = driving.clone();
        thread::spawn(move || {
            for count in 0..EACH {
                let event = Sent(sender, count);
                match (sender + count) % 3 {
                    0 => driving.send(event),
                    1 => driving.drive(event, 1),
                    _ => {
                        driving.queue(event);
                        driving.drive_queued(2);
                    }
                }
            }
        });
    }
    core.join().unwrap();
    let state = lock(&driving.state);
    assert!(state.events.is_empty() && state.is_over && !state.is_driven);
}

#[test]
fn no_event_and_no_turn_is_lost_in_every_schedule() {
    model::holds(each_event_is_handled_and_the_last_turn_is_made);
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::KeepShare, Bug::SleepUnlocked] {
        model::finds(bug, each_event_is_handled_and_the_last_turn_is_made);
    }
}

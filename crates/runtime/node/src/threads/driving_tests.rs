//! Storms: many threads bring events, and the first one drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, spawn};
use std::time::Instant;

use super::*;

const SENDERS: usize = 8;
const EACH: usize = 20_000;
/// A time that no test waits for.
const FAR: Duration = Duration::from_secs(600);

/// A clock, and what the core thread is told of it.
#[derive(Clone, Copy)]
struct TestClock(Instant);

impl TestClock {
    fn start() -> TestClock {
        TestClock(Instant::now())
    }

    fn after(&self, period: Duration) -> Time {
        let us = (self.0.elapsed() + period).as_micros();
        Time(u64::try_from(us).unwrap())
    }

    fn until(&self, at: Time) -> Duration {
        at.since(self.after(Duration::ZERO))
    }
}

/// An event of a sender: the sender's number, and how many events it has sent before.
type Sent = (usize, usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Event(Sent),
    Stop,
    Panic,
}

impl Queued for Step {
    /// Events of every other sender go first.
    fn goes_first(&self) -> bool {
        matches!(self, Step::Event((sender, _)) if sender % 2 == 0)
    }
}

impl Queued for bool {
    fn goes_first(&self) -> bool {
        false
    }
}

/// Record of a machine for its test.
#[derive(Default)]
struct Seen {
    /// The next event of each sender.
    next: Mutex<BTreeMap<usize, usize>>,
    handled: AtomicUsize,
    turns: AtomicUsize,
    /// How many turns were driven by which kind of thread.
    drivers: Mutex<BTreeMap<&'static str, usize>>,
    is_driven: AtomicBool,
    has_ended: AtomicBool,
}

/// A machine that checks that it has one driver at a time, and that no event is lost, doubled, or
/// overtaken by a later one of the same sender.
struct Checker {
    seen: Arc<Seen>,
    clock: TestClock,
    /// When its next turn is due, after each turn.
    period: Duration,
    is_stopped: bool,
    /// Events handled and not followed by a turn yet.
    unturned: usize,
}

impl Checker {
    fn boxed(seen: &Arc<Seen>, clock: TestClock, period: Duration) -> Box<Checker> {
        Box::new(Checker {
            seen: seen.clone(),
            clock,
            period,
            is_stopped: false,
            unturned: 0,
        })
    }

    fn alone<R>(&mut self, body: impl FnOnce(&mut Checker) -> R) -> R {
        let was_driven = self.seen.is_driven.swap(true, Ordering::SeqCst);
        assert!(!was_driven, "two threads drive");
        let result = body(self);
        self.seen.is_driven.store(false, Ordering::SeqCst);
        result
    }
}

impl Machine<Step> for Checker {
    fn begin(&mut self) {
        assert_eq!(self.seen.handled.load(Ordering::SeqCst), 0);
    }

    fn handle(&mut self, step: Step) {
        self.alone(|machine| {
            machine.unturned += 1;
            match step {
                Step::Stop => machine.is_stopped = true,
                Step::Panic => std::panic::resume_unwind(Box::new("a test wants it")),
                Step::Event((sender, count)) => {
                    let mut next = lock(&machine.seen.next);
                    let expected = next.entry(sender).or_default();
                    assert_eq!(count, *expected, "of sender {sender}");
                    *expected += 1;
                    machine.seen.handled.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }

    fn turn(&mut self) {
        self.alone(|machine| {
            machine.unturned = 0;
            machine.seen.turns.fetch_add(1, Ordering::SeqCst);
            let thread = std::thread::current();
            let is_core = thread.name() == Some("core");
            let name = if is_core { "core" } else { "sender" };
            *lock(&machine.seen.drivers).entry(name).or_default() += 1;
        });
    }

    fn is_long(&self) -> bool {
        self.seen.turns.load(Ordering::SeqCst).is_multiple_of(2)
    }

    fn due(&self) -> Time {
        assert_eq!(self.unturned, 0, "a turn follows every event");
        self.clock.after(self.period)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    fn end(&mut self) {
        self.seen.has_ended.store(true, Ordering::SeqCst);
    }
}

struct Storm {
    driving: Arc<Driving<Step>>,
    seen: Arc<Seen>,
    core: std::thread::JoinHandle<()>,
}

impl Storm {
    fn begin(period: Duration) -> Storm {
        let (driving, seen) = (Arc::new(Driving::new()), Arc::new(Seen::default()));
        let clock = TestClock::start();
        let machine = Checker::boxed(&seen, clock, period);
        let core = std::thread::Builder::new().name("core".to_owned()).spawn({
            let driving = driving.clone();
            move || driving.run_core(machine, |at| clock.until(at))
        });
        Storm {
            driving,
            seen,
            core: core.unwrap(),
        }
    }

    /// Many threads send, each in its own way.
    fn blow(&self) {
        scope(|scope| {
            for sender in 0..SENDERS {
                let driving = &self.driving;
                scope.spawn(move || {
                    for count in 0..EACH {
                        let event = Step::Event((sender, count));
                        match (sender + count) % 4 {
                            0 => driving.send(event),
                            1 => driving.drive(event, 1),
                            2 => driving.drive(event, 3),
                            _ => {
                                driving.queue(event);
                                driving.drive_queued(2);
                            }
                        }
                    }
                });
            }
        });
    }

    /// Waits until so many events are handled. Nothing else is sent meanwhile, so a lost wake-up
    /// shows: no time comes at which the core thread would look by itself.
    fn wait_handled(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.seen.handled.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "events are left in the queue");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn stop(self) -> Arc<Seen> {
        self.driving.send(Step::Stop);
        self.core.join().unwrap();
        self.seen
    }
}

#[test]
fn every_event_of_a_storm_is_handled_once_and_in_its_senders_order() {
    let storm = Storm::begin(FAR);
    storm.blow();
    storm.wait_handled(SENDERS * EACH);
    let seen = storm.stop();
    assert_eq!(seen.handled.load(Ordering::SeqCst), SENDERS * EACH);
    assert!(seen.has_ended.load(Ordering::SeqCst));
}

#[test]
fn single_events_with_pauses_wake_a_thread_each_time() {
    let storm = Storm::begin(FAR);
    for count in 0..2000 {
        let event = Step::Event((0, count));
        match count % 3 {
            0 => storm.driving.send(event),
            1 => storm.driving.drive(event, 1),
            _ => {
                storm.driving.queue(event);
                storm.driving.drive_queued(1);
            }
        }
        storm.wait_handled(count + 1);
    }
    storm.stop();
}

#[test]
fn event_brought_while_no_thread_drives_is_handled_by_its_thread() {
    let storm = Storm::begin(FAR);
    storm.driving.send(Step::Event((0, 0)));
    storm.wait_handled(1);
    let before = lock(&storm.seen.drivers).get("sender").copied();
    assert_eq!(before, None);
    // The core thread lets go after its last turn.
    while lock(&storm.driving.state).is_driven {
        std::thread::yield_now();
    }
    storm.driving.drive(Step::Event((0, 1)), 1);
    assert_eq!(storm.seen.handled.load(Ordering::SeqCst), 2);
    let seen = storm.stop();
    assert_eq!(lock(&seen.drivers).get("sender"), Some(&1));
}

#[test]
fn events_sent_before_the_machine_begins_wait_for_it() {
    let (driving, seen) = (Driving::new(), Arc::new(Seen::default()));
    driving.drive(Step::Event((0, 0)), 1);
    driving.send(Step::Event((0, 1)));
    driving.drive(Step::Stop, 1);
    let clock = TestClock::start();
    driving.run_core(Checker::boxed(&seen, clock, FAR), |at| clock.until(at));
    assert_eq!(seen.handled.load(Ordering::SeqCst), 2);
}

#[test]
fn turns_are_made_when_they_are_due() {
    let storm = Storm::begin(Duration::from_millis(1));
    let deadline = Instant::now() + Duration::from_secs(60);
    while storm.seen.turns.load(Ordering::SeqCst) < 10 {
        assert!(Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(1));
    }
    storm.stop();
}

/// A driving thread may find that the next turn is due sooner than the core thread believes.
#[test]
fn core_thread_is_woken_for_a_turn_that_becomes_due_sooner() {
    struct Sooner(Arc<AtomicUsize>);
    impl Machine<bool> for Sooner {
        fn begin(&mut self) {}
        fn handle(&mut self, _is_last: bool) {}
        fn is_long(&self) -> bool {
            false
        }
        fn turn(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        fn due(&self) -> Time {
            // After the first turn in the far future, after the second one at once.
            match self.0.load(Ordering::SeqCst) {
                1 => Time(u64::MAX - 1),
                _ => Time(0),
            }
        }
        fn is_stopped(&self) -> bool {
            self.0.load(Ordering::SeqCst) >= 3
        }
        fn end(&mut self) {}
    }
    let (driving, turns) = (Arc::new(Driving::new()), Arc::default());
    let core = spawn({
        let (driving, machine) = (driving.clone(), Box::new(Sooner(Arc::clone(&turns))));
        move || driving.run_core(machine, |at| Duration::from_micros(at.0).min(FAR))
    });
    while lock(&driving.state).asleep_until.is_none() {
        std::thread::yield_now();
    }
    driving.drive(false, 1);
    core.join().unwrap();
    assert_eq!(turns.load(Ordering::SeqCst), 3);
}

/// A turn after which the same time is due as before needs no core thread.
#[test]
fn core_thread_sleeps_on_while_nothing_is_due_sooner() {
    struct Steady;
    impl Machine<bool> for Steady {
        fn begin(&mut self) {}
        fn handle(&mut self, _event: bool) {}
        fn is_long(&self) -> bool {
            false
        }
        fn turn(&mut self) {}
        fn due(&self) -> Time {
            Time(1_000_000_000)
        }
        fn is_stopped(&self) -> bool {
            false
        }
        fn end(&mut self) {}
    }
    let driving = Driving::new();
    *lock(&driving.machine) = Some(Box::new(Steady));
    let mut state = lock(&driving.state);
    (state.is_driven, state.asleep_until) = (false, Some(Time(1_000_000_000)));
    drop(state);
    driving.drive(true, 1);
    let state = lock(&driving.state);
    assert!(!state.is_driven && state.events.is_empty());
    assert!(state.asleep_until.is_some(), "it was not woken");
}

#[test]
fn machine_that_stops_in_a_storm_ends_on_the_core_thread_and_drops_the_rest() {
    for _ in 0..20 {
        let storm = Storm::begin(FAR);
        scope(|scope| {
            scope.spawn(|| storm.driving.drive(Step::Stop, 1));
            storm.blow();
        });
        let driving = storm.driving.clone();
        let seen = storm.stop();
        assert!(seen.has_ended.load(Ordering::SeqCst));
        let state = lock(&driving.state);
        assert!(state.events.is_empty() && state.is_over && !state.is_driven);
        assert!(lock(&driving.machine).is_none());
    }
}

#[test]
fn panic_on_a_sender_ends_the_core_thread_and_none_drives_again() {
    let storm = Storm::begin(FAR);
    storm.driving.send(Step::Event((0, 0)));
    storm.wait_handled(1);
    while lock(&storm.driving.state).is_driven {
        std::thread::yield_now();
    }
    storm.driving.drive(Step::Panic, 1);
    let panic = storm.core.join().unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a test wants it"));
    storm.driving.drive(Step::Event((0, 1)), 1);
    storm.driving.send(Step::Event((0, 1)));
    storm.driving.drive_queued(1);
    assert_eq!(storm.seen.handled.load(Ordering::SeqCst), 1);
    assert!(!storm.seen.has_ended.load(Ordering::SeqCst));
    assert!(lock(&storm.driving.machine).is_none(), "it is dropped");
}

/// A received message: a vote goes first, the rest is data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Received {
    Data(usize),
    Vote,
    Stop,
}

impl Queued for Received {
    fn goes_first(&self) -> bool {
        *self == Received::Vote
    }
}

/// Notes what it handles and when a turn ends (none). A vote comes while it handles some of the
/// data.
struct Receiver {
    driving: Arc<Driving<Received>>,
    /// The data during which a vote comes.
    vote_during: Option<usize>,
    is_long: bool,
    noted: Arc<Mutex<Vec<Option<Received>>>>,
}

impl Machine<Received> for Receiver {
    fn begin(&mut self) {}
    fn handle(&mut self, event: Received) {
        if self.vote_during.map(Received::Data) == Some(event) {
            self.driving.queue(Received::Vote);
        }
        lock(&self.noted).push(Some(event));
    }
    fn is_long(&self) -> bool {
        self.is_long
    }
    fn turn(&mut self) {
        lock(&self.noted).push(None);
    }
    fn due(&self) -> Time {
        Time(u64::MAX)
    }
    fn is_stopped(&self) -> bool {
        lock(&self.noted).contains(&Some(Received::Stop))
    }
    fn end(&mut self) {}
}

/// Notes of a machine that finds these events in its queue.
fn received(
    queued: &[Received],
    vote_during: Option<usize>,
    is_long: bool,
) -> Vec<Option<Received>> {
    let (driving, noted) = (Arc::new(Driving::new()), Arc::default());
    queued.iter().for_each(|event| driving.queue(*event));
    driving.queue(Received::Stop);
    let machine = Receiver {
        driving: driving.clone(),
        vote_during,
        is_long,
        noted: Arc::clone(&noted),
    };
    driving.run_core(Box::new(machine), |_| FAR);
    lock(&noted).clone()
}

#[test]
fn vote_is_handled_before_data_that_was_queued_earlier() {
    use Received::{Data, Stop, Vote};
    let noted = received(&[Data(1), Data(2), Vote], None, false);
    let expected = [Some(Vote), Some(Data(1)), Some(Data(2)), Some(Stop), None];
    assert_eq!(noted, expected);
}

#[test]
fn long_turn_ends_for_a_vote_and_the_rest_of_its_data_follows() {
    use Received::{Data, Stop, Vote};
    let data = [Data(1), Data(2), Data(3)];
    let noted = received(&data, Some(1), true);
    let next_turn = [Some(Vote), Some(Data(2)), Some(Data(3)), Some(Stop), None];
    assert_eq!(noted[..2], [Some(Data(1)), None]);
    assert_eq!(noted[2..], next_turn);
    // A short one does not: what follows is sent and written together.
    let noted = received(&data[..2], Some(1), false);
    assert_eq!(noted[..3], [Some(Data(1)), Some(Data(2)), Some(Stop)]);
}

impl Queued for i32 {
    fn goes_first(&self) -> bool {
        *self < 0
    }
}

#[test]
fn each_queue_keeps_its_order_and_neither_starves_the_other() {
    let mut queue = EventQueue::new();
    let many = 3 * TAKEN_MAX as i32;
    for count in 1..=many {
        queue.push(count);
        queue.push(-count);
    }
    let mut taken = Vec::new();
    while !queue.is_empty() {
        let turn = queue.take();
        assert!(turn.iter().any(|event| *event > 0) && turn[0] < 0);
        taken.extend(turn);
    }
    let rest: Vec<i32> = taken.iter().copied().filter(|event| *event > 0).collect();
    let first: Vec<i32> = taken
        .iter()
        .map(|event| -event)
        .filter(|e| *e > 0)
        .collect();
    let in_order: Vec<i32> = (1..=many).collect();
    assert_eq!((&rest, &first), (&in_order, &in_order));
}

#[test]
fn what_is_put_back_comes_before_what_was_queued_meanwhile() {
    let mut queue = EventQueue::new();
    (1..=3).for_each(|event| queue.push(event));
    let mut taken = queue.take();
    assert_eq!(taken.pop_front(), Some(1));
    queue.push(4);
    queue.push(-1);
    queue.put_back(taken);
    assert_eq!(queue.take(), [-1, 2, 3, 4]);
}

//! Appliers, clients, pauses, interrupts and a stop at a random moment, all at once.
//!
//! Threads of the system run large storms; with the feature `shuttle`, a scheduler orders those of
//! small ones. One thread delivers a random history, as the node does. Checked throughout:
//!
//! * the order is entered and left strictly by seqno, by one thread at a time;
//! * nothing starts before what it depends on is released; views and tasks are alone;
//! * an interrupted client comes out and replays; one that has entered is never interrupted;
//! * while a pause lasts, nothing enters and nothing is begun;
//! * after the end, everything up to the released position has finished, and all threads come out.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::tests::{action, view};
use super::*;
use crate::sync::mpsc::{Sender, channel};
use crate::sync::thread;

/// Everything must be over by then.
const LIMIT: Duration = Duration::from_secs(60);

/// xorshift64*: the same seed draws the same history.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.roll(range.end() - range.start() + 1)
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// Lets other threads run, sometimes.
    fn dawdle(&mut self) {
        for _ in 0..self.roll(4) {
            thread::yield_now();
        }
    }
}

/// Expected state, tracked beside the sequencer.
struct Witness {
    sequencer: Sequencer,
    depends_on: Vec<i64>,
    /// Highest seqno that has entered.
    entered: AtomicI64,
    /// A transaction is between entering and leaving.
    inside: AtomicBool,
    is_paused: AtomicBool,
    finished: Vec<AtomicBool>,
    running: Mutex<Vec<i64>>,
    stopped: AtomicBool,
}

impl Witness {
    fn is_not_paused(&self, seqno: i64, what: &str) {
        let is_paused = self.is_paused.load(Ordering::SeqCst);
        assert!(!is_paused, "{seqno} {what} during a pause");
    }

    fn begins(&self, seqno: i64, alone: bool) {
        self.is_not_paused(seqno, "begins");
        let needed = self.depends_on[seqno as usize];
        assert!(
            self.sequencer.released() >= needed,
            "{seqno} begins before {needed} is released"
        );
        let mut running = self.running.lock().unwrap();
        assert!(
            !alone || running.is_empty(),
            "view {seqno} beside {running:?}"
        );
        running.push(seqno);
    }

    fn ends(&self, seqno: i64) {
        self.finished[seqno as usize].store(true, Ordering::SeqCst);
        self.running.lock().unwrap().retain(|s| *s != seqno);
    }

    /// From entering to the release.
    fn pass(&self, seqno: i64, dice: &mut Dice) {
        self.hold(seqno);
        dice.dawdle();
        self.inside.store(false, Ordering::SeqCst);
        self.sequencer.leave(seqno);
        dice.dawdle();
        self.ends(seqno);
        self.sequencer.release(seqno);
    }

    fn hold(&self, seqno: i64) {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two at once");
        let before = self.entered.swap(seqno, Ordering::SeqCst);
        assert_eq!(before + 1, seqno, "the order is strict");
        self.is_not_paused(seqno, "enters");
    }
}

fn applier(witness: &Witness, mut dice: Dice) {
    let sequencer = &witness.sequencer;
    sequencer.applier_enters();
    loop {
        match sequencer.next() {
            Work::Apply(Queued::View(view)) => {
                let seqno = view.seqno.0;
                witness.begins(seqno, true);
                assert_eq!(
                    sequencer.released(),
                    seqno - 1,
                    "in a view, all before is released"
                );
                witness.hold(seqno);
                witness.inside.store(false, Ordering::SeqCst);
                sequencer.pass(seqno);
                witness.ends(seqno);
                sequencer.release(seqno);
            }
            Work::Apply(Queued::Action { seqno, .. }) => {
                witness.begins(seqno, false);
                dice.dawdle();
                match sequencer.enter(seqno, None) {
                    Entered::Yes => witness.pass(seqno, &mut dice),
                    other => panic!("{seqno} had begun, and was told {other:?}"),
                }
            }
            Work::Do(_) => {
                assert!(
                    witness.running.lock().unwrap().is_empty(),
                    "a task is alone"
                );
                sequencer.task_done();
            }
            Work::End { .. } => return,
        }
    }
}

/// A client finishes its own action: through the order, perhaps interrupted and replayed, or alone.
fn client(witness: &Witness, seqno: i64, mut dice: Dice) {
    let sequencer = &witness.sequencer;
    dice.dawdle();
    if dice.one_in(16) {
        // Up to the very end of the history, or of the test, a client may simply be gone. Where all
        // appliers are ahead already, it may not: the real one leaves the group then.
        if sequencer.adopt(action(seqno, seqno - 1)).is_ok() {
            return;
        }
    }
    let flag = AtomicBool::new(false);
    let is_interrupted = dice.one_in(4);
    if is_interrupted && sequencer.interrupt(seqno, &flag) {
        // Set before the wait: it must not get in.
        assert_eq!(sequencer.enter(seqno, Some(&flag)), Entered::Interrupted);
        if !sequencer.wait_released(seqno - 1, None) || !sequencer.begin_local(seqno) {
            assert!(witness.stopped.load(Ordering::SeqCst));
            return;
        }
        witness.is_not_paused(seqno, "is replayed");
        match sequencer.enter(seqno, None) {
            Entered::Yes => witness.pass(seqno, &mut dice),
            // A stop during a pause ends before what waits for the end of the pause.
            Entered::Stopped => assert!(witness.stopped.load(Ordering::SeqCst)),
            Entered::Interrupted => panic!("the replay of {seqno} was interrupted"),
        }
        return;
    }
    let entered = match dice.one_in(8) {
        true => sequencer.enter_alone(seqno),
        false => sequencer.enter(seqno, Some(&flag)),
    };
    match entered {
        Entered::Yes => witness.pass(seqno, &mut dice),
        Entered::Stopped => assert!(witness.stopped.load(Ordering::SeqCst)),
        Entered::Interrupted => panic!("{seqno} was not interrupted"),
    }
}

/// Kinds of actions in the history.
#[derive(Clone, Copy)]
enum Kind {
    Foreign,
    Local,
    View,
}

fn draw_history(dice: &mut Dice, len: i64) -> (Vec<Kind>, Vec<i64>) {
    let (mut kinds, mut depends_on) = (vec![Kind::View], vec![0]);
    let mut barrier = 0;
    for seqno in 1..=len {
        let kind = match dice.roll(40) {
            0 => Kind::View,
            1..=15 => Kind::Local,
            _ => Kind::Foreign,
        };
        let reach = 1 + dice.roll(12);
        let back = 1 + dice.roll(reach) as i64;
        let needed = match kind {
            Kind::View => seqno - 1,
            // Clients do not wait: their locks have seen to it.
            Kind::Local => 0,
            Kind::Foreign => (seqno - back).max(barrier),
        };
        if matches!(kind, Kind::View) {
            barrier = seqno;
        }
        kinds.push(kind);
        depends_on.push(needed);
    }
    (kinds, depends_on)
}

/// Bounds of the storms that are drawn.
struct Size {
    actions: RangeInclusive<u64>,
    appliers: RangeInclusive<u64>,
    /// Bytes that the queue takes; in half of the storms, any.
    room: usize,
    /// How often a thread lets others run between two pauses.
    between_pauses: RangeInclusive<u64>,
}

fn storm(seed: u64, size: Size) {
    let mut dice = Dice::new(seed);
    let len = dice.within(size.actions) as i64;
    let appliers = dice.within(size.appliers);
    let room = if dice.one_in(2) {
        size.room
    } else {
        usize::MAX
    };
    let stop_at = 1 + dice.roll(2 * len as u64) as i64;
    let is_aborted = dice.one_in(6);
    let (kinds, depends_on) = draw_history(&mut dice, len);
    let witness = Arc::new(Witness {
        sequencer: Sequencer::new(0, room),
        finished: depends_on.iter().map(|_| AtomicBool::new(false)).collect(),
        depends_on,
        entered: AtomicI64::new(0),
        inside: AtomicBool::new(false),
        is_paused: AtomicBool::new(false),
        running: Mutex::default(),
        stopped: AtomicBool::new(false),
    });
    let (done, all_done) = channel::<()>();
    let mut threads = Vec::new();
    for _ in 0..appliers {
        let dice = Dice::new(dice.roll(u64::MAX >> 33));
        threads.push(spawn(&witness, &done, move |w| applier(w, dice)));
    }
    // Clients and appliers that adopt assume that appliers exist.
    while witness.sequencer.appliers() < appliers as usize {
        thread::yield_now();
    }
    let mut pauses = Dice::new(dice.roll(u64::MAX >> 33));
    threads.push(spawn(&witness, &done, move |w| {
        while !w.stopped.load(Ordering::SeqCst) {
            if let Some(at) = w.sequencer.pause() {
                if !w.stopped.load(Ordering::SeqCst) {
                    w.is_paused.store(true, Ordering::SeqCst);
                    assert_eq!(w.sequencer.released(), at, "everything begun is released");
                    pauses.dawdle();
                    w.is_paused.store(false, Ordering::SeqCst);
                }
                w.sequencer.resume();
            }
            for _ in 0..pauses.within(size.between_pauses.clone()) {
                thread::yield_now();
            }
        }
    }));
    for seqno in 1..=len {
        let taken = match kinds[seqno as usize] {
            Kind::View => witness.sequencer.push(view(seqno)),
            Kind::Foreign => {
                let needed = witness.depends_on[seqno as usize];
                witness.sequencer.push(action(seqno, needed))
            }
            Kind::Local => {
                // A client may be faster than the delivery of its own action.
                let is_first = dice.one_in(2);
                let taken = is_first || witness.sequencer.push_local(seqno);
                let dice = Dice::new(dice.roll(u64::MAX >> 33));
                threads.push(spawn(&witness, &done, move |w| client(w, seqno, dice)));
                taken && (!is_first || witness.sequencer.push_local(seqno))
            }
        };
        if dice.one_in(20) {
            witness.sequencer.add_task(seqno, Task::Synced);
        }
        if seqno == stop_at {
            let deadline = Instant::now() + LIMIT;
            witness.stopped.store(true, Ordering::SeqCst);
            witness.sequencer.stop(deadline);
        } else if !taken {
            break;
        }
    }
    if !witness.stopped.load(Ordering::SeqCst) {
        assert!(
            witness
                .sequencer
                .wait_released(len, Some(Instant::now() + LIMIT)),
            "seed {seed}: stuck at {} of {len}",
            witness.sequencer.released()
        );
        witness.stopped.store(true, Ordering::SeqCst);
        witness.sequencer.stop(Instant::now() + LIMIT);
    }
    if is_aborted {
        // Appliers must have been drained by then: they take a refusal for a bug.
        witness.sequencer.finish();
        witness.sequencer.abort();
    }
    drop(done);
    let stuck = all_done
        .recv_timeout(LIMIT)
        .is_err_and(|e| e.to_string().contains("timed out"));
    assert!(
        !stuck,
        "seed {seed}: threads hang at {}",
        witness.sequencer.released()
    );
    for thread in threads {
        assert!(thread.join().is_ok(), "seed {seed}");
    }
    let released = witness.sequencer.released();
    for seqno in 1..=released {
        assert!(
            witness.finished[seqno as usize].load(Ordering::SeqCst),
            "seed {seed}: {seqno}"
        );
    }
    assert!(
        witness.sequencer.is_settled(),
        "seed {seed}: stop finishes what was begun"
    );
    assert!(witness.running.lock().unwrap().is_empty());
}

/// `done` is dropped when the thread ends.
fn spawn(
    witness: &Arc<Witness>,
    done: &Sender<()>,
    body: impl FnOnce(&Witness) + Send + 'static,
) -> thread::JoinHandle<()> {
    let (witness, done) = (witness.clone(), done.clone());
    thread::spawn(move || {
        body(&witness);
        drop(done);
    })
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn order_holds_in_any_weather() {
    for seed in 0..150 {
        let size = Size {
            actions: 40..=439,
            appliers: 1..=6,
            room: 2_000,
            between_pauses: 0..=199,
        };
        storm(seed, size);
    }
}

#[cfg(feature = "shuttle")]
mod model {
    use shuttle::rand::{Rng, thread_rng};
    use synod_planted::Bug;

    use super::*;
    use crate::sync::model;

    fn small_storm() {
        let size = Size {
            actions: 3..=10,
            appliers: 1..=3,
            room: 600,
            between_pauses: 1..=20,
        };
        storm(thread_rng().r#gen(), size);
    }

    #[test]
    fn order_holds_in_every_schedule() {
        model::holds(small_storm);
    }

    #[test]
    fn planted_bugs_are_found() {
        for bug in [
            Bug::ForgetWake,
            Bug::NoteTurnLate,
            Bug::StrandFirst,
            Bug::PauseEarly,
            Bug::ResumeUnwoken,
            Bug::RoomUnwoken,
            Bug::StopUnwoken,
        ] {
            model::finds(bug, small_storm);
        }
    }
}

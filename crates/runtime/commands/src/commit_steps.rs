//! Times of the steps of a commit on this server, for `synod status`, `synod watch` and the agent.
//! Hosts note them.
//!
//! ```text
//! certify ──queue──► handed over ──order──► ordered ──wake──► certify returns
//!     in between, at the leader:  ──certify──►
//!     in between, at the log:   appended ──append──► written ──fsync──► durable here
//!                               appended ──quorum──► committed
//!     commit_order_enter ──turn──► entered ──engine──► left ──release──► released
//!         ──applied──► applied on the other servers, if they are waited for
//! appliers:  apply begins ──apply──► commit_order_enter ──apply_turn──► entered
//!
//! in a server of MySQL:  ordered ──wake──► before_commit returns ──engine──► after_commit
//! ```
//! Always on: a note is a few atomic additions, without a lock. Each step has a histogram whose
//! buckets are an eighth of their value wide, for the present and for the last period of
//! `evs.stats_report_period`; what is shown covers both. And it has a coarse one of all times since
//! the server's start, as whole commits have (`times`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use synod_admin::status::{CommitStep, TimeCounts};

use crate::time_counter::TimeCounter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From `certify` until the last piece is handed to the node.
    Queue,
    /// Until the action is known to be ordered: the way to the leader, certification, the disks of
    /// a majority, the way back.
    Order,
    /// Within that, at the leader, for actions of all members: the comparison with those ordered
    /// before.
    Certify,
    /// Until the client's thread runs again.
    Wake,
    /// From the append to this server's log until its sync begins: the wait for the sync before,
    /// and the write.
    Append,
    /// From there until the action is durable on this server's disk.
    Fsync,
    /// From the append until the action is known here to be committed.
    Quorum,
    /// The wait for the turn in the commit order.
    Turn,
    /// From there until the order is left: the commit in the engine.
    Engine,
    /// Until the transaction is released.
    Release,
    /// Until the other servers have applied it, with `synod.commit_wait=applied`.
    Applied,
    /// An applier changes the rows of an action.
    Apply,
    /// An applier waits for the turn of its action.
    ApplyTurn,
}

impl Step {
    const COUNT: usize = Step::ApplyTurn as usize + 1;

    const ALL: [Step; Step::COUNT] = [
        Step::Queue,
        Step::Order,
        Step::Certify,
        Step::Wake,
        Step::Append,
        Step::Fsync,
        Step::Quorum,
        Step::Turn,
        Step::Engine,
        Step::Release,
        Step::Applied,
        Step::Apply,
        Step::ApplyTurn,
    ];

    fn name(self) -> &'static str {
        match self {
            Step::Queue => "queue",
            Step::Order => "order",
            Step::Certify => "certify",
            Step::Wake => "wake",
            Step::Append => "append",
            Step::Fsync => "fsync",
            Step::Quorum => "quorum",
            Step::Turn => "turn",
            Step::Engine => "engine",
            Step::Release => "release",
            Step::Applied => "applied",
            Step::Apply => "apply",
            Step::ApplyTurn => "apply_turn",
        }
    }
}

/// Values below this have a bucket each; above, each power of two has as many.
const STEPS_PER_OCTAVE: u64 = 8;
/// Enough for an hour in microseconds.
const BUCKETS: usize = 240;

/// Counts of values in microseconds.
#[derive(Debug)]
struct Histogram([AtomicU32; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Histogram {
    fn add(&self, micros: u64) {
        if let Some(bucket) = self.0.get(bucket_of(micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn clear(&self) {
        for bucket in &self.0 {
            bucket.store(0, Ordering::Relaxed);
        }
    }
}

fn bucket_of(micros: u64) -> usize {
    if micros < STEPS_PER_OCTAVE {
        return micros as usize; // below eight
    }
    let shift = micros.ilog2() - STEPS_PER_OCTAVE.ilog2();
    let within = (micros >> shift) - STEPS_PER_OCTAVE;
    let bucket = (u64::from(shift) + 1) * STEPS_PER_OCTAVE + within;
    (bucket as usize).min(BUCKETS - 1) // below 512
}

fn largest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS_PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / STEPS_PER_OCTAVE - 1;
    let within = bucket % STEPS_PER_OCTAVE;
    ((STEPS_PER_OCTAVE + within + 1) << shift) - 1
}

type Window = [Histogram; Step::COUNT];

#[derive(Debug)]
pub struct CommitSteps {
    origin: Instant,
    /// Start of the present period, in microseconds since `origin`.
    begun: AtomicU64,
    /// Index of the present window; the other one is the last.
    present: AtomicUsize,
    windows: [Window; 2],
    all: [TimeCounter; Step::COUNT],
    commits: TimeCounter,
    /// Start of the latest certification, in nanoseconds since `origin`. One thread at a time
    /// certifies.
    certifying_since: AtomicU64,
    /// Held by the thread that begins a period.
    turning: Mutex<()>,
}

impl Default for CommitSteps {
    fn default() -> CommitSteps {
        CommitSteps {
            origin: Instant::now(),
            begun: AtomicU64::new(0),
            present: AtomicUsize::new(0),
            windows: Default::default(),
            all: Default::default(),
            commits: TimeCounter::default(),
            certifying_since: AtomicU64::new(0),
            turning: Mutex::default(),
        }
    }
}

impl CommitSteps {
    pub fn note(&self, step: Step, since: Instant, now: Instant, period: Duration) {
        self.turn_to(now, period);
        let window = &self.windows[self.present.load(Ordering::Relaxed) & 1];
        let took = micros(now.saturating_duration_since(since));
        window[step as usize].add(took);
        self.all[step as usize].add(took);
    }

    /// An action was asked for, handed over to the node, and known to be decided at these times.
    /// The thread of its client has it now.
    pub fn note_order(
        &self,
        asked: Instant,
        handed_over: Instant,
        decided: Instant,
        period: Duration,
    ) {
        self.note(Step::Queue, asked, handed_over, period);
        self.note(Step::Order, handed_over, decided, period);
        self.note(Step::Wake, decided, Instant::now(), period);
    }

    /// A step took so long, and has just ended.
    pub fn note_took(&self, step: Step, took: Duration, period: Duration) {
        let now = Instant::now();
        self.note(step, now.checked_sub(took).unwrap_or(now), now, period);
    }

    pub fn certification_begins(&self) {
        let since = self.origin.elapsed().as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.certifying_since.store(since, Ordering::Relaxed);
    }

    pub fn certification_ends(&self, period: Duration) {
        let since = Duration::from_nanos(self.certifying_since.load(Ordering::Relaxed));
        self.note(Step::Certify, self.origin + since, Instant::now(), period);
    }

    /// A commit took so long, from the client's wish to its end.
    pub fn note_commit(&self, took: Duration) {
        self.commits.add(micros(took));
    }

    /// All times of whole commits since the server's start.
    pub fn commit_times(&self) -> TimeCounts {
        self.commits.counted()
    }

    /// Times of each step: quantiles of the present and the last period, and all since the start.
    pub fn shown(&self, now: Instant, period: Duration) -> Vec<CommitStep> {
        self.turn_to(now, period);
        Step::ALL.into_iter().map(|step| self.times(step)).collect()
    }

    /// `FLUSH STATUS`. What counts since the start stays.
    pub fn reset(&self) {
        self.windows.iter().flatten().for_each(Histogram::clear);
    }

    /// Begins a period if one is over. Notes of that moment may be counted in either, or be lost.
    fn turn_to(&self, now: Instant, period: Duration) {
        let (now, period) = (
            micros(now.saturating_duration_since(self.origin)),
            micros(period),
        );
        let age = now.saturating_sub(self.begun.load(Ordering::Relaxed));
        if age < period {
            return;
        }
        let Ok(_turning) = self.turning.try_lock() else {
            return;
        };
        let begun = self.begun.load(Ordering::Relaxed);
        let age = now.saturating_sub(begun);
        if age < period {
            return;
        }
        let present = self.present.load(Ordering::Relaxed) & 1;
        let is_next = age - period < period;
        if !is_next {
            self.windows[present].iter().for_each(Histogram::clear);
        }
        self.windows[1 - present].iter().for_each(Histogram::clear);
        self.present.store(1 - present, Ordering::Relaxed);
        let begins = if is_next { begun + period } else { now };
        self.begun.store(begins, Ordering::Relaxed);
    }

    fn times(&self, step: Step) -> CommitStep {
        let [one, two] = &self.windows;
        let (one, two) = (&one[step as usize].0, &two[step as usize].0);
        let counts: Vec<u64> = (one.iter().zip(two))
            .map(|(a, b)| {
                u64::from(a.load(Ordering::Relaxed)) + u64::from(b.load(Ordering::Relaxed))
            })
            .collect();
        let samples: u64 = counts.iter().sum();
        let quantile = |percent: u64| {
            let rank = (samples * percent).div_ceil(100);
            let mut seen = 0;
            let reaches = |count: &u64| {
                seen += count;
                samples > 0 && seen >= rank
            };
            counts.iter().position(reaches).map_or(0, largest_in)
        };
        CommitStep {
            step: step.name().to_owned(),
            p50_us: quantile(50),
            p95_us: quantile(95),
            p99_us: quantile(99),
            samples,
            times: self.all[step as usize].counted(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    #[test]
    fn every_value_is_in_the_bucket_that_ends_at_or_just_above_it() {
        let values = (0..4096).chain((12..32).flat_map(|e| [(1 << e) - 1, 1 << e, 3 << (e - 1)]));
        for value in values {
            let largest = largest_in(bucket_of(value));
            assert!(largest >= value && largest - value <= value / 8, "{value}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn all_steps_are_listed_at_their_place() {
        for (place, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, place, "{}", step.name());
        }
    }

    #[test]
    fn shown_are_the_quantiles_of_the_present_and_the_last_period() {
        let steps = CommitSteps::default();
        let start = steps.origin;
        let note = |at: Duration, took: u64| {
            let now = start + at;
            steps.note(Step::Turn, now - Duration::from_micros(took), now, PERIOD);
        };
        for _ in 0..98 {
            note(Duration::from_secs(1), 5);
        }
        note(Duration::from_secs(1), 100);
        note(Duration::from_secs(61), 1000);
        let shown = |secs| steps.shown(start + Duration::from_secs(secs), PERIOD);
        let times = &shown(62)[Step::Turn as usize];
        assert_eq!((times.p50_us, times.p95_us, times.p99_us), (5, 5, 103));
        assert_eq!((&*times.step, times.samples), ("turn", 100));
        assert_eq!(shown(62)[Step::Order as usize].samples, 0);
        assert_eq!(
            shown(125)[Step::Turn as usize].samples,
            1,
            "the first are forgotten"
        );
        assert_eq!(shown(3600)[Step::Turn as usize].samples, 0);
    }

    #[test]
    fn all_times_of_a_step_stay_counted() {
        let steps = CommitSteps::default();
        let start = steps.origin;
        for took in [5, 200_000] {
            let now = start + Duration::from_secs(1);
            steps.note(Step::Fsync, now - Duration::from_micros(took), now, PERIOD);
        }
        steps.note_commit(Duration::from_micros(7));
        steps.reset();
        let shown = steps.shown(start + Duration::from_secs(3600), PERIOD);
        let times = &shown[Step::Fsync as usize].times;
        assert_eq!((times.total(), times.sum_us), (2, 200_005));
        assert_eq!(shown[Step::Turn as usize].times.total(), 0);
        let commits = steps.commit_times();
        assert_eq!((commits.total(), commits.sum_us), (1, 7));
    }
}

//! The leader admits actions so that the best majority's lag stays within a bound.
//!
//! While that lag is below half of the bound everything is admitted. From then on, until it is
//! below a quarter, the rate of admission is the drain rate times a share that falls evenly with
//! the *expected lag*: the time in which the databases drain their backlog, and so the lag that an
//! action will meet which is admitted now. (The lag itself says how long those have waited that
//! leave now. A rate that follows it swings: it answers to what was admitted a lag ago.)
//!
//! ```text
//! share  3/2 |_______.
//!            |        `.
//!          1 |          `.            at the bound as much comes in as leaves:
//!            |            `.          the lag comes to rest there
//!        1/4 |              `._____
//!            +-------+----+--------- expected lag
//!                  bound/2  bound  7/4 bound
//! ```
//!
//! So nothing stops and starts: if the databases are a little slower than the clients, the clients
//! become a little slower. No lag stops admission. One action that takes long on all databases (a
//! large one, or a DDL statement) would otherwise stop all clients, and slowing them down would not
//! make it faster: while no action leaves, a share of the last known rate is admitted, and half of
//! that after each [`HALVING`].

use std::time::Duration;

use synod_consensus::{MemberId, Time};
use synod_planted::planted;

use super::appliers::MajorityPace;
use super::drain_rate::DrainRate;
use super::token_bucket::TokenBucket;

/// At least this much is admitted, in thousandths of an action per second.
const RATE_MIN: u64 = 10_000;
/// While nothing leaves the databases, the rate is halved each time after this.
const HALVING: Duration = Duration::from_secs(10);

pub(super) struct Admission {
    lag_max: Duration,
    drain: DrainRate,
    bucket: TokenBucket,
    /// Thousandths of an action per second; none: everything is admitted.
    rate: Option<u64>,
    /// The majority that the rate follows.
    majority: Option<MajorityPace>,
    waits_since: Option<Time>,
    paused: Duration,
    pauses: u64,
}

impl Admission {
    pub(super) fn new(lag_max: Duration) -> Admission {
        Admission {
            lag_max,
            drain: DrainRate::default(),
            bucket: TokenBucket::default(),
            rate: None,
            majority: None,
            waits_since: None,
            paused: Duration::ZERO,
            pauses: 0,
        }
    }

    pub(super) fn set_lag_max(&mut self, lag_max: Duration) {
        self.lag_max = lag_max;
    }

    /// This member does not lead, or begins to: nothing is known of the databases.
    pub(super) fn reset(&mut self, now: Time) {
        self.note_waiting(now, false);
        self.drain = DrainRate::default();
        (self.rate, self.majority) = (None, None);
    }

    /// The best majority is here now; none: no database is known that follows the group.
    pub(super) fn follow(&mut self, now: Time, majority: Option<MajorityPace>) {
        self.majority = majority;
        let before = self.rate;
        self.rate = majority.and_then(|majority| self.rate_for(now, majority));
        match (before, self.rate) {
            (None, Some(_)) => self.bucket.begin(now),
            (Some(rate), Some(_)) => self.bucket.fill(now, rate),
            (_, None) => {}
        }
    }

    fn rate_for(&mut self, now: Time, majority: MajorityPace) -> Option<u64> {
        let bound_us = micros(self.lag_max);
        let lag_us = micros(majority.lag);
        self.drain
            .observe(now, majority.left, lag_us > bound_us / 8);
        let free_below = bound_us / if self.rate.is_some() { 4 } else { 2 };
        let is_bounded = planted!(LagWithoutBound, bound_us > 0, else false);
        if !is_bounded || lag_us <= free_below {
            return None;
        }
        let expected_us = expected_lag_us(majority.backlog, self.drain.rate());
        let share = (2 * bound_us)
            .saturating_sub(expected_us)
            .saturating_mul(1000)
            / bound_us;
        let rate = self.drain.rate().saturating_mul(share.clamp(250, 1500)) / 1000;
        let halvings = self.drain.stands_still(now).as_secs() / HALVING.as_secs();
        let rate = rate >> halvings.min(63);
        Some(rate.max(RATE_MIN))
    }

    /// Whether an action may be appended now. If it is, call [`Admission::admitted`].
    pub(super) fn has_room(&mut self, now: Time) -> bool {
        let Some(rate) = self.rate else {
            return true;
        };
        self.bucket.fill(now, rate);
        self.bucket.has_token()
    }

    pub(super) fn admitted(&mut self) {
        if self.rate.is_some() {
            self.bucket.take();
        }
    }

    pub(super) fn note_waiting(&mut self, now: Time, waits: bool) {
        match (self.waits_since, waits) {
            (Some(since), false) => {
                self.paused += now.since(since);
                self.waits_since = None;
            }
            (None, true) => {
                self.pauses += 1;
                self.waits_since = Some(now);
            }
            (Some(since), true) => {
                self.paused += now.since(since);
                self.waits_since = Some(now);
            }
            (None, false) => {}
        }
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        let rate = self.rate.filter(|_| self.waits_since.is_some())?;
        Some(self.bucket.next_token(rate))
    }

    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    pub(super) fn slowest(&self) -> Option<(MemberId, Duration)> {
        self.majority.map(|m| (m.slowest, m.lag))
    }

    pub(super) fn pauses(&self) -> (Duration, u64) {
        (self.paused, self.pauses)
    }
}

/// In how many microseconds so many actions leave at this rate.
fn expected_lag_us(backlog: u64, rate: u64) -> u64 {
    backlog.saturating_mul(1_000_000_000) / rate.max(1)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use synod_consensus::Seqno;

    const BOUND: Duration = Duration::from_millis(200);
    /// A step of the experiment, in microseconds.
    const STEP_US: u64 = 500;

    /// A leader with clients that always have work, and one database, which drains
    /// `drain_per_s(second)` actions per second and says where it is `delay_us` later.
    struct Experiment<Admit> {
        admit: Admit,
        delay_us: u64,
        offered_per_s: u64,
    }

    struct Outcome {
        /// Actions admitted in each tenth of a second.
        tenths: Vec<u64>,
        /// The lag at the end of each tenth, in milliseconds.
        lags_ms: Vec<u64>,
    }

    impl Outcome {
        /// Standard deviation over mean of the tenths from `from` on, in percent.
        fn variation(&self, from: usize) -> u64 {
            let tenths = &self.tenths[from..];
            let mean = tenths.iter().sum::<u64>() as f64 / tenths.len() as f64;
            let squares = tenths.iter().map(|n| (*n as f64 - mean).powi(2));
            let deviation = (squares.sum::<f64>() / tenths.len() as f64).sqrt();
            (100.0 * deviation / mean) as u64
        }

        fn mean(&self, from: usize) -> u64 {
            let tenths = &self.tenths[from..];
            10 * tenths.iter().sum::<u64>() / tenths.len() as u64
        }
    }

    impl<Admit: FnMut(Time, MajorityPace) -> bool> Experiment<Admit> {
        fn run(mut self, seconds: u64, drain_per_s: impl Fn(u64) -> u64) -> Outcome {
            let (mut ordered, mut left) = (0_i64, 0_i64);
            let (mut offered, mut drained) = (0_u64, 0_u64);
            let mut waiting: VecDeque<Time> = VecDeque::new();
            let mut feedback = VecDeque::new();
            let (mut tenths, mut lags_ms) = (vec![0], Vec::new());
            for step in 1..=seconds * 1_000_000 / STEP_US {
                let now = Time(5_000_000 + step * STEP_US);
                let lag = waiting.front().map_or(Duration::ZERO, |at| now.since(*at));
                feedback.push_back((now.plus(Duration::from_micros(self.delay_us)), left, lag));
                let mut known = (0, Duration::ZERO);
                while feedback.front().is_some_and(|(at, _, _)| *at <= now) {
                    let (_, left, lag) = feedback.pop_front().unwrap();
                    known = (left, lag);
                }
                let majority = MajorityPace {
                    left: Seqno(known.0),
                    lag: known.1,
                    backlog: u64::try_from(ordered - known.0).unwrap(),
                    slowest: MemberId(1),
                };
                // Offered and drained are counted in millionths.
                offered = (offered + self.offered_per_s * STEP_US).min(64_000_000);
                while offered >= 1_000_000 && (self.admit)(now, majority) {
                    offered -= 1_000_000;
                    ordered += 1;
                    waiting.push_back(now);
                    *tenths.last_mut().unwrap() += 1;
                }
                let second = step * STEP_US / 1_000_000;
                drained += drain_per_s(second) * STEP_US;
                while drained >= 1_000_000 {
                    drained -= 1_000_000;
                    if left < ordered {
                        left += 1;
                        waiting.pop_front();
                    }
                }
                if (step * STEP_US).is_multiple_of(100_000) {
                    tenths.push(0);
                    lags_ms.push(u64::try_from(lag.as_millis()).unwrap());
                }
            }
            tenths.pop();
            Outcome { tenths, lags_ms }
        }
    }

    fn smooth() -> impl FnMut(Time, MajorityPace) -> bool {
        let mut admission = Admission::new(BOUND);
        move |now, majority| {
            admission.follow(now, Some(majority));
            let has_room = admission.has_room(now);
            if has_room {
                admission.admitted();
            }
            has_room
        }
    }

    /// Threshold that admission is compared with: stop at the bound, start again at half of it.
    fn plain_threshold() -> impl FnMut(Time, MajorityPace) -> bool {
        let mut stopped = false;
        move |_, majority| {
            stopped = majority.lag > if stopped { BOUND / 2 } else { BOUND };
            !stopped
        }
    }

    #[test]
    fn admission_is_smoother_than_a_threshold_and_keeps_the_bound() {
        for (name, delay_us) in [("1 ms", 1_000), ("10 ms", 10_000), ("60 ms", 60_000)] {
            let experiment = |admit: Box<dyn FnMut(Time, MajorityPace) -> bool>| Experiment {
                admit,
                delay_us,
                offered_per_s: 3_000,
            };
            let smooth = experiment(Box::new(smooth())).run(20, |_| 1_000);
            let plain = experiment(Box::new(plain_threshold())).run(20, |_| 1_000);
            println!(
                "feedback after {name}: variation {} % and {} actions/s, a threshold {} % and {}; \
                 lag at most {} ms, {} ms",
                smooth.variation(20),
                smooth.mean(20),
                plain.variation(20),
                plain.mean(20),
                smooth.lags_ms[20..].iter().max().unwrap(),
                plain.lags_ms[20..].iter().max().unwrap(),
            );
            assert!(smooth.variation(20) <= 10, "{name}: {:?}", smooth.tenths);
            assert!(smooth.variation(20) * 3 < plain.variation(20), "{name}");
            assert!(smooth.mean(20) >= 980, "{name}: {}", smooth.mean(20));
            let lag_ms = *smooth.lags_ms[20..].iter().max().unwrap();
            assert!(lag_ms <= 300, "{name}: {lag_ms} ms");
        }
    }

    #[test]
    fn rate_follows_databases_that_become_slower_and_faster() {
        let experiment = Experiment {
            admit: smooth(),
            delay_us: 10_000,
            offered_per_s: 5_000,
        };
        let drain = |second| match second {
            0..10 => 2_000,
            10..20 => 200,
            _ => 3_000,
        };
        let outcome = experiment.run(30, drain);
        let of_second = |second: usize| outcome.tenths[second * 10..][..10].iter().sum::<u64>();
        assert!((1_900..2_100).contains(&of_second(8)), "{}", of_second(8));
        assert!((180..220).contains(&of_second(19)), "{}", of_second(19));
        assert!(of_second(23) > 2_800, "{}", of_second(23));
        assert!(outcome.lags_ms[190] < 400, "{:?}", outcome.lags_ms);
        assert!(outcome.tenths.iter().all(|n| *n > 0), "never stops");
    }

    #[test]
    fn databases_that_keep_up_slow_no_client() {
        let experiment = Experiment {
            admit: smooth(),
            delay_us: 10_000,
            offered_per_s: 900,
        };
        let outcome = experiment.run(5, |_| 1_000);
        assert!(outcome.mean(0) >= 890, "{}", outcome.mean(0));
        assert!(outcome.variation(0) <= 2);
    }

    /// One action takes 13 seconds on all databases.
    #[test]
    fn action_that_takes_long_everywhere_does_not_stop_the_others() {
        let experiment = Experiment {
            admit: smooth(),
            delay_us: 10_000,
            offered_per_s: 1_000,
        };
        let drain = |second| if (5..18).contains(&second) { 0 } else { 2_000 };
        let outcome = experiment.run(30, drain);
        let of_second = |second: usize| outcome.tenths[second * 10..][..10].iter().sum::<u64>();
        assert!(of_second(8) >= 200, "{}", of_second(8));
        assert!(of_second(17) >= 100, "{}", of_second(17));
        assert!(of_second(28) >= 980, "{}", of_second(28));
        assert!(
            outcome.tenths.iter().all(|n| *n >= 5),
            "{:?}",
            outcome.tenths
        );
    }

    #[test]
    fn time_in_which_proposals_wait_is_counted() {
        let mut admission = Admission::new(BOUND);
        let at = |ms| Time(1_000_000).plus(Duration::from_millis(ms));
        let slow = |left| MajorityPace {
            left: Seqno(left),
            lag: BOUND,
            backlog: 1,
            slowest: MemberId(2),
        };
        admission.follow(at(0), Some(slow(0)));
        admission.follow(at(100), Some(slow(5)));
        assert!(admission.has_room(at(100)));
        admission.admitted();
        assert!(!admission.has_room(at(100)));
        assert_eq!(admission.wake_at(), None, "no proposal waits");
        admission.note_waiting(at(100), true);
        assert!(admission.wake_at().is_some_and(|wake| wake > at(100)));
        admission.note_waiting(at(120), true);
        admission.note_waiting(at(130), false);
        assert_eq!(admission.pauses(), (Duration::from_millis(30), 1));
        assert_eq!(admission.slowest(), Some((MemberId(2), BOUND)));
        admission.reset(at(200));
        assert_eq!(
            (admission.rate(), admission.has_room(at(200))),
            (None, true)
        );
        admission.set_lag_max(Duration::ZERO);
        admission.follow(at(300), Some(slow(6)));
        assert_eq!(admission.rate(), None, "no bound");
    }
}

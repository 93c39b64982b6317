//! Notices when a core stands still: cores of a virtual machine do, for up to seconds.
//!
//! One thread per core, bound to it, sleeps 10 ms again and again. It has the router's real-time
//! priority, so that no server keeps it from running: what it oversleeps, the machine has lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

const SLEEP: Duration = Duration::from_millis(10);

/// Overslept times up to this are what a busy machine does all the time.
const USUAL: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub struct Stalls {
    lost_us: AtomicU64,
    longest_us: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallsRead {
    /// Sum of the times above 20 ms, all cores, microseconds.
    pub lost_us: u64,
    /// The longest time since the reading before, microseconds.
    pub longest_us: u64,
}

impl Stalls {
    pub const fn new() -> Stalls {
        Stalls {
            lost_us: AtomicU64::new(0),
            longest_us: AtomicU64::new(0),
        }
    }

    /// The sum so far, and the longest time since this was called last.
    pub fn read(&self) -> StallsRead {
        StallsRead {
            lost_us: self.lost_us.load(Ordering::Relaxed),
            longest_us: self.longest_us.swap(0, Ordering::Relaxed),
        }
    }

    fn note(&self, overslept: Duration) {
        let us = u64::try_from(overslept.as_micros()).unwrap_or(u64::MAX);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
        if overslept > USUAL {
            self.lost_us.fetch_add(us, Ordering::Relaxed);
        }
    }
}

/// Starts a thread on every core that this process may use. They end with the process.
pub fn watch_cores(stalls: &'static Stalls) {
    let Ok(all) = sched_getaffinity(None) else {
        return; // then nothing is noticed, and the results say that nothing was lost
    };
    let cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    for core in cores {
        std::thread::spawn(move || watch(core, stalls));
    }
}

fn watch(core: usize, stalls: &Stalls) {
    let mut only = CpuSet::new();
    only.set(core);
    if sched_setaffinity(None, &only).is_err() {
        return;
    }
    loop {
        let begin = Instant::now();
        std::thread::sleep(SLEEP);
        stalls.note(begin.elapsed().saturating_sub(SLEEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_delays_are_not_summed_and_the_longest_is_told_once() {
        let stalls = Stalls::default();
        stalls.note(Duration::from_millis(3));
        stalls.note(Duration::from_millis(500));
        stalls.note(Duration::from_millis(30));
        let first = stalls.read();
        assert_eq!((first.lost_us, first.longest_us), (530_000, 500_000));
        assert_eq!(stalls.read().longest_us, 0);
        assert_eq!(stalls.read().lost_us, 530_000);
    }
}

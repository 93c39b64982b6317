//! Locks, conditions, atomics and threads of monitors: those of `std`, or shuttle's in a test build
//! with the feature `shuttle`.
//!
//! A monitor that takes them from here runs as it is under a scheduler that chooses which thread is
//! next at each lock, wait and atomic (module `model` beside it). `synod-provider` compiles this
//! file, too: only a crate's own tests are built with `cfg(test)`. Nothing that ships can have it.
//!
//! Under shuttle no wait ends by its time limit, so that a thread that is not woken is a deadlock.

use std::sync::PoisonError;

#[cfg(not(all(test, feature = "shuttle")))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(all(test, not(feature = "shuttle")))]
#[allow(unused_imports, reason = "not every crate's tests need both")]
pub(crate) use std::{sync::mpsc, thread};

#[cfg(all(test, feature = "shuttle"))]
#[allow(unused_imports, reason = "not every crate's tests need all")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread,
};

/// Locks also what a thread left when it panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs models, and proves them by planted bugs.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) mod model {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    use shuttle::{Config, Runner};
    use synod_planted::{Bug, plant};

    /// How many schedules each scheduler draws, unless `SYNOD_SCHEDULES` says it.
    const SCHEDULES: usize = 500;
    /// The number of threads that the second scheduler stops in favour of another one.
    const PREEMPTIONS: usize = 3;

    /// Runs the model under many schedules; a panic or a deadlock ends it, and prints the schedule.
    pub(crate) fn holds(model: fn()) {
        let asked = std::env::var("SYNOD_SCHEDULES");
        let schedules = asked.map_or(SCHEDULES, |count| count.parse().expect("a number"));
        run(RandomScheduler::new(schedules), model);
        run(PctScheduler::new(PREEMPTIONS, schedules), model);
    }

    fn run(scheduler: impl Scheduler + 'static, model: fn()) {
        Runner::new(scheduler, Config::new()).run(model);
    }

    /// The model fails with this bug. That it holds without is for a test of its own.
    #[track_caller]
    pub(crate) fn finds(bug: Bug, model: fn()) {
        plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(|| holds(model))).is_err();
        plant(None);
        assert!(found, "{bug:?} is not found");
    }
}

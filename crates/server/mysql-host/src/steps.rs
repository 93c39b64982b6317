//! Times of the steps of this server's commits.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_commands::Step;
use synod_options::key;

use crate::host::Member;

/// Commits that the server carries out, by their threads: when they were asked for, and when their
/// threads had the answer.
pub(crate) type Decided = HashMap<u32, (Instant, Instant)>;

impl Member {
    pub(crate) fn decided(&self) -> MutexGuard<'_, Decided> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has committed what was decided last for this thread.
    pub(crate) fn committed(&self, thread: u32) {
        let Some((asked, decided)) = self.decided().remove(&thread) else {
            return;
        };
        let now = Instant::now();
        self.note_step(Step::Engine, decided, now);
        self.steps.note_commit(now - asked);
    }

    pub(crate) fn note_step(&self, step: Step, since: Instant, until: Instant) {
        self.steps.note(step, since, until, self.stats_period());
    }

    pub(crate) fn stats_period(&self) -> Duration {
        let options = &self.settings.options;
        options.duration(key::EVS_STATS_REPORT_PERIOD)
    }
}

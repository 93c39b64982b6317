//! FlowControl: one component, [`FlowControl`], decides at which pace actions are admitted.
//!
//! A database applies what is ordered, and may be slower than the group orders. The leader admits
//! actions so that the lag of the majority that keeps up best stays within a bound. A minority that
//! is slower never slows the group: it lags, and says so.
//!
//! ```text
//! every member   own lag     for how long the database has lacked a committed action
//!                            -> beside each acknowledgement, to the leader
//! the leader     appliers    position and lag of the best majority
//!                drain_rate  actions per second that leave its commit order
//!                admission   lag and drain rate -> rate of admission -> token bucket
//!                            -> to all members, with the status
//! every member   announced   how long and how often proposals waited
//!                throttle_watch   tells operators of it
//! ```
//!
//! Rates are integers and time is an argument: equal inputs give equal answers.

mod admission;
mod announced;
mod appliers;
mod coordinate;
mod drain_rate;
mod throttle_watch;
mod token_bucket;

use std::time::Duration;

use synod_consensus::{MemberId, Time};
use synod_wire::AppliedPosition;

use super::commit_times::CommitTimes;
use admission::Admission;
use announced::Announced;
use appliers::Appliers;
use throttle_watch::ThrottleWatch;

/// Feedback up to this age describes an applier; what lacks something and is silent for longer is
/// taken to lag more by the rest.
const FEEDBACK_AGE_MAX: Duration = Duration::from_millis(300);
/// The leader looks at the databases this often at most.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// The component that knows how far the databases are, and admits actions at their pace.
pub(super) struct FlowControl {
    own_lag: CommitTimes,
    appliers: Appliers,
    admission: Admission,
    announced: Announced,
    throttle_watch: ThrottleWatch,
    /// The position that a leader was told last, and that leader.
    told: Option<(MemberId, AppliedPosition)>,
    next_look: Time,
}

impl FlowControl {
    /// `lag_max` bounds the lag of the best majority; zero: it is not bounded.
    pub(super) fn new(lag_max: Duration, now: Time) -> FlowControl {
        FlowControl {
            own_lag: CommitTimes::default(),
            appliers: Appliers::default(),
            admission: Admission::new(lag_max),
            announced: Announced::default(),
            throttle_watch: ThrottleWatch::default(),
            told: None,
            next_look: now,
        }
    }

    pub(super) fn set_lag_max(&mut self, lag_max: Duration) {
        self.admission.set_lag_max(lag_max);
    }

    /// Another leader, or this member in another term: nothing that was said before counts.
    pub(super) fn leader_changed(&mut self, now: Time) {
        self.appliers.clear();
        self.admission.reset(now);
        self.told = None;
    }

    /// The log was reset: what this member's database lacks is not known.
    pub(super) fn log_reset(&mut self) {
        self.own_lag.reset();
    }

    /// Leader only: whether an action may be appended now.
    pub(super) fn has_room_for_action(&mut self, now: Time) -> bool {
        self.admission.has_room(now)
    }

    /// Leader only: an action was appended.
    pub(super) fn action_appended(&mut self) {
        self.admission.admitted();
    }

    /// When a proposal that waits for its admission may be appended.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.admission.wake_at()
    }

    fn is_look_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now.plus(LOOK_PERIOD);
        }
        is_due
    }
}

//! Trouble that keeps new transactions from a relay of an upstream, and how long it lasts. The log
//! repeats it every hour: a line that was said once is soon far above.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_logger::output::Output;
use synod_node::{Level, Node};

use crate::pull::control::Control;
use crate::upstream_log::tail::Tail;

/// Time between two lines about the same trouble.
const AGAIN: Duration = Duration::from_secs(3600);
/// The error while the log is full.
const FULL: &str = "the log is full, so nothing new is taken. It keeps what readers have not got \
                    yet, and the newest transaction; what is older than a minute or two is purged \
                    by itself. If this lasts: end readers that stay behind, or raise \
                    synod.log_retain_size on all relays and restart them, the one that leads at \
                    the end";

/// Looks for trouble now and then.
pub(crate) struct Watch {
    pub(crate) node: Arc<Node>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) control: Arc<Control>,
    pub(crate) output: Output,
    pub(crate) trouble: Mutex<Trouble>,
}

impl Watch {
    /// Why nothing new comes, and what to do; none: nothing is wrong, or this relay does not pull.
    pub(crate) fn error(&self) -> Option<String> {
        let is_full = || self.node.committed_log().is_full();
        let shown = self.control.shown().error;
        let broken = || self.tail.end().broken.map(|broken| broken.why);
        shown
            .or_else(broken)
            .or_else(|| is_full().then(|| FULL.to_owned()))
    }

    /// The error, and for how long there has been one.
    pub(crate) fn look(&self, now: Instant) -> Option<(String, Duration)> {
        let error = self.error();
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let (lasts, is_due) = trouble.look(error.is_some(), now)?;
        let error = error?;
        if is_due {
            let line = format!(
                "nothing new has come from the upstream for {} minutes: {error}. Readers get what \
                 is in the log. 'synod relay status' shows the error; this line is repeated every \
                 hour while it lasts",
                lasts.as_secs() / 60
            );
            self.output.log(Level::Warning, &line);
        }
        Some((error, lasts))
    }
}

/// Since when there has been trouble.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    since: Option<Instant>,
    /// Lines that were said again.
    said: u32,
}

impl Trouble {
    /// Time since the trouble began, and whether it is to be said again.
    fn look(&mut self, is_there: bool, now: Instant) -> Option<(Duration, bool)> {
        if !is_there {
            *self = Trouble::default();
            return None;
        }
        let lasts = now.saturating_duration_since(*self.since.get_or_insert(now));
        // It was said when it began.
        let is_due = lasts >= AGAIN * (self.said + 1);
        if is_due {
            self.said = u32::try_from(lasts.as_secs() / AGAIN.as_secs()).unwrap_or(u32::MAX - 1);
        }
        Some((lasts, is_due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_said_again_every_hour_while_it_lasts() {
        let (mut trouble, start) = (Trouble::default(), Instant::now());
        let mut look = |is_there, minutes: u64| {
            let now = start + Duration::from_secs(minutes * 60);
            let (lasts, is_due) = trouble.look(is_there, now)?;
            Some((lasts.as_secs() / 60, is_due))
        };
        assert_eq!(look(false, 0), None);
        assert_eq!(
            look(true, 10),
            Some((0, false)),
            "it was said when it began"
        );
        assert_eq!(look(true, 69), Some((59, false)));
        assert_eq!(look(true, 70), Some((60, true)));
        assert_eq!(look(true, 71), Some((61, false)));
        assert_eq!(
            look(true, 260),
            Some((250, true)),
            "it has not looked for long"
        );
        assert_eq!(look(true, 261), Some((251, false)));
        assert_eq!(look(true, 310), Some((300, true)));
        assert_eq!(look(false, 311), None);
        assert_eq!(look(true, 312), Some((0, false)));
    }
}

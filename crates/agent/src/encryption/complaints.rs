//! Log lines about clients that come in by no TLS. A client that tries each second would fill the
//! journal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time from one line to the next.
const RHYTHM: Duration = Duration::from_secs(60);

/// When the last line was written, and what was not written since.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    kept_back: u64,
}

impl Complaints {
    /// The line for the log, if there is to be one now.
    pub(crate) fn line(&self, now: Instant, text: &str) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |last| now.saturating_duration_since(last) < RHYTHM;
        if state.last.is_some_and(is_early) {
            state.kept_back += 1;
            return None;
        }
        state.last = Some(now);
        match std::mem::take(&mut state.kept_back) {
            0 => Some(text.to_owned()),
            1 => Some(format!("{text} (and another time before)")),
            count => Some(format!("{text} (and {count} times before, of any client)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_written_once_a_minute_and_says_how_many_were_not() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let at = |seconds| complaints.line(start + Duration::from_secs(seconds), "refused");
        assert_eq!(at(0).as_deref(), Some("refused"));
        assert_eq!((at(1), at(59)), (None, None));
        let third = at(60).unwrap();
        assert!(third.contains("2 times before"), "{third}");
        assert_eq!(at(61), None);
        assert!(at(180).unwrap().contains("another time"));
    }
}

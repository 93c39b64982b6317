//! Log lines about clients that come in by no TLS. A client that tries each second, or a thousand
//! clients, would fill the journal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const RHYTHM: Duration = Duration::from_secs(60);
const LINES_MAX: usize = 8;

/// Recently logged lines, and the count of suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: Vec<(String, Instant)>,
    kept_back: u64,
}

impl Complaints {
    /// The line for the log, if there is to be one now.
    pub(crate) fn line(&self, now: Instant, text: &str) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = &mut state.told;
        told.retain(|(_, at)| now.saturating_duration_since(*at) < RHYTHM);
        if told.len() == LINES_MAX || told.iter().any(|(known, _)| known == text) {
            state.kept_back += 1;
            return None;
        }
        told.push((text.to_owned(), now));
        match std::mem::take(&mut state.kept_back) {
            0 => Some(text.to_owned()),
            count => Some(format!(
                "{text} ({count} more such cases before, of any client)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_written_once_a_minute_and_the_next_says_how_many_were_not() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let at = |seconds, text| complaints.line(start + Duration::from_secs(seconds), text);
        assert_eq!(at(0, "refused").as_deref(), Some("refused"));
        assert_eq!((at(1, "refused"), at(59, "refused")), (None, None));
        let other = at(59, "hangs").unwrap();
        assert!(other.starts_with("hangs (2 more"), "{other}");
        assert_eq!(at(60, "refused").as_deref(), Some("refused"));
    }

    #[test]
    fn different_lines_are_bounded_in_number() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let of_client = |client: usize| complaints.line(start, &format!("client {client}"));
        let written = (0..100).filter_map(of_client).count();
        assert_eq!(written, LINES_MAX);
        let later = complaints.line(start + RHYTHM, "client 1").unwrap();
        assert!(later.contains("(92 more"), "{later}");
    }
}

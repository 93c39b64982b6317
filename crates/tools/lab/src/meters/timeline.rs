//! Rates, stalls and errors over time, from the records of clients. Pure.
//!
//! Times are microseconds since the meter began.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Due time of its begin. A client that has a pace and is late begins at once.
    pub due_us: u64,
    pub begun_us: u64,
    pub ended_us: u64,
    pub ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Committed,
    /// The server refused it with this error.
    Refused(u16),
    /// No answer came, or the connection broke.
    Lost,
}

impl Attempt {
    pub fn is_commit(&self) -> bool {
        self.ending == Ending::Committed
    }

    /// Time that the client waited for the answer, milliseconds.
    fn waited_ms(&self) -> f64 {
        ms(self.ended_us.saturating_sub(self.begun_us))
    }

    /// Delay of its begin, milliseconds: the client was waiting for others.
    fn behind_ms(&self) -> f64 {
        ms(self.begun_us.saturating_sub(self.due_us))
    }
}

#[allow(clippy::cast_precision_loss)] // times here are below 2^52 microseconds
pub fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

pub fn commits(attempts: &[Attempt]) -> u64 {
    attempts.iter().map(|a| u64::from(a.is_commit())).sum()
}

pub fn commits_by_second(attempts: &[Attempt], from_us: u64, to_us: u64) -> Vec<f64> {
    let seconds = to_us.saturating_sub(from_us) / 1_000_000;
    let mut counts = vec![0.0; usize::try_from(seconds).unwrap_or_default()];
    for attempt in attempts.iter().filter(|a| a.is_commit()) {
        let second = attempt
            .ended_us
            .checked_sub(from_us)
            .map(|us| us / 1_000_000);
        let at = second.and_then(|second| usize::try_from(second).ok());
        if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
            *count += 1.0;
        }
    }
    counts
}

pub fn longest_wait_ms(attempts: &[Attempt]) -> f64 {
    attempts.iter().map(Attempt::waited_ms).fold(0.0, f64::max)
}

/// Longest time that clients fell behind their pace, milliseconds. More than the longest wait: the
/// group could not keep the pace.
pub fn longest_behind_ms(attempts: &[Attempt]) -> f64 {
    attempts.iter().map(Attempt::behind_ms).fold(0.0, f64::max)
}

/// The longest time in `from_us..to_us` in which no client of the list committed, milliseconds.
pub fn longest_gap_ms(attempts: &[Attempt], from_us: u64, to_us: u64) -> f64 {
    let is_within = |us: &u64| (from_us..to_us).contains(us);
    let committed = attempts.iter().filter(|a| a.is_commit());
    let mut ends: Vec<u64> = committed.map(|a| a.ended_us).filter(is_within).collect();
    ends.extend([from_us, to_us.max(from_us)]);
    ends.sort_unstable();
    let gaps = ends.windows(2).map(|pair| pair[1] - pair[0]);
    ms(gaps.max().unwrap_or_default())
}

/// Number of failures, by the error in words.
pub fn errors_by_kind(attempts: &[Attempt]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for attempt in attempts {
        let kind = match attempt.ending {
            Ending::Committed => continue,
            Ending::Refused(code) => kind_of(code),
            Ending::Lost => "no answer".to_owned(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Whether an error says for sure that the transaction was rolled back, so that clients repeat it.
pub fn is_refusal(code: u16) -> bool {
    matches!(code, 1213 | 1205 | 1020 | 1062 | 3101)
}

/// An error of the server in words, with its number.
pub fn kind_of(code: u16) -> String {
    let words = match code {
        1213 => "deadlock or lost certification",
        1205 => "lock wait timeout",
        1020 => "changed since it was read",
        1047 => "not ready: no majority",
        1180 => "error during commit",
        1317 => "interrupted",
        _ => "error",
    };
    format!("{code} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(begun_ms: u64, ended_ms: u64) -> Attempt {
        Attempt {
            due_us: begun_ms * 1000,
            begun_us: begun_ms * 1000,
            ended_us: ended_ms * 1000,
            ending: Ending::Committed,
        }
    }

    fn failed(ending: Ending) -> Attempt {
        Attempt {
            ending,
            ..commit(0, 1)
        }
    }

    #[test]
    fn commits_are_counted_in_the_second_in_which_they_end() {
        let all = [
            commit(0, 999),
            commit(900, 1000),
            commit(900, 1999),
            failed(Ending::Refused(1213)),
            commit(2900, 3100),
        ];
        // The third second is not whole.
        assert_eq!(commits_by_second(&all, 0, 2_500_000), [1.0, 2.0]);
        assert_eq!(
            commits_by_second(&all, 1_000_000, 4_000_000),
            [2.0, 0.0, 1.0]
        );
        assert_eq!(commits(&all), 4);
    }

    #[test]
    fn waiting_for_an_answer_is_not_being_behind() {
        // Due every 10 ms. The first took 2 s, so the second began 1.99 s late.
        let mut all = [commit(0, 2000), commit(2000, 2001)];
        all[1].due_us = 10_000;
        assert!((longest_wait_ms(&all) - 2000.0).abs() < 1e-9);
        assert!((longest_behind_ms(&all) - 1990.0).abs() < 1e-9);
    }

    #[test]
    fn gap_is_between_commits_of_any_client_and_up_to_the_ends() {
        let all = [commit(0, 100), commit(0, 150), commit(0, 900)];
        assert!((longest_gap_ms(&all, 0, 1_000_000) - 750.0).abs() < 1e-9);
        assert!((longest_gap_ms(&all, 0, 5_000_000) - 4100.0).abs() < 1e-9);
        assert!((longest_gap_ms(&all, 120_000, 160_000) - 30.0).abs() < 1e-9);
        assert!((longest_gap_ms(&[], 0, 3_000_000) - 3000.0).abs() < 1e-9);
    }

    #[test]
    fn failures_are_counted_by_kind() {
        let all = [
            commit(0, 1),
            failed(Ending::Refused(1213)),
            failed(Ending::Refused(1213)),
            failed(Ending::Lost),
        ];
        let expected = [
            ("1213 deadlock or lost certification".to_owned(), 2),
            ("no answer".to_owned(), 1),
        ];
        assert_eq!(errors_by_kind(&all), expected.into());
    }
}

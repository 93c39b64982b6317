//! The figures of one trial, from the records of clients and the rows of servers. Pure.

use std::collections::{BTreeMap, HashSet};

use super::record::Round;
use crate::meters::clients::unique_id;
use crate::meters::timeline::{
    Attempt, Ending, commits, commits_by_second, errors_by_kind, is_refusal, longest_gap_ms, ms,
};
use crate::meters::visibility::{Sighting, Written, staleness};
use crate::statistics::{coefficient_of_variation, mean};

/// Seconds with less than this share of the rate before count as a disturbance.
const FULL_SHARE: f64 = 0.8;
/// Begin of a load that is not counted, seconds.
const WARM_UP: usize = 2;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub fault_us: u64,
    pub repair_us: u64,
    /// The clients were told to end.
    pub end_us: u64,
}

/// Everything that the clients saw, by client in the order of their numbers.
pub(super) fn of_clients(by_client: &[Vec<Attempt>], at: Moments) -> Round {
    let all: Vec<Attempt> = by_client.iter().flatten().copied().collect();
    let since: Vec<Attempt> = all
        .iter()
        .copied()
        .filter(|a| a.ended_us >= at.fault_us)
        .collect();
    let series = commits_by_second(&all, 0, at.end_us);
    let before = commits_by_second(&all, 0, at.fault_us);
    let before_tps = mean(before.get(WARM_UP..).unwrap_or_default()).unwrap_or_default();
    let after = commits_by_second(&since, at.fault_us, at.end_us);
    let is_below = |rate: &&f64| **rate < FULL_SHARE * before_tps;
    let lost = |a: &&Attempt| a.ending == Ending::Lost;
    Round {
        acknowledged: commits(&all),
        outage_s: longest_gap_ms(&since, at.fault_us, at.end_us) / 1000.0,
        below_s: after.iter().filter(is_below).count() as u64,
        unanswered: since.iter().filter(lost).count() as u64,
        variation: coefficient_of_variation(&after),
        before_tps,
        errors: errors_by_kind(&since),
        series,
        fault_s: seconds(at.fault_us),
        repair_s: seconds(at.repair_us),
        ..Round::default()
    }
}

/// Counts reads, and what they missed.
pub(super) fn of_reads(
    round: &mut Round,
    by_client: &[Vec<Attempt>],
    reads: &[Sighting],
    at: Moments,
) {
    let mut written: BTreeMap<u32, Vec<Written>> = BTreeMap::new();
    for (row, attempts) in (1..).zip(by_client) {
        let acknowledged = (1..)
            .zip(attempts)
            .filter(|(_, attempt)| attempt.is_commit());
        let write = |(number, attempt): (u64, &Attempt)| Written {
            row,
            number,
            at_us: attempt.ended_us,
        };
        written.insert(row, acknowledged.map(write).collect());
    }
    for read in reads.iter().filter(|read| read.at_us >= at.fault_us) {
        round.reads += 1;
        let of_row = written.get(&read.row).map_or(&[][..], Vec::as_slice);
        if let Some(us) = staleness(of_row, *read) {
            round.stale_reads += 1;
            round.stalest_ms = round.stalest_ms.max(ms(us));
        }
    }
}

/// Counts the rows that are missing, and those that should not be there.
pub(super) fn judge(round: &mut Round, by_client: &[Vec<Attempt>], rows: &HashSet<u64>) {
    let mut lost = 0;
    for (client, attempts) in (1..).zip(by_client) {
        for (number, attempt) in (1..).zip(attempts) {
            let is_there = rows.contains(&unique_id(client, number));
            match attempt.ending {
                Ending::Committed if !is_there => lost += 1,
                Ending::Refused(code) if is_refusal(code) && is_there => {
                    round.wrongly_refused += 1;
                }
                Ending::Committed | Ending::Refused(_) | Ending::Lost => {}
            }
        }
    }
    round.lost = Some(lost);
}

#[allow(clippy::cast_precision_loss)] // times here are below 2^52 microseconds
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(ended_ms: u64, ending: Ending) -> Attempt {
        Attempt {
            due_us: ended_ms * 1000,
            begun_us: ended_ms * 1000,
            ended_us: ended_ms * 1000,
            ending,
        }
    }

    fn commits_at(ms: impl Iterator<Item = u64>) -> Vec<Attempt> {
        ms.map(|ms| attempt(ms, Ending::Committed)).collect()
    }

    #[test]
    fn outage_and_slow_seconds_of_a_made_up_load() {
        // 10 per second for 6 s; nothing from 6 to 9.05; 5 per second for 2 s; 10 again for 3 s.
        let mut client = commits_at((50..6000).step_by(100));
        client.push(attempt(8000, Ending::Lost));
        client.extend(commits_at((9050..11_000).step_by(200)));
        client.extend(commits_at((11_050..14_000).step_by(100)));
        let at = Moments {
            fault_us: 6_000_000,
            repair_us: 9_000_000,
            end_us: 14_000_000,
        };
        let round = of_clients(&[client], at);
        assert!((round.before_tps - 10.0).abs() < 1e-9);
        assert!((round.outage_s - 3.05).abs() < 1e-9);
        assert_eq!((round.below_s, round.unanswered), (5, 1));
        assert_eq!(round.acknowledged, 60 + 10 + 30);
        // 0 0 0 5 5 10 10 10: mean 5, deviation 4.33.
        assert!((round.variation.unwrap() - 0.866).abs() < 1e-3);
        assert_eq!(round.series.len(), 14);
    }

    #[test]
    fn load_that_never_returns_is_an_outage_up_to_the_end() {
        let at = Moments {
            fault_us: 3_000_000,
            repair_us: 4_000_000,
            end_us: 30_000_000,
        };
        let round = of_clients(&[commits_at((0..3000).step_by(10))], at);
        assert!((round.outage_s - 27.0).abs() < 1e-9);
        assert_eq!((round.below_s, round.variation), (27, None));
    }

    #[test]
    fn reads_are_judged_from_the_fault_on_by_what_was_acknowledged() {
        let client = commits_at([100, 200, 300].into_iter());
        let at = Moments {
            fault_us: 250_000,
            ..Moments::default()
        };
        let read = |number, at_ms: u64| Sighting {
            row: 1,
            number,
            at_us: at_ms * 1000,
        };
        let mut round = Round::default();
        let reads = [read(0, 240), read(2, 260), read(1, 260), read(2, 450)];
        of_reads(&mut round, &[client], &reads, at);
        assert_eq!((round.reads, round.stale_reads), (3, 2));
        assert!((round.stalest_ms - 150.0).abs() < 1e-9);
    }

    #[test]
    fn rows_are_judged_by_the_answers_to_their_clients() {
        let first = vec![
            attempt(1, Ending::Committed),     // there
            attempt(2, Ending::Committed),     // missing
            attempt(3, Ending::Refused(1213)), // there: a wrong answer
            attempt(4, Ending::Refused(1213)), // missing, as told
        ];
        let second = vec![
            attempt(1, Ending::Lost),          // there: nothing was said
            attempt(2, Ending::Refused(1180)), // there: the error does not say
            attempt(3, Ending::Committed),     // there
        ];
        let rows = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)].map(|(c, n)| unique_id(c, n));
        let mut round = Round::default();
        judge(&mut round, &[first, second], &HashSet::from(rows));
        assert_eq!((round.lost, round.wrongly_refused), (Some(1), 1));
    }
}

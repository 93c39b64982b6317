//! Changes from one certificate to another. Pure.

use super::record::{Cell, Certificate};

/// An outage that grew by less than this share of the former one, or by less than [`NOISE_S`], may
/// be chance: detection of a fault by timeouts alone differs by as much.
const NOISE_SHARE: f64 = 0.5;
const NOISE_S: f64 = 1.0;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub lines: Vec<String>,
    pub regressions: Vec<String>,
}

pub fn compare(before: &Certificate, after: &Certificate) -> Comparison {
    let mut comparison = Comparison::default();
    for new in &after.cells {
        let is_same = |old: &&Cell| {
            (&old.system, old.fault, old.target) == (&new.system, new.fault, new.target)
        };
        let Some(old) = before.cells.iter().find(is_same) else {
            continue;
        };
        let (Some(then), Some(now)) = (old.outage(), new.outage()) else {
            continue;
        };
        let name = format!("{}: {} of {}", new.system, new.fault, new.target);
        comparison.lines.push(format!(
            "{name}: lost {} -> {}, outage {:.1} -> {:.1} s (worst {:.1} -> {:.1})",
            old.lost(),
            new.lost(),
            then.0,
            now.0,
            then.1,
            now.1
        ));
        let mut worse = |is_worse: bool, text: &str| {
            if is_worse {
                comparison.regressions.push(format!("{name}: {text}"));
            }
        };
        worse(
            new.failure.is_some() && old.failure.is_none(),
            "could not be judged",
        );
        worse(new.lost() > old.lost(), "loses more");
        let wrong = |cell: &Cell| cell.most(|round| round.wrongly_refused);
        worse(wrong(new) > wrong(old), "gives more wrong answers");
        let beyond = then.1 + NOISE_S.max(NOISE_SHARE * then.0);
        worse(now.0 > beyond, "is away for longer");
        worse(
            new.needed_person() && !old.needed_person(),
            "needs a person",
        );
    }
    comparison
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Fault, Target};
    use super::super::record::Round;
    use super::*;

    fn certificate(lost: u64, outages_s: &[f64]) -> Certificate {
        let round = |outage_s: &f64| Round {
            lost: Some(lost),
            outage_s: *outage_s,
            back_s: Some(1.0),
            ..Round::default()
        };
        let mut cell = Cell::new("synod".into(), Fault::Kill, Target::Leader);
        cell.rounds.extend(outages_s.iter().map(round));
        Certificate {
            cells: vec![cell],
            ..Certificate::default()
        }
    }

    #[test]
    fn longer_outage_counts_only_beyond_the_worst_and_noise() {
        let old = certificate(0, &[2.0, 3.0, 4.0]);
        let worse = |new: &Certificate| compare(&old, new).regressions;
        assert!(worse(&certificate(0, &[5.4, 5.4, 5.4])).is_empty());
        assert_eq!(worse(&certificate(0, &[5.6, 5.6, 5.6])).len(), 1);
        // One bad round of three is no regression.
        assert!(worse(&certificate(0, &[2.0, 3.0, 50.0])).is_empty());
        assert!(worse(&certificate(0, &[0.1])).is_empty());
    }

    #[test]
    fn a_single_lost_row_is_a_regression_and_so_is_a_person() {
        let old = certificate(0, &[1.0]);
        assert_eq!(compare(&old, &certificate(1, &[1.0])).regressions.len(), 1);
        let mut new = certificate(0, &[1.0]);
        new.cells[0].rounds[0].by_hand = Some("restart of db1".into());
        assert_eq!(compare(&old, &new).regressions.len(), 1);
        assert!(compare(&new, &new).regressions.is_empty());
        assert_eq!(compare(&old, &new).lines.len(), 1);
    }

    #[test]
    fn cells_of_only_one_certificate_are_not_compared() {
        let old = certificate(0, &[1.0]);
        let mut new = certificate(9, &[90.0]);
        new.cells[0].fault = Fault::Stop;
        assert_eq!(compare(&old, &new), Comparison::default());
    }
}

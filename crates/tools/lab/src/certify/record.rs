//! The certificate, in the form of its JSON file: what was observed, and what follows from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::{Fault, Target};
use crate::results::Machine;
use crate::statistics::median;

/// Version of the file's format: changes when a reader of the old one would misunderstand.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`FORMAT`] of the program that wrote the file.
    pub format: u32,
    pub command: String,
    /// Start: UTC, as `2026-11-22T23:45:00Z`.
    pub date: String,
    /// The commit of the sources beside the program. Empty: there are none.
    pub commit: String,
    pub machine: Machine,
    pub versions: BTreeMap<String, String>,
    /// Settings of a server of each system, as its configuration or command line has them.
    pub settings: BTreeMap<String, String>,
    /// Load average per core before the run: above 0.5 the machine was busy with other things.
    pub busy_before: f64,
    /// Chooses followers and moments.
    pub seed: u64,
    pub topology: String,
    /// Clients of all servers together, where none of them is a logger; each inserts rows one after
    /// the other.
    pub clients: u32,
    /// Longest wait of a client for an answer before it goes to another server, seconds.
    pub client_patience_s: u64,
    /// Time after a repair within which a system comes back by itself, seconds.
    pub patience_s: u64,
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub system: String,
    pub fault: Fault,
    pub target: Target,
    pub not_tried: Option<String>,
    pub failure: Option<String>,
    pub rounds: Vec<Round>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)] // figures that a later version has begun to take
pub struct Round {
    pub hit: Vec<String>,
    pub acknowledged: u64,
    /// Acknowledged rows that the group does not hold afterwards. None: a trial that failed before
    /// they could be counted.
    pub lost: Option<u64>,
    /// Rows that the group holds although their clients were told that they were rolled back.
    pub wrongly_refused: u64,
    pub diverged: Vec<String>,
    /// Servers that lack rows of the leader two minutes after the load.
    pub behind: Vec<String>,
    /// Longest time without a commit of any client, from the fault on, seconds.
    pub outage_s: f64,
    /// Seconds from the fault on with less than 80 % of the commits of those before it.
    pub below_s: u64,
    pub unanswered: u64,
    /// Coefficient of variation of the commits per second from the fault on.
    pub variation: Option<f64>,
    /// Reads without a wait that were answered, from the fault on, on all servers.
    pub reads: u64,
    /// Reads among them that missed a transaction acknowledged before they began.
    pub stale_reads: u64,
    /// Greatest age of such a transaction, milliseconds.
    pub stalest_ms: f64,
    pub before_tps: f64,
    /// Time from the repair until all servers were full members, seconds. None: they were not.
    pub back_s: Option<f64>,
    /// Work of a person. None: nothing.
    pub by_hand: Option<String>,
    pub errors: BTreeMap<String, u64>,
    /// Commits of each second, from the beginning of the load.
    pub series: Vec<f64>,
    /// Moments of the fault and of its repair in the series, seconds.
    pub fault_s: f64,
    pub repair_s: f64,
}

impl Round {
    /// Whether servers can be used on.
    pub fn is_clean(&self) -> bool {
        self.lost == Some(0)
            && self.wrongly_refused == 0
            && self.diverged.is_empty()
            && self.behind.is_empty()
            && self.back_s.is_some()
            && self.by_hand.is_none()
    }
}

impl Cell {
    pub fn new(system: String, fault: Fault, target: Target) -> Cell {
        Cell {
            system,
            fault,
            target,
            not_tried: None,
            failure: None,
            rounds: Vec::new(),
        }
    }

    pub fn lost(&self) -> u64 {
        self.most(|round| round.lost.unwrap_or_default())
    }

    pub fn most(&self, of: impl Fn(&Round) -> u64) -> u64 {
        self.rounds.iter().map(of).max().unwrap_or_default()
    }

    /// Median and worst time without a commit, seconds. None: not tried.
    pub fn outage(&self) -> Option<(f64, f64)> {
        let all: Vec<f64> = self.rounds.iter().map(|round| round.outage_s).collect();
        let worst = all.iter().copied().fold(0.0, f64::max);
        Some((median(&all)?, worst))
    }

    pub fn needed_person(&self) -> bool {
        let mut rounds = self.rounds.iter();
        rounds.any(|round| round.by_hand.is_some() || round.back_s.is_none())
    }

    /// Breaches of what a system promises that is durable on a majority. Every fault ends with all
    /// servers there, so a majority is.
    pub fn breaches(&self) -> Vec<String> {
        let name = format!("{}: {} of {}", self.system, self.fault, self.target);
        let mut breaches = Vec::new();
        let mut breach = |is_one: bool, text: String| {
            if is_one {
                breaches.push(format!("{name}: {text}"));
            }
        };
        let lost = self.lost();
        breach(lost > 0, format!("{lost} acknowledged transactions lost"));
        let refused = self.most(|round| round.wrongly_refused);
        breach(
            refused > 0,
            format!("{refused} committed transactions answered as rolled back"),
        );
        let has = |is_one: fn(&Round) -> bool| self.rounds.iter().any(is_one);
        let diverged = has(|round| !round.diverged.is_empty());
        breach(diverged, "servers hold different rows".into());
        let behind = has(|round| !round.behind.is_empty());
        breach(behind, "servers do not catch up".into());
        breach(self.needed_person(), "a person was needed".into());
        let failure = self.failure.clone();
        breach(failure.is_some(), failure.unwrap_or_default());
        breaches
    }
}

impl Certificate {
    /// Things that Synod did and may not do. Empty: it passes.
    pub fn breaches(&self) -> Vec<String> {
        let ours = self
            .cells
            .iter()
            .filter(|cell| cell.system.starts_with("synod"));
        ours.flat_map(Cell::breaches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(system: &str, round: Round) -> Certificate {
        let mut cell = Cell::new(system.into(), Fault::Kill, Target::All);
        cell.rounds.push(round);
        Certificate {
            cells: vec![cell],
            ..Certificate::default()
        }
    }

    fn good() -> Round {
        Round {
            back_s: Some(3.0),
            ..Round::default()
        }
    }

    #[test]
    fn each_breach_of_synod_is_found_and_those_of_others_are_only_shown() {
        assert!(certificate("synod", good()).breaches().is_empty());
        let bad: [fn(&mut Round); 6] = [
            |round| round.lost = Some(1),
            |round| round.wrongly_refused = 1,
            |round| round.diverged = vec!["db2".into()],
            |round| round.behind = vec!["db2".into()],
            |round| round.by_hand = Some("restart".into()),
            |round| round.back_s = None,
        ];
        for spoil in bad {
            let mut round = good();
            spoil(&mut round);
            assert_eq!(certificate("synod", round.clone()).breaches().len(), 1);
            assert_eq!(
                certificate("synod-mysql", round.clone()).breaches().len(),
                1
            );
            assert!(certificate("galera", round).breaches().is_empty());
        }
    }

    #[test]
    fn cell_that_was_not_tried_has_no_figures_and_no_breach() {
        let mut certificate = certificate("synod", good());
        certificate.cells[0].rounds.clear();
        assert_eq!(certificate.cells[0].outage(), None);
        assert!(certificate.breaches().is_empty());
    }
}

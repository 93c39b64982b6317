//! The faults of a certificate, whom they hit, and which of these belong to the short form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::systems::kind::{MeasuredSystem, SystemKind};

/// A fault of servers, or a planned change of them, under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// SIGKILL; started again after 5 s.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Stop,
    /// Loss of all that it sends to other servers.
    CutOneWay,
    /// Loss in both directions between it and the other servers. Clients reach all.
    Cut,
    /// Every write hangs.
    HungDisk,
    /// Every write takes up to 200 ms.
    SlowDisk,
    /// No block is left.
    FullDisk,
    /// Loss of what was not synced; started again after 5 s.
    PowerLoss,
    /// The same of all, and the disk of one never returns.
    DiskLoss,
    /// Planned change of the leader, and back.
    HandOver,
    RollingRestart,
    /// A rolling restart with the next version of the library.
    Upgrade,
}

/// Members that are hit by a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    Follower,
    /// The leader, the primary; of equal servers, the first.
    Leader,
    /// The leader and as many others as make a majority; the logger, if there is one.
    Majority,
    All,
    /// The logger that is there in place of a server.
    Logger,
}

/// Time for which a slow disk takes no write, and then for which it takes some.
pub(super) const SLOW_WRITE: Duration = Duration::from_millis(200);
pub(super) const SLOW_PAUSE: Duration = Duration::from_millis(20);

const FAULTS: [(Fault, &str); 12] = [
    (Fault::Kill, "kill"),
    (Fault::Stop, "stop"),
    (Fault::CutOneWay, "cut-one-way"),
    (Fault::Cut, "cut"),
    (Fault::HungDisk, "hung-disk"),
    (Fault::SlowDisk, "slow-disk"),
    (Fault::FullDisk, "full-disk"),
    (Fault::PowerLoss, "power-loss"),
    (Fault::DiskLoss, "disk-loss"),
    (Fault::HandOver, "hand-over"),
    (Fault::RollingRestart, "rolling-restart"),
    (Fault::Upgrade, "upgrade"),
];

/// The short form: for each fault the target that says most in a minute. The long form has all.
const SHORT: [(Fault, Target); 14] = [
    (Fault::Kill, Target::Leader),
    (Fault::Kill, Target::Majority),
    (Fault::Kill, Target::All),
    (Fault::Kill, Target::Logger),
    (Fault::Stop, Target::Leader),
    (Fault::CutOneWay, Target::Leader),
    (Fault::Cut, Target::Leader),
    (Fault::HungDisk, Target::Leader),
    (Fault::SlowDisk, Target::Leader),
    (Fault::FullDisk, Target::Leader),
    (Fault::PowerLoss, Target::All),
    (Fault::DiskLoss, Target::Leader),
    (Fault::HandOver, Target::Leader),
    (Fault::Upgrade, Target::All),
];

impl Fault {
    pub fn name(self) -> &'static str {
        let found = FAULTS.iter().find(|(fault, _)| *fault == self);
        found.map_or("", |(_, name)| name)
    }

    /// Time from its begin to its repair.
    pub(super) fn hold(self) -> Duration {
        Duration::from_secs(match self {
            Fault::Kill | Fault::PowerLoss | Fault::DiskLoss => 5,
            Fault::Stop | Fault::CutOneWay | Fault::Cut | Fault::HungDisk => 20,
            Fault::FullDisk | Fault::SlowDisk => 15,
            Fault::HandOver => 10,
            Fault::RollingRestart | Fault::Upgrade => 0,
        })
    }

    fn targets(self) -> &'static [Target] {
        use Target::{All, Follower, Leader, Logger, Majority};
        match self {
            Fault::HandOver | Fault::DiskLoss => &[Leader],
            Fault::RollingRestart | Fault::Upgrade => &[All],
            // A majority that is cut off from each other is all of them.
            Fault::CutOneWay | Fault::Cut => &[Follower, Leader, All, Logger],
            _ => &[Follower, Leader, Majority, All, Logger],
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let found = FAULTS.iter().find(|(_, name)| *name == text);
        let names: Vec<&str> = FAULTS.iter().map(|(_, name)| *name).collect();
        found
            .map(|(fault, _)| *fault)
            .ok_or_else(|| format!("'{text}' is none of {}", names.join(", ")))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Follower => "a follower",
            Target::Leader => "the leader",
            Target::Majority => "a majority",
            Target::All => "all",
            Target::Logger => "the logger",
        })
    }
}

impl Target {
    /// The members that it means, of so many servers and, after them, perhaps a logger; `chosen`
    /// is any number.
    pub(super) fn members(
        self,
        leader: usize,
        servers: usize,
        has_logger: bool,
        chosen: usize,
    ) -> Vec<usize> {
        let other = |n: usize| (leader + 1 + (chosen + n) % (servers - 1)) % servers;
        let loggers = servers..servers + usize::from(has_logger);
        match self {
            Target::Follower => vec![other(0)],
            Target::Leader => vec![leader],
            Target::Majority if has_logger => vec![leader, servers],
            Target::Majority => std::iter::once(leader)
                .chain((0..servers / 2).map(other))
                .collect(),
            Target::All => (0..loggers.end).collect(),
            Target::Logger => loggers.collect(),
        }
    }
}

/// Cells that are tried of every system.
pub fn cells(is_short: bool, faults: &[Fault]) -> Vec<(Fault, Target)> {
    let every = FAULTS.iter().map(|(fault, _)| *fault);
    let all = every.flat_map(|fault| fault.targets().iter().map(move |target| (fault, *target)));
    let mut cells: Vec<_> = match is_short {
        true => SHORT.to_vec(),
        false => all.collect(),
    };
    cells.retain(|(fault, _)| faults.is_empty() || faults.contains(fault));
    cells
}

/// Why a fault cannot be made of a system. None: it can.
pub(super) fn impossible(
    system: MeasuredSystem,
    fault: Fault,
    target: Target,
    has_next: bool,
) -> Option<String> {
    let reason = match (fault, system.kind) {
        _ if target == Target::Logger && !system.has_logger => "it has no logger",
        (Fault::Upgrade, SystemKind::Synod) if !has_next => "--next-library names none",
        (Fault::Upgrade, kind) if kind != SystemKind::Synod => "there is one version of it here",
        (Fault::HandOver, SystemKind::Galera { .. }) => "it has no leader",
        (Fault::HandOver | Fault::DiskLoss, SystemKind::SemiSync | SystemKind::MysqlSemiSync) => {
            "a person or a tool does it"
        }
        _ => return None,
    };
    Some(reason.to_owned())
}

/// Whether a certificate of a system can be made.
pub fn is_certifiable(kind: SystemKind) -> bool {
    !matches!(kind, SystemKind::Async | SystemKind::Standalone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_is_part_of_the_long_one_and_has_each_fault_but_the_slow_restart() {
        let (short, long) = (cells(true, &[]), cells(false, &[]));
        assert!(short.iter().all(|cell| long.contains(cell)));
        for (fault, name) in FAULTS {
            assert_eq!(name.parse(), Ok(fault));
            let is_short = short.iter().any(|(of, _)| *of == fault);
            assert_eq!(is_short, fault != Fault::RollingRestart, "{name}");
        }
        assert_eq!(cells(true, &[Fault::Kill]).len(), 4);
    }

    #[test]
    fn majority_holds_the_leader_and_a_follower_is_another_server() {
        for (leader, chosen) in [(0, 0), (1, 1), (2, 7)] {
            let follower = Target::Follower.members(leader, 3, false, chosen);
            assert!(follower.len() == 1 && follower[0] != leader && follower[0] < 3);
            let mut majority = Target::Majority.members(leader, 3, false, chosen);
            majority.dedup();
            assert!(majority.len() == 2 && majority.contains(&leader));
        }
        assert_eq!(Target::All.members(1, 3, false, 5), [0, 1, 2]);
    }

    #[test]
    fn logger_is_one_of_a_majority_and_never_taken_for_a_follower() {
        for chosen in 0..4 {
            let members = |target: Target| target.members(1, 2, true, chosen);
            assert_eq!(members(Target::Follower), [0]);
            assert_eq!(members(Target::Majority), [1, 2]);
            assert_eq!(members(Target::All), [0, 1, 2]);
            assert_eq!(members(Target::Logger), [2]);
        }
        let (with, without) = ("synod-logger".parse().unwrap(), "synod".parse().unwrap());
        assert!(impossible(with, Fault::Kill, Target::Logger, false).is_none());
        assert!(impossible(without, Fault::Kill, Target::Logger, false).is_some());
    }
}

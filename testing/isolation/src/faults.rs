//! Faults of servers and of their network, drawn from a seed: one or two at a time, each undone
//! after some seconds, before the next begin.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use synod_e2e::dice::Dice;
use synod_e2e::logger::Logger;
use synod_e2e::programs::{lead, signal};
use synod_e2e::{Failure, Outcome, TestCluster, Why};
use synod_local_cluster::wait_for;

use crate::network::Network;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Fault {
    /// SIGKILL of a server, and a new start.
    Kill,
    /// SIGKILL of all servers at the same time.
    KillAll,
    /// SIGSTOP of a server, as a paused virtual machine.
    Stop,
    /// Orderly shutdown of a server.
    Restart,
    /// A server leaves, loses its disk and joins as a new member.
    Join,
    /// Hand-over of leadership.
    Leader,
    /// SIGKILL of the logger.
    Logger,
    /// A server that the others do not reach, in both directions.
    Cut,
    /// A server whose packages do not reach the others.
    HalfCut,
}

impl Fault {
    pub fn needs_network(self) -> bool {
        matches!(self, Fault::Cut | Fault::HalfCut)
    }
}

/// Shortest time that a fault lasts; up to as much again is added.
const LASTS_MS: u64 = 2500;
/// The same for the time between faults.
const PAUSE_MS: u64 = 1500;
/// For a group to have all members again.
const PATIENCE: Duration = Duration::from_secs(120);

/// Faults of a run, and the number of each so far.
#[derive(Debug)]
pub struct Faults {
    kinds: Vec<Fault>,
    dice: Dice,
    pub network: Option<Network>,
    pub logger: Option<Logger>,
    pub counts: BTreeMap<Fault, u32>,
}

impl Faults {
    /// Faults of these kinds, by a seed.
    pub fn new(
        kinds: Vec<Fault>,
        seed: u64,
        network: Option<Network>,
        logger: Option<Logger>,
    ) -> Faults {
        Faults {
            kinds,
            dice: Dice::of(seed),
            network,
            logger,
            counts: BTreeMap::new(),
        }
    }

    /// Makes faults until the time has passed.
    ///
    /// # Errors
    /// When the group does not come back from one.
    pub fn run(&mut self, cluster: &mut TestCluster, time: Duration) -> Outcome {
        let end = Instant::now() + time;
        loop {
            let pause = self.duration(PAUSE_MS);
            let left = end.saturating_duration_since(Instant::now());
            if self.kinds.is_empty() || left <= pause {
                std::thread::sleep(left);
                return Ok(());
            }
            std::thread::sleep(pause);
            self.round(cluster)?;
        }
    }

    fn duration(&mut self, least_ms: u64) -> Duration {
        Duration::from_millis(least_ms + self.dice.below(least_ms))
    }

    fn round(&mut self, cluster: &mut TestCluster) -> Outcome {
        let mut nodes: Vec<u8> = cluster.nodes().collect();
        let count = if self.dice.below(3) == 0 { 2 } else { 1 };
        let mut open = Vec::new();
        for _ in 0..count {
            let fault = self.dice.one_of(&self.kinds);
            // Two lost disks of three are the loss of the group.
            if fault == Fault::Join && open.iter().any(|(other, _)| *other == Fault::Join) {
                continue;
            }
            let node = self.dice.one_of(&nodes);
            nodes.retain(|other| *other != node);
            eprintln!("  {fault:?} node{node}");
            self.begin(cluster, fault, node)?;
            *self.counts.entry(fault).or_default() += 1;
            open.push((fault, node));
            if fault == Fault::KillAll || nodes.is_empty() {
                break;
            }
        }
        std::thread::sleep(self.duration(LASTS_MS));
        // A server that starts needs the others: so these come back first.
        open.sort_by_key(|(fault, _)| !matches!(fault, Fault::Stop | Fault::Cut | Fault::HalfCut));
        for (fault, node) in open {
            self.end(cluster, fault, node)?;
        }
        let all: Vec<u8> = cluster.nodes().collect();
        cluster
            .await_synced(&all, &|_, _| ())
            .why("after the faults")
    }

    fn begin(&mut self, cluster: &mut TestCluster, fault: Fault, node: u8) -> Outcome {
        match fault {
            Fault::Kill => cluster.kill(node).map(drop).why("kill"),
            Fault::KillAll => cluster.kill_all().why("kill all"),
            Fault::Stop => signal(cluster, node, "-STOP"),
            Fault::Restart => cluster.stop(node).map(drop).why("stop"),
            Fault::Join => {
                cluster.stop(node).why("stop")?;
                cluster.wipe(node).why("wipe")
            }
            Fault::Leader => {
                // Refused where another fault stands in its way.
                lead(cluster, node).or_else(|Failure(why)| {
                    eprintln!("  {why}");
                    Ok(())
                })
            }
            Fault::Logger => self.logger.as_mut().map_or(Ok(()), Logger::kill),
            Fault::Cut | Fault::HalfCut => {
                let network = self.network.as_ref();
                network.map_or(Ok(()), |network| network.cut(node, fault == Fault::Cut))
            }
        }
    }

    fn end(&mut self, cluster: &mut TestCluster, fault: Fault, node: u8) -> Outcome {
        match fault {
            Fault::Kill | Fault::Restart | Fault::Join => {
                let started = cluster.start(node, &|_, _| ());
                started.map(drop).why(format_args!("starting node{node}"))
            }
            Fault::KillAll => cluster.up(&|_, _| ()).why("starting all"),
            // Killed with all others: it is started with them.
            Fault::Stop if cluster.node_status(node).pid.is_none() => Ok(()),
            Fault::Stop => {
                signal(cluster, node, "-CONT")?;
                let runs = || cluster.node_status(node).primary.then_some(());
                let back = wait_for(PATIENCE, runs);
                back.ok_or_else(|| Failure(format!("node{node} does not come back")))
            }
            Fault::Leader => Ok(()),
            Fault::Logger => self.logger.as_mut().map_or(Ok(()), Logger::join),
            Fault::Cut | Fault::HalfCut => {
                if let Some(network) = &self.network {
                    network.join(node);
                }
                Ok(())
            }
        }
    }
}

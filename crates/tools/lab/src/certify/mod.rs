//! `synod-lab certify`: faults of each system under load, and what they cost.
//!
//! Every trial begins and ends with all servers there. Clients of all servers insert rows that no
//! other one inserts, so that each acknowledged row can be looked for afterwards. A system that has
//! not come back by itself within its patience gets the step that its manual asks of a person.

pub mod compare;
mod figures;
pub mod plan;
mod readers;
pub mod record;
pub mod site;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bench::{Progress, machine};
use crate::error::{IoContext, Result};
use crate::meters::surroundings;
use crate::systems::kind::MeasuredSystem;
use crate::systems::{Setup, System, mysqld};
use crate::tools;
use plan::{Fault, Target};
use record::{Cell, Certificate, FORMAT, Round};
use site::Site;
use trial::{Bed, CLIENT_PATIENCE, CLIENTS, Trial};

#[derive(Debug, Clone)]
pub struct Plan {
    pub systems: Vec<MeasuredSystem>,
    pub cells: Vec<(Fault, Target)>,
    pub rounds: u32,
    pub seed: u64,
    pub patience: Duration,
}

struct Run<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    site: Site<'a>,
}

/// Tries everything, a system after the other. `keep` gets the certificate after each cell, so
/// that an interrupted run leaves what it has.
pub fn run(
    plan: &Plan,
    setup: &Setup,
    site: Site<'_>,
    keep: &dyn Fn(&Certificate) -> Result<()>,
    progress: Progress<'_>,
) -> Result<Certificate> {
    let run = Run { plan, setup, site };
    let mut certificate = run.empty();
    let mut random = SmallRng::seed_from_u64(plan.seed);
    for measured in &plan.systems {
        let mut bed = None;
        for (number, (fault, target)) in (1..).zip(&plan.cells) {
            let mut cell = Cell::new(measured.to_string(), *fault, *target);
            for round in 1..=plan.rounds as usize {
                let trial = Trial {
                    fault: *fault,
                    target: *target,
                    chosen: random.random_range(0..1000),
                    number: number * 100 + round,
                };
                if !run.add_round(&mut certificate, &mut cell, &mut bed, *measured, trial) {
                    break;
                }
            }
            progress(&line(&cell));
            certificate.cells.push(cell);
            keep(&certificate)?;
        }
    }
    Ok(certificate)
}

impl<'a> Run<'a> {
    /// False: there is no use in another one.
    fn add_round(
        &self,
        certificate: &mut Certificate,
        cell: &mut Cell,
        bed: &mut Option<Bed<'a>>,
        measured: MeasuredSystem,
        trial: Trial,
    ) -> bool {
        let has_next = self.setup.next_synod.is_some();
        cell.not_tried = plan::impossible(measured, trial.fault, trial.target, has_next);
        if cell.not_tried.is_some() {
            return false;
        }
        let result = match bed.take().map_or_else(|| self.bed(measured), Ok) {
            Ok(mut ready) => {
                describe(certificate, &ready.system);
                let mut seen = None;
                let result = ready.run(trial, &mut seen);
                // A trial has all servers, of the first version, that lost nothing, hold the same
                // and came back by themselves, or new ones.
                let is_clean = result.is_ok() && seen.as_ref().is_some_and(Round::is_clean);
                let is_clean = is_clean && !matches!(trial.fault, Fault::Upgrade | Fault::DiskLoss);
                *bed = is_clean.then_some(ready);
                cell.rounds.extend(seen);
                result
            }
            Err(error) => Err(error),
        };
        cell.failure = result.err().map(|error| error.to_string());
        cell.failure.is_none()
    }

    fn bed(&self, measured: MeasuredSystem) -> Result<Bed<'a>> {
        let dir = self.setup.data.join(measured.to_string());
        if dir.exists() {
            fs::remove_dir_all(&dir).context("remove", &dir)?;
        }
        self.site.reconnect()?;
        let (system, disks) = self.site.system(measured, self.setup)?;
        let mut bed = Bed {
            system,
            site: self.site,
            disks,
            next_synod: self.setup.next_synod.as_deref(),
            patience: self.plan.patience,
        };
        bed.system.up()?;
        Ok(bed)
    }

    fn empty(&self) -> Certificate {
        let has_mysql = self
            .plan
            .systems
            .iter()
            .any(|system| system.kind.is_mysql());
        let servers = u32::try_from(self.site.servers()).unwrap_or(u32::MAX);
        let commit = self.setup.program.parent().and_then(|dir| {
            let mut git = Command::new("git");
            tools::output_of(git.arg("-C").arg(dir).args(["rev-parse", "HEAD"])).ok()
        });
        let mut versions = machine::versions(has_mysql.then(|| mysqld(&self.setup.mysql)));
        versions.extend(self.site.machines());
        Certificate {
            format: FORMAT,
            command: surroundings::command_line(),
            date: machine::date(),
            commit: commit.unwrap_or_default().trim().to_owned(),
            machine: machine::machine(Some(&self.setup.data)),
            versions,
            settings: BTreeMap::new(),
            busy_before: surroundings::load_per_core(),
            seed: self.plan.seed,
            topology: self.site.name(),
            clients: CLIENTS * servers,
            client_patience_s: CLIENT_PATIENCE.as_secs(),
            patience_s: self.plan.patience.as_secs(),
            cells: Vec::new(),
        }
    }
}

/// Notes what a system runs by, as long as it runs.
fn describe(certificate: &mut Certificate, system: &System) {
    let name = system.measured().to_string();
    if let Some(version) = system.status_value(0, "wsrep_provider_version") {
        let version = version.trim().to_owned();
        certificate.versions.insert(name.clone(), version);
    }
    if let Ok(settings) = system.settings() {
        certificate.settings.insert(name, settings);
    }
}

fn line(cell: &Cell) -> String {
    let what = format!(
        "{:<12} {:<16} {:<11} ",
        cell.system,
        cell.fault.name(),
        cell.target.to_string()
    );
    format!("{what}{}", crate::report::certificate::result(cell))
}

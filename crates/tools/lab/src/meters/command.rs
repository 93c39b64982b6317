//! The command lines of the meters.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::delay::{self, DelayPlan};
use super::error::{IoContext, MeterError, Result};
use super::giant::{self, GiantPlan};
use super::group::Group;
use super::lag::{self, LagPlan};
use super::record::{FORMAT, Findings, MeterRecord};
use super::surroundings;
use crate::bench::machine;
use crate::command::servers::ServerArgs;
use crate::report::{self, Report};
use crate::systems::kind::MeasuredSystem;

/// The meters, as commands.
#[derive(Debug, Subcommand)]
pub enum MeterCommand {
    /// Write on one server, read at once on another: stale reads, and when writes get visible
    Delay(DelayArgs),
    /// Change millions of rows by one statement beside small transactions on all servers
    Giant(GiantArgs),
    /// Make one server slow: the group's pace with and without it, and how it catches up
    Lag(LagArgs),
}

/// Options of all meters.
#[derive(Debug, Clone, Args)]
pub struct MeterArgs {
    /// Write what was found to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// synod, galera, galera-flush1, galera-flush2; with '-tls' behind it, replication is encrypted
    #[arg(long, default_value = "synod")]
    pub(crate) system: MeasuredSystem,
    /// same-dc, three-dc, two-region, three-region
    #[arg(long, default_value = "same-dc")]
    pub(crate) topology: String,
    #[command(flatten)]
    pub(crate) servers: ServerArgs,
}

/// Arguments of `delay`.
#[derive(Debug, Args)]
pub struct DelayArgs {
    #[command(flatten)]
    common: MeterArgs,
    /// Server to write to, by its place in the list from 1 [default: the leader]
    #[arg(long, value_name = "N")]
    writer: Option<usize>,
    /// Server to read from [default: the one after the writer]
    #[arg(long, value_name = "N")]
    reader: Option<usize>,
    /// How long each of the six parts runs
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Clients of the load beside it
    #[arg(long, default_value_t = 16)]
    load_clients: u32,
}

/// Arguments of `giant`.
#[derive(Debug, Args)]
pub struct GiantArgs {
    #[command(flatten)]
    common: MeterArgs,
    /// Rows that the statement changes, about 400 bytes of events each
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Server that runs it, by its place in the list from 1 [default: the leader]
    #[arg(long, value_name = "N")]
    writer: Option<usize>,
    /// Small transactions per second on all servers; several: one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [200.0, 2000.0])]
    rate: Vec<f64>,
    /// Clients of each server that make them
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// wsrep_trx_fragment_size for the statement, bytes; 0: no fragments
    #[arg(long, default_value_t = 0)]
    fragment_bytes: u64,
}

/// Arguments of `lag`.
#[derive(Debug, Args)]
pub struct LagArgs {
    #[command(flatten)]
    common: MeterArgs,
    /// Share of one core that the slow server gets
    #[arg(long, default_value_t = 0.1)]
    share: f64,
    /// The slow server, by its place in the list from 1 [default: the last that does not lead]
    #[arg(long, value_name = "N")]
    server: Option<usize>,
    /// Server to write to [default: the leader]
    #[arg(long, value_name = "N")]
    writer: Option<usize>,
    /// How long each part runs: before, slow, after
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Clients of the load
    #[arg(long, default_value_t = 16)]
    clients: u32,
}

impl MeterCommand {
    /// Observes, prints what was found, and writes the files asked for. `data` is where the servers
    /// keep their data.
    pub(crate) fn run(&self, group: &Group, data: &Path) -> Result<()> {
        let busy_before = surroundings::load_per_core();
        let date = machine::date();
        let findings = self.observe(group)?;
        let record = MeterRecord {
            format: FORMAT,
            command: surroundings::command_line(),
            date,
            machine: machine::machine(Some(data)),
            versions: surroundings::versions(group)?,
            system: group.system.clone(),
            topology: group.topology.clone(),
            servers: group.servers.iter().map(|s| s.name.clone()).collect(),
            busy_before,
            findings,
        };
        self.arguments().deliver(record)
    }

    pub(crate) fn arguments(&self) -> &MeterArgs {
        match self {
            MeterCommand::Delay(own) => &own.common,
            MeterCommand::Giant(own) => &own.common,
            MeterCommand::Lag(own) => &own.common,
        }
    }

    fn observe(&self, group: &Group) -> Result<Findings> {
        match self {
            MeterCommand::Delay(own) => own.observe(group).map(Findings::Delay),
            MeterCommand::Giant(own) => own.observe(group).map(Findings::Giant),
            MeterCommand::Lag(own) => own.observe(group).map(Box::new).map(Findings::Lag),
        }
    }
}

impl MeterArgs {
    fn deliver(&self, record: MeterRecord) -> Result<()> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&record).map_err(std::io::Error::from);
            text.and_then(|text| std::fs::write(path, text + "\n"))
                .context("write", path.display())?;
        }
        let report = Report {
            meters: vec![record],
            ..Report::default()
        };
        print!("{}", report::markdown(&report));
        Ok(())
    }
}

impl DelayArgs {
    fn observe(&self, group: &Group) -> Result<super::record::DelayFindings> {
        let writer = writer(group, self.writer)?;
        let next = (writer + 1) % group.servers.len();
        let plan = DelayPlan {
            writer,
            reader: place(group, "--reader", self.reader)?.unwrap_or(next),
            seconds: self.seconds,
            load_clients: self.load_clients,
        };
        delay::run(group, &plan)
    }
}

impl GiantArgs {
    fn observe(&self, group: &Group) -> Result<Vec<super::record::GiantFindings>> {
        let plan = GiantPlan {
            rows: self.rows,
            origin: writer(group, self.writer)?,
            rates: self.rate.clone(),
            clients: self.clients,
            fragment_bytes: self.fragment_bytes,
        };
        if let Some(rate) = plan.rates.iter().find(|rate| !(0.1..1e6).contains(*rate)) {
            return Err(MeterError::BadArgument {
                name: "--rate",
                value: rate.to_string(),
                reason: "it must be from 0.1 to 1000000".into(),
            });
        }
        giant::run(group, &plan)
    }
}

impl LagArgs {
    fn observe(&self, group: &Group) -> Result<super::record::LagFindings> {
        let leader = group.leader();
        let origin = place(group, "--writer", self.writer)?.unwrap_or(leader);
        let mut others = (0..group.servers.len()).rev();
        let last = others.find(|at| *at != leader && *at != origin);
        let plan = LagPlan {
            slow: place(group, "--server", self.server)?.or(last).unwrap_or(0),
            share: self.share,
            origin,
            clients: self.clients,
            seconds: self.seconds,
        };
        lag::run(group, &plan)
    }
}

/// The server that is written to: the one asked for, or else the leader.
fn writer(group: &Group, number: Option<usize>) -> Result<usize> {
    Ok(place(group, "--writer", number)?.unwrap_or_else(|| group.leader()))
}

/// The place in the list, from 0, of a number from 1.
fn place(group: &Group, name: &'static str, number: Option<usize>) -> Result<Option<usize>> {
    match number {
        None => Ok(None),
        Some(number) if (1..=group.servers.len()).contains(&number) => Ok(Some(number - 1)),
        Some(number) => Err(MeterError::BadArgument {
            name,
            value: number.to_string(),
            reason: format!("it must be from 1 to {}", group.servers.len()),
        }),
    }
}

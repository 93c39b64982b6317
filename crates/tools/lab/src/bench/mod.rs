//! `synod-lab bench`: measures systems in turns, and writes what it observed. Systems take turns, A
//! B A B, so that a machine that becomes slower makes all of them slower. A system that does not
//! have its turn does not run.

mod latency;
pub(crate) mod machine;
pub mod plan;
mod sysbench;
mod turn;
pub(crate) mod usage;
pub mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::{IoContext, LabError, Result};
use crate::network::Network;
use crate::results::{FORMAT, Key, Measurement, Plan as PlanRecord, Results};
use crate::systems::{Setup, System, configuration, mysqld};
use plan::{Plan, Turn};
use sysbench::Script;
use workload::Workload;

pub type Progress<'a> = &'a dyn Fn(&str);

struct Bench<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    network: &'a Network,
    systems: Vec<System>,
    results: Results,
    output: Option<PathBuf>,
    begun: Instant,
    progress: Progress<'a>,
}

/// `output` is written after each measurement, so that an interrupted bench keeps what it has. A
/// failed measurement is a result, not an error.
pub fn run(
    plan: &Plan,
    setup: &Setup,
    network: &Network,
    output: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Results> {
    let mut bench = Bench {
        plan,
        setup,
        network,
        systems: Vec::new(),
        results: empty(plan, setup, network),
        output: output.map(Path::to_owned),
        begun: Instant::now(),
        progress,
    };
    bench.measure_links()?;
    bench.set_up()?;
    for turn in plan.turns() {
        bench.take_turn(&turn)?;
    }
    Ok(bench.results)
}

pub fn check(plan: &Plan, setup: &Setup) -> Result<()> {
    synod_local_cluster::find_program("sysbench", "sysbench")?;
    for system in &plan.systems {
        configuration::check(system.kind, setup)?;
        if !plan.write_to.is_possible(*system) {
            return Err(LabError::BadArgument {
                name: "--write-to",
                value: plan.write_to.to_string(),
                reason: format!("of {system}, only the first server takes writes: use 'leader'"),
            });
        }
    }
    let servers = plan.topologies[0].servers;
    match plan.topologies.iter().find(|t| t.servers != servers) {
        None => Ok(()),
        Some(other) => Err(LabError::BadArgument {
            name: "--topology",
            value: other.name.clone(),
            reason: "all topologies of a bench have equally many servers".into(),
        }),
    }
}

fn empty(plan: &Plan, setup: &Setup, network: &Network) -> Results {
    let has_mysql = plan.systems.iter().any(|system| system.kind.is_mysql());
    Results {
        format: FORMAT,
        command: plan.command.clone(),
        date: machine::date(),
        machine: machine::machine(Some(network.place().data())),
        versions: machine::versions(has_mysql.then(|| mysqld(&setup.mysql))),
        plan: PlanRecord {
            seconds: plan.seconds,
            warm_up_seconds: plan.warm_up_seconds,
            repetitions: plan.repetitions,
            servers: u32::try_from(network.hosts().servers.len()).unwrap_or(u32::MAX),
            tables: plan.sizes.tables,
            table_rows: plan.sizes.table_rows,
        },
        topologies: Vec::new(),
        measurements: Vec::new(),
    }
}

impl Bench<'_> {
    fn measure_links(&mut self) -> Result<()> {
        for topology in &self.plan.topologies {
            self.network.set(topology)?;
            let measured: BTreeMap<_, _> = self.network.measure(topology)?;
            self.results.topologies.push(topology.record(&measured));
        }
        Ok(())
    }

    fn set_up(&mut self) -> Result<()> {
        self.network.clear()?;
        for measured in &self.plan.systems {
            self.say(&format!("setting up {measured}"));
            let mut system = System::create(*measured, self.setup, self.network.hosts())?;
            system.up()?;
            if let [workload] = self.plan.workloads.as_slice() {
                self.prepare(&system, *workload)?;
            }
            if let Some(version) = system.status_value(0, "wsrep_provider_version") {
                let version = version.trim().to_owned();
                self.results.versions.insert(measured.to_string(), version);
            }
            system.down()?;
            self.systems.push(system);
        }
        Ok(())
    }

    /// One turn: a system runs, with each number of clients.
    fn take_turn(&mut self, turn: &Turn<'_>) -> Result<()> {
        let Some(at) = self
            .systems
            .iter()
            .position(|s| s.measured() == turn.system)
        else {
            return Ok(());
        };
        let mut system = self.systems.remove(at);
        let taken = self.take_turn_of(&mut system, turn);
        self.systems.insert(at, system);
        taken
    }

    fn take_turn_of(&mut self, system: &mut System, turn: &Turn<'_>) -> Result<()> {
        self.network.clear()?;
        system.up()?;
        if self.plan.workloads.len() > 1 {
            self.prepare(system, turn.workload)?; // the tables are those of another load
        }
        let script = self.script(turn.workload)?;
        self.network.set(turn.topology)?;
        for threads in &self.plan.threads {
            let begun_s = self.begun.elapsed().as_secs_f64();
            let (network, plan) = (self.network, self.plan);
            let measured = turn::measure(system, network, turn, plan, &script, *threads, begun_s)
                .and_then(|measured| self.check(system, &script).map(|()| measured));
            let mut measurement = measured.unwrap_or_else(|error| Measurement {
                failure: Some(error.to_string()),
                ..Measurement::default()
            });
            measurement.key = Key {
                system: turn.system.to_string(),
                topology: turn.topology.name.clone(),
                workload: turn.workload.to_string(),
                write_to: self.plan.write_to.to_string(),
                threads: *threads,
            };
            measurement.repetition = turn.repetition;
            measurement.begun_s = begun_s;
            (self.progress)(&line(&measurement));
            self.results.measurements.push(measurement);
            if let Some(path) = &self.output {
                write(path, &self.results)?;
            }
        }
        self.network.clear()?;
        system.down()
    }

    fn prepare(&self, system: &System, workload: Workload) -> Result<()> {
        system.empty_database()?;
        let target = turn::target(system, self.network, 0);
        sysbench::prepare(&self.script(workload)?, target)
    }

    /// Fails a measurement after which the load finds an update missing on the first server.
    fn check(&self, system: &System, script: &Script) -> Result<()> {
        if !script.checks {
            return Ok(());
        }
        sysbench::check(script, turn::target(system, self.network, 0))
    }

    fn script(&self, workload: Workload) -> Result<Script> {
        workload.script(&self.plan.sizes, self.network.place().data())
    }

    fn say(&self, text: &str) {
        (self.progress)(text);
    }
}

fn line(m: &Measurement) -> String {
    let key = &m.key;
    let what = format!(
        "{:<14} {:<12} {:<16} {:>3} clients, round {}: ",
        key.system, key.topology, key.workload, key.threads, m.repetition
    );
    if let Some(failure) = &m.failure {
        return format!("{what}FAILED: {failure}");
    }
    let (p50, p99) = (m.latency.p50_ms, m.latency.p99_ms);
    let mut line = format!("{what}{:>7.0} tps, p50 {p50:.1} ms, p99 {p99:.1} ms", m.tps);
    if m.disturbance.is_marked() {
        let ms = m.disturbance.longest_lost_ms;
        line += &format!(" (a core stood still for {ms:.0} ms)");
    }
    line
}

pub fn write(path: &Path, results: &Results) -> Result<()> {
    let new = path.with_extension("json.new");
    let text = serde_json::to_string_pretty(results).map_err(std::io::Error::from);
    let text = text.context("write", path)? + "\n";
    fs::write(&new, text).context("write", &new)?;
    fs::rename(&new, path).context("replace", path)
}

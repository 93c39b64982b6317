//! Tables of a run of the bench.

use super::Section;
use super::figure;
use super::table::Table;
use crate::results::{Key, Machine, Measurement, Results, TopologyRecord};
use crate::statistics::{coefficient_of_variation, median, ratio_of_runs, spread};

/// The system that the others are compared with.
const OURS: &str = "synod";

/// The sections of a run: what was run, then one section per network, workload and place written
/// to.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let mut sections = vec![overview(results)];
    let mut scenes: Vec<Scene<'_>> = Vec::new();
    for (key, runs) in results.by_key() {
        let point = Point { key, runs };
        match scenes.iter_mut().find(|scene| scene.holds(key)) {
            Some(scene) => scene.points.push(point),
            None => scenes.push(Scene {
                points: vec![point],
            }),
        }
    }
    sections.extend(scenes.iter().map(Scene::section));
    sections
}

fn overview(results: &Results) -> Section {
    let plan = &results.plan;
    let mut notes = vec![
        format!("{}, by: {}", results.date, results.command),
        machine(&results.machine),
        versions(&results.versions),
        format!(
            "{} s each after {} s of warm-up, {} repetitions with the systems in turn; {} servers, \
             {} tables of {} rows; replication in clear but of systems named '-tls'. A figure \
             is the median of its repetitions, with the smallest and the greatest behind it.",
            plan.seconds,
            plan.warm_up_seconds,
            plan.repetitions,
            plan.servers,
            plan.tables,
            plan.table_rows,
        ),
    ];
    let marked = results
        .measurements
        .iter()
        .filter(|m| m.disturbance.is_marked());
    let count = marked.count();
    if count > 0 {
        notes.push(format!(
            "In {count} of {} measurements a core of the machine stood still for {} or longer; \
             their figures carry an asterisk.",
            results.measurements.len(),
            figure::time(crate::results::Disturbance::MARKED_FROM_MS)
        ));
    }
    let mut tables = vec![networks(&results.topologies)];
    let failures = failures(&results.measurements);
    if !failures.rows.is_empty() {
        tables.push(failures);
    }
    Section {
        title: format!("Bench of {}", results.date),
        notes,
        tables,
    }
}

pub(super) fn machine(machine: &Machine) -> String {
    let sync = match machine.fsync_us {
        0 => String::new(),
        us => format!("; a sync to disk takes {us} us"),
    };
    format!(
        "Machine: {} cores of {}, {} of memory, {}{sync}",
        machine.cores,
        machine.processor,
        figure::mebibytes(machine.memory_bytes),
        machine.kernel
    )
}

pub(super) fn versions(versions: &std::collections::BTreeMap<String, String>) -> String {
    let texts: Vec<String> = versions
        .iter()
        .map(|(name, v)| format!("{name} {v}"))
        .collect();
    format!("Versions: {}", texts.join(", "))
}

fn networks(topologies: &[TopologyRecord]) -> Table {
    let columns = ["network", "link", "round trip, set", "measured"];
    let mut table = Table::new("The emulated networks", &columns);
    for topology in topologies {
        for link in &topology.links {
            table.rows.push(vec![
                topology.name.clone(),
                format!("{} - {}", link.from, link.to),
                figure::time(link.round_trip_ms),
                link.measured_round_trip_ms
                    .map_or("-".to_owned(), figure::time),
            ]);
        }
    }
    table
}

fn failures(measurements: &[Measurement]) -> Table {
    let columns = [
        "system",
        "network",
        "workload",
        "threads",
        "repetition",
        "why",
    ];
    let mut table = Table::new("Measurements that failed and do not count", &columns);
    for measurement in measurements {
        if let Some(why) = &measurement.failure {
            let key = &measurement.key;
            table.rows.push(vec![
                key.system.clone(),
                key.topology.clone(),
                key.workload.clone(),
                key.threads.to_string(),
                measurement.repetition.to_string(),
                why.clone(),
            ]);
        }
    }
    table
}

struct Point<'a> {
    key: &'a Key,
    runs: Vec<&'a Measurement>,
}

/// Points measured with one network, workload and place written to.
struct Scene<'a> {
    points: Vec<Point<'a>>,
}

type Figure = fn(&Measurement) -> Option<f64>;

impl Point<'_> {
    fn values(&self, of: Figure) -> Vec<f64> {
        self.runs.iter().filter_map(|run| of(run)).collect()
    }

    fn median(&self, of: Figure) -> Option<f64> {
        median(&self.values(of))
    }

    /// The median with its spread; an asterisk if the machine disturbed a run.
    fn cell(&self, of: Figure) -> String {
        let values = self.values(of);
        let (Some(median), Some((low, high))) = (median(&values), spread(&values)) else {
            return "-".to_owned();
        };
        let is_marked = self.runs.iter().any(|run| run.disturbance.is_marked());
        let mark = if is_marked { "*" } else { "" };
        figure::with_spread(median, low, high, values.len()) + mark
    }

    fn by_repetition(&self) -> Vec<(u32, f64)> {
        self.runs
            .iter()
            .map(|run| (run.repetition, run.tps))
            .collect()
    }

    fn name(&self) -> String {
        format!("{}, {}", self.key.system, threads(self.key.threads))
    }
}

impl Scene<'_> {
    fn holds(&self, key: &Key) -> bool {
        self.points.first().is_some_and(|point| {
            point.key.topology == key.topology
                && point.key.workload == key.workload
                && point.key.write_to == key.write_to
        })
    }

    fn section(&self) -> Section {
        let key = self.points[0].key;
        let place = match key.write_to.as_str() {
            "all" => "all servers written to".to_owned(),
            place => format!("the {place} written to"),
        };
        let mut tables = vec![self.rates()];
        let ratios = self.ratios();
        if !ratios.rows.is_empty() {
            tables.push(ratios);
        }
        tables.push(self.latencies());
        tables.push(self.costs());
        if key.write_to == "all" {
            tables.push(self.by_server());
        }
        Section {
            title: format!("{}, {}, {place}", key.topology, key.workload),
            notes: Vec::new(),
            tables,
        }
    }

    fn systems(&self) -> Vec<&str> {
        let mut systems = Vec::new();
        for point in &self.points {
            if !systems.contains(&point.key.system.as_str()) {
                systems.push(point.key.system.as_str());
            }
        }
        systems
    }

    fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.points.iter().map(|p| p.key.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    fn point(&self, system: &str, threads: u32) -> Option<&Point<'_>> {
        let is_it = |p: &&Point<'_>| p.key.system == system && p.key.threads == threads;
        self.points.iter().find(is_it)
    }

    /// A table with a row per system and a column per number of threads.
    fn by_threads(
        &self,
        caption: &str,
        rows: &[&str],
        cell: impl Fn(&str, u32) -> String,
    ) -> Table {
        let columns: Vec<String> = self.threads().into_iter().map(threads).collect();
        let mut names = vec!["system"];
        names.extend(columns.iter().map(String::as_str));
        let mut table = Table::new(caption, &names);
        for row in rows {
            let cells = self.threads().into_iter().map(|threads| cell(row, threads));
            table
                .rows
                .push([(*row).to_owned()].into_iter().chain(cells).collect());
        }
        table
    }

    fn rates(&self) -> Table {
        let caption = "Transactions per second";
        self.by_threads(caption, &self.systems(), |system, threads| {
            let point = self.point(system, threads);
            point.map_or("-".to_owned(), |point| point.cell(|m| Some(m.tps)))
        })
    }

    fn others(&self) -> Vec<&str> {
        let systems = self.systems();
        if !systems.contains(&OURS) {
            return Vec::new();
        }
        systems.into_iter().filter(|name| *name != OURS).collect()
    }

    fn ratio(&self, other: &str, threads: u32) -> Option<crate::statistics::Ratio> {
        let ours = self.point(OURS, threads)?.by_repetition();
        ratio_of_runs(&ours, &self.point(other, threads)?.by_repetition())
    }

    fn ratios(&self) -> Table {
        let caption = "Rate of Synod as a multiple of the other system's, from runs in turn";
        self.by_threads(caption, &self.others(), |other, threads| {
            let ratio = self.ratio(other, threads);
            ratio.map_or("-".to_owned(), |r| {
                figure::with_spread(r.median, r.low, r.high, r.pairs)
            })
        })
    }

    fn latencies(&self) -> Table {
        let columns = [
            "system",
            "mean",
            "p50",
            "p95",
            "p99",
            "longest",
            "variation",
            "refused/s",
            "applied",
        ];
        let mut table = Table::new(
            "Latency of transactions, ms; coefficient of variation of the rate by second; time \
             from the load's end until all servers had applied it, ms",
            &columns,
        );
        for point in &self.points {
            let median = |of: Figure| figure::optional(point.median(of));
            table.rows.push(vec![
                point.name(),
                median(|m| Some(m.latency.mean_ms)),
                median(|m| Some(m.latency.p50_ms)),
                median(|m| Some(m.latency.p95_ms)),
                median(|m| Some(m.latency.p99_ms)),
                median(|m| Some(m.latency.max_ms)),
                median(|m| coefficient_of_variation(&m.tps_by_second)),
                median(refused_per_second),
                median(|m| m.applied_after_ms),
            ]);
        }
        table
    }

    fn costs(&self) -> Table {
        let columns = [
            "system",
            "user CPU, ms",
            "system CPU, ms",
            "switches",
            "network, bytes",
            "disk, bytes",
            "disk flushes",
            "log syncs",
            "database syncs",
        ];
        let mut table = Table::new(
            "What one transaction costs on all servers together",
            &columns,
        );
        for point in &self.points {
            let median = |of: Figure| figure::optional(point.median(of));
            table.rows.push(vec![
                point.name(),
                median(|m| each(m, m.servers.iter().map(|s| s.cpu_user_s * 1e3).sum())),
                median(|m| each(m, m.servers.iter().map(|s| s.cpu_system_s * 1e3).sum())),
                median(|m| {
                    each(
                        m,
                        m.servers.iter().map(|s| float(s.voluntary_switches)).sum(),
                    )
                }),
                median(|m| each(m, m.network.pairs.iter().map(|p| float(p.bytes)).sum())),
                median(|m| each(m, float(m.disk_written_bytes))),
                median(|m| each(m, float(m.disk_flushes))),
                median(|m| each(m, sum_of(m.servers.iter().map(|s| s.log_fsyncs))?)),
                median(|m| each(m, sum_of(m.servers.iter().map(|s| s.database_fsyncs))?)),
            ]);
        }
        table
    }

    fn by_server(&self) -> Table {
        let columns = ["system", "server", "transactions/s", "refused/s", "p95, ms"];
        let mut table = Table::new("Each server, medians", &columns);
        for point in &self.points {
            let hosts = point.runs.first().map(|run| run.loads.iter());
            for (at, load) in hosts.into_iter().flatten().enumerate() {
                let loads: Vec<_> = point.runs.iter().filter_map(|m| m.loads.get(at)).collect();
                let of = |figure: fn(&crate::results::Load) -> f64| {
                    let values: Vec<f64> = loads.iter().map(|load| figure(load)).collect();
                    figure::optional(median(&values))
                };
                table.rows.push(vec![
                    point.name(),
                    load.host.clone(),
                    of(|load| load.tps),
                    of(|load| {
                        load.errors_by_second.iter().sum::<f64>()
                            / float(load.errors_by_second.len().max(1) as u64)
                    }),
                    of(|load| load.latency.p95_ms),
                ]);
            }
        }
        table
    }
}

fn threads(count: u32) -> String {
    match count {
        1 => "1 thread".to_owned(),
        count => format!("{count} threads"),
    }
}

#[allow(clippy::cast_precision_loss)] // counts of a run are below 2^52
fn float(count: u64) -> f64 {
    count as f64
}

/// A sum, divided by the measurement's transactions; none if there were none.
fn each(measurement: &Measurement, sum: f64) -> Option<f64> {
    (measurement.transactions > 0).then(|| sum / float(measurement.transactions))
}

/// The sum of counts; none if one of them is not known.
fn sum_of(mut counts: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    counts.try_fold(0.0, |sum, count| Some(sum + float(count?)))
}

#[allow(clippy::unnecessary_wraps)] // one of several figures, of which some may be missing
fn refused_per_second(measurement: &Measurement) -> Option<f64> {
    let errors: u64 = measurement.loads.iter().map(|load| load.errors).sum();
    let seconds = measurement.tps_by_second.len().max(1);
    Some(float(errors) / float(seconds as u64))
}

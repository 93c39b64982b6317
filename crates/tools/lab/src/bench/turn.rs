//! One measurement: warms up, puts the load on, and reads all meters before and after.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::plan::{Plan, Turn};
use super::sysbench::{self, Running, Script, Target};
use super::usage::{MachineUse, ProcessUse};
use super::{latency, usage};
use crate::error::{IoContext, LabError, Result};
use crate::network::Network;
use crate::results::{Disturbance, Latency, Load, Measurement, NetworkUse, PairUse, ServerUse};
use crate::router::control::Counters;
use crate::systems::{DATABASE, System};

/// Written when a load has ended, and awaited on all servers.
const MARKER: &str = "lab_marker";
const APPLY_TIMEOUT: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(2);

const DATABASE_FSYNCS: &str = "Innodb_data_fsyncs";
/// The status variable that counts the syncs of the replication log; only Synod has it.
const LOG_FSYNCS: &str = "wsrep_synod_log_syncs";

struct Reading {
    servers: Vec<ServerReading>,
    router: ProcessUse,
    counters: Counters,
    machine: MachineUse,
    own: ProcessUse,
}

struct ServerReading {
    process: ProcessUse,
    database_fsyncs: Option<u64>,
    log_fsyncs: Option<u64>,
}

pub(super) fn target<'a>(system: &System, network: &'a Network, server: usize) -> Target<'a> {
    let (address, port) = system.address(server);
    Target {
        client: &network.hosts().clients[server],
        address,
        port,
    }
}

/// An error if a client met one that no conflict gives.
pub(super) fn measure(
    system: &System,
    network: &Network,
    turn: &Turn<'_>,
    plan: &Plan,
    script: &Script,
    threads: u32,
    begun_s: f64,
) -> Result<Measurement> {
    let servers = if system.kind().replicates() {
        plan.write_to.servers(turn.topology)
    } else {
        vec![0]
    };
    let load = |seconds: u32| {
        let start = |server: &usize| {
            let host = &system.hosts()[*server];
            let time = Duration::from_secs(seconds.into());
            let target = target(system, network, *server);
            sysbench::start(script, target, host, threads, time)
        };
        servers.iter().map(start).collect::<Result<Vec<Running>>>()
    };
    let marker = format!(
        "CREATE TABLE IF NOT EXISTS {DATABASE}.{MARKER} (server INT PRIMARY KEY, load_of DOUBLE)"
    );
    system.query(0, &marker)?;
    if plan.warm_up_seconds > 0 {
        finish(load(plan.warm_up_seconds)?)?;
    }
    network.router().read()?; // the longest stall is counted from here on
    let before = read(system, network)?;
    let running = load(plan.seconds)?;
    let clients: Vec<u32> = running.iter().filter_map(Running::pid).collect();
    let clients = ClientUse::watch(clients);
    let loads = finish(running)?;
    let clients_s = clients.end();
    let after = read(system, network)?;
    let applied_after_ms = await_applied(system, &servers, begun_s)?;
    let mut measurement = of_loads(loads);
    measurement.applied_after_ms = applied_after_ms;
    measurement.servers = servers_between(system, &before, &after);
    measurement.network = network_between(&before, &after);
    measurement.disturbance = disturbance_between(&before, &after, clients_s);
    measurement.disk_written_bytes =
        after.machine.disk_written_bytes - before.machine.disk_written_bytes;
    measurement.disk_flushes = after.machine.disk_flushes - before.machine.disk_flushes;
    Ok(measurement)
}

/// Time from the end of a load until each server shows what those that were written to committed
/// last: the same for every system. None: there is one server.
/// `load_of` is another number for each load.
fn await_applied(system: &System, written_to: &[usize], load_of: f64) -> Result<Option<f64>> {
    let count = system.hosts().len();
    if count == 1 {
        return Ok(None);
    }
    let begin = Instant::now();
    let table = format!("{DATABASE}.{MARKER}");
    for server in written_to {
        let mark = format!("REPLACE INTO {table} VALUES ({server}, {load_of})");
        system.query(*server, &mark)?;
    }
    let all = written_to.len().to_string();
    let sql = format!("SELECT COUNT(*) FROM {table} WHERE load_of = {load_of}");
    for server in 0..count {
        while system.query(server, &sql)?.concat() != [all.as_str()] {
            if begin.elapsed() > APPLY_TIMEOUT {
                return Err(LabError::Timeout {
                    what: format!("{} to apply the load", system.hosts()[server].name),
                    seconds: APPLY_TIMEOUT.as_secs(),
                    now: "it lacks the last transaction".into(),
                });
            }
            sleep(LOOK_EVERY);
        }
    }
    Ok(Some(begin.elapsed().as_secs_f64() * 1000.0))
}

fn finish(running: Vec<Running>) -> Result<Vec<Load>> {
    running.into_iter().map(Running::finish).collect()
}

fn read(system: &System, network: &Network) -> Result<Reading> {
    let servers = (0..system.hosts().len()).map(|server| read_server(system, server));
    let process = |pid: u32| i32::try_from(pid).unwrap_or_default();
    Ok(Reading {
        servers: servers.collect::<Result<_>>()?,
        router: ProcessUse::read(process(network.router().pid())).context("read", "the router")?,
        counters: network.router().read()?,
        machine: MachineUse::read(),
        own: ProcessUse::read(process(std::process::id())).context("read", "/proc/self")?,
    })
}

fn read_server(system: &System, server: usize) -> Result<ServerReading> {
    let name = &system.hosts()[server].name;
    let pid = system.pid(server).ok_or_else(|| LabError::Timeout {
        what: format!("the server on {name} to run"),
        seconds: 0,
        now: "it has ended; its error log is in the lab's directory".into(),
    })?;
    let process = ProcessUse::read(pid).context("read", format!("/proc/{pid}"))?;
    let number = |variable| system.status_value(server, variable)?.parse().ok();
    Ok(ServerReading {
        process,
        database_fsyncs: number(DATABASE_FSYNCS),
        log_fsyncs: number(LOG_FSYNCS),
    })
}

fn of_loads(loads: Vec<Load>) -> Measurement {
    let histogram = latency::merge(loads.iter().map(|load| load.histogram.as_slice()));
    let transactions: u64 = loads.iter().map(|load| load.transactions).sum();
    let weighed = |load: &Load| load.latency.mean_ms * load.transactions as f64;
    let sum_ms: f64 = loads.iter().map(weighed).sum();
    let seconds = loads.iter().map(|load| load.tps_by_second.len()).max();
    let of_second = |second: usize| {
        let rates = loads
            .iter()
            .filter_map(|load| load.tps_by_second.get(second));
        rates.sum()
    };
    Measurement {
        tps: loads.iter().map(|load| load.tps).sum(),
        tps_by_second: (0..seconds.unwrap_or_default()).map(of_second).collect(),
        transactions,
        latency: Latency {
            mean_ms: sum_ms / transactions.max(1) as f64,
            max_ms: loads.iter().map(|l| l.latency.max_ms).fold(0.0, f64::max),
            ..latency::percentiles(&histogram)
        },
        loads,
        ..Measurement::default()
    }
}

fn servers_between(system: &System, before: &Reading, after: &Reading) -> Vec<ServerUse> {
    let pairs = before.servers.iter().zip(&after.servers).enumerate();
    pairs
        .map(|(server, (before, after))| {
            let (old, new) = (&before.process, &after.process);
            ServerUse {
                host: system.hosts()[server].name.clone(),
                role: system.role(server),
                cpu_user_s: new.user_s - old.user_s,
                cpu_system_s: new.system_s - old.system_s,
                database_fsyncs: grown(before.database_fsyncs, after.database_fsyncs),
                log_fsyncs: grown(before.log_fsyncs, after.log_fsyncs),
                // Of threads that have ended meanwhile, nothing is known.
                voluntary_switches: new
                    .voluntary_switches
                    .saturating_sub(old.voluntary_switches),
                involuntary_switches: new
                    .involuntary_switches
                    .saturating_sub(old.involuntary_switches),
                resident_bytes: new.resident_bytes,
            }
        })
        .collect()
}

/// Growth of a counter, if the server reports it.
fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    let (before, after) = before.zip(after)?;
    Some(after.saturating_sub(before))
}

fn network_between(before: &Reading, after: &Reading) -> NetworkUse {
    let mut network = NetworkUse {
        router_cpu_s: after.router.processor_s() - before.router.processor_s(),
        ..NetworkUse::default()
    };
    let links = before.counters.links.iter().zip(&after.counters.links);
    for ((name, old), (_, new)) in links {
        network.late_packets += new.late - old.late;
        network.dropped_packets += new.dropped - old.dropped;
        if new.packets > old.packets {
            network.pairs.push(PairUse {
                from: name.from.clone(),
                to: name.to.clone(),
                packets: new.packets - old.packets,
                bytes: new.bytes - old.bytes,
            });
        }
    }
    network
}

fn disturbance_between(before: &Reading, after: &Reading, clients_s: f64) -> Disturbance {
    let servers = before.servers.iter().zip(&after.servers);
    let used = |(old, new): (&ServerReading, &ServerReading)| {
        new.process.processor_s() - old.process.processor_s()
    };
    let lab_s = servers.map(used).sum::<f64>()
        + (after.router.processor_s() - before.router.processor_s())
        + (after.own.processor_s() - before.own.processor_s())
        + clients_s;
    let busy_s = after.machine.busy_s - before.machine.busy_s;
    let (old, new) = (&before.counters.stalls, &after.counters.stalls);
    Disturbance {
        longest_lost_ms: new.longest_us as f64 / 1000.0,
        lost_ms: (new.lost_us - old.lost_us) as f64 / 1000.0,
        stolen_s: after.machine.stolen_s - before.machine.stolen_s,
        others_cpu_s: (busy_s - lab_s).max(0.0),
    }
}

/// Processor time of the clients, which can be read only while they run.
struct ClientUse {
    thread: std::thread::JoinHandle<f64>,
}

impl ClientUse {
    fn watch(pids: Vec<u32>) -> ClientUse {
        let thread = std::thread::spawn(move || {
            let mut used = vec![0.0; pids.len()];
            loop {
                let mut are_all_gone = true;
                for (pid, used) in pids.iter().zip(&mut used) {
                    let pid = i32::try_from(*pid).unwrap_or_default();
                    if let Ok(now) = usage::ProcessUse::read(pid) {
                        are_all_gone = false;
                        *used = now.processor_s().max(*used);
                    }
                }
                if are_all_gone {
                    return used.iter().sum();
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        ClientUse { thread }
    }

    fn end(self) -> f64 {
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Bucket;

    fn load(tps: f64, by_second: &[f64], mean_ms: f64) -> Load {
        let bucket = Bucket {
            ms: mean_ms,
            count: 10,
        };
        Load {
            tps,
            tps_by_second: by_second.to_vec(),
            transactions: 10,
            latency: Latency {
                mean_ms,
                max_ms: mean_ms,
                ..Latency::default()
            },
            histogram: vec![bucket],
            ..Load::default()
        }
    }

    #[test]
    fn loads_on_several_servers_are_one_measurement() {
        let loads = vec![load(100.0, &[90.0, 110.0], 2.0), load(50.0, &[50.0], 4.0)];
        let together = of_loads(loads);
        assert_eq!((together.tps, together.transactions), (150.0, 20));
        assert_eq!(together.tps_by_second, [140.0, 110.0]);
        let latency = &together.latency;
        assert_eq!((latency.mean_ms, latency.max_ms), (3.0, 4.0));
        assert_eq!((latency.p50_ms, latency.p99_ms), (2.0, 4.0));
    }
}

//! The results of one run of the bench, as its JSON file holds them.
//!
//! The bench writes them, the report reads them. The file holds what was observed, one record per
//! measurement, and nothing that follows from it: medians, ratios and figures per transaction are
//! calculated from it by the report.
//!
//! A measurement is one load of one system: [`Key`] says which, and [`Measurement::repetition`]
//! says the how-many-th time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the file's format: changes when a reader of the old one would misunderstand.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`] of the program that wrote the file.
    pub format: u32,
    pub command: String,
    pub date: String,
    pub machine: Machine,
    /// Version of each program and library, by name (`synod`, `mariadbd`, `galera`, `sysbench`).
    pub versions: BTreeMap<String, String>,
    pub plan: Plan,
    pub topologies: Vec<TopologyRecord>,
    pub measurements: Vec<Measurement>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Time of one `fdatasync` after a write of 4 KiB where the databases lie, microseconds; the
    /// median of some. 0: it could not be measured.
    pub fsync_us: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub seconds: u32,
    pub warm_up_seconds: u32,
    pub repetitions: u32,
    /// Database servers of each system that replicates.
    pub servers: u32,
    pub tables: u32,
    pub table_rows: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopologyRecord {
    pub name: String,
    /// The hosts of database servers (`db1`, `db2`, ...). A client host stands beside each.
    pub hosts: Vec<String>,
    pub links: Vec<LinkRecord>,
    pub client_round_trip_ms: f64,
}

/// The link between two hosts, the same in both directions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub from: String,
    pub to: String,
    pub round_trip_ms: f64,
    /// Round trip that was measured when nothing else ran, milliseconds: the median of some. None:
    /// it was not measured.
    pub measured_round_trip_ms: Option<f64>,
}

/// Names what was measured. Measurements with equal keys are repetitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// `synod`, `galera`, `galera-flush1`, `semisync`, `async`, `standalone`.
    pub system: String,
    pub topology: String,
    /// `oltp_write_only`, `hot-rows`, ...
    pub workload: String,
    /// Servers written to: `leader`, `follower`, `far` or `all`.
    pub write_to: String,
    pub threads: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub key: Key,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Start of the measured time: seconds since the run began.
    pub begun_s: f64,
    /// Reason for the failure. All below is incomplete then, and must not be counted.
    pub failure: Option<String>,
    pub tps: f64,
    pub tps_by_second: Vec<f64>,
    pub transactions: u64,
    pub latency: Latency,
    /// Time from the end of the load until all servers showed its last transaction, milliseconds.
    /// None: there is one server, or it was not measured.
    #[serde(default)]
    pub applied_after_ms: Option<f64>,
    /// The loads, one per server that was written to.
    pub loads: Vec<Load>,
    /// Resources that the servers used in the measured time, one record per server.
    pub servers: Vec<ServerUse>,
    /// Traffic on the network in the measured time.
    pub network: NetworkUse,
    /// Flush requests that the disks completed in the measured time, for other programs, too.
    #[serde(default)]
    pub disk_flushes: u64,
    /// Bytes that the disks wrote in the measured time, for other programs, too.
    #[serde(default)]
    pub disk_written_bytes: u64,
    pub disturbance: Disturbance,
}

/// Latencies of transactions, milliseconds. Percentiles are those of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Its host: `db1`.
    pub host: String,
    pub tps: f64,
    pub tps_by_second: Vec<f64>,
    pub transactions: u64,
    /// Transactions that the server refused and the client repeated (deadlocks, conflicts).
    pub errors: u64,
    pub errors_by_second: Vec<f64>,
    pub reconnects: u64,
    pub latency: Latency,
    pub histogram: Vec<Bucket>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub ms: f64,
    pub count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// Its host: `db1`.
    pub host: String,
    /// `leader`, `follower`, `primary`, `replica` or `alone`; as observed after the measurement.
    pub role: String,
    /// Processor time in the server's own code, seconds of one core.
    pub cpu_user_s: f64,
    /// Processor time in the kernel for it, seconds of one core.
    pub cpu_system_s: f64,
    /// Syncs of the database's files (`Innodb_data_fsyncs`). None: the server does not tell.
    pub database_fsyncs: Option<u64>,
    /// Syncs of the replication log. None: the system has none, or does not tell.
    pub log_fsyncs: Option<u64>,
    /// Number of waits of its threads (voluntary context switches).
    pub voluntary_switches: u64,
    /// Number of times that the kernel took the processor from its threads.
    pub involuntary_switches: u64,
    /// Resident memory at the end, bytes.
    pub resident_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Traffic by ordered pair of hosts. Pairs that carried nothing are left out.
    pub pairs: Vec<PairUse>,
    pub router_cpu_s: f64,
    /// Packets that left late by more than 0.1 ms, because the router did not get the processor.
    pub late_packets: u64,
    /// Packets dropped, because a limited link was full or cut.
    pub dropped_packets: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PairUse {
    pub from: String,
    pub to: String,
    pub packets: u64,
    /// Bytes, headers of IP included.
    pub bytes: u64,
}

/// Disturbances of a measurement by the machine: a virtual machine's cores can stand still.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The longest time that a core did not run though it should have, milliseconds.
    pub longest_lost_ms: f64,
    /// The sum of such times above 20 ms, all cores, milliseconds.
    pub lost_ms: f64,
    /// Processor time that the host of the virtual machine took away, seconds of one core.
    pub stolen_s: f64,
    /// Processor time of programs that do not belong to the lab, seconds of one core.
    pub others_cpu_s: f64,
}

impl Disturbance {
    /// Threshold from which a measurement is marked, milliseconds: elections may follow from it.
    pub const MARKED_FROM_MS: f64 = 200.0;

    /// Whether a core stood still for so long that the measurement should be marked.
    pub fn is_marked(&self) -> bool {
        self.longest_lost_ms >= Disturbance::MARKED_FROM_MS
    }
}

impl Results {
    /// The measurements that can be counted, by key, in the order in which keys first appear.
    pub fn by_key(&self) -> Vec<(&Key, Vec<&Measurement>)> {
        let mut groups: Vec<(&Key, Vec<&Measurement>)> = Vec::new();
        for measurement in self.measurements.iter().filter(|m| m.failure.is_none()) {
            match groups.iter_mut().find(|(key, _)| *key == &measurement.key) {
                Some((_, group)) => group.push(measurement),
                None => groups.push((&measurement.key, vec![measurement])),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(system: &str, repetition: u32) -> Measurement {
        Measurement {
            key: Key {
                system: system.to_owned(),
                ..Key::default()
            },
            repetition,
            ..Measurement::default()
        }
    }

    fn results(measurements: Vec<Measurement>) -> Results {
        Results {
            format: FORMAT,
            command: "synod-lab bench".to_owned(),
            date: "2026-11-22T23:45:00Z".to_owned(),
            machine: Machine::default(),
            versions: BTreeMap::new(),
            plan: Plan::default(),
            topologies: Vec::new(),
            measurements,
        }
    }

    #[test]
    fn file_says_what_was_written_to_it() {
        let mut written = results(vec![measurement("synod", 1)]);
        written.measurements[0].tps_by_second = vec![1.5, 2.0];
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), written);
    }

    #[test]
    fn repetitions_are_found_by_key_whatever_was_between_them() {
        let mut failed = measurement("synod", 3);
        failed.failure = Some("the server ended".to_owned());
        let all = vec![
            measurement("synod", 1),
            measurement("galera", 1),
            measurement("synod", 2),
            failed,
        ];
        let results = results(all);
        let groups = results.by_key();
        let sizes: Vec<(&str, usize)> = groups
            .iter()
            .map(|(key, group)| (key.system.as_str(), group.len()))
            .collect();
        assert_eq!(sizes, [("synod", 2), ("galera", 1)]);
    }

    #[test]
    fn core_that_stood_still_marks_a_measurement() {
        let mut disturbance = Disturbance::default();
        assert!(!disturbance.is_marked());
        disturbance.longest_lost_ms = 1_480.0;
        assert!(disturbance.is_marked());
    }
}

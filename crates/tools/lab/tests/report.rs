//! The report of made-up results: every system, place and figure is in it, and the page is whole.

use std::collections::BTreeMap;

use synod_lab::meters::MeterRecord;
use synod_lab::meters::record::{
    DelayFindings, DelayPhase, FORMAT, Findings, GiantFindings, GiantServer, LagFindings, LoadOn,
    Pace,
};
use synod_lab::report::{Report, markdown};
use synod_lab::results::{
    Disturbance, Key, Latency, LinkRecord, Load, Machine, Measurement, NetworkUse, PairUse, Plan,
    Results, ServerUse, TopologyRecord,
};
use synod_lab::statistics::Distribution;

const SYSTEMS: [&str; 3] = ["synod", "galera", "semisync"];
const THREADS: [u32; 3] = [1, 16, 64];

/// A rate that says what it belongs to.
fn tps(system: &str, threads: u32, repetition: u32) -> f64 {
    let base = match system {
        "synod" => 1200.0,
        "galera" => 1000.0,
        _ => 800.0,
    };
    base + f64::from(threads) * 10.0 + f64::from(repetition)
}

fn measurement(system: &str, write_to: &str, threads: u32, repetition: u32) -> Measurement {
    let tps = tps(system, threads, repetition);
    let wave = |second: u32| tps * (1.0 + 0.1 * f64::from(second).sin());
    let latency = Latency {
        mean_ms: 1000.0 * f64::from(threads) / tps,
        p50_ms: 900.0 * f64::from(threads) / tps,
        p95_ms: 2000.0 * f64::from(threads) / tps,
        p99_ms: 3000.0 * f64::from(threads) / tps,
        max_ms: 9000.0 * f64::from(threads) / tps,
    };
    let load = |host: &str| Load {
        host: host.into(),
        tps: tps / 2.0,
        errors: 30,
        errors_by_second: vec![1.0; 30],
        latency: latency.clone(),
        ..Load::default()
    };
    let server = |host: &str| ServerUse {
        host: host.into(),
        cpu_user_s: 10.0,
        cpu_system_s: 4.0,
        database_fsyncs: Some(30),
        log_fsyncs: (system == "synod").then_some(9000),
        voluntary_switches: 100_000,
        ..ServerUse::default()
    };
    Measurement {
        key: Key {
            system: system.into(),
            topology: "three-dc".into(),
            workload: "oltp_write_only".into(),
            write_to: write_to.into(),
            threads,
        },
        repetition,
        tps,
        tps_by_second: (0..30).map(wave).collect(),
        transactions: 36_000,
        latency: latency.clone(),
        loads: vec![load("db1"), load("db2")],
        servers: vec![server("db1"), server("db2"), server("db3")],
        network: NetworkUse {
            pairs: vec![PairUse {
                from: "db1".into(),
                to: "db2".into(),
                packets: 1000,
                bytes: 36_000_000,
            }],
            ..NetworkUse::default()
        },
        ..Measurement::default()
    }
}

fn results() -> Results {
    let mut measurements = Vec::new();
    for write_to in ["leader", "all"] {
        for repetition in 1..=3 {
            for threads in THREADS {
                for system in SYSTEMS {
                    measurements.push(measurement(system, write_to, threads, repetition));
                }
            }
        }
    }
    measurements[0].disturbance = Disturbance {
        longest_lost_ms: 1480.0,
        ..Disturbance::default()
    };
    measurements.push(Measurement {
        failure: Some("the server <db3> ended".into()),
        ..measurement("async", "leader", 1, 1)
    });
    Results {
        format: 1,
        command: "synod-lab bench --topology three-dc".into(),
        date: "2026-11-22T23:45:00Z".into(),
        machine: machine(),
        versions: BTreeMap::from([("mariadbd".to_owned(), "10.11.19".to_owned())]),
        plan: Plan {
            seconds: 30,
            warm_up_seconds: 5,
            repetitions: 3,
            servers: 3,
            tables: 4,
            table_rows: 100_000,
        },
        topologies: vec![TopologyRecord {
            name: "three-dc".into(),
            hosts: vec!["db1".into(), "db2".into()],
            links: vec![LinkRecord {
                from: "db1".into(),
                to: "db2".into(),
                round_trip_ms: 1.0,
                measured_round_trip_ms: Some(1.02),
            }],
            client_round_trip_ms: 0.1,
        }],
        measurements,
    }
}

fn machine() -> Machine {
    Machine {
        processor: "Example".into(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1".into(),
        fsync_us: 120,
    }
}

fn record(system: &str, findings: Findings) -> MeterRecord {
    MeterRecord {
        format: FORMAT,
        command: format!("synod-lab {} --system {system}", findings.meter()),
        date: "2026-11-22T23:45:00Z".into(),
        machine: machine(),
        versions: BTreeMap::new(),
        system: system.into(),
        topology: "same-dc".into(),
        servers: vec!["db1".into(), "db2".into()],
        busy_before: 2.5,
        findings,
    }
}

fn distribution(ms: f64) -> Distribution {
    Distribution::of(&[ms, ms * 2.0, ms * 3.0])
}

fn delay() -> Findings {
    let phase = |load_on, sync_wait| DelayPhase {
        load_on,
        sync_wait,
        samples: 1000,
        stale: if sync_wait { 0 } else { 715 },
        never: 0,
        delay: distribution(0.6),
        stale_delay: distribution(0.8),
        read: distribution(0.2),
        write: distribution(1.2),
        load_tps: 1234.0,
    };
    Findings::Delay(DelayFindings {
        writer: "db1".into(),
        reader: "db2".into(),
        load_clients: 16,
        phases: vec![
            phase(LoadOn::Nothing, false),
            phase(LoadOn::Nothing, true),
            phase(LoadOn::Reader, false),
        ],
    })
}

fn giant() -> Findings {
    Findings::Giant(vec![GiantFindings {
        rows: 1_000_000,
        origin: "db1".into(),
        rate: 200.0,
        seconds: 29.6,
        refused: Some("ERROR 1213: its snapshot is older".into()),
        elections: Some(0),
        servers: vec![GiantServer {
            server: "db1".into(),
            commits: 6000,
            longest_wait_ms: 1300.0,
            late: distribution(28_400.0),
            peak_bytes: Some(1 << 30),
            errors: BTreeMap::from([("1205 lock wait timeout".to_owned(), 3)]),
            ..GiantServer::default()
        }],
        ..GiantFindings::default()
    }])
}

fn lag() -> Findings {
    let pace = |tps: f64| Pace {
        tps,
        tps_by_second: vec![tps; 20],
        errors: BTreeMap::new(),
    };
    Findings::Lag(Box::new(LagFindings {
        slow_server: "db3".into(),
        slowed_by: "10 % of a core, by cgroup v1".into(),
        before: pace(1000.0),
        slowed: pace(950.0),
        after: pace(1000.0),
        most_behind: 12_345,
        fewest_members: 3,
        caught_up_under_load_ms: Some(4200.0),
        ..LagFindings::default()
    }))
}

fn report() -> Report {
    let findings = [delay(), giant(), lag()];
    let both =
        |findings: Findings| ["synod", "galera"].map(|system| record(system, findings.clone()));
    Report {
        benches: vec![results()],
        meters: findings.into_iter().flat_map(both).collect(),
    }
}

#[test]
fn tables_hold_medians_ratios_and_what_disturbed() {
    let text = markdown(&report());
    for expected in [
        // The median of 1211, 1212, 1213; one of them was disturbed.
        "| synod | 1212 (1211–1213)* |",
        "| galera | 1012 (1011–1013) |",
        // 1211/1011, 1212/1012, 1213/1013.
        "| galera | 1.20 (1.20–1.20) |",
        "| async | three-dc | oltp_write_only | 1 | 1 | the server <db3> ended |",
        "### three-dc, oltp_write_only, the leader written to",
        "### three-dc, oltp_write_only, all servers written to",
        "a core of the machine stood still for 200 ms or longer",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    // A failed measurement does not count: its system has no line among the rates.
    assert!(!text.contains("\n| async | 1"), "{text}");
}

#[test]
fn tables_hold_what_meters_found() {
    let text = markdown(&report());
    for expected in [
        "| synod, same-dc | nothing | 0 | 1000 | 71.5 % | 0 | 1.20 |",
        "| 1000000 | 200/s | 29.6 s | 0 | 1300 ms | 85.2 s | ERROR 1213: its snapshot is older |",
        "3 x 1205 lock wait timeout",
        "| 1000 | 950 | 1000 | 0.950 | 0 | 12345 | 3 | 4200 ms under load |",
        "The machine was busy with other things: a load of 2.50 per core",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn report_of_nothing_is_empty() {
    assert_eq!(markdown(&Report::default()), "");
}

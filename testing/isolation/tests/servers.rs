//! Every workload on real servers, for some seconds each; faults; and controls, which must fail
//! where they are known to: so that the checker sees real anomalies.
//!
//! `make isolation` runs these. They share ports, so one runs at a time.

use std::path::Path;

use clap::Parser;
use synod_e2e::{Outcome, ensure};
use synod_isolation::checker::anomaly::Kind;
use synod_isolation::run::{Options, Report, run};
use synod_isolation::workload::Workload;

/// Debian's package `galera-4`.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

/// For transactions that read after a write: with several writers the server may lose that write,
/// with every library (docs/operating/client-errors.md).
const ONE_WRITER: &str = " --one-writer";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn report(words: &str) -> Outcome<Report> {
    let words = std::iter::once("isolation").chain(words.split(' '));
    let report = run(&Arguments::parse_from(words).options)?;
    eprint!("{report}");
    Ok(report)
}

fn expect_good(words: &str) -> Outcome<Report> {
    let report = report(words)?;
    ensure(report.is_good(), || format!("'{words}' breaks its promise"))?;
    Ok(report)
}

fn name(workload: Workload) -> String {
    use clap::ValueEnum;
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[test]
#[ignore = "real servers: make isolation"]
fn no_workload_breaks_its_promise_without_faults() -> Outcome {
    for workload in Workload::ALL {
        let words = format!("--workload {} --seconds 10", name(workload));
        expect_good(&match workload {
            Workload::Append | Workload::Mav | Workload::Repeatable => words + ONE_WRITER,
            _ => words,
        })?;
    }
    expect_good("--workload session --seconds 10 --causal").map(drop)
}

#[test]
#[ignore = "real servers: make isolation"]
fn servers_that_die_break_no_promise() -> Outcome {
    expect_good("--workload append --seconds 40 --faults kill --causal --one-writer")?;
    expect_good("--workload predicate --seconds 40 --faults kill,stop,restart,leader").map(drop)
}

/// Fragments are refused all the time here, and the next client writes the rows of their
/// transactions. A rollback that is ordered after that leaves rolled back writes on some servers,
/// and lets appliers wait for each other.
#[test]
#[ignore = "real servers: make isolation"]
fn streamed_transactions_that_roll_back_leave_nothing() -> Outcome {
    for seed in 5..8 {
        expect_good(&format!(
            "--workload append --seconds 15 --streamed --seed {seed}"
        ))?;
    }
    expect_good("--workload append --seconds 30 --streamed --faults kill --seed 26").map(drop)
}

#[test]
#[ignore = "real servers: make isolation"]
fn reads_elsewhere_without_the_wait_are_seen_stale() -> Outcome {
    let report = expect_good("--workload session --seconds 10")?;
    ensure(report.count(Kind::StaleRead) > 0, || {
        "no stale read".to_owned()
    })
}

/// A server that is cut off answers reads for as long as it is allowed to, and no longer.
#[test]
#[ignore = "real servers: make isolation"]
fn reads_with_a_bound_are_not_seen_beyond_it() -> Outcome {
    let faults = "--workload session --seconds 30 --faults cut,half-cut,stop,leader --seed 3";
    expect_good(&format!("{faults} --max-staleness 50"))?;
    let wider = "--max-staleness 1 --provider-options synod.max_staleness=2";
    let report = report(&format!("{faults} {wider}"))?;
    ensure(report.count(Kind::StaleRead) > 0, || {
        "servers that may be older were not seen older".to_owned()
    })
}

#[test]
#[ignore = "real servers: make isolation"]
fn servers_without_snapshot_isolation_are_seen_to_lose_updates() -> Outcome {
    let report = report("--workload append --seconds 15 --no-snapshot-isolation")?;
    ensure(report.count(Kind::LostUpdate) > 0, || {
        "no lost update".to_owned()
    })
}

/// Its servers do not flush either, and there is no log beside them.
#[test]
#[ignore = "real servers: make isolation"]
fn galera_without_a_flush_is_seen_to_lose_writes() -> Outcome {
    if !Path::new(GALERA).exists() {
        eprintln!("no {GALERA}: the control is left out");
        return Ok(());
    }
    let words = "--workload append --seconds 30 --faults kill-all --provider";
    let report = report(&format!("{words} {GALERA}"))?;
    ensure(report.count(Kind::LostWrite) > 0, || {
        "no lost write".to_owned()
    })
}

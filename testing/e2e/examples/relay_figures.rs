//! Measures the costs and savings of a relay of an upstream: `synod-lab readers` at a stock primary
//! and one relay of it, then at another primary with three relays. The figures, as Markdown, go to
//! standard output. `docs/performance.md` explains them.
//!
//! ```text
//! cargo run --release -p synod-e2e --example relay_figures
//! ```
//!
//! `SYNOD_BENCH_SECONDS` is the time of each measurement (default 8: five to six minutes in all),
//! `SYNOD_BENCH_LATE_MIB` what late readers have to read in rows of 1 MiB (default 512),
//! `SYNOD_BENCH_LATE_READERS` how many of them read at a time (default 8).
//! `SYNOD_BENCH_RELAYS` measures with that number of relays only, and `SYNOD_BENCH_RATES` at these
//! numbers of transactions per second (default `1000,5000`).

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use synod_e2e::relay::USER;
use synod_e2e::relay_group::{KeepingRelay, RelayGroup};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Failure, Outcome, Why, ensure, exit_code, place};

const PORT: u16 = 18706;
const RELAYS_PORT: u16 = 18720;
/// A primary with the defaults of MariaDB, and what a relay needs.
const OPTIONS: [&str; 5] = [
    "--server-id=1",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
    "--innodb-buffer-pool-size=1G",
];
const RATES: &str = "1000,5000";
const READERS: &str = "1,20";

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Outcome {
    let counts = match place::number("SYNOD_BENCH_RELAYS", 0) {
        0 => vec![1, 3],
        count => vec![u16::try_from(count).why("SYNOD_BENCH_RELAYS")?],
    };
    for count in counts {
        let dir = place::cluster_dir(&format!("relay-figures-{count}"))?;
        let measured = measure(count, &dir);
        let removed = std::fs::remove_dir_all(&dir).why(dir.display());
        println!("{}\n", measured?);
        removed?;
    }
    Ok(())
}

/// Starts a primary with so many relays, and measures; gives the tables.
fn measure(count: u16, dir: &Path) -> Outcome<String> {
    eprintln!("a primary and relays of it: {count}");
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, dir, RELAYS_PORT, count)?;
    group.begin()?;
    let puller = group.await_puller()?;
    // Of several, one that does not pull: its readers get a row one message later.
    let place = (0..group.relays.len()).rev().find(|place| *place != puller);
    let (role, relay) = match place {
        Some(place) => ("one that does not pull", &group.relays[place]),
        None => ("the one that pulls", &group.relays[puller]),
    };
    let tables = lab(&primary, relay, dir).map_err(|error| {
        let says = group.says();
        Failure(format!("{error}\n{says}\nprimary:\n{}", primary.log()))
    })?;
    Ok(format!(
        "Relays: {count}. Readers read from {role}.\n\n{tables}"
    ))
}

fn lab(primary: &StockServer, relay: &KeepingRelay, dir: &Path) -> Outcome<String> {
    let server_pid = primary.process().unwrap_or_default();
    let password = dir.join("relay1/upstream.password");
    let seconds = place::number("SYNOD_BENCH_SECONDS", 8);
    let late_mib = place::number("SYNOD_BENCH_LATE_MIB", 512);
    let late_readers = place::number("SYNOD_BENCH_LATE_READERS", 8);
    let rates = std::env::var("SYNOD_BENCH_RATES").unwrap_or_else(|_| RATES.to_owned());
    let mut lab = Command::new(place::lab()?);
    lab.args(["readers", "--rates", &rates, "--readers", READERS])
        .arg(format!("--server=127.0.0.1:{}", primary.port))
        .arg(format!("--relay=127.0.0.1:{}", relay.port))
        .arg(format!("--reader={}", USER))
        .arg(format!("--reader-password-file={}", password.display()))
        .arg(format!("--server-pid={server_pid}"))
        .arg(format!("--relay-pid={}", relay.pid()?))
        .arg(format!("--seconds={seconds}"))
        .arg(format!("--late-mib={late_mib}"))
        .arg(format!("--late-readers={late_readers}"))
        .stderr(Stdio::inherit());
    let made = lab.output().why("synod-lab readers")?;
    ensure(made.status.success(), || {
        "synod-lab readers has failed".to_owned()
    })?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

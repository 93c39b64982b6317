//! Runs sysbench, and reads what it prints.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use synod_local_cluster::find_program;

use super::latency;
use crate::error::{IoContext, LabError, Result};
use crate::hosts::Host;
use crate::results::{Bucket, Latency, Load};
use crate::systems::{DATABASE, PASSWORD, USER};
use crate::tools;
use crate::workload::TOLERATED_ERRORS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Name of a load that sysbench has, or a file.
    pub script: OsString,
    pub options: Vec<String>,
    /// Whether it can check afterwards that no update was lost.
    pub checks: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) client: &'a Host,
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

pub(super) fn prepare(script: &Script, target: Target<'_>) -> Result<()> {
    let mut command = command(script, target)?;
    tools::output_of(command.arg("prepare")).map(|_| ())
}

pub(super) fn check(script: &Script, target: Target<'_>) -> Result<()> {
    let mut command = command(script, target)?;
    tools::output_of(command.arg("check")).map(|_| ())
}

/// A load that runs; killed when dropped before its end.
#[derive(Debug)]
pub(super) struct Running {
    host: String,
    process: Option<Child>,
}

pub(super) fn start(
    script: &Script,
    target: Target<'_>,
    server: &Host,
    threads: u32,
    time: Duration,
) -> Result<Running> {
    let mut command = command(script, target)?;
    command
        .arg(format!("--threads={threads}"))
        .arg(format!("--time={}", time.as_secs()))
        .args(["--report-interval=1", "--histogram=on", "run"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let process = command.spawn().context("start", command.get_program())?;
    Ok(Running {
        host: server.name.clone(),
        process: Some(process),
    })
}

impl Running {
    /// Its process id: the command that enters the host becomes sysbench.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Waits for its end. An error if a client met one that no conflict gives.
    pub(super) fn finish(mut self) -> Result<Load> {
        let Some(process) = self.process.take() else {
            return Ok(Load::default());
        };
        let output = process.wait_with_output().context("wait for", "sysbench")?;
        let mut load = parse(&text_of(&output)?)?;
        load.host = std::mem::take(&mut self.host);
        Ok(load)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill(); // it may have ended by itself
            let _ = process.wait();
        }
    }
}

fn command(script: &Script, target: Target<'_>) -> Result<Command> {
    let program: PathBuf = find_program("sysbench", "sysbench")?;
    let mut command = target.client.command(&program);
    command
        .arg(Path::new(&script.script))
        .args(["--db-driver=mysql", "--mysql-ssl=off"])
        .arg(format!("--mysql-host={}", target.address))
        .arg(format!("--mysql-port={}", target.port))
        .arg(format!("--mysql-user={USER}"))
        .arg(format!("--mysql-password={PASSWORD}"))
        .arg(format!("--mysql-db={DATABASE}"))
        .arg(format!("--mysql-ignore-errors={TOLERATED_ERRORS}"))
        .args(&script.options);
    Ok(command)
}

fn text_of(output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && !text.contains("FATAL") {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut fatal = text.lines().filter(|line| line.contains("FATAL"));
    let said = fatal.next().unwrap_or(&errors).trim();
    Err(LabError::Failed {
        command: "sysbench ... run".into(),
        status: output.status.to_string(),
        said: tools::end_of(said).to_owned(),
    })
}

fn parse(text: &str) -> Result<Load> {
    let missing = |missing| LabError::NotUnderstood {
        program: "sysbench",
        missing,
        text: tools::end_of(text).to_owned(),
    };
    let summary = |name: &'static str| summary(text, name).ok_or_else(|| missing(name));
    let (transactions, tps) = summary("transactions:")?;
    let (errors, _) = summary("ignored errors:")?;
    let (reconnects, _) = summary("reconnects:")?;
    let histogram = histogram(text);
    let time = |name: &str| value_after(text, name).unwrap_or_default();
    let latency = Latency {
        mean_ms: time("avg:"),
        max_ms: time("max:"),
        ..latency::percentiles(&histogram)
    };
    Ok(Load {
        host: String::new(),
        tps,
        tps_by_second: by_second(text, "tps:"),
        transactions,
        errors,
        errors_by_second: by_second(text, "err/s:"),
        reconnects,
        latency,
        histogram,
    })
}

/// The count and the rate of `transactions:  613    (20.41 per sec.)`.
fn summary(text: &str, name: &str) -> Option<(u64, f64)> {
    let rest = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name))?;
    let (count, rate) = rest.split_once('(')?;
    let rate = rate.split_whitespace().next()?.parse().ok()?;
    Some((count.trim().parse().ok()?, rate))
}

/// The value behind a name, one for each `[ 7s ] thds: 8 tps: 561.70 ...`.
fn by_second(text: &str, name: &str) -> Vec<f64> {
    let reports = text.lines().filter(|line| line.starts_with("[ "));
    reports.filter_map(|line| value_after(line, name)).collect()
}

/// The number after the first place of a name.
fn value_after(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The lines `1.044 |*****      17` of the histogram.
fn histogram(text: &str) -> Vec<Bucket> {
    let bucket = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        let ms = value.trim().parse().ok()?;
        let count = rest.split_whitespace().last()?.parse().ok()?;
        Some(Bucket { ms, count })
    };
    text.lines().filter_map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
[ 1s ] thds: 8 tps: 561.70 qps: 3407.08 (r/w/o: 0.00/2270.72/1136.36) lat (ms,95%): 23.95 \
err/s: 0.99 reconn/s: 0.00
[ 2s ] thds: 8 tps: 600.00 qps: 3600.00 (r/w/o: 0.00/2400.00/1200.00) lat (ms,95%): 21.00 \
err/s: 2.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.000 |****************                         90
      10.000 |*                                        8
     100.000 |                                         2

SQL statistics:
    queries performed:
        read:                            0
    transactions:                        1163   (581.50 per sec.)
    queries:                             6978   (3489.00 per sec.)
    ignored errors:                      3      (1.50 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0016s
    total number of events:              1163

Latency (ms):
         min:                                    1.00
         avg:                                   13.75
         max:                                  100.25
         95th percentile:                       23.52
         sum:                                15991.35
";

    #[test]
    fn report_is_read() {
        let load = parse(REPORT).unwrap();
        assert_eq!((load.transactions, load.tps), (1163, 581.5));
        assert_eq!(load.tps_by_second, [561.7, 600.0]);
        assert_eq!(
            (load.errors, &load.errors_by_second[..]),
            (3, &[0.99, 2.0][..])
        );
        assert_eq!((load.latency.mean_ms, load.latency.max_ms), (13.75, 100.25));
        assert_eq!((load.latency.p50_ms, load.latency.p99_ms), (1.0, 100.0));
    }

    #[test]
    fn report_without_a_rate_is_refused_with_its_text() {
        let error = parse("nothing of use").unwrap_err().to_string();
        assert!(
            error.contains("transactions:") && error.contains("nothing of use"),
            "{error}"
        );
    }
}

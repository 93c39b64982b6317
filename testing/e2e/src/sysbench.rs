//! The standard load: sysbench with 4 tables of 10 000 rows and 8 clients on each node, on all
//! nodes at the same time.
//!
//! Only errors that a conflict may give are tolerated.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::harness::{PASSWORD, TestCluster, USER};

/// Errors that a conflict may give: deadlock, changed since read, lock wait.
const TOLERATED: &str = "1213,1020,1205";

/// Drops and fills the tables, on node 1.
pub fn prepare(cluster: &TestCluster) -> Outcome {
    cluster.execute(1, "DROP DATABASE IF EXISTS sbtest")?;
    cluster.execute(1, "CREATE DATABASE sbtest")?;
    let output = command(cluster, 1, "oltp_read_write")
        .arg("prepare")
        .output();
    check(
        "prepare",
        &output.why("starting sysbench (package sysbench)")?,
    )
    .map(|_| ())
}

/// A running load; killed when dropped before its end.
#[derive(Debug)]
pub struct Load {
    runs: Vec<(u8, Child)>,
}

impl Load {
    /// Starts `script` on these nodes for `time`.
    pub fn start(
        cluster: &TestCluster,
        script: &str,
        nodes: &[u8],
        time: Duration,
    ) -> Outcome<Load> {
        let mut load = Load { runs: Vec::new() };
        for node in nodes {
            let mut command = command(cluster, *node, script);
            command
                .arg("--threads=8")
                .arg(format!("--time={}", time.as_secs()))
                .arg("run");
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            load.runs.push((
                *node,
                command
                    .spawn()
                    .why("starting sysbench (package sysbench)")?,
            ));
        }
        Ok(load)
    }

    /// Waits for its end (sysbench itself bounds it); gives transactions per second by node.
    ///
    /// # Errors
    /// When a client met an error that is not tolerated, or nothing was committed.
    pub fn finish(mut self) -> Outcome<Vec<f64>> {
        let mut rates = Vec::new();
        for (node, run) in std::mem::take(&mut self.runs) {
            let output = run.wait_with_output().why("waiting for sysbench")?;
            let text = check(&format!("node{node}"), &output)?;
            let rate = rate(&text).ok_or_else(|| Failure(format!("no rate in:\n{text}")))?;
            ensure(rate > 0.0, || {
                format!("sysbench on node{node} committed nothing:\n{text}")
            })?;
            rates.push(rate);
        }
        Ok(rates)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for (_, run) in &mut self.runs {
            let _ = run.kill(); // it may have ended by itself
            let _ = run.wait();
        }
    }
}

fn command(cluster: &TestCluster, node: u8, script: &str) -> Command {
    let mut command = Command::new("sysbench");
    command
        .arg(script)
        .args([
            "--db-driver=mysql",
            "--mysql-host=127.0.0.1",
            "--mysql-db=sbtest",
        ])
        .arg(format!("--mysql-port={}", cluster.port(node)))
        .arg(format!("--mysql-user={USER}"))
        .arg(format!("--mysql-password={PASSWORD}"))
        .arg(format!("--mysql-ignore-errors={TOLERATED}"))
        .args(["--tables=4", "--table-size=10000"])
        .stdin(Stdio::null());
    command
}

fn check(what: &str, output: &Output) -> Outcome<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success() && !text.contains("FATAL"), || {
        format!(
            "sysbench {what} failed ({}):\n{text}{errors}",
            output.status
        )
    })?;
    Ok(text)
}

/// The number in `transactions: 1234 (20.56 per sec.)`.
fn rate(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("transactions:"))?;
    line.split('(')
        .nth(1)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rate_is_read_from_the_summary() {
        let text = "SQL statistics:\n    transactions:         613    (20.41 per sec.)\n";
        assert_eq!(super::rate(text), Some(20.41));
        assert_eq!(super::rate("nothing"), None);
    }
}

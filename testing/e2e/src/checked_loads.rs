//! The lab's load whose result can be checked, hot rows, on all nodes at the same time.
//!
//! sysbench runs the lab's scripts. Only errors that a conflict may give are tolerated; at the end
//! the script's own check must pass on every node.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use synod_lab::workload::{Script, TOLERATED_ERRORS};

use crate::agreement;
use crate::failure::{Outcome, Why, ensure};
use crate::harness::{PASSWORD, TestCluster, USER};

/// Database of these loads.
const DATABASE: &str = "checked_load";

/// Fills the script's tables, runs it with 4 clients on each node for `time`, and checks.
/// `options` are the script's own.
///
/// # Errors
/// With what sysbench printed; or when nodes hold different rows.
pub fn run(cluster: &TestCluster, script: Script, options: &[&str], time: Duration) -> Outcome {
    cluster.execute(1, &format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
    cluster.execute(1, &format!("CREATE DATABASE {DATABASE}"))?;
    let file = script
        .write_to(&cluster.settings().dir)
        .why("writing the script")?;
    let command = |node: u8, step: &str| {
        let mut command = sysbench(&file, cluster.port(node));
        command.args(options).arg(step);
        command
    };
    finish("prepare", start(command(1, "prepare"))?)?;
    let mut runs = Vec::new();
    for node in cluster.nodes() {
        let mut run = command(node, "run");
        run.arg("--threads=4")
            .arg(format!("--time={}", time.as_secs()));
        runs.push(start(run)?);
    }
    for run in runs {
        let text = finish("run", run)?;
        let committed = text.lines().find(|line| line.contains("transactions:"));
        eprintln!(
            "  {}: {}",
            script.name,
            committed.unwrap_or_default().trim()
        );
    }
    let nodes: Vec<u8> = cluster.nodes().collect();
    agreement::check(cluster, &nodes)?;
    for node in nodes {
        finish("check", start(command(node, "check"))?)?;
    }
    Ok(())
}

fn sysbench(script: &Path, port: u16) -> Command {
    let mut command = Command::new("sysbench");
    command
        .arg(script)
        .args(["--db-driver=mysql", "--mysql-host=127.0.0.1"])
        .arg(format!("--mysql-db={DATABASE}"))
        .arg(format!("--mysql-port={port}"))
        .arg(format!("--mysql-user={USER}"))
        .arg(format!("--mysql-password={PASSWORD}"))
        .arg(format!("--mysql-ignore-errors={TOLERATED_ERRORS}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn start(mut command: Command) -> Outcome<Child> {
    command.spawn().why("starting sysbench (package sysbench)")
}

/// Waits for the end of a step that must succeed; gives what it printed.
fn finish(step: &str, child: Child) -> Outcome<String> {
    let output = child.wait_with_output().why("waiting for sysbench")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.success() && !text.contains("FATAL"), || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{step} fails ({}):\n{text}{errors}", output.status)
    })?;
    Ok(text)
}

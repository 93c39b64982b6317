//! TPC-C by go-tpc, where it is installed or Go can install it.
//!
//! Without it, tests print a line and pass: the machine may have no network.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use synod_local_cluster::find_program;

use crate::failure::{Outcome, Why, ensure};
use crate::harness::{PASSWORD, TestCluster, USER};
use crate::place;

/// What Go installs.
const SOURCE: &str = "github.com/pingcap/go-tpc/cmd/go-tpc@latest";

/// The program: in `PATH`, in `target/tools`, or put there by Go. None, with the reason printed,
/// where neither works.
pub fn find() -> Option<PathBuf> {
    if let Ok(path) = find_program("go-tpc", "") {
        return Some(path);
    }
    let tools = place::workspace().join("target/tools");
    let path = tools.join("go-tpc");
    if path.is_file() {
        return Some(path);
    }
    let Ok(go) = find_program("go", "golang-go") else {
        eprintln!("  skipped: neither go-tpc nor Go is installed");
        return None;
    };
    let output = Command::new(go)
        .args(["install", SOURCE])
        .env("GOBIN", &tools)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() && path.is_file() => Some(path),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            eprintln!("  skipped: 'go install {SOURCE}' failed: {}", text.trim());
            None
        }
        Err(error) => {
            eprintln!("  skipped: go: {error}");
            None
        }
    }
}

/// Loads 2 warehouses on `node`, runs the mix for `time`, then go-tpc's own check.
///
/// # Errors
/// With go-tpc's output.
pub fn run(cluster: &TestCluster, go_tpc: &PathBuf, node: u8, time: Duration) -> Outcome {
    cluster.execute(1, "DROP DATABASE IF EXISTS tpcc")?;
    cluster.execute(1, "CREATE DATABASE tpcc")?;
    let time = format!("{}s", time.as_secs());
    for step in [
        vec!["prepare", "--threads", "4"],
        vec!["run", "--threads", "8", "--time", &time, "--ignore-error"],
        vec!["check"],
    ] {
        let output = Command::new(go_tpc)
            .arg("tpcc")
            .args(["--warehouses", "2", "--db", "tpcc", "--host", "127.0.0.1"])
            .args(["--user", USER, "--password", PASSWORD])
            .arg("--port")
            .arg(cluster.port(node).to_string())
            .args(&step)
            .stdin(Stdio::null())
            .output()
            .why("starting go-tpc")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        ensure(output.status.success() && !text.contains("panic"), || {
            format!("go-tpc {} failed ({}):\n{text}", step[0], output.status)
        })?;
    }
    Ok(())
}

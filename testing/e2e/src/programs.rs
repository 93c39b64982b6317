//! Programs that scenarios run to their end.

use std::process::Command;

use crate::failure::{Outcome, Why, ensure};
use crate::harness::TestCluster;
use crate::place;

/// Runs a program that must succeed; gives what it printed. Errors begin with `what`.
///
/// # Errors
/// When it cannot be started, or fails: with what it wrote to standard error.
pub fn output_of(command: &mut Command, what: &str) -> Outcome<Vec<u8>> {
    let made = command.output().why(what)?;
    ensure(made.status.success(), || {
        format!("{what} fails: {}", String::from_utf8_lossy(&made.stderr))
    })?;
    Ok(made.stdout)
}

/// Output of a program, as a text. A failure has its error output.
pub fn printed(command: &mut Command) -> Outcome<String> {
    let made = command.output().why("starting a program")?;
    ensure(made.status.success(), || {
        String::from_utf8_lossy(&made.stderr).into_owned()
    })?;
    Ok(String::from_utf8_lossy(&made.stdout).into_owned())
}

/// Runs commands of a page as an operator would, up to the first that fails; gives what they print.
/// What they say beside that is in the cluster's directory.
pub fn run_commands(cluster: &TestCluster, commands: &[&str]) -> Outcome<String> {
    let log = cluster.settings().dir.join("commands.log");
    let script = format!(
        "set -eu; exec 2>>'{}'; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
        log.display(),
        commands.join("\n")
    );
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", &script]);
    let printed = output_of(&mut shell, "the page's commands");
    if printed.is_err() {
        eprintln!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&printed?).into_owned())
}

/// A new group secret, as a file holds it.
///
/// # Errors
/// When `synod keygen` does not work.
pub fn new_group_secret() -> Outcome<String> {
    let mut keygen = Command::new(place::program()?);
    let printed = output_of(keygen.arg("keygen"), "synod keygen")?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Sends a node's server a signal, as `kill` names it: `-STOP`.
pub fn signal(cluster: &TestCluster, node: u8, name: &str) -> Outcome {
    let pid = cluster.pid(node).map(|pid| pid.to_string());
    let what = format!("kill {name} node{node}");
    let mut kill = Command::new("kill");
    output_of(kill.arg(name).arg(pid.unwrap_or_default()), &what).map(|_| ())
}

/// Hands leadership over to a node.
///
/// # Errors
/// When it does not lead then.
pub fn lead(cluster: &TestCluster, node: u8) -> Outcome {
    let name = format!("node{node}");
    let mut transfer = Command::new(place::program()?);
    transfer.args(["leader", "transfer", &name, "--dir"]);
    transfer.arg(cluster.files(node).data);
    output_of(&mut transfer, &format!("{name} does not lead: synod")).map(|_| ())
}

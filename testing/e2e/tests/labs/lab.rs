//! The lab's emulated network, and what is left of it: nothing, however the lab ends.
//!
//! Only root may make network namespaces.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use synod_e2e::{Failure, Outcome, Why, ensure, place};
use synod_local_cluster::{ServerUser, wait_for};

/// Tolerance below a configured round trip, for the time of devices and the router, milliseconds.
const OWN_ROUND_TRIP_MAX_MS: f64 = 0.08;

/// Time limit for the lab to begin, and to remove itself.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Exit code after Ctrl-C.
pub(crate) const INTERRUPTED: i32 = 130;

/// Labs of one name. What a failed test leaves is removed when this is dropped.
pub(crate) struct Labs {
    name: &'static str,
    program: PathBuf,
}

impl Labs {
    pub(crate) fn find(name: &'static str) -> Outcome<Labs> {
        let user = ServerUser::find().why("finding the user of servers")?;
        ensure(
            user.admin == "root" && Path::new("/dev/net/tun").exists(),
            || "only root can make networks, and needs /dev/net/tun".to_owned(),
        )?;
        let program = place::lab()?;
        Ok(Labs { name, program })
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--name", self.name]).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome<Output> {
        let output = self.command(arguments).stdin(Stdio::null()).output();
        output.why("starting synod")
    }

    /// A lab that holds its network up, once it is up.
    fn hold(&self) -> Outcome<Child> {
        let mut command = self.command(&["network", "--topology", "same-dc", "--hold"]);
        let mut lab = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .why("starting synod")?;
        let stdout = found(lab.stdout.take(), "output of the lab")?;
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let is_up = lines.any(|line| line.contains("until Ctrl-C"));
        ensure(is_up, || "the lab ended before its network was up".into())?;
        Ok(lab)
    }

    /// The namespaces and directories that carry the name.
    fn left(&self) -> Vec<PathBuf> {
        let name = format!("synod-lab-{}", self.name);
        let begins = |entry: &std::fs::DirEntry| {
            let found = entry.file_name().to_string_lossy().into_owned();
            found == name || found.starts_with(&format!("{name}-")) || found == self.name
        };
        let dirs = ["/run/netns", "/run/synod-lab", "/var/tmp"];
        let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok());
        let entries = entries.flatten().flatten().filter(begins);
        entries.map(|entry| entry.path()).collect()
    }

    fn check_nothing_is_left(&self) -> Outcome {
        ensure(self.left().is_empty(), || {
            format!("left behind: {:?}", self.left())
        })
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        let _ = self.run(&["clean"]);
    }
}

pub(crate) fn found<T>(value: Option<T>, what: &str) -> Outcome<T> {
    value.ok_or_else(|| Failure(format!("there is no {what}")))
}

/// Sends a process a signal, as `kill` names it, and waits for its end; gives the exit code.
pub(crate) fn end_by(signal: &str, mut lab: Child) -> Outcome<Option<i32>> {
    let pid = lab.id().to_string();
    Command::new("kill")
        .args([signal, &pid])
        .status()
        .why("kill")?;
    let ended = wait_for(TIMEOUT, || lab.try_wait().ok().flatten());
    Ok(found(ended, "end of the lab")?.code())
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn round_trips_are_not_shorter_than_those_of_the_topology_and_nothing_is_left() -> Outcome {
    let labs = Labs::find("e2eping")?;
    let output = labs.run(&["network", "--topology", "two-region", "--json"])?;
    ensure(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).why("its JSON")?;
    let links = found(record["links"].as_array(), "links")?;
    ensure(links.len() == 3, || format!("{links:?}"))?;
    for link in links {
        let number = |name: &str| found(link[name].as_f64(), name);
        let (set, measured) = (number("round_trip_ms")?, number("measured_round_trip_ms")?);
        ensure(measured >= set - OWN_ROUND_TRIP_MAX_MS, || {
            format!("a packet came too early: {link}")
        })?;
    }
    labs.check_nothing_is_left()
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn interrupted_lab_leaves_nothing() -> Outcome {
    let labs = Labs::find("e2eint")?;
    let code = end_by("-INT", labs.hold()?)?;
    ensure(code == Some(INTERRUPTED), || format!("exit code {code:?}"))?;
    labs.check_nothing_is_left()
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn what_a_killed_lab_left_is_removed_by_the_next_one_of_its_name() -> Outcome {
    let labs = Labs::find("e2ekill")?;
    end_by("-KILL", labs.hold()?)?;
    ensure(!labs.left().is_empty(), || {
        "a killed lab cannot have removed its hosts".into()
    })?;
    let output = labs.run(&["network", "--topology", "same-dc"])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.success() && said.contains("6 hosts"), || said)?;
    labs.check_nothing_is_left()
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn second_lab_of_a_name_is_refused_while_the_first_one_runs() -> Outcome {
    let labs = Labs::find("e2etwo")?;
    let first = labs.hold()?;
    let output = labs.run(&["network"])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.code() == Some(4), || said.clone())?;
    ensure(said.contains("--name"), || said)?;
    ensure(labs.left().len() > 6, || "the first one is gone".into())?;
    end_by("-TERM", first)?;
    labs.check_nothing_is_left()
}

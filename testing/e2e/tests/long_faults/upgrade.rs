//! A rolling upgrade to the next version of the program, back, and forward again, under load.
//!
//! Two libraries: the one under test, and one of the same sources with one more version of the wire
//! and of the log (feature `next-version`). While an operator holds the group's protocol version,
//! each server may be given either. Members of both are killed in between. Once the version is
//! raised, the old library is refused in words. Nothing acknowledged is lost.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 27906;
const ALL: [u8; 3] = [1, 2, 3];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Commits that show that the group serves.
const SOME: u64 = 100;

/// Library that a server loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Old,
    Next,
}

/// A group under load, of servers with either program.
struct Upgrade {
    cluster: TestCluster,
    writers: Writers,
    next: PathBuf,
}

impl Upgrade {
    /// Three servers with the old program.
    fn begin() -> Outcome<Upgrade> {
        let next = place::next_provider()?;
        let cluster = TestCluster::fresh("upgrade", BASE_PORT)?;
        let writers = Writers::start(&cluster, "upgraded", &ALL, 1)?;
        Ok(Upgrade {
            cluster,
            writers,
            next,
        })
    }

    fn serves(&self) -> Outcome {
        self.writers.await_more(SOME, PATIENCE)
    }

    /// Says which library a server loads from its next start on.
    fn give(&mut self, node: u8, program: Program) {
        let own = self.cluster.settings_mut().overrides.entry(node);
        own.or_default().provider = (program == Program::Next).then(|| self.next.clone());
    }

    /// Stops a server in order, and starts it with this program.
    fn swap(&mut self, node: u8, program: Program) -> Outcome {
        let what = format!("node{node} gets the program {program:?}");
        eprintln!("  {what}");
        self.cluster.stop(node).why(&what)?;
        self.give(node, program);
        self.cluster.start(node, &|_, _| ()).why(&what)?;
        self.serves()
    }

    /// Kills a server while the others serve, and starts it again.
    fn kill_and_start(&mut self, node: u8) -> Outcome {
        eprintln!("  node{node} is killed");
        self.cluster.kill(node).why("kill")?;
        self.serves()?;
        self.cluster.start(node, &|_, _| ()).why("starting it")?;
        self.serves()
    }

    /// Kills all servers at once, and starts them again.
    fn kill_all_and_start(&mut self) -> Outcome {
        eprintln!("  all nodes are killed");
        for node in ALL {
            self.cluster.kill(node).why("kill")?;
        }
        self.cluster.up(&|_, _| ()).why("starting all")?;
        self.serves()
    }

    /// Gives all servers this program, one after the other. In between, one of each program is
    /// killed.
    fn roll(&mut self, program: Program) -> Outcome {
        self.swap(3, program)?;
        self.kill_and_start(3)?;
        self.kill_and_start(1)?;
        self.swap(2, program)?;
        self.kill_all_and_start()?;
        self.swap(1, program)
    }

    fn synod(&self, node: u8, arguments: &[&str]) -> Outcome<Output> {
        let dir = self.cluster.files(node).data;
        let mut program = Command::new(place::program()?);
        program.args(arguments).arg("--dir").arg(dir);
        program.output().why("starting synod")
    }

    /// An order that is carried out.
    fn set(&self, node: u8, version: &str) -> Outcome {
        let output = self.synod(node, &["protocol", "set", version])?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure(output.status.success(), || {
            format!("synod protocol set {version}: {errors}")
        })
    }

    /// An order that is refused with these words.
    fn is_refused(&self, node: u8, version: &str, words: &[&str]) -> Outcome {
        let output = self.synod(node, &["protocol", "set", version])?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let says_all = words.iter().all(|words| errors.contains(words));
        ensure(output.status.code() == Some(4) && says_all, || {
            format!("synod protocol set {version}: {}: {errors}", output.status)
        })
    }

    /// Waits until the leader knows that one of three voters is silent. An order that it refuses in
    /// any case says so.
    fn misses_a_voter(&self) -> Outcome {
        let refused = || {
            let output = self.synod(1, &["member", "demote", "node2"]).ok()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            errors
                .contains("the group would stop at once")
                .then_some(())
        };
        wait_for(PATIENCE, refused)
            .ok_or_else(|| Failure("the leader does not miss the server that was stopped".into()))
    }

    fn protocol(&self, node: u8) -> Outcome<Value> {
        let output = self.synod(node, &["protocol", "get", "--json"])?;
        serde_json::from_slice(&output.stdout).why("synod protocol get --json")
    }

    /// The group's version, and the format of the first server's log.
    fn versions_now(&self) -> Outcome<(u64, u64)> {
        let known = || {
            let shown = self.protocol(1).ok()?;
            let log = shown["members"][0]["log_format"].as_u64();
            shown["version"].as_u64().zip(log)
        };
        wait_for(PATIENCE, known).ok_or_else(|| Failure("the versions are not known".into()))
    }

    /// Waits until every server shows the group's version, whether it is held, what can be set, and
    /// the log format of all.
    fn shows(&self, version: u64, is_held: bool, can_be_set: &[u64], log_format: u64) -> Outcome {
        let fits = |shown: &Value| {
            let members = shown["members"].as_array().map_or(&[][..], Vec::as_slice);
            shown["version"] == version
                && shown["is_held"] == is_held
                && shown["can_be_set"] == serde_json::json!(can_be_set)
                && members.len() == ALL.len()
                && members
                    .iter()
                    .all(|member| member["log_format"] == log_format)
        };
        for node in ALL {
            let fits = || self.protocol(node).ok().filter(fits);
            let shown = wait_for(PATIENCE, fits);
            ensure(shown.is_some(), || {
                let last = self.protocol(node);
                format!("node{node} does not show {version}, {can_be_set:?}: {last:?}")
            })?;
        }
        Ok(())
    }

    /// A server that is stopped has this program, and says why it does not take part.
    fn does_not_start(&mut self, node: u8, words: &[&str]) -> Outcome {
        self.give(node, Program::Old);
        self.cluster.spawn(node, false).why("spawning")?;
        let says_all = || {
            let text = self.cluster.log_text(node);
            words.iter().all(|words| text.contains(words)).then_some(())
        };
        let said = wait_for(PATIENCE, says_all);
        ensure(said.is_some(), || {
            let text = self.cluster.log_text(node);
            format!("node{node} does not say {words:?}:\n{text}")
        })?;
        self.cluster.kill(node).why("ending it").map(|_| ())
    }
}

#[test]
fn upgrade_can_be_undone_until_the_version_is_raised() -> Outcome {
    let mut upgrade = Upgrade::begin()?;
    let (old, log) = upgrade.versions_now()?;
    let next = old + 1;
    let (old_text, next_text) = (old.to_string(), next.to_string());

    // Held, forward, back, and forward again.
    upgrade.set(2, &old_text)?;
    upgrade.shows(old, true, &[old], log)?;
    upgrade.is_refused(1, &old_text, &["held"])?;
    upgrade.roll(Program::Next)?;
    upgrade.shows(old, true, &[old, next], log)?;
    upgrade.roll(Program::Old)?;
    upgrade.shows(old, true, &[old], log)?;
    upgrade.is_refused(3, &next_text, &["node1", "do not speak"])?;
    upgrade.roll(Program::Next)?;
    upgrade.shows(old, true, &[old, next], log)?;

    // Raised: not while a server is away, and then for good.
    upgrade.cluster.stop(3).why("stopping node3")?;
    upgrade.misses_a_voter()?;
    upgrade.is_refused(1, &next_text, &["node3", "do not answer", "--yes"])?;
    upgrade.cluster.start(3, &|_, _| ()).why("starting node3")?;
    upgrade.set(1, &next_text)?;
    upgrade.shows(next, true, &[next], log + 1)?;
    upgrade.is_refused(2, &old_text, &["no group goes back"])?;
    upgrade.set(2, "auto")?;
    upgrade.shows(next, false, &[next], log + 1)?;
    upgrade.kill_all_and_start()?;

    // The old program cannot read the log; without a log, it does not speak the version.
    upgrade.cluster.stop(3).why("stopping node3")?;
    let of_log = format!("log format has version {}", log + 1);
    upgrade.does_not_start(3, &[&of_log, "start this server with the program version"])?;
    let of_group = format!("protocol version {next}");
    remove_log(&upgrade.cluster, 3)?;
    upgrade.does_not_start(3, &[&of_group, "speaks version 5"])?;
    upgrade.serves()?;

    // A server that has lost its log, and has the right program, joins.
    upgrade.give(3, Program::Next);
    remove_log(&upgrade.cluster, 3)?;
    upgrade.cluster.start(3, &|_, _| ()).why("starting node3")?;
    upgrade.serves()?;
    upgrade.shows(next, false, &[next], log + 1)?;

    let Upgrade {
        mut cluster,
        writers,
        ..
    } = upgrade;
    let report = writers.finish();
    report.check_rows(&cluster, &ALL)?;
    agreement::check(&cluster, &ALL)?;
    cluster.kill_all().why("ending the cluster")
}

fn remove_log(cluster: &TestCluster, node: u8) -> Outcome {
    let dir = cluster.files(node).data;
    let files = std::fs::read_dir(&dir).why("the data directory")?;
    for file in files {
        let path = file.why("the data directory")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("synod-") && name.ends_with(".log") {
            std::fs::remove_file(&path).why("removing the log")?;
        }
    }
    Ok(())
}

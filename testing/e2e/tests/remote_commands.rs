//! The program `synod` asks and orders over the group's connections, from a place without sockets.

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use synod_e2e::programs::new_group_secret;
use synod_e2e::{Outcome, TestCluster, Why, ensure, place};
use synod_local_cluster::ports::Ports;
use synod_local_cluster::wait_for;

const PATIENCE: Duration = Duration::from_secs(60);
const BASE_PORT: u16 = 27506;
/// More than a server keeps of callers that say nothing.
const SILENT: usize = 70;

/// An operator's machine: a directory with a secret, and no socket of a server.
struct Desk {
    dir: PathBuf,
}

impl Desk {
    fn with_secret(secret: &str) -> Outcome<Desk> {
        let dir = place::cluster_dir("remote-desk")?;
        fs::create_dir_all(&dir).why(dir.display())?;
        write_closed(&dir.join("secret"), secret)?;
        Ok(Desk { dir })
    }

    fn run(&self, node: u8, secret: &str, arguments: &[&str]) -> Outcome<Output> {
        let member = address(node);
        let mut program = Command::new(place::program()?);
        program.current_dir(&self.dir).args(arguments);
        program.args(["--member", &member, "--secret-file", secret]);
        program.output().why("starting synod")
    }

    /// The answer of a command, which must succeed.
    fn ask(&self, node: u8, arguments: &[&str]) -> Outcome<String> {
        let output = self.run(node, "secret", arguments)?;
        ensure(output.status.success(), || {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("synod {arguments:?} failed ({}): {errors}", output.status)
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What a command that must fail with this exit code says.
    fn refused(&self, node: u8, secret: &str, arguments: &[&str], code: i32) -> Outcome<String> {
        let output = self.run(node, secret, arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure(output.status.code() == Some(code), || {
            format!("synod {arguments:?} ends with {}: {errors}", output.status)
        })?;
        Ok(errors)
    }

    fn status(&self, node: u8) -> Outcome<Value> {
        let text = self.ask(node, &["status", "--json"])?;
        serde_json::from_str(&text).why("the status as JSON")
    }

    /// Waits until the status of a node fits.
    fn await_status(&self, node: u8, what: &str, fits: impl Fn(&Value) -> bool) -> Outcome {
        let looked = wait_for(PATIENCE, || self.status(node).ok().filter(|s| fits(s)));
        ensure(looked.is_some(), || {
            format!("{what}; the last status is {:?}", self.status(node))
        })
    }
}

fn address(node: u8) -> String {
    format!("127.0.0.1:{}", Ports::of(BASE_PORT, node).group)
}

fn write_closed(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).why(path.display())?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).why(path.display())
}

fn with_secret(secret: &str) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty("remote", BASE_PORT, 3)?;
    let path = cluster.settings().dir.join("group.secret");
    write_closed(&path, secret)?;
    cluster.user().give(&path).why(path.display())?;
    for node in cluster.nodes() {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!("synod.secret_file={}", path.display()));
    }
    cluster.up(&|_, _| ()).why("starting the servers")?;
    cluster.create_account()?;
    Ok(cluster)
}

fn ensure_says(text: &str, words: &str) -> Outcome {
    ensure(text.contains(words), || format!("no '{words}' in:\n{text}"))
}

fn await_line(cluster: &TestCluster, node: u8, line: &str) -> Outcome {
    let said = wait_for(PATIENCE, || {
        cluster.log_text(node).contains(line).then_some(())
    });
    ensure(said.is_some(), || {
        format!("node{node} does not say '{line}'")
    })
}

#[test]
fn commands_reach_any_server_with_the_secret_and_none_without() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    let secret = new_group_secret()?;
    let mut cluster = with_secret(&secret)?;
    let desk = Desk::with_secret(&secret)?;
    answers_and_orders(&cluster, &desk)?;
    refusals(&cluster, &desk)?;
    silent_callers_are_in_no_ones_way(&cluster, &desk)?;

    for node in 1..=3 {
        cluster.kill(node).why("kill")?;
    }
    cluster.start(1, &|_, _| ()).why("starting one of three")?;
    desk.await_status(1, "it waits for a majority", |status| {
        status["group"]["is_primary"] == false && status["server"]["is_ready"] == false
    })?;
    cluster.up(&|_, _| ()).why("starting all")?;
    desk.await_status(1, "ready", |status| status["server"]["is_ready"] == true)
}

fn answers_and_orders(cluster: &TestCluster, desk: &Desk) -> Outcome {
    for node in cluster.nodes() {
        let status = desk.status(node)?;
        ensure(status["server"]["name"] == format!("node{node}"), || {
            format!("another server answers: {status}")
        })?;
    }
    let list = desk.ask(2, &["member", "list"])?;
    ensure(list.lines().count() == 4, || format!("members:\n{list}"))?;
    let to = cluster.follower();
    let name = format!("node{to}");
    let answer = desk.ask(3, &["leader", "transfer", &name])?;
    ensure_says(&answer, &format!("{name} leads"))?;
    await_line(cluster, 3, "order from synod (user ")?;
    desk.ask(1, &["why", "--topic", "leadership"])?;
    desk.ask(1, &["conflicts"])?;
    let looks = desk.ask(1, &["watch", "--json", "--count", "2"])?;
    ensure(looks.lines().count() == 2, || format!("looks: {looks}"))
}

fn refusals(cluster: &TestCluster, desk: &Desk) -> Outcome {
    write_closed(&desk.dir.join("foreign"), &new_group_secret()?)?;
    let error = desk.refused(1, "foreign", &["status"], 5)?;
    ensure_says(&error, "do not belong to one group")?;
    await_line(cluster, 1, "group secret differs")?;
    let other = ["status", "--cluster", "another"];
    let error = desk.refused(1, "secret", &other, 4)?;
    ensure_says(&error, "the cluster name here is another one")?;
    let error = desk.refused(1, "secret", &["leader", "transfer", "node9"], 4)?;
    ensure_says(&error, "node9")?;
    let error = desk.refused(9, "secret", &["status"], 3)?;
    ensure_says(&error, "cannot connect to member")?;
    desk.refused(1, "missing", &["status"], 1)?;
    Ok(())
}

fn silent_callers_are_in_no_ones_way(cluster: &TestCluster, desk: &Desk) -> Outcome {
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(address(1)).why("a silent caller")?);
    }
    desk.status(1)?;
    desk.ask(1, &["weight", "node2", "50"])?;
    cluster.execute(1, "CREATE DATABASE IF NOT EXISTS e2e_quiet")?;
    // The first of them has made room.
    let first = &mut silent[0];
    first.set_read_timeout(Some(PATIENCE)).why("a limit")?;
    let end = first.read(&mut [0; 16]);
    ensure(matches!(end, Ok(0) | Err(_)), || format!("{end:?}"))
}

#[test]
fn servers_in_clear_take_no_commands_from_other_machines() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
    let mut cluster = TestCluster::empty("remote-clear", BASE_PORT, 1)?;
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    own.provider_options = Some("synod.insecure=yes".to_owned());
    cluster.up(&|_, _| ()).why("starting the server")?;
    let desk = Desk::with_secret(&new_group_secret()?)?;
    for arguments in [&["status"][..], &["leader", "transfer"]] {
        let error = desk.refused(1, "secret", arguments, 5)?;
        ensure_says(&error, "are not encrypted")?;
    }
    Ok(())
}

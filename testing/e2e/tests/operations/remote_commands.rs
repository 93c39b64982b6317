//! The program `synod` asks and orders over the group's connections, from a place without sockets:
//! with the group's secret, or with a certificate of its authority.

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use synod_e2e::programs::new_group_secret;
use synod_e2e::{Outcome, TestCluster, Why, certificates, ensure, ensure_says, place};
use synod_local_cluster::ports::Ports;
use synod_local_cluster::wait_for;

const PATIENCE: Duration = Duration::from_secs(60);
const BASE_PORT: u16 = 27506;
/// More than a server keeps of callers that say nothing.
const SILENT: usize = 70;

/// An operator's machine: a directory with credentials, and no socket of a server.
struct Desk {
    dir: PathBuf,
}

impl Desk {
    fn new() -> Outcome<Desk> {
        let dir = place::cluster_dir("remote-desk")?;
        fs::create_dir_all(&dir).why(dir.display())?;
        Ok(Desk { dir })
    }

    fn with_secret(secret: &str) -> Outcome<Desk> {
        let desk = Desk::new()?;
        write_closed(&desk.dir.join("secret"), secret)?;
        Ok(desk)
    }

    fn run(&self, node: u8, secret: &str, arguments: &[&str]) -> Outcome<Output> {
        self.run_with(node, &["--secret-file", secret], arguments)
    }

    fn run_with(&self, node: u8, credentials: &[&str], arguments: &[&str]) -> Outcome<Output> {
        let member = address(node);
        let mut program = Command::new(place::program()?);
        program.current_dir(&self.dir).args(arguments);
        program.args(["--member", &member]).args(credentials);
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

    /// Output of a command that must fail with this exit code.
    fn refused(&self, node: u8, secret: &str, arguments: &[&str], code: i32) -> Outcome<String> {
        refused(&self.run(node, secret, arguments)?, code)
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

/// Error output; the exit code must be this one.
fn refused(output: &Output, code: i32) -> Outcome<String> {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.code() == Some(code), || {
        format!("synod ends with {}: {errors}", output.status)
    })?;
    Ok(errors)
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

#[test]
fn commands_reach_any_server_with_the_secret_and_none_without() -> Outcome {
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
    cluster.await_line(3, "order from synod (user ")?;
    desk.ask(1, &["why", "--topic", "leadership"])?;
    desk.ask(1, &["conflicts"])?;
    let looks = desk.ask(1, &["watch", "--json", "--count", "2"])?;
    ensure(looks.lines().count() == 2, || format!("looks: {looks}"))
}

fn refusals(cluster: &TestCluster, desk: &Desk) -> Outcome {
    write_closed(&desk.dir.join("foreign"), &new_group_secret()?)?;
    let error = desk.refused(1, "foreign", &["status"], 5)?;
    ensure_says(&error, "do not belong to one group")?;
    cluster.await_line(1, "group secret differs")?;
    let other = ["status", "--cluster", "another"];
    let error = desk.refused(1, "secret", &other, 4)?;
    ensure_says(&error, "is another one. Make them equal")?;
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

/// One server whose group has certificates, which are in the desk's directory `ours`.
fn with_certificates(desk: &Desk) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty("remote-certificates", BASE_PORT, 1)?;
    certificates::make(&desk.dir.join("ours"))?;
    let dir = cluster.settings().dir.join("tls");
    fs::create_dir_all(&dir).why(dir.display())?;
    for file in ["ca.pem", "node1.pem", "node1.key"] {
        fs::copy(desk.dir.join("ours").join(file), dir.join(file)).why(file)?;
        cluster.user().give(&dir.join(file)).why(file)?;
    }
    cluster.user().give(&dir).why(dir.display())?;
    let dir = dir.display();
    let own = cluster.settings_mut().overrides.entry(1).or_default();
    own.provider_options = Some(format!(
        "socket.ssl=yes;socket.ssl_ca={dir}/ca.pem;socket.ssl_cert={dir}/node1.pem;\
         socket.ssl_key={dir}/node1.key"
    ));
    cluster.up(&|_, _| ()).why("starting the server")?;
    Ok(cluster)
}

/// Calls the server with a program that looks at no certificate, not even its own; gives what it
/// says.
fn call_by_openssl(desk: &Desk, credentials: &[&str]) -> Outcome<String> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(&desk.dir);
    openssl.args(["s_client", "-connect", &address(1), "-tls1_3"]);
    // It reads until the server closes the connection.
    openssl.args(["-ign_eof"]).args(credentials);
    let output = openssl.stdin(Stdio::null()).output().why("openssl")?;
    let said = [&output.stdout[..], &output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn certificate<'a>(cert: &'a str, key: &'a str, ca: &'a str) -> [&'a str; 6] {
    ["--cert", cert, "--key", key, "--ca", ca]
}

#[test]
fn commands_reach_a_server_with_a_certificate_of_its_authority_only() -> Outcome {
    let desk = Desk::new()?;
    let cluster = with_certificates(&desk)?;
    let ours = certificate("ours/node2.pem", "ours/node2.key", "ours/ca.pem");
    let output = desk.run_with(1, &ours, &["status"])?;
    let shown = String::from_utf8_lossy(&output.stdout);
    ensure_says(&shown, "1 voter")?;

    certificates::make(&desk.dir.join("other"))?;
    let known = ["ours/ca.pem", "other/ca.pem"].map(|file| fs::read(desk.dir.join(file)));
    let known: Result<Vec<Vec<u8>>, _> = known.into_iter().collect();
    let both = known.why("the authorities")?.concat();
    fs::write(desk.dir.join("both.pem"), both).why("both authorities")?;
    let foreign = certificate("other/node2.pem", "other/node2.key", "both.pem");
    let error = refused(&desk.run_with(1, &foreign, &["status"])?, 5)?;
    ensure_says(&error, "it refuses this program's certificate (--cert)")?;
    cluster.await_line(1, "none of the authorities in socket.ssl_ca has signed it")?;

    certificates::make_expired(&desk.dir.join("ours"), "old")?;
    let old = certificate("ours/old.pem", "ours/old.key", "ours/ca.pem");
    let expired = wait_for(PATIENCE, || {
        let output = desk.run_with(1, &old, &["status"]).ok()?;
        let error = refused(&output, 1).ok()?;
        error.contains("expired at").then_some(())
    });
    ensure(expired.is_some(), || {
        "the program does not look at its own certificate".to_owned()
    })?;
    let said = call_by_openssl(&desk, &["-cert", "ours/old.pem", "-key", "ours/old.key"])?;
    ensure_says(&said, "alert certificate expired")?;
    cluster.await_line(1, "its certificate is refused: it has expired")?;

    let output = desk.run_with(1, &[], &["status"])?;
    ensure_says(&refused(&output, 2)?, "--secret-file <FILE>|--cert <FILE>")?;
    let said = call_by_openssl(&desk, &[])?;
    ensure_says(&said, "alert certificate required")?;
    cluster.await_line(1, "it presents no certificate")
}

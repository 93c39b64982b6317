//! `synod agent` and its packaged unit: how it refuses to start, and its signals.

#[path = "../../../runtime/tls/tests/support/certificates.rs"]
mod certificates;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use certificates::Key;
use rcgen::{CertificateParams, DnType};
use rustix::process::{Pid, Signal};

fn agent(arguments: &[&str]) -> Output {
    let mut synod = Command::new(env!("CARGO_BIN_EXE_synod"));
    synod.arg("agent").args(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn other_machines_need_a_token_and_the_refusal_says_what_to_type() {
    let refused = agent(&["--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(4));
    let text = errors(&refused);
    for part in [
        "openssl rand -hex 32 >",
        "--token-file",
        "--tls-cert",
        "--listen 127.0.0.1:",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = agent(&["--listen", &address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains(&address), "{}", errors(&refused));
}

/// A certificate of this name that signs itself, and its key.
fn issue(dir: &Path, name: &str) {
    let key = Key::new();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.serial_number = Some(1.into());
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).unwrap();
    fs::write(dir.join("agent.pem"), certificate.pem()).unwrap();
    let file = dir.join("agent.key");
    fs::write(&file, key.pem()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn tls_arguments(dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    [
        "--tls-cert",
        &file("agent.pem"),
        "--tls-key",
        &file("agent.key"),
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn files_of_tls_that_do_not_fit_are_named_with_their_arguments() {
    let dir = tempfile::tempdir().unwrap();
    issue(dir.path(), "one");
    let arguments = tls_arguments(dir.path());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refusal = |arguments: &[&str]| {
        let refused = agent(arguments);
        (refused.status.code(), errors(&refused))
    };
    let (code, text) = refusal(&arguments[..2]);
    assert!(code == Some(2) && text.contains("--tls-key"), "{text}");
    let without_key = ["--tls-client-ca", arguments[1]];
    assert_eq!(refusal(&without_key).0, Some(2));

    let key = dir.path().join("agent.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o604)).unwrap();
    let (code, text) = refusal(&arguments);
    assert!(code == Some(4) && text.contains("chmod 600"), "{text}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, Key::new().pem()).unwrap();
    let (code, text) = refusal(&arguments);
    assert_eq!(code, Some(1), "{text}");
    for part in ["--tls-key", "--tls-cert", "does not belong to", "agent.key"] {
        assert!(text.contains(part), "{text}");
    }
    fs::remove_file(&key).unwrap();
    let (code, text) = refusal(&arguments);
    assert!(code == Some(1) && text.contains("cannot read"), "{text}");
}

/// An agent whose lines are read; killed when dropped.
struct Running {
    process: Child,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(arguments: &[String]) -> Running {
        let mut synod = Command::new(env!("CARGO_BIN_EXE_synod"));
        synod.args(["agent", "--listen", "0.0.0.0:0"]);
        Running::of(synod.args(arguments))
    }

    fn of(command: &mut Command) -> Running {
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        Running { process, errors }
    }

    /// The next line of its journal.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn agent_with_tls_warns_that_it_asks_no_client_and_reads_its_files_again_by_order() {
    let dir = tempfile::tempdir().unwrap();
    issue(dir.path(), "one");
    let mut agent = Running::start(&tls_arguments(dir.path()));
    let warning = agent.line();
    assert!(warning.contains("--tls-client-ca"), "{warning}");
    let mut announced = String::new();
    let mut output = BufReader::new(agent.process.stdout.take().unwrap());
    output.read_line(&mut announced).unwrap();
    assert!(announced.contains("listening on https://"), "{announced}");

    issue(dir.path(), "two");
    agent.signal(Signal::HUP);
    let line = agent.line();
    assert!(
        line.contains("new connections use certificate 'CN=two'"),
        "{line}"
    );
    fs::write(dir.path().join("agent.pem"), "nothing").unwrap();
    agent.signal(Signal::HUP);
    let line = agent.line();
    assert!(line.contains("those read before stay in use"), "{line}");
    agent.signal(Signal::TERM);
    assert_eq!(agent.process.wait().unwrap().code(), Some(0));
}

/// An agent that a service manager starts, which `manager` hears; and the address that it names.
fn started_by(manager: &UnixDatagram, name: &str) -> (Running, String) {
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut synod = Command::new(env!("CARGO_BIN_EXE_synod"));
    synod.args(["agent", "--listen", "127.0.0.1:0"]);
    let mut agent = Running::of(synod.env("NOTIFY_SOCKET", name));
    let mut text = [0; 100];
    let length = manager.recv(&mut text).expect("the manager is told");
    assert_eq!(&text[..length], b"READY=1\n");
    let mut announced = String::new();
    let mut output = BufReader::new(agent.process.stdout.take().unwrap());
    output.read_line(&mut announced).unwrap();
    let (_, address) = announced.trim().rsplit_once("http://").unwrap();
    (agent, address.to_owned())
}

#[test]
fn service_manager_is_told_when_the_agent_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let (_agent, address) = started_by(&manager, path.to_str().unwrap());
    TcpStream::connect(address).unwrap();

    let name = format!("synod-agent-test-{}", std::process::id());
    let place = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&place).unwrap();
    let (_agent, address) = started_by(&manager, &format!("@{name}"));
    TcpStream::connect(address).unwrap();
}

/// The arguments of the unit are taken: what is refused is the address that is appended.
#[test]
fn unit_calls_the_program_as_it_is_and_with_a_user_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap();
    let path = root.join("packaging/systemd/synod-agent.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let arguments = start
        .unwrap()
        .strip_prefix("/usr/bin/synod agent ")
        .unwrap();
    let arguments = arguments.replace("$SYNOD_AGENT_ARGUMENTS", "--listen 0.0.0.0:0");
    let arguments: Vec<&str> = arguments.split(' ').collect();
    assert_eq!(agent(&arguments).status.code(), Some(4));
    for line in [
        "User=synod-agent",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}

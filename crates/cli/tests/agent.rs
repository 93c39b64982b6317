//! `synod agent` and its packaged unit: how it refuses to start.

use std::path::Path;
use std::process::{Command, Output};

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

/// The arguments of the unit are taken: what is refused is the address that is appended.
#[test]
fn unit_calls_the_program_as_it_is_and_as_the_servers_user() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
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
    for line in ["User=mysql", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}

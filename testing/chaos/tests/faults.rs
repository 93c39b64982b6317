//! A group of real processes under faults for a minute; and planted mistakes, which must be found.
//!
//! `CHAOS_SECONDS` makes the run longer, `CHAOS_SEED` repeats one. A failure shows the run's
//! output.

use std::process::{Command, Output};

fn chaos(arguments: &[&str]) -> Output {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_synod-chaos"));
    chaos
        .arg("run")
        .args(arguments)
        .args(["--parent", &std::process::id().to_string()]);
    chaos.output().expect("the program starts")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn group_keeps_its_promises_while_processes_are_killed_and_stopped() {
    let seconds = std::env::var("CHAOS_SECONDS").unwrap_or_else(|_| "60".to_owned());
    let mut arguments = vec!["--seconds", &seconds];
    let seed = std::env::var("CHAOS_SEED");
    if let Ok(seed) = &seed {
        arguments.extend(["--seed", seed]);
    }
    let output = chaos(&arguments);
    assert!(output.status.success(), "{}", said(&output));
    println!("{}", said(&output));
}

/// A run with a planted mistake fails, and names the broken rule.
fn finds(mistake: &str, rule: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a plain path");
    let shape = [
        "--members",
        "3",
        "--joiners",
        "0",
        "--seconds",
        "8",
        "--seed",
        "1",
    ];
    let output = chaos(&[&shape[..], &["--dir", path, "--planted", mistake]].concat());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(rule), "{said}");
    assert!(said.contains("again: synod-chaos run --seed 1"), "{said}");
}

#[test]
fn stale_reads_are_found() {
    finds("local-read", "no stale read");
}

#[test]
fn lost_updates_are_found() {
    finds("no-locks", "no update is lost");
}

#[test]
fn impossible_options_are_refused() {
    for bad in [
        ["--members", "2"],
        ["--seconds", "0"],
        ["--planted", "nothing"],
        ["--seed", "x"],
    ] {
        let output = chaos(&bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", said(&output));
    }
}

//! The program: what it prints, and what it refuses.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod-model"))
        .args(arguments)
        .output()
        .expect("it was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn proof_is_printed_with_its_size() {
    let output = run(&["--terms", "1"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for expected in ["states", "depth", "every state was visited"] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn violation_is_printed_with_the_way_there() {
    let output = run(&[
        "--terms",
        "1",
        "--mistake",
        "read-at-commit",
        "--order",
        "breadth",
    ]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in ["VIOLATED  reads see", "Propose("] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn unfinished_check_is_no_proof() {
    let output = run(&["--max-steps", "5000"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("NOT every state was visited"), "{text}");
}

#[test]
fn nonsense_is_refused_with_a_remedy() {
    let table: [(&[&str], &str); 6] = [
        (&["--servers", "0"], "give 1 to 5"),
        (&["--voters", "9"], "give 1 to 3"),
        (&["--terms", "0"], "give 1 to 6"),
        (&["--entries", "200"], "at most 8"),
        (&["--servers", "1", "--changes", "1"], "leave out"),
        (&["--threads", "0"], "1..=256"),
    ];
    for (arguments, remedy) in table {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(remedy), "{arguments:?}: {text}");
    }
}

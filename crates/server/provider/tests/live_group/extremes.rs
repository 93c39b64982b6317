//! Every value that an option allows works: a member starts with the smallest and the largest, and
//! commits.

use std::thread;

use synod::options::{Defaults, Kind, Meaning, OptionSpec, Options, SPECS, Settable};
use wsrep_sys::*;

use crate::server::*;
use crate::two_members::pair_with;

/// Several chunks of the smallest size.
const ROW_BYTES: usize = 20_000;

/// The smallest and the largest value, as written.
fn extremes(spec: &OptionSpec) -> Vec<String> {
    match spec.kind {
        Kind::Int { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Duration => {
            let longest = format!("PT{}S", u64::MAX);
            vec!["PT0S".to_owned(), "PT1H".to_owned(), longest]
        }
        Kind::Word(words) => words.iter().map(ToString::to_string).collect(),
        Kind::Region => vec!["a".to_owned(), "x".repeat(32)],
        Kind::Bool | Kind::Real { .. } | Kind::Address | Kind::Text => Vec::new(),
    }
}

/// Options whose extremes cannot be started here.
fn is_left_out(spec: &OptionSpec) -> bool {
    // Ports below 1024 belong to the system, and others may be in use. The largest write set is a
    // bound on the transaction itself, which is refused as the option says.
    matches!(spec.name, "base_port" | "repl.max_ws_size") || spec.settable == Settable::Trigger
}

/// Starts a group of one with this option, and commits a transaction of several chunks.
fn commits_with(option: &str) {
    let server = Server::with("n1", &new_dir(), free_port(), UNDEFINED, option);
    let connected = server.connect("gcomm://", true);
    assert_eq!(connected, WSREP_OK, "{:?}", server.inner.log_lines());
    server.add_applier();
    server.wait_synced(1);
    let mut trx = server.begin("a");
    assert_eq!(trx.append_data(&vec![b'x'; ROW_BYTES]), WSREP_OK);
    assert_eq!(trx.certify(), WSREP_OK, "{:?}", server.inner.log_lines());
    assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
    trx.release();
}

#[test]
fn member_commits_with_the_extremes_of_every_option() {
    let works = |spec: &&OptionSpec| spec.meaning == Meaning::Works && !is_left_out(spec);
    let mut failed = Vec::new();
    let mut tried = 0;
    for spec in SPECS.iter().filter(works) {
        for value in extremes(spec) {
            let option = format!("{}={value}", spec.name);
            if Options::new(Defaults::default(), &option).is_err() {
                // It depends on another option, and is refused.
                continue;
            }
            tried += 1;
            let with = option.clone();
            if thread::spawn(move || commits_with(&with)).join().is_err() {
                failed.push(option);
            }
        }
    }
    assert!(tried > 30, "{tried} values");
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn large_transaction_passes_with_the_largest_chunks() {
    let (one, two) = pair_with("synod.chunk_size=64M");
    for (writer, reader) in [(&one, &two), (&two, &one)] {
        let mut trx = writer.begin("large");
        for _ in 0..10 {
            assert_eq!(trx.append_data(&vec![b'x'; 13 << 20]), WSREP_OK);
        }
        assert_eq!(trx.certify(), WSREP_OK, "{:?}", writer.inner.log_lines());
        assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
        let seqno = trx.seqno();
        trx.release();
        reader.inner.until("the other applies it", |seen| {
            let is_it = |s: &Seen| matches!(s, Seen::Applied { seqno: s, .. } if *s == seqno);
            seen.iter().any(is_it)
        });
    }
}

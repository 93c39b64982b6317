//! The upgrade promise for networks: messages of 0.1.0 as bytes, and what they say.
//!
//! A message has two lines in `messages-0.1.0.txt`: its kind, lane and bytes; and its value. Each
//! variant of each message is in some. Bytes never change, also not with Rust's names for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use synod_wire::{Frame, Hello, HelloReply, PeerMessage};

use crate::messages::parse;
use crate::strategies::{hello, hello_reply, peer_message};

const FROZEN: &str = include_str!("messages-0.1.0.txt");
/// The protocol version of 0.1.0.
const VERSION: u16 = 5;
/// Bytes of most messages in the file, and of the largest ones.
const BYTES: usize = 80;
const BYTES_MAX: usize = 300;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(digits).collect()
}

/// The two lines of a message.
fn lines_of_message(message: &PeerMessage) -> [String; 2] {
    let mut segments = Vec::new();
    message.encode(VERSION, &mut segments).unwrap();
    let (kind, lane) = (message.kind(), message.lane());
    let first = format!("{kind} {lane:?} {}", hex(&segments.concat()));
    [first, format!("{message:?}")]
}

fn lines_of_hello(hello: &Hello) -> [String; 2] {
    let bytes = hex(&hello.encode().unwrap());
    [format!("hello - {bytes}"), format!("{hello:?}")]
}

fn lines_of_reply(reply: &HelloReply) -> [String; 2] {
    let bytes = hex(&reply.encode().unwrap());
    [format!("reply - {bytes}"), format!("{reply:?}")]
}

/// Reads the bytes of a first line, and makes both lines of what they say.
fn read_again(line: &str) -> [String; 2] {
    let (kind, rest) = line.split_once(' ').unwrap();
    let bytes = bytes_of(rest.split_once(' ').unwrap().1);
    match kind {
        "hello" => lines_of_hello(&Hello::decode(&bytes).unwrap()),
        "reply" => lines_of_reply(&HelloReply::decode(&bytes).unwrap()),
        _ => lines_of_message(&PeerMessage::decode(VERSION, parse(&bytes)).unwrap()),
    }
}

#[test]
fn messages_of_the_first_release_are_read_and_written_alike() {
    let lines: Vec<&str> = FROZEN.lines().collect();
    let mut kinds = BTreeSet::new();
    for pair in lines.chunks(2) {
        assert_eq!(read_again(pair[0]), pair, "see docs/versioning.md");
        kinds.insert(pair[0].split(' ').next().unwrap());
    }
    let all: BTreeSet<String> = (16..=u8::MAX)
        .filter(|kind| is_carried(*kind))
        .map(|kind| kind.to_string())
        .collect();
    let missing: Vec<_> = all
        .iter()
        .filter(|kind| !kinds.contains(&kind[..]))
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "kinds that are not frozen");
    assert!(kinds.contains("hello") && kinds.contains("reply"));
}

/// Whether the version has a message of this kind: others are refused by that.
fn is_carried(kind: u8) -> bool {
    let body = bytes::Bytes::new();
    match PeerMessage::decode(VERSION, Frame { kind, body }) {
        Ok(_) => true,
        Err(error) => error != synod_wire::DecodeError::unknown("message", kind),
    }
}

/// A kind with each name of a type or a variant in the value, without texts.
fn names([first, value]: &[String; 2]) -> BTreeSet<(String, String)> {
    let kind = first.split(' ').next().unwrap_or_default();
    let value = value.replace("\\\\", "").replace("\\\"", "");
    let outside = value.split('"').step_by(2);
    let words = outside.flat_map(|text| text.split(|char: char| !char.is_alphanumeric()));
    let named = words.filter(|word| word.starts_with(|char: char| char.is_ascii_uppercase()));
    named
        .map(|word| (kind.to_owned(), word.to_owned()))
        .collect()
}

fn made_up<T>(of: impl Strategy<Value = T>, lines: impl Fn(&T) -> [String; 2]) -> Vec<[String; 2]> {
    let config = Config {
        max_local_rejects: u32::MAX,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let value = |_| lines(&of.new_tree(&mut runner).unwrap().current());
    (0..8_000).map(value).collect()
}

#[test]
#[ignore = "writes messages-0.1.0.txt; only before that release, and only if there is none"]
fn write_the_messages_of_the_first_release() {
    let mut all = made_up(peer_message(), lines_of_message);
    all.extend(made_up(hello(), lines_of_hello));
    all.extend(made_up(hello_reply(), lines_of_reply));
    all.retain(|lines| lines[0].len() / 2 <= BYTES_MAX);
    // The largest of the small ones first, which show most; then the smallest of the others.
    all.sort_by_key(|lines| {
        let len = lines[0].len() / 2;
        if len <= BYTES { BYTES - len } else { len }
    });
    let mut seen = BTreeSet::new();
    let mut kept: BTreeMap<u32, Vec<[String; 2]>> = BTreeMap::new();
    for lines in all {
        let names = names(&lines);
        if !names.is_subset(&seen) {
            seen.extend(names);
            let kind = lines[0]
                .split(' ')
                .next()
                .and_then(|kind| kind.parse().ok());
            kept.entry(kind.unwrap_or_default())
                .or_default()
                .push(lines);
        }
    }
    let mut text = String::new();
    for [first, value] in kept.into_values().flatten() {
        writeln!(text, "{first}\n{value}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/messages-0.1.0.txt");
    let mut file = std::fs::File::create_new(path).expect("frozen bytes are never overwritten");
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

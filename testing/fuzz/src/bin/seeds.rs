//! Writes small first inputs for every target, made by the real encoders: `seeds DIRECTORY` makes
//! `DIRECTORY/<target>/<number>`. The same inputs every time.

#[allow(dead_code, reason = "made for the tests of the crate it is in")]
#[path = "../../../../crates/core/wire/tests/wire/strategies.rs"]
mod strategies;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bytes::Bytes;
// Where the instrumentation of the crates used here is defined.
use libfuzzer_sys as _;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use synod::options::SPECS;
use synod_binlog::{BinlogWriter, Checksum, EventType, Gtid, GtidList, Outgoing};
use synod_consensus::{
    Config, ConfigAt, EntryHeader, EntryId, EntryKind, GroupId, HardState, LogBase, LogIndex,
    Member, MemberId, Role, Seqno, SessionId, Term, VersionRange,
};
use synod_fuzz::log_directory::{DIR, control_path, segment_path, shrink};
use synod_fuzz::{frames::message_frame, put_part};
use synod_log::{
    Behind, DatabaseRecord, DatabaseRecordFile, DoubtfulStreams, Entry, ExecutingStatement, Log,
    LogOptions, LogWriter, MemoryFiles, database_record_path,
};
use synod_wire::{ClientHello, OUR_VERSIONS};

fn main() -> io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds DIRECTORY");
        std::process::exit(2);
    };
    save(&dir, "peer_message", peer_messages())?;
    save(&dir, "frames", frames())?;
    save(&dir, "handshake", hellos())?;
    save(&dir, "config", configs())?;
    save(&dir, "entry_payload", entry_payloads())?;
    save(&dir, "key_set", key_sets())?;
    let logs = logs();
    save(&dir, "log_record", log_records(&logs))?;
    save(&dir, "log_control", log_controls(&logs))?;
    save(&dir, "database_record", database_records())?;
    save(&dir, "log_recovery", whole(&logs).map(shrink).collect())?;
    save(&dir, "options", option_lists())?;
    save(&dir, "cluster_address", cluster_addresses())?;
    save(&dir, "grastate", grastates())?;
    save(&dir, "binlog_events", binlog_events())?;
    save(&dir, "relay_reader", from_readers())?;
    save(&dir, "upstream_events", upstream_events())?;
    save(&dir, "kept_entry", kept_entries())
}

fn save(dir: &Path, target: &str, inputs: Vec<Vec<u8>>) -> io::Result<()> {
    let dir = dir.join(target);
    fs::create_dir_all(&dir)?;
    for (number, input) in inputs.iter().enumerate() {
        fs::write(dir.join(format!("seed-{number:03}")), input)?;
    }
    Ok(())
}

/// A binlog with a transaction, and lists of GTIDs.
fn binlog_events() -> Vec<Vec<u8>> {
    let gtid = Gtid::new(1, 2, 3);
    let table = b"\x01\0\0\0\0\0\x01\0\x01d\0\x01t\0\x01\x03\0\x01";
    let rows = b"\x01\0\0\0\0\0\x01\0\x01\xff\xfe\x05\0\0\0";
    let query = b"\x04\0\0\0\0\0\0\0\x01\0\0\0\0d\0SELECT 1";
    let events = |checksum, bodies: &[(EventType, &[u8])]| {
        let mut writer = BinlogWriter::new(2, checksum, "log".to_owned());
        let mut out = Vec::new();
        if checksum == Checksum::Crc32 {
            let format = writer.format("10.11", 0).expect("it is small");
            out.extend_from_slice(&format.pieces().concat());
        }
        for (event_type, body) in bodies {
            let event = Outgoing::new(*event_type, 1, body.to_vec());
            let placed = writer.place(&event).expect("it is small");
            out.extend_from_slice(&placed.pieces().concat());
        }
        out
    };
    let (map, write) = (EventType::TABLE_MAP, EventType::WRITE_ROWS_V1);
    let transaction = events(Checksum::None, &[(map, table), (write, rows)]);
    let statement = events(Checksum::Crc32, &[(EventType::QUERY, query)]);
    let list = GtidList(vec![gtid]);
    vec![
        [&[0][..], &transaction].concat(),
        [&[1][..], &statement].concat(),
        [&[2][..], &list.body()].concat(),
        [&[2][..], list.to_string().as_bytes()].concat(),
        [&[40][..], &transaction].concat(),
    ]
}

/// A transaction and a statement, with GTIDs, as an upstream sends them.
fn upstream_events() -> Vec<Vec<u8>> {
    let gtid = |flags: u8| {
        let mut body = 7_u64.to_le_bytes().to_vec();
        body.extend_from_slice(&[1, 0, 0, 0, flags, 0, 0, 0, 0, 0, 0]);
        (EventType::GTID, body)
    };
    let transaction = [
        gtid(0),
        (
            EventType::TABLE_MAP,
            b"\x01\0\0\0\0\0\x01\0\x04shop\0\x01t\0\x01\x03\0\x01".to_vec(),
        ),
        (
            EventType::WRITE_ROWS_V1,
            b"\x01\0\0\0\0\0\x01\0\x01\xff\xfe\x05\0\0\0".to_vec(),
        ),
        (EventType::XID, vec![1, 0, 0, 0, 0, 0, 0, 0]),
    ];
    let query = b"\x04\0\0\0\0\0\0\0\x04\0\0\0\0shop\0DROP TABLE t".to_vec();
    let statement = [gtid(1), (EventType::QUERY, query)];
    let mut inputs = vec![[&[0_u8][..], b"\x0a10.11-MariaDB\0"].concat()];
    for (which, events) in [(1, &transaction[..]), (2, &transaction), (1, &statement)] {
        let mut writer = BinlogWriter::new(2, Checksum::None, "log".to_owned());
        let mut out = vec![which];
        for (event_type, body) in events {
            let event = Outgoing::new(*event_type, 1, body.clone());
            let placed = writer.place(&event).expect("it is small");
            out.extend_from_slice(&placed.pieces().concat());
        }
        inputs.push(out);
    }
    inputs
}

/// An order and a part, without GTIDs before them or registered readers, and a note.
fn kept_entries() -> Vec<Vec<u8>> {
    const KNOWN: [u8; 8 + 8 + 8 + 1] = [0; 25];
    let order = [b"\x01\x00\x01\x05\0\0db1:1", &KNOWN[..]].concat();
    let mut part = [b"\x01\x01\x02\x00\0\0", &KNOWN[..]].concat();
    part.extend_from_slice(&[0; 8 + 4 + 16]);
    part.extend_from_slice(b"\x03log\x09\0\0\0\0\0\0\0events");
    let note = b"\x01\x02\x00\x09\0\0\0".to_vec();
    vec![order, part, note]
}

/// Packets, an answer to a greeting, statements.
fn from_readers() -> Vec<Vec<u8>> {
    let mut answer = 0x8_8000_u32.to_le_bytes().to_vec();
    answer.extend_from_slice(&[0; 28]);
    answer.extend_from_slice(b"repl\0\x03abcmysql_native_password\0");
    let statements = [
        "SET @slave_connect_state='1-2-3', @master_heartbeat_period=1",
        "SELECT UNIX_TIMESTAMP(), @@GLOBAL.server_id AS id LIMIT 1",
        "SHOW GLOBAL VARIABLES LIKE 'binlog%'",
        "SHOW BINARY LOGS",
    ];
    let statements = statements.iter();
    let statements = statements.map(|text| [&[2][..], text.as_bytes()].concat());
    let packet = b"\0\x05\0\0\0hello".to_vec();
    let answer = [&[1][..], &answer].concat();
    [packet, answer].into_iter().chain(statements).collect()
}

/// The same values every time.
fn draw<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    let mut one = || {
        strategy
            .new_tree(&mut runner)
            .expect("nothing is filtered")
            .current()
    };
    (0..count).map(|_| one()).collect()
}

fn peer_messages() -> Vec<Vec<u8>> {
    let messages = draw(strategies::peer_message(), 170);
    let frames = messages.iter().map(message_frame);
    frames
        .map(|frame| [&[frame.kind], &frame.body[..]].concat())
        .collect()
}

fn frames() -> Vec<Vec<u8>> {
    let messages = draw(strategies::peer_message(), 30);
    messages
        .chunks(3)
        .map(|messages| {
            let mut out = vec![1, 6];
            for frame in messages.iter().map(message_frame) {
                out.extend_from_slice(&[frame.kind, 0]);
                put_part(&mut out, &frame.body);
            }
            out
        })
        .collect()
}

fn hellos() -> Vec<Vec<u8>> {
    let hellos = draw(strategies::hello(), 10);
    let replies = draw(strategies::hello_reply(), 10);
    let hellos = hellos
        .iter()
        .map(|hello| hello.encode().map(|bytes| [&[0], &bytes[..]].concat()));
    let replies = replies
        .iter()
        .map(|reply| reply.encode().map(|bytes| [&[1], &bytes[..]].concat()));
    let client = ClientHello {
        versions: OUR_VERSIONS,
        cluster_name: "c".to_owned(),
        name: "n".to_owned(),
    };
    let client = client.encode().map(|bytes| [&[0], &bytes[..]].concat());
    hellos
        .chain(replies)
        .chain([client])
        .collect::<Result<_, _>>()
        .expect("short names")
}

fn config(members: u64) -> Config {
    let member = |id: u64| Member {
        role: if id % 3 == 2 {
            Role::Learner
        } else {
            Role::Voter
        },
        has_data: id % 2 == 1,
        name: format!("n{id}"),
        address: format!("10.0.0.{id}:4567"),
        versions: VersionRange { min: 1, max: 2 },
        certificate: (id % 2 == 0).then(|| format!("CN=n{id}")),
    };
    Config {
        protocol: 2,
        members: (1..=members)
            .map(|id| (MemberId(id * 7), member(id)))
            .collect(),
        ..Config::default()
    }
}

fn configs() -> Vec<Vec<u8>> {
    [0, 1, 2, 3, 5]
        .map(|members| config(members).encode())
        .to_vec()
}

fn entry_payloads() -> Vec<Vec<u8>> {
    let mut action = vec![0, 1, 0, 0, 0];
    action.extend_from_slice(&[9; 24]);
    action.extend_from_slice(&0u32.to_le_bytes());
    action.extend_from_slice(&4u32.to_le_bytes());
    action.extend_from_slice(b"\0\0\0\0rows");
    let chunk = [
        &[1, 1, 1, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        &b"bytes"[..],
    ]
    .concat();
    let mut view = vec![2, 1];
    view.extend_from_slice(&4u64.to_le_bytes());
    view.extend_from_slice(&1u16.to_le_bytes());
    view.extend_from_slice(&[3; 16]);
    put_part(&mut view, b"node1");
    put_part(&mut view, b"10.0.0.1:3306");
    let write_set = [&[3, 1], &[0; 23][..], b"rows"].concat();
    let discards = [24, 8].map(|len| [vec![4], vec![1; len]].concat());
    let mut cutting = vec![6, 5];
    put_part(&mut cutting, b"abcdefghi");
    cutting.extend_from_slice(b"and some data that is longer than a chunk");
    let mut decision = vec![5, 1];
    decision.extend_from_slice(&17i64.to_le_bytes());
    decision.extend_from_slice(&0u64.to_le_bytes());
    decision.extend_from_slice(&1u16.to_le_bytes());
    decision.extend_from_slice(&[3; 24]);
    let [one, all] = discards;
    vec![action, chunk, view, decision, write_set, one, all, cutting]
}

fn key_sets() -> Vec<Vec<u8>> {
    let mut keys = synod_certify::KeySet::new();
    keys.append(&[b"db", b"t", b"1"], synod_certify::KeyType::Exclusive);
    let encoded = [&[0], &keys.encode()[..]].concat();
    let mut actions = vec![1];
    for (how, keys) in [
        (0x00, b"\x03a\x02b"),
        (0x14, b"\x03a\x00c"),
        (0x23, b"\x01b\x03c"),
    ] {
        actions.push(how);
        put_part(&mut actions, keys);
    }
    vec![encoded, actions]
}

/// A log after each of a few steps.
fn logs() -> Vec<MemoryFiles> {
    let files = MemoryFiles::new(1);
    let options = LogOptions {
        segment_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let opened =
        Log::open(Arc::new(files.clone()), Path::new(DIR), options).expect("an empty disk");
    let mut writer = opened.writer;
    let mut images = vec![files.crash(u64::MAX)];
    let mut step = |what: &mut dyn FnMut(&mut LogWriter) -> Result<(), synod_log::LogError>| {
        what(&mut writer)
            .and_then(|()| writer.sync())
            .expect("memory can be written");
        images.push(files.crash(u64::MAX));
    };
    step(&mut |writer| writer.set_group(GroupId([5; 16])));
    step(&mut |writer| writer.save_vote(vote(1)));
    step(&mut |writer| writer.append(&[entry(1, 1, EntryKind::NoOp, b""), config_entry(1, 2)]));
    step(&mut |writer| writer.append(&[entry(1, 3, EntryKind::Action, b"abc")]));
    step(&mut |writer| {
        writer.append(&[
            entry(1, 4, EntryKind::Chunk, b"de"),
            entry(1, 5, EntryKind::View, b"f"),
        ])
    });
    step(&mut |writer| writer.truncate(LogIndex(4)));
    step(&mut |writer| writer.append(&[entry(2, 4, EntryKind::Discard, b"")]));
    step(&mut |writer| writer.write_floor());
    // Does not fit after the others: a second segment.
    step(&mut |writer| writer.append(&[entry(2, 5, EntryKind::Action, &[0; 63 << 10])]));
    step(&mut |writer| writer.save_vote(vote(3)));
    step(&mut |writer| writer.reset(base()));
    step(&mut |writer| writer.append(&[entry(3, 101, EntryKind::Action, b"xyz")]));
    images
}

fn entry(term: u64, index: u64, kind: EntryKind, payload: &[u8]) -> Entry {
    let header = EntryHeader {
        depends_on: Seqno(0),
        ..EntryHeader::bare(Term(term), LogIndex(index), Seqno(index as i64), kind)
    };
    Entry::new(header, Bytes::copy_from_slice(payload)).expect("a small entry")
}

fn config_entry(term: u64, index: u64) -> Entry {
    entry(term, index, EntryKind::Config, &config(3).encode())
}

fn vote(term: u64) -> HardState {
    HardState::new(Term(term), Some(MemberId(7)))
}

fn base() -> LogBase {
    LogBase {
        last: EntryId::new(Term(2), LogIndex(100)),
        seqno: Seqno(90),
        config: ConfigAt {
            index: LogIndex(2),
            config: config(3),
        },
    }
}

/// The logs that still begin with their first segment; a reset ends that.
fn whole(logs: &[MemoryFiles]) -> impl DoubleEndedIterator<Item = &MemoryFiles> {
    logs.iter()
        .filter(|files| files.content(&segment_path(1)).is_some())
}

/// The header of a second segment, and every record of both.
fn log_records(logs: &[MemoryFiles]) -> Vec<Vec<u8>> {
    let longest = whole(logs).next_back().expect("some steps");
    let mut inputs = Vec::new();
    for number in [1, 2] {
        let file = longest
            .content(&segment_path(number))
            .expect("two segments");
        inputs.push([&[2], &file[..160]].concat());
        let mut at = 4096;
        while file
            .get(at + 8)
            .is_some_and(|record_type| *record_type != 0)
        {
            let body = u32::from_le_bytes(std::array::from_fn(|i| file[at + 12 + i])) as usize;
            let end = (at + 16 + body).next_multiple_of(8);
            inputs.push([&[0], &file[at..end.min(at + 512)]].concat());
            at = end;
        }
    }
    inputs
}

fn log_controls(logs: &[MemoryFiles]) -> Vec<Vec<u8>> {
    let files = logs
        .iter()
        .filter_map(|files| files.content(&control_path()));
    files.map(|file| [&[0], &file[..]].concat()).collect()
}

/// One that says nothing, and one that says all, without their checksums.
fn database_records() -> Vec<Vec<u8>> {
    let full = DatabaseRecord {
        group: GroupId([0xab; 16]),
        behind: Some(Behind {
            at: Seqno(41),
            engine_says: Seqno(42),
            error: 1114,
            failures: 1,
            applied_again_after: Some(Seqno(41)),
        }),
        settled: vec![Seqno(38), Seqno(40)],
        executing: Some(ExecutingStatement {
            seqno: Seqno(43),
            boot: 11,
        }),
        doubtful: Some(DoubtfulStreams {
            member: MemberId(7),
            session: SessionId(8),
            transactions: vec![9, 10],
        }),
        is_copying: true,
        unusable: Some("it differs".to_owned()),
        is_accepted: true,
    };
    let records = [DatabaseRecord::default(), full];
    let lines = records.map(|record| {
        let files = MemoryFiles::new(7);
        let (file, _) = DatabaseRecordFile::open(&files, Path::new(DIR)).expect("memory has room");
        file.write(&record).expect("memory has room");
        let path = database_record_path(Path::new(DIR));
        let text = String::from_utf8(files.content(&path).expect("it was written"));
        let text = text.expect("it is text");
        let (lines, _) = text.split_once("crc32c").expect("a checksum");
        [&[0], lines.as_bytes()].concat()
    });
    lines.to_vec()
}

/// Each option with its default, and some lists.
fn option_lists() -> Vec<Vec<u8>> {
    let singles = SPECS.iter().map(|spec| {
        let value = match spec.default {
            synod::options::DefaultValue::Is(text) => text,
            _ => "10.0.0.1:4567",
        };
        format!("{}={value}", spec.name)
    });
    let more = [
        " base_host = h ;; gcache.size=1G; ",
        r"base_dir=a\;b\=c\\; base_host=\ ",
        "gmcast.listen_addr=tcp://[::1]:4567;evs.suspect_timeout=PT1M30.5S",
    ];
    let lists = singles.chain(more.map(str::to_owned));
    lists
        .map(|list| {
            let mut out = Vec::new();
            put_part(&mut out, list.as_bytes());
            out.extend_from_slice(list.as_bytes());
            out
        })
        .collect()
}

fn cluster_addresses() -> Vec<Vec<u8>> {
    let addresses = [
        "synod://a:1,b",
        "gcomm://10.0.0.1, 10.0.0.2:5 ",
        "gcomm://[::1]:7,[::2],::3",
        "gcomm://a?pc.weight=2&gmcast.listen_addr=tcp://h:1",
        "ssl://h:1",
    ];
    addresses
        .map(|address| address.as_bytes().to_vec())
        .to_vec()
}

fn grastates() -> Vec<Vec<u8>> {
    let text = "# GALERA saved state\nversion: 2.1\nuuid:    6b1a2c3d-0102-11ef-8a3b-0242ac120002\n\
                seqno:   42\nsafe_to_bootstrap: 1\n";
    vec![text.as_bytes().to_vec(), b"seqno: -1".to_vec()]
}

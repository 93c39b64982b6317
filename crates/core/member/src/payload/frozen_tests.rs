//! The upgrade promise for disks: a directory of 0.1.0 in a file, and a test that reads it.
//!
//! Each line of `log-0.1.0.hex` is a file's name and size, or an offset and bytes there; the rest
//! is zeros. Nothing writes that file again after 0.1.0 is tagged: a change that cannot read it
//! breaks `docs/versioning.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use synod_certify::{Class, KeySet, KeyType};
use synod_consensus::{
    Config, ConfigAt, EntryHeader, EntryId, EntryKind, GroupId, GroupSetting, GroupSettings,
    HardState, LogBase, LogIndex, Member, MemberId, Origin, Role, Seqno, SessionId, Term,
    VersionRange, Writers,
};
use synod_log::{
    Behind, DatabaseRecord, DatabaseRecordFile, Entry, Identity, Log, LogOptions, MemoryFiles,
    Opened,
};

use super::action::{ActionPiece, Chunk, Part};
use super::decision::{MemberOutcome, OutcomeDecision};
use super::discard::{Discard, PartialActionId};
use super::view::{View, ViewMember};
use crate::outcome::ApplyOutcome;

const FROZEN: &str = include_str!("log-0.1.0.hex");
const DIR: &str = "data";
const GROUP: GroupId = GroupId([7; 16]);
const ROW_BYTES: usize = 32;

fn open(files: &MemoryFiles) -> Opened {
    let options = LogOptions {
        segment_bytes: 64 << 10,
        ..LogOptions::default()
    };
    Log::open(Arc::new(files.clone()), Path::new(DIR), options).unwrap()
}

/// Meaning of an entry: its payload, decoded.
#[derive(Debug)]
enum Content {
    NoOp,
    Config(Config),
    View(View),
    Action(ActionPiece),
    Chunk(Chunk),
    Discard(Discard),
    Decision(OutcomeDecision),
}

impl Content {
    fn encode(&self) -> (EntryKind, Bytes) {
        match self {
            Content::NoOp => (EntryKind::NoOp, Bytes::new()),
            Content::Config(config) => (EntryKind::Config, config.encode().into()),
            Content::View(view) => (EntryKind::View, view.encode()),
            Content::Action(action) => (EntryKind::Action, action.encode()),
            Content::Chunk(chunk) => (EntryKind::Chunk, chunk.encode()),
            Content::Discard(discard) => (EntryKind::Discard, discard.encode()),
            Content::Decision(decision) => (EntryKind::Decision, decision.encode()),
        }
    }

    fn decode(entry: &Entry) -> Content {
        let payload = entry.payload.clone();
        match entry.header.kind {
            EntryKind::NoOp => Content::NoOp,
            EntryKind::Config => Content::Config(Config::decode(&payload).unwrap()),
            EntryKind::View => Content::View(View::decode(entry.header.seqno, payload).unwrap()),
            EntryKind::Action => Content::Action(ActionPiece::decode(payload).unwrap()),
            EntryKind::Chunk => Content::Chunk(Chunk::decode(payload).unwrap()),
            EntryKind::Discard => Content::Discard(Discard::decode(payload).unwrap()),
            EntryKind::Decision => Content::Decision(OutcomeDecision::decode(payload).unwrap()),
        }
    }
}

fn config() -> Config {
    let member = |role, name: &str, certificate: Option<&str>| Member {
        role,
        has_data: role == Role::Voter,
        name: name.to_owned(),
        address: format!("{name}.example:4567"),
        versions: VersionRange { min: 5, max: 5 },
        certificate: certificate.map(str::to_owned),
    };
    Config {
        protocol: 5,
        protocol_is_held: true,
        settings: GroupSettings::default().with(GroupSetting::Writers(Writers::Leader)),
        members: BTreeMap::from([
            (MemberId(3), member(Role::Voter, "a", None)),
            (MemberId(4), member(Role::Learner, "b", Some("CN=b"))),
        ]),
    }
}

fn base() -> LogBase {
    LogBase {
        last: EntryId::new(Term(4), LogIndex(20)),
        seqno: Seqno(11),
        config: ConfigAt {
            index: LogIndex(19),
            config: config(),
        },
    }
}

/// An entry after the base: one of each kind; zeros fill a segment, so that there are two.
fn entries() -> Vec<(EntryHeader, Content)> {
    let mut keys = KeySet::new();
    keys.append(&[b"shop", b"orders", b"17"], KeyType::Exclusive);
    keys.append(&[b"shop", b"clients", b"4"], KeyType::Reference);
    let action = |class, action_no, chunks, bytes| ActionPiece {
        class,
        epoch: 2,
        last_seen: 11,
        action_no,
        chunks,
        keys: keys.encode().into(),
        data: vec![0; bytes].into(),
    };
    let view = View {
        seqno: Seqno(12),
        number: 6,
        members: vec![ViewMember {
            member: MemberId(3),
            session: SessionId(5),
            name: "a".to_owned(),
            incoming: "10.0.0.1:3306".to_owned(),
        }],
    };
    let id = PartialActionId {
        member: MemberId(4),
        session: SessionId(6),
        action_no: 8,
    };
    let chunk = |part, chunk_index| Chunk {
        part,
        chunk_index,
        action_no: 9,
        bytes: Bytes::from_static(b"part"),
    };
    let answer = |member, outcome| MemberOutcome {
        member: MemberId(member),
        session: SessionId(5),
        outcome: ApplyOutcome(outcome),
    };
    let decision = OutcomeDecision {
        seqno: Seqno(14),
        outcome: ApplyOutcome(7),
        answers: vec![answer(3, 7), answer(4, 0)],
    };
    let rows = Class::WriteSet { pa_unsafe: false };
    let unsafe_rows = Class::WriteSet { pa_unsafe: true };
    // Seqno -1: as of the entry before.
    let contents = [
        (-1, Content::NoOp),
        (-1, Content::Config(config())),
        (12, Content::View(view)),
        (13, Content::Action(action(rows, 0, 0, 50_000))),
        (14, Content::Action(action(Class::TotalOrder, 0, 0, 20_000))),
        (-1, Content::Chunk(chunk(Part::Keys, 0))),
        (-1, Content::Chunk(chunk(Part::Data, 1))),
        (15, Content::Action(action(unsafe_rows, 9, 2, 10))),
        (16, Content::Action(action(Class::Barrier, 0, 0, 0))),
        (-1, Content::Discard(Discard::Action(id))),
        (-1, Content::Discard(Discard::BegunBy(LogIndex(22)))),
        (-1, Content::Decision(decision)),
    ];
    let mut seqno = base().seqno;
    let numbered = contents.into_iter().zip(21..);
    let with_header = numbered.map(|((ordered, content), index)| {
        seqno = seqno.max(Seqno(ordered));
        let kind = content.encode().0;
        let header = EntryHeader {
            origin: Origin::new(MemberId(3), SessionId(5), index),
            depends_on: Seqno(seqno.0 - 1),
            ..EntryHeader::bare(Term(5), LogIndex(index), seqno, kind)
        };
        (header, content)
    });
    with_header.collect()
}

fn vote() -> HardState {
    HardState::new(Term(6), Some(MemberId(4)))
}

fn database_record() -> DatabaseRecord {
    DatabaseRecord {
        group: GROUP,
        behind: Some(Behind {
            at: Seqno(13),
            engine_says: Seqno(14),
            error: 1114,
            failures: 1,
            applied_again_after: Some(Seqno(12)),
        }),
        settled: vec![Seqno(9), Seqno(11)],
        ..DatabaseRecord::default()
    }
}

/// A member's directory: a base, entries in two segments, a truncation, a vote, an orderly end.
fn write_directory() -> MemoryFiles {
    let files = MemoryFiles::new(1);
    let mut writer = open(&files).writer;
    writer.set_group(GROUP).unwrap();
    writer.reset(base()).unwrap();
    let entry = |header, payload| Entry::new(header, payload).unwrap();
    for (header, content) in entries() {
        writer.append(&[entry(header, content.encode().1)]).unwrap();
        writer.sync().unwrap();
    }
    let last = entries().pop().unwrap().0;
    let gone = EntryHeader::bare(last.term, last.index.next(), last.seqno, EntryKind::NoOp);
    writer.append(&[entry(gone, Bytes::new())]).unwrap();
    writer.sync().unwrap();
    writer.truncate(gone.index).unwrap();
    writer.save_vote(vote()).unwrap();
    writer.close().unwrap();
    let (record, _) = DatabaseRecordFile::open(&files, Path::new(DIR)).unwrap();
    record.write(&database_record()).unwrap();
    files
}

fn to_text(files: &MemoryFiles) -> String {
    let mut text = String::new();
    for path in files.paths() {
        let content = files.content(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        writeln!(text, "{name} {}", content.len()).unwrap();
        for (row, bytes) in content.chunks(ROW_BYTES).enumerate() {
            if bytes.iter().any(|byte| *byte != 0) {
                write!(text, "{:x} ", row * ROW_BYTES).unwrap();
                bytes
                    .iter()
                    .for_each(|byte| write!(text, "{byte:02x}").unwrap());
                text.push('\n');
            }
        }
    }
    text
}

fn from_text(text: &str) -> MemoryFiles {
    let mut contents: Vec<(&str, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        let (first, second) = line.split_once(' ').unwrap();
        if first.ends_with(".log") {
            contents.push((first, vec![0; second.parse().unwrap()]));
            continue;
        }
        let offset = usize::from_str_radix(first, 16).unwrap();
        let content = &mut contents.last_mut().unwrap().1;
        for (at, digits) in (offset..).zip(second.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).unwrap();
            content[at] = u8::from_str_radix(digits, 16).unwrap();
        }
    }
    let files = MemoryFiles::new(2);
    for (name, content) in contents {
        files.set_content(&Path::new(DIR).join(name), content);
    }
    files
}

/// Entries and what they say. Lengths and checksums of payloads are the log's own business.
fn told(entries: impl IntoIterator<Item = (EntryHeader, Content)>) -> Vec<String> {
    let line = |(header, content): (EntryHeader, Content)| {
        let header = EntryHeader {
            payload_len: 0,
            payload_crc: 0,
            ..header
        };
        format!("{header:?} {content:?}")
    };
    entries.into_iter().map(line).collect()
}

#[test]
fn log_of_the_first_release_is_read_and_written_on() {
    let files = from_text(FROZEN);
    let mut opened = open(&files);
    let report = &opened.report;
    assert!(!opened.created && report.cut.is_none() && report.repair.is_none());
    assert_eq!(report.segments, 2, "{report}");
    let identity = Identity {
        member: opened.identity.member,
        group: GROUP,
    };
    assert_ne!(identity.member, MemberId(0));
    assert_eq!(opened.identity, identity);
    assert_eq!(opened.recovered.vote, vote());
    assert_eq!(opened.recovered.base, base());
    let read = |reader: &synod_log::LogReader| {
        let read = reader.read(reader.first_index(), LogIndex(u64::MAX), usize::MAX);
        let content = |entry: Entry| (entry.header, Content::decode(&entry));
        told(read.unwrap().into_iter().map(content))
    };
    assert_eq!(read(&opened.reader), told(entries()));
    let (_, record) = DatabaseRecordFile::open(&files, Path::new(DIR)).unwrap();
    assert_eq!(record, database_record());

    let last = entries().pop().unwrap().0;
    let next = EntryHeader::bare(Term(6), last.index.next(), last.seqno, EntryKind::NoOp);
    let entry = Entry::new(next, Bytes::new()).unwrap();
    opened.writer.append(&[entry]).unwrap();
    opened.writer.close().unwrap();
    let after = told(entries().into_iter().chain([(next, Content::NoOp)]));
    assert_eq!(read(&open(&files).reader), after);
}

#[test]
#[ignore = "writes log-0.1.0.hex; only before that release, and only if there is none"]
fn write_the_log_of_the_first_release() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/payload/log-0.1.0.hex");
    let mut file = std::fs::File::create_new(path).expect("a frozen log is never overwritten");
    std::io::Write::write_all(&mut file, to_text(&write_directory()).as_bytes()).unwrap();
}

//! The certification state of a log that grows, is truncated, and commits.

use std::time::Duration;

use super::*;
use crate::payload::action::{Action, Part, split_into_chunks};
use synod_consensus::{MemberId, SessionId, Term};

const MEMBER: MemberId = MemberId(1);

/// A log as the leader would write it, with the state that it feeds.
struct Log {
    state: CertificationState,
    index: u64,
    seqno: i64,
}

impl Log {
    fn new() -> Log {
        Log {
            state: CertificationState::new(LogIndex(0), Seqno(0), CertLimits::default()),
            index: 0,
            seqno: 0,
        }
    }

    fn append(&mut self, kind: EntryKind, payload: &Bytes) -> Result<EntryHeader, String> {
        self.index += 1;
        self.seqno += i64::from(kind.is_ordered());
        let header = EntryHeader {
            origin: origin(self.index),
            payload_len: payload.len() as u32,
            ..EntryHeader::bare(Term(1), LogIndex(self.index), Seqno(self.seqno), kind)
        };
        let fed = self.state.appended(Time(1), &header, payload);
        fed.map(|()| header).map_err(|error| error.to_string())
    }

    fn verdict(&self, payload: &Bytes) -> Result<Verdict, String> {
        let verdict = self.state.certify(&other(), payload);
        verdict.map_err(|error| format!("{error:?}"))
    }

    fn truncate(&mut self, from: u64, seqno: i64) {
        self.state.truncated(LogIndex(from));
        (self.index, self.seqno) = (from - 1, seqno);
    }
}

fn origin(number: u64) -> Origin {
    Origin::new(MEMBER, SessionId(7), number)
}

/// An origin whose locks do not protect the actions of `origin`.
fn other() -> Origin {
    Origin {
        member: MemberId(2),
        ..origin(1)
    }
}

fn keys(row: &str) -> Bytes {
    let mut keys = KeySet::new();
    keys.append(&[b"db", b"t", row.as_bytes()], KeyType::Exclusive);
    keys.encode().into()
}

fn piece(row: &str, last_seen: i64, action_no: u64, chunks: u32) -> ActionPiece {
    ActionPiece {
        class: Class::WriteSet { pa_unsafe: false },
        epoch: 0,
        last_seen,
        action_no,
        chunks,
        keys: keys(row),
        data: Bytes::from_static(b"data"),
    }
}

fn action(row: &str, last_seen: i64) -> Bytes {
    piece(row, last_seen, 0, 0).encode()
}

fn chunk(part: Part, chunk_index: u32, bytes: Bytes) -> Bytes {
    Chunk {
        part,
        chunk_index,
        action_no: 5,
        bytes,
    }
    .encode()
}

fn conflicts(log: &Log, row: &str, last_seen: i64) -> bool {
    matches!(
        log.verdict(&action(row, last_seen)),
        Ok(Verdict::Conflict { .. })
    )
}

#[test]
fn truncation_restores_what_was_before() {
    let mut log = Log::new();
    log.append(EntryKind::Action, &action("a", 0)).unwrap();
    log.append(EntryKind::NoOp, &Bytes::new()).unwrap();
    log.append(EntryKind::Action, &action("b", 1)).unwrap();
    assert!(conflicts(&log, "a", 0) && conflicts(&log, "b", 0));
    log.truncate(2, 1);
    assert!(conflicts(&log, "a", 0) && !conflicts(&log, "b", 0));
    assert_eq!(log.state.last_index(), LogIndex(1));
    let header = log.append(EntryKind::Action, &action("c", 1)).unwrap();
    assert_eq!(header.seqno, Seqno(2));
    assert!(conflicts(&log, "c", 1));
}

#[test]
fn truncation_beyond_the_start_restarts_at_the_next_entry() {
    let mut log = Log {
        state: CertificationState::new(LogIndex(100), Seqno(50), CertLimits::default()),
        index: 100,
        seqno: 50,
    };
    log.append(EntryKind::Action, &action("a", 50)).unwrap();
    log.truncate(90, 45);
    log.append(EntryKind::NoOp, &Bytes::new()).unwrap();
    log.append(EntryKind::Action, &action("b", 45)).unwrap();
    assert_eq!(log.state.last_index(), LogIndex(91));
    assert!(conflicts(&log, "b", 45));
    let unseen = log.verdict(&action("c", 44));
    assert!(
        matches!(unseen, Ok(Verdict::TooOld { .. })),
        "an unknown history counts as a conflict: {unseen:?}"
    );
}

#[test]
fn keys_of_all_chunks_count() {
    let mut log = Log::new();
    let encoded = keys("a");
    let (first, rest) = (encoded.slice(..9), encoded.slice(9..));
    log.append(EntryKind::Chunk, &chunk(Part::Keys, 0, first))
        .unwrap();
    let data = Bytes::from_static(b"more");
    log.append(EntryKind::Chunk, &chunk(Part::Data, 1, data))
        .unwrap();
    let mut last = piece("a", 0, 5, 2);
    last.keys = rest;
    let last = last.encode();
    assert_eq!(
        log.state.partial_actions().first_chunk(),
        Some(LogIndex(1)),
        "kept in the log"
    );
    assert!(log.state.certify(&origin(9), &last).is_ok());
    let header = log.append(EntryKind::Action, &last).unwrap();
    assert!(conflicts(&log, "a", 0));
    let second = log.append(EntryKind::Action, &action("b", 0)).unwrap();
    assert_eq!(log.state.committed(&header), Some(LogIndex(1)));
    assert_eq!(log.state.committed(&second), None);
    assert_eq!(log.state.partial_actions().first_chunk(), None);
}

#[test]
fn chunk_out_of_order_is_not_accepted() {
    let mut log = Log::new();
    let payload = |chunk_index| chunk(Part::Data, chunk_index, Bytes::from_static(b"x"));
    let unknown = log.state.check_chunk(&origin(1), &payload(1));
    assert_eq!(unknown, Err(CertifyError::ChunksUnknown));
    assert!(log.state.check_chunk(&origin(1), &payload(0)).is_ok());
    log.append(EntryKind::Chunk, &payload(0)).unwrap();
    let again = log.state.check_chunk(&origin(2), &payload(0));
    assert!(
        matches!(again, Err(CertifyError::Malformed(_))),
        "{again:?}"
    );
    assert!(log.state.check_chunk(&origin(2), &payload(1)).is_ok());
    let garbage = Bytes::from_static(b"\x01garbage");
    assert!(log.state.check_chunk(&origin(2), &garbage).is_err());
}

#[test]
fn action_with_unknown_chunks_is_not_certified() {
    let mut log = Log::new();
    let last = piece("a", 0, 5, 2).encode();
    let certify = |log: &Log| log.state.certify(&origin(9), &last).unwrap_err();
    assert_eq!(certify(&log), CertifyError::ChunksUnknown);
    let data = Bytes::from_static(b"x");
    log.append(EntryKind::Chunk, &chunk(Part::Data, 0, data))
        .unwrap();
    assert_eq!(certify(&log), CertifyError::ChunksUnknown);
}

#[test]
fn last_piece_ends_an_action_whose_first_chunks_are_unknown() {
    let mut log = Log::new();
    let data = Bytes::from_static(b"x");
    log.append(EntryKind::Chunk, &chunk(Part::Data, 1, data))
        .unwrap();
    assert_eq!(
        log.state.partial_actions().first_chunk(),
        Some(LogIndex(0)),
        "before every entry"
    );
    let last = piece("a", 0, 5, 2).encode();
    assert!(log.append(EntryKind::Action, &last).is_err());
    let header = EntryHeader {
        index: LogIndex(2),
        seqno: Seqno(1),
        ..log
            .append(EntryKind::Action, &piece("b", 0, 0, 0).encode())
            .unwrap()
    };
    log.state.committed(&header);
    assert_eq!(log.state.partial_actions().first_chunk(), None);
}

#[test]
fn truncated_chunks_are_forgotten_and_their_action_continues() {
    let mut log = Log::new();
    for chunk_index in 0..2 {
        let data = Bytes::from_static(b"x");
        log.append(EntryKind::Chunk, &chunk(Part::Data, chunk_index, data))
            .unwrap();
    }
    let last = piece("a", 0, 5, 2).encode();
    log.append(EntryKind::Action, &last).unwrap();
    log.truncate(2, 0);
    assert!(!conflicts(&log, "a", 0));
    let again = chunk(Part::Data, 1, Bytes::from_static(b"x"));
    assert!(log.state.check_chunk(&origin(9), &again).is_ok());
    log.truncate(1, 0);
    assert_eq!(log.state.partial_actions().first_chunk(), None);
}

#[test]
fn discard_ends_an_action_that_is_not_continued() {
    let mut log = Log::new();
    log.append(EntryKind::Chunk, &chunk(Part::Data, 0, Bytes::new()))
        .unwrap();
    let stale = log.state.partial_actions().stale(Time(2), Duration::ZERO);
    let [id] = stale.as_slice() else {
        panic!("one action is partial")
    };
    let last = piece("a", 0, 5, 1).encode();
    assert!(log.state.certify(&origin(9), &last).is_ok());
    let header = log
        .append(EntryKind::Discard, &Discard::Action(*id).encode())
        .unwrap();
    let late = log.state.certify(&origin(9), &last);
    assert!(late.is_err(), "its chunks will be forgotten: {late:?}");
    assert!(
        log.state
            .partial_actions()
            .stale(Time(2), Duration::ZERO)
            .is_empty()
    );
    log.state.committed(&header);
    assert_eq!(log.state.partial_actions().first_chunk(), None);
}

#[test]
fn withdrawal_is_refused_and_names_what_the_log_has_of_its_action() {
    let action = Action {
        class: Class::WriteSet { pa_unsafe: false },
        keys: KeySet::new(),
        last_seen: 0,
        data: Bytes::from(vec![1; 4000]),
    };
    let mut log = Log::new();
    let mut pieces = split_into_chunks(&action, 0, 1000, 5);
    let (kind, withdrawal) = pieces.withdrawal().unwrap().into_proposal();
    let refused = |log: &Log| {
        let checked = log.state.check_chunk(&origin(9), &withdrawal);
        assert_eq!(checked, Err(CertifyError::ChunksUnknown));
        log.state.refused(&origin(9), kind, &withdrawal)
    };
    assert_eq!(refused(&log), None, "nothing of it came");
    while !pieces.is_at_last() {
        let (kind, payload) = pieces.next().unwrap().into_proposal();
        log.append(kind, &payload).unwrap();
        assert_eq!(refused(&log).map(|id| id.action_no), Some(5));
    }
    assert!(
        split_into_chunks(&action, 0, 5000, 5)
            .withdrawal()
            .is_none()
    );
}

#[test]
fn bulk_discard_ends_every_action_begun_by_its_index() {
    let mut log = Log::new();
    log.append(EntryKind::Chunk, &chunk(Part::Data, 0, Bytes::new()))
        .unwrap();
    let by = |index| Discard::BegunBy(LogIndex(index)).encode();
    log.append(EntryKind::Discard, &by(0)).unwrap();
    assert!(
        log.state.partial_actions().oldest().is_some(),
        "it began later"
    );
    let header = log.append(EntryKind::Discard, &by(1)).unwrap();
    assert_eq!(log.state.partial_actions().oldest(), None);
    let last = piece("a", 0, 5, 1).encode();
    let late = log.state.certify(&origin(9), &last).unwrap_err();
    assert_eq!(late, CertifyError::ChunksUnknown);
    let discarded = Some((header.index, LogIndex(1)));
    assert_eq!(log.state.partial_actions().last_bulk_discard(), discarded);
    log.truncate(3, 0);
    assert_eq!(
        log.state.partial_actions().last_bulk_discard(),
        None,
        "the earlier one is forgotten as well"
    );
    assert!(log.state.certify(&origin(9), &last).is_ok());
}

#[test]
fn action_that_cannot_be_decoded_conflicts_with_everything() {
    let mut log = Log::new();
    assert!(
        log.append(EntryKind::Action, &Bytes::from_static(b"?"))
            .is_err()
    );
    assert!(conflicts(&log, "any", 0));
    assert!(!conflicts(&log, "any", 1), "unless it has been seen");
    assert!(log.verdict(&Bytes::from_static(b"?")).is_err());
}

/// Keys of a giant with this many rows.
fn giant(rows: u32) -> Bytes {
    let mut keys = KeySet::new();
    for row in 0..rows {
        keys.append(&[b"db", b"t", row.to_string().as_bytes()], KeyType::Update);
    }
    keys.encode().into()
}

/// A log whose member compares the keys of actions with more than ten of them chunk by chunk.
fn log_with_giants() -> Log {
    let limits = CertLimits {
        run_above: 10,
        open_max: 1,
        ..CertLimits::default()
    };
    let state = CertificationState::new(LogIndex(0), Seqno(0), limits);
    Log {
        state,
        ..Log::new()
    }
}

/// Appends the keys of a giant in chunks of 200 bytes, all but the last of them, and returns the
/// last piece.
fn append_chunks(log: &mut Log, rows: u32) -> Bytes {
    let mut rest = giant(rows);
    let mut chunks = 0;
    while rest.len() > 200 {
        let payload = chunk(Part::Keys, chunks, rest.split_to(200));
        assert_eq!(log.state.check_chunk(&origin(1), &payload), Ok(()));
        log.append(EntryKind::Chunk, &payload).unwrap();
        chunks += 1;
    }
    let mut last = piece("", 0, 5, chunks);
    last.keys = rest;
    last.encode()
}

#[test]
fn giant_is_certified_by_all_its_chunks_and_holds_all_its_keys() {
    let mut log = log_with_giants();
    let last = append_chunks(&mut log, 100);
    let verdict = |log: &Log| log.state.certify(&origin(9), &last).unwrap();
    assert_eq!(verdict(&log), Verdict::Pass { depends_on: 0 });
    // The row came with the first chunks or with the last ones: it is found in any case.
    log.append(EntryKind::Action, &action("unwanted", 0))
        .unwrap();
    assert_eq!(verdict(&log), Verdict::Pass { depends_on: 0 });
    let header = log.append(EntryKind::Action, &last).unwrap();
    for row in ["0", "50", "99"] {
        assert!(conflicts(&log, row, 0), "{row}");
        assert!(!conflicts(&log, row, 2), "{row}");
    }
    assert!(!conflicts(&log, "100", 0));
    assert_eq!(log.state.committed(&header), Some(LogIndex(1)));
    assert!(conflicts(&log, "50", 0), "it stays in the window");
    log.state.advance_window(Seqno(2));
    assert_eq!(log.state.key_count(), 0);
}

#[test]
fn giant_is_refused_for_what_was_ordered_between_its_chunks_and_its_end() {
    let mut log = log_with_giants();
    let last = append_chunks(&mut log, 100);
    let before = log
        .append(EntryKind::Action, &action("unrelated", 0))
        .unwrap();
    // By another member: the origin of the log's own actions is that of the giant.
    let mut header = before;
    (header.index, header.seqno) = (LogIndex(before.index.0 + 1), Seqno(2));
    header.origin = other();
    log.state
        .appended(Time(1), &header, &action("50", 1))
        .unwrap();
    let verdict = log.state.certify(&origin(9), &last);
    assert_eq!(verdict, Ok(Verdict::Conflict { with: 2 }));
    // The next chunk, whatever it holds, is refused at once.
    let next = chunk(Part::Data, 8, Bytes::from_static(b"data"));
    let doomed = log.state.check_chunk(&origin(9), &next);
    assert_eq!(doomed, Err(CertifyError::Doomed { with: Seqno(2) }));
    let refused = log.state.refused(&origin(9), EntryKind::Chunk, &next);
    assert_eq!(refused.map(|id| id.action_no), Some(5));
    log.state.truncated(header.index);
    assert_eq!(log.state.check_chunk(&origin(9), &next), Ok(()));
    let verdict = log.state.certify(&origin(9), &last);
    assert_eq!(verdict, Ok(Verdict::Pass { depends_on: 0 }));
}

#[test]
fn giant_whose_chunks_are_truncated_continues_from_there() {
    let mut log = log_with_giants();
    let last = append_chunks(&mut log, 100);
    let chunks = log.index;
    for kept in [0, 1, 4] {
        log.truncate(kept + 1, 0);
        let again = giant(100);
        for at in kept..chunks {
            let from = at as usize * 200;
            let part = again.slice(from..from + 200);
            let payload = chunk(Part::Keys, at as u32, part);
            assert_eq!(log.state.check_chunk(&origin(9), &payload), Ok(()));
            log.append(EntryKind::Chunk, &payload).unwrap();
        }
        assert!(log.state.certify(&origin(9), &last).is_ok(), "{kept}");
    }
    log.append(EntryKind::Action, &last).unwrap();
    assert!(conflicts(&log, "50", 0));
}

#[test]
fn keys_wait_if_too_many_giants_are_compared_and_are_bounded() {
    let mut log = log_with_giants();
    append_chunks(&mut log, 100);
    let encoded = giant(200);
    let of_second = |at: usize| {
        let bytes = encoded.slice(at * 200..(at + 1) * 200);
        let (part, chunk_index, action_no) = (Part::Keys, at as u32, 6);
        let chunk = Chunk {
            part,
            chunk_index,
            action_no,
            bytes,
        };
        chunk.encode()
    };
    let mut refused = None;
    for at in 0..10 {
        match log.state.check_chunk(&origin(9), &of_second(at)) {
            Ok(()) => drop(log.append(EntryKind::Chunk, &of_second(at)).unwrap()),
            Err(error) => {
                refused = Some((at, error));
                break;
            }
        }
    }
    assert!(
        matches!(refused, Some((4, CertifyError::TooMuch(_)))),
        "{refused:?}"
    );
    // Once the first has ended, there is a place.
    let id = PartialActionId::of(&origin(1), 5);
    let discard = Discard::Action(id).encode();
    let header = log.append(EntryKind::Discard, &discard).unwrap();
    log.state.committed(&header);
    log.append(EntryKind::Chunk, &of_second(4)).unwrap();
    assert_eq!(log.state.check_chunk(&origin(9), &of_second(5)), Ok(()));
}

//! Delivery from logs in memory, with chunks, discards and purges.

use super::*;
use crate::SessionHistory;
use crate::host::{DataChunk, DonorRequest, Level, Remedy, StateTransferEvent};
use crate::payload::action::{Action, Piece, split_into_chunks};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use synod_certify::{Class, KeySet, KeyType};
use synod_consensus::{ConfigAt, EntryHeader, GroupId, LogBase, Origin, SessionId, Term};
use synod_log::{Log, LogOptions, LogWriter, MemoryFiles};

/// A host that takes `wanted` deliveries, then stops; zero: it takes one.
#[derive(Default)]
pub(crate) struct Sink {
    wanted: usize,
    taken: Mutex<Vec<Delivery>>,
    /// The host has no room: it would have to wait.
    is_full: AtomicBool,
    /// Chunks that the host takes before it stops; none: it takes actions as wholes.
    chunks_wanted: Option<usize>,
    chunks: Mutex<Vec<DataChunk>>,
    entries_skipped: Mutex<usize>,
}

impl Sink {
    fn endless() -> Arc<Sink> {
        Arc::new(Sink {
            wanted: usize::MAX,
            ..Sink::default()
        })
    }
}

impl Host for Sink {
    fn log(&self, _level: Level, _text: &str) {}
    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let mut taken = self.taken.lock().unwrap();
        taken.push(delivery);
        if taken.len() < self.wanted {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
    fn takes_now(&self) -> bool {
        !self.is_full.load(atomic::Ordering::SeqCst)
    }
    fn takes_chunks(&self) -> bool {
        self.chunks_wanted.is_some()
    }
    fn deliver_chunk(&self, chunk: DataChunk) -> ControlFlow<()> {
        let mut chunks = self.chunks.lock().unwrap();
        chunks.push(chunk);
        match Some(chunks.len()) < self.chunks_wanted {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
    fn entries_skipped(&self) {
        *self.entries_skipped.lock().unwrap() += 1;
    }
    fn joined(&self, _view: &View) {}
    fn primary_changed(&self, _primary: bool) {}
    fn donate(&self, _request: DonorRequest) {}
    fn state_transfer_event(&self, _id: u64, _news: StateTransferEvent) {}
    fn allows(&self, _ip: &str) -> bool {
        true
    }
    fn failed(&self, _why: &str, _remedy: Remedy) {}
}

pub(crate) struct Fixture {
    writer: LogWriter,
    pub(crate) reader: LogReader,
    index: u64,
    seqno: i64,
}

impl Fixture {
    pub(crate) fn new(base: LogBase) -> Fixture {
        Fixture::with(base, LogOptions::default())
    }

    fn in_small_segments() -> Fixture {
        let options = LogOptions {
            segment_bytes: 64 << 10,
            ..LogOptions::default()
        };
        Fixture::with(LogBase::default(), options)
    }

    fn with(base: LogBase, options: LogOptions) -> Fixture {
        let files = Arc::new(MemoryFiles::new(1));
        let dir = std::path::Path::new("/log");
        let mut opened = Log::open(files, dir, options).unwrap();
        opened.writer.set_group(GroupId([1; 16])).unwrap();
        let (index, seqno) = (base.last.index.0, base.seqno.0);
        if index > 0 {
            opened.writer.reset(base).unwrap();
        }
        Fixture {
            writer: opened.writer,
            reader: opened.reader,
            index,
            seqno,
        }
    }

    pub(crate) fn append(&mut self, kind: EntryKind, payload: Bytes) {
        self.index += 1;
        self.seqno += i64::from(kind.is_ordered());
        let header = EntryHeader {
            term: Term(1),
            index: LogIndex(self.index),
            seqno: Seqno(self.seqno),
            kind,
            origin: Origin::new(MemberId(1), SessionId(2), self.index),
            depends_on: if kind.is_ordered() {
                Seqno(self.seqno - 1)
            } else {
                Seqno::UNDEFINED
            },
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(&payload),
        };
        self.writer.append(&[Entry { header, payload }]).unwrap();
    }

    fn small(&mut self) {
        for piece in split_into_chunks(&action(10), 0, 1000, 0) {
            let (Piece::Chunk(payload) | Piece::Last(payload)) = piece;
            self.append(EntryKind::Action, payload);
        }
    }

    /// Chunks in more than one segment, and not the last piece.
    fn chunks(&mut self, number: u64) {
        for piece in split_into_chunks(&action(400_000), 0, 20_000, number) {
            if let Piece::Chunk(payload) = piece {
                self.append(EntryKind::Chunk, payload);
                self.writer.sync().unwrap();
            }
        }
    }

    /// The same, and what discards their action.
    fn discarded_chunks(&mut self, number: u64) {
        self.chunks(number);
        let discard = Discard::BegunBy(LogIndex(self.index)).encode();
        self.append(EntryKind::Discard, discard);
    }

    /// The first `wanted` deliveries after the action `after`, or the text of the error.
    fn deliver(&self, after: i64, wanted: usize) -> Result<Vec<Delivery>, String> {
        let host = Arc::new(Sink {
            wanted,
            ..Sink::default()
        });
        self.deliver_to(&host, after)?;
        let taken = host.taken.lock().unwrap().clone();
        Ok(taken)
    }

    /// Delivers everything after `after`; returns what other threads see of it.
    fn deliver_all(&self, after: i64) -> Arc<Shared> {
        let host = Sink::endless();
        self.deliver_to(&host, after).unwrap()
    }

    fn deliver_to(&self, host: &Arc<Sink>, after: i64) -> Result<Arc<Shared>, String> {
        let (mut deliverer, shared) = self.deliverer(host, after);
        self.deliver_on(&mut deliverer, &shared)?;
        Ok(shared)
    }

    fn deliverer(&self, host: &Arc<Sink>, after: i64) -> (Deliverer, Arc<Shared>) {
        let shared = Arc::new(Shared::new(LogIndex(self.index), Seqno(after), || {}));
        let me = Me {
            member: MemberId(9),
            session: SessionId(9),
        };
        let (reader, after) = (self.reader.clone(), Seqno(after));
        let deliverer = Deliverer::new(reader, shared.clone(), host.clone(), me, after);
        (deliverer, shared)
    }

    /// Delivers all that the log has by now.
    fn deliver_on(&self, deliverer: &mut Deliverer, shared: &Shared) -> Result<(), String> {
        shared.publish_commit(LogIndex(self.index), Seqno(self.seqno));
        let era = shared.log_truncated(LogIndex(self.index + 1));
        shared.log_written(era, LogIndex(self.index));
        while deliverer.step(3).map_err(|error| error.to_string())? == Delivered::Some {}
        Ok(())
    }

    /// Purges what the log may lose up to here; returns the first index that is left.
    fn purge(&mut self, up_to: u64) -> u64 {
        let config = |_| Some(ConfigAt::default());
        self.writer.purge(LogIndex(up_to), &config).unwrap();
        self.reader.first_index().0
    }
}

fn action(bytes: usize) -> Action {
    let mut keys = KeySet::new();
    keys.append(&[b"db"], KeyType::Exclusive);
    Action {
        class: Class::WriteSet { pa_unsafe: false },
        keys,
        last_seen: 0,
        data: (0..bytes).map(|i| (i / 7) as u8).collect(),
    }
}

fn seqnos(deliveries: &[Delivery]) -> Vec<i64> {
    deliveries.iter().map(|d| d.seqno().0).collect()
}

fn data(delivery: &Delivery) -> &Bytes {
    match delivery {
        Delivery::Action { data, .. } => data.as_ref().unwrap(),
        Delivery::View(view) => panic!("{view:?}"),
    }
}

/// Chunks, then `between` small actions, then the last piece.
fn large_around(between: usize) -> (Fixture, Action) {
    let mut log = Fixture::new(LogBase::default());
    let action = action(20_000);
    log.small();
    for piece in split_into_chunks(&action, 0, 1000, 3) {
        match piece {
            Piece::Chunk(payload) => log.append(EntryKind::Chunk, payload),
            Piece::Last(payload) => {
                (0..between).for_each(|_| log.small());
                log.append(EntryKind::Action, payload);
            }
        }
    }
    (log, action)
}

#[test]
fn everything_is_delivered_once_and_in_order() {
    let mut log = Fixture::new(LogBase::default());
    log.append(EntryKind::NoOp, Bytes::new());
    (0..3).for_each(|_| log.small());
    log.append(EntryKind::NoOp, Bytes::new());
    log.small();
    assert_eq!(seqnos(&log.deliver(0, 4).unwrap()), [1, 2, 3, 4]);
    assert_eq!(seqnos(&log.deliver(2, 2).unwrap()), [3, 4]);
    assert_eq!(seqnos(&log.deliver(-1, 4).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn what_takes_no_time_is_handed_over_at_once_and_the_rest_in_its_place() {
    let mut log = Fixture::new(LogBase::default());
    log.small();
    let host = Sink::endless();
    let (mut deliverer, shared) = log.deliverer(&host, 0);
    let seen = || seqnos(&host.taken.lock().unwrap());
    let commit = |log: &Fixture| {
        shared.publish_commit(LogIndex(log.index), Seqno(log.seqno));
        let era = shared.log_truncated(LogIndex(log.index + 1));
        shared.log_written(era, LogIndex(log.index));
    };
    commit(&log);
    assert!(!deliverer.step_now(), "it has not found its place yet");
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert!(deliverer.step_now(), "nothing is left");
    log.small();
    assert!(deliverer.step_now(), "nothing is committed");
    commit(&log);
    log.append(EntryKind::NoOp, Bytes::new());
    log.small();
    commit(&log);
    assert!(deliverer.step_now());
    assert_eq!(seen(), [1, 2, 3]);
    log.small();
    commit(&log);
    host.is_full.store(true, atomic::Ordering::SeqCst);
    assert!(!deliverer.step_now());
    host.is_full.store(false, atomic::Ordering::SeqCst);
    // A large action is for the thread: its chunks may be on the disk.
    for piece in split_into_chunks(&action(20_000), 0, 1000, 3) {
        match piece {
            Piece::Chunk(payload) => log.append(EntryKind::Chunk, payload),
            Piece::Last(payload) => log.append(EntryKind::Action, payload),
        }
    }
    log.small();
    commit(&log);
    assert!(!deliverer.step_now());
    assert_eq!(seen(), [1, 2, 3, 4]);
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(seen(), [1, 2, 3, 4, 5, 6]);
    assert!(deliverer.step_now());
    (0..100).for_each(|_| log.small());
    commit(&log);
    assert!(!deliverer.step_now(), "so many are for the thread");
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(seen(), (1..=106).collect::<Vec<_>>());
}

#[test]
fn chunks_before_the_start_are_found_by_searching_backwards() {
    let (log, action) = large_around(1500);
    let last = log.seqno;
    for after in [0, 1, last - 700, last - 1] {
        let wanted = usize::try_from(last - after).unwrap();
        let delivered = log.deliver(after, wanted).unwrap();
        assert!(
            *data(delivered.last().unwrap()) == action.data,
            "after {after}"
        );
    }
}

#[test]
fn large_action_comes_in_chunks_to_a_host_that_takes_them() {
    let (log, action) = large_around(3);
    let host = |chunks: usize| {
        Arc::new(Sink {
            wanted: usize::MAX,
            chunks_wanted: Some(chunks),
            ..Sink::default()
        })
    };
    for after in [0, log.seqno - 1] {
        let host = host(usize::MAX);
        log.deliver_to(&host, after).unwrap();
        let (chunks, taken) = (host.chunks.lock().unwrap(), host.taken.lock().unwrap());
        let last = taken.last().unwrap();
        let most = chunks.iter().map(|chunk| chunk.data.len()).max();
        assert!(chunks.len() > 9 && most <= Some(1000), "{most:?}");
        for chunk in chunks.iter() {
            assert_eq!(chunk.seqno, last.seqno());
            assert_eq!(chunk.depends_on, Seqno(log.seqno - 1));
            assert_eq!(chunk.action_bytes, action.data.len());
        }
        let parts: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk.data[..]).collect();
        assert!([parts.concat(), data(last).to_vec()].concat() == action.data);
        assert_eq!(seqnos(&taken), (after + 1..=log.seqno).collect::<Vec<_>>());
    }
    let stopping = host(3);
    log.deliver_to(&stopping, 0).unwrap();
    assert_eq!(stopping.chunks.lock().unwrap().len(), 3);
    assert_eq!(stopping.taken.lock().unwrap().len(), 4, "small ones only");
}

#[test]
fn discarded_action_needs_no_chunks_wherever_delivery_began() {
    let mut log = Fixture::new(LogBase::default());
    let mut pieces = split_into_chunks(&action(20_000), 0, 1000, 3);
    let mut chunk = |log: &mut Fixture| match pieces.next() {
        Some(Piece::Chunk(payload)) => log.append(EntryKind::Chunk, payload),
        _ => panic!("there are many chunks"),
    };
    log.small();
    chunk(&mut log);
    log.small();
    chunk(&mut log);
    let done = |log: &Fixture, after| log.deliver_all(after).delivered_index();
    assert_eq!(done(&log, 0), LogIndex(1));
    assert_eq!(done(&log, 2), LogIndex(3));
    let discard = Discard::BegunBy(LogIndex(2)).encode();
    log.append(EntryKind::Discard, discard);
    assert_eq!(done(&log, 0), LogIndex(5));
    assert_eq!(done(&log, 2), LogIndex(5));
}

/// One small action, chunks of an action that is then discarded, and another small action.
fn discarded_between(host: &Arc<Sink>) -> (Fixture, Deliverer, Arc<Shared>) {
    let mut log = Fixture::in_small_segments();
    log.small();
    let (mut deliverer, shared) = log.deliverer(host, 0);
    log.deliver_on(&mut deliverer, &shared).unwrap();
    log.discarded_chunks(3);
    log.small();
    (log, deliverer, shared)
}

#[test]
fn purged_entries_without_an_action_are_skipped() {
    let host = Sink::endless();
    let (mut log, mut deliverer, shared) = discarded_between(&host);
    let last = log.index;
    assert!(log.purge(last - 2) > 10, "chunks are gone");
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(seqnos(&host.taken.lock().unwrap()), [1, 2]);
    assert_eq!(*host.entries_skipped.lock().unwrap(), 1);
    assert_eq!(shared.delivered_index(), LogIndex(last));
}

#[test]
fn purged_action_is_never_skipped() {
    let host = Sink::endless();
    let (mut log, mut deliverer, shared) = discarded_between(&host);
    let second = log.index;
    log.chunks(4);
    let up_to = log.index;
    assert!(log.purge(up_to) > second, "the second action is gone");
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(shared.fetched.wanted().unwrap().from, at(2));
    no_member_has(&shared);
    let error = log.deliver_on(&mut deliverer, &shared).unwrap_err();
    assert!(error.contains("full copy"), "{error}");
    assert_eq!(seqnos(&host.taken.lock().unwrap()), [1]);
}

/// Two actions, chunks of one that is discarded, and an action.
fn discarded_before_the_last() -> Fixture {
    let mut log = Fixture::in_small_segments();
    log.small();
    log.small();
    log.discarded_chunks(3);
    log.small();
    log
}

#[test]
fn what_no_member_has_is_skipped_if_no_action_is_among_it() {
    let whole = discarded_before_the_last();
    let mut purged = discarded_before_the_last();
    assert!(purged.purge(purged.index - 2) > 10, "actions are gone");
    let base = purged.reader.first_index().prev();
    let host = Sink::endless();
    let (mut deliverer, shared) = purged.deliverer(&host, 0);
    purged.deliver_on(&mut deliverer, &shared).unwrap();
    // Another member has the two actions. The chunks after them are nowhere by then.
    answer_from(&whole.reader, base, &shared);
    purged.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(shared.fetched.wanted().unwrap().from, at(3));
    no_member_has(&shared);
    purged.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(seqnos(&host.taken.lock().unwrap()), [1, 2, 3]);
    assert_eq!(*host.entries_skipped.lock().unwrap(), 1);
}

#[test]
fn missing_chunk_is_reported() {
    let mut log = Fixture::new(LogBase::default());
    for piece in split_into_chunks(&action(20_000), 0, 1000, 3).skip(1) {
        match piece {
            Piece::Chunk(payload) => log.append(EntryKind::Chunk, payload),
            Piece::Last(payload) => log.append(EntryKind::Action, payload),
        }
    }
    let (mut deliverer, shared) = log.deliverer(&Sink::endless(), 0);
    let mut error = None;
    while error.is_none() {
        error = log.deliver_on(&mut deliverer, &shared).err();
        no_member_has(&shared);
    }
    let error = error.unwrap();
    assert!(
        error.contains("incomplete") && error.contains("full copy"),
        "{error}"
    );
}

#[test]
fn position_before_the_log_is_never_skipped() {
    let mut base = LogBase::default();
    (base.last.index, base.last.term) = (LogIndex(50), Term(1));
    base.seqno = Seqno(40);
    let mut log = Fixture::new(base);
    (0..3).for_each(|_| log.small());
    assert_eq!(seqnos(&log.deliver(40, 3).unwrap()), [41, 42, 43]);
    let host = Sink::endless();
    let (mut deliverer, shared) = log.deliverer(&host, 39);
    log.deliver_on(&mut deliverer, &shared).unwrap();
    assert_eq!(
        shared.fetched.wanted().unwrap().from,
        FetchFrom::After(Seqno(39))
    );
    no_member_has(&shared);
    let error = log.deliver_on(&mut deliverer, &shared).unwrap_err();
    assert!(
        error.contains("full copy") && error.contains("node2 has nothing"),
        "{error}"
    );
    assert!(host.taken.lock().unwrap().is_empty());
}

fn at(index: u64) -> FetchFrom {
    FetchFrom::At(LogIndex(index))
}

/// All other members say that they do not have what is wanted.
fn no_member_has(shared: &Shared) {
    if let Some(wish) = shared.fetched.wanted() {
        let asked = "node2 has nothing".to_owned();
        shared.put_fetched(wish, Err(NotFetched { asked }));
    }
}

/// Answers what is wanted from the log of another member, two entries at a time.
fn answer_from(other: &LogReader, base: LogIndex, shared: &Shared) {
    let Some(wish) = shared.fetched.wanted() else {
        return;
    };
    let from = match wish.from {
        FetchFrom::At(index) => index,
        FetchFrom::After(seqno) => start_index(other, seqno).unwrap().unwrap(),
    };
    let to = wish.to.unwrap_or(base).min(base).min(from.next());
    let entries = other.read(from, to, READ_BYTES).unwrap();
    assert!(entries.len() <= 2);
    shared.put_fetched(wish, Ok(entries));
}

/// Actions, a large one among them that begins with the first entry and ends in the log that is
/// left of it; and the same log, of which only the end is left.
fn whole_and_purged() -> (Fixture, Fixture) {
    let make = || {
        let mut log = Fixture::in_small_segments();
        let pieces: Vec<Piece> = split_into_chunks(&action(400_000), 0, 20_000, 3).collect();
        for (number, piece) in pieces.into_iter().enumerate() {
            if number.is_multiple_of(3) {
                log.small();
                log.append(EntryKind::NoOp, Bytes::new());
            }
            match piece {
                Piece::Chunk(payload) => log.append(EntryKind::Chunk, payload),
                Piece::Last(payload) => log.append(EntryKind::Action, payload),
            }
            log.writer.sync().unwrap();
        }
        log
    };
    let mut purged = make();
    let up_to = purged.index - 3;
    assert!(purged.purge(up_to) > 10);
    (make(), purged)
}

#[test]
fn what_the_log_lacks_is_fetched_and_then_delivery_continues_from_the_log() {
    let (whole, purged) = whole_and_purged();
    let base = purged.reader.first_index().prev();
    for after in [0, 1, 2, 4] {
        let expected = whole
            .deliver(after, (whole.seqno - after) as usize)
            .unwrap();
        let host = Sink::endless();
        let (mut deliverer, shared) = purged.deliverer(&host, after);
        let mut questions = 0;
        loop {
            purged.deliver_on(&mut deliverer, &shared).unwrap();
            if shared.fetched.wanted().is_none() {
                break;
            }
            questions += 1;
            answer_from(&whole.reader, base, &shared);
        }
        let taken = host.taken.lock().unwrap();
        assert_eq!(seqnos(&taken), seqnos(&expected), "after {after}");
        for (one, other) in taken.iter().zip(&expected) {
            assert!(data(one) == data(other), "after {after}");
        }
        assert!(questions > 5, "{questions}");
        assert_eq!(shared.delivered_index(), LogIndex(purged.index));
    }
}

#[test]
fn sessions_are_found_in_what_is_fetched_too() {
    let (whole, purged) = whole_and_purged();
    let base = purged.reader.first_index().prev();
    let (_, shared) = purged.deliverer(&Sink::endless(), 0);
    let (after, up_to) = (Seqno(1), Seqno(purged.seqno));
    let mut history = SessionHistory::new(after, up_to);
    let mut questions = 0;
    let sessions = loop {
        if let Some(found) = history.read_on(&purged.reader, &shared).unwrap() {
            break found;
        }
        questions += 1;
        assert!(!shared.fetched.wanted().unwrap().with_payloads);
        answer_from(&whole.reader, base, &shared);
    };
    assert!(questions > 3, "{questions}");
    assert_eq!(sessions, [(MemberId(1), SessionId(2))].into());
    let mut history = SessionHistory::new(after, up_to);
    assert!(history.read_on(&purged.reader, &shared).unwrap().is_none());
    no_member_has(&shared);
    let error = history.read_on(&purged.reader, &shared).unwrap_err();
    assert!(error.to_string().contains("node2 has nothing"), "{error}");
}

/// A follower of a log of which everything is committed.
fn follower(log: &Fixture, after: i64) -> Result<Follower, FollowError> {
    let shared = Arc::new(Shared::new(LogIndex(log.index), Seqno(0), || {}));
    commit(log, &shared, log.index);
    Follower::after(log.reader.clone(), shared, Seqno(after))
}

fn commit(log: &Fixture, shared: &Shared, up_to: u64) {
    shared.publish_commit(LogIndex(up_to), Seqno(log.seqno));
    let era = shared.log_truncated(LogIndex(log.index + 1));
    shared.log_written(era, LogIndex(log.index));
}

/// Everything that follows, with the data of each action.
fn followed(follower: &mut Follower) -> Vec<(i64, Bytes)> {
    let mut all = Vec::new();
    while let Some(Followed::Action(action)) = follower.advance().unwrap() {
        let (own, chunks) = action.places.split_last().unwrap();
        let mut data = Vec::new();
        for place in chunks {
            data.extend_from_slice(&follower.data_at(*place).unwrap());
        }
        assert_eq!(follower.data_at(*own).unwrap(), action.last);
        data.extend_from_slice(&action.last);
        all.push((action.seqno.0, data.into()));
    }
    all
}

#[test]
fn followers_get_what_is_committed_each_from_its_place() {
    let (log, large) = large_around(3);
    for after in [0, 1, 3] {
        let mut follower = follower(&log, after).unwrap();
        let all = followed(&mut follower);
        let numbers: Vec<i64> = all.iter().map(|(seqno, _)| *seqno).collect();
        assert_eq!(numbers, (after + 1..=log.seqno).collect::<Vec<_>>());
        assert!(all.last().unwrap().1 == large.data, "after {after}");
        assert_eq!(follower.last(), Seqno(log.seqno));
    }
}

#[test]
fn follower_waits_for_the_commit_of_what_the_log_has() {
    let mut log = Fixture::new(LogBase::default());
    (0..3).for_each(|_| log.small());
    let shared = Arc::new(Shared::new(LogIndex(log.index), Seqno(0), || {}));
    commit(&log, &shared, 1);
    let mut follower = Follower::after(log.reader.clone(), shared.clone(), Seqno(0)).unwrap();
    assert_eq!(followed(&mut follower).len(), 1);
    commit(&log, &shared, 3);
    assert_eq!(followed(&mut follower).len(), 2);
}

/// A few actions may be as large as a log may be.
#[test]
fn follower_holds_nothing_that_it_has_passed() {
    let mut log = Fixture::new(LogBase::default());
    (0..3).for_each(|_| log.small());
    let shared = Arc::new(Shared::new(LogIndex(log.index), Seqno(0), || {}));
    commit(&log, &shared, 3);
    let mut follower = Follower::after(log.reader.clone(), shared.clone(), Seqno(0)).unwrap();
    assert_eq!(shared.readers.slowest(), None, "it was not asked to hold");
    for passed in [0, 1, 3] {
        follower.hold_after(Seqno(passed));
        assert_eq!(shared.readers.slowest(), Some(Seqno(passed)));
    }
    drop(follower);
    assert_eq!(shared.readers.slowest(), None);
}

#[test]
fn follower_is_told_where_a_purged_log_begins() {
    let host = Sink::endless();
    let (mut log, _, _) = discarded_between(&host);
    let mut early = follower(&log, 1).unwrap();
    let last = log.index;
    assert!(log.purge(last - 2) > 10, "chunks are gone");
    let late = match follower(&log, 0) {
        Err(FollowError::Purged { first }) => first,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("action 1 is gone"),
    };
    assert_eq!(late, Seqno(2));
    // There was no action among what was purged.
    assert_eq!(followed(&mut early).len(), 1);
}

#[test]
fn looking_back_finds_the_actions_of_a_session_and_views() {
    let (log, _) = large_around(3);
    let mut follower = follower(&log, 4).unwrap();
    let own = (MemberId(1), SessionId(2));
    let end = LogIndex(log.index + 1);
    let mut found = Vec::new();
    let mut take = |followed| {
        if let Followed::Action(action) = followed {
            found.push((action.seqno.0, action.places.len()));
        }
        ControlFlow::Continue(())
    };
    let first = follower.first_index();
    follower.look_at(first, end, own, &mut take).unwrap();
    let other = (MemberId(7), SessionId(2));
    follower.look_at(first, end, other, &mut take).unwrap();
    let seqnos: Vec<i64> = found.iter().map(|(seqno, _)| *seqno).collect();
    assert_eq!(seqnos, [1, 2, 3, 4, 5]);
    assert!(found.last().unwrap().1 > 10, "it has many chunks");
    let mut looked = 0;
    let mut once = |_| {
        looked += 1;
        ControlFlow::Break(())
    };
    follower.look_at(first, end, own, &mut once).unwrap();
    assert_eq!(looked, 1);
    assert_eq!(
        followed(&mut follower).len(),
        1,
        "its own place has not changed"
    );
}

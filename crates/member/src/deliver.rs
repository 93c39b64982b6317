//! Delivery, step by step: committed entries are read from the log and handed to the host, in order,
//! on their own path to the disk, so that a member far behind never slows the commit path.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno};
use synod_log::{Entry, LogError, LogReader};

use crate::driver::Me;
use crate::host::{Delivery, Host};
use crate::payload::action::{ActionPiece, Chunk, Part, PayloadError};
use crate::payload::decision::OutcomeDecision;
use crate::payload::discard::{Discard, PartialActionId};
use crate::payload::view::View;
use crate::shared::Shared;

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;
/// Entries looked at in one step when searching backwards for chunks.
const BACK_SCAN_ENTRIES: u64 = 512;

/// Why delivery cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// The log cannot be read.
    #[error("{0}")]
    Log(LogError),
    /// What comes next was dropped from the log.
    #[error(
        "the log starts at {first}, but this member's database needs the actions after {after}. It needs \
         a full copy, which it takes when it is started again"
    )]
    Purged {
        /// Where the database is.
        after: Seqno,
        /// What the log begins with.
        first: Seqno,
    },
    /// The log does not have the next action where it should be.
    #[error("the log has action {found} where {expected} is next: it is damaged")]
    Gap {
        /// The next action.
        expected: Seqno,
        /// What is there.
        found: Seqno,
    },
    /// An entry is not what its kind says.
    #[error("entry {index} cannot be read: {source}")]
    Payload {
        /// Which.
        index: LogIndex,
        /// Why.
        source: PayloadError,
    },
    /// Chunks of an action were dropped from the log.
    #[error(
        "action {seqno} of member {member} is incomplete: {found} of {expected} chunks are in the log. \
         This member needs a full copy, which it takes when it is started again"
    )]
    MissingChunks {
        /// The action.
        seqno: Seqno,
        /// Whose.
        member: MemberId,
        /// Chunks in the log.
        found: usize,
        /// Chunks it has.
        expected: usize,
    },
}

impl DeliverError {
    /// Whether the next start would fail in the same way: the log begins in the middle of an action, which
    /// is not to be seen from where it begins.
    pub fn lasts(&self) -> bool {
        matches!(self, DeliverError::MissingChunks { .. })
    }
}

impl From<LogError> for DeliverError {
    fn from(error: LogError) -> DeliverError {
        DeliverError::Log(error)
    }
}

/// What a step of delivery did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Something; there may be more.
    Some,
    /// There is nothing to do before the log moves on (see [`Shared::new`]).
    Nothing,
    /// The host takes nothing any more.
    Stopped,
}

/// Where delivery stands.
enum Position {
    /// Waits until the group has committed this action, as far as this member knows: a full copy may
    /// be ahead of its log.
    Copied(Seqno),
    /// Waits until the log can be read up to this index.
    Written(Seqno, LogIndex),
    /// Goes on with this index, after this action.
    At(LogIndex, Seqno),
}

/// Chunks seen of an action.
#[derive(Default)]
struct Unfinished {
    chunks: Vec<LogIndex>,
    /// Index of the first one; zero if delivery began behind it.
    begins: LogIndex,
}

/// Hands committed entries to the host, in order.
pub struct Deliverer {
    reader: LogReader,
    shared: Arc<Shared>,
    host: Arc<dyn Host>,
    me: Me,
    /// Actions not complete yet.
    open: BTreeMap<PartialActionId, Unfinished>,
    position: Position,
}

impl Deliverer {
    /// Delivers everything after `after`.
    pub fn new(
        reader: LogReader,
        shared: Arc<Shared>,
        host: Arc<dyn Host>,
        me: Me,
        after: Seqno,
    ) -> Deliverer {
        Deliverer {
            reader,
            shared,
            host,
            me,
            open: BTreeMap::new(),
            position: Position::Copied(after),
        }
    }

    /// Hands over what can be read, at most `entries_max` entries of the log. Waits as long as
    /// [`Host::deliver`] does, and for the disk.
    ///
    /// # Errors
    /// If the log does not have what the host needs next. Delivery is over then.
    pub fn step(&mut self, entries_max: u64) -> Result<Delivered, DeliverError> {
        let Some((mut next, mut last)) = self.position()? else {
            return Ok(Delivered::Nothing);
        };
        let readable = self.shared.readable();
        if readable < next {
            return Ok(Delivered::Nothing);
        }
        let to = LogIndex(next.0.saturating_add(entries_max - 1)).min(readable);
        let entries = match self.reader.read(next, to, READ_BYTES) {
            Err(LogError::Purged { .. }) => {
                if synod_planted::is(synod_planted::Bug::StopAtDropped) {
                    return Err(self.purged(last));
                }
                self.pass_over(last)?;
                return Ok(Delivered::Some);
            }
            read => read?,
        };
        for entry in entries {
            let header = &entry.header;
            assert_eq!(header.index, next, "the log is read without gaps");
            let is_new = header.seqno > last;
            if is_new && (header.seqno != last.next() || !header.kind.is_ordered()) {
                let (expected, found) = (last.next(), header.seqno);
                return Err(DeliverError::Gap { expected, found });
            }
            if (is_new || !header.kind.is_ordered()) && self.deliver(&entry)?.is_break() {
                return Ok(Delivered::Stopped);
            }
            last = last.max(header.seqno);
            self.shared
                .delivered
                .store(self.done_up_to(next).0, Ordering::Release);
            next = next.next();
            self.position = Position::At(next, last);
        }
        Ok(Delivered::Some)
    }

    /// The next index and the last action, once they are known.
    fn position(&mut self) -> Result<Option<(LogIndex, Seqno)>, DeliverError> {
        if let Position::Copied(after) = self.position {
            let (index, seqno) = self.shared.committed();
            if seqno < after {
                return Ok(None);
            }
            self.position = Position::Written(after, index);
        }
        if let Position::Written(after, index) = self.position {
            if self.shared.readable() < index {
                return Ok(None);
            }
            let last = after.max(Seqno(0));
            self.position = Position::At(self.start_index(last)?, last);
        }
        match self.position {
            Position::At(next, last) => Ok(Some((next, last))),
            Position::Copied(_) | Position::Written(..) => Ok(None),
        }
    }

    /// What came next was dropped from the log. If all that was no action, delivery goes on behind it. Of what
    /// began before, nothing is to come: a log keeps all chunks of what is not complete.
    fn pass_over(&mut self, last: Seqno) -> Result<(), DeliverError> {
        self.position = Position::At(self.start_index(last)?, last);
        self.open.clear();
        self.host.entries_skipped();
        Ok(())
    }

    fn purged(&self, after: Seqno) -> DeliverError {
        let first = self.reader.first_seqno_available();
        DeliverError::Purged { after, first }
    }

    /// Nothing at or before this index is needed again: chunks are read when their action is.
    fn done_up_to(&self, index: LogIndex) -> LogIndex {
        let chunks = self.open.values().filter_map(|open| open.chunks.first());
        chunks.min().map_or(index, |first| first.prev().min(index))
    }

    /// Index of the first entry to look at.
    fn start_index(&self, after: Seqno) -> Result<LogIndex, DeliverError> {
        // In this order: if the log drops more in between, the index is one that it has no more, and is looked for again.
        let first_index = self.reader.first_index();
        let first = self.reader.first_seqno_available();
        match after.next().cmp(&first) {
            std::cmp::Ordering::Less => Err(self.purged(after)),
            std::cmp::Ordering::Equal => Ok(first_index),
            std::cmp::Ordering::Greater => match self.reader.seek_seqno(after) {
                Err(LogError::SeqnoPurged { .. } | LogError::Purged { .. }) => Ok(first_index),
                found => Ok(found?.next()),
            },
        }
    }

    fn deliver(&mut self, entry: &Entry) -> Result<ControlFlow<()>, DeliverError> {
        let header = &entry.header;
        let broken = |source| DeliverError::Payload {
            index: header.index,
            source,
        };
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => Ok(ControlFlow::Continue(())),
            EntryKind::Chunk => {
                let chunk = Chunk::decode(entry.payload.clone()).map_err(broken)?;
                let id = PartialActionId::of(&header.origin, chunk.action_no);
                let open = self.open.entry(id).or_default();
                if chunk.chunk_index == 0 {
                    open.begins = header.index;
                }
                open.chunks.push(header.index);
                Ok(ControlFlow::Continue(()))
            }
            EntryKind::Discard => {
                match Discard::decode(entry.payload.clone()).map_err(broken)? {
                    Discard::Action(id) => {
                        self.open.remove(&id);
                    }
                    Discard::BegunBy(index) => {
                        self.open.retain(|_, open| open.begins > index);
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            EntryKind::Decision => {
                let decision = OutcomeDecision::decode(entry.payload.clone()).map_err(broken)?;
                self.host.deliver_decision(&decision);
                Ok(ControlFlow::Continue(()))
            }
            EntryKind::View => {
                let view = View::decode(header.seqno, entry.payload.clone()).map_err(broken)?;
                Ok(self.host.deliver(Delivery::View(view)))
            }
            EntryKind::Action => {
                let data = self.action_data(entry)?;
                Ok(self.host.deliver(Delivery::Action {
                    seqno: header.seqno,
                    depends_on: header.depends_on,
                    origin: header.origin,
                    data,
                }))
            }
        }
    }

    /// The action's data, or `None` if its own client finishes it.
    fn action_data(&mut self, entry: &Entry) -> Result<Option<Bytes>, DeliverError> {
        let header = &entry.header;
        let piece =
            ActionPiece::decode(entry.payload.clone()).map_err(|source| DeliverError::Payload {
                index: header.index,
                source,
            })?;
        let open = self
            .open
            .remove(&PartialActionId::of(&header.origin, piece.action_no));
        let is_mine =
            (header.origin.member, header.origin.session) == (self.me.member, self.me.session);
        if is_mine && self.shared.take_local(header.seqno) {
            return Ok(None);
        }
        if piece.action_no == 0 {
            return Ok(Some(piece.data));
        }
        self.assemble(entry, &piece, open.unwrap_or_default().chunks)
            .map(Some)
    }

    fn assemble(
        &self,
        entry: &Entry,
        piece: &ActionPiece,
        mut chunks: Vec<LogIndex>,
    ) -> Result<Bytes, DeliverError> {
        let expected = piece.chunks as usize;
        let missing = |found| DeliverError::MissingChunks {
            seqno: entry.header.seqno,
            member: entry.header.origin.member,
            found,
            expected,
        };
        if chunks.len() < expected && !synod_planted::is(synod_planted::Bug::MissingChunks) {
            chunks = self.search_chunks(entry, piece)?;
        }
        if chunks.len() != expected && !synod_planted::is(synod_planted::Bug::MissingChunks) {
            return Err(missing(chunks.len()));
        }
        let mut data = BytesMut::new();
        for (found, index) in chunks.into_iter().enumerate() {
            let entries = match self.reader.read(index, index, READ_BYTES) {
                Err(LogError::Purged { .. }) => return Err(missing(found)),
                read => read?,
            };
            for entry in entries {
                let chunk = Chunk::decode(entry.payload)
                    .map_err(|source| DeliverError::Payload { index, source })?;
                if chunk.part == Part::Data {
                    data.extend_from_slice(&chunk.bytes);
                }
            }
        }
        data.extend_from_slice(&piece.data);
        Ok(data.freeze())
    }

    /// Looks backwards for chunks that were before the place where delivery began.
    fn search_chunks(
        &self,
        last: &Entry,
        piece: &ActionPiece,
    ) -> Result<Vec<LogIndex>, DeliverError> {
        let wanted = PartialActionId::of(&last.header.origin, piece.action_no);
        let first = self.reader.first_index();
        let mut found = Vec::new();
        let mut end = last.header.index;
        while end > first && found.len() < piece.chunks as usize {
            let start = LogIndex(end.0.saturating_sub(BACK_SCAN_ENTRIES).max(first.0));
            let mut here = Vec::new();
            let mut next = start;
            while next < end {
                let entries = match self.reader.read(next, end.prev(), READ_BYTES) {
                    // Dropped meanwhile.
                    Err(LogError::Purged { first }) => {
                        next = first;
                        continue;
                    }
                    read => read?,
                };
                for entry in entries {
                    next = entry.header.index.next();
                    if is_chunk_of(&entry, &wanted) {
                        here.push(entry.header.index);
                    }
                }
            }
            here.append(&mut found);
            found = here;
            end = start;
        }
        Ok(found)
    }
}

fn is_chunk_of(entry: &Entry, wanted: &PartialActionId) -> bool {
    let origin = &entry.header.origin;
    entry.header.kind == EntryKind::Chunk
        && (origin.member, origin.session) == (wanted.member, wanted.session)
        && Chunk::decode(entry.payload.clone()).is_ok_and(|c| c.action_no == wanted.action_no)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::host::{DonorRequest, Level, StateTransferEvent};
    use crate::payload::action::{Action, Piece, split_into_chunks};
    use std::sync::Mutex;
    use synod_certify::{Class, KeySet, KeyType};
    use synod_consensus::{ConfigAt, EntryHeader, GroupId, LogBase, Origin, SessionId, Term};
    use synod_log::{Log, LogOptions, LogWriter, MemoryFiles};

    /// Takes so many deliveries, then stops.
    #[derive(Default)]
    pub(crate) struct Sink {
        wanted: usize,
        taken: Mutex<Vec<Delivery>>,
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
            match taken.len() < self.wanted {
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
        fn failed(&self, _why: &str) {}
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
                origin: Origin {
                    member: MemberId(1),
                    session: SessionId(2),
                    number: self.index,
                },
                depends_on: match kind.is_ordered() {
                    true => Seqno(self.seqno - 1),
                    false => Seqno::UNDEFINED,
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

        /// What is delivered after `after`, `wanted` deliveries long, or why that failed.
        fn deliver(&self, after: i64, wanted: usize) -> Result<Vec<Delivery>, String> {
            let host = Arc::new(Sink {
                wanted,
                ..Sink::default()
            });
            self.deliver_to(&host, after)?;
            let taken = host.taken.lock().unwrap().clone();
            Ok(taken)
        }

        /// Everything after `after`; what others see of that.
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

        /// All that the log has by now.
        fn deliver_on(&self, deliverer: &mut Deliverer, shared: &Shared) -> Result<(), String> {
            shared.publish_commit(LogIndex(self.index), Seqno(self.seqno));
            let era = shared.log_truncated(LogIndex(self.index + 1));
            shared.log_written(era, LogIndex(self.index));
            while deliverer.step(3).map_err(|error| error.to_string())? == Delivered::Some {}
            Ok(())
        }

        /// Drops what it may up to here; the first index that is left.
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
    fn chunks_before_the_start_are_found_by_looking_back() {
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
    fn what_is_given_up_holds_up_the_log_no_longer_wherever_delivery_began() {
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

    /// One small action, chunks of one that is given up then, and another small action.
    fn given_up_between(host: &Arc<Sink>) -> (Fixture, Deliverer, Arc<Shared>) {
        let options = LogOptions {
            segment_bytes: 64 << 10,
            ..LogOptions::default()
        };
        let mut log = Fixture::with(LogBase::default(), options);
        log.small();
        let (mut deliverer, shared) = log.deliverer(host, 0);
        log.deliver_on(&mut deliverer, &shared).unwrap();
        log.chunks(3);
        let discard = Discard::BegunBy(LogIndex(log.index)).encode();
        log.append(EntryKind::Discard, discard);
        log.small();
        (log, deliverer, shared)
    }

    #[test]
    fn what_is_dropped_and_no_action_is_passed_over() {
        let host = Sink::endless();
        let (mut log, mut deliverer, shared) = given_up_between(&host);
        let last = log.index;
        assert!(log.purge(last - 2) > 10, "chunks are gone");
        log.deliver_on(&mut deliverer, &shared).unwrap();
        assert_eq!(seqnos(&host.taken.lock().unwrap()), [1, 2]);
        assert_eq!(*host.entries_skipped.lock().unwrap(), 1);
        assert_eq!(shared.delivered_index(), LogIndex(last));
    }

    #[test]
    fn action_that_is_dropped_is_never_passed_over() {
        let host = Sink::endless();
        let (mut log, mut deliverer, shared) = given_up_between(&host);
        let second = log.index;
        log.chunks(4);
        let up_to = log.index;
        assert!(log.purge(up_to) > second, "the second action is gone");
        let error = log.deliver_on(&mut deliverer, &shared).unwrap_err();
        assert!(error.contains("full copy"), "{error}");
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
        let error = log.deliver(0, 1).unwrap_err();
        assert!(
            error.contains("incomplete") && error.contains("full copy"),
            "{error}"
        );
    }

    #[test]
    fn position_before_the_log_is_reported_and_never_skipped() {
        let mut base = LogBase::default();
        (base.last.index, base.last.term) = (LogIndex(50), Term(1));
        base.seqno = Seqno(40);
        let mut log = Fixture::new(base);
        (0..3).for_each(|_| log.small());
        assert_eq!(seqnos(&log.deliver(40, 3).unwrap()), [41, 42, 43]);
        let error = log.deliver(39, 3).unwrap_err();
        assert!(error.contains("full copy"), "{error}");
    }
}

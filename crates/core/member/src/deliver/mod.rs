//! Delivery: committed entries are read from the log and handed to the host, in order.
//!
//! A node calls [`Deliverer::step`] on a thread of its own, with its own way to the disk, so that a
//! member that lags far never slows the commit path. What takes no time may be handed over by the
//! thread that drives ([`Deliverer::step_now`]). Delivery keeps its place in three phases:
//!
//! ```text
//! Copied(after)          waits until the group has committed `after`: a full copy may be ahead
//!   -> Written(after, i) waits until this log can be read up to `i`, then the commit index
//!     -> Before(after)   the log begins later than what comes after `after`: that is fetched
//!     -> At(next, last)  reads from `next`; the last action handed over is `last`
//! ```
//!
//! Invariants: actions are handed over without gaps, each once. What was purged from the log before
//! it was handed over is fetched from another member ([`crate::fetch`]), or skipped if there was no
//! action among it; if no member has it, delivery fails. Chunks are read when the last piece of
//! their action is due ([`assembly`]).

mod assembly;
mod follow;
mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic;

use bytes::Bytes;
use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno};
use synod_log::{Entry, LogError, LogReader};
use synod_planted::planted;
use synod_wire::FetchFrom;

pub use self::follow::{FollowError, Followed, FollowedAction, Follower};

use self::assembly::{Assembling, Assembly};
use self::source::LogAndPeers;
use crate::driver::Me;
use crate::fetch::{FetchWish, NotFetched};
use crate::host::{Delivery, Host, Level, Remedy};
use crate::payload::action::{ActionPiece, Chunk, PayloadError};
use crate::payload::decision::OutcomeDecision;
use crate::payload::discard::{Discard, PartialActionId};
use crate::payload::view::View;
use crate::shared::Shared;

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;
/// Entries that [`Deliverer::step_now`] hands over at a time, at most.
const NOW_MAX: u64 = 64;

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("{0}")]
    Log(LogError),
    /// The next action was purged from the log, and from those of all members that are present.
    #[error(
        "the log starts at {first}, but this member's database needs the actions after {after}, \
         and no other member has them: {asked}. It needs a full copy (SST), which it takes when it \
         is started again"
    )]
    Purged {
        /// The last action in the database.
        after: Seqno,
        first: Seqno,
        /// The members that were asked, and the first actions of their logs, in words.
        asked: String,
    },
    /// The log has another action where the next one should be.
    #[error("the log has action {found} where {expected} is next: it is damaged")]
    Gap { expected: Seqno, found: Seqno },
    /// The payload of an entry is not what its kind says.
    #[error("entry {index} cannot be read: {source}")]
    Payload {
        index: LogIndex,
        source: PayloadError,
    },
    /// Chunks of an action were purged from the log.
    #[error(
        "action {seqno} of member {member} is incomplete: {found} of {expected} chunks are in the \
         log. This member needs a full copy (SST), which it takes when it is started again"
    )]
    MissingChunks {
        seqno: Seqno,
        member: MemberId,
        found: usize,
        expected: usize,
    },
}

impl DeliverError {
    pub fn remedy(&self) -> Remedy {
        match self {
            // A start sees by the position of the database whether it needs a full copy.
            DeliverError::Log(_) | DeliverError::Purged { .. } => Remedy::Restart,
            // The log starts inside a chunked action, which the position does not show.
            DeliverError::MissingChunks { .. } => Remedy::FullCopy,
            // It would be met again.
            DeliverError::Gap { .. } | DeliverError::Payload { .. } => Remedy::Operator,
        }
    }
}

impl From<LogError> for DeliverError {
    fn from(error: LogError) -> DeliverError {
        DeliverError::Log(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Entries were handed over or skipped; there may be more.
    Some,
    /// There is nothing to do before more of the log can be read (see [`Shared::new`]).
    Nothing,
    /// Entries are wanted that this member's log lacks: hand the driver [`crate::Event::Fetch`].
    /// Until they are there, which moves the log ([`Shared::new`]), there is nothing to do.
    Fetching,
    /// The host has stopped and takes no more deliveries.
    Stopped,
}

enum Position {
    /// Waits until the group has committed this action, as far as this member knows: a full copy
    /// may be ahead of its log.
    Copied(Seqno),
    /// Waits, after this action, until the log can be read up to this index.
    Written(Seqno, LogIndex),
    /// Continues right after this action, which is before the beginning of the log.
    Before(Seqno),
    /// Continues with this index, after this action.
    At(LogIndex, Seqno),
}

enum HandedOver {
    Done,
    Stopped,
    /// An entry has to be fetched first; this one is handed over again then.
    Fetching,
}

/// Hands committed entries to the host, in order.
pub struct Deliverer {
    reader: LogReader,
    shared: Arc<Shared>,
    host: Arc<dyn Host>,
    me: Me,
    assembly: Assembly,
    position: Position,
    /// Entries that were fetched and not handed over yet; they begin with the next one.
    ahead: VecDeque<Entry>,
    /// The next entry was fetched, and so is every one up to the log.
    is_fetching: bool,
    /// The action whose chunks are being read.
    assembling: Option<Assembling>,
}

impl Deliverer {
    /// Delivers everything after the action `after`, which the database holds.
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
            assembly: Assembly::default(),
            position: Position::Copied(after),
            ahead: VecDeque::new(),
            is_fetching: false,
            assembling: None,
        }
    }

    /// Hands over what can be read, at most `entries_max` entries of the log. Waits as long as
    /// [`Host::deliver`] does, and for the disk.
    pub fn step(&mut self, entries_max: u64) -> Result<Delivered, DeliverError> {
        self.find_position()?;
        let (next, last) = match self.position {
            Position::Copied(_) | Position::Written(..) => return Ok(Delivered::Nothing),
            Position::Before(after) => return self.fetch_after(after),
            Position::At(next, last) => (next, last),
        };
        let readable = self.shared.readable();
        if readable < next {
            return Ok(Delivered::Nothing);
        }
        if !self.ahead.is_empty() {
            return self.hand_over_fetched(entries_max);
        }
        let to = LogIndex(next.0.saturating_add(entries_max - 1)).min(readable);
        let entries = match self.reader.read(next, to, READ_BYTES) {
            Err(LogError::Purged { .. }) => return self.pass_purged(next, last),
            read => read?,
        };
        if std::mem::take(&mut self.is_fetching) {
            let text = format!(
                "what this member's log lacked has been fetched: delivery continues from it with \
                 entry {next}"
            );
            self.host.log(Level::Info, &text);
        }
        for entry in entries {
            match self.hand_over_next(&entry)? {
                HandedOver::Done => {}
                HandedOver::Stopped => return Ok(Delivered::Stopped),
                HandedOver::Fetching => return Ok(Delivered::Fetching),
            }
        }
        Ok(Delivered::Some)
    }

    fn hand_over_fetched(&mut self, entries_max: u64) -> Result<Delivered, DeliverError> {
        for _ in 0..entries_max {
            let Some(entry) = self.ahead.front().cloned() else {
                break;
            };
            match self.hand_over_next(&entry)? {
                HandedOver::Done => self.ahead.pop_front(),
                HandedOver::Stopped => return Ok(Delivered::Stopped),
                HandedOver::Fetching => return Ok(Delivered::Fetching),
            };
        }
        Ok(Delivered::Some)
    }

    fn hand_over_next(&mut self, entry: &Entry) -> Result<HandedOver, DeliverError> {
        match self.position {
            Position::At(next, last) => self.hand_over(entry, next, last),
            Position::Copied(_) | Position::Written(..) | Position::Before(_) => {
                unreachable!("entries are read from a place")
            }
        }
    }

    /// Hands over what can be read, unless that takes time: a wait of the host, a read from the
    /// disk, many entries. Returns whether nothing is left for [`Deliverer::step`], which also
    /// finds the reason if something is wrong.
    pub fn step_now(&mut self) -> bool {
        let Position::At(mut next, mut last) = self.position else {
            return false;
        };
        let readable = self.shared.readable();
        if readable < next {
            return true;
        }
        if readable.0 - next.0 >= NOW_MAX || !self.reader.is_in_memory(next) {
            return false;
        }
        let Ok(entries) = self.reader.read(next, readable, READ_BYTES) else {
            return false;
        };
        for entry in &entries {
            if !self.is_quick(entry) || !self.host.takes_now() {
                return false;
            }
            if !matches!(self.hand_over(entry, next, last), Ok(HandedOver::Done)) {
                return false;
            }
            last = last.max(entry.header.seqno);
            next = next.next();
        }
        next > readable
    }

    fn is_quick(&self, entry: &Entry) -> bool {
        match entry.header.kind {
            EntryKind::NoOp | EntryKind::Config | EntryKind::View => true,
            EntryKind::Chunk | EntryKind::Discard | EntryKind::Decision => false,
            EntryKind::Action => {
                ActionPiece::decode(entry.payload.clone()).is_ok_and(|piece| piece.action_no == 0)
            }
        }
    }

    /// Hands over the entry at `next`; the last action before it was `last`.
    fn hand_over(
        &mut self,
        entry: &Entry,
        next: LogIndex,
        last: Seqno,
    ) -> Result<HandedOver, DeliverError> {
        let header = &entry.header;
        assert_eq!(header.index, next, "the log is read without gaps");
        let is_new = header.seqno > last;
        if is_new && (header.seqno != last.next() || !header.kind.is_ordered()) {
            let (expected, found) = (last.next(), header.seqno);
            return Err(DeliverError::Gap { expected, found });
        }
        if is_new || !header.kind.is_ordered() {
            match self.deliver(entry)? {
                HandedOver::Done => {}
                other => return Ok(other),
            }
        }
        let delivered = self.delivered_up_to(next);
        self.shared
            .delivered
            .store(delivered.0, atomic::Ordering::Release);
        self.position = Position::At(next.next(), last.max(header.seqno));
        Ok(HandedOver::Done)
    }

    fn find_position(&mut self) -> Result<(), DeliverError> {
        if let Position::Copied(after) = self.position {
            let (index, seqno) = self.shared.committed();
            if seqno < after {
                return Ok(());
            }
            self.position = Position::Written(after, index);
        }
        if let Position::Written(after, index) = self.position {
            if self.shared.readable() < index {
                return Ok(());
            }
            let last = after.max(Seqno(0));
            self.position = match start_index(&self.reader, last)? {
                Some(next) => Position::At(next, last),
                None => self.before_the_log(last),
            };
        }
        Ok(())
    }

    fn before_the_log(&self, last: Seqno) -> Position {
        let reader = &self.reader;
        planted!(SkipUnfetched, Position::Before(last), else {
            Position::At(reader.first_index(), reader.first_seqno_available().prev())
        })
    }

    fn fetch_after(&mut self, after: Seqno) -> Result<Delivered, DeliverError> {
        let wish = FetchWish::all_from(FetchFrom::After(after), LogIndex(0));
        self.fetch(wish, after)
    }

    fn fetch(&mut self, wish: FetchWish, last: Seqno) -> Result<Delivered, DeliverError> {
        let entries = match self.shared.fetched.take(wish) {
            None => return Ok(Delivered::Fetching),
            Some(Err(NotFetched { asked })) => return Err(self.purged(last, asked)),
            Some(Ok(entries)) => entries,
        };
        if let Some(first) = entries.first() {
            self.position = Position::At(first.header.index, last);
            self.is_fetching = true;
        }
        self.ahead = entries.into();
        Ok(Delivered::Some)
    }

    fn purged(&self, after: Seqno, asked: String) -> DeliverError {
        let first = self.reader.first_seqno_available();
        DeliverError::Purged {
            after,
            first,
            asked,
        }
    }

    /// The next entries were purged from the log. If there was no action among them, delivery
    /// continues after them. No action that began among them or earlier can still be completed: a
    /// log keeps all chunks of partial actions. Otherwise they are fetched, and from then on
    /// everything is, up to the log; but for what no member has, if no action is among it.
    fn pass_purged(&mut self, next: LogIndex, last: Seqno) -> Result<Delivered, DeliverError> {
        let after_purged = start_index(&self.reader, last)?;
        match after_purged {
            Some(start) if !self.is_fetching => Ok(self.skip_to(start, last)),
            None | Some(_) => match self.fetch_from(next, last) {
                Err(error @ DeliverError::Purged { .. }) => {
                    let start = after_purged.ok_or(error)?;
                    Ok(self.skip_to(start, last))
                }
                fetched => fetched,
            },
        }
    }

    /// Continues with an entry of the log. No action is among those before it that are skipped.
    fn skip_to(&mut self, start: LogIndex, last: Seqno) -> Delivered {
        self.position = Position::At(start, last);
        self.is_fetching = false;
        self.assembly.clear();
        self.host.entries_skipped();
        Delivered::Some
    }

    fn fetch_from(&mut self, next: LogIndex, last: Seqno) -> Result<Delivered, DeliverError> {
        let oldest_chunk = self.assembly.oldest_chunk();
        let needed_from = oldest_chunk.map_or(next, |chunk| chunk.min(next));
        self.fetch(FetchWish::all_from(FetchFrom::At(next), needed_from), last)
    }

    /// Delivery needs no entry up to this one again. The chunks of partial actions are still
    /// needed: they are read with the last piece.
    fn delivered_up_to(&self, index: LogIndex) -> LogIndex {
        let oldest_chunk = self.assembly.oldest_chunk();
        oldest_chunk.map_or(index, |chunk| chunk.prev().min(index))
    }

    fn deliver(&mut self, entry: &Entry) -> Result<HandedOver, DeliverError> {
        let header = &entry.header;
        let payload = entry.payload.clone();
        let malformed = |source| DeliverError::Payload {
            index: header.index,
            source,
        };
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => {}
            EntryKind::Chunk => {
                let chunk = Chunk::decode(payload).map_err(malformed)?;
                self.assembly.add_chunk(header, &chunk);
            }
            EntryKind::Discard => {
                let discard = Discard::decode(payload).map_err(malformed)?;
                self.assembly.discard(&discard);
            }
            EntryKind::Decision => {
                let decision = OutcomeDecision::decode(payload).map_err(malformed)?;
                self.host.deliver_decision(&decision);
            }
            EntryKind::View => {
                let view = View::decode(header.seqno, payload).map_err(malformed)?;
                return Ok(self.give(Delivery::View(view)));
            }
            EntryKind::Action => {
                let piece = ActionPiece::decode(payload).map_err(malformed)?;
                let data = match self.action_data(entry, piece)? {
                    ControlFlow::Continue(data) => data,
                    ControlFlow::Break(why) => return Ok(why),
                };
                return Ok(self.give(Delivery::Action {
                    seqno: header.seqno,
                    depends_on: header.depends_on,
                    origin: header.origin,
                    data,
                }));
            }
        }
        Ok(HandedOver::Done)
    }

    fn give(&self, delivery: Delivery) -> HandedOver {
        match self.host.deliver(delivery) {
            ControlFlow::Continue(()) => HandedOver::Done,
            ControlFlow::Break(()) => HandedOver::Stopped,
        }
    }

    /// The action's data, if it is here: none if the client that proposed it finishes it.
    fn action_data(
        &mut self,
        entry: &Entry,
        piece: ActionPiece,
    ) -> Result<ControlFlow<HandedOver, Option<Bytes>>, DeliverError> {
        let header = &entry.header;
        let begun = self.assembling.take();
        let mut assembling = match begun.filter(|begun| begun.index() == header.index) {
            Some(begun) => begun,
            None => {
                let origin = &header.origin;
                let id = PartialActionId::of(origin, piece.action_no);
                let chunks = self.assembly.take(&id);
                let is_mine = (origin.member, origin.session) == (self.me.member, self.me.session);
                if is_mine && self.shared.take_local(header.seqno) {
                    return Ok(ControlFlow::Continue(None));
                }
                if piece.action_no == 0 {
                    return Ok(ControlFlow::Continue(Some(piece.data)));
                }
                Assembling::new(entry.clone(), piece, chunks)
            }
        };
        let source = LogAndPeers {
            reader: &self.reader,
            fetched: &self.shared.fetched,
        };
        let data = assembling.go_on(&source, &*self.host)?;
        if data.is_break() {
            self.assembling = Some(assembling);
        }
        Ok(data.map_continue(Some))
    }
}

/// Index of the first entry to read after an action; none if the log begins later. Fails if the log
/// does not reach the action.
pub(crate) fn start_index(reader: &LogReader, after: Seqno) -> Result<Option<LogIndex>, LogError> {
    // In this order. If the log is purged between the two calls, the index is one that the log no
    // longer has; the next step fails to read it and comes back here.
    let first_index = reader.first_index();
    let first = reader.first_seqno_available();
    match after.next().cmp(&first) {
        Ordering::Less => Ok(None),
        Ordering::Equal => Ok(Some(first_index)),
        Ordering::Greater => match reader.seek_seqno(after) {
            Err(LogError::SeqnoPurged { .. } | LogError::Purged { .. }) => Ok(Some(first_index)),
            found => Ok(Some(found?.next())),
        },
    }
}

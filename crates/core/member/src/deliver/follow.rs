//! Following: what the group has committed, read from the log beside delivery, from any action that
//! the log has. A [`Follower`] is for readers that are no database of the group: each has its own,
//! at its own place. It hands out where the data of an action is rather than the data, because an
//! action may be larger than what a reader may take in memory. Invariants: ordered entries come
//! without gaps, each once, and only what is committed.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno, SessionId};
use synod_log::{Entry, LogError, LogReader};

use super::assembly::{Assembly, all_chunks};
use super::{DeliverError, start_index};
use crate::log_holds::LogHold;
use crate::payload::action::{ActionPiece, Chunk, PayloadError};
use crate::payload::discard::{Discard, PartialActionId};
use crate::payload::view::View;
use crate::shared::Shared;

/// Bytes of payload that are read at a time. There may be many followers, each with this in memory;
/// and what is looked at while it is in the processor's cache is looked at faster.
const READ_BYTES: usize = 256 << 10;

#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("the log begins with action {first}: what was before it has been purged")]
    Purged { first: Seqno },
    #[error(transparent)]
    Broken(DeliverError),
}

#[derive(Debug)]
pub enum Followed {
    Action(FollowedAction),
    /// The members that are present from here on.
    View(View),
}

/// An action, and where its data is.
#[derive(Debug)]
pub struct FollowedAction {
    pub seqno: Seqno,
    pub origin: (MemberId, SessionId),
    /// The entries that hold its data, in the order of the data. The last one is the action's own.
    pub places: Vec<LogIndex>,
    pub last: Bytes,
}

/// Reads what the group has committed, from one action on.
pub struct Follower {
    reader: LogReader,
    shared: Arc<Shared>,
    assembly: Assembly,
    /// Entries that were read and not handed out yet; they begin with `next`.
    ahead: VecDeque<Entry>,
    next: LogIndex,
    last: Seqno,
    /// Keeps the log from being purged of what comes next, if that was asked for.
    held: Option<LogHold>,
}

impl Follower {
    pub fn after(
        reader: LogReader,
        shared: Arc<Shared>,
        after: Seqno,
    ) -> Result<Follower, FollowError> {
        let mut follower = Follower {
            reader,
            shared,
            assembly: Assembly::default(),
            ahead: VecDeque::new(),
            next: LogIndex(0),
            last: after.max(Seqno(0)),
            held: None,
        };
        follower.next = follower.start()?;
        Ok(follower)
    }

    /// The log is not purged of what comes after the action `passed`, as long as this follower
    /// lives and the log is not full.
    pub fn hold_after(&mut self, passed: Seqno) {
        match &self.held {
            Some(held) => held.move_to(passed),
            None => self.held = Some(self.shared.hold_log_after(passed)),
        }
    }

    pub fn last(&self) -> Seqno {
        self.last
    }

    /// Index of the last entry that was looked at.
    pub fn passed(&self) -> LogIndex {
        self.next.prev()
    }

    /// The next action or view; none while the group has committed no other.
    pub fn advance(&mut self) -> Result<Option<Followed>, FollowError> {
        while let Some(entry) = self.entry()? {
            let header = &entry.header;
            if header.kind.is_ordered() && header.seqno <= self.last {
                continue;
            }
            if header.kind.is_ordered() && header.seqno != self.last.next() {
                let (expected, found) = (self.last.next(), header.seqno);
                return Err(FollowError::Broken(DeliverError::Gap { expected, found }));
            }
            pass(&mut self.assembly, &entry)?;
            let followed = ordered(&self.reader, &mut self.assembly, &entry);
            if let Some(followed) = followed.map_err(|error| self.error(error))? {
                self.last = header.seqno;
                return Ok(Some(followed));
            }
        }
        Ok(None)
    }

    pub fn data_at(&self, place: LogIndex) -> Result<Bytes, FollowError> {
        let read = self.reader.read(place, place, READ_BYTES);
        let entries = read.map_err(|error| self.log_error(error))?;
        let Some(entry) = entries.into_iter().next() else {
            return Err(self.purged());
        };
        let payload = entry.payload;
        let malformed = |source| broken(place, source);
        match entry.header.kind {
            EntryKind::Chunk => Ok(Chunk::decode(payload).map_err(malformed)?.bytes),
            EntryKind::Action => Ok(ActionPiece::decode(payload).map_err(malformed)?.data),
            EntryKind::NoOp
            | EntryKind::Config
            | EntryKind::Discard
            | EntryKind::Decision
            | EntryKind::View => Ok(Bytes::new()),
        }
    }

    /// Index of the last entry that is committed and in the log.
    pub fn last_index(&self) -> LogIndex {
        self.shared.readable()
    }

    pub fn first_index(&self) -> LogIndex {
        self.reader.first_index()
    }

    pub fn first_seqno(&self) -> Seqno {
        self.reader.first_seqno_available()
    }

    /// Hands out the views, and the actions of this session, from `start` to before `end`, in
    /// order, until `take` breaks; all of it must be committed. Does not change what comes next.
    pub fn look_at(
        &self,
        start: LogIndex,
        end: LogIndex,
        session: (MemberId, SessionId),
        take: &mut dyn FnMut(Followed) -> ControlFlow<()>,
    ) -> Result<(), FollowError> {
        let mut assembly = Assembly::default();
        let mut next = start;
        while next < end {
            let read = self.reader.read(next, end.prev(), READ_BYTES);
            let entries = read.map_err(|error| self.log_error(error))?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                next = entry.header.index.next();
                let origin = (entry.header.origin.member, entry.header.origin.session);
                if entry.header.kind != EntryKind::View && origin != session {
                    continue;
                }
                pass(&mut assembly, entry)?;
                let found = ordered(&self.reader, &mut assembly, entry);
                let found = found.map_err(|error| self.error(error))?;
                if found.is_some_and(|followed| take(followed).is_break()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn start(&self) -> Result<LogIndex, FollowError> {
        let start = start_index(&self.reader, self.last).map_err(|error| self.log_error(error))?;
        start.ok_or_else(|| self.purged())
    }

    fn entry(&mut self) -> Result<Option<Entry>, FollowError> {
        while self.ahead.is_empty() && self.read()? {}
        let entry = self.ahead.pop_front();
        if let Some(entry) = &entry {
            self.next = entry.header.index.next();
        }
        Ok(entry)
    }

    /// Reads ahead when nothing is left, or skips what was purged. Returns whether there was
    /// anything to do.
    fn read(&mut self) -> Result<bool, FollowError> {
        let readable = self.shared.readable();
        if readable < self.next {
            return Ok(false);
        }
        let entries = match self.reader.read(self.next, readable, READ_BYTES) {
            Err(LogError::Purged { .. }) => {
                // Continues if there was no action among what was purged.
                self.next = self.start()?;
                self.assembly.clear();
                return Ok(true);
            }
            read => read.map_err(|error| self.log_error(error))?,
        };
        self.ahead = entries.into();
        Ok(!self.ahead.is_empty())
    }

    fn log_error(&self, error: LogError) -> FollowError {
        self.error(DeliverError::Log(error))
    }

    /// Tells purged entries apart: a reader that comes with a newer copy can be served.
    fn error(&self, error: DeliverError) -> FollowError {
        match error {
            DeliverError::Purged { .. }
            | DeliverError::MissingChunks { .. }
            | DeliverError::Log(LogError::Purged { .. } | LogError::SeqnoPurged { .. }) => {
                self.purged()
            }
            error @ (DeliverError::Log(_)
            | DeliverError::Gap { .. }
            | DeliverError::Payload { .. }) => FollowError::Broken(error),
        }
    }

    fn purged(&self) -> FollowError {
        FollowError::Purged {
            first: self.first_seqno(),
        }
    }
}

fn pass(assembly: &mut Assembly, entry: &Entry) -> Result<(), FollowError> {
    let malformed = |source| broken(entry.header.index, source);
    match entry.header.kind {
        EntryKind::Chunk => {
            let chunk = Chunk::decode(entry.payload.clone()).map_err(malformed)?;
            assembly.add_chunk(&entry.header, &chunk);
        }
        EntryKind::Discard => {
            let discard = Discard::decode(entry.payload.clone()).map_err(malformed)?;
            assembly.discard(&discard);
        }
        EntryKind::NoOp
        | EntryKind::Config
        | EntryKind::Decision
        | EntryKind::View
        | EntryKind::Action => {}
    }
    Ok(())
}

/// Value to hand out for an entry, if it is an ordered one. `assembly` has the passed chunks.
fn ordered(
    reader: &LogReader,
    assembly: &mut Assembly,
    entry: &Entry,
) -> Result<Option<Followed>, DeliverError> {
    let header = &entry.header;
    let payload = entry.payload.clone();
    let malformed = |source| DeliverError::Payload {
        index: header.index,
        source,
    };
    match header.kind {
        EntryKind::View => {
            let view = View::decode(header.seqno, payload).map_err(malformed)?;
            Ok(Some(Followed::View(view)))
        }
        EntryKind::Action => {
            let piece = ActionPiece::decode(payload).map_err(malformed)?;
            let passed = assembly.take(&PartialActionId::of(&header.origin, piece.action_no));
            let chunks = all_chunks(reader, entry, &piece, passed)?;
            let of_data = chunks.into_iter().filter_map(|chunk| chunk.of_data());
            Ok(Some(Followed::Action(FollowedAction {
                seqno: header.seqno,
                origin: (header.origin.member, header.origin.session),
                places: of_data.chain([header.index]).collect(),
                last: piece.data,
            })))
        }
        EntryKind::NoOp
        | EntryKind::Config
        | EntryKind::Chunk
        | EntryKind::Discard
        | EntryKind::Decision => Ok(None),
    }
}

fn broken(index: LogIndex, source: PayloadError) -> FollowError {
    FollowError::Broken(DeliverError::Payload { index, source })
}

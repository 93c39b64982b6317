//! From the log to transactions: readers get of an action what servers do with it. A write set is a
//! transaction, a statement in total order is one of its own if it succeeds, a fragment is nothing
//! until its transaction commits, and a rollback is nothing.

mod statement;
mod streams;

use bytes::Bytes;
use synod_binlog::event::whole_events;
use synod_binlog::write_set::{Note, WriteSet, WriteSetError, WsFlags};
use synod_binlog::{EventError, Events, GtidList, Outgoing, Transaction, TransactionError};
use synod_node::{FollowError, Followed, FollowedAction, Follower, LogIndex, Seqno, View};

use self::statement::{Held, Outcome, StatementError};
use self::streams::{Places, StreamId, Streams, TooManyFragments};
use crate::request::Identity;
use crate::upstream_log::source::KeptSourceError;

/// Largest statement in total order, in bytes: it is in memory as a whole.
const STATEMENT_MAX: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    WriteSet(#[from] WriteSetError),
    #[error("action {} cannot be given to readers: {source}", seqno.0)]
    Transaction {
        seqno: Seqno,
        source: TransactionError,
    },
    #[error(transparent)]
    Statement(#[from] StatementError),
    #[error("the statement of action {} is larger than {STATEMENT_MAX} bytes", seqno.0)]
    LargeStatement { seqno: Seqno },
    #[error(transparent)]
    Fragments(#[from] TooManyFragments),
    #[error(transparent)]
    Kept(#[from] KeptSourceError),
    #[error("{0}")]
    Reader(#[from] std::io::Error),
}

pub(crate) trait Sink {
    fn take(&mut self, event: &Outgoing<'_>) -> Result<(), SourceError>;
}

pub(crate) trait Transactions {
    /// Gives the events of the next action to `sink`, if it is for readers. False: the group has
    /// committed nothing more, or how a statement ends is not known yet. An error may come amid a
    /// transaction.
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, SourceError>;

    /// The last action that was looked at.
    fn last(&self) -> Seqno;

    /// The last action that the reader does not need: what comes after it may be of a transaction
    /// that has begun, of which nothing was given.
    fn passed(&self) -> Seqno;

    /// The newest GTID of each domain before what comes next.
    fn gtids(&self) -> GtidList;

    /// Whether the reader has everything up to where it wants to stop.
    fn are_given(&self) -> bool;

    fn is_between(&self) -> bool;
}

pub(crate) struct Source {
    follower: Follower,
    identity: Identity,
    until: Option<Seqno>,
    streams: Streams,
    /// The statement that comes next, whose outcome is not known yet.
    held: Option<Held>,
}

impl Transactions for Source {
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, SourceError> {
        if self.held.is_none() {
            match self.follower.advance()? {
                None => return Ok(false),
                Some(Followed::View(view)) => self.view(&view)?,
                Some(Followed::Action(action)) => self.action(action, sink)?,
            }
        }
        self.held(sink)
    }

    fn last(&self) -> Seqno {
        self.follower.last()
    }

    fn passed(&self) -> Seqno {
        self.last()
    }

    fn gtids(&self) -> GtidList {
        match self.last() {
            Seqno(..=0) => GtidList::default(),
            last => GtidList(vec![self.identity.gtid(last)]),
        }
    }

    fn are_given(&self) -> bool {
        let is_given = |until| self.held.is_none() && self.last() >= until;
        self.until.is_some_and(is_given)
    }

    fn is_between(&self) -> bool {
        true
    }
}

impl Source {
    /// `until`: the last action that the reader wants; none: it does not end.
    pub(crate) fn new(follower: Follower, identity: Identity, until: Option<Seqno>) -> Source {
        Source {
            follower,
            identity,
            until,
            streams: Streams::default(),
            held: None,
        }
    }

    /// Gives a statement that is held back, once its outcome is known.
    fn held(&mut self, sink: &mut dyn Sink) -> Result<bool, SourceError> {
        let Some(mut held) = self.held.take() else {
            return Ok(true);
        };
        match held.look(&self.follower)? {
            Some(outcome) => {
                self.statement(&held.action, outcome, sink)?;
                Ok(true)
            }
            None => {
                self.held = Some(held);
                Ok(false)
            }
        }
    }

    fn view(&mut self, view: &View) -> Result<(), SourceError> {
        if self.streams.wants_view_before() {
            let before = streams::view_before(&self.follower, self.follower.passed())?;
            self.streams.note_view_before(before);
        }
        self.streams.view(view);
        Ok(())
    }

    fn action(&mut self, action: FollowedAction, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let head = head_of(&self.follower, &action)?;
        let flags = head.flags;
        let id = StreamId {
            origin: action.origin,
            trx: head.trx,
        };
        if let Note::Outcome { .. } = head.note {
            return Ok(());
        }
        if flags.contains(WsFlags::ISOLATION) {
            if head.note == Note::Promised {
                let after = self.follower.passed().next();
                self.held = Some(Held::until_noted(action, after));
                return Ok(());
            }
            return self.statement(&action, Outcome::Unknown, sink);
        }
        if flags.contains(WsFlags::ROLLBACK) {
            self.streams.take(id);
            return Ok(());
        }
        if !flags.contains(WsFlags::TRX_END) {
            let begins = flags.contains(WsFlags::TRX_START);
            return Ok(self.streams.add(id, begins, action.places)?);
        }
        let seqno = action.seqno;
        if flags.contains(WsFlags::TRX_START) {
            return self.transaction(seqno, &[], action, sink);
        }
        match self.fragments(id, &action)? {
            Some(fragments) => self.transaction(seqno, &fragments, action, sink),
            // All servers had rolled it back before.
            None => Ok(()),
        }
    }

    /// The fragments before the commit of a streamed transaction; none if it commits nothing.
    fn fragments(
        &mut self,
        id: StreamId,
        commit: &FollowedAction,
    ) -> Result<Option<Vec<Vec<LogIndex>>>, SourceError> {
        let known = self.streams.take(id).unwrap_or_default();
        if known.is_whole {
            return Ok(Some(known.places));
        }
        let before = known.places.first().unwrap_or(&commit.places).first();
        let Some(before) = before.copied() else {
            return Ok(None);
        };
        let earlier = streams::earlier_fragments(&self.follower, id, before)?;
        Ok(earlier.map(|mut places| {
            places.extend(known.places);
            places
        }))
    }

    fn statement(
        &self,
        action: &FollowedAction,
        outcome: Outcome,
        sink: &mut dyn Sink,
    ) -> Result<(), SourceError> {
        let mut data = Vec::new();
        for place in &action.places {
            data.extend_from_slice(&self.follower.data_at(*place)?);
            if data.len() > STATEMENT_MAX {
                let seqno = action.seqno;
                return Err(SourceError::LargeStatement { seqno });
            }
        }
        let write_set = WriteSet::decode(action.seqno.0, Bytes::from(data))?;
        let gtid = self.identity.gtid(action.seqno);
        let events = statement::statement(gtid, &write_set.data, outcome);
        for event in events? {
            sink.take(&event)?;
        }
        Ok(())
    }

    /// Gives the events of a transaction, piece by piece: fragments, and then the action itself.
    fn transaction(
        &self,
        seqno: Seqno,
        fragments: &[Places],
        action: FollowedAction,
        sink: &mut dyn Sink,
    ) -> Result<(), SourceError> {
        let mut transaction = Transaction::new(self.identity.gtid(seqno));
        for places in fragments {
            let mut write_set = Pieces::new(seqno);
            for place in places {
                let piece = self.follower.data_at(*place)?;
                write_set.add(piece, &mut transaction, sink)?;
            }
            write_set.finish()?;
        }
        let mut write_set = Pieces::new(seqno);
        let chunks = action.places.len().saturating_sub(1);
        for place in action.places.iter().take(chunks) {
            write_set.add(self.follower.data_at(*place)?, &mut transaction, sink)?;
        }
        write_set.add(action.last, &mut transaction, sink)?;
        write_set.finish()?;
        let commit = transaction.finish();
        match commit.map_err(|source| not_a_transaction(seqno, source))? {
            Some(commit) => sink.take(&commit),
            None => Ok(()),
        }
    }
}

/// The write set as far as it is in the first place of an action.
fn head_of(follower: &Follower, action: &FollowedAction) -> Result<WriteSet, SourceError> {
    let first = match action.places.as_slice() {
        [] | [_] => action.last.clone(),
        [first, ..] => follower.data_at(*first)?,
    };
    Ok(WriteSet::decode(action.seqno.0, first)?)
}

fn not_a_transaction(seqno: Seqno, source: TransactionError) -> SourceError {
    SourceError::Transaction { seqno, source }
}

fn damaged(seqno: Seqno, source: EventError) -> SourceError {
    not_a_transaction(seqno, TransactionError::Event(source))
}

struct Pieces {
    seqno: Seqno,
    has_head: bool,
    /// Bytes that are no whole event yet.
    rest: Vec<u8>,
}

impl Pieces {
    fn new(seqno: Seqno) -> Pieces {
        Pieces {
            seqno,
            has_head: false,
            rest: Vec::new(),
        }
    }

    /// Gives the events that this piece completes to `sink`.
    fn add(
        &mut self,
        piece: Bytes,
        transaction: &mut Transaction,
        sink: &mut dyn Sink,
    ) -> Result<(), SourceError> {
        let data = if self.has_head {
            piece
        } else {
            WriteSet::decode(self.seqno.0, piece)?.data
        };
        self.has_head = true;
        self.rest.extend_from_slice(&data);
        let whole = whole_events(&self.rest);
        if whole > 0 {
            let left = self.rest.split_off(whole);
            let events = std::mem::replace(&mut self.rest, left);
            self.give(&events, transaction, sink)?;
        }
        Ok(())
    }

    fn give(
        &self,
        events: &[u8],
        transaction: &mut Transaction,
        sink: &mut dyn Sink,
    ) -> Result<(), SourceError> {
        let events = transaction.add(events);
        for event in events.map_err(|source| not_a_transaction(self.seqno, source))? {
            sink.take(&event)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), SourceError> {
        match Events::of(&self.rest).next() {
            Some(Err(error)) => Err(damaged(self.seqno, error)),
            // Whole events were given.
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

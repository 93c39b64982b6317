//! From the log to transactions, as readers get them.
//!
//! - [`streams`]: what is open of streamed transactions; [`search`]: their beginnings, where a
//!   reader began after them; [`pieces`]: events, from data that comes in pieces;
//! - [`outcome`]: how a statement has ended in the group; [`statement_outcome`]: what readers get
//!   of it then; [`words`]: the words that a statement begins with.
//!
//! What servers do with an action decides what readers get of it: a write set is a transaction, a
//! statement in total order is one of its own if it succeeds, a fragment is nothing until its
//! transaction commits, and a rollback is nothing.

mod outcome;
mod pieces;
mod search;
mod statement_outcome;
mod streams;
mod words;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet, WriteSetError, WsFlags};
use synod_binlog::{Event, EventError, Outgoing, Transaction, TransactionError};
use synod_node::{FollowError, Followed, FollowedAction, Follower, LogIndex, Seqno, View};

use self::outcome::{Held, Outcome};
use self::pieces::Pieces;
use self::statement_outcome::StatementError;
use self::streams::{Places, StreamId, Streams, TooManyFragments};
use crate::identity::Identity;
use crate::upstream_log::source::KeptSourceError;

/// Largest statement in total order, in bytes: it is in memory as a whole.
const STATEMENT_MAX: usize = 64 << 20;

/// Why the transactions of a reader end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// The log does not have what comes next.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// An action is none of a server.
    #[error(transparent)]
    WriteSet(#[from] WriteSetError),
    /// An action is not a transaction.
    #[error("action {} cannot be given to readers: {source}", seqno.0)]
    Transaction {
        /// The action.
        seqno: Seqno,
        source: TransactionError,
    },
    /// A statement cannot be given.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// A statement is too large.
    #[error("the statement of action {} is larger than {STATEMENT_MAX} bytes", seqno.0)]
    LargeStatement {
        /// The action.
        seqno: Seqno,
    },
    /// Too much is open.
    #[error(transparent)]
    Fragments(#[from] TooManyFragments),
    /// The kept binlog of the upstream cannot be served.
    #[error(transparent)]
    Kept(#[from] KeptSourceError),
    /// The reader is gone, or takes nothing.
    #[error("{0}")]
    Reader(#[from] std::io::Error),
}

/// Takes the events of transactions, in order.
pub(crate) trait Sink {
    /// Takes the next event.
    ///
    /// # Errors
    /// The reader is gone, or takes nothing.
    fn take(&mut self, event: &Outgoing<'_>) -> Result<(), SourceError>;

    /// Takes the next event, which is to keep its header as another server has written it.
    ///
    /// # Errors
    /// As [`Sink::take`].
    fn take_foreign(&mut self, event: &Event<'_>) -> Result<(), SourceError>;
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The events of an action, or none: it was not for readers.
    Action,
    /// Nothing: the group has committed nothing more, or how a statement ends is not known yet.
    Nothing,
}

/// The transactions after one action of the group.
pub(crate) struct Source {
    follower: Follower,
    identity: Identity,
    streams: Streams,
    /// The statement that comes next, whose outcome is not known yet.
    held: Option<Held>,
}

impl Source {
    pub(crate) fn new(follower: Follower, identity: Identity) -> Source {
        Source {
            follower,
            identity,
            streams: Streams::default(),
            held: None,
        }
    }

    /// The last action that was looked at.
    pub(crate) fn last(&self) -> Seqno {
        self.follower.last()
    }

    /// Whether everything up to this action was given, as far as it is for readers.
    pub(crate) fn has_passed(&self, seqno: Seqno) -> bool {
        self.held.is_none() && self.last() >= seqno
    }

    /// Gives the events of the next action to `sink`.
    ///
    /// # Errors
    /// The transactions end here, perhaps amid one.
    pub(crate) fn step(&mut self, sink: &mut dyn Sink) -> Result<Found, SourceError> {
        if self.held.is_none() {
            match self.follower.advance()? {
                None => return Ok(Found::Nothing),
                Some(Followed::View(view)) => self.view(&view)?,
                Some(Followed::Action(action)) => self.action(action, sink)?,
            }
        }
        self.held(sink)
    }

    /// Gives a statement that is held back, once its outcome is known.
    fn held(&mut self, sink: &mut dyn Sink) -> Result<Found, SourceError> {
        let Some(mut held) = self.held.take() else {
            return Ok(Found::Action);
        };
        match held.look(&self.follower)? {
            Some(outcome) => {
                self.statement(&held.action, outcome, sink)?;
                Ok(Found::Action)
            }
            None => {
                self.held = Some(held);
                Ok(Found::Nothing)
            }
        }
    }

    fn view(&mut self, view: &View) -> Result<(), SourceError> {
        if self.streams.wants_view_before() {
            let before = search::view_before(&self.follower, self.follower.passed())?;
            self.streams.note_view_before(before);
        }
        self.streams.view(view);
        Ok(())
    }

    fn action(&mut self, action: FollowedAction, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let head = self.head(&action)?;
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
        let earlier = search::earlier_fragments(&self.follower, id, before)?;
        Ok(earlier.map(|mut places| {
            places.extend(known.places);
            places
        }))
    }

    /// The write set as far as it is in the first place of an action.
    fn head(&self, action: &FollowedAction) -> Result<WriteSet, SourceError> {
        head_of(&self.follower, action)
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
        let events = statement_outcome::statement(gtid, &write_set.data, outcome);
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
        let chunks = action
            .places
            .split_last()
            .map_or(&[][..], |(_, chunks)| chunks);
        for place in chunks {
            let piece = self.follower.data_at(*place)?;
            write_set.add(piece, &mut transaction, sink)?;
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

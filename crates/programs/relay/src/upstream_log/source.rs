//! The transactions of the upstream for one reader, from its place in the log on.

use std::sync::Arc;

use bytes::Bytes;
use synod_binlog::event::whole_events;
use synod_binlog::{EventError, Events, Gtid};
use synod_node::{CommittedLog, FollowError, Followed, FollowedAction, Follower, LogIndex, Seqno};

use super::entry::Entry;
use super::history::{History, Step};
use super::lacks::{Lacks, NotGiven};
use super::search::{NoStart, Start};
use super::state::GtidState;
use super::tail::Tail;
use super::{KeptError, entry_of, search};
use crate::source::{Found, Sink, SourceError};

/// Location of a part's events, and those already read with its head.
struct Place {
    indexes: Vec<LogIndex>,
    /// The events, if the part is the last one and in one place.
    events: Option<Bytes>,
}

/// Why a reader cannot get the transactions that it lacks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptSourceError {
    /// The log cannot be read.
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error(transparent)]
    NoStart(#[from] NoStart),
    /// The reader cannot get what comes next.
    #[error(transparent)]
    NotGiven(#[from] NotGiven),
    /// The binlog begins amid a transaction.
    #[error(
        "The binlog that begins after action {} begins amid a transaction. Ask by GTID: \
         MASTER_USE_GTID = slave_pos", .0.0
    )]
    Amid(Seqno),
    /// The events of a transaction are damaged.
    #[error("transaction {gtid} cannot be given to readers: {source}")]
    Damaged {
        /// The transaction.
        gtid: Gtid,
        source: EventError,
    },
}

impl KeptSourceError {
    /// Whether this relay cannot read its log, which other relays may be able to.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        match self {
            KeptSourceError::Kept(error) | KeptSourceError::NoStart(NoStart::Kept(error)) => {
                error.is_of_the_disk()
            }
            KeptSourceError::NoStart(NoStart::Purged { .. })
            | KeptSourceError::NotGiven(_)
            | KeptSourceError::Amid(_)
            | KeptSourceError::Damaged { .. } => false,
        }
    }
}

/// The transactions that one reader lacks.
pub(crate) struct KeptSource {
    log: CommittedLog,
    /// Knows of forced purges.
    tail: Arc<Tail>,
    follower: Follower,
    history: History<Place>,
    lacks: Lacks,
    /// Upstream's position at the beginning, then after the transactions given.
    state: GtidState,
}

impl KeptSource {
    /// The transactions after those that a reader has.
    ///
    /// # Errors
    /// The log does not have them.
    pub(crate) fn after_gtids(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
    ) -> Result<KeptSource, KeptSourceError> {
        let start = search::start(log, lacks.has())?;
        KeptSource::open(log, tail, lacks, start)
    }

    /// The transactions after an action.
    ///
    /// # Errors
    /// The log does not have them, or the action is amid a transaction.
    pub(crate) fn after_action(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
        after: Seqno,
    ) -> Result<KeptSource, KeptSourceError> {
        let first = super::entry_after(log, after)?;
        let state = first.as_ref().map(|(_, head)| head.before.clone());
        let part = first.and_then(|(_, head)| head.part);
        if part.is_some_and(|part| part.number > 0) {
            return Err(KeptSourceError::Amid(after));
        }
        let start = Start { after, state };
        KeptSource::open(log, tail, lacks, start)
    }

    fn open(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
        start: Start,
    ) -> Result<KeptSource, KeptSourceError> {
        let mut follower = log.follow(start.after).map_err(KeptError::from)?;
        follower.hold_after(start.after);
        Ok(KeptSource {
            log: log.clone(),
            tail: tail.clone(),
            follower,
            history: History::new(),
            state: start.state.unwrap_or_else(|| lacks.has().clone()),
            lacks,
        })
    }

    /// The last action that was looked at.
    pub(crate) fn last(&self) -> Seqno {
        self.follower.last()
    }

    /// The last action that the reader does not need: what comes after it may be of a transaction
    /// that has begun, of which nothing was given.
    pub(crate) fn passed(&self) -> Seqno {
        self.history.passed(self.follower.last())
    }

    /// Upstream's position after the transactions given.
    pub(crate) fn state(&self) -> &GtidState {
        &self.state
    }

    /// Whether the reader has everything up to where it wants to stop.
    pub(crate) fn is_given(&self) -> bool {
        self.lacks.are_given(&self.state)
    }

    /// Whether a transaction has begun, and its last part has not come.
    pub(crate) fn is_amid(&self) -> bool {
        self.history.open_since().is_some()
    }

    /// Gives the next transaction to `sink`, if the next action completes one.
    ///
    /// # Errors
    /// The transactions end here, perhaps amid one.
    pub(crate) fn step(&mut self, sink: &mut dyn Sink) -> Result<Found, SourceError> {
        self.check_purge()?;
        let followed = match self.follower.advance() {
            Err(purged @ FollowError::Purged { first }) => {
                // Amid a transaction that it has not got, if it has lost no whole one.
                let amid = KeptSourceError::Kept(purged.into());
                return Err(self.lost(first.prev())?.unwrap_or(amid).into());
            }
            followed => followed.map_err(KeptError::from),
        };
        match followed.map_err(KeptSourceError::from)? {
            None => return Ok(Found::Nothing),
            Some(Followed::View(_)) => {}
            Some(Followed::Action(action)) => self.action(action, sink)?,
        }
        self.follower.hold_after(self.passed());
        Ok(Found::Action)
    }

    /// Ends a dump whose next transaction was purged by force, although its files are still there:
    /// a slow reader would hold them otherwise.
    fn check_purge(&self) -> Result<(), KeptSourceError> {
        let forced = self.tail.forced();
        if forced <= self.follower.last() {
            return Ok(());
        }
        self.lost(forced)?.map_or(Ok(()), Err)
    }

    /// Error for a reader if everything up to `purged` is gone; none: it has all of that.
    fn lost(&self, purged: Seqno) -> Result<Option<KeptSourceError>, KeptSourceError> {
        let next = super::entry_after(&self.log, purged)?;
        let newest = || self.tail.end().state.unwrap_or_default();
        let begins = next.map_or_else(newest, |(_, head)| head.before);
        let lost = begins.missing_in(&self.state);
        Ok(lost.map(|lost| NoStart::Purged { lost, begins }.into()))
    }

    fn action(&mut self, action: FollowedAction, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let step = self.taken(action)?;
        let Step::Whole {
            gtid,
            before,
            parts,
            first: _,
        } = step
        else {
            return Ok(());
        };
        if self
            .lacks
            .wants(gtid, &before)
            .map_err(KeptSourceError::from)?
        {
            for part in &parts {
                self.give(gtid, part, sink)?;
            }
        }
        self.state = before;
        self.state.add(gtid);
        Ok(())
    }

    fn taken(&mut self, action: FollowedAction) -> Result<Step<Place>, KeptSourceError> {
        let (entry, events) = entry_of(&self.follower, &action)?;
        let Entry::Head(head) = entry else {
            return Ok(Step::Nothing);
        };
        let is_last = head.part.as_ref().is_some_and(|part| part.is_last);
        let is_here = is_last && action.places.len() == 1;
        let place = Place {
            indexes: action.places,
            events: is_here.then_some(events),
        };
        let step = self.history.take(action.seqno, action.origin, &head, place);
        Ok(step.map_err(KeptError::from)?)
    }

    /// Gives the events of a part. An event may reach over several places.
    fn give(&self, gtid: Gtid, part: &Place, sink: &mut dyn Sink) -> Result<(), SourceError> {
        if let Some(events) = &part.events {
            return give_events(gtid, events, sink);
        }
        let mut rest = Vec::new();
        for (number, index) in part.indexes.iter().enumerate() {
            let mut piece = self.read(*index)?;
            if number == 0 {
                // It was understood before.
                let head = Entry::decode(&mut piece);
                let seqno = self.follower.last();
                head.map_err(|source| KeptError::Entry { seqno, source })
                    .map_err(KeptSourceError::from)?;
            }
            rest.extend_from_slice(&piece);
            let whole = whole_events(&rest);
            if whole > 0 {
                // What is not whole yet is moved, since it is the smaller part: the event before it
                // may be large.
                let left = rest.split_off(whole);
                give_events(gtid, &rest, sink)?;
                rest = left;
            }
        }
        give_events(gtid, &rest, sink)
    }

    fn read(&self, index: LogIndex) -> Result<Bytes, KeptSourceError> {
        let read = self.follower.data_at(index).map_err(KeptError::from);
        Ok(read?)
    }
}

fn give_events(gtid: Gtid, events: &[u8], sink: &mut dyn Sink) -> Result<(), SourceError> {
    for event in Events::of(events) {
        let event = event.map_err(|source| KeptSourceError::Damaged { gtid, source })?;
        sink.take_foreign(&event)?;
    }
    Ok(())
}

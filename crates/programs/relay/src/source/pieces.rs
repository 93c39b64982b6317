//! Events of one write set, whose data come in pieces: an event may begin in one and end in a later
//! one. In memory are one piece, and an event that is not complete.

use bytes::Bytes;
use synod_binlog::event::whole_events;
use synod_binlog::write_set::WriteSet;
use synod_binlog::{Events, Transaction};
use synod_node::Seqno;

use super::{Sink, SourceError, damaged, not_a_transaction};

/// A write set as far as it has come.
pub(crate) struct Pieces {
    seqno: Seqno,
    /// The header of the write set has come.
    has_head: bool,
    /// Bytes that are no whole event yet.
    rest: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(seqno: Seqno) -> Pieces {
        Pieces {
            seqno,
            has_head: false,
            rest: Vec::new(),
        }
    }

    /// Gives the events that this piece completes to `sink`.
    pub(crate) fn add(
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

    /// The write set has come.
    ///
    /// # Errors
    /// Its last event is not complete.
    pub(crate) fn finish(self) -> Result<(), SourceError> {
        match Events::of(&self.rest).next() {
            Some(Err(error)) => Err(damaged(self.seqno, error)),
            // Whole events were given.
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

//! Entries from the own log, or, before it begins, from other members.

use synod_consensus::LogIndex;
use synod_log::{Entry, LogError, LogReader};
use synod_wire::FetchFrom;

use super::READ_BYTES;
use super::assembly::{EntrySource, ReadError};
use crate::fetch::{FetchBox, FetchWish};

/// The own log, and before it what other members have.
pub(super) struct LogAndPeers<'a> {
    pub(super) reader: &'a LogReader,
    pub(super) fetched: &'a FetchBox,
}

impl EntrySource for LogAndPeers<'_> {
    fn lowest_index(&self) -> LogIndex {
        LogIndex(1)
    }

    fn held_from(&self) -> LogIndex {
        self.reader.first_index()
    }

    fn read(&self, from: LogIndex, to: LogIndex) -> Result<Option<Vec<Entry>>, ReadError> {
        match self.reader.read(from, to, READ_BYTES) {
            Ok(entries) => return Ok(Some(entries)),
            Err(LogError::Purged { .. }) => {}
            Err(error) => return Err(ReadError::Log(error)),
        }
        let wish = FetchWish {
            from: FetchFrom::At(from),
            to: Some(to),
            needed_from: from,
            with_payloads: true,
        };
        match self.fetched.take(wish) {
            None => Ok(None),
            Some(Ok(entries)) => Ok(Some(entries)),
            Some(Err(_)) => Err(ReadError::Purged),
        }
    }
}

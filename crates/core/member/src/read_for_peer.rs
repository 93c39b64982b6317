//! Reads beside the log's thread: what other members need of this member's log.

use std::sync::Arc;

use synod_consensus::{EntryKind, LogIndex, MemberId, SessionId};
use synod_log::{LogError, LogReader};
use synod_wire::{FetchAnswer, FetchRefusal, FetchedEntries, PeerMessage};

use crate::host::{Host, Level};
use crate::old_entries_for_followers::OldEntries;

#[derive(Debug)]
pub enum ReadForPeer {
    OldEntries(OldEntries),
    Fetch(FetchRead),
}

impl ReadForPeer {
    pub fn to(&self) -> MemberId {
        match self {
            ReadForPeer::OldEntries(read) => read.to(),
            ReadForPeer::Fetch(read) => read.to,
        }
    }

    /// Reads the range, or as much of it as fits into a message. `None`: there is no answer, and
    /// the member that needs it asks again.
    pub fn answer(
        &self,
        reader: &LogReader,
        host: &Arc<dyn Host>,
    ) -> Result<Option<PeerMessage>, LogError> {
        match self {
            ReadForPeer::OldEntries(read) => read.answer(reader, host),
            ReadForPeer::Fetch(read) => read.answer(reader, host),
        }
    }
}

/// A range of committed entries for a member that fetches them.
#[derive(Debug)]
pub struct FetchRead {
    pub(crate) to: MemberId,
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    pub(crate) first: LogIndex,
    pub(crate) last: LogIndex,
    /// Otherwise only the payloads of views are wanted.
    pub(crate) with_payloads: bool,
    pub(crate) bytes_max: usize,
    /// Dropped with the read: it is not outstanding any more.
    pub(crate) _outstanding: Arc<()>,
}

impl FetchRead {
    fn answer(
        &self,
        reader: &LogReader,
        host: &Arc<dyn Host>,
    ) -> Result<Option<PeerMessage>, LogError> {
        let result = match reader.read(self.first, self.last, self.bytes_max) {
            Ok(entries) => {
                let mut fetched = FetchedEntries::default();
                for entry in entries {
                    let wanted = self.with_payloads || entry.header.kind == EntryKind::View;
                    fetched.headers.push(entry.header);
                    fetched.payloads.push(wanted.then_some(entry.payload));
                }
                Ok(fetched)
            }
            // A purge has overtaken this read.
            Err(LogError::Purged { .. }) => Err(FetchRefusal::Purged {
                first: reader.first_seqno_available(),
            }),
            Err(error @ LogError::Damaged { .. }) => return Err(error),
            Err(error) => {
                let (first, last) = (self.first, self.last);
                let text = format!("cannot read entries {first}-{last} for a member: {error}");
                host.log(Level::Warning, &text);
                return Ok(None);
            }
        };
        Ok(Some(PeerMessage::Fetched(FetchAnswer {
            session: self.session,
            number: self.number,
            result,
        })))
    }
}

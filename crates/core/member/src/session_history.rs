//! Session history: the sessions that took part in a range of the log. A host that continues from
//! an old position asks which sessions' open transactions the actions after that position may still
//! refer to. What its own log lacks of them is fetched, without the payloads.

use std::collections::BTreeSet;

use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno, SessionId};
use synod_log::{Entry, LogError, LogReader};
use synod_wire::FetchFrom;

use crate::deliver::start_index;
use crate::fetch::{FetchWish, NotFetched};
use crate::payload::view::View;
use crate::shared::Shared;

const READ_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SessionHistoryError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("no member has all actions after {after}: {source}")]
    NotFetched { after: Seqno, source: NotFetched },
}

/// The sessions whose actions are ordered after an action and up to another one, and those present
/// in views there. No action after the first one refers to an open transaction of any other
/// session.
#[derive(Debug)]
pub struct SessionHistory {
    after: Seqno,
    up_to: Seqno,
    /// The entry that comes next, once that is known.
    next: Option<LogIndex>,
    sessions: BTreeSet<(MemberId, SessionId)>,
    is_complete: bool,
}

impl SessionHistory {
    /// The history after `after`, up to `up_to`, which this member's log can be read to.
    pub fn new(after: Seqno, up_to: Seqno) -> SessionHistory {
        SessionHistory {
            after,
            up_to,
            next: None,
            sessions: BTreeSet::new(),
            is_complete: after >= up_to,
        }
    }

    /// Reads on. Returns the sessions once they are complete. `None`: entries have to be fetched;
    /// the caller hands the driver [`crate::Event::Fetch`], and continues when the log has moved
    /// ([`Shared::new`]).
    pub fn read_on(
        &mut self,
        reader: &LogReader,
        shared: &Shared,
    ) -> Result<Option<BTreeSet<(MemberId, SessionId)>>, SessionHistoryError> {
        while !self.is_complete {
            let Some(entries) = self.entries(reader, shared)? else {
                return Ok(None);
            };
            entries.into_iter().for_each(|entry| self.note(entry));
        }
        Ok(Some(std::mem::take(&mut self.sessions)))
    }

    fn entries(
        &self,
        reader: &LogReader,
        shared: &Shared,
    ) -> Result<Option<Vec<Entry>>, SessionHistoryError> {
        let next = match self.next {
            Some(next) => Some(next),
            None => start_index(reader, self.after)?,
        };
        if let Some(next) = next {
            match reader.read(next, reader.last_index(), READ_BYTES) {
                Err(LogError::Purged { .. }) => {}
                read => return Ok(Some(read?)),
            }
        }
        let from = match next {
            Some(next) => FetchFrom::At(next),
            None => FetchFrom::After(self.after),
        };
        let wish = FetchWish {
            with_payloads: false,
            ..FetchWish::all_from(from, LogIndex(0))
        };
        let after = self.after;
        let fetched = shared.fetched.take(wish).transpose();
        fetched.map_err(|source| SessionHistoryError::NotFetched { after, source })
    }

    fn note(&mut self, entry: Entry) {
        let header = entry.header;
        self.next = Some(header.index.next());
        if self.is_complete {
            return;
        }
        match header.kind {
            EntryKind::Action => {
                let session = (header.origin.member, header.origin.session);
                self.sessions.insert(session);
            }
            EntryKind::View => {
                // A malformed view is reported by its delivery.
                let view = View::decode(header.seqno, entry.payload).unwrap_or_default();
                let present = view.members.iter().map(|m| (m.member, m.session));
                self.sessions.extend(present);
            }
            EntryKind::NoOp
            | EntryKind::Config
            | EntryKind::Chunk
            | EntryKind::Discard
            | EntryKind::Decision => {}
        }
        self.is_complete = header.seqno >= self.up_to;
    }
}

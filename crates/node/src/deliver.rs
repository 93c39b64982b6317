//! The thread that reads committed entries from the log and hands them to the host, in order. It has
//! its own path to the disk, so a member far behind never slows the commit path.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use synod_consensus::{EntryKind, LogIndex, MemberId, Origin, Seqno, SessionId};
use synod_log::{Entry, LogError, LogReader};

use crate::action::{ActionPiece, Chunk, Part, PayloadError};
use crate::host::{Delivery, Host};
use crate::ingest::OpenId;
use crate::shared::Shared;
use crate::view::View;

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;
/// Entries looked at in one step when searching backwards for chunks.
const BACK_SCAN_ENTRIES: u64 = 512;

/// Why delivery cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliverError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("entry {index} cannot be read: {source}")]
    Payload { index: LogIndex, source: PayloadError },
    #[error(
        "action {seqno} of member {member} is incomplete: {found} of {expected} chunks are in the log. \
         This member needs a full copy: stop it, delete its data and start it again"
    )]
    MissingChunks { seqno: Seqno, member: MemberId, found: usize, expected: usize },
}

pub(crate) struct Deliverer {
    pub(crate) reader: LogReader,
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) me: (MemberId, SessionId),
    /// Chunks seen, of actions not complete yet.
    pub(crate) open: HashMap<OpenId, Vec<LogIndex>>,
}

impl Deliverer {
    /// Delivers everything after `after` until stopped.
    pub(crate) fn run(mut self, after: Seqno) {
        match self.deliver_all(after) {
            Ok(()) => {}
            Err(error) => self.host.failed(&error.to_string()),
        }
    }

    fn deliver_all(&mut self, after: Seqno) -> Result<(), DeliverError> {
        // A full copy may be ahead of what this member's own log holds yet.
        if !self.shared.wait_for_commit_seqno(after) {
            return Ok(());
        }
        let mut next = self.start_index(after)?;
        while let Some(commit) = self.shared.wait_for_commit(next) {
            for entry in self.reader.read(next, commit, READ_BYTES)? {
                assert_eq!(entry.header.index, next, "the log is read without gaps");
                if entry.header.seqno > after && self.deliver(&entry)?.is_break() {
                    return Ok(());
                }
                self.shared.delivered.store(next.0, Ordering::Release);
                next = next.next();
            }
        }
        Ok(())
    }

    /// Index of the first entry to look at.
    fn start_index(&self, after: Seqno) -> Result<LogIndex, DeliverError> {
        if after < self.reader.first_seqno_available() {
            return Ok(self.reader.first_index());
        }
        Ok(self.reader.seek_seqno(after)?.next())
    }

    fn deliver(&mut self, entry: &Entry) -> Result<ControlFlow<()>, DeliverError> {
        let header = &entry.header;
        let broken = |source| DeliverError::Payload { index: header.index, source };
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => Ok(ControlFlow::Continue(())),
            EntryKind::Chunk => {
                let chunk = Chunk::decode(entry.payload.clone()).map_err(broken)?;
                let id = open_id(&header.origin, chunk.chunked);
                self.open.entry(id).or_default().push(header.index);
                Ok(ControlFlow::Continue(()))
            }
            EntryKind::Discard => {
                let id = OpenId::decode(entry.payload.clone()).map_err(broken)?;
                self.open.remove(&id);
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
        let piece = ActionPiece::decode(entry.payload.clone())
            .map_err(|source| DeliverError::Payload { index: header.index, source })?;
        let chunks = self.open.remove(&open_id(&header.origin, piece.chunked));
        let is_mine = (header.origin.member, header.origin.session) == self.me;
        if is_mine && self.shared.take_local(header.seqno) {
            return Ok(None);
        }
        if piece.chunked == 0 {
            return Ok(Some(piece.data));
        }
        self.assemble(entry, &piece, chunks.unwrap_or_default()).map(Some)
    }

    fn assemble(
        &self,
        entry: &Entry,
        piece: &ActionPiece,
        mut chunks: Vec<LogIndex>,
    ) -> Result<Bytes, DeliverError> {
        let expected = piece.chunks as usize;
        if chunks.len() < expected {
            chunks = self.search_chunks(entry, piece)?;
        }
        if chunks.len() != expected {
            return Err(DeliverError::MissingChunks {
                seqno: entry.header.seqno,
                member: entry.header.origin.member,
                found: chunks.len(),
                expected,
            });
        }
        let mut data = BytesMut::new();
        for index in chunks {
            for entry in self.reader.read(index, index, READ_BYTES)? {
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
        let wanted = open_id(&last.header.origin, piece.chunked);
        let first = self.reader.first_index();
        let mut found = Vec::new();
        let mut end = last.header.index;
        while end > first && found.len() < piece.chunks as usize {
            let start = LogIndex(end.0.saturating_sub(BACK_SCAN_ENTRIES).max(first.0));
            let mut here = Vec::new();
            let mut next = start;
            while next < end {
                for entry in self.reader.read(next, end.prev(), READ_BYTES)? {
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

fn open_id(origin: &Origin, chunked: u64) -> OpenId {
    OpenId { member: origin.member, session: origin.session, chunked }
}

fn is_chunk_of(entry: &Entry, wanted: &OpenId) -> bool {
    let origin = &entry.header.origin;
    entry.header.kind == EntryKind::Chunk
        && (origin.member, origin.session) == (wanted.member, wanted.session)
        && Chunk::decode(entry.payload.clone()).is_ok_and(|c| c.chunked == wanted.chunked)
}

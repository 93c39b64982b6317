//! Verdicts are those of a plain certifier that knows the whole final log: no committed write set
//! conflicts with one it had not seen, and `depends_on` is exactly right.
//!
//! The plain certifier keeps every hold on every key for ever; it has no window, no rollback and no
//! cleaning. Only the window's start at the moment of the verdict is taken from the leader, and the
//! last action whose keys it did not know (it began in the middle of its chunks), which it must take
//! for one that everything depends on.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_certify::{Class, Fingerprint, KeySet, KeyType, Relation, Source, relation};
use synod_consensus::{EntryHeader, EntryId, EntryKind};

use super::{Checked, Violation, require};
use crate::action::{Chunk, Piece, Row};
use crate::ingest::{OpenId, request};

const RULE: &str = "verdicts are those of a plain certifier";

/// One hold on a key.
#[derive(Clone, Copy, Debug)]
struct Hold {
    seqno: i64,
    source: Option<Source>,
}

#[derive(Default)]
pub(crate) struct Certified {
    holds: BTreeMap<(Fingerprint, KeyType), Vec<Hold>>,
    /// The last action that everything later depends on.
    barrier: i64,
    /// Seqnos of the writes to each row.
    rows: BTreeMap<Row, Vec<i64>>,
    chunks: BTreeMap<OpenId, Vec<u8>>,
    /// Start of the window, and the last action without known keys, when a leader judged an entry.
    windows: BTreeMap<EntryId, (i64, i64)>,
    pub(crate) checked: u64,
}

impl Certified {
    /// A leader has judged and appended an entry.
    pub(crate) fn judged(&mut self, entry: EntryId, by: (i64, i64)) {
        self.windows.insert(entry, by);
    }

    /// Seqno of the last write to a row at or before `seqno`; zero if there was none.
    pub(crate) fn version(&self, row: Row, seqno: i64) -> i64 {
        let Some(writes) = self.rows.get(&row) else {
            return 0;
        };
        let after = writes.partition_point(|write| *write <= seqno);
        after.checked_sub(1).map_or(0, |at| writes[at])
    }

    /// An entry is committed for the first time.
    pub(crate) fn committed(&mut self, header: &EntryHeader, payload: &Bytes) -> Checked {
        match header.kind {
            EntryKind::NoOp | EntryKind::Config => Ok(()),
            EntryKind::View => {
                self.barrier = header.seqno.0;
                let before = header.seqno.0 - 1;
                let right = header.depends_on.0 == before;
                require(right, RULE, || {
                    format!("the view {header:?} does not depend on {before}")
                })
            }
            EntryKind::Chunk => self.chunk(header, payload),
            EntryKind::Discard => {
                self.chunks
                    .retain(|id, _| Some(*id) != OpenId::decode(payload));
                Ok(())
            }
            EntryKind::Action => self.action(header, payload),
        }
    }

    fn chunk(&mut self, header: &EntryHeader, payload: &Bytes) -> Checked {
        let chunk = Chunk::decode(payload.clone()).map_err(|error| unreadable(header, &error))?;
        let id = OpenId::of(&header.origin, chunk.chunked);
        self.chunks
            .entry(id)
            .or_default()
            .extend_from_slice(&chunk.keys);
        Ok(())
    }

    fn action(&mut self, header: &EntryHeader, payload: &Bytes) -> Checked {
        self.checked += 1;
        let piece = Piece::decode(payload.clone()).map_err(|error| unreadable(header, &error))?;
        let id = OpenId::of(&header.origin, piece.chunked);
        let mut encoded = self.chunks.remove(&id).unwrap_or_default();
        encoded.extend_from_slice(&piece.keys);
        let keys = KeySet::decode(&encoded).map_err(|error| unreadable(header, &error))?;
        let window = self.windows.get(&header.id()).copied().unwrap_or_default();
        let judged = self.judge(header, &piece, &keys, window);
        let lost = self.lost_update(header, &piece);
        self.record(header, &piece, &keys);
        judged.and(lost)
    }

    fn judge(
        &self,
        header: &EntryHeader,
        piece: &Piece,
        keys: &KeySet,
        (window, blind): (i64, i64),
    ) -> Checked {
        let source = request(&header.origin, piece, keys).source;
        let (mut any, mut conflict) = (window.max(self.barrier), 0);
        let runs_alone = piece.class != Class::WriteSet { pa_unsafe: false };
        for key in keys {
            for found in KeyType::ALL {
                let how = relation(found, key.kind);
                let Some(holds) = self.holds.get(&(key.fingerprint, found)) else {
                    continue;
                };
                let Some(last) = holds.last().filter(|_| how != Relation::Nothing) else {
                    continue;
                };
                any = any.max(last.seqno);
                if how == Relation::Conflicts {
                    let foreign = holds.iter().rev().find(|hold| hold.source != Some(source));
                    conflict = conflict.max(foreign.map_or(0, |hold| hold.seqno));
                }
            }
        }
        let may_conflict = matches!(piece.class, Class::WriteSet { .. });
        let seen = piece.last_seen;
        require(!may_conflict || conflict <= seen, RULE, || {
            format!("{header:?} had seen {seen} only, and conflicts with {conflict}")
        })?;
        let before = header.seqno.0 - 1;
        let expected = match runs_alone {
            true => before,
            false => any.min(before),
        };
        let cautious = expected.max(blind).min(before);
        let found = header.depends_on.0;
        require(found == expected || found == cautious, RULE, || {
            format!("{header:?} has to depend on {expected} (window from {window})")
        })
    }

    /// First committer wins: nobody wrote a row between what the transaction saw and itself.
    fn lost_update(&self, header: &EntryHeader, piece: &Piece) -> Checked {
        if !matches!(piece.class, Class::WriteSet { .. }) {
            return Ok(());
        }
        let latest = |row: &Row| self.version(*row, header.seqno.0 - 1);
        let lost = piece.rows.iter().find(|row| latest(row) > piece.last_seen);
        require(lost.is_none(), "no update is lost", || {
            let row = lost.copied().unwrap_or_default();
            let (seen, write) = (piece.last_seen, latest(&row));
            format!("{header:?} had seen {seen} only, but row {row} was written by {write}")
        })
    }

    fn record(&mut self, header: &EntryHeader, piece: &Piece, keys: &KeySet) {
        let seqno = header.seqno.0;
        let source = match piece.class {
            Class::WriteSet { .. } => Some(request(&header.origin, piece, keys).source),
            Class::TotalOrder | Class::Barrier => None,
        };
        if piece.class != (Class::WriteSet { pa_unsafe: false }) {
            self.barrier = seqno;
        }
        for key in keys {
            let holds = self.holds.entry((key.fingerprint, key.kind)).or_default();
            holds.push(Hold { seqno, source });
        }
        for row in &piece.rows {
            self.rows.entry(*row).or_default().push(seqno);
        }
    }
}

fn unreadable(header: &EntryHeader, error: &dyn std::error::Error) -> Violation {
    Violation {
        rule: "committed payloads are what was proposed",
        what: format!("{header:?}: {error}"),
    }
}

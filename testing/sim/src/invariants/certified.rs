//! Verdicts are those of a plain certifier that knows the whole final log: no committed write set
//! conflicts with one it had not seen, and `depends_on` is exactly right.
//!
//! The plain certifier keeps every hold on every key for ever; it has no window, no rollback and no
//! cleaning. It takes only one fact from the leader: where the window may have begun at the moment
//! of the verdict. A leader whose window began between the chunks of an action does not know its
//! keys, so later actions may depend on that action without need.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_certify::{Class, Fingerprint, KeySet, KeyType, Relation, Source, relation};
use synod_consensus::{EntryHeader, EntryId, EntryKind, LogIndex, Seqno};
use synod_member::{ActionPiece, Chunk, Discard, Part, PartialActionId};

use super::{Checked, Violation, history::History, require};
use crate::clients::content::{Content, Row};

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
    /// The last action on which everything later depends.
    barrier: i64,
    /// Seqnos of the writes to each row.
    rows: BTreeMap<Row, Vec<i64>>,
    /// First chunk, keys and data of partial actions.
    chunks: BTreeMap<PartialActionId, (LogIndex, Vec<u8>, Vec<u8>)>,
    /// Possible starts of the window when a leader gave the verdict on an entry.
    windows: BTreeMap<EntryId, Vec<Seqno>>,
    /// First chunk of each committed action in chunks. A leader whose window began after it does
    /// not know the action's keys.
    first_chunks: BTreeMap<i64, LogIndex>,
}

/// A complete action, put together from its chunks.
struct Whole {
    piece: ActionPiece,
    keys: KeySet,
    content: Content,
}

impl Certified {
    /// Forgets what is committed. The windows of verdicts stay.
    pub(crate) fn forget_committed(&mut self) {
        let windows = std::mem::take(&mut self.windows);
        *self = Certified {
            windows,
            ..Certified::default()
        };
    }

    /// A leader has given its verdict on an entry and appended it. Its window began at one of these
    /// seqnos.
    pub(crate) fn verdict_given(&mut self, entry: EntryId, windows: &[Seqno]) {
        self.windows.insert(entry, windows.to_vec());
    }

    /// Seqno of the last write to a row at or before `seqno`; zero if there was none.
    pub(crate) fn version(&self, row: Row, seqno: i64) -> i64 {
        let Some(writes) = self.rows.get(&row) else {
            return 0;
        };
        let after = writes.partition_point(|write| *write <= seqno);
        after.checked_sub(1).map_or(0, |at| writes[at])
    }

    /// First index of a committed action in chunks.
    pub(crate) fn first_chunk(&self, seqno: Seqno) -> Option<LogIndex> {
        self.first_chunks.get(&seqno.0).copied()
    }

    /// The last committed action of which a log that begins after `base` lacks a chunk.
    pub(crate) fn last_broken(&self, base: LogIndex) -> Option<Seqno> {
        let mut latest_first = self.first_chunks.iter().rev();
        let broken = latest_first.find(|(_, first_chunk)| **first_chunk <= base);
        broken.map(|(seqno, _)| Seqno(*seqno))
    }

    /// An entry is committed for the first time.
    pub(crate) fn committed(
        &mut self,
        header: &EntryHeader,
        payload: &Bytes,
        history: &mut History,
    ) -> Checked {
        match header.kind {
            EntryKind::NoOp | EntryKind::Config | EntryKind::Decision => Ok(()),
            EntryKind::View => {
                history.view(header, payload)?;
                self.barrier = header.seqno.0;
                let before = header.seqno.0 - 1;
                let right = header.depends_on.0 == before;
                require(right, RULE, || {
                    format!("the view {header:?} does not depend on {before}")
                })
            }
            EntryKind::Chunk => self.chunk(header, payload),
            EntryKind::Discard => {
                let discard = Discard::decode(payload.clone());
                match discard.map_err(|error| unreadable(header, &error))? {
                    Discard::Action(id) => {
                        self.chunks.remove(&id);
                    }
                    Discard::BegunBy(index) => self.chunks.retain(|_, (first, ..)| *first > index),
                }
                Ok(())
            }
            EntryKind::Action => self.action(header, payload, history),
        }
    }

    fn chunk(&mut self, header: &EntryHeader, payload: &Bytes) -> Checked {
        let chunk = Chunk::decode(payload.clone()).map_err(|error| unreadable(header, &error))?;
        let id = PartialActionId::of(&header.origin, chunk.action_no);
        let begun = || (header.index, Vec::new(), Vec::new());
        let (_, keys, data) = self.chunks.entry(id).or_insert_with(begun);
        match chunk.part {
            Part::Keys => keys.extend_from_slice(&chunk.bytes),
            Part::Data => data.extend_from_slice(&chunk.bytes),
        }
        Ok(())
    }

    fn action(&mut self, header: &EntryHeader, payload: &Bytes, history: &mut History) -> Checked {
        let piece =
            ActionPiece::decode(payload.clone()).map_err(|error| unreadable(header, &error))?;
        let id = PartialActionId::of(&header.origin, piece.action_no);
        let (mut keys, mut data) = (Vec::new(), Vec::new());
        if let Some((first_chunk, of_chunks, data_of_chunks)) = self.chunks.remove(&id) {
            (keys, data) = (of_chunks, data_of_chunks);
            self.first_chunks.insert(header.seqno.0, first_chunk);
        }
        keys.extend_from_slice(&piece.keys);
        data.extend_from_slice(&piece.data);
        let content = history.action(header, data.into())?;
        let keys = KeySet::decode(&keys).map_err(|error| unreadable(header, &error))?;
        let whole = Whole {
            piece,
            keys,
            content,
        };
        let windows = self.windows.get(&header.id()).cloned().unwrap_or_default();
        let judged = self.judge(header, &whole, &windows);
        let lost = self.lost_update(header, &whole);
        self.record(header, &whole);
        judged.and(lost)
    }

    fn judge(&self, header: &EntryHeader, whole: &Whole, windows: &[Seqno]) -> Checked {
        let Whole { piece, keys, .. } = whole;
        let source = source_of(header, piece);
        let (mut any, mut conflict) = (self.barrier, 0);
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
        let found = header.depends_on.0;
        let from = |window: i64| {
            if runs_alone {
                before
            } else {
                any.max(window).min(before)
            }
        };
        // The window moves with every action that is appended.
        let (first, last) = (windows.iter().min(), windows.iter().max());
        let exact =
            first.is_some_and(|w| from(w.0) <= found) && last.is_some_and(|w| found <= from(w.0));
        // It depends on an action whose keys the leader did not know.
        let cautious = found > from(0) && self.first_chunks.contains_key(&found);
        require(exact || cautious, RULE, || {
            let expected = from(0);
            format!("{header:?} has to depend on {expected} (window from {windows:?})")
        })
    }

    /// The first committer wins: no other action wrote a row between the snapshot and the commit.
    fn lost_update(&self, header: &EntryHeader, whole: &Whole) -> Checked {
        let Whole { piece, content, .. } = whole;
        if !matches!(piece.class, Class::WriteSet { .. }) {
            return Ok(());
        }
        let latest = |row: &Row| self.version(*row, header.seqno.0 - 1);
        let lost = content
            .rows
            .iter()
            .find(|row| latest(row) > piece.last_seen);
        require(lost.is_none(), "no update is lost", || {
            let row = lost.copied().unwrap_or_default();
            let (seen, write) = (piece.last_seen, latest(&row));
            format!("{header:?} had seen {seen} only, but row {row} was written by {write}")
        })
    }

    fn record(&mut self, header: &EntryHeader, whole: &Whole) {
        let Whole {
            piece,
            keys,
            content,
        } = whole;
        let seqno = header.seqno.0;
        let source = match piece.class {
            Class::WriteSet { .. } => Some(source_of(header, piece)),
            Class::TotalOrder | Class::Barrier => None,
        };
        if piece.class != (Class::WriteSet { pa_unsafe: false }) {
            self.barrier = seqno;
        }
        for key in keys {
            let holds = self.holds.entry((key.fingerprint, key.kind)).or_default();
            holds.push(Hold { seqno, source });
        }
        for row in &content.rows {
            self.rows.entry(*row).or_default().push(seqno);
        }
    }
}

/// The locks that protect an action: those of its origin's process, in one epoch.
fn source_of(header: &EntryHeader, piece: &ActionPiece) -> Source {
    let origin = &header.origin;
    Source {
        member: origin.member.0 ^ origin.session.0,
        epoch: piece.epoch,
    }
}

fn unreadable(header: &EntryHeader, error: &dyn std::error::Error) -> Violation {
    Violation {
        rule: "committed payloads are what was proposed",
        what: format!("{header:?}: {error}"),
    }
}

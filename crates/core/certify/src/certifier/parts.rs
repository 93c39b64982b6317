//! Write sets whose keys come in parts.
//!
//! ```text
//! open -> extend -> extend -> .. -> certify_open (leader), ingest_open -> in the window
//!              retract (truncated)             rollback: open again
//!              abandon (it will not be ordered)
//! ```
//! Each call costs as much as the keys that it is given, and no more for what came before.

use bytes::Bytes;

use super::{Certifier, Undo};
use crate::index::Mark;
use crate::index::SourceId;
use crate::key::relation;
use crate::key_run::PartKeys;
use crate::key_set::DecodeKeysError;
use crate::request::{Class, Source, Verdict};
use crate::runs::OpenId;
use crate::runs::Touch;
use crate::runs::{OrderedRun, RunKeys};

#[derive(Clone, Debug)]
pub struct LastPart {
    /// The source of its locks; of the member that it was opened for.
    pub source: Source,
    pub last_seen: i64,
    pub class: Class,
    pub keys: Bytes,
}

impl Certifier {
    /// Begins a write set of a member (see [`Source::member`]) whose keys come in parts; `None` if
    /// there are too many already ([`super::CertLimits::open_max`]).
    pub fn open(&mut self, member: u64) -> Option<OpenId> {
        (self.open.len() < self.limits.open_max).then(|| self.open.open(member))
    }

    /// The next part of the encoded keys of an open write set came. Compares it with everything
    /// ordered, and with the other open write sets.
    pub fn extend(&mut self, id: OpenId, part: Bytes) -> Result<(), DecodeKeysError> {
        let Some(run) = self.open.get(id) else {
            return Ok(());
        };
        match run.read(part) {
            Ok((keys, stream)) => {
                let touch = self.touch_of(run.member(), &keys);
                self.open.push(id, keys, stream, touch);
                Ok(())
            }
            Err(error) => {
                self.open.push_malformed(id, error);
                Err(error)
            }
        }
    }

    /// Whether this would be the next part of the keys of an open write set.
    pub fn check_part(&self, id: OpenId, part: Bytes) -> Result<(), DecodeKeysError> {
        let run = self.open.get(id);
        run.map_or(Ok(()), |run| run.read(part).map(|_| ()))
    }

    /// The latest action later than `seen` that an open write set conflicts with for certain. If it
    /// has seen nothing later than `seen`, it will be refused.
    pub fn doomed(&self, id: OpenId, seen: i64) -> Option<i64> {
        let with = self.open.get(id)?.touch().foreign();
        (with > seen).then_some(with)
    }

    /// Parts of an open write set are gone: `kept` are left.
    pub fn retract(&mut self, id: OpenId, kept: usize) {
        self.open.retract(id, kept);
    }

    /// An open write set will never be ordered. Without effect if it was.
    pub fn abandon(&mut self, id: OpenId) {
        drop(self.open.take(id));
    }

    /// The verdict if an open write set ended now as `seqno`. Changes nothing.
    pub fn certify_open(
        &self,
        seqno: i64,
        id: OpenId,
        last: &LastPart,
    ) -> Result<Verdict, DecodeKeysError> {
        debug_assert_eq!(seqno, self.last + 1, "verdicts are about the next seqno");
        let Some(run) = self.open.get(id) else {
            return Err(DecodeKeysError::NoCount { found: 0 });
        };
        let (keys, stream) = run.read(last.keys.clone())?;
        stream.finish()?;
        let Class::WriteSet { pa_unsafe } = last.class else {
            return Ok(Verdict::Pass {
                depends_on: seqno - 1,
            });
        };
        let mut touch = run.touch();
        touch.merge(&self.touch_of(run.member(), &keys));
        let touched = super::Touched {
            any: touch.any(),
            foreign_conflict: touch.foreign_to(last.source.epoch),
        };
        Ok(self.verdict(seqno, last.last_seen, pa_unsafe, &touched))
    }

    /// An open write set was appended to the log as `seqno`.
    /// # Panics
    /// If `seqno` is not the one after the last ingested.
    pub fn ingest_open(
        &mut self,
        seqno: i64,
        id: OpenId,
        last: &LastPart,
    ) -> Result<(), DecodeKeysError> {
        let Some(run) = self.open.get(id) else {
            return Err(DecodeKeysError::NoCount { found: 0 });
        };
        let (keys, stream) = run.read(last.keys.clone())?;
        stream.finish()?;
        let parts = run.part_count();
        let barrier = self.begin_ingest(seqno, last.class);
        self.open.push(id, keys, stream, Touch::NONE);
        let source = match last.class {
            Class::WriteSet { .. } => self.sources.number(last.source, seqno, self.window_start),
            Class::TotalOrder | Class::Barrier => SourceId::TOTAL_ORDER,
        };
        let mut hits = Vec::new();
        if let Some(run) = self.open.take(id) {
            let mark = Mark::of(seqno, source);
            let known = self.sources.source_of(source);
            hits = self.open.hit_by_run((id, &run), mark, known);
            let keys = RunKeys::Parts { id, run, parts };
            self.runs.push(OrderedRun {
                seqno,
                source,
                keys,
            });
        }
        self.newest_keys.push_back(0);
        self.end_ingest(Undo {
            barrier,
            marks: Vec::new(),
            hits,
        });
        Ok(())
    }

    /// Ordered actions that matter to these keys of a write set of `member`. Marks outside the
    /// window are left out: their source may have another's number by now.
    fn touch_of(&self, member: u64, keys: &PartKeys) -> Touch {
        let mut touch = Touch::NONE;
        let mut add = |found, key: crate::key::Key, mark: Mark| {
            if mark.latest > self.window_start {
                let source = self.sources.source_of(mark.source());
                touch.add(relation(found, key.kind), mark, source, member);
            }
        };
        for key in keys.iter() {
            if let Some(marks) = self.index.marks(key.fingerprint) {
                for found in crate::key::KeyType::ALL {
                    add(found, key, marks.get(found));
                }
            }
            for (found, mark) in self.runs.marks(key.fingerprint) {
                add(found, key, mark);
            }
        }
        touch
    }
}

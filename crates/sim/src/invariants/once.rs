//! A proposal is ordered at most once; what its client was told is true. A write that timed out is
//! unknown, never absent.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{EntryHeader, Origin, Seqno};

use super::{Checked, require};

/// Origins are not ordered by themselves.
type Name = (u64, u64, u64);

fn name(origin: &Origin) -> Name {
    (origin.member.0, origin.session.0, origin.number)
}

#[derive(Default)]
pub(crate) struct Once {
    ordered: BTreeMap<Name, Seqno>,
    refused: BTreeSet<Name>,
}

impl Once {
    /// An entry is committed for the first time.
    pub(crate) fn committed(&mut self, header: &EntryHeader) -> Checked {
        if header.origin.number == 0 {
            return Ok(());
        }
        let name = name(&header.origin);
        let before = self.ordered.insert(name, header.seqno);
        require(before.is_none(), "a proposal is ordered once", || {
            let origin = header.origin;
            format!(
                "{origin:?} is committed at seqno {before:?} and {}",
                header.seqno
            )
        })?;
        let refused = self.refused.contains(&name);
        require(!refused, "refused means absent", || {
            format!("{:?} was refused, and is committed", header.origin)
        })
    }

    /// A client was told that its write was refused.
    pub(crate) fn refused(&mut self, origin: &Origin) -> Checked {
        let name = name(origin);
        self.refused.insert(name);
        let ordered = self.ordered.get(&name);
        require(ordered.is_none(), "refused means absent", || {
            format!("{origin:?} is refused, but it is committed at {ordered:?}")
        })
    }

    /// A client was told that its write is committed.
    pub(crate) fn acknowledged(&self, origin: &Origin, seqno: Seqno) -> Checked {
        let known = self.ordered.get(&name(origin)).copied();
        require(known == Some(seqno), "acknowledged means committed", || {
            format!("{origin:?} is acknowledged at seqno {seqno}, but committed at {known:?}")
        })
    }
}

//! A proposal is ordered at most once, however often its origin sends it.
//!
//! An origin names a proposal by member, session and number; entries of the leader itself have
//! none.

use std::collections::BTreeMap;

use synod_consensus::{EntryHeader, Origin, Seqno};

use super::{Checked, require};

/// Member, session and number of an origin, as a key.
type Name = (u64, u64, u64);

fn name(origin: &Origin) -> Name {
    (origin.member.0, origin.session.0, origin.number)
}

#[derive(Default)]
pub(crate) struct Once {
    ordered: BTreeMap<Name, Seqno>,
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
        })
    }
}

//! Committed entries are never lost, truncated or changed: all members commit the same entries.
//!
//! The account of committed entries is the base for most other rules.

use synod_consensus::{EntryHeader, EntryId, LogIndex, MemberId, Seqno, Term};

use super::{Checked, require, seqno};

#[derive(Default)]
pub(crate) struct Committed {
    /// Entries from index 1, each with the term of the member that committed it first.
    entries: Vec<(EntryHeader, Term)>,
}

impl Committed {
    pub(crate) fn index(&self) -> LogIndex {
        LogIndex(self.entries.len() as u64)
    }

    pub(crate) fn entries(&self) -> &[(EntryHeader, Term)] {
        &self.entries
    }

    pub(crate) fn get(&self, index: LogIndex) -> Option<&EntryHeader> {
        let position = usize::try_from(index.0.checked_sub(1)?).ok()?;
        self.entries.get(position).map(|(header, _)| header)
    }

    pub(crate) fn last_seqno(&self) -> Seqno {
        self.entries
            .last()
            .map_or(Seqno(0), |(header, _)| header.seqno)
    }

    /// A member commits an entry in a term. Returns whether it is the first to do so.
    pub(crate) fn commit(
        &mut self,
        member: MemberId,
        header: &EntryHeader,
        term: Term,
    ) -> (bool, Checked) {
        if let Some(known) = self.get(header.index) {
            let same = known == header;
            let checked = require(same, "committed entries never change", || {
                format!("{member} commits {header:?} where {known:?} is committed")
            });
            return (false, checked);
        }
        let next = self.index().next();
        let gapless = require(header.index == next, "commits have no gaps", || {
            format!("{member} commits {} where {next} is next", header.index)
        });
        let checked = gapless.and_then(|()| seqno::follows(self.last_seqno(), header));
        self.entries.push((*header, term));
        (true, checked)
    }

    /// A member truncates its log at `from`; `had` is its entry there.
    pub(crate) fn truncated(
        &self,
        member: MemberId,
        from: LogIndex,
        had: Option<EntryId>,
    ) -> Checked {
        let committed = self.get(from).map(EntryHeader::id);
        let lost = committed.is_some() && committed == had;
        require(!lost, "committed entries are never truncated", || {
            format!(
                "{member} truncates its log at {from}, where it has the committed {committed:?}"
            )
        })
    }

    /// A member begins its log after `base`.
    pub(crate) fn base(&self, member: MemberId, base: EntryId) -> Checked {
        let known = self.get(base.index).map(EntryHeader::id);
        let good = base.index == LogIndex(0) || known == Some(base);
        require(good, "logs start with committed entries", || {
            format!("{member} starts its log at {base}, where {known:?} is committed")
        })
    }
}

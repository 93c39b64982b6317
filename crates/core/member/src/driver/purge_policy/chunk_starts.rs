//! Index of the places where committed actions in chunks begin in the log. A log that keeps an
//! action must keep its chunks, and these may be far before it: other actions are ordered between
//! them. This is an index from seqnos to first chunks, filled as actions are committed.

use std::collections::BTreeMap;

use synod_consensus::{LogIndex, Seqno};

/// First chunks of committed actions. Knows what this process has seen committed, and what the end
/// of the log contained when the process started.
#[derive(Default)]
pub(super) struct ChunkStarts {
    /// First chunk of any action ordered at this seqno, or known at that time to be ordered.
    first_chunks: BTreeMap<Seqno, LogIndex>,
}

impl ChunkStarts {
    /// Actions were committed, up to `seqno`. Their chunks begin at `first_chunk` or later.
    pub(super) fn committed(&mut self, seqno: Seqno, first_chunk: LogIndex) {
        let known = self.first_chunks.entry(seqno).or_insert(first_chunk);
        *known = first_chunk.min(*known);
    }

    pub(super) fn first_after(&self, seqno: Seqno) -> Option<LogIndex> {
        let after = self.first_chunks.range(seqno.next()..);
        after.map(|(_, first_chunk)| *first_chunk).min()
    }

    /// The log was purged up to `base`, which is at `seqno`. An action whose beginning is not known
    /// (zero) is remembered as long as the action itself is in the log.
    pub(super) fn purged(&mut self, base: LogIndex, seqno: Seqno) {
        let unknown = LogIndex(0);
        self.first_chunks
            .retain(|at, first| *first > base || (*first == unknown && *at > seqno));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_chunk_of_all_later_actions_counts() {
        let mut starts = ChunkStarts::default();
        assert_eq!(starts.first_after(Seqno(0)), None);
        starts.committed(Seqno(5), LogIndex(40));
        starts.committed(Seqno(9), LogIndex(30));
        starts.committed(Seqno(9), LogIndex(35));
        starts.committed(Seqno(12), LogIndex(60));
        let first_after = |starts: &ChunkStarts, seqno| starts.first_after(Seqno(seqno));
        assert_eq!(first_after(&starts, 4), Some(LogIndex(30)));
        assert_eq!(first_after(&starts, 8), Some(LogIndex(30)));
        assert_eq!(first_after(&starts, 9), Some(LogIndex(60)));
        assert_eq!(first_after(&starts, 12), None);
        starts.purged(LogIndex(30), Seqno(3));
        assert_eq!(first_after(&starts, 4), Some(LogIndex(40)));
    }
}

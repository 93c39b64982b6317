//! Where committed actions in chunks begin: a log that is to keep an action must keep its chunks, which may be
//! before many actions that were ordered sooner.

use std::collections::BTreeMap;

use synod_consensus::{LogIndex, Seqno};

/// Begins with this process, but for what the log's end tells at its start.
#[derive(Default)]
pub(super) struct Chunked {
    /// First chunk of any action ordered at this seqno, or known at that time to be ordered.
    first_chunks: BTreeMap<Seqno, LogIndex>,
}

impl Chunked {
    /// All actions up to `seqno` that were open, and are not any more, begin at `first_chunk` or later.
    pub(super) fn committed(&mut self, seqno: Seqno, first_chunk: LogIndex) {
        let known = self.first_chunks.entry(seqno).or_insert(first_chunk);
        *known = first_chunk.min(*known);
    }

    /// First chunk of any action after `seqno`.
    pub(super) fn first_after(&self, seqno: Seqno) -> Option<LogIndex> {
        let after = self.first_chunks.range(seqno.next()..);
        after.map(|(_, first_chunk)| *first_chunk).min()
    }

    /// The log has nothing up to `base` any more, nor up to `seqno`. What began anywhere (at zero) is kept
    /// in mind as long as it is in the log.
    pub(super) fn dropped(&mut self, base: LogIndex, seqno: Seqno) {
        let anywhere = LogIndex(0);
        self.first_chunks
            .retain(|at, first| *first > base || (*first == anywhere && *at > seqno));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_first_counts_of_what_is_ordered_later() {
        let mut chunked = Chunked::default();
        assert_eq!(chunked.first_after(Seqno(0)), None);
        chunked.committed(Seqno(5), LogIndex(40));
        chunked.committed(Seqno(9), LogIndex(30));
        chunked.committed(Seqno(9), LogIndex(35));
        chunked.committed(Seqno(12), LogIndex(60));
        let first_after = |chunked: &Chunked, seqno| chunked.first_after(Seqno(seqno));
        assert_eq!(first_after(&chunked, 4), Some(LogIndex(30)));
        assert_eq!(first_after(&chunked, 8), Some(LogIndex(30)));
        assert_eq!(first_after(&chunked, 9), Some(LogIndex(60)));
        assert_eq!(first_after(&chunked, 12), None);
        chunked.dropped(LogIndex(30), Seqno(3));
        assert_eq!(first_after(&chunked, 4), Some(LogIndex(40)));
    }
}

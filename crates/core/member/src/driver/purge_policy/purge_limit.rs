//! The purge limit: up to where full logs may be purged, even if a member still needs the entries.
//!
//! It covers what enough databases have flushed ([`super::redundancy`]), but neither the chunks of
//! later actions nor those of partial actions: a log that begins between the chunks of an action
//! cannot deliver that action.
//!
//! Only the leader can compute the limit, since it knows every partial action. It announces the
//! limit to all members in its status. A leader does not know partial actions that began before its
//! own knowledge of the log does; it discards those at the beginning of its term, and announces no
//! limit before the discard is committed.

use synod_consensus::{LogIndex, Seqno};
use synod_log::LogError;

use super::CertifiedLog;

/// The limit as this member knows it: computed as the leader, or announced by the leader.
/// Invariant: the limit is never beyond the end of this member's log. Zero: nothing may be purged.
#[derive(Default)]
pub(super) struct PurgeLimit {
    index: LogIndex,
    /// Leader only: an action, and the last entry before the action after it. Saves a search of
    /// the log.
    sought: Option<(Seqno, LogIndex)>,
}

impl PurgeLimit {
    pub(super) fn index(&self) -> LogIndex {
        self.index
    }

    /// The leader has announced a limit; this member's log ends with `last`. The limit says nothing
    /// of later entries: in a forced primary they may differ from those that the leader spoke of.
    pub(super) fn announced(&mut self, index: LogIndex, last: LogIndex) {
        self.index = index.min(last);
    }

    pub(super) fn log_ends(&mut self, last: LogIndex) {
        self.index = self.index.min(last);
        self.sought = None;
    }

    /// Leader only: computes the limit. Enough databases have flushed everything up to `flushed`,
    /// and `first_chunk` is the first chunk of any action after that. Zero if this member does not
    /// know enough.
    pub(super) fn compute(
        &mut self,
        log: &CertifiedLog,
        flushed: Seqno,
        first_chunk: Option<LogIndex>,
        search: impl FnOnce(Seqno) -> Result<LogIndex, LogError>,
    ) -> Result<(), LogError> {
        self.index = LogIndex(0);
        // Where actions begin that were complete before that is not known either.
        if !log.knows_partial_actions() || flushed < log.start_seqno {
            return Ok(());
        }
        let Some(mut index) = self.last_index_of(log, flushed, search)? else {
            return Ok(());
        };
        if let Some(chunk) = first_chunk {
            index = index.min(chunk.prev());
        }
        self.index = index.min(log.committed);
        Ok(())
    }

    /// The last entry before the first action after `seqno`, as far as this member's log has been
    /// written.
    fn last_index_of(
        &mut self,
        log: &CertifiedLog,
        seqno: Seqno,
        search: impl FnOnce(Seqno) -> Result<LogIndex, LogError>,
    ) -> Result<Option<LogIndex>, LogError> {
        if let Some((_, index)) = self.sought.filter(|(sought, _)| *sought == seqno) {
            return Ok(Some(index));
        }
        match search(seqno.next()) {
            Ok(next) => {
                self.sought = Some((seqno, next.prev()));
                Ok(Some(next.prev()))
            }
            Err(LogError::SeqnoNotFound { .. }) => Ok(Some(log.written)),
            Err(error) if error.damage().is_some() => Err(error),
            // Purged already, or not readable now.
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> CertifiedLog {
        CertifiedLog {
            committed: LogIndex(90),
            ..crate::driver::purge_policy::tests::log()
        }
    }

    /// Action `n` is at index `10 * n`.
    fn search(seqno: Seqno) -> Result<LogIndex, LogError> {
        Ok(LogIndex(seqno.0 as u64 * 10))
    }

    #[test]
    fn limit_is_before_the_next_action_and_before_the_chunks_of_later_ones() {
        let mut limit = PurgeLimit::default();
        limit.compute(&log(), Seqno(4), None, search).unwrap();
        assert_eq!(limit.index(), LogIndex(49));
        let chunk = Some(LogIndex(33));
        limit.compute(&log(), Seqno(4), chunk, search).unwrap();
        assert_eq!(limit.index(), LogIndex(32));
        limit.compute(&log(), Seqno(50), None, search).unwrap();
        assert_eq!(limit.index(), LogIndex(90), "committed");
    }

    #[test]
    fn search_is_remembered_until_the_log_is_truncated() {
        let mut limit = PurgeLimit::default();
        limit.compute(&log(), Seqno(4), None, search).unwrap();
        let must_not = |_| -> Result<LogIndex, LogError> { panic!("searched again") };
        limit.compute(&log(), Seqno(4), None, must_not).unwrap();
        limit.log_ends(LogIndex(20));
        assert_eq!(limit.index(), LogIndex(20));
        let elsewhere = |_| Ok(LogIndex(46));
        limit.compute(&log(), Seqno(4), None, elsewhere).unwrap();
        assert_eq!(limit.index(), LogIndex(45));
    }

    #[test]
    fn leader_that_does_not_know_all_partial_actions_has_no_limit() {
        let mut limit = PurgeLimit::default();
        let late = CertifiedLog {
            start: LogIndex(30),
            start_seqno: Seqno(3),
            ..log()
        };
        limit.compute(&late, Seqno(4), None, search).unwrap();
        assert_eq!(limit.index(), LogIndex(0));
        let discarded = |entry| CertifiedLog {
            discard: Some((LogIndex(entry), LogIndex(30))),
            ..late
        };
        limit
            .compute(&discarded(91), Seqno(4), None, search)
            .unwrap();
        assert_eq!(limit.index(), LogIndex(0), "not committed");
        limit
            .compute(&discarded(88), Seqno(4), None, search)
            .unwrap();
        assert_eq!(limit.index(), LogIndex(49));
        limit
            .compute(&discarded(88), Seqno(2), None, search)
            .unwrap();
        assert_eq!(limit.index(), LogIndex(0), "before its knowledge begins");
    }

    #[test]
    fn announced_limit_says_nothing_of_entries_that_are_not_here() {
        let mut limit = PurgeLimit::default();
        limit.announced(LogIndex(50), LogIndex(40));
        assert_eq!(limit.index(), LogIndex(40));
    }
}

//! What logs may drop if they have to: what is in enough databases ([`super::spread`]), but not the chunks of what is
//! not, nor of what is not complete. A log that is cut between the chunks of an action cannot give that action to
//! anybody.
//!
//! Only the leader can tell, and tells all members: it knows of every action in chunks that is not complete. What it
//! does not know, because it was not running when that began, it gives up at the beginning of its term.

use synod_consensus::{EntryKind, LogIndex, Seqno};
use synod_log::LogError;

use super::Driver;
use crate::host::Level;
use crate::payload::discard::Discard;

impl Driver {
    /// What may be dropped, up to this index, as far as this member knows.
    pub(super) fn droppable(&mut self) -> LogIndex {
        if self.core.is_leader() {
            self.droppable = self.judge_droppable().unwrap_or(LogIndex(0));
        }
        self.droppable
    }

    /// The leader's word. It tells nothing of entries that are to come: in a group that was ordered to go on without
    /// a majority they may be others than those that the leader spoke of.
    pub(super) fn heard_droppable(&mut self, index: LogIndex) {
        self.droppable = index.min(self.core.last_id().index);
    }

    /// This member's log was cut, or began anew: it ends with `last`.
    pub(super) fn droppable_ends(&mut self, last: LogIndex) {
        self.droppable = self.droppable.min(last);
        self.sought = None;
    }

    /// As a leader that knows enough to tell.
    fn judge_droppable(&mut self) -> Option<LogIndex> {
        let (start, start_seqno) = self.ingest.start();
        let spread = self.spread.flushed(&self.core.config().config);
        let knows_unfinished = start == LogIndex(0)
            || self
                .ingest
                .discarded()
                .is_some_and(|(entry, begun_by)| begun_by >= start && entry <= self.last_committed);
        // Where those begin that were complete at its start is not known either.
        if !knows_unfinished || spread < start_seqno {
            return None;
        }
        let spread_index = self.last_index_of(spread)?;
        let chunks = self.chunks_after(spread).map(LogIndex::prev);
        let index = chunks.map_or(spread_index, |chunks| chunks.min(spread_index));
        Some(index.min(self.last_committed))
    }

    /// The last entry before the first action after `seqno`, as far as this member's log has been written.
    fn last_index_of(&mut self, seqno: Seqno) -> Option<LogIndex> {
        if let Some((_, index)) = self.sought.filter(|(sought, _)| *sought == seqno) {
            return Some(index);
        }
        let written = self.links.reader.last_index();
        match self.links.reader.seek_seqno(seqno.next()) {
            Ok(next) => {
                self.sought = Some((seqno, next.prev()));
                Some(next.prev())
            }
            Err(LogError::SeqnoNotFound { .. }) => Some(written),
            // Gone already.
            Err(LogError::SeqnoPurged { .. }) => None,
            Err(error) => {
                if error.damage().is_some() {
                    self.log_damaged(&error);
                }
                None
            }
        }
    }

    /// First chunk of any action that comes after `seqno`, or is not complete.
    pub(super) fn chunks_after(&self, seqno: Seqno) -> Option<LogIndex> {
        let open = match synod_planted::is(synod_planted::Bug::DropUnfinished) {
            true => None,
            false => self.ingest.oldest_open_chunk(),
        };
        let committed = self.chunked.first_after(seqno);
        open.into_iter().chain(committed).min()
    }

    /// Whatever began before this leader knew of it is given up: it would refuse to go on with it, and nobody
    /// could tell how long logs have to keep it.
    pub(super) fn discard_unknown(&mut self) {
        let (start, _) = self.ingest.start();
        let discarded = self.ingest.discarded();
        if discarded.map_or(LogIndex(0), |(_, begun_by)| begun_by) < start {
            let why =
                format!("giving up all unfinished actions that began by entry {start}, if any");
            self.discard(&Discard::BegunBy(start), Level::Info, why);
        }
    }

    /// Gives up what nobody has continued for long.
    pub(super) fn discard_stale(&mut self) {
        for id in self
            .ingest
            .stale(self.now, self.tuning.partial_action_timeout)
        {
            let why = format!("giving up an unfinished action of member {}", id.member);
            self.discard(&Discard::Action(id), Level::Info, why);
        }
    }

    /// Gives up the oldest unfinished action if the log is full, has been for a while, and may not drop more because
    /// of it: everything before it is in enough databases. Clients would wait in vain for an origin that
    /// is dead, or for an action that is larger than the log.
    pub(super) fn make_room(&mut self) {
        if !self.told_log_full || !self.links.shared.is_log_full() {
            return;
        }
        let spread = self.spread.flushed(&self.core.config().config);
        let oldest = self.ingest.oldest_unfinished();
        let Some((id, _)) = oldest.filter(|(_, after)| *after <= spread) else {
            return;
        };
        let why = format!(
            "giving up an unfinished action of member {}: the log is larger than twice \
             synod.log_retain_size, and nothing can be dropped from it before that action ends",
            id.member
        );
        self.discard(&Discard::Action(id), Level::Warning, why);
    }

    fn discard(&mut self, what: &Discard, level: Level, why: String) {
        // Refused when full or handing over: the next tick tries again.
        if self.append_own(EntryKind::Discard, &what.encode()) {
            self.log(level, why);
        }
    }
}

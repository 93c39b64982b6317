//! Tracks which of this member's writes are on stable storage. All storage effects form one ordered
//! stream named by tickets. This module translates "ticket T is durable" into "the current log is
//! durable up to index I", although positions may be written, truncated and written again while
//! completions are on their way: a truncation caps every pending append at once, so that a late
//! completion of an overwritten append confirms only the prefix that both writes share (the hazard
//! described at etcd raft's asynchronous storage writes).

use std::collections::VecDeque;

use crate::effect::WriteTicket;
use crate::types::LogIndex;

#[derive(Debug)]
pub(crate) struct Durability {
    /// Latest ticket handed out; zero: none.
    issued: WriteTicket,
    /// Latest ticket reported durable; zero: none.
    durable: WriteTicket,
    /// The current log is durable up to here.
    index: LogIndex,
    /// Appends and resets under way: once the ticket is durable, so is the log up to the index.
    pending: VecDeque<(WriteTicket, LogIndex)>,
}

impl Durability {
    /// At a start everything recovered is durable, up to `last`.
    pub(crate) fn new(last: LogIndex) -> Durability {
        Durability {
            issued: WriteTicket(0),
            durable: WriteTicket(0),
            index: last,
            pending: VecDeque::new(),
        }
    }

    pub(crate) fn issued(&self) -> WriteTicket {
        self.issued
    }

    /// Whether this write, and so every earlier one, is durable.
    pub(crate) fn covers(&self, ticket: WriteTicket) -> bool {
        ticket <= self.durable
    }

    pub(crate) fn index(&self) -> LogIndex {
        self.index
    }

    pub(crate) fn issue(&mut self) -> WriteTicket {
        self.issued = WriteTicket(self.issued.0 + 1);
        self.issued
    }

    pub(crate) fn appended(&mut self, ticket: WriteTicket, last: LogIndex) {
        assert_eq!(
            ticket, self.issued,
            "appends are noted when they are issued"
        );
        self.pending.push_back((ticket, last));
    }

    pub(crate) fn truncated(&mut self, from: LogIndex) {
        let keep = from.prev();
        self.index = self.index.min(keep);
        for (_, last) in &mut self.pending {
            *last = (*last).min(keep);
        }
    }

    pub(crate) fn reset(&mut self, ticket: WriteTicket, base: LogIndex) {
        assert_eq!(ticket, self.issued, "resets are noted when they are issued");
        self.index = LogIndex(0);
        self.pending.clear();
        self.pending.push_back((ticket, base));
    }

    /// Storage reports that `ticket`, and so every earlier one, is durable.
    pub(crate) fn persisted(&mut self, ticket: WriteTicket) {
        assert!(
            ticket <= self.issued,
            "{ticket:?} was never issued (last: {:?})",
            self.issued
        );
        self.durable = self.durable.max(ticket);
        while let Some(&(pending, last)) = self.pending.front() {
            if pending > self.durable {
                break;
            }
            self.index = self.index.max(last);
            self.pending.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_completion_of_an_overwritten_append_confirms_only_the_common_prefix() {
        let mut d = Durability::new(LogIndex(4));
        let first = d.issue();
        d.appended(first, LogIndex(10));
        d.issue();
        d.truncated(LogIndex(7));
        let third = d.issue();
        d.appended(third, LogIndex(9));

        d.persisted(first);
        assert_eq!(d.index(), LogIndex(6));
        d.persisted(third);
        assert_eq!(d.index(), LogIndex(9));
    }

    #[test]
    fn truncation_of_durable_entries_takes_effect_at_once() {
        let mut d = Durability::new(LogIndex(10));
        d.issue();
        d.truncated(LogIndex(3));
        assert_eq!(d.index(), LogIndex(2));
    }

    #[test]
    fn nothing_is_durable_between_a_reset_and_its_completion() {
        let mut d = Durability::new(LogIndex(10));
        let append = d.issue();
        d.appended(append, LogIndex(12));
        let reset = d.issue();
        d.reset(reset, LogIndex(50));
        d.persisted(append);
        assert_eq!(d.index(), LogIndex(0));
        d.persisted(reset);
        assert_eq!(d.index(), LogIndex(50));
    }
}

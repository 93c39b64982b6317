//! In a group that takes the leader's writes only, every write is of the leader of its term, and
//! has seen everything that preceded that term. So no two members' writes conflict.
//!
//! Follows from the log alone: the setting is in its configurations.

use bytes::Bytes;
use synod_certify::Class;
use synod_consensus::{Config, EntryHeader, EntryKind, MemberId, Seqno, Term, Writers};
use synod_member::ActionPiece;

use super::{Checked, require};

const RULE: &str = "only the writer writes";

/// The rule, at the end of what is committed.
#[derive(Default)]
pub(crate) struct OneWriter {
    writers: Writers,
    term: Term,
    /// The last action before that term.
    term_after: Seqno,
}

impl OneWriter {
    /// Whether the group takes the leader's writes only.
    pub(crate) fn is_in_force(&self) -> bool {
        self.writers == Writers::Leader
    }

    /// An entry is committed for the first time; `leader` has led its term.
    pub(crate) fn committed(
        &mut self,
        header: &EntryHeader,
        payload: &Bytes,
        leader: Option<MemberId>,
    ) -> Checked {
        if header.term > self.term {
            self.term = header.term;
            self.term_after = match header.kind.is_ordered() {
                true => header.seqno.prev(),
                false => header.seqno,
            };
        }
        match header.kind {
            EntryKind::Config => {
                // What cannot be read is another rule's finding.
                let config = Config::decode(payload);
                self.writers = config.map_or(self.writers, |config| config.settings.writers);
                Ok(())
            }
            EntryKind::Action if self.is_in_force() => {
                let Ok(piece) = ActionPiece::decode(payload.clone()) else {
                    return Ok(());
                };
                // The rollback of a streamed transaction is no write.
                if piece.class == Class::Barrier {
                    return Ok(());
                }
                self.write(header, leader, piece.last_seen)
            }
            EntryKind::Chunk if self.is_in_force() => self.of_leader(header, leader),
            _ => Ok(()),
        }
    }

    fn write(&self, header: &EntryHeader, leader: Option<MemberId>, seen: i64) -> Checked {
        self.of_leader(header, leader)?;
        let after = self.term_after;
        require(seen >= after.0, RULE, || {
            format!("{header:?} had seen {seen} only, and its term begins after {after}")
        })
    }

    fn of_leader(&self, header: &EntryHeader, leader: Option<MemberId>) -> Checked {
        require(leader == Some(header.origin.member), RULE, || {
            format!("{header:?}, and the leader of its term is {leader:?}")
        })
    }
}

//! The thread that joins the group, and feeds the server's channel with what the group orders.
//!
//! The channel has a queue on disk of its own (the relay log). It is not relied on: each start
//! begins with an empty one, after the last number without a gap in `gtid_executed`. What is
//! executed beyond that comes again, and the server skips it by its GTID.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use synod_binlog::mysql_gtid::MysqlGtidSet;
use synod_node::{Level, NotFetched, Seqno};

use crate::events;
use crate::host::Member;
use crate::incoming::Part;
use crate::others::OthersError;
use crate::server::ServerError;
use crate::status::Stage;
use crate::transaction::NotReadable;

/// Bytes that wait in the channel's queue on disk at most: the group's log has them, too.
const QUEUED_BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
struct Queued {
    all: VecDeque<(Seqno, usize)>,
    bytes: usize,
}

impl Queued {
    /// Whether there is room for further ones once everything up to `applied` has left.
    fn has_room(&mut self, applied: Seqno) -> bool {
        while let Some((seqno, bytes)) = self.all.front()
            && *seqno <= applied
        {
            self.bytes -= bytes;
            self.all.pop_front();
        }
        self.bytes < QUEUED_BYTES_MAX
    }

    fn push(&mut self, seqno: Seqno, bytes: usize) {
        self.all.push_back((seqno, bytes));
        self.bytes += bytes;
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Node(#[from] synod_node::NodeError),
    #[error("entry {seqno} of the group's log is no transaction of MySQL: {why}")]
    Entry { seqno: Seqno, why: NotReadable },
    #[error("entry {seqno} of the group's log has damaged events: {why}")]
    Events {
        seqno: Seqno,
        why: synod_binlog::EventError,
    },
    #[error(
        "the database has the group's number {last}, but the group's history has only reached \
         {group}: it holds what the group does not have. Move its data away, and start with a copy \
         of another server's"
    )]
    Ahead { last: Seqno, group: Seqno },
    #[error(
        "the database is at {applied}, and no member's log reaches back to there ({asked}). Copy \
         the data of another server with the clone plugin, and start this server again"
    )]
    LogTooShort { applied: Seqno, asked: String },
    #[error(
        "the group began with other data than this server has: the servers had executed \
         '{group}' then, and this one has executed '{here}'. Copy the data of another server with \
         the clone plugin, and start this server again"
    )]
    OtherBeginning { group: String, here: String },
    #[error(
        "this server was written to outside of its group: of GTIDs that are not the group's it had \
         executed '{had}' when it followed the group, and has executed '{here}'. Its data differ \
         from the others'. Copy the data of another server with the clone plugin, and start this \
         server again"
    )]
    WrittenOutside { had: String, here: String },
    #[error(transparent)]
    Others(#[from] OthersError),
}

impl Member {
    pub(crate) fn apply(&self) {
        let ended = self.join().and_then(|joined| match joined {
            Some(after) => self.feed(after),
            None => Ok(()),
        });
        match ended {
            Ok(()) => {}
            // What fails while the member stops is a consequence.
            Err(_) if self.lock().is_stopping => {}
            Err(why) => self.fail(why.to_string()),
        }
        if let Err(error) = self.server.stop_channel() {
            self.log(Level::Info, format!("while stopping: {error}"));
        }
    }

    /// Position after which the group's history is applied; none: the member stops before.
    fn join(&self) -> Result<Option<Seqno>, ApplyError> {
        // Tools expect it from START GROUP_REPLICATION on.
        self.server.create_channel()?;
        let Some(group) = self.wait_for(|state| state.joined) else {
            return Ok(None);
        };
        let (node, applied) = (self.node(), self.applied());
        // Also beyond a gap: the group will give these numbers to others.
        let last = applied.max(self.had_at_start);
        if last >= group {
            return Err(ApplyError::Ahead { last, group });
        }
        self.check_others()?;
        if !node.can_deliver_after(applied)
            && let Err(NotFetched { asked }) = node.find_actions_after(applied)
        {
            return Err(ApplyError::LogTooShort { applied, asked });
        }
        self.server.start_channel()?;
        let format = events::format_description(&self.settings.version, self.settings.server_id);
        self.server.queue(&format)?;
        self.set_data_state(synod_node::DataState::Joined);
        self.change(|state| state.stage = Stage::Following);
        node.deliver_after(applied)?;
        let missing = group.0 - applied.0 - 1;
        self.log(
            Level::Info,
            format!("this server has joined its group; {missing} transactions come from the log"),
        );
        Ok(Some(applied))
    }

    fn feed(&self, after: Seqno) -> Result<(), ApplyError> {
        let (mut own, mut queued, mut begun) = (after, Queued::default(), None);
        let joined = self.lock().joined.unwrap_or_default();
        while let Some(deliveries) = self.deliveries.take() {
            for delivered in deliveries {
                let part = match Part::of(delivered, self.lock().founds) {
                    ControlFlow::Continue(part) => part,
                    ControlFlow::Break(seqno) => {
                        own = seqno;
                        self.tally().note_own();
                        continue;
                    }
                };
                let is_first = begun.is_none();
                // A client of this server commits it, and the channel does not know of it: what
                // comes after may depend on it.
                if is_first && !self.wait_for_applied(|at| at >= own && queued.has_room(at)) {
                    return Ok(());
                }
                if is_first {
                    queued.push(part.seqno, part.action_bytes);
                }
                if is_first && part.is_transaction() && part.seqno > joined {
                    self.tally().note_other(part.seqno, self.applied());
                }
                self.queue_part(part, &mut begun)?;
            }
        }
        Ok(())
    }

    /// A server that begins with other data would apply the group's changes to them.
    pub(crate) fn check_beginning(&self, group: &[u8]) -> Result<(), ApplyError> {
        let here = self.server.executed()?.of_others(self.settings.group);
        let group = String::from_utf8_lossy(group);
        if group.parse::<MysqlGtidSet>().ok().as_ref() == Some(&here) {
            return Ok(self.record_others(&here)?);
        }
        Err(ApplyError::OtherBeginning {
            group: group.into_owned(),
            here: here.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_of_the_channel_has_room_once_enough_is_applied() {
        let mut queued = Queued::default();
        queued.push(Seqno(1), QUEUED_BYTES_MAX + 1);
        queued.push(Seqno(2), 10);
        assert!(!queued.has_room(Seqno(0)));
        assert!(queued.has_room(Seqno(1)));
        assert_eq!(queued.bytes, 10);
        assert!(queued.has_room(Seqno(2)));
        assert_eq!((queued.bytes, queued.all.len()), (0, 0));
    }
}

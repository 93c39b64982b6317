//! Streamed transactions that were open when their server was lost. Nothing orders their rollback:
//! the next view is without that session, and each server rolls back what it holds of them when it
//! is shown the view, in its place in the order.
//!
//! [`LostStreams`] knows those of this server's own clients. A server that catches up keeps those
//! which the actions that it lacks continue or commit: [`view_of_the_past`].

use std::sync::atomic::{AtomicI64, Ordering};

use synod_node::{Seqno, SessionId, View as GroupView, ViewMember};

use crate::api::{RecvContext, View};
use crate::apply::applier::Stop;
use crate::connection::join::JoinEnd;
use crate::connection::session::Session;
use crate::transaction::{Gathered, Phase, Stream, Transaction};

/// Streamed transactions of this server that all members have rolled back.
pub(crate) struct LostStreams {
    /// Serial number of the present connection; those of earlier ones are lost.
    serial: u64,
    /// Transactions whose first fragment has a smaller seqno are lost; -1: none is.
    before: AtomicI64,
}

impl LostStreams {
    /// None is lost on a new connection.
    pub(crate) fn new(serial: u64) -> LostStreams {
        LostStreams {
            serial,
            before: AtomicI64::new(-1),
        }
    }

    /// Shows the server a view, when everything before it is finished: it rolls back the streamed
    /// transactions of members that are not in it. Those of this server are lost if the view is
    /// without it, or repeats the members of the one before.
    pub(crate) fn roll_back_streams_of_lost_members(
        &self,
        session: &Session,
        ctx: RecvContext,
        view: &GroupView,
        shown: &View,
    ) -> Result<(), Stop> {
        let node = session.node().map(|node| node.identity());
        let present = node.is_some_and(|(member, session)| view.contains(member, session));
        let repeated = session.state().views.has_members_of(view);
        if !present || repeated {
            self.lose_before(view.seqno.0);
        }
        let refused = |error| Stop::Refused(format!("view at {}: {error}", view.seqno.0));
        session.server.callbacks.view(ctx, shown).map_err(refused)
    }

    /// Whether all members have rolled back what was streamed of the transaction.
    pub(crate) fn has_lost(&self, gathered: &Gathered) -> bool {
        gathered.stream.is_some_and(|stream| self.contains(stream))
    }

    /// Place to commit in. `None`: the other members rolled the transaction back, and its commit
    /// does nothing.
    pub(crate) fn place_unless_rolled_back(
        &self,
        session: &Session,
        transaction: &Transaction,
        seqno: i64,
    ) -> Option<i64> {
        let mut gathered = transaction.lock();
        if !self.has_lost(&gathered) {
            return Some(seqno);
        }
        gathered.phase = Phase::Failed;
        drop(gathered);
        session.sequencer.skip(seqno);
        None
    }

    fn lose_before(&self, seqno: i64) {
        self.before.store(seqno, Ordering::Release);
    }

    fn contains(&self, stream: Stream) -> bool {
        let before = self.before.load(Ordering::Acquire);
        stream.serial != self.serial || stream.first.is_some_and(|first| first < before)
    }
}

/// A view for a server that lags: all sessions that take part in the history that it is about
/// to apply, up to `view`.
///
/// The server rolls back the streamed transactions of members that are not in its view, and of
/// all members if two views in a row have the same members. The actions that follow may
/// continue or commit any of those transactions. So the view has sessions that are over by now,
/// and one that never existed, which makes it differ from the next.
pub(crate) fn view_of_the_past(
    session: &Session,
    view: &GroupView,
    position: i64,
) -> Result<GroupView, JoinEnd> {
    let node = session.node().ok_or("no node is running")?;
    let mut sessions = node.sessions_between(Seqno(position), view.seqno)?;
    sessions.insert((node.identity().0, SessionId(0)));
    let mut then = view.clone();
    for (member, session) in sessions {
        if !then.contains(member, session) {
            then.members.push(ViewMember {
                member,
                session,
                name: "former session".to_owned(),
                incoming: String::new(),
            });
        }
    }
    then.members.sort_by_key(|m| (m.session, m.member));
    Ok(then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_lost_by_connection_and_by_the_place_of_their_first_fragment() {
        let lost = LostStreams::new(2);
        let stream = |serial, first| Stream { serial, first };
        assert!(lost.contains(stream(1, None)), "of an earlier connection");
        assert!(!lost.contains(stream(2, Some(5))));
        lost.lose_before(6);
        assert!(lost.contains(stream(2, Some(5))));
        assert!(!lost.contains(stream(2, Some(7))));
        assert!(!lost.contains(stream(2, None)), "not begun yet");
    }
}

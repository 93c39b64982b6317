//! Joins the group, on the first applier's thread.
//!
//! The position of the database decides: the actions after it come from the log (IST), see
//! `catch_up_from_log.rs`, or the server asks for a full copy (SST), see `joiner.rs`.

use synod_node::{Seqno, View as GroupView};

use crate::api::{LogLevel, RecvContext, ViewStatus};
use crate::apply::sequencer::Task;
use crate::connection::catch_up_from_log::{catch_up, known_position};
use crate::connection::joiner::Joiner;
use crate::connection::session::Session;
use crate::status::LocalState;

#[derive(Debug)]
pub(crate) enum JoinEnd {
    Left,
    /// The join is impossible, for this reason, which goes to the error log.
    Failed(String),
    /// The server cannot prepare for a copy, and has logged why itself.
    Unprepared(String),
}

impl<E: std::fmt::Display> From<E> for JoinEnd {
    fn from(why: E) -> JoinEnd {
        JoinEnd::Failed(why.to_string())
    }
}

impl Joiner {
    pub(crate) fn join(&self, session: &Session, ctx: RecvContext) -> Result<(), JoinEnd> {
        let joined = self.join_steps(session, ctx);
        match joined {
            // A failure at that time is a consequence of leaving.
            Err(JoinEnd::Failed(why)) if session.is_leaving_by_request() => {
                session.log(LogLevel::Info, format!("while leaving: {why}"));
                Err(JoinEnd::Left)
            }
            other => other,
        }
    }

    fn join_steps(&self, session: &Session, ctx: RecvContext) -> Result<(), JoinEnd> {
        let node = session.node().ok_or("no node is running")?;
        let view = first_view(session)?;
        session.set_local(LocalState::Joining);
        let seqno = view.seqno.0;
        let shown = session
            .view_frame(seqno)
            .server_view(&view, ViewStatus::Primary);
        session.server.callbacks.connected(&shown)?;
        match known_position(session, &view)? {
            Some(position) => catch_up(session, ctx, &view, position)?,
            None => self.take_copy(session, &view)?,
        }
        node.set_applied(Seqno(session.sequencer.released()));
        session.set_local(LocalState::Joined);
        // The server is synced once it has everything that is known to be committed now.
        let target = seqno.max(node.commit_seqno().0);
        session.sequencer.add_task(target, Task::Synced);
        session.follow_primary();
        Ok(node.deliver_after(Seqno(session.sequencer.released()))?)
    }
}

/// Waits until the group has this member.
fn first_view(session: &Session) -> Result<GroupView, JoinEnd> {
    let found = session.wait_for(None, |state| {
        if let Some(why) = state.lifecycle.failure() {
            return Some(Err(JoinEnd::Failed(why.clone())));
        }
        if session.is_closing() {
            return Some(Err(JoinEnd::Left));
        }
        state.joined.clone().map(Ok)
    });
    found.unwrap_or(Err(JoinEnd::Left))
}

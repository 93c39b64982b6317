//! Joins the group, on the first applier's thread.
//!
//! The position of the database decides. If this member's log has, or is being sent, every action
//! after it, those actions are applied: this is IST, here always from the log. What the log lacks
//! of them is fetched from other members. If these lack it, too, the server asks for a full copy
//! (SST), see `joiner.rs`.

use synod_node::{DatabasePosition, GroupId, NotFetched, Seqno, View as GroupView};

use crate::api::{LogLevel, RecvContext, ViewStatus};
use crate::apply::sequencer::Task;
use crate::connection::joiner::Joiner;
use crate::connection::session::Session;
use crate::status::LocalState;
use crate::transaction::streams_of_lost_members::view_of_the_past;

#[derive(Debug)]
pub(crate) enum JoinEnd {
    /// The server has begun to leave.
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

/// Position of the database, if the log or other members have the rest (IST).
fn known_position(session: &Session, view: &GroupView) -> Result<Option<i64>, JoinEnd> {
    let node = session.node().ok_or("no node is running")?;
    let (database, group) = (node.database(), node.status().group);
    if database.group != GroupId::NONE && database.group != group {
        return Err(JoinEnd::Failed(other_group(database, group)));
    }
    if database.seqno < Seqno(0) {
        return Ok(None);
    }
    let (position, seqno) = (database.seqno.0, view.seqno.0);
    if position >= seqno {
        let why = format!(
            "the database is at {position}, but the group's history has only reached {seqno}: \
             the database has diverged, it holds actions of another history of this group. \
             To join with a full copy in the place of its data: stop the server, 'synod copy \
             --force', start it again"
        );
        return Err(JoinEnd::Failed(why));
    }
    if !node.can_deliver_after(database.seqno)
        && let Err(NotFetched { asked }) = node.find_actions_after(database.seqno)
    {
        session.log(
            LogLevel::Info,
            format!(
                "the database is at {position}, the group's log begins later ({asked}): a full \
                 copy (SST) is needed"
            ),
        );
        return Ok(None);
    }
    Ok(Some(position))
}

/// Applies what is missing from the log. The server first sees a view at its own position,
/// which starts its engines.
fn catch_up(
    session: &Session,
    ctx: RecvContext,
    view: &GroupView,
    position: i64,
) -> Result<(), JoinEnd> {
    let missing = view.seqno.0 - position - 1;
    session.log(
        LogLevel::Info,
        format!("the database is at {position}; {missing} actions come from the log (IST)"),
    );
    session.sequencer.reset(position);
    session.server.position.changing(session.group());
    session.update(|state| {
        state.lifecycle.track();
        state.outcomes.begin_at(position);
    });
    if missing > 0 {
        let then = view_of_the_past(session, view, position)?;
        let synthetic = session
            .view_frame(position)
            .server_view(&then, ViewStatus::Primary);
        session.server.callbacks.view(ctx, &synthetic)?;
        session.update(|state| state.views.show_first());
    }
    Ok(())
}

/// Why a database of another group is not replaced by a full copy: a person may want its data.
fn other_group(database: DatabasePosition, group: GroupId) -> String {
    format!(
        "the data of this server belong to group {}, at {}, and this is group {group}, which \
         was begun with other data (with a backup, for instance). They may be the last ones to \
         have what this group lacks, so they are not deleted without your word. To join this \
         group, stop this server, move its data away, synod-*.log files included, and start it \
         with an empty data directory: it takes a full copy (SST)",
        database.group, database.seqno
    )
}

//! How a server enters the group, on the first applier's thread.
//!
//! The database's position decides. If the member's own log has, or is being sent, every action after
//! it, those are applied and nothing is copied. Otherwise the server asks for a full copy.

use synod_node::{Seqno, SessionId, View as GroupView, ViewMember};

use crate::api::{LogLevel, RecvContext, ViewStatus};
use crate::apply::sequencer::Task;
use crate::connection::Connection;
use crate::status::LocalState;

/// Why joining has ended without success.
#[derive(Debug)]
pub(crate) enum JoinEnd {
    /// The server has changed its mind.
    Left,
    /// It is impossible; for the error log.
    Failed(String),
    /// The server cannot get ready for a copy, and has said why in its own error lines.
    Unprepared(String),
}

impl<E: std::fmt::Display> From<E> for JoinEnd {
    fn from(why: E) -> JoinEnd {
        JoinEnd::Failed(why.to_string())
    }
}

impl Connection {
    /// Takes the server into the group.
    ///
    /// # Errors
    /// Why that has ended.
    pub(crate) fn join(&self, ctx: RecvContext) -> Result<(), JoinEnd> {
        let joined = self.join_steps(ctx);
        match joined {
            // Whatever went wrong then, it went wrong because the server leaves.
            Err(JoinEnd::Failed(why)) if self.is_closing() && self.state().failure.is_none() => {
                self.log(LogLevel::Info, format!("while leaving: {why}"));
                Err(JoinEnd::Left)
            }
            other => other,
        }
    }

    fn join_steps(&self, ctx: RecvContext) -> Result<(), JoinEnd> {
        let node = self.node().ok_or("no node is running")?;
        let view = self.first_view()?;
        self.set_local(LocalState::Joining);
        let seqno = view.seqno.0;
        let shown = self.server_view(&view, ViewStatus::Primary, seqno);
        self.callbacks.connected(&shown)?;
        match self.known_position(&view)? {
            Some(position) => self.catch_up(ctx, &view, position)?,
            None => self.take_copy(&view)?,
        }
        node.set_applied(Seqno(self.sequencer.released()));
        self.set_local(LocalState::Joined);
        // Everything known to be committed now; what comes later is ordinary work.
        let target = seqno.max(node.commit_seqno().0);
        self.sequencer.add_task(target, Task::Synced);
        self.follow_primary();
        Ok(node.deliver_after(Seqno(self.sequencer.released()))?)
    }

    /// Waits until the group has this member.
    fn first_view(&self) -> Result<GroupView, JoinEnd> {
        let found = self.wait_for(None, |state| {
            if let Some(why) = &state.failure {
                return Some(Err(JoinEnd::Failed(why.clone())));
            }
            if self.is_closing() {
                return Some(Err(JoinEnd::Left));
            }
            state.joined.clone().map(Ok)
        });
        found.unwrap_or(Err(JoinEnd::Left))
    }

    /// Where the database is, if what follows can be had from the log.
    fn known_position(&self, view: &GroupView) -> Result<Option<i64>, JoinEnd> {
        let node = self.node().ok_or("no node is running")?;
        let database = node.database();
        if database.group != node.status().group || database.seqno < Seqno(0) {
            return Ok(None);
        }
        let (position, seqno) = (database.seqno.0, view.seqno.0);
        if position >= seqno {
            let why = format!(
                "the database is at {position}, but the group's history has only reached {seqno}: the \
                 database has taken part in another history under the same name. To join, stop the \
                 server, delete its data and start it again"
            );
            return Err(JoinEnd::Failed(why));
        }
        if !node.can_deliver_after(database.seqno) {
            self.log(
                LogLevel::Info,
                format!(
                    "the database is at {position}, the group's log begins later: a full copy is needed"
                ),
            );
            return Ok(None);
        }
        Ok(Some(position))
    }

    /// Applies what is missing from the log. The server first sees a view at its own position, which
    /// starts its engines.
    fn catch_up(&self, ctx: RecvContext, view: &GroupView, position: i64) -> Result<(), JoinEnd> {
        let missing = view.seqno.0 - position - 1;
        self.log(
            LogLevel::Info,
            format!("the database is at {position}; {missing} actions are missing, from the log"),
        );
        self.sequencer.reset(position);
        self.position.changing(self.group());
        self.update(|state| {
            state.tracked = true;
            state.votes.begin_at(position);
        });
        if missing > 0 {
            let then = self.view_of_the_past(view, position)?;
            let synthetic = self.server_view(&then, ViewStatus::Primary, position);
            self.callbacks.view(ctx, &synthetic)?;
            self.update(|state| state.shown_primary = true);
        }
        Ok(())
    }

    /// A view for a server that is behind: whoever takes part in the history that it is about to be
    /// shown, up to `view`. The server rolls back the streamed transactions of members that are not in
    /// its view, and of all members if two views in a row have the same; but what follows may continue
    /// or commit any of them. So sessions that are over by now are in it, and one that never was.
    fn view_of_the_past(&self, view: &GroupView, position: i64) -> Result<GroupView, JoinEnd> {
        let node = self.node().ok_or("no node is running")?;
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
}

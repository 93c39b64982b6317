//! A database catches up from the log, when the server joins (`join.rs`).
//!
//! If this member's log has, or is being sent, every action after the position of the database,
//! those actions are applied: this is IST, here always from the log. What the log lacks of them is
//! fetched from other members. If these lack it, too, there is no known position to begin at.

use synod_node::{DatabasePosition, GroupId, NotFetched, Seqno, View as GroupView};

use crate::api::{LogLevel, RecvContext, ViewStatus};
use crate::connection::join::JoinEnd;
use crate::connection::session::Session;
use crate::transaction::streams_of_lost_members::view_of_the_past;

/// Position of the database, if the log or other members have the rest (IST).
pub(super) fn known_position(session: &Session, view: &GroupView) -> Result<Option<i64>, JoinEnd> {
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
pub(super) fn catch_up(
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

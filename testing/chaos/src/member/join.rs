//! Join of a member: from its own log if the log has what its database lacks, otherwise by a full
//! copy.
//!
//! The steps are those of the provider.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use synod_node::{DataState, Node, Seqno, View};

use super::host::{StoreHost, fail};
use super::{Failure, copy};

/// Longest time to catch up; a group without a majority makes no progress meanwhile.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn join(dir: &Path, node: &Arc<Node>, host: &Arc<StoreHost>) -> Result<(), Failure> {
    let view = host.wait_joined();
    let group = node.status().group;
    eprintln!("joined group {group} in view {}", view.seqno);
    if !has_rest_in_log(node, &view) {
        node.set_data_state(DataState::Joining);
        let database = copy::take(dir, node, &view)?;
        eprintln!(
            "copy of group {} at {}",
            database.group(),
            database.position()
        );
        host.change(|state| state.database = database);
    }
    let position = host.change(|state| {
        state.database.begin(&group.to_string())?;
        std::io::Result::Ok(state.database.position())
    })?;
    if !node.can_deliver_after(Seqno(position)) {
        let first = node.status().first_seqno;
        fail(&format!(
            "the database is at {position}, the log begins at {first}"
        ));
    }
    node.set_applied(Seqno(position));
    node.set_data_state(DataState::Joined);
    let target = view.seqno.max(node.commit_seqno());
    node.deliver_after(Seqno(position))?;
    if !host.wait_applied(target.0, PATIENCE) {
        fail("catching up does not end");
    }
    host.change(|state| state.synced = true);
    node.set_data_state(DataState::Synced);
    Ok(())
}

/// Whether the log has, or will have, all that the database lacks.
fn has_rest_in_log(node: &Node, view: &View) -> bool {
    let database = node.database();
    if database.group != node.status().group || database.seqno < Seqno(0) {
        return false;
    }
    if database.seqno >= view.seqno {
        let (here, there) = (database.seqno, view.seqno);
        fail(&format!(
            "the database is at {here}, the group's history only at {there}"
        ));
    }
    node.can_deliver_after(database.seqno)
}

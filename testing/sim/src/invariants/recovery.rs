//! A log comes back from a crash as a prefix of the stream of records that was written, at least
//! with what was durable.

use synod_consensus::MemberId;

use super::{Checked, require};
use crate::member::disk_model::{DiskModel, LogImage};

/// What was found after a crash.
pub(crate) fn after_crash(member: MemberId, disk: &DiskModel, found: &LogImage) -> Checked {
    require(
        disk.may_recover(found),
        "a log recovers a prefix of its records",
        || {
            let durable = &disk.durable;
            format!(
                "{member} comes back with {} and {:?}; durable were {} and {:?}, written {} and {:?}",
                found.last(),
                found.vote,
                durable.last(),
                durable.vote,
                disk.written.last(),
                disk.written.vote
            )
        },
    )
}

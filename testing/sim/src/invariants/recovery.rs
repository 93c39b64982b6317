//! After a crash a log comes back as a prefix of the records that were written, with at least
//! everything that was durable.
//!
//! `repair.rs` has the rules for disks that were damaged.

use synod_consensus::MemberId;

use super::{Checked, require};
use crate::member::disk_model::{DiskModel, LogImage};

/// A log was opened after a crash, and holds `found`.
pub(crate) fn after_crash(member: MemberId, disk: &DiskModel, found: &LogImage) -> Checked {
    require(
        disk.may_recover(found),
        "a log recovers a prefix of its records",
        || {
            let durable = &disk.durable;
            format!(
                "{member} comes back with {} and {:?}; durable were {} and {:?}, \
                 written {} and {:?}",
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

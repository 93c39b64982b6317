//! A log comes back from a crash as a prefix of the stream of records that was written, at least
//! with what was durable; damage below a floor is never cut off silently.

use synod_consensus::MemberId;

use super::{Checked, require};
use crate::image::{Image, Ledger};

/// What was found after a crash.
pub(crate) fn after_crash(member: MemberId, ledger: &Ledger, found: &Image) -> Checked {
    require(
        ledger.may_recover(found),
        "a log recovers a prefix of its records",
        || {
            let durable = &ledger.durable;
            format!(
                "{member} comes back with {} and {:?}; durable were {} and {:?}, written {} and {:?}",
                found.last(),
                found.vote,
                durable.last(),
                durable.vote,
                ledger.written.last(),
                ledger.written.vote
            )
        },
    )
}

/// What was found after bytes changed on the disk, if that was not noticed.
pub(crate) fn after_damage(member: MemberId, ledger: &Ledger, found: &Image) -> Checked {
    require(ledger.keeps_floor(found), "damage is never cut", || {
        let (floor, has) = (ledger.floor.last(), found.last());
        format!("{member} comes back damaged with {has}, although {floor} was below a floor")
    })
}

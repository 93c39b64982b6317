//! A log comes back from a crash as a prefix of the stream of records that was written, at least
//! with what was durable.

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

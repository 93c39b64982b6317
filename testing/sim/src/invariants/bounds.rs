//! Memory, queues and logs stay within their bounds (promise P7).
//!
//! Checked after every turn; `member/turn_checks.rs` says which bounds there are.

use synod_consensus::MemberId;

use super::{Checked, require};

/// One thing that a member holds, and how much of it is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Name of the bounded thing, for reports.
    pub(crate) what: &'static str,
    /// Amount that the member holds.
    pub(crate) found: u64,
    /// Allowed amount.
    pub(crate) max: u64,
}

/// Everything that a member holds is within its bound.
pub(crate) fn within(member: MemberId, held: &[Held]) -> Checked {
    let over = held.iter().find(|held| held.found > held.max);
    require(over.is_none(), "bounds", || {
        let Held { what, found, max } = over.copied().unwrap_or_default();
        format!("{member} holds {found} of {what}, {max} are allowed")
    })
}

//! Memory and queues stay within their bounds (promise P7).

use synod_consensus::MemberId;

use super::{Checked, require};

/// What a member holds, and what it may.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Name of the queue.
    pub(crate) what: &'static str,
    pub(crate) found: u64,
    pub(crate) max: u64,
}

pub(crate) fn within(member: MemberId, held: &[Held]) -> Checked {
    let over = held.iter().find(|held| held.found > held.max);
    require(over.is_none(), "bounds", || {
        let Held { what, found, max } = over.copied().unwrap_or_default();
        format!("{member} holds {found} of {what}, {max} are allowed")
    })
}

//! Actions that are said to be applied everywhere are (decision 020).
//!
//! A member tells its clients up to where all synced databases have applied what is committed. Each
//! database of its view has that, unless the member says that it does not wait for it.

use synod_consensus::{MemberId, Seqno};

use super::{Checked, require};

/// A member says that everything up to `told` is applied on all databases. `waited_for`: those that
/// it has to wait for, and what they have.
pub(crate) fn told(
    member: MemberId,
    told: Seqno,
    waited_for: impl Iterator<Item = (MemberId, Seqno)>,
) -> Checked {
    for (other, applied) in waited_for {
        require(
            applied >= told,
            "what is applied everywhere is in each database",
            || format!("{member} says that all have {told}, and {other} has {applied}"),
        )?;
    }
    Ok(())
}

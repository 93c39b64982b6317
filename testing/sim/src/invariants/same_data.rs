//! A server that follows its group has the group's data (P1): nothing that failed there is left
//! out (decision 041).

use synod_consensus::{MemberId, Seqno};
use synod_member::OutcomeDecision;

use super::{Checked, require};

/// A member follows its group from after this position on, as its engine and its record say. Its
/// database has everything up to `has`.
pub(crate) fn follows(member: MemberId, after: Seqno, has: Seqno) -> Checked {
    let rule = "a server that follows its group has the group's data";
    require(after <= has, rule, || {
        format!("{member} continues after {after}, and has everything up to {has} only")
    })
}

/// A member applies an action that its database has already.
pub(crate) fn applies_again(member: MemberId, seqno: Seqno, has_primary_key: bool) -> Checked {
    let rule = "a server that follows its group has the group's data";
    require(has_primary_key, rule, || {
        format!("{member} has applied {seqno} twice, to a table without a primary key")
    })
}

/// The group has decided about an action that failed on one database only.
pub(crate) fn failure_is_outvoted(member: MemberId, decision: &OutcomeDecision) -> Checked {
    let rule = "what fails on one database only is not undone on the others";
    require(decision.outcome.is_success(), rule, || {
        format!("{member} wins with its error: {decision:?}")
    })
}

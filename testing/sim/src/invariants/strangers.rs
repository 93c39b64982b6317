//! A message of a process outside the group changes nothing at its receiver.

use synod_consensus::MemberId;

use crate::invariants::{Checked, require};
use crate::member::Process;
use crate::member::recorded_effects::RecordedEffect;

/// Everything about a member that a message could change, as far as it is to be seen: the whole
/// consensus core, and what the driver holds beside it.
#[derive(PartialEq, Eq)]
pub(crate) struct MemberState {
    core: String,
    driver: String,
    refused: u64,
}

impl MemberState {
    pub(crate) fn of(process: &Process) -> MemberState {
        let driver = &process.driver;
        let status = process.shared.status();
        let held = (driver.group(), driver.load(), driver.certified_from());
        let members = (
            driver.heard_members().collect::<Vec<_>>(),
            driver.leavers().collect::<Vec<_>>(),
            (status.view, status.members, status.primary),
        );
        MemberState {
            core: format!("{:?}", driver.core()),
            driver: format!("{held:?} {members:?} {}", driver.is_stopped()),
            refused: driver.refused_messages(),
        }
    }

    /// Whether a member that was in this state is so `after` a message of a stranger, with these
    /// effects. It may count and log the message.
    pub(crate) fn is_untouched(
        &self,
        id: MemberId,
        after: &MemberState,
        effects: &[RecordedEffect],
        message: &str,
    ) -> Checked {
        let is_line = |effect: &RecordedEffect| matches!(effect, RecordedEffect::Logged(..));
        let is_same = self.core == after.core && self.driver == after.driver;
        let is_counted = after.refused <= self.refused + 1;
        let is_untouched = is_same && is_counted && effects.iter().all(is_line);
        require(is_untouched, "a stranger changes nothing", || {
            let changed = match (self.core == after.core, self.driver == after.driver) {
                (false, _) => "the consensus core",
                (true, false) => "what the driver holds",
                (true, true) => "nothing, but has effects",
            };
            format!("{id} has changed {changed} because of {message}")
        })
    }
}

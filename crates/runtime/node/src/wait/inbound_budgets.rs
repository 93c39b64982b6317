//! Bounds on the bytes of received messages that are not handled yet, one for each lane: a vote
//! waits for no room that data has taken.

use std::sync::Arc;

use synod_wire::Lane;

use super::ByteBudget;

/// Bound for the control lanes of all members together. Each of their messages is small.
const CONTROL_BYTES_MAX: usize = 8 << 20;
/// Bound for their bulk lanes.
const BULK_BYTES_MAX: usize = 64 << 20;

/// The budgets of the members' messages, by lane.
#[derive(Clone, Debug)]
pub(crate) struct InboundBudgets {
    control: Arc<ByteBudget>,
    bulk: Arc<ByteBudget>,
}

impl Default for InboundBudgets {
    fn default() -> InboundBudgets {
        InboundBudgets::of_bytes(CONTROL_BYTES_MAX, BULK_BYTES_MAX)
    }
}

impl InboundBudgets {
    /// Budgets of so many bytes.
    pub(crate) fn of_bytes(control: usize, bulk: usize) -> InboundBudgets {
        InboundBudgets {
            control: Arc::new(ByteBudget::new(control)),
            bulk: Arc::new(ByteBudget::new(bulk)),
        }
    }

    /// The budget of a lane.
    pub(crate) fn of(&self, lane: Lane) -> &Arc<ByteBudget> {
        match lane {
            Lane::Control => &self.control,
            Lane::Bulk => &self.bulk,
        }
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        self.control.close();
        self.bulk.close();
    }
}

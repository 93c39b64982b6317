//! Catching up: ways in which a member gets what it lacks, as the one that lacks it and as the one
//! that has it. Replication to a follower that lags is not here: the core asks for its ranges, and
//! `own_log` serves them.
//!
//! | part | question |
//! |---|---|
//! | [`Fetching`] | what does this member's log lack, and who has it? |
//! | [`Feeding`] | who sends learners of a far region the log? |
//! | [`StateTransfers`] | who donates a full copy (SST)? |
//! | [`Standstill`] | whose log stands still although members talk to each other? |

mod fetching;
mod regional_feeding;
mod stalled_logs;
mod state_transfer;

use regional_feeding::Feeding;
use stalled_logs::Standstill;
use state_transfer::StateTransfers;

pub(super) use fetching::Fetching;
pub(super) use regional_feeding::may_be_fed_by;

#[derive(Default)]
pub(super) struct CatchUp {
    pub(super) feeding: Feeding,
    pub(super) fetching: Fetching,
    pub(super) state_transfers: StateTransfers,
    pub(super) standstill: Standstill,
}

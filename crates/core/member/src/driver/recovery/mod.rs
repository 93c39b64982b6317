//! Recovery from the loss of a majority: which of the members that are left should continue, and
//! what is lost with that.
//!
//! A *survivor* is a member that runs and hears no leader. Survivors tell each other what they have
//! ([`synod_wire::SurvivorReport`]), for as long as that lasts, so an operator may ask any of them.
//! None of them does anything by itself: to continue without a majority is an order
//! (`Command::Recover`), which this folder refuses where it is not called for.
//!
//! - [`Survivors`]: what was heard, and when;
//! - [`Completeness`]: since when this member's log may lack something that is committed;
//! - `choice`: the rule that allows or refuses the order;
//! - `histories`: a database that may be of a history that the group has left;
//! - `coordinate`: the driver's part.

mod choice;
mod completeness;
mod coordinate;
mod histories;
mod survivors;

use completeness::Completeness;
use survivors::Survivors;

/// The component that knows what the survivors of a lost majority have.
#[derive(Default)]
pub(super) struct Recovery {
    survivors: Survivors,
    completeness: Completeness,
    /// At the start the log did not hold the position of the database.
    is_unproven: bool,
}

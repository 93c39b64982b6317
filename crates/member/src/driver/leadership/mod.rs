//! Whether this member hears a leader, leads itself, or serves without a majority by order.
//!
//! - [`PrimaryWatch`]: is this member primary? A lost majority is noticed there.
//! - [`ForcedPrimary`]: does it continue without a majority, by order or by policy?
//! - [`LeaderPriority`]: which members are fit to lead, with which weight?
//! - [`DiskWatch`]: does this member's disk keep up? If not, it hands over, and is no candidate.

mod coordinate;
mod disk_watch;
mod forced_primary;
mod leader_priority;
mod primary_watch;

pub(super) use disk_watch::DiskWatch;
pub(super) use forced_primary::ForcedPrimary;
pub use forced_primary::QuorumLossPolicy;
pub(super) use leader_priority::LeaderPriority;
pub(super) use primary_watch::PrimaryWatch;

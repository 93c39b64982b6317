//! Whether this member hears a leader, leads itself, or serves without a majority by order.
//!
//! - [`PrimaryWatch`]: is this member primary? A lost majority is noticed there.
//! - [`Elections`]: who led before, and why is another member elected?
//! - [`ForcedPrimary`]: does it continue without a majority, by order or by policy?
//! - [`LeaderPriority`]: which members are fit to lead, with which weight?
//! - [`FollowWriters`]: do nearly all writes come from another region?
//! - [`Regions`]: which region is each member in?
//! - [`DiskWatch`]: does this member's disk keep up? If not, it hands over, and is no candidate.

mod coordinate;
mod disk_watch;
mod elections;
mod follow_writers;
mod forced_primary;
mod leader_priority;
mod primary_watch;
mod regions;

pub(super) use disk_watch::DiskWatch;
pub(super) use elections::Elections;
pub(super) use follow_writers::FollowWriters;
pub use follow_writers::LeaderPlacement;
pub(super) use forced_primary::ForcedPrimary;
pub use forced_primary::QuorumLossPolicy;
pub(super) use leader_priority::LeaderPriority;
pub(super) use primary_watch::PrimaryWatch;
pub(super) use regions::Regions;

//! Leadership: this member hears a leader, leads itself, or serves without a majority by order.
//!
//! - [`PrimaryWatch`]: whether this member is primary. A lost majority is noticed there.
//! - [`Elections`]: the leader before, and the reason why another member is elected.
//! - [`ForcedPrimary`]: whether it continues without a majority, by order or by policy.
//! - [`LeaderPriority`]: the members that are fit to lead, and their weights.
//! - [`FollowWriters`]: whether nearly all writes come from another region.
//! - [`Regions`]: the region of each member.
//! - [`DiskWatch`]: whether this member's disk keeps up. If not, it hands over, and is no
//!   candidate.

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

/// The component that knows who leads and who should, and whether this member is primary.
pub(super) struct Leadership {
    pub(super) forced_primary: ForcedPrimary,
    pub(super) leader_priority: LeaderPriority,
    pub(super) regions: Regions,
    pub(super) follow_writers: FollowWriters,
    pub(super) disk_watch: DiskWatch,
    pub(super) primary: PrimaryWatch,
    pub(super) elections: Elections,
}

//! The members whose writes the group takes: a setting in its configuration, obeyed by the leader
//! when it orders.
//!
//! ```text
//! every member     permission  whether the host may take writes of its clients, and who else may
//! every member     orders      the setting that operators of this member want
//! the leader       rule        whether a proposal is one of the writer
//! ```
//!
//! The rule at the order decides. The permission only lets hosts refuse early: it may be late.

mod coordinate;
mod orders;
mod permission;
mod rule;

pub use orders::{WritersRefusal, WritersRequest};
pub use permission::WritePermission;
pub(super) use rule::WriterRule;

use orders::WritersOrders;

/// The component that knows what operators of this member want, and what its host was told.
#[derive(Default)]
pub(super) struct WritersSetting {
    orders: WritersOrders,
    /// The permission that the host was told last.
    told: WritePermission,
}

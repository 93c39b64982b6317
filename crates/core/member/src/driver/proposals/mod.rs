//! Proposals: this member's own on their way to the leader and back, and everybody's as the leader
//! orders them.
//!
//! - [`LocalProposals`]: the proposals of this session without a result, and what is to be sent;
//! - [`Ordering`]: the leader's answer: a proposal is appended, refused, or waits for room;
//! - [`Reads`]: the clients that wait for the group's position.

mod connections;
mod coordinate;
mod deferred;
mod local;
mod ordering;
mod reads;

pub(super) use connections::Link;
pub(super) use local::LocalProposals;
pub(super) use ordering::Ordering;
pub(super) use reads::Reads;

use super::writers::WritersSetting;

/// The component that brings proposals into the order, and clients their results.
pub(super) struct Proposals {
    pub(super) local: LocalProposals,
    pub(super) ordering: Ordering,
    pub(super) reads: Reads,
    pub(super) writers: WritersSetting,
}

//! Proposals: this member's own on their way to the leader and back, and everybody's as the leader
//! orders them.
//!
//! - [`LocalProposals`]: which proposals of this session have no result yet, and what is to be sent
//!   where?
//! - [`Ordering`]: as the leader, is a proposal appended, refused, or does it wait for room?
//! - `foresight`: which of the own proposals will the leader refuse for certain?
//! - [`Reads`]: who waits for the group's position?

mod connections;
mod coordinate;
mod deferred;
mod foresight;
mod local;
mod ordering;
mod reads;

pub(super) use connections::Link;
pub(super) use local::LocalProposals;
pub(super) use ordering::Ordering;
pub(super) use reads::Reads;

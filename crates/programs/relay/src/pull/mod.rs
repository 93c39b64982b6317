//! The pull from the upstream: one relay of the group does it, the one that leads.
//!
//! The leader's term begins after everything that earlier leaders have ordered. The puller waits
//! until this relay has read that, and continues where the upstream was at its end. What a relay
//! submits in a term that is not its own is refused by the leader (`synod-member`'s writer rule),
//! so two pulls never mix.

pub(crate) mod control;
pub(crate) mod patience;
pub(crate) mod puller;
pub(crate) mod session;
mod skip;
mod submissions;

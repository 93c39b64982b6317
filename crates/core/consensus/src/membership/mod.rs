//! Membership: the members, the voters, and the group's protocol version.

mod change;
pub(crate) mod config;
pub(crate) mod settings;

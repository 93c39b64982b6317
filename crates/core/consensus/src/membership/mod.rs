//! Membership: the members, the voters, and the group's protocol version.
//!
//! [`config`] is the configuration as a value, with its encoding. [`change`] holds the rules by
//! which a leader replaces it.

mod change;
pub(crate) mod config;

//! Membership: the members, the voters, and the group's protocol version.
//!
//! [`config`] is the configuration as a value, with its encoding. [`change`] holds the rules by
//! which a leader replaces it. [`version`] and [`writers`] are two parts of the configuration: the
//! protocol version, and the setting of whose writes the group takes.

mod change;
pub(crate) mod config;
pub(crate) mod version;
pub(crate) mod writers;

//! Who the members are, who votes, and which protocol version the group speaks.
//!
//! [`config`] is the configuration as a value, with its encoding. [`change`] holds the rules by
//! which a leader replaces it. [`version`] is the part of it about protocol versions, [`writers`]
//! that about whose writes the group takes.

mod change;
pub(crate) mod config;
pub(crate) mod version;
pub(crate) mod writers;

//! The client protocol of MariaDB, seen from a client that asks little.
//!
//! - [`link`]: the socket, in clear or encrypted; [`packet`]: packets on it;
//! - [`greeting`]: what the server says first, and the answer; [`proof`]: of the password;
//! - [`answer`]: what statements are answered with; [`command`]: what else is sent.

pub(crate) mod answer;
pub(crate) mod command;
pub(crate) mod greeting;
pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod proof;

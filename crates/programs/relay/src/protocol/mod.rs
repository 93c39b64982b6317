//! The client protocol of MariaDB, seen from a server that answers few questions.
//!
//! - [`packet`]: packets and answers; [`greeting`]: who connects;
//! - [`question`]: the statements that readers send.

pub(crate) mod greeting;
pub(crate) mod packet;
pub(crate) mod question;

//! The client protocol of MariaDB, seen from a server that answers few questions.

pub(crate) mod greeting;
pub(crate) mod packet;
pub(crate) mod question;
pub(crate) mod whose;

//! The client protocol of MariaDB, seen from a server that answers few questions.
//!
//! - [`packet`]: packets on a connection; [`greeting`]: who connects; [`answer`]: what it is told;
//! - [`question`]: the statements that readers send, and what is answered; [`variable`]: the
//!   variables in them; [`expression`]: taking statements apart.

pub(crate) mod answer;
pub(crate) mod expression;
pub(crate) mod greeting;
pub(crate) mod packet;
pub(crate) mod question;
pub(crate) mod variable;

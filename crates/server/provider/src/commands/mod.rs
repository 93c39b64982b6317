//! Commands of operators: what the answers of a server are made of. The threads that serve clients,
//! and the answers that follow from the node alone, are the crate `synod-commands`'.
//!
//! - `answer`: which request is answered by what;
//! - `status`, `recovery`: the answers to the requests for the status, and for a plan when a
//!   majority is lost;
//! - [`ServerProcess`]: the threads and the log of the server, for those that serve clients.

mod answer;
mod recovery;
mod server_process;
mod status;

pub(crate) use answer::answer;
pub(crate) use server_process::ServerProcess;
pub(crate) use synod_commands::{CommandServer, EventLog};

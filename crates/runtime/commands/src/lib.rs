//! Threads of a running member that serve commands, and the answers that follow from its node
//! alone.
//!
//! ```text
//! synod-admin    waits for clients of the socket; puts it back if a full copy (SST) removed it
//! synod-command  serves one client of the socket, at most eight at a time
//! synod-in       a thread of the node: serves one client from another machine, at most eight
//! ```
//! Nothing in the server waits for a client: a thread that serves one takes short locks only, and
//! ends when the server ends, whatever the client does.
#![forbid(unsafe_code)]

mod commit_steps;
mod event_log;
mod orders;
pub mod recovery;
mod remote;
mod server;
pub mod status;
mod surroundings;
mod time_counter;

pub use commit_steps::{CommitSteps, Step};
pub use event_log::EventLog;
pub use orders::{NOT_CONNECTED, carry_out};
pub use remote::remote_handler;
pub use server::{Answerer, CommandServer};
pub use surroundings::Surroundings;
pub use synod_admin::unix_ms;
pub use time_counter::BOUNDS_US;

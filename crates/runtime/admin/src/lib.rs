//! Commands for a running member, and the road they take.
//!
//! ```text
//! synod status ─► Client ──synod.sock, or a connection of the group──► serve ─► handler
//!                   one JSON document a line, both ways
//! ```
//! A member listens on a UNIX socket in its log directory, for its own user and root. From other
//! machines clients come by the group's own connections, with the group's credentials. The member
//! greets with the protocol versions that it speaks; then each line of the client is a call, and
//! each line back a reply. Neither [`Client`] nor [`serve()`] starts a thread.
//!
//! A reader ignores fields that it does not know, and takes a missing one for "not known": fields
//! may be added without a new protocol version.
#![forbid(unsafe_code)]

mod accept;
mod client;
pub mod command_rights;
pub mod conflict;
mod connection;
pub mod event;
pub mod find;
mod lines;
pub mod outlook;
pub mod protocol;
pub mod recovery;
pub mod relay;
mod remote;
mod serve;
pub mod service_manager;
pub mod socket;
pub mod span;
pub mod status;
mod trust;
mod visible;
mod wall_clock;

pub use accept::Accepted;
pub use client::{Client, ClientError, Place};
pub use connection::Connection;
pub use lines::LineError;
pub use remote::{DEFAULT_PORT, RemoteError, RemoteMember};
pub use serve::{ServeLimits, refuse_busy, serve};
pub use trust::{Maker, Trusted};
pub use visible::visible;
pub use wall_clock::unix_ms;

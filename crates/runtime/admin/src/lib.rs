//! Commands for a running member, and the road they take.
//!
//! ```text
//! synod status ─► Client ──synod.sock, or a connection of the group──► serve ─► handler
//!                   one JSON document a line, both ways
//! ```
//! A member listens on a UNIX socket in its log directory, for its own user and root. From other
//! machines clients come by the group's own connections, with the group's credentials. The member
//! greets with the protocol versions that it speaks; then each line of the client is a call, and
//! each line back a reply.
//!
//! - [`protocol`]: what a line may hold: greeting, call, reply;
//! - [`status`], [`event`], [`conflict`], [`recovery`], [`relay`]: what the answers say, also for
//!   exporters of metrics;
//! - [`outlook`]: how many voters may fail now, as all who show it say it; [`span`]: how long
//!   something has lasted;
//! - [`socket`]: where a member listens, and for whom; [`find`]: which members run here;
//! - [`Trusted`]: whose processes a client takes for a member;
//! - `visible`: what others wrote, fit for a terminal;
//! - [`Client`]: asks; [`serve()`]: answers one client. Neither starts a thread;
//! - [`Connection`]: what carries lines; [`RemoteMember`]: how one to another machine is made;
//! - [`Accepted`]: what ends the wait for a client;
//! - `lines`: reads and writes lines of bounded length within a bounded time.
//!
//! A reader ignores fields that it does not know, and takes a missing one for "not known": fields
//! may be added without a new protocol version.
#![forbid(unsafe_code)]

mod accept;
mod client;
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

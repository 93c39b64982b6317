//! `synod agent`: what load balancers, monitoring and people ask of a server, over HTTP.
//!
//! ```text
//! HAProxy, Kubernetes ──GET /health/primary──► agent ──status──► synod.sock of the server
//! ```
//! A process of its own beside each server, so that nothing of HTTP is in the server's process. It
//! asks the server for its status and its events, and knows no order; if it is told to, it keeps
//! the server's `read_only` by an account in the database.
//!
//! Tokio runs on one thread, and only in this command.
#![forbid(unsafe_code)]

mod asker;
mod callers;
mod cookie;
mod dashboard;
mod encryption;
mod entrance;
mod exposure;
pub mod health;
pub mod metrics;
mod read_only;
pub mod routes;
mod server;
mod token;

pub use asker::{Asker, Connect, Seen, SeenRelay};
pub use exposure::{Access, ExposureError};
pub use read_only::ReadOnly;
pub use server::{Agent, AgentError, DEFAULT_PORT};
pub use token::{Token, TokenError};

//! The host of a member in a MySQL server, as a library for a thin plugin. **Experimental.**
//!
//! See `DESIGN.md` for the way of a transaction, the threads, and the reasons. The plugin itself is
//! C++, in `crates/server/mysql-shim`, and `synod_host.h` there is what both agree on.
#![deny(unsafe_code)]

mod apply;
pub mod boundary;
mod clients;
mod commands;
mod consistency;
mod deliveries;
mod events;
mod host;
mod incoming;
mod members;
mod others;
mod server;
mod settings;
mod status;
mod steps;
mod transaction;
mod watch;

#[cfg(test)]
mod tests;

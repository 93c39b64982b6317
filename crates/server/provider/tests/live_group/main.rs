//! A real provider with a real node, called as a server calls it: what the contract between server
//! and provider demands of both together, from `connect` to `free`.
#![allow(missing_docs)]

mod credentials;
mod disconnect;
mod extremes;
mod group_settings;
mod inconsistency;
mod one_member;
mod server;
mod state_transfer;
mod streaming;
mod two_members;

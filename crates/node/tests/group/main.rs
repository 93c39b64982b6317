//! Whole groups in this process: real threads, sockets and files, and no database.

#[path = "../support/mod.rs"]
mod support;

mod copies;
mod crashes;
mod membership;
mod ordering;
mod refusals;
mod repair;
mod twins;

//! Whole groups in this process: real threads, sockets and files, and no database.

#[path = "../../../tls/tests/support/certificates.rs"]
mod certificates;
#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod compression;
mod copies;
mod crashes;
mod duplicate_identity;
mod encryption;
mod existing_databases;
mod inconsistency;
mod loggers;
mod membership;
mod ordering;
mod orders;
mod partitions;
mod refusals;
mod repair;
mod secret;
mod strangers;
mod weights;

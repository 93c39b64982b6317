//! Whole groups in this process: real threads, sockets and files, and no database.

#[path = "../../../tls/tests/support/certificates.rs"]
mod certificates;
#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod commit_wait;
mod compression;
mod copies;
mod crashes;
mod duplicate_identity;
mod encryption;
mod existing_databases;
mod feeding;
mod fetches;
mod inconsistency;
mod links;
mod loggers;
mod membership;
mod ordering;
mod orders;
mod partitions;
mod recovery;
mod refusals;
mod relay_groups;
mod remote_commands;
mod repair;
mod secret;
mod strangers;
mod weights;
mod writers;

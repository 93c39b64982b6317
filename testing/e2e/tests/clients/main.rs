//! Clients of real servers: their answers, reads that they may trust, streamed transactions, one
//! writer, credentials and encryption.

mod bad_input;
mod bounded_reads;
mod causal_reads;
mod client_answers;
mod commit_wait;
mod credentials;
mod encryption;
mod single_primary;
mod streaming;

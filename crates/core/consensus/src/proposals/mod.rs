//! Proposals on their way from the origin to the leader.
//!
//! The origin keeps its proposals in an [`outbox`] until each result is known. The leader
//! recognises with [`dedup`] those that it has seen in its term. Together they order a proposal at
//! most once (`docs/protocol.md`, rules O1 to O5).

pub(crate) mod dedup;
pub(crate) mod outbox;

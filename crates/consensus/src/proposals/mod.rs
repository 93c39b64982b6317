//! Both ends of a proposal's way to the leader.
//!
//! The origin keeps an [`outbox`] of what it has proposed until each result is known. The leader
//! recognises with [`dedup`] what it has seen in its term. Together they order a proposal at most
//! once (`docs/protocol.md`, rules O1 to O5).

pub(crate) mod dedup;
pub(crate) mod outbox;

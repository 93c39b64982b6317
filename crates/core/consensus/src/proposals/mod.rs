//! Proposals on their way from the origin to the leader: [`outbox`] and [`dedup`] together order a
//! proposal at most once (`docs/protocol.md`, rules O1 to O5).

pub(crate) mod dedup;
pub(crate) mod outbox;

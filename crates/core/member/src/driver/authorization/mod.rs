//! Authorization of senders: every message of another process is judged here before it does
//! anything.
//!
//! ```text
//!  Event::Peer ──► sender (what this member knows of it) ──► table ──► handled, late or refused
//! ```
//!
//! [`table`] says which standing a message needs. [`KnownPeers`] knows the members that are in
//! no configuration of this member and still may speak: those that it asked to join, and those that
//! configured members have introduced. [`RefusedMessages`] counts what was refused, and says when
//! that is to be logged. [`DuplicateIdentity`] counts members that say that another process has
//! this member's identity.
//!
//! Invariant: a refused message changes nothing but the count of refused messages.

mod bound_certificate;
mod coordinate;
mod duplicate_identity;
mod known_peers;
mod refused;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_consensus::MemberId;

pub(super) use bound_certificate::{is_bound_otherwise, other_holder};
pub(super) use duplicate_identity::DuplicateIdentity;
pub(super) use known_peers::KnownPeers;
pub(super) use refused::RefusedMessages;

/// State by which this member judges a sender, beside its configuration and its leader.
#[derive(Default)]
pub(super) struct Authorization {
    pub(super) known_peers: KnownPeers,
    pub(super) refused: RefusedMessages,
    pub(super) duplicate_identity: DuplicateIdentity,
    /// Certificates that configured members have shown and are not bound to yet.
    pub(super) unbound: BTreeMap<MemberId, Arc<str>>,
}

//! Conflict detection and apply dependencies over key fingerprints.
//!
//! The leader asks [`Certifier::certify`] about each proposed action before it appends it to the
//! log: does it conflict with an action its origin had not seen, and which earlier actions must be
//! applied before it? The verdict is written into the entry, so nobody else ever decides again.
//! Every member that may lead feeds the keys of appended entries to [`Certifier::ingest`], so that
//! taking over needs no scan; when its log is truncated it calls [`Certifier::rollback`].
//!
//! Everything here is pure: no I/O, no clock, and no result depends on hash-map order, on the
//! progress of lazy cleaning, or on how often the functions were called.
//!
//! * [`KeySet`]: the keys of one transaction, and their encoding.
//! * [`relation`]: which pairs of key types conflict, depend, or do not care.
//! * [`Certifier`]: the index of the certification window.
#![forbid(unsafe_code)]

mod certifier;
mod index;
mod key;
mod key_set;
mod mark;
mod request;
mod rules;
mod source;

pub use certifier::{CertLimits, Certifier};
pub use key::{Fingerprint, Key, KeyType};
pub use key_set::{DecodeKeysError, KeySet, KeySetIter};
pub use request::{Class, Request, Source, Verdict};
pub use rules::{Relation, relation};

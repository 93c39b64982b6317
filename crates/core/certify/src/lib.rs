//! Certification: conflict detection and apply dependencies over key fingerprints.
//!
//! DESIGN.md beside the crate has the way of a write set.
//!
//! # Rules
//!
//! 1. Everything here is pure: no I/O, no clock, no random numbers. No result depends on the order
//!    of a hash map, on the progress of lazy cleaning, or on how often a function was called.
//! 2. Actions are ingested in the order of their seqnos, without holes.
//! 3. An action can be rolled back until it is reported committed, and never after.
//! 4. What left the certification window counts as a conflict: a write set with an older snapshot
//!    position is refused as too old. Forgetting can refuse too much, but never too little.
//!
//! # The loop
//!
//! ```
//! use synod_certify::{CertLimits, Certifier, Class, KeySet, KeyType, Request, Source, Verdict};
//!
//! let mut certifier = Certifier::new(0, CertLimits::default());
//! let mut keys = KeySet::new();
//! keys.append(&[b"shop", b"orders", b"17"], KeyType::Exclusive);
//! let request = Request {
//!     source: Source { member: 1, epoch: 1 },
//!     last_seen: 0,
//!     keys: &keys,
//!     class: Class::WriteSet { pa_unsafe: false },
//! };
//! // The leader, before it appends the action.
//! assert_eq!(certifier.certify(1, &request), Verdict::Pass { depends_on: 0 });
//! // Every member, when the action is appended to its log.
//! certifier.ingest(1, &request);
//! // Another member that has not seen action 1 now conflicts with it.
//! let other = Request { source: Source { member: 2, epoch: 1 }, ..request };
//! assert_eq!(certifier.certify(2, &other), Verdict::Conflict { with: 1 });
//! // When the log is truncated: certifier.rollback(from). Otherwise, in time:
//! certifier.committed(1);
//! certifier.advance_window(1);
//! ```
#![forbid(unsafe_code)]

mod certifier;
mod index;
mod key;
mod key_run;
mod key_set;
mod request;
mod runs;

pub use certifier::{CertLimits, Certifier, LastPart};
pub use key::{Fingerprint, Key, KeyType, Relation, relation};
pub use key_set::{DecodeKeysError, KeySet, KeySetIter};
pub use request::{Class, Request, Source, Verdict};
pub use runs::OpenId;

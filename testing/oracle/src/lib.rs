//! Judges a group from outside: the answers to its clients against the histories of its databases.
//!
//! The crate knows nothing of how a group works, so it cannot share a mistake with it.
//! `synod-chaos` gathers the evidence from real processes. The end-to-end tests cannot: SQL tables
//! show which rows exist, but not the history, so they check less (`acknowledged_writes` in
//! `testing/e2e`).
//!
//! ```
//! # fn gathered() -> synod_oracle::Evidence { Default::default() }
//! let evidence = gathered();                          // while a group is under faults
//! let violations = synod_oracle::check(&evidence);    // one file per rule in `rules/`
//! assert!(violations.is_empty(), "{violations:?}");
//! ```
#![forbid(unsafe_code)]

mod evidence;
mod rules;

pub use evidence::{ClientAnswer, Content, Database, Evidence, Read, RowWrite, Transaction};
pub use rules::{Violation, check};

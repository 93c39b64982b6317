//! Judges a group from the outside: what its clients were told, against what its databases hold in the
//! end. Knows nothing of how a group works, so nothing of its mistakes either.
//!
//! * [`Evidence`]: gathered while a group is tormented.
//! * [`check`]: all rules over it. One file per rule in `rules/`.
#![forbid(unsafe_code)]

mod evidence;
mod rules;

pub use evidence::{Content, Database, Evidence, Read, RowWrite, Told, Transaction};
pub use rules::{Violation, check};

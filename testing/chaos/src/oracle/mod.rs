//! Judges a group from outside: the answers to its clients against the histories of its databases.
//!
//! This module knows nothing of how a group works, so it cannot share a mistake with it: evidence
//! in, [`check`], violations out; one file per rule in `rules/`. The end-to-end tests cannot gather
//! the evidence: SQL tables show which rows exist, but not the history, so they check less
//! (`acknowledged_writes` in `testing/e2e`).

mod evidence;
mod rules;

pub(crate) use evidence::{ClientAnswer, Content, Database, Evidence, Read, RowWrite, Transaction};
pub(crate) use rules::check;

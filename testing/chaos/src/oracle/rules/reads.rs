//! Causal reads are never stale (promise P4).
//!
//! A read sees everything that was acknowledged anywhere before it began, and only what is
//! committed.

use super::{History, Violation};
use crate::oracle::evidence::Read;

pub(super) fn check(reads: &[Read], history: &History<'_>) -> Vec<Violation> {
    reads
        .iter()
        .filter_map(|read| wrong(read, history))
        .collect()
}

fn wrong(read: &Read, history: &History<'_>) -> Option<Violation> {
    let Read {
        member,
        floor,
        position,
        row,
        version,
    } = read;
    if position < floor {
        return Some(Violation {
            rule: "no stale read",
            what: format!("{member} read at {position}, when {floor} had been acknowledged"),
        });
    }
    if *position > history.end {
        return Some(Violation {
            rule: "what was read is committed",
            what: format!(
                "{member} read at {position}, the history ends at {}",
                history.end
            ),
        });
    }
    let expected = history.version(*row, *position);
    (*version != expected).then(|| Violation {
        rule: "what was read is committed",
        what: format!(
            "{member} read version {version} of row {row} at {position}, where it has version \
             {expected}"
        ),
    })
}

//! All databases hold the same history, without gaps, from its beginning (promise P2).
//!
//! Databases are compared pairwise, each with the next.

use super::Violation;
use crate::oracle::evidence::Database;

pub(super) fn check(databases: &[Database]) -> Vec<Violation> {
    let gaps = databases.iter().filter_map(gap);
    let differences = databases
        .iter()
        .zip(databases.iter().skip(1))
        .filter_map(|(one, other)| difference(one, other));
    gaps.chain(differences).collect()
}

fn gap(database: &Database) -> Option<Violation> {
    let positions = database.history.iter().map(|(position, _)| *position);
    let (expected, found) = (1..).zip(positions).find(|(e, f)| e != f)?;
    Some(Violation {
        rule: "positions have no gaps",
        what: format!("{} holds {found} where {expected} is next", database.member),
    })
}

fn difference(one: &Database, other: &Database) -> Option<Violation> {
    let rule = "the same history everywhere";
    let pairs = one.history.iter().zip(&other.history);
    for ((position, here), (_, there)) in pairs {
        if here != there {
            let (a, b) = (&one.member, &other.member);
            let what = format!("at {position} {a} holds {here:?}, {b} {there:?}");
            return Some(Violation { rule, what });
        }
    }
    let (a, b) = (one.history.len(), other.history.len());
    (a != b).then(|| Violation {
        rule,
        what: format!("{} ends at {a}, {} at {b}", one.member, other.member),
    })
}

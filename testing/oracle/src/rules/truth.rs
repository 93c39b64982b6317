//! What clients were told is true: committed is there, once, and where it was said to be; refused is not
//! there; unknown is there once or not at all (promises P1, P3).

use std::collections::BTreeMap;

use super::{History, Violation};
use crate::evidence::Told;

pub(super) fn check(told: &BTreeMap<u64, Told>, history: &History<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut ordered: BTreeMap<u64, i64> = BTreeMap::new();
    for (position, transaction) in &history.transactions {
        let id = transaction.id;
        if let Some(before) = ordered.insert(id, *position) {
            found.push(Violation {
                rule: "a transaction is ordered once",
                what: format!("transaction {id} is at {before} and at {position}"),
            });
        }
        if !told.contains_key(&id) {
            found.push(Violation {
                rule: "nothing comes from nowhere",
                what: format!("no client began transaction {id}, which is at {position}"),
            });
        }
    }
    found.extend(
        told.iter()
            .filter_map(|(id, told)| lie(*id, *told, ordered.get(id))),
    );
    found
}

fn lie(id: u64, told: Told, found: Option<&i64>) -> Option<Violation> {
    match (told, found) {
        (Told::Committed { position }, Some(found)) if position == *found => None,
        (Told::Committed { position }, _) => Some(Violation {
            rule: "acknowledged means committed",
            what: format!("transaction {id} was acknowledged at {position}, and is at {found:?}"),
        }),
        (Told::Refused, Some(found)) => Some(Violation {
            rule: "refused means absent",
            what: format!("transaction {id} was refused, and is at {found}"),
        }),
        (Told::Refused, None) | (Told::Unknown, _) => None,
    }
}

//! The answers to clients are true (promises P1, P3).
//!
//! A committed transaction is in the history, once, at the position of the answer. A refused one is
//! not there. An unknown one is there once or not at all.

use std::collections::BTreeMap;

use super::{History, Violation};
use crate::oracle::evidence::ClientAnswer;

pub(super) fn check(
    answers: &BTreeMap<u64, ClientAnswer>,
    history: &History<'_>,
) -> Vec<Violation> {
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
        if !answers.contains_key(&id) {
            found.push(Violation {
                rule: "nothing comes from nowhere",
                what: format!("no client began transaction {id}, which is at {position}"),
            });
        }
    }
    found.extend(
        answers
            .iter()
            .filter_map(|(id, answer)| contradiction(*id, *answer, ordered.get(id))),
    );
    found
}

fn contradiction(id: u64, answer: ClientAnswer, found: Option<&i64>) -> Option<Violation> {
    match (answer, found) {
        (ClientAnswer::Committed { position }, Some(found)) if position == *found => None,
        (ClientAnswer::Committed { position }, _) => Some(Violation {
            rule: "acknowledged means committed",
            what: format!("transaction {id} was acknowledged at {position}, and is at {found:?}"),
        }),
        (ClientAnswer::Refused, Some(found)) => Some(Violation {
            rule: "refused means absent",
            what: format!("transaction {id} was refused, and is at {found}"),
        }),
        (ClientAnswer::Refused, None) | (ClientAnswer::Unknown, _) => None,
    }
}

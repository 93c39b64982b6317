//! Transactions of this server's clients that lost, for `synod conflicts`.
//!
//! Bounded: totals since the start by table and by winning server, and the last losers one by one.
//! Hot rows are counted among those on demand. A transaction that commits has paid for a few copied
//! bytes ([`touched`]).

pub(crate) mod touched;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_admin::conflict::{Conflicts, KeyConflicts, LostTransaction, TableConflicts, Winner};
use synod_node::MemberId;

use touched::LostKey;

/// Tables that have a row; losers of others are counted together.
const TABLES_MAX: usize = 64;
const RECENT_MAX: usize = 1000;
/// Conflicting keys of one loser that are kept.
const KEYS_OF_LOSER_MAX: usize = 8;
const KEYS_SHOWN: usize = 20;
const LATEST_SHOWN: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// To an action ordered before it.
    Refused { to: i64 },
    /// The history to compare with was gone.
    TooOld,
    /// Its first part was discarded.
    GivenUp,
    /// An action that needed its locks aborted it, before it had a place.
    Aborted {
        /// Seqno of the winner, if it has one.
        by: Option<i64>,
    },
}

impl Loss {
    pub(crate) fn to(self) -> Option<i64> {
        match self {
            Loss::Refused { to } => Some(to),
            Loss::Aborted { by } => by,
            Loss::TooOld | Loss::GivenUp => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Loss::Refused { .. } => "refused",
            Loss::TooOld => "too old",
            Loss::GivenUp => "given up",
            Loss::Aborted { .. } => "aborted",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Loser {
    /// Time of the loss, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) loss: Loss,
    pub(crate) connection: Option<u64>,
    /// The member whose action won, and the connection there.
    pub(crate) winner: Option<(MemberId, Option<u64>)>,
    pub(crate) tables: Vec<String>,
    pub(crate) keys: Vec<LostKey>,
}

#[derive(Debug, Default)]
pub(crate) struct ConflictTable(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Totals since the start; tables, keys and losers are added when they are shown.
    totals: Conflicts,
    tables: BTreeMap<String, TableConflicts>,
    winners: BTreeMap<MemberId, u64>,
    /// The latest first.
    recent: VecDeque<Loser>,
}

impl ConflictTable {
    pub(crate) fn count(&self, mut loser: Loser) {
        let mut state = self.state();
        let totals = &mut state.totals;
        *match loser.loss {
            Loss::Refused { .. } => &mut totals.refused,
            Loss::TooOld => &mut totals.too_old,
            Loss::GivenUp => &mut totals.given_up,
            Loss::Aborted { .. } => &mut totals.aborted,
        } += 1;
        for table in &loser.tables {
            state.count_table(table, &loser);
        }
        if let Some((member, _)) = loser.winner {
            *state.winners.entry(member).or_default() += 1;
        }
        loser.keys.truncate(KEYS_OF_LOSER_MAX);
        state.recent.truncate(RECENT_MAX - 1);
        state.recent.push_front(loser);
    }

    /// The statistics; `name` gives the names of members.
    pub(crate) fn shown(&self, name: impl Fn(MemberId) -> String) -> Conflicts {
        let state = self.state();
        let mut tables: Vec<TableConflicts> = state.tables.values().cloned().collect();
        for loser in &state.recent {
            for row in &mut tables {
                row.recent += u64::from(loser.tables.contains(&row.table));
            }
        }
        tables.sort_by_key(|row| std::cmp::Reverse((row.recent, row.total)));
        let winners = state.winners.iter().map(|(member, total)| Winner {
            name: name(*member),
            total: *total,
        });
        let mut winners: Vec<Winner> = winners.collect();
        winners.sort_by_key(|winner| std::cmp::Reverse(winner.total));
        let latest = state.recent.iter().take(LATEST_SHOWN);
        Conflicts {
            tables,
            winners,
            recent: state.recent.len() as u64,
            recent_since_unix_ms: state.recent.back().map(|oldest| oldest.at_ms),
            keys: hot_keys(&state.recent),
            unknown_keys: state.recent.iter().filter(|l| l.keys.is_empty()).count() as u64,
            latest: latest.map(|loser| loser.shown(&name)).collect(),
            ..state.totals.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count_table(&mut self, table: &str, loser: &Loser) {
        if self.tables.len() == TABLES_MAX && !self.tables.contains_key(table) {
            self.totals.other_tables += 1;
            return;
        }
        let row = self.tables.entry(table.to_owned()).or_default();
        row.table = table.to_owned();
        row.total += 1;
        row.last_unix_ms = loser.at_ms;
        row.last_lost_to = loser.loss.to();
    }
}

impl Loser {
    fn shown(&self, name: impl Fn(MemberId) -> String) -> LostTransaction {
        let key = self.keys.first();
        let of_key = key.map(|key| &key.table).filter(|table| !table.is_empty());
        let only = match &self.tables[..] {
            [only] => Some(only),
            _ => None,
        };
        LostTransaction {
            at_unix_ms: self.at_ms,
            how: self.loss.name().to_owned(),
            connection: self.connection,
            table: of_key.or(only).cloned(),
            key: key.map(LostKey::text),
            lost_to: self.loss.to(),
            winner: self.winner.map(|(member, _)| name(member)),
            winner_connection: self.winner.and_then(|(_, connection)| connection),
        }
    }
}

/// The keys for which most of these have lost, the most frequent first.
fn hot_keys(losers: &VecDeque<Loser>) -> Vec<KeyConflicts> {
    let mut rows: BTreeMap<u128, KeyConflicts> = BTreeMap::new();
    for loser in losers {
        for key in &loser.keys {
            let row = rows
                .entry(key.fingerprint.0)
                .or_insert_with(|| KeyConflicts {
                    last_unix_ms: loser.at_ms,
                    last_lost_to: loser.loss.to(),
                    hash: key.hash(),
                    ..KeyConflicts::default()
                });
            row.recent += 1;
            // Another loser may know more of it.
            if row.hex.is_none() {
                row.table.clone_from(&key.table);
                (row.key, row.hex) = (key.text(), key.hex());
            }
        }
    }
    let mut rows: Vec<KeyConflicts> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.recent, row.last_unix_ms)));
    rows.truncate(KEYS_SHOWN);
    rows
}

#[cfg(test)]
mod tests {
    use synod_node::Fingerprint;

    use super::touched::KeyPart;
    use super::*;

    fn loser(at_ms: u64, tables: &[&str], rows: &[u128]) -> Loser {
        Loser {
            at_ms,
            loss: Loss::Refused { to: 7 },
            connection: Some(at_ms),
            winner: Some((MemberId(2), Some(57))),
            tables: tables.iter().map(|&table| table.to_owned()).collect(),
            keys: rows.iter().map(|&number| row(number)).collect(),
        }
    }

    fn row(number: u128) -> LostKey {
        LostKey {
            table: "shop.stock".to_owned(),
            fingerprint: Fingerprint(number),
            what: KeyPart::OtherRow,
        }
    }

    fn shown(table: &ConflictTable) -> Conflicts {
        table.shown(|member| format!("db{}", member.0))
    }

    #[test]
    fn losers_are_counted_by_table_and_by_who_won() {
        let table = ConflictTable::default();
        table.count(loser(1, &["shop.a", "shop.b"], &[]));
        table.count(Loser {
            loss: Loss::Aborted { by: None },
            winner: None,
            ..loser(2, &["shop.b"], &[])
        });
        let found = shown(&table);
        assert_eq!((found.refused, found.aborted, found.total()), (1, 1, 2));
        assert_eq!(found.tables[0].table, "shop.b");
        assert_eq!((found.tables[0].total, found.tables[0].recent), (2, 2));
        assert_eq!(found.tables[0].last_lost_to, None);
        assert_eq!(found.tables[1].last_lost_to, Some(7));
        assert_eq!(
            (&*found.winners[0].name, found.winners[0].total),
            ("db2", 1)
        );
        assert_eq!((found.unknown_keys, found.recent), (2, 2));
        assert_eq!(found.recent_since_unix_ms, Some(1));
        let latest = &found.latest[0];
        assert_eq!((&*latest.how, latest.connection), ("aborted", Some(2)));
        assert_eq!(latest.table.as_deref(), Some("shop.b"));
        assert_eq!(found.latest[1].winner_connection, Some(57));
    }

    #[test]
    fn tables_without_room_are_counted_together() {
        let table = ConflictTable::default();
        for number in 0..TABLES_MAX + 5 {
            table.count(loser(1, &[&number.to_string()], &[]));
        }
        let found = shown(&table);
        assert_eq!((found.tables.len(), found.other_tables), (TABLES_MAX, 5));
    }

    #[test]
    fn rows_that_lost_long_ago_make_room() {
        let table = ConflictTable::default();
        for at_ms in 0..5 {
            table.count(loser(at_ms, &["shop.stock"], &[1, 2]));
        }
        table.count(loser(6, &["shop.stock"], &[2]));
        let keys = shown(&table).keys;
        assert_eq!((keys[0].recent, keys[1].recent), (6, 5));
        for number in 0..RECENT_MAX as u128 {
            table.count(loser(7, &["shop.stock"], &[number + 10]));
        }
        let found = shown(&table);
        assert_eq!((found.recent, found.keys.len()), (1000, KEYS_SHOWN));
        assert_eq!(
            (found.keys[0].recent, found.latest.len()),
            (1, LATEST_SHOWN)
        );
        assert_eq!(
            (found.tables[0].total, found.tables[0].recent),
            (1006, 1000)
        );
    }

    #[test]
    fn key_that_another_loser_knows_better_is_shown_by_its_bytes() {
        let table = ConflictTable::default();
        table.count(loser(1, &[], &[5]));
        assert_eq!(shown(&table).keys[0].hex, None);
        let mut known = loser(2, &[], &[5]);
        known.keys[0].what = KeyPart::Row((*b"\0\x05\0\0\0").into());
        table.count(known);
        table.count(loser(3, &[], &[5]));
        let key = &shown(&table).keys[0];
        assert_eq!((key.key.as_str(), key.recent), ("0005000000 (5)", 3));
        assert_eq!(key.last_unix_ms, 3);
    }
}

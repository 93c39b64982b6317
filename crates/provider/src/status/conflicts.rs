//! Which local transactions the group refused: by table, by the server that won, over time.
//!
//! Bounded: so many tables have a row each, what comes after them is counted together. The rows are
//! counted by minute for an hour. A transaction that fails costs a few comparisons more, one that
//! commits none.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_admin::conflict::{Conflicts, TableConflicts, Winner};
use synod_node::MemberId;

/// Tables that have a row.
const TABLES_MAX: usize = 64;
/// Tables of one transaction that are kept.
const TOUCHED_MAX: usize = 8;
/// Minutes that are counted one by one.
const MINUTES: usize = 60;
/// Losers that wait for the delivery of what they lost to.
const UNNAMED_MAX: usize = 1024;
/// Last actions whose origin is known.
const ORIGINS: usize = 4096;

/// The tables that a transaction has changed rows of, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TouchedTables(Vec<SchemaAndTable>);

type SchemaAndTable = (Box<[u8]>, Box<[u8]>);

impl TouchedTables {
    /// A key of the transaction: its first parts are schema and table.
    pub(crate) fn touch(&mut self, parts: &[&[u8]]) {
        let [schema, table, ..] = parts else {
            return;
        };
        let is_same = |known: &SchemaAndTable| *known.0 == **schema && *known.1 == **table;
        // Rows of one table follow each other.
        if self.0.len() < TOUCHED_MAX && !self.0.iter().rev().any(is_same) {
            self.0.push(((*schema).into(), (*table).into()));
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(schema, table)| {
            let (schema, table) = (
                String::from_utf8_lossy(schema),
                String::from_utf8_lossy(table),
            );
            format!("{schema}.{table}")
        })
    }
}

/// How a transaction lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// To an action ordered before it.
    Refused {
        /// That action's seqno.
        to: i64,
    },
    /// The history to compare with was gone.
    TooOld,
    /// Its first part was discarded.
    GivenUp,
    /// An action that needed its locks aborted it, before it had a place.
    Aborted,
}

/// Counts losers.
#[derive(Default)]
pub(crate) struct ConflictTable {
    state: Mutex<State>,
    origins: DeliveredOrigins,
}

impl std::fmt::Debug for ConflictTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConflictTable").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    refused: u64,
    too_old: u64,
    given_up: u64,
    aborted: u64,
    tables: BTreeMap<String, TableCount>,
    other_tables: u64,
    winners: BTreeMap<MemberId, u64>,
    /// Actions that transactions have lost to, and that were not delivered here yet.
    unnamed: VecDeque<i64>,
}

#[derive(Default)]
struct TableCount {
    total: u64,
    minutes: MinuteCounts,
    last_unix_ms: u64,
    last_lost_to: Option<i64>,
}

impl ConflictTable {
    /// A transaction that changed these tables has lost.
    pub(crate) fn lost(&self, loss: Loss, tables: &TouchedTables, now_ms: u64) {
        let mut state = self.state();
        let counter = match loss {
            Loss::Refused { .. } => &mut state.refused,
            Loss::TooOld => &mut state.too_old,
            Loss::GivenUp => &mut state.given_up,
            Loss::Aborted => &mut state.aborted,
        };
        *counter += 1;
        if let Loss::Refused { to } = loss {
            if state.unnamed.len() == UNNAMED_MAX {
                state.unnamed.pop_front();
            }
            state.unnamed.push_back(to);
        }
        self.name_winners(&mut state);
        for name in tables.names() {
            let has_room = state.tables.len() < TABLES_MAX || state.tables.contains_key(&name);
            if !has_room {
                state.other_tables += 1;
                continue;
            }
            let row = state.tables.entry(name).or_default();
            row.total += 1;
            row.minutes.count(now_ms);
            row.last_unix_ms = now_ms;
            row.last_lost_to = match loss {
                Loss::Refused { to } => Some(to),
                Loss::TooOld | Loss::GivenUp | Loss::Aborted => None,
            };
        }
    }

    /// An action of this member was delivered.
    pub(crate) fn delivered(&self, seqno: i64, origin: MemberId) {
        self.origins.note(seqno, origin);
    }

    /// Counts the origins of actions that were lost to, as far as they were delivered.
    fn name_winners(&self, state: &mut State) {
        let State {
            winners, unnamed, ..
        } = state;
        unnamed.retain(|seqno| match self.origins.of(*seqno) {
            Origin::Known(origin) => {
                *winners.entry(origin).or_default() += 1;
                false
            }
            Origin::Later => true,
            Origin::Forgotten => false,
        });
    }

    /// What was counted. `name` gives the names of members.
    pub(crate) fn shown(&self, now_ms: u64, name: impl Fn(MemberId) -> String) -> Conflicts {
        let mut state = self.state();
        self.name_winners(&mut state);
        let tables = state.tables.iter().map(|(table, row)| TableConflicts {
            table: table.clone(),
            total: row.total,
            last_10_minutes: row.minutes.last(now_ms, 10),
            last_hour: row.minutes.last(now_ms, MINUTES as u64),
            last_unix_ms: row.last_unix_ms,
            last_lost_to: row.last_lost_to,
        });
        let mut tables: Vec<TableConflicts> = tables.collect();
        tables.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.table.cmp(&b.table)));
        let winners = state.winners.iter().map(|(member, total)| Winner {
            name: name(*member),
            total: *total,
        });
        let mut winners: Vec<Winner> = winners.collect();
        winners.sort_by_key(|winner| std::cmp::Reverse(winner.total));
        Conflicts {
            refused: state.refused,
            too_old: state.too_old,
            given_up: state.given_up,
            aborted: state.aborted,
            tables,
            winners,
            other_tables: state.other_tables,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts of the last hour, by minute.
struct MinuteCounts {
    /// By minute modulo their number.
    counts: [u32; MINUTES],
    /// The latest minute counted, since 1970.
    latest: u64,
}

impl Default for MinuteCounts {
    fn default() -> MinuteCounts {
        MinuteCounts {
            counts: [0; MINUTES],
            latest: 0,
        }
    }
}

impl MinuteCounts {
    fn count(&mut self, now_ms: u64) {
        // A clock that was set back counts for the latest minute.
        let minute = (now_ms / 60_000).max(self.latest);
        let passed = (minute - self.latest).min(MINUTES as u64);
        for empty in 0..passed {
            self.counts[slot(minute - empty)] = 0;
        }
        self.latest = minute;
        let count = &mut self.counts[slot(minute)];
        *count = count.saturating_add(1);
    }

    /// What was counted in the last `minutes`, the present one included.
    fn last(&self, now_ms: u64, minutes: u64) -> u64 {
        let now = (now_ms / 60_000).max(self.latest);
        let first = (now + 1).saturating_sub(minutes);
        let oldest = (self.latest + 1).saturating_sub(MINUTES as u64);
        let counted = first.max(oldest)..=self.latest;
        counted.map(|m| u64::from(self.counts[slot(m)])).sum()
    }
}

fn slot(minute: u64) -> usize {
    (minute % MINUTES as u64) as usize // below sixty
}

/// What is known of an action's origin.
enum Origin {
    /// This member.
    Known(MemberId),
    /// The action was not delivered yet.
    Later,
    /// Too many were delivered since.
    Forgotten,
}

/// The origins of the last actions: without a lock, since each delivery adds one.
struct DeliveredOrigins(Box<[(AtomicI64, AtomicU64)]>);

impl Default for DeliveredOrigins {
    fn default() -> DeliveredOrigins {
        DeliveredOrigins(
            (0..ORIGINS)
                .map(|_| <(AtomicI64, AtomicU64)>::default())
                .collect(),
        )
    }
}

impl DeliveredOrigins {
    /// One thread at a time delivers.
    fn note(&self, seqno: i64, origin: MemberId) {
        let (place, member) = self.place(seqno);
        // Not to be taken for the new one's while it is half written.
        place.store(0, Ordering::Release);
        member.store(origin.0, Ordering::Release);
        place.store(seqno, Ordering::Release);
    }

    fn of(&self, seqno: i64) -> Origin {
        let (place, member) = self.place(seqno);
        let before = place.load(Ordering::Acquire);
        let origin = MemberId(member.load(Ordering::Acquire));
        match before.cmp(&seqno) {
            Less => Origin::Later,
            Greater => Origin::Forgotten,
            Equal if place.load(Ordering::Acquire) == seqno => Origin::Known(origin),
            Equal => Origin::Forgotten,
        }
    }

    fn place(&self, seqno: i64) -> &(AtomicI64, AtomicU64) {
        &self.0[seqno.unsigned_abs() as usize % ORIGINS] // any bits will do
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn touched(tables: &[&str]) -> TouchedTables {
        let mut touched = TouchedTables::default();
        for table in tables {
            touched.touch(&[b"shop", table.as_bytes(), b"key"]);
        }
        touched
    }

    fn shown(table: &ConflictTable, now: u64) -> Conflicts {
        table.shown(now, |member| format!("db{}", member.0))
    }

    #[test]
    fn each_table_of_a_transaction_is_kept_once() {
        let tables = touched(&["a", "a", "b", "a"]);
        assert_eq!(tables.names().collect::<Vec<_>>(), ["shop.a", "shop.b"]);
        let mut none = TouchedTables::default();
        none.touch(&[b"shop"]);
        none.touch(&[]);
        assert_eq!(none, TouchedTables::default());
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let many = touched(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.names().count(), TOUCHED_MAX);
    }

    #[test]
    fn losers_are_counted_by_table_and_time() {
        let table = ConflictTable::default();
        let start = 1_000_000 * MINUTE;
        table.lost(Loss::Refused { to: 7 }, &touched(&["a", "b"]), start);
        table.lost(Loss::Aborted, &touched(&["b"]), start + 50 * MINUTE);
        let found = shown(&table, start + 55 * MINUTE);
        assert_eq!((found.refused, found.aborted, found.total()), (1, 1, 2));
        let row = &found.tables[0];
        assert_eq!((row.table.as_str(), row.total), ("shop.b", 2));
        assert_eq!((row.last_10_minutes, row.last_hour), (1, 2));
        assert_eq!(row.last_lost_to, None);
        assert_eq!(found.tables[1].last_lost_to, Some(7));
        let later = shown(&table, start + 65 * MINUTE);
        assert_eq!((later.tables[0].last_hour, later.tables[0].total), (1, 2));
        assert_eq!(later.tables[1].last_hour, 0);
        let much_later = shown(&table, start + 1000 * MINUTE);
        assert_eq!(much_later.tables[0].last_hour, 0);
    }

    #[test]
    fn counts_of_an_earlier_hour_do_not_come_back() {
        let mut minutes = MinuteCounts::default();
        let start = 5_000 * MINUTE;
        minutes.count(start);
        minutes.count(start + 60 * MINUTE);
        assert_eq!(minutes.last(start + 60 * MINUTE, 60), 1);
        minutes.count(start);
        assert_eq!(
            minutes.last(start + 60 * MINUTE, 1),
            2,
            "the clock was set back"
        );
    }

    #[test]
    fn tables_without_room_are_counted_together() {
        let table = ConflictTable::default();
        for number in 0..TABLES_MAX + 5 {
            table.lost(Loss::TooOld, &touched(&[&number.to_string()]), MINUTE);
        }
        let found = shown(&table, MINUTE);
        assert_eq!((found.tables.len(), found.other_tables), (TABLES_MAX, 5));
        assert_eq!(found.too_old, TABLES_MAX as u64 + 5);
    }

    #[test]
    fn winner_is_the_origin_of_the_action_that_was_lost_to() {
        let table = ConflictTable::default();
        let lost_to = |to| table.lost(Loss::Refused { to }, &touched(&["a"]), MINUTE);
        lost_to(7);
        assert!(shown(&table, 0).winners.is_empty(), "not delivered yet");
        table.delivered(7, MemberId(2));
        let winners = shown(&table, 0).winners;
        assert_eq!((winners[0].name.as_str(), winners[0].total), ("db2", 1));
        // Its place is another one's by now.
        table.delivered(7 + ORIGINS as i64, MemberId(3));
        lost_to(7);
        assert_eq!(shown(&table, 0).winners, winners);
    }
}

//! Statistics of refused local transactions: by table, key, winning server and time.
//!
//! Bounded: so many tables and keys have a row each, what comes after them is counted together. The
//! rows are counted by minute for an hour. A transaction that fails costs a few comparisons more,
//! one that commits a few copied bytes ([`touched`]).

mod hot_keys;
mod latest;
mod minutes;
mod origins;
pub(crate) mod touched;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_admin::conflict::{Conflicts, TableConflicts, Winner};
use synod_node::MemberId;

use hot_keys::HotKeys;
use latest::LatestLosers;
pub(crate) use latest::Loser;
use minutes::{MINUTES, MinuteCounts};
use origins::{DeliveredOrigins, Origin};
use touched::Touched;

/// Tables that have a row.
const TABLES_MAX: usize = 64;
/// Losers that wait for the delivery of what they lost to.
const UNNAMED_MAX: usize = 1024;

/// Kind of a loss.
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
    /// The action that won.
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
    minutes: MinuteCounts,
    tables: BTreeMap<String, LossCount>,
    other_tables: u64,
    keys: HotKeys,
    latest: LatestLosers,
    winners: BTreeMap<MemberId, u64>,
    /// Actions that transactions have lost to, and that were not delivered here yet.
    unnamed: VecDeque<i64>,
}

/// Losers of one table, or for one key.
#[derive(Default)]
struct LossCount {
    total: u64,
    minutes: MinuteCounts,
    last_unix_ms: u64,
    last_lost_to: Option<i64>,
}

impl LossCount {
    fn count(&mut self, loss: Loss, now_ms: u64) {
        self.total += 1;
        self.minutes.count(now_ms);
        self.last_unix_ms = now_ms;
        self.last_lost_to = loss.to();
    }
}

impl ConflictTable {
    /// A transaction that changed these tables has lost.
    pub(crate) fn lost(&self, loss: Loss, touched: &Touched, now_ms: u64) {
        let mut state = self.state();
        let counter = match loss {
            Loss::Refused { .. } => &mut state.refused,
            Loss::TooOld => &mut state.too_old,
            Loss::GivenUp => &mut state.given_up,
            Loss::Aborted { .. } => &mut state.aborted,
        };
        *counter += 1;
        state.minutes.count(now_ms);
        if let Some(to) = loss.to() {
            if state.unnamed.len() == UNNAMED_MAX {
                state.unnamed.pop_front();
            }
            state.unnamed.push_back(to);
        }
        self.name_winners(&mut state);
        for name in touched.names() {
            let has_room = state.tables.len() < TABLES_MAX || state.tables.contains_key(&name);
            if has_room {
                let row = state.tables.entry(name).or_default();
                row.count(loss, now_ms);
            } else {
                state.other_tables += 1;
            }
        }
    }

    /// Adds details of a losing transaction once it is over. It was counted when it lost.
    pub(crate) fn explained(&self, loser: Loser) {
        let mut state = self.state();
        state.keys.count(&loser);
        state.latest.add(loser);
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

    /// The statistics; `name` gives the names of members.
    pub(crate) fn shown(&self, now_ms: u64, name: impl Fn(MemberId) -> String) -> Conflicts {
        let mut state = self.state();
        self.name_winners(&mut state);
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
            by_minute: state.minutes.each(now_ms),
            tables: shown_tables(&state.tables, now_ms),
            winners,
            other_tables: state.other_tables,
            keys: state.keys.shown(now_ms),
            unknown_keys: state.keys.unknown(),
            latest: state.latest.shown(name),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most frequent losers first.
fn shown_tables(tables: &BTreeMap<String, LossCount>, now_ms: u64) -> Vec<TableConflicts> {
    let tables = tables.iter().map(|(table, row)| TableConflicts {
        table: table.clone(),
        total: row.total,
        last_10_minutes: row.minutes.last(now_ms, 10),
        last_hour: row.minutes.last(now_ms, MINUTES as u64),
        by_minute: row.minutes.each(now_ms),
        last_unix_ms: row.last_unix_ms,
        last_lost_to: row.last_lost_to,
    });
    let mut tables: Vec<TableConflicts> = tables.collect();
    tables.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.table.cmp(&b.table)));
    tables
}

#[cfg(test)]
mod tests {
    use super::origins::ORIGINS;
    use super::*;

    const MINUTE: u64 = 60_000;

    fn touched(tables: &[&str]) -> Touched {
        let mut touched = Touched::default();
        for table in tables {
            touched.touch(&[b"shop", table.as_bytes(), b"key"]);
        }
        touched
    }

    fn shown(table: &ConflictTable, now: u64) -> Conflicts {
        table.shown(now, |member| format!("db{}", member.0))
    }

    #[test]
    fn losers_are_counted_by_table_and_time() {
        let table = ConflictTable::default();
        let start = 1_000_000 * MINUTE;
        table.lost(Loss::Refused { to: 7 }, &touched(&["a", "b"]), start);
        table.lost(
            Loss::Aborted { by: None },
            &touched(&["b"]),
            start + 50 * MINUTE,
        );
        let found = shown(&table, start + 55 * MINUTE);
        assert_eq!((found.refused, found.aborted, found.total()), (1, 1, 2));
        let row = &found.tables[0];
        assert_eq!((row.table.as_str(), row.total), ("shop.b", 2));
        assert_eq!((row.last_10_minutes, row.last_hour), (1, 2));
        assert_eq!(row.last_lost_to, None);
        assert_eq!(found.tables[1].last_lost_to, Some(7));
        assert_eq!((found.by_minute[4], found.by_minute[54]), (1, 1));
        assert_eq!(found.by_minute.iter().sum::<u32>(), 2);
        assert_eq!(found.tables[1].by_minute.iter().sum::<u32>(), 1);
        let later = shown(&table, start + 65 * MINUTE);
        assert_eq!((later.tables[0].last_hour, later.tables[0].total), (1, 2));
        assert_eq!(later.tables[1].last_hour, 0);
        let much_later = shown(&table, start + 1000 * MINUTE);
        assert_eq!(much_later.tables[0].last_hour, 0);
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

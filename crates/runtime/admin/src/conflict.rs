//! Transactions of this server that the group refused, for `synod conflicts`.

use serde::{Deserialize, Serialize};

/// Lost transactions of this server's own clients, since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conflicts {
    /// Refused because an action ordered before changed the same rows.
    pub refused: u64,
    /// Refused because the history to compare with was gone.
    pub too_old: u64,
    /// Given up because their first part was discarded.
    pub given_up: u64,
    /// Aborted, before they had a place in the order, by an action that needed their locks.
    pub aborted: u64,
    /// Number of the last losers, of which details are kept.
    pub recent: u64,
    /// Time of the oldest of them, in milliseconds since 1970.
    pub recent_since_unix_ms: Option<u64>,
    /// The tables that they changed, most frequent recent loser first. A transaction that changed
    /// several counts for each.
    pub tables: Vec<TableConflicts>,
    /// Servers whose actions won, most frequent first.
    pub winners: Vec<Winner>,
    /// Losers whose table found no room in the list, because it is bounded.
    pub other_tables: u64,
    /// The keys for which most of the last losers have lost, most frequent first.
    pub keys: Vec<KeyConflicts>,
    /// Last losers of which no key is known.
    pub unknown_keys: u64,
    /// The last of them, latest first.
    pub latest: Vec<LostTransaction>,
}

impl Conflicts {
    pub fn total(&self) -> u64 {
        self.refused + self.too_old + self.given_up + self.aborted
    }
}

/// Transactions that lost after they had changed this table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableConflicts {
    /// `schema.table`.
    pub table: String,
    /// Since the server's start.
    pub total: u64,
    /// Among the last losers.
    pub recent: u64,
    /// The latest, in milliseconds since 1970.
    pub last_unix_ms: u64,
    /// The action that the latest one lost to; none if that is not known.
    pub last_lost_to: Option<i64>,
}

/// Transactions that lost for this key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyConflicts {
    /// `schema.table`; empty if the transactions changed several, and it is not known which.
    pub table: String,
    /// The key, for people: its bytes, or `row` and its hash.
    pub key: String,
    /// The bytes of a row's key in hexadecimal digits: one for the index, by its place in the
    /// table, then the values; none if they are not known.
    pub hex: Option<String>,
    /// Its hash, in hexadecimal digits: the same on all servers and at all times.
    pub hash: String,
    /// Among the last losers.
    pub recent: u64,
    /// The latest, in milliseconds since 1970.
    pub last_unix_ms: u64,
    /// The action that the latest one lost to; none if that is not known.
    pub last_lost_to: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostTransaction {
    /// Time, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// `refused`, `aborted`, `too old`, `given up`.
    pub how: String,
    /// Its connection on this server; none if it lost before it came to commit.
    pub connection: Option<u64>,
    /// The table of the key, or the only one that it changed.
    pub table: Option<String>,
    /// The first key that conflicted; none if none is known.
    pub key: Option<String>,
    pub lost_to: Option<i64>,
    pub winner: Option<String>,
    pub winner_connection: Option<u64>,
}

/// A server, and how many transactions of this one lost to its actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Winner {
    pub name: String,
    pub total: u64,
}

//! Transactions of this server that the group refused, for `synod conflicts`.

use serde::{Deserialize, Serialize};

/// Which transactions of this server's clients lost, since its start. Each server counts those of
/// its own clients.
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
    /// The tables that they changed, most frequent loser first. A transaction that changed several
    /// counts for each: the key that conflicted is known as a hash only.
    pub tables: Vec<TableConflicts>,
    /// Servers whose actions won, most frequent first.
    pub winners: Vec<Winner>,
    /// Losers whose table found no room in the list, because it is bounded.
    pub other_tables: u64,
}

impl Conflicts {
    /// All transactions that lost.
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
    /// In the last ten minutes.
    pub last_10_minutes: u64,
    /// In the last hour.
    pub last_hour: u64,
    /// The latest, in milliseconds since 1970.
    pub last_unix_ms: u64,
    /// The action that the latest one lost to; none if that is not known.
    pub last_lost_to: Option<i64>,
}

/// A server, and how many transactions of this one lost to its actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Winner {
    /// Its name.
    pub name: String,
    /// How many.
    pub total: u64,
}

//! The last transactions that lost, with what leads to their statements.
//!
//! The server gives the library rows, not statements. The connections of both sides are known, and
//! the server knows what they ran.

use std::collections::VecDeque;

use synod_admin::conflict::LostTransaction;
use synod_node::MemberId;

use super::Loss;
use super::touched::LostKey;

/// Losers that are kept.
const LOSERS_MAX: usize = 32;

/// A transaction that lost, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Loser {
    /// Time of the loss, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) loss: Loss,
    /// Its connection; none if it lost before it came to commit.
    pub(crate) connection: Option<u64>,
    /// The member whose action won, and the connection there.
    pub(crate) winner: Option<(MemberId, u64)>,
    /// The only table that it has changed.
    pub(crate) table: Option<String>,
    /// The keys that conflict.
    pub(crate) keys: Vec<LostKey>,
}

#[derive(Default)]
pub(super) struct LatestLosers(VecDeque<Loser>);

impl LatestLosers {
    pub(super) fn add(&mut self, loser: Loser) {
        if self.0.len() == LOSERS_MAX {
            self.0.pop_back();
        }
        self.0.push_front(loser);
    }

    /// The latest first. `name` gives the names of members.
    pub(super) fn shown(&self, name: impl Fn(MemberId) -> String) -> Vec<LostTransaction> {
        let losers = self.0.iter().map(|loser| {
            let key = loser.keys.first();
            LostTransaction {
                at_unix_ms: loser.at_ms,
                how: loser.loss.name().to_owned(),
                connection: loser.connection,
                table: key
                    .map(|key| key.table.clone())
                    .filter(|table| !table.is_empty())
                    .or_else(|| loser.table.clone()),
                key: key.map(LostKey::text),
                lost_to: loser.loss.to(),
                winner: loser.winner.map(|(member, _)| name(member)),
                winner_connection: loser.winner.map(|(_, connection)| connection),
            }
        });
        losers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_losers_are_kept_latest_first() {
        let mut latest = LatestLosers::default();
        for number in 0..100 {
            latest.add(Loser {
                at_ms: number,
                loss: Loss::Aborted { by: Some(7) },
                connection: Some(number),
                winner: Some((MemberId(2), 57)),
                table: Some("shop.stock".to_owned()),
                keys: Vec::new(),
            });
        }
        let shown = latest.shown(|member| format!("db{}", member.0));
        assert_eq!((shown.len(), shown[0].connection), (LOSERS_MAX, Some(99)));
        assert_eq!((&*shown[0].how, shown[0].lost_to), ("aborted", Some(7)));
        assert_eq!(shown[0].winner.as_deref(), Some("db2"));
        assert_eq!(shown[0].winner_connection, Some(57));
        assert_eq!(shown[0].table.as_deref(), Some("shop.stock"));
    }
}

//! The keys for which transactions lose most.
//!
//! Bounded. If there are more, the key with the fewest losers of the last hour makes room, so that
//! a key that has become hot a moment ago is not kept out by those of yesterday.

use std::collections::BTreeMap;

use synod_admin::conflict::KeyConflicts;

use super::LossCount;
use super::latest::Loser;
use super::minutes::MINUTES;
use super::touched::LostKey;

/// Keys that are counted.
const KEYS_MAX: usize = 256;
/// Keys that are shown.
const SHOWN_MAX: usize = 20;
/// Keys of one loser that are counted.
const KEYS_OF_LOSER_MAX: usize = 8;

/// Counts losers by key.
#[derive(Default)]
pub(super) struct HotKeys {
    keys: BTreeMap<u128, HotKey>,
    /// Losers of which no key is known.
    unknown: u64,
}

struct HotKey {
    key: LostKey,
    losses: LossCount,
}

impl HotKeys {
    /// Counts a loser for each key that it has lost for.
    pub(super) fn count(&mut self, loser: &Loser) {
        if loser.keys.is_empty() {
            self.unknown += 1;
        }
        for key in loser.keys.iter().take(KEYS_OF_LOSER_MAX) {
            self.make_room_for(key, loser.at_ms);
            let hot = self.keys.entry(key.fingerprint.0);
            let hot = hot.or_insert_with(|| HotKey {
                key: key.clone(),
                losses: LossCount::default(),
            });
            if hot.key.hex().is_none() {
                // Another loser may know more of it.
                hot.key = key.clone();
            }
            hot.losses.count(loser.loss, loser.at_ms);
        }
    }

    fn make_room_for(&mut self, key: &LostKey, now_ms: u64) {
        if self.keys.len() < KEYS_MAX || self.keys.contains_key(&key.fingerprint.0) {
            return;
        }
        let hour = MINUTES as u64;
        let coldest = self.keys.iter().min_by_key(|(_, hot)| {
            let losses = &hot.losses;
            (losses.minutes.last(now_ms, hour), losses.last_unix_ms)
        });
        if let Some(coldest) = coldest.map(|(fingerprint, _)| *fingerprint) {
            self.keys.remove(&coldest);
        }
    }

    /// Losers of which no key is known.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The keys with the most losers, of the last hour first.
    pub(super) fn shown(&self, now_ms: u64) -> Vec<KeyConflicts> {
        let rows = self.keys.values().map(|hot| KeyConflicts {
            table: hot.key.table.clone(),
            key: hot.key.text(),
            hex: hot.key.hex(),
            hash: hot.key.hash(),
            total: hot.losses.total,
            last_10_minutes: hot.losses.minutes.last(now_ms, 10),
            last_hour: hot.losses.minutes.last(now_ms, MINUTES as u64),
            last_unix_ms: hot.losses.last_unix_ms,
            last_lost_to: hot.losses.last_lost_to,
        });
        let mut rows: Vec<KeyConflicts> = rows.collect();
        let rank = |row: &KeyConflicts| (row.last_hour, row.total, row.last_unix_ms);
        rows.sort_by_key(|row| std::cmp::Reverse(rank(row)));
        rows.truncate(SHOWN_MAX);
        rows
    }
}

#[cfg(test)]
mod tests {
    use synod_node::Fingerprint;

    use super::super::Loss;
    use super::super::touched::KeyPart;
    use super::*;

    const MINUTE: u64 = 60_000;

    fn row(number: usize) -> LostKey {
        LostKey {
            table: "shop.stock".to_owned(),
            fingerprint: Fingerprint(number as u128),
            what: KeyPart::OtherRow,
        }
    }

    fn loser(at_ms: u64, keys: Vec<LostKey>) -> Loser {
        Loser {
            at_ms,
            loss: Loss::Refused { to: 7 },
            connection: None,
            winner: None,
            table: None,
            keys,
        }
    }

    #[test]
    fn hot_key_stays_while_others_come_and_go() {
        let mut keys = HotKeys::default();
        let start = 1_000_000 * MINUTE;
        keys.count(&loser(start, vec![row(0), row(1)]));
        keys.count(&loser(start, vec![row(0)]));
        for number in 2..10 * KEYS_MAX {
            keys.count(&loser(start + 1, vec![row(number)]));
        }
        assert_eq!(keys.keys.len(), KEYS_MAX);
        let shown = keys.shown(start + MINUTE);
        assert_eq!(shown.len(), SHOWN_MAX);
        assert_eq!((shown[0].total, shown[0].last_lost_to), (2, Some(7)));
        assert_eq!((shown[0].last_10_minutes, shown[1].total), (2, 1));
        assert!(!keys.keys.contains_key(&1), "it made room");
        // What was hot yesterday makes room for what loses now.
        for number in 0..KEYS_MAX {
            keys.count(&loser(start + 90 * MINUTE, vec![row(100_000 + number)]));
        }
        assert!(!keys.keys.contains_key(&0));
    }

    #[test]
    fn key_that_another_loser_knows_better_is_shown_by_its_bytes() {
        let mut keys = HotKeys::default();
        keys.count(&loser(0, vec![row(5)]));
        assert_eq!(keys.shown(0)[0].hex, None);
        let known = LostKey {
            what: KeyPart::Row((*b"\0\x05\0\0\0").into()),
            ..row(5)
        };
        keys.count(&loser(0, vec![known]));
        keys.count(&loser(0, vec![row(5)]));
        let shown = keys.shown(0);
        assert_eq!(
            (shown[0].key.as_str(), shown[0].total),
            ("0005000000 (5)", 3)
        );
    }

    #[test]
    fn losers_without_a_key_are_counted() {
        let mut keys = HotKeys::default();
        keys.count(&loser(0, Vec::new()));
        assert_eq!((keys.unknown(), keys.shown(0).len()), (1, 0));
    }
}

//! Contents of the simulated clients' actions.
//!
//! The keys are for certification. The data names the transaction and its rows, for the checkers;
//! every further byte is determined by both, so that swapped or changed bytes are noticed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_certify::{KeySet, KeyType};

/// A row that a transaction changed.
pub(crate) type Row = u16;

/// Number of tables. The table of a row is its number modulo this.
pub(crate) const TABLES: u16 = 3;

/// The data of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Number of the transaction; counts all transactions of the world.
    pub(crate) transaction: u64,
    /// The rows that it writes.
    pub(crate) rows: Vec<Row>,
    /// Number of further bytes, each different from its neighbours.
    pub(crate) filler: usize,
}

impl Content {
    /// The bytes of the action's data.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(10 + 2 * self.rows.len() + self.filler);
        out.put_u64_le(self.transaction);
        out.put_u16_le(self.rows.len() as u16); // a handful
        for row in &self.rows {
            out.put_u16_le(*row);
        }
        out.extend((0..self.filler).map(|at| self.byte(at)));
        out.freeze()
    }

    fn byte(&self, at: usize) -> u8 {
        (self.transaction as usize * 31 + at * 7 + at / 251) as u8 // any byte of it
    }

    /// `None`: these are not the bytes that a client handed over.
    pub(crate) fn decode(mut data: Bytes) -> Option<Content> {
        if data.len() < 10 {
            return None;
        }
        let transaction = data.get_u64_le();
        let count = usize::from(data.get_u16_le());
        if data.len() < 2 * count {
            return None;
        }
        let rows = (0..count).map(|_| data.get_u16_le()).collect();
        let content = Content {
            transaction,
            rows,
            filler: data.len(),
        };
        let whole = data
            .iter()
            .enumerate()
            .all(|(at, b)| *b == content.byte(at));
        whole.then_some(content)
    }
}

/// The keys of changes to these rows: `kind` on the rows, and REFERENCE on their tables.
pub(crate) fn row_keys(rows: &[Row], kind: KeyType) -> KeySet {
    let mut keys = KeySet::new();
    for row in rows {
        let table = (row % TABLES).to_le_bytes();
        keys.append(&[b"db", &table, &row.to_le_bytes()], kind);
    }
    keys
}

/// The keys of a statement that alters a table.
pub(crate) fn table_keys(table: u16) -> KeySet {
    let mut keys = KeySet::new();
    keys.append(
        &[b"db", &(table % TABLES).to_le_bytes()],
        KeyType::Exclusive,
    );
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_decoded_as_it_was_and_damage_is_noticed() {
        let content = Content {
            transaction: 77,
            rows: vec![1, 2, 500],
            filler: 300,
        };
        let data = content.encode();
        assert_eq!(Content::decode(data.clone()), Some(content));
        let mut damaged = data.to_vec();
        damaged[200] ^= 1;
        assert_eq!(Content::decode(damaged.into()), None);
        assert_eq!(Content::decode(data.slice(..9)), None);
        let swapped = [&data[..16], &data[100..], &data[16..100]].concat();
        assert_eq!(Content::decode(swapped.into()), None);
    }
}

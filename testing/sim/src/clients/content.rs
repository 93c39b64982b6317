//! What the simulated clients put into their actions: keys for certification, and, as data, the rows
//! that they write, for the checkers.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_certify::{KeySet, KeyType};

/// A row that a transaction changed.
pub(crate) type Row = u16;

/// Columns of the tables: a row's table is its number modulo this.
pub(crate) const TABLES: u16 = 3;

/// The data of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Counts all transactions of the world.
    pub(crate) transaction: u64,
    pub(crate) rows: Vec<Row>,
    /// So many bytes more, each of them told from its neighbours.
    pub(crate) filler: usize,
}

impl Content {
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
        (self.transaction as usize * 31 + at * 7 + at / 251) as u8 // any of them will do
    }

    /// None: these are not the bytes that a client handed over.
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

/// The keys of changes to these rows: `kind` on the rows, REFERENCE on what is above them.
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
    fn content_comes_back_and_damage_is_noticed() {
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

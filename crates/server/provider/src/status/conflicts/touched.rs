//! Tables that a transaction touched, and the key bytes of its first rows.
//!
//! Keys travel as fingerprints. Only here are their bytes known, while the transaction runs, so the
//! first of them are kept for the case that it loses. Bounded: a transaction that commits has paid
//! for a few copied bytes.

use synod_node::Fingerprint;

pub(super) const TABLES_MAX: usize = 8;
const ROWS_MAX: usize = 16;
const ROW_BYTES_MAX: usize = 1024;
/// Bytes of a key that are shown; its hash tells the rest.
const SHOWN_BYTES_MAX: usize = 24;

/// The tables that a transaction has changed rows of, and the first rows, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    tables: Vec<SchemaAndTable>,
    rows: Vec<Row>,
    /// The last parts of the rows' keys, one after the other.
    row_bytes: Vec<u8>,
}

type SchemaAndTable = (Box<[u8]>, Box<[u8]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    table: usize,
    /// End of its bytes; they begin at the end of the row before.
    end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostKey {
    /// `schema.table`; empty: one of several.
    pub(crate) table: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) what: KeyPart,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPart {
    /// A row, with its key as the server gives it: the ordinal of the index in the table, then the
    /// values.
    Row(Box<[u8]>),
    /// A row whose key was not kept.
    OtherRow,
    /// All that the table, or the schema, has.
    Whole,
}

impl Touched {
    /// A key of the transaction: its first parts are schema and table, a third one is of a row.
    pub(crate) fn touch(&mut self, parts: &[&[u8]]) {
        let [schema, table, rest @ ..] = parts else {
            return;
        };
        let is_same = |known: &SchemaAndTable| *known.0 == **schema && *known.1 == **table;
        // Rows of one table follow each other.
        let known = self.tables.iter().rposition(is_same);
        let at = known.unwrap_or(self.tables.len());
        if at == TABLES_MAX {
            return;
        }
        if known.is_none() {
            self.tables.push(((*schema).into(), (*table).into()));
        }
        if let [row] = rest {
            self.keep_row(at, row);
        }
    }

    fn keep_row(&mut self, table: usize, bytes: &[u8]) {
        let end = self.row_bytes.len() + bytes.len();
        if self.rows.len() < ROWS_MAX && end <= ROW_BYTES_MAX {
            self.row_bytes.extend_from_slice(bytes);
            self.rows.push(Row { table, end });
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.tables.iter().map(name)
    }

    pub(crate) fn describe(&self, keys: &[Fingerprint]) -> Vec<LostKey> {
        let known = self.known();
        let described = keys.iter().map(|fingerprint| {
            let mut found = known.iter().filter(|key| key.fingerprint == *fingerprint);
            found.next().cloned().unwrap_or_else(|| LostKey {
                table: self.only_table(),
                fingerprint: *fingerprint,
                what: KeyPart::OtherRow,
            })
        });
        described.collect()
    }

    fn known(&self) -> Vec<LostKey> {
        let whole = |table: String, parts: &[&[u8]]| LostKey {
            table,
            fingerprint: Fingerprint::of(parts),
            what: KeyPart::Whole,
        };
        let mut known = vec![whole("*.*".to_owned(), &[])];
        for table in &self.tables {
            let (schema, own) = (&*table.0, &*table.1);
            let schema_name = String::from_utf8_lossy(schema);
            known.push(whole(format!("{schema_name}.*"), &[schema]));
            known.push(whole(name(table), &[schema, own]));
        }
        let mut begin = 0;
        for row in &self.rows {
            let bytes = &self.row_bytes[begin..row.end];
            begin = row.end;
            let table = &self.tables[row.table];
            known.push(LostKey {
                table: name(table),
                fingerprint: Fingerprint::of(&[&table.0, &table.1, bytes]),
                what: KeyPart::Row(bytes.into()),
            });
        }
        known
    }

    fn only_table(&self) -> String {
        match &self.tables[..] {
            [only] => name(only),
            _ => String::new(),
        }
    }
}

fn name((schema, table): &SchemaAndTable) -> String {
    let (schema, table) = (
        String::from_utf8_lossy(schema),
        String::from_utf8_lossy(table),
    );
    format!("{schema}.{table}")
}

impl LostKey {
    /// The same for the same key, on all servers and at all times.
    pub(crate) fn hash(&self) -> String {
        // Half of it tells keys apart well enough.
        format!("{:016x}", self.fingerprint.0 >> 64)
    }

    pub(crate) fn hex(&self) -> Option<String> {
        match &self.what {
            KeyPart::Row(bytes) => Some(hex(bytes)),
            KeyPart::OtherRow | KeyPart::Whole => None,
        }
    }

    pub(crate) fn text(&self) -> String {
        match &self.what {
            KeyPart::Whole => "all of it".to_owned(),
            KeyPart::OtherRow => format!("row {}", self.hash()),
            KeyPart::Row(bytes) if bytes.len() > SHOWN_BYTES_MAX => {
                format!("{}... row {}", hex(&bytes[..SHOWN_BYTES_MAX]), self.hash())
            }
            KeyPart::Row(bytes) => match reading(bytes) {
                Some(value) => format!("{} ({value})", hex(bytes)),
                None => hex(bytes),
            },
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A key after the index's ordinal, read as text or one integer. The column types are unknown. A
/// zero byte precedes the value of a nullable column.
fn reading(key: &[u8]) -> Option<String> {
    let (_ordinal, value) = key.split_first()?;
    let not_null = value.strip_prefix(b"\0");
    let text = text(value).or_else(|| text(not_null?));
    text.or_else(|| {
        let value = not_null.filter(|value| matches!(value.len(), 4 | 8));
        integer(value.or(key.get(1..))?).map(|value| value.to_string())
    })
}

/// Letters, digits and signs, as a collation sorts them.
fn text(value: &[u8]) -> Option<String> {
    let is_text = !value.is_empty() && value.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_text.then(|| format!("'{}'", String::from_utf8_lossy(value)))
}

/// The bytes of an integer column, lowest first.
fn integer(value: &[u8]) -> Option<i64> {
    let sign = if value.last()? >> 7 == 1 { 0xff } else { 0 };
    let mut wide = [sign; 8];
    if !matches!(value.len(), 1..=4 | 8) {
        return None;
    }
    wide[..value.len()].copy_from_slice(value);
    Some(i64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(tables: &[&str]) -> Touched {
        let mut touched = Touched::default();
        for table in tables {
            touched.touch(&[b"shop", table.as_bytes(), b"key"]);
        }
        touched
    }

    #[test]
    fn each_table_of_a_transaction_is_kept_once() {
        let tables = touched(&["a", "a", "b", "a"]);
        assert_eq!(tables.names().collect::<Vec<_>>(), ["shop.a", "shop.b"]);
        let mut none = Touched::default();
        none.touch(&[b"shop"]);
        none.touch(&[]);
        assert_eq!(none, Touched::default());
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let many = touched(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.names().count(), TABLES_MAX);
        assert_eq!(many.rows.len(), TABLES_MAX);
    }

    #[test]
    fn keys_are_described_by_what_the_transaction_has_touched() {
        let mut touched = Touched::default();
        touched.touch(&[b"shop", b"stock", b"\0\x0a\0\0\0"]);
        touched.touch(&[b"shop", b"stock", b"\x01abcdef"]);
        let describe = |touched: &Touched, parts: &[&[u8]]| {
            let key = touched.describe(&[Fingerprint::of(parts)]).remove(0);
            (key.table.clone(), key.text(), key.hex())
        };
        let is = |table: &str, text: &str, hex: Option<&str>| {
            (table.to_owned(), text.to_owned(), hex.map(str::to_owned))
        };
        let first = describe(&touched, &[b"shop", b"stock", b"\0\x0a\0\0\0"]);
        assert_eq!(
            first,
            is("shop.stock", "000a000000 (10)", Some("000a000000"))
        );
        let second = describe(&touched, &[b"shop", b"stock", b"\x01abcdef"]);
        assert_eq!(
            second,
            is(
                "shop.stock",
                "01616263646566 ('abcdef')",
                Some("01616263646566")
            )
        );
        let table = describe(&touched, &[b"shop", b"stock"]);
        assert_eq!(table, is("shop.stock", "all of it", None));
        assert_eq!(describe(&touched, &[b"shop"]).0, "shop.*");
        assert_eq!(describe(&touched, &[]).0, "*.*");
        let other = describe(&touched, &[b"shop", b"stock", b"\0\x0b\0\0\0"]);
        assert_eq!(other.0, "shop.stock");
        assert!(
            other.1.starts_with("row ") && other.2.is_none(),
            "{other:?}"
        );
        touched.touch(&[b"shop", b"orders"]);
        let other = describe(&touched, &[b"shop", b"stock", b"\0\x0b\0\0\0"]);
        assert_eq!(other.0, "", "one of two");
    }

    #[test]
    fn kept_bytes_are_bounded_and_the_rest_has_a_hash() {
        let mut touched = Touched::default();
        let long = [7_u8; 400];
        for number in 0..100_u8 {
            let key = [&[number], &long[..]].concat();
            touched.touch(&[b"shop", b"notes", &key]);
        }
        assert!(touched.row_bytes.len() <= ROW_BYTES_MAX && touched.rows.len() == 2);
        let key = [&[1_u8], &long[..]].concat();
        let print = Fingerprint::of(&[b"shop", b"notes", &key]);
        let text = touched.describe(&[print])[0].text();
        assert!(text.len() < 100 && text.contains("... row "), "{text}");
    }

    #[test]
    fn keys_are_read_where_they_may_be_text_or_an_integer() {
        let read = |key: &[u8]| reading(key).unwrap_or_default();
        assert_eq!(read(b"\0\xff\xff\xff\xff"), "-1");
        assert_eq!(read(b"\0\0\x01\0\0\0\0\0\0"), "256");
        assert_eq!(read(b"\x02\x80"), "-128");
        assert_eq!(read(b"\x01\0\x4d\0\0\0\0\0\0\0"), "77", "it may be NULL");
        assert_eq!(read(b"\x02\0ANNA"), "'ANNA'", "it may be NULL");
        assert_eq!(read(b"\x02ANNA"), "'ANNA'");
        for none in [
            &b""[..],
            b"\0",
            b"\0\x01\x02\x03\x04\x05\x06",
            b"\x02\0A\0N\0A",
        ] {
            assert_eq!(reading(none), None, "{none:?}");
        }
    }
}

//! Selects tables and schemas of an upstream.
//!
//! Rows are judged by their table. A statement that changes a schema is judged by the schema that
//! its connection used, as MariaDB's own filters do: the statement's text is not read.

use std::fmt;
use std::str::FromStr;

/// Tables to replicate. The default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these; empty: all.
    pub keep: Vec<TablePattern>,
    /// Not these, even if they are among the former.
    pub ignore: Vec<TablePattern>,
}

impl Filter {
    pub fn keeps_all(&self) -> bool {
        self.keep.is_empty() && self.ignore.is_empty()
    }

    /// Whether changes of rows of this table come.
    pub fn keeps_table(&self, schema: &[u8], table: &[u8]) -> bool {
        let fits = |pattern: &TablePattern| {
            is_like(schema, pattern.schema.as_bytes()) && is_like(table, pattern.table.as_bytes())
        };
        (self.keep.is_empty() || self.keep.iter().any(fits)) && !self.ignore.iter().any(fits)
    }

    /// Whether statements come whose connection used this schema. Those of connections without one
    /// come.
    pub fn keeps_schema(&self, schema: &[u8]) -> bool {
        if schema.is_empty() {
            return true;
        }
        let fits = |pattern: &TablePattern| is_like(schema, pattern.schema.as_bytes());
        let has_all = |pattern: &&TablePattern| pattern.table == "*";
        (self.keep.is_empty() || self.keep.iter().any(fits))
            && !self.ignore.iter().filter(has_all).any(fits)
    }
}

/// Names of tables: `schema.table`, in which `*` stands for any characters. Upper and lower case
/// differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    schema: String,
    table: String,
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no tables: write schema.table or schema.*")]
pub struct TablePatternError(String);

impl FromStr for TablePattern {
    type Err = TablePatternError;

    fn from_str(text: &str) -> Result<TablePattern, TablePatternError> {
        let parts = text.split_once('.');
        let parts = parts.filter(|(schema, table)| !schema.is_empty() && !table.is_empty());
        let (schema, table) = parts.ok_or_else(|| TablePatternError(text.to_owned()))?;
        Ok(TablePattern {
            schema: schema.to_owned(),
            table: table.to_owned(),
        })
    }
}

impl fmt::Display for TablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// Whether a name fits a pattern with stars.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where the newest star is, and how much of the name was left to it.
    let mut star = None;
    while at < name.len() {
        if pattern.get(of) == Some(&b'*') {
            star = Some((of, at));
            of += 1;
        } else if pattern.get(of) == name.get(at) {
            at += 1;
            of += 1;
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            at = taken + 1;
            of = star_at + 1;
        } else {
            return false;
        }
    }
    pattern.iter().skip(of).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<TablePattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn tables_are_kept_unless_ignored() {
        let filter = Filter {
            keep: patterns(&["shop.*", "logs_*.access"]),
            ignore: patterns(&["shop.tmp_*", "logs_test.*"]),
        };
        let keeps =
            |schema: &str, table: &str| filter.keeps_table(schema.as_bytes(), table.as_bytes());
        assert!(keeps("shop", "orders") && keeps("logs_2024", "access"));
        assert!(!keeps("shop", "tmp_1") && !keeps("logs_test", "access"));
        assert!(!keeps("Shop", "orders") && !keeps("logs_2024", "errors"));
        assert!(Filter::default().keeps_table(b"any", b"table"));
    }

    #[test]
    fn statements_are_judged_by_the_schema_in_use() {
        let filter = Filter {
            keep: patterns(&["shop.orders"]),
            ignore: patterns(&["shop.tmp_*", "other.*"]),
        };
        assert!(filter.keeps_schema(b"shop") && filter.keeps_schema(b""));
        assert!(!filter.keeps_schema(b"other") && !filter.keeps_schema(b"else"));
        let without = Filter {
            keep: Vec::new(),
            ignore: patterns(&["a*.*"]),
        };
        assert!(without.keeps_schema(b"b") && !without.keeps_schema(b"abc"));
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (name, pattern, fits) in [
            ("", "*", true),
            ("abc", "a*c", true),
            ("abcbc", "a*bc", true),
            ("abc", "*b", false),
            ("abc", "**c*", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(
                is_like(name.as_bytes(), pattern.as_bytes()),
                fits,
                "{pattern}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["shop", ".t", "shop.", ""] {
            assert!(text.parse::<TablePattern>().is_err(), "{text}");
        }
        let pattern: TablePattern = "a.b.c".parse().unwrap();
        assert_eq!(pattern.to_string(), "a.b.c");
    }
}

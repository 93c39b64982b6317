//! Tables of users, with what a statement that changes one of them has to name.

use std::collections::BTreeMap;

use super::client::{ClientError, SqlClient};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    pub schema: String,
    pub name: String,
    pub engine: String,
    pub bytes: u64,
    pub has_primary_key: bool,
    /// Columns that a statement can fill, in their order, quoted. Only of a table that lacks a
    /// primary key or is of another engine than InnoDB; empty of all others.
    pub columns: Vec<String>,
    /// Its column with `AUTO_INCREMENT`, quoted; of the tables that have `columns`.
    pub auto_increment: Option<String>,
    pub unique_keys: Vec<UniqueKey>,
    /// Triggers and foreign keys, which a copy of the table would not get; of the tables that have
    /// `columns`.
    pub attached: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueKey {
    pub name: String,
    pub columns: Vec<String>,
    /// Whether it identifies each row: none of its columns may be NULL, or is in it by a prefix.
    pub identifies_rows: bool,
    /// Whether the values are found by a hash, in a hidden column.
    pub is_hashed: bool,
}

impl TableFacts {
    /// `schema.name`, quoted as SQL needs it.
    pub fn quoted_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    pub fn replicates(&self) -> bool {
        self.engine.eq_ignore_ascii_case("InnoDB")
    }
}

const TABLES: &str = "\
SELECT t.table_schema, t.table_name, IFNULL(t.engine, ''),
       IFNULL(t.data_length, 0) + IFNULL(t.index_length, 0),
       k.table_name IS NOT NULL
FROM information_schema.tables t
LEFT JOIN (SELECT table_schema, table_name FROM information_schema.statistics
           WHERE index_name = 'PRIMARY' AND seq_in_index = 1) k
  ON k.table_schema = t.table_schema AND k.table_name = t.table_name
WHERE t.table_type = 'BASE TABLE'
  AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";

const UNIQUE_KEYS: &str = "\
SELECT table_schema, table_name, index_name, column_name,
       nullable <> 'YES' AND sub_part IS NULL, index_type = 'HASH'
FROM information_schema.statistics
WHERE non_unique = 0 AND index_name <> 'PRIMARY'
  AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY table_schema, table_name, index_name, seq_in_index";

const COLUMNS: &str = "\
SELECT table_schema, table_name, column_name FROM information_schema.columns
WHERE is_generated = 'NEVER'
  AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY table_schema, table_name, ordinal_position";

const AUTO_INCREMENT: &str = "\
SELECT table_schema, table_name, column_name FROM information_schema.columns
WHERE extra LIKE '%auto_increment%'
  AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";

/// A foreign key belongs to both of its tables.
const ATTACHED: &str = "\
SELECT event_object_schema, event_object_table, CONCAT('trigger ', trigger_name)
FROM information_schema.triggers
UNION ALL
SELECT constraint_schema, table_name, CONCAT('foreign key ', constraint_name)
FROM information_schema.referential_constraints
UNION ALL
SELECT unique_constraint_schema, referenced_table_name,
       CONCAT('foreign key ', constraint_name, ' of ', constraint_schema, '.', table_name)
FROM information_schema.referential_constraints";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceFacts {
    pub name: String,
    /// By how much its numbers rise; zero: by `auto_increment_increment`, from
    /// `auto_increment_offset` on.
    pub increment: i64,
}

const SEQUENCES: &str = "\
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type = 'SEQUENCE' LIMIT 200";

/// Sequences of users, 200 at most: each has to be asked by its name.
pub(super) fn sequences(client: &SqlClient) -> Result<Vec<SequenceFacts>, ClientError> {
    let rows = client.rows(SEQUENCES)?;
    let names = rows.iter().filter_map(|row| match &row[..] {
        [schema, name] => Some(format!("{}.{}", always_quoted(schema), always_quoted(name))),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let increments = names
        .iter()
        .map(|name| format!("SELECT increment FROM {name}"));
    let rows = client.rows(&increments.collect::<Vec<_>>().join(" UNION ALL "))?;
    let increments = rows.into_iter().flatten();
    let found = names.into_iter().zip(increments).map(|(name, increment)| {
        let increment = increment.parse().unwrap_or(0);
        SequenceFacts { name, increment }
    });
    Ok(found.collect())
}

type ByName = BTreeMap<(String, String), TableFacts>;

/// Tables of MySQL, which has other words for what a statement that changes one has to name.
pub(super) fn of_mysql(client: &SqlClient) -> Result<Vec<TableFacts>, ClientError> {
    let rows = client.rows(TABLES)?;
    Ok(rows.iter().filter_map(|row| table(row)).collect())
}

pub(super) fn gather(client: &SqlClient) -> Result<Vec<TableFacts>, ClientError> {
    let rows = client.rows(TABLES)?;
    let found = rows.iter().filter_map(|row| table(row));
    let mut tables: ByName = found
        .map(|table| ((table.schema.clone(), table.name.clone()), table))
        .collect();
    for row in client.rows(UNIQUE_KEYS)? {
        add_unique_key(&mut tables, &row);
    }
    if tables.values().any(needs_more) {
        add_words(&mut tables, client.rows(COLUMNS)?, |table, column| {
            table.columns.push(always_quoted(&column));
        });
        let auto_increment = client.rows(AUTO_INCREMENT)?;
        add_words(&mut tables, auto_increment, |table, column| {
            table.auto_increment = Some(always_quoted(&column));
        });
        add_words(&mut tables, client.rows(ATTACHED)?, |table, what| {
            table.attached.push(what);
        });
    }
    Ok(tables.into_values().collect())
}

/// Whether a statement will be proposed that changes the table.
fn needs_more(table: &TableFacts) -> bool {
    !table.replicates() || !table.has_primary_key
}

fn table(row: &[String]) -> Option<TableFacts> {
    let [schema, name, engine, bytes, has_primary_key] = row else {
        return None;
    };
    Some(TableFacts {
        schema: schema.clone(),
        name: name.clone(),
        engine: engine.clone(),
        bytes: bytes.parse().unwrap_or(0),
        has_primary_key: has_primary_key == "1",
        ..TableFacts::default()
    })
}

/// One column of a unique key; a key's columns come one after the other.
fn add_unique_key(tables: &mut ByName, row: &[String]) {
    let [schema, table, name, column, is_whole_and_set, is_hashed] = row else {
        return;
    };
    let Some(table) = tables.get_mut(&(schema.clone(), table.clone())) else {
        return;
    };
    if table
        .unique_keys
        .last()
        .is_none_or(|last| last.name != *name)
    {
        table.unique_keys.push(UniqueKey {
            name: name.clone(),
            identifies_rows: true,
            is_hashed: is_hashed == "1",
            ..UniqueKey::default()
        });
    }
    if let Some(key) = table.unique_keys.last_mut() {
        key.columns.push(always_quoted(column));
        key.identifies_rows &= is_whole_and_set == "1";
    }
}

fn add_words(tables: &mut ByName, rows: Vec<Vec<String>>, add: impl Fn(&mut TableFacts, String)) {
    for row in rows {
        if let Ok([schema, table, word]) = <[String; 3]>::try_from(row)
            && let Some(table) = tables.get_mut(&(schema, table))
            && needs_more(table)
        {
            add(table, word);
        }
    }
}

/// A name between backquotes, for it may be a word of SQL.
fn always_quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A name as SQL needs it behind a dot, where words of SQL are names, too.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let has_letter = name.chars().any(|char| !char.is_ascii_digit());
    if has_letter && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        always_quoted(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        let table = table(&row(["my-app", "t`1", "InnoDB", "16384", "1"])).unwrap();
        assert_eq!(table.quoted_name(), "`my-app`.`t``1`");
        assert_eq!((table.bytes, table.has_primary_key), (16384, true));
        assert_eq!(
            (quoted("orders_2"), quoted("2024")),
            ("orders_2".into(), "`2024`".into())
        );
    }

    #[test]
    fn unique_key_identifies_rows_if_all_of_its_columns_do() {
        let found = table(&row(["shop", "t", "InnoDB", "0", "0"])).unwrap();
        let name = ("shop".to_owned(), "t".to_owned());
        let mut tables = ByName::from([(name.clone(), found)]);
        for [key, column, is_set, is_hashed] in [
            ["a", "a", "1", "0"],
            ["ab", "a", "1", "0"],
            ["ab", "b", "0", "0"],
            ["long", "text", "1", "1"],
        ] {
            let cells = ["shop", "t", key, column, is_set, is_hashed];
            add_unique_key(&mut tables, &row(cells));
        }
        add_unique_key(&mut tables, &row(["shop", "view", "k", "a", "1", "0"]));
        let keys = tables[&name].unique_keys.iter();
        let found = keys.map(|key| {
            let columns = key.columns.join(",");
            (columns, key.identifies_rows, key.is_hashed)
        });
        let expected = [
            ("`a`", true, false),
            ("`a`,`b`", false, false),
            ("`text`", true, true),
        ];
        let expected = expected.map(|(columns, is, hashed)| (columns.to_owned(), is, hashed));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

//! Statements that give a table another engine, or a primary key.
//!
//! One `ALTER TABLE` does it on a server alone. In a group, and between a primary and its replicas,
//! the same statement does something else on each server: it works on the rows that are there, in
//! the order in which they lie there. A table that does not replicate has other rows on each
//! server, or none; rows without a primary key lie in another order on each. So there the rows are
//! copied into an empty table, which is made alike everywhere, and the copies replicate as rows.

use crate::facts::{ServerFacts, TableFacts, quoted};

/// Engines whose tables can be made again as tables of InnoDB, and hold their rows themselves.
const COPIED: [&str; 5] = ["MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE"];

/// Copied with one statement, a larger table becomes one transaction that others wait for.
const LARGE_BYTES: u64 = 64 << 20;

/// Ends of the names of a table's copy, and of the table that was replaced by it.
const NEW: &str = "_synod_new";
const OLD: &str = "_synod_old";

const NAME_MAX: usize = 64;

pub(super) fn to_innodb(server: &ServerFacts, table: &TableFacts) -> String {
    if !server.replicates() {
        return format!("ALTER TABLE {} ENGINE = InnoDB;", table.quoted_name());
    }
    let is_copied = COPIED
        .iter()
        .any(|engine| table.engine.eq_ignore_ascii_case(engine));
    if !is_copied {
        return "make a table of InnoDB with the same columns, and INSERT INTO it what a SELECT \
                from this one shows. No ALTER TABLE of this one: it would run on each server, \
                with the rows that are there"
            .to_owned();
    }
    let mut change = "ENGINE = InnoDB".to_owned();
    if !table.has_primary_key {
        change = format!("{change}, {}", new_key(table));
    }
    replacement(server, table, &change)
}

/// A key of columns that are there says the same on each server: it needs no copy.
pub(super) fn to_primary_key(server: &ServerFacts, table: &TableFacts) -> String {
    let is_alone = !server.replicates() && !server.is_replica() && !has_binlog(server);
    if let Some(columns) = identifying(table) {
        let name = table.quoted_name();
        return format!("ALTER TABLE {name} ADD PRIMARY KEY ({columns});");
    }
    if let Some(column) = &table.auto_increment {
        return format!(
            "ALTER TABLE {} ADD PRIMARY KEY ({column});  -- fails, and changes nothing, if values \
             of {column} are there twice",
            table.quoted_name()
        );
    }
    if is_alone {
        return format!(
            "ALTER TABLE {} {};  -- or make a unique column its primary key",
            table.quoted_name(),
            new_key(table)
        );
    }
    replacement(server, table, &new_key(table))
}

fn has_binlog(server: &ServerFacts) -> bool {
    server.variable("log_bin") == "ON"
}

/// The columns of a unique key that identifies each row: alike on all servers.
fn identifying(table: &TableFacts) -> Option<String> {
    let mut keys = table.unique_keys.iter();
    let key = keys.find(|key| key.identifies_rows && !key.is_hashed)?;
    Some(key.columns.join(", "))
}

/// A part of an `ALTER TABLE` that adds a primary key.
fn new_key(table: &TableFacts) -> String {
    if let Some(columns) = identifying(table) {
        return format!("ADD PRIMARY KEY ({columns})");
    }
    if let Some(column) = &table.auto_increment {
        return format!("ADD PRIMARY KEY ({column})");
    }
    let is_taken = |name: &&str| {
        let name = format!("`{name}`");
        table
            .columns
            .iter()
            .any(|column| column.eq_ignore_ascii_case(&name))
    };
    let names = ["id", "row_id", "synod_row_id"];
    let name = names
        .into_iter()
        .find(|name| !is_taken(name))
        .unwrap_or("synod_row_number");
    format!("ADD COLUMN {name} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST")
}

/// A changed empty table that gets the rows of this one, and then its name.
fn replacement(server: &ServerFacts, table: &TableFacts, change: &str) -> String {
    let name = table.quoted_name();
    if table.name.ends_with(OLD) {
        return format!(
            "it is what another table has replaced: when each server shows all rows of that one, \
             DROP TABLE {name}"
        );
    }
    if !table.attached.is_empty() {
        return format!(
            "a copy of the table would lack what belongs to it ({}). Note how these were made, \
             drop them, run synod doctor again, which then says with which statements the table is \
             replaced, and make them again for the new table",
            table.attached.join(", ")
        );
    }
    let beside = |suffix: &str| {
        let kept: String = table.name.chars().take(NAME_MAX - suffix.len()).collect();
        format!(
            "{}.{}",
            quoted(&table.schema),
            quoted(&format!("{kept}{suffix}"))
        )
    };
    let (new, old) = (beside(NEW), beside(OLD));
    let columns = table.columns.join(", ");
    let mut lines = vec![
        format!(
            "-- on the server that has the right rows, while nothing writes {name}; stop at an error:"
        ),
        format!("CREATE TABLE {new} LIKE {name};"),
        format!("ALTER TABLE {new} {change};"),
    ];
    lines.extend(session(server, table).map(str::to_owned));
    lines.extend([
        format!(
            "SET STATEMENT sql_mode = 'NO_AUTO_VALUE_ON_ZERO' FOR INSERT INTO {new} ({columns}) \
             SELECT {columns} FROM {name};"
        ),
        format!("RENAME TABLE {name} TO {old}, {new} TO {name};"),
        format!("-- when each server shows all rows: DROP TABLE {old}"),
    ]);
    lines.join("\n")
}

/// Session settings with which the copies travel as rows, and no other transaction waits long.
fn session(server: &ServerFacts, table: &TableFacts) -> Option<&'static str> {
    if !server.replicates() {
        return Some("SET SESSION binlog_format = 'ROW';");
    }
    (table.bytes > LARGE_BYTES).then_some(
        "SET SESSION wsrep_trx_fragment_unit = 'bytes', SESSION wsrep_trx_fragment_size = 8388608;",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::UniqueKey;

    fn member() -> ServerFacts {
        let variables = [
            ("wsrep_on", "ON"),
            ("wsrep_provider", "/usr/lib/libsynod.so"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ServerFacts {
            variables: variables.into(),
            ..ServerFacts::default()
        }
    }

    fn table(engine: &str) -> TableFacts {
        TableFacts {
            schema: "shop".to_owned(),
            name: "t".to_owned(),
            engine: engine.to_owned(),
            columns: vec!["`a`".to_owned(), "`key`".to_owned()],
            ..TableFacts::default()
        }
    }

    #[test]
    fn table_of_a_group_is_replaced_by_a_copy() {
        let statements = to_innodb(&member(), &table("MyISAM"));
        let lines: Vec<&str> = statements.lines().collect();
        let expected = [
            "-- on the server that has the right rows, while nothing writes shop.t; stop at an \
             error:",
            "CREATE TABLE shop.t_synod_new LIKE shop.t;",
            "ALTER TABLE shop.t_synod_new ENGINE = InnoDB, ADD COLUMN id BIGINT UNSIGNED NOT NULL \
             AUTO_INCREMENT PRIMARY KEY FIRST;",
            "SET STATEMENT sql_mode = 'NO_AUTO_VALUE_ON_ZERO' FOR INSERT INTO shop.t_synod_new \
             (`a`, `key`) SELECT `a`, `key` FROM shop.t;",
            "RENAME TABLE shop.t TO shop.t_synod_old, shop.t_synod_new TO shop.t;",
            "-- when each server shows all rows: DROP TABLE shop.t_synod_old",
        ];
        assert_eq!(lines, expected);
        let statements = to_primary_key(&member(), &table("InnoDB"));
        assert!(statements.contains("LIKE shop.t;") && !statements.contains("ENGINE"));
    }

    #[test]
    fn one_statement_does_on_a_server_alone() {
        let alone = ServerFacts::default();
        let statement = to_innodb(&alone, &table("MyISAM"));
        assert_eq!(statement, "ALTER TABLE shop.t ENGINE = InnoDB;");
        let statement = to_primary_key(&alone, &table("InnoDB"));
        assert!(statement.starts_with("ALTER TABLE shop.t ADD COLUMN id"));
    }

    /// Its replicas would number the rows in their own order.
    #[test]
    fn rows_of_a_primary_are_numbered_once() {
        let mut primary = ServerFacts::default();
        let log = ("log_bin".to_owned(), "ON".to_owned());
        primary.variables.extend([log]);
        let statements = to_primary_key(&primary, &table("InnoDB"));
        assert!(
            statements.contains("INSERT INTO shop.t_synod_new"),
            "{statements}"
        );
    }

    #[test]
    fn unique_key_becomes_the_primary_key_if_it_identifies_rows() {
        let key = UniqueKey {
            columns: vec!["`a`".to_owned(), "`key`".to_owned()],
            identifies_rows: true,
            ..UniqueKey::default()
        };
        let mut with_key = table("InnoDB");
        with_key.unique_keys.push(key);
        let statement = to_primary_key(&member(), &with_key);
        assert_eq!(
            statement,
            "ALTER TABLE shop.t ADD PRIMARY KEY (`a`, `key`);"
        );
        for spoil in [
            |key: &mut UniqueKey| key.identifies_rows = false,
            |key: &mut UniqueKey| key.is_hashed = true,
        ] {
            let mut spoiled = with_key.clone();
            spoil(&mut spoiled.unique_keys[0]);
            let statement = to_primary_key(&member(), &spoiled);
            assert!(statement.contains("_synod_new"), "{statement}");
        }
    }

    /// A table has one such column only.
    #[test]
    fn counted_column_becomes_the_primary_key() {
        let mut counted = table("InnoDB");
        counted.auto_increment = Some("`a`".to_owned());
        let statement = to_primary_key(&member(), &counted);
        assert!(statement.starts_with("ALTER TABLE shop.t ADD PRIMARY KEY (`a`);"));
        counted.engine = "MyISAM".to_owned();
        let statements = to_innodb(&member(), &counted);
        assert!(
            statements.contains("ENGINE = InnoDB, ADD PRIMARY KEY (`a`);"),
            "{statements}"
        );
    }

    #[test]
    fn what_a_copy_would_lack_is_named_and_nothing_is_proposed() {
        let mut with_trigger = table("InnoDB");
        with_trigger.attached.push("trigger stamp".to_owned());
        let remedy = to_primary_key(&member(), &with_trigger);
        assert!(
            remedy.contains("(trigger stamp)") && !remedy.contains("TABLE shop"),
            "{remedy}"
        );
        let elsewhere = to_innodb(&member(), &table("MRG_MyISAM"));
        assert!(!elsewhere.contains(';'), "{elsewhere}");
    }

    #[test]
    fn replaced_table_is_not_replaced_again() {
        let mut old = table("MyISAM");
        old.name = "t_synod_old".to_owned();
        let remedy = to_innodb(&member(), &old);
        assert!(remedy.ends_with("DROP TABLE shop.t_synod_old"), "{remedy}");
    }

    #[test]
    fn names_of_new_tables_and_columns_fit() {
        let mut long = table("MyISAM");
        long.name = "n".repeat(64);
        long.columns.push("`ID`".to_owned());
        let statements = to_innodb(&member(), &long);
        let kept = "n".repeat(54);
        assert!(
            statements.contains(&format!("shop.{kept}_synod_new ")),
            "{statements}"
        );
        assert!(statements.contains("ADD COLUMN row_id "), "{statements}");
    }
}

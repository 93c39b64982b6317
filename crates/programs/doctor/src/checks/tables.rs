//! Engines and primary keys of tables.

use crate::bytes_text;
use crate::facts::{ServerFacts, TableFacts, UniqueKey};
use crate::finding::{Finding, Severity, Subject};

use super::table_remedy as remedy;

/// Tables without data of their own: what they show lies elsewhere.
fn holds_rows(table: &TableFacts) -> bool {
    const WITHOUT_ROWS: [&str; 5] = [
        "",
        "BLACKHOLE",
        "SEQUENCE",
        "FEDERATED",
        "PERFORMANCE_SCHEMA",
    ];
    !WITHOUT_ROWS
        .iter()
        .any(|engine| table.engine.eq_ignore_ascii_case(engine))
}

pub(super) fn judge(server: &ServerFacts) -> Vec<Finding> {
    let tables = &server.tables;
    let foreign = tables
        .iter()
        .filter(|table| holds_rows(table) && !table.replicates());
    let engines = foreign.map(|table| other_engine(server, table));
    let keyless = tables
        .iter()
        .filter(|table| table.replicates() && !table.has_primary_key);
    let keys = keyless.map(|table| no_primary_key(server, table));
    let hashed = tables.iter().filter(|table| table.replicates());
    let hashed = hashed.flat_map(|table| {
        let keys = table.unique_keys.iter().filter(|key| key.is_hashed);
        keys.map(|key| hashed_key(table, key))
    });
    let mut findings: Vec<Finding> = engines.chain(keys).chain(hashed).collect();
    if findings.is_empty() {
        let bytes = tables.iter().map(|table| table.bytes).sum();
        let text = format!(
            "{} tables ({}): all replicate, and have primary keys",
            tables.len(),
            bytes_text(bytes)
        );
        findings.push(Finding::good(Subject::Tables, text));
    }
    findings
}

fn other_engine(server: &ServerFacts, table: &TableFacts) -> Finding {
    if server.is_mysql() {
        let name = table.quoted_name();
        return refused_by_mysql(
            format!("{name} is of engine {}", table.engine),
            "other engines cannot roll back",
            format!("ALTER TABLE {name} ENGINE = InnoDB"),
        );
    }
    Finding::new(
        Subject::Tables,
        Severity::Problem,
        format!(
            "{} ({}) is of engine {}",
            table.quoted_name(),
            bytes_text(table.bytes),
            table.engine
        ),
        "only InnoDB replicates: changes of this table stay on the server that makes them",
        remedy::to_innodb(server, table),
    )
}

fn no_primary_key(server: &ServerFacts, table: &TableFacts) -> Finding {
    if server.is_mysql() {
        let name = table.quoted_name();
        return refused_by_mysql(
            format!("{name} has no primary key"),
            "other servers find rows by it",
            format!(
                "ALTER TABLE {name} ADD COLUMN my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT \
                 INVISIBLE PRIMARY KEY"
            ),
        );
    }
    Finding::new(
        Subject::Tables,
        Severity::Warning,
        format!(
            "{} ({}) has no primary key",
            table.quoted_name(),
            bytes_text(table.bytes)
        ),
        "the other servers read the whole table for each row that is changed or deleted, and the \
         same rows may come in another order there",
        remedy::to_primary_key(server, table),
    )
}

fn refused_by_mysql(what: String, why: &str, remedy: String) -> Finding {
    Finding::new(
        Subject::Tables,
        Severity::Problem,
        what,
        format!("a group of MySQL refuses writes to it (error 3098): {why}"),
        remedy,
    )
}

/// A unique key whose values are found by a hash in a hidden column.
fn hashed_key(table: &TableFacts, key: &UniqueKey) -> Finding {
    Finding::new(
        Subject::Tables,
        Severity::Warning,
        format!(
            "the unique key {} of {} is a hash",
            key.name,
            table.quoted_name()
        ),
        "servers apply in parallel what they take for changes of different rows. If a value of \
         this key is deleted and inserted again, they may do it in the wrong order: the server \
         refuses a duplicate, and leaves the group",
        "a unique key over a shorter column, or over a stored column that is computed from it \
         (MD5, for instance), without USING HASH. compatibility.md, \"Limits of the server\"",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(tables: &[(&str, bool)]) -> Vec<(Severity, String)> {
        let tables = tables.iter().map(|(engine, has_primary_key)| TableFacts {
            schema: "shop".to_owned(),
            name: "t".to_owned(),
            engine: engine.to_string(),
            bytes: 2048,
            has_primary_key: *has_primary_key,
            ..TableFacts::default()
        });
        let server = ServerFacts {
            tables: tables.collect(),
            ..ServerFacts::default()
        };
        let found = judge(&server).into_iter();
        found
            .map(|finding| (finding.severity, finding.remedy))
            .collect()
    }

    #[test]
    fn table_that_does_not_replicate_gets_the_statement_that_changes_it() {
        let found = judged(&[("MyISAM", true), ("InnoDB", true), ("SEQUENCE", false)]);
        let statement = "ALTER TABLE shop.t ENGINE = InnoDB;".to_owned();
        assert_eq!(found, [(Severity::Problem, statement)]);
    }

    #[test]
    fn table_without_a_primary_key_is_a_warning() {
        let found = judged(&[("InnoDB", false)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Severity::Warning);
        assert_eq!(judged(&[("InnoDB", true)])[0].0, Severity::Good);
    }

    #[test]
    fn unique_key_by_a_hash_is_a_warning() {
        let key = UniqueKey {
            name: "long".to_owned(),
            is_hashed: true,
            ..UniqueKey::default()
        };
        let found = |engine: &str| {
            let table = TableFacts {
                engine: engine.to_owned(),
                has_primary_key: true,
                unique_keys: vec![key.clone()],
                ..TableFacts::default()
            };
            let server = ServerFacts {
                tables: vec![table],
                ..ServerFacts::default()
            };
            judge(&server).remove(0)
        };
        let hashed = found("InnoDB");
        assert_eq!(hashed.severity, Severity::Warning);
        assert!(
            hashed.what.starts_with("the unique key long of"),
            "{hashed:?}"
        );
        assert!(
            found("MEMORY").what.contains("of engine MEMORY"),
            "its own kind of key"
        );
    }
}

//! Engines and primary keys of tables.

use crate::bytes_text;
use crate::facts::{ServerFacts, TableFacts};
use crate::finding::{Finding, Severity, Subject};

/// Engines whose rows replicate.
fn replicates(table: &TableFacts) -> bool {
    table.engine.eq_ignore_ascii_case("InnoDB")
}

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
        .filter(|table| holds_rows(table) && !replicates(table));
    let engines = foreign.map(other_engine);
    let keyless = tables
        .iter()
        .filter(|table| replicates(table) && !table.has_primary_key);
    let keys = keyless.map(no_primary_key);
    let mut findings: Vec<Finding> = engines.chain(keys).collect();
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

fn other_engine(table: &TableFacts) -> Finding {
    let (name, bytes) = (&table.name, bytes_text(table.bytes));
    Finding::new(
        Subject::Tables,
        Severity::Problem,
        format!("{name} ({bytes}) is of engine {}", table.engine),
        "only InnoDB replicates: changes of this table stay on the server that makes them",
        format!("ALTER TABLE {name} ENGINE = InnoDB;"),
    )
}

fn no_primary_key(table: &TableFacts) -> Finding {
    let (name, bytes) = (&table.name, bytes_text(table.bytes));
    Finding::new(
        Subject::Tables,
        Severity::Warning,
        format!("{name} ({bytes}) has no primary key"),
        "the other servers read the whole table for each row that is changed or deleted, and the \
         same rows may come in another order there",
        format!(
            "ALTER TABLE {name} ADD COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY \
             FIRST;  -- or make a unique column its primary key"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(tables: &[(&str, bool)]) -> Vec<(Severity, String)> {
        let tables = tables.iter().map(|(engine, has_primary_key)| TableFacts {
            name: "shop.t".to_owned(),
            engine: engine.to_string(),
            bytes: 2048,
            has_primary_key: *has_primary_key,
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
}

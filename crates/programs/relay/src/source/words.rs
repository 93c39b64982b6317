//! The words that a statement begins with, as far as it matters whether it failed. Nothing here is
//! a parser of SQL: a statement that begins with other words than those here is not understood, and
//! never passed on unless it succeeded.

use synod_binlog::words::words;

/// Clause that makes a statement harmless, and where to insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// Bytes of the statement before it.
    pub(super) at: usize,
    /// Text to insert.
    pub(super) text: &'static str,
}

/// The work that a failed statement may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfFailed {
    Nothing,
    /// A part: it names several objects, or replaces one. It makes no table.
    Part,
}

/// The work that this statement may have done if it has failed; none: its words are not known.
pub(super) fn if_failed(statement: &str) -> Option<IfFailed> {
    const WAYS: [&str; 3] = ["TEMPORARY", "ONLINE", "UNIQUE"];
    let words = words(statement).map(|(word, _)| word);
    let mut words = words.filter(|word| !WAYS.contains(&word.as_str()));
    let first = words.next().unwrap_or_default();
    let object = words.next().unwrap_or_default();
    let replaces = object == "OR" || object == "REPLACE";
    match (first.as_str(), object.as_str()) {
        ("CREATE" | "ALTER" | "RENAME", "USER" | "ROLE") => Some(IfFailed::Part),
        ("CREATE", _) if replaces => Some(IfFailed::Part),
        ("CREATE" | "ALTER" | "RENAME" | "TRUNCATE", _) => Some(IfFailed::Nothing),
        ("DROP", "DATABASE" | "SCHEMA") => Some(IfFailed::Part),
        ("DROP", _) if statement.contains(',') => Some(IfFailed::Part),
        ("DROP", _) => Some(IfFailed::Nothing),
        ("GRANT" | "REVOKE" | "INSTALL" | "UNINSTALL", _) => Some(IfFailed::Part),
        ("ANALYZE" | "CACHE" | "CHECK" | "FLUSH" | "OPTIMIZE" | "REPAIR", _) => {
            Some(IfFailed::Part)
        }
        ("SET", "PASSWORD" | "DEFAULT") => Some(IfFailed::Part),
        _ => None,
    }
}

/// The condition with which a statement that makes a table or a sequence leaves one alone that is
/// there; none if it is no such statement, or says itself what to do then.
pub(super) fn create_if_missing(statement: &str) -> Option<Condition> {
    condition_after(statement, "CREATE", " IF NOT EXISTS")
}

/// The condition with which a statement that drops tables, views or sequences passes over those
/// that are not there; none if it is no such statement, or does that itself.
pub(super) fn drop_if_there(statement: &str) -> Option<Condition> {
    condition_after(statement, "DROP", " IF EXISTS")
}

/// The condition `text` for a statement that begins with this verb and a kind of object.
fn condition_after(statement: &str, verb: &str, text: &'static str) -> Option<Condition> {
    let mut words = words(statement);
    words.next().filter(|(word, _)| word == verb)?;
    let (mut object, mut end) = words.next()?;
    if object == "TEMPORARY" {
        (object, end) = words.next()?;
    }
    let is_table = ["TABLE", "TABLES", "SEQUENCE", "VIEW"].contains(&object.as_str());
    let has_condition = words.next().is_some_and(|(word, _)| word == "IF");
    (is_table && !has_condition).then_some(Condition { at: end, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use synod_binlog::words::text_of;

    fn with(statement: &str, condition: Condition) -> String {
        let mut text = statement.to_owned();
        text.insert_str(condition.at, condition.text);
        text
    }

    #[test]
    fn tables_are_made_only_if_they_are_missing() {
        let table = [
            (
                "CREATE TABLE t (a INT)",
                Some("CREATE TABLE IF NOT EXISTS t (a INT)"),
            ),
            (
                "create table`t`(a INT)",
                Some("create table IF NOT EXISTS`t`(a INT)"),
            ),
            (
                "/* mine */ create\n  temporary table t LIKE u",
                Some("/* mine */ create\n  temporary table IF NOT EXISTS t LIKE u"),
            ),
            (
                "CREATE /*!40000 TABLE */ t (a INT)",
                Some("CREATE /*!40000 TABLE IF NOT EXISTS */ t (a INT)"),
            ),
            ("CREATE SEQUENCE s", Some("CREATE SEQUENCE IF NOT EXISTS s")),
            ("CREATE TABLE IF NOT EXISTS t (a INT)", None),
            ("CREATE OR REPLACE TABLE t (a INT)", None),
            (
                "--\n-- Table t\n--\tby a tool\n--\nCREATE TABLE t (a INT)",
                Some("--\n-- Table t\n--\tby a tool\n--\nCREATE TABLE IF NOT EXISTS t (a INT)"),
            ),
            (
                "SET STATEMENT a = 'x\\' FOR', b = 1 FOR set statement c = 1 for \
                 CREATE TABLE t (a INT)",
                Some(
                    "SET STATEMENT a = 'x\\' FOR', b = 1 FOR set statement c = 1 for \
                     CREATE TABLE IF NOT EXISTS t (a INT)",
                ),
            ),
            ("CREATE DATABASE d", None),
            ("ALTER TABLE t ADD b INT", None),
            ("", None),
        ];
        for (statement, expected) in table {
            let found = create_if_missing(statement).map(|condition| with(statement, condition));
            assert_eq!(found.as_deref(), expected, "{statement}");
        }
    }

    #[test]
    fn tables_are_dropped_only_if_they_are_there() {
        let drop = "DROP TABLE a, b";
        let found = drop_if_there(drop).unwrap();
        assert_eq!(with(drop, found), "DROP TABLE IF EXISTS a, b");
        assert_eq!(drop_if_there("drop view if exists a, b"), None);
        assert_eq!(drop_if_there("DROP USER a, b"), None);
    }

    #[test]
    fn statements_about_several_objects_may_have_done_a_part() {
        for whole in [
            "CREATE TABLE t (a INT, b INT)",
            "create unique index i ON t (a, b)",
            "ALTER TABLE t ADD a INT, ADD b INT",
            "RENAME TABLE a TO b, c TO d",
            "-- a comment\nDROP TABLE t",
            "--\nDROP TABLE t",
            "SET STATEMENT lock_wait_timeout = 5 FOR CREATE TABLE t (a INT)",
            "TRUNCATE t",
        ] {
            assert_eq!(if_failed(whole), Some(IfFailed::Nothing), "{whole}");
        }
        for part in [
            "DROP TABLE a, b",
            "DROP DATABASE d",
            "CREATE USER a, b",
            "CREATE OR REPLACE USER a, b",
            "CREATE OR REPLACE TABLE t (a INT, a INT)",
            "GRANT SELECT ON *.* TO a, b",
            "REVOKE ALL ON *.* FROM a",
            "SET PASSWORD FOR a = ''",
            "SET STATEMENT lock_wait_timeout = 5 FOR DROP TABLE a, b",
            "FLUSH TABLES",
        ] {
            assert_eq!(if_failed(part), Some(IfFailed::Part), "{part}");
        }
    }

    #[test]
    fn what_begins_with_other_words_is_not_understood() {
        for other in [
            "",
            "--CREATE TABLE t (a INT)",
            "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT)'",
            "BEGIN NOT ATOMIC CREATE TABLE t (a INT); END",
            "SET STATEMENT a = 1",
            "SET STATEMENT a = 'x FOR CREATE TABLE t (a INT)",
            "SET a = 1",
            "(CREATE TABLE t (a INT))",
            "WITH x AS (SELECT 1) CREATE TABLE t (a INT)",
        ] {
            assert_eq!(if_failed(other), None, "{other}");
            assert_eq!(create_if_missing(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn made_up_statements_never_panic(
            begin in prop_oneof![
                Just("CREATE TABLE"), Just("DROP "), Just("/*"), Just("SET STATEMENT '"), Just("")
            ],
            rest in "\\PC{0,40}",
        ) {
            let statement = text_of(format!("{begin}{rest}").as_bytes());
            let _ = if_failed(&statement);
            for condition in [create_if_missing(&statement), drop_if_there(&statement)] {
                prop_assert!(condition.is_none_or(|found| found.at <= statement.len()));
            }
        }
    }
}

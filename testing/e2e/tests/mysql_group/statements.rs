//! Statements of clients in a group of MySQL: what is refused, and by which error; a large
//! transaction; changes of definitions.

use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::{READ_ONLY, REFUSED};
use synod_e2e::mysql_group::{MysqlGroup, others};
use synod_e2e::mysql_server::MysqlServer;
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

const PORT: u16 = 19640;
/// The error of a statement whose table has no primary key, or is not of InnoDB.
const BAD_TABLE: u16 = 3098;
/// Rows of the large transaction, of a million bytes each.
const LARGE_ROWS: u32 = 100;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn statements_are_refused_by_their_errors_or_are_the_same_on_all_servers() -> Outcome {
    let group = MysqlGroup::new("statements", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&["CREATE DATABASE e2e"])?;
    refused(&group, writer).why("refusals")?;
    definitions(&group, writer).why("definitions")?;
    events(&group, writer).why("events")?;
    large(&group, writer).why("a large transaction")
}

fn refused(group: &MysqlGroup, writer: usize) -> Outcome {
    let server = &group.servers[writer];
    server.execute(&[
        "CREATE TABLE e2e.keyless (a INT)",
        "CREATE TABLE e2e.other_engine (a INT PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE e2e.good (a INT PRIMARY KEY)",
        "INSERT INTO e2e.good VALUES (1)",
    ])?;
    group.await_same_position()?;
    let replica = &group.servers[others(writer)[0]];
    for (server, sql, code) in [
        (server, "INSERT INTO e2e.keyless VALUES (1)", BAD_TABLE),
        (server, "INSERT INTO e2e.other_engine VALUES (1)", BAD_TABLE),
        (replica, "INSERT INTO e2e.good VALUES (2)", READ_ONLY),
    ] {
        let answer = error_of(server, &[sql])?;
        ensure(answer == Some(code), || {
            format!("{sql}: {answer:?}, not {code}")
        })?;
    }
    let xa = [
        "XA START 'x'",
        "INSERT INTO e2e.good VALUES (3)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ];
    let answer = error_of(server, &xa)?;
    ensure(answer == Some(REFUSED), || {
        format!("XA PREPARE: {answer:?}, not {REFUSED}")
    })?;
    let prepared = server.rows("XA RECOVER")?;
    ensure(prepared.is_empty(), || {
        format!("a refused XA is prepared: {prepared:?}")
    })?;
    let rows = group.same_rows("SELECT 'keyless', COUNT(*) FROM e2e.keyless UNION ALL \
        SELECT 'other', COUNT(*) FROM e2e.other_engine UNION ALL SELECT 'good', MAX(a) FROM e2e.good")?;
    ensure(rows == ["keyless\t0", "other\t0", "good\t1"], || {
        format!("{rows:?}")
    })
}

/// Error by which one of these statements ends, by one connection.
pub(crate) fn error_of(server: &MysqlServer, statements: &[&str]) -> Outcome<Option<u16>> {
    let mut connection = server.connect()?;
    for sql in statements {
        match connection.query_drop(sql) {
            Ok(()) => {}
            Err(mysql::Error::MySqlError(error)) => return Ok(Some(error.code)),
            Err(error) => return Err(error).why(sql),
        }
    }
    Ok(None)
}

/// The server's event scheduler drops an event that has ended, and runs others, in threads of its
/// own.
fn events(group: &MysqlGroup, writer: usize) -> Outcome {
    group.servers[writer].execute(&[
        "SET GLOBAL event_scheduler = OFF",
        "CREATE EVENT e2e.ended ON SCHEDULE EVERY 1 SECOND ENDS NOW() + INTERVAL 1 SECOND DO DO 1",
        "CREATE EVENT e2e.once ON SCHEDULE AT NOW() + INTERVAL 2 SECOND \
         DO INSERT INTO e2e.good VALUES (7)",
        "DO SLEEP(1.1)",
        "SET GLOBAL event_scheduler = ON",
    ])?;
    let state = "SELECT (SELECT COUNT(*) FROM information_schema.events), \
        (SELECT COUNT(*) FROM e2e.good WHERE a = 7)";
    let server = &group.servers[writer];
    let done = || (server.rows(state).ok()? == ["0\t1"]).then_some(());
    ensure(wait_for(Duration::from_secs(30), done).is_some(), || {
        format!("{:?}", server.rows(state))
    })?;
    let rows = group.same_rows(state)?;
    ensure(rows == ["0\t1"], || format!("{rows:?}"))
}

fn definitions(group: &MysqlGroup, writer: usize) -> Outcome {
    group.servers[writer].execute(&[
        "CREATE TABLE e2e.parent (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE e2e.child (id INT PRIMARY KEY, p INT, \
         FOREIGN KEY (p) REFERENCES e2e.parent (id) ON DELETE CASCADE)",
        "INSERT INTO e2e.parent VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO e2e.child VALUES (1, 1), (2, 2), (3, 2)",
        "ALTER TABLE e2e.parent ADD COLUMN note VARCHAR(20) DEFAULT 'n', ADD INDEX (v)",
        "DELETE FROM e2e.parent WHERE id = 2",
        "CREATE TABLE e2e.copied (PRIMARY KEY (id)) AS SELECT * FROM e2e.parent",
        "RENAME TABLE e2e.copied TO e2e.renamed",
        "CREATE TABLE e2e.gone (id INT PRIMARY KEY)",
        "INSERT INTO e2e.gone VALUES (1)",
        "TRUNCATE e2e.gone",
        "CREATE VIEW e2e.seen AS SELECT id FROM e2e.parent",
        "CREATE USER someone IDENTIFIED BY 'pw'",
        "GRANT SELECT ON e2e.* TO someone",
        "CREATE TRIGGER e2e.counted BEFORE INSERT ON e2e.parent FOR EACH ROW SET NEW.v = NEW.id * 10",
        "INSERT INTO e2e.parent (id) VALUES (9)",
    ])?;
    let rows = group.same_rows(
        "SELECT 'parent', id, CONCAT(v, note) FROM e2e.parent UNION ALL \
         SELECT 'child', id, p FROM e2e.child UNION ALL \
         SELECT 'renamed', id, note FROM e2e.renamed UNION ALL \
         SELECT 'gone', COUNT(*), '' FROM e2e.gone UNION ALL \
         SELECT 'seen', COUNT(*), '' FROM e2e.seen UNION ALL \
         SELECT 'user', COUNT(*), '' FROM mysql.db WHERE user = 'someone' ORDER BY 1, 2",
    )?;
    let expected = [
        "child\t1\t1",
        "gone\t0\t",
        "parent\t1\t1n",
        "parent\t3\t3n",
        "parent\t9\t90n",
        "renamed\t1\tn",
        "renamed\t3\tn",
        "seen\t3\t",
        "user\t1\t",
    ];
    ensure(rows == expected, || format!("{rows:?}"))?;
    group.same_rows(
        "SELECT table_name, column_name, column_type, column_default FROM \
         information_schema.columns WHERE table_schema = 'e2e' ORDER BY 1, 2",
    )?;
    Ok(())
}

fn large(group: &MysqlGroup, writer: usize) -> Outcome {
    let server = &group.servers[writer];
    server.execute(&["CREATE TABLE e2e.large (id INT PRIMARY KEY, data LONGBLOB)"])?;
    let insert =
        |id| format!("INSERT INTO e2e.large VALUES ({id}, REPEAT(CHAR(65 + {id} % 26), 1000000))");
    let inserts: Vec<String> = (1..=LARGE_ROWS).map(insert).collect();
    let mut statements = vec!["BEGIN"];
    statements.extend(inserts.iter().map(String::as_str));
    statements.push("COMMIT");
    let begun = std::time::Instant::now();
    server.execute(&statements)?;
    eprintln!("a transaction of {LARGE_ROWS} MB: {:?}", begun.elapsed());
    let rows =
        group.same_rows("SELECT COUNT(*), SUM(LENGTH(data)), SUM(CRC32(data)) FROM e2e.large")?;
    let expected = format!("{LARGE_ROWS}\t{LARGE_ROWS}000000\t");
    ensure(rows[0].starts_with(&expected), || format!("{rows:?}"))
}

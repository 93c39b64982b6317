//! Another server becomes the writer: which one, and what transactions may do that began before.

use std::thread;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::REFUSED;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Failure, Outcome, Why, ensure};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19680;
const LAGGING_PORT: u16 = 19700;
/// For so long a secondary applies nothing.
const STANDS_FOR: Duration = Duration::from_secs(4);
/// A writer that has everything takes over within this.
const FAILOVER_LIMIT: Duration = Duration::from_secs(10);

/// Rows that it has read may be old: the former writer has changed it since.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn transaction_that_began_before_the_writer_changed_does_not_write() -> Outcome {
    let mut group = MysqlGroup::new("began", PORT)?;
    await_flushes(&group)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.seats (id INT PRIMARY KEY, taken INT)",
        "CREATE TABLE e2e.tickets (id INT PRIMARY KEY)",
        "INSERT INTO e2e.seats VALUES (1, 0)",
    ])?;
    group.await_same_position()?;
    let begins: [&[&str]; 3] = [
        &["BEGIN"],
        &["START TRANSACTION WITH CONSISTENT SNAPSHOT"],
        &["SET SESSION autocommit = 0"],
    ];
    let mut open = Vec::new();
    for server in others(writer) {
        for begin in begins {
            let mut client = group.servers[server].connect()?;
            run(&mut client, begin)?;
            run(&mut client, &["SELECT taken FROM e2e.seats WHERE id = 1"])?;
            open.push((server, begin, client));
        }
        // A connection whose last transaction is over is not concerned.
        let mut client = group.servers[server].connect()?;
        run(&mut client, &["SELECT taken FROM e2e.seats"])?;
        open.push((server, &["single"], client));
    }
    group.servers[writer].execute(&["UPDATE e2e.seats SET taken = 1"])?;
    group.servers[writer].end("-TERM")?;
    let (next, _) = group.await_writer(&others(writer))?;

    for (at, (_, begin, client)) in open.iter_mut().filter(|open| open.0 == next).enumerate() {
        let insert = format!("INSERT INTO e2e.tickets VALUES ({at})");
        let answer = error_of(client, &[&insert, "COMMIT"])?;
        if *begin == ["single"] {
            ensure(answer.is_none(), || format!("{begin:?}: {answer:?}"))?;
        } else {
            ensure(answer == Some(REFUSED), || {
                format!("{begin:?}, and a read before the change: {answer:?}, not {REFUSED}")
            })?;
            // Begun again, it has read what the former writer has changed.
            run(client, begin)?;
            run(
                client,
                &["SELECT taken FROM e2e.seats WHERE id = 1", &insert],
            )?;
            run(client, &["COMMIT"])?;
        }
        let table = format!("e2e.made_{at}");
        let definitions = [
            format!("CREATE TABLE {table} (id INT PRIMARY KEY)"),
            format!("INSERT INTO {table} SELECT id FROM e2e.tickets"),
            format!("CREATE USER user_{at}"),
            format!("CREATE PROCEDURE {table}() INSERT INTO {table} VALUES (99)"),
            format!("CALL {table}()"),
            "COMMIT".to_owned(),
            format!("DROP TABLE {table}"),
        ];
        let definitions: Vec<&str> = definitions.iter().map(String::as_str).collect();
        run(client, &definitions)?;
    }
    drop(open);
    group.servers[writer].start(&[])?;
    await_flushes(&group)?;
    let rows = group.same_rows("SELECT id FROM e2e.tickets ORDER BY id")?;
    ensure(rows == ["0", "1", "2", "3"], || format!("{rows:?}"))
}

/// The writer flushes each commit before its binlog has it; what replicas apply is in the log.
fn await_flushes(group: &MysqlGroup) -> Outcome {
    let writer = group.await_whole()?;
    for (at, server) in group.servers.iter().enumerate() {
        let wanted = [if at == writer { "1" } else { "0" }];
        let sql = "SELECT @@global.innodb_flush_log_at_trx_commit";
        let flushes = || server.rows(sql).ok().filter(|rows| *rows == wanted);
        wait_for(PATIENCE, flushes).ok_or_else(|| {
            Failure(format!(
                "db{}: {:?}, not {wanted:?}",
                at + 1,
                server.rows(sql)
            ))
        })?;
    }
    Ok(())
}

fn run(client: &mut Conn, statements: &[&str]) -> Outcome {
    let mut statements = statements.iter();
    statements.try_for_each(|sql| client.query_drop(sql).why(sql))
}

/// The error by which one of these statements ends.
fn error_of(client: &mut Conn, statements: &[&str]) -> Outcome<Option<u16>> {
    for sql in statements {
        match client.query_drop(sql) {
            Ok(()) => {}
            Err(mysql::Error::MySqlError(error)) => return Ok(Some(error.code)),
            Err(error) => return Err(error).why(sql),
        }
    }
    Ok(None)
}

/// A writer takes writes only once it has applied what it lacks.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn secondary_that_lags_does_not_become_the_writer() -> Outcome {
    let mut group = MysqlGroup::new("lagging", LAGGING_PORT)?;
    for signal in ["-TERM", "-KILL"] {
        for lagging in [0, 1] {
            lagging_secondary(&mut group, signal, lagging)
                .why(format!("{signal}, secondary {lagging}"))?;
        }
    }
    Ok(())
}

/// `lagging`: which of the two secondaries stands while the other keeps up.
fn lagging_secondary(group: &mut MysqlGroup, signal: &str, lagging: usize) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let (lagging, quick) = (others(writer)[lagging], others(writer)[1 - lagging]);
    let mut holds = group.servers[lagging].connect()?;
    run(&mut holds, &["FLUSH TABLES WITH READ LOCK"])?;
    thread::sleep(STANDS_FOR);
    group.servers[writer].end(signal)?;
    let (next, took) = group.await_writer(&[lagging, quick])?;
    ensure(next == quick && took <= FAILOVER_LIMIT, || {
        format!("db{} is the writer after {took:?}", next + 1)
    })?;
    eprintln!("writer, {signal}, a secondary lags: another after {took:?}");
    clients.await_more(ROWS, PATIENCE)?;
    drop(holds);
    group.servers[writer].start(&[])?;
    group.await_whole()?;
    clients.finish().check(group)
}

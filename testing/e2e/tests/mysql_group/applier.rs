//! A secondary that cannot apply what the group has committed.

use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::{self, READ_ONLY};
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, ensure, ensure_says};
use synod_local_cluster::wait_for;

const PORT: u16 = 19660;
/// The error of a server for ordinary clients that are not to read from it.
const OFFLINE: u16 = 3032;

/// A server whose data differ takes no part any more and says so; the others continue. Once its
/// data are as the others', it follows again.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_with_other_data_stops_in_words_and_follows_once_it_is_repaired() -> Outcome {
    let mut group = MysqlGroup::new("differing", PORT)?;
    let writer = group.await_whole()?;
    let [differing, other] = others(writer);
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.t (id INT PRIMARY KEY, v INT)",
        "CREATE USER reader",
        "GRANT SELECT ON e2e.* TO reader",
        "INSERT INTO e2e.t VALUES (1, 1), (2, 2)",
    ])?;
    group.await_same_position()?;
    beside_the_group(&group, differing, "DELETE FROM e2e.t WHERE id = 1")?;
    let change = "UPDATE e2e.t SET v = v + 10";
    group.servers[writer].execute(&[change])?;
    group.await_state(differing, "failed")?;
    let says = group.status(differing, "problem").unwrap_or_default();
    ensure_says(&says, "the applier of the channel stops")?;
    ensure_says(&says, "a copy of another server")?;
    let rows = group.servers[differing].rows("SELECT id, v FROM e2e.t")?;
    ensure(rows == ["2\t2"], || {
        format!("part of a transaction is applied: {rows:?}")
    })?;
    let write = error_of(&group, differing, "root", change);
    ensure(write == Some(READ_ONLY), || {
        format!("a failed server answers a write by {write:?}")
    })?;
    let read = |group: &MysqlGroup| error_of(group, differing, "reader", "SELECT * FROM e2e.t");
    ensure(read(&group) == Some(OFFLINE), || {
        format!(
            "a failed server answers an ordinary client by {:?}",
            read(&group)
        )
    })?;

    group.servers[writer].execute(&[change])?;
    let rows = || {
        group.servers[other]
            .rows("SELECT v FROM e2e.t")
            .unwrap_or_default()
    };
    let continues = wait_for(PATIENCE, || (rows() == ["21", "22"]).then_some(()));
    ensure(continues.is_some(), || {
        format!("the others have stopped: {:?}", rows())
    })?;

    // It does not skip at its next start, either.
    group.servers[differing].end("-KILL")?;
    group.servers[differing].start(&[])?;
    group.await_state(differing, "failed")?;
    beside_the_group(&group, differing, "INSERT INTO e2e.t VALUES (1, 1)")?;
    group.await_state(differing, "replica")?;
    let served = wait_for(PATIENCE, || read(&group).is_none().then_some(()));
    ensure(served.is_some(), || {
        format!("a server that follows again answers by {:?}", read(&group))
    })?;
    let problem = group.status(differing, "problem").unwrap_or_default();
    ensure(problem.is_empty(), || format!("it still says: {problem}"))?;
    group
        .same_rows("SELECT id, v FROM e2e.t ORDER BY id")
        .map(|_| ())
}

/// Runs a statement on one server only, as a person with all rights may.
fn beside_the_group(group: &MysqlGroup, server: usize, sql: &str) -> Outcome {
    group.servers[server].execute(&[
        "SET GLOBAL super_read_only = OFF",
        "SET SESSION sql_log_bin = OFF",
        sql,
        "SET GLOBAL super_read_only = ON",
    ])
}

/// The error that a server answers this user, or its statement, with.
fn error_of(group: &MysqlGroup, server: usize, user: &str, sql: &str) -> Option<u16> {
    let connection = mysql_clients::connect_as(user, group.servers[server].port);
    match connection.and_then(|mut open| open.query_drop(sql)) {
        Err(mysql::Error::MySqlError(error)) => Some(error.code),
        Err(error) => panic!("{error}"),
        Ok(()) => None,
    }
}

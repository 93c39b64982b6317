//! A server whose data are lost joins under load, with a copy by the clone plugin.

use std::time::Instant;

use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::Clients;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};

use crate::load::ROWS;

const PORT: u16 = 19740;
const CLIENTS: u64 = 16;
/// Rows of a table beside those of clients, of some hundred bytes each.
const OLD_ROWS: u32 = 100_000;
/// The error of a server that has a copy, and no supervisor that starts it again.
const NOT_RESTARTED: u16 = 3707;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn wiped_server_joins_by_a_clone_while_clients_write() -> Outcome {
    let mut group = MysqlGroup::new("joining", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.old (id INT PRIMARY KEY, data VARCHAR(300))",
        "SET SESSION cte_max_recursion_depth = 1000000",
        &format!(
            "INSERT INTO e2e.old WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL \
             SELECT i + 1 FROM n WHERE i < {OLD_ROWS}) SELECT i, REPEAT(SHA2(i, 256), 4) FROM n"
        ),
    ])?;
    let clients = Clients::start(&group, writer, CLIENTS)?;
    clients.await_more(ROWS, PATIENCE)?;
    let [wiped, donor] = others(writer);
    let since = Instant::now();
    group.servers[wiped].end("-KILL")?;
    group.servers[wiped].wipe()?;
    clients.await_more(ROWS, PATIENCE)?;

    let begun = Instant::now();
    copy(&mut group, wiped, donor)?;
    let copied = begun.elapsed();
    let before = clients.count();
    group.servers[wiped].start(&[])?;
    group.servers[wiped].await_up()?;
    group.await_state(wiped, "replica")?;
    let joined = begun.elapsed();
    let meanwhile = clients.count() - before;
    clients.await_more(ROWS, PATIENCE)?;
    let answers = clients.finish();
    eprintln!(
        "joined by a clone under load: copied after {copied:?}, a replica after {joined:?}, \
         {meanwhile} commits from its start on; {:?} at most without a commit",
        answers.longest_gap_after(since)
    );
    group.same_rows("SELECT COUNT(*), SUM(CRC32(data)) FROM e2e.old")?;
    answers.check(&group)?;

    // It counts as one of three again: the writer may fail.
    let status = group.synod_says(writer, &["status", "--check"])?;
    ensure(status.contains("3 voters: 1 may fail at a time"), || status)?;
    group.servers[writer].end("-KILL")?;
    group.await_writer(&[wiped, donor]).map(|_| ())
}

/// Copies the donor's data to an empty server, as the manual says.
fn copy(group: &mut MysqlGroup, joiner: usize, donor: usize) -> Outcome {
    let port = group.servers[donor].port;
    let server = &mut group.servers[joiner];
    server.start_plain(&["--plugin-load-add=mysql_clone.so"])?;
    server.await_up()?;
    let mut connection = server.connect()?;
    connection
        .query_drop(format!(
            "SET GLOBAL clone_valid_donor_list = '127.0.0.1:{port}'"
        ))
        .why("the list of donors")?;
    let cloned = connection.query_drop(format!(
        "CLONE INSTANCE FROM root@127.0.0.1:{port} IDENTIFIED BY ''"
    ));
    let code = match &cloned {
        Err(mysql::Error::MySqlError(error)) => Some(error.code),
        _ => None,
    };
    ensure(code == Some(NOT_RESTARTED), || format!("{cloned:?}"))?;
    server.await_end()
}

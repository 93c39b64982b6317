//! Locks that a person holds on a server of a group under load: those of backups, and of tables.

use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::mysql_server::MysqlServer;
use synod_e2e::{Outcome, Why, ensure};

use crate::load::{ROWS, under_load};
use crate::statements::error_of;

const PORT: u16 = 19920;
const STOPPED_PORT: u16 = 19940;
const READ_LOCK: &str = "FLUSH TABLES WITH READ LOCK";
/// Locks are held so long.
const HELD: Duration = Duration::from_secs(4);
/// Limit of STOP GROUP_REPLICATION: for an applier that waits for a lock, and for closing the
/// server.
const STOP_LIMIT: Duration = Duration::from_secs(80);
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// A session that holds the lock. Waits for locks are as long as on servers that have not been
/// tuned: a year.
fn hold(server: &MysqlServer, lock: &str) -> Outcome<Conn> {
    server.execute(&["SET GLOBAL lock_wait_timeout = DEFAULT"])?;
    let mut holder = server.connect()?;
    holder.query_drop(lock).why(lock)?;
    Ok(holder)
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn locks_of_backups_on_any_server_lose_nothing() -> Outcome {
    let group = MysqlGroup::new("locks", PORT)?;
    for lock in ["LOCK INSTANCE FOR BACKUP", READ_LOCK] {
        for is_writer in [false, true] {
            backup(&group, lock, is_writer).why(format!("{lock}, writer: {is_writer}"))?;
        }
    }
    Ok(())
}

fn backup(group: &MysqlGroup, lock: &str, is_writer: bool) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let at = if is_writer { writer } else { others(writer)[0] };
    let holder = hold(&group.servers[at], lock)?;
    // As on any server, the writer's own statements wait for it.
    if !is_writer {
        let create = "CREATE TABLE e2e.made (id INT PRIMARY KEY)";
        group.servers[writer].execute(&[create, "DROP TABLE e2e.made"])?;
    }
    if lock != READ_LOCK || !is_writer {
        clients.await_more(ROWS, PATIENCE)?;
    }
    thread::sleep(HELD);
    drop(holder);
    clients.await_more(ROWS, PATIENCE)?;
    let is_same = group.await_whole()? == writer;
    ensure(is_same, || "another server is the writer".to_owned())?;
    clients.finish().check(group)
}

/// Waits for a lock end by themselves, and the server comes back.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_with_a_lock_leaves_its_group_and_ends() -> Outcome {
    let mut group = MysqlGroup::new("locked", STOPPED_PORT)?;
    let lock = "LOCK TABLES e2e.written WRITE";
    leaves(&group, lock, true, Some(LOCK_WAIT_TIMEOUT)).why("the writer leaves")?;
    leaves(&group, READ_LOCK, false, None).why("a secondary leaves")?;
    let (writer, clients) = under_load(&group)?;
    let holder = hold(&group.servers[writer], lock)?;
    group.servers[writer].end("-TERM")?;
    drop(holder);
    group.servers[writer].start(&[])?;
    group.await_whole()?;
    clients.await_more(ROWS, PATIENCE)?;
    clients.finish().check(&group)
}

/// `wanted`: the error of STOP GROUP_REPLICATION. The lock is still held when the server joins.
fn leaves(group: &MysqlGroup, lock: &str, is_writer: bool, wanted: Option<u16>) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let at = if is_writer { writer } else { others(writer)[0] };
    let create = "CREATE TABLE IF NOT EXISTS e2e.unlocked (id INT PRIMARY KEY)";
    group.servers[writer].execute(&[create])?;
    let server = &group.servers[at];
    let holder = hold(server, lock)?;
    if !is_writer {
        clients.await_more(ROWS, PATIENCE)?;
    }
    let since = Instant::now();
    let code = error_of(server, &["STOP GROUP_REPLICATION"])?;
    let took = since.elapsed();
    ensure(code == wanted && took < STOP_LIMIT, || {
        format!("{code:?} after {took:?}")
    })?;
    clients.await_more(ROWS, PATIENCE)?;
    let code = error_of(server, &["INSERT INTO e2e.unlocked VALUES (1)"])?;
    ensure(code.is_some(), || "it takes writes outside".to_owned())?;
    server.execute(&["START GROUP_REPLICATION"])?;
    drop(holder);
    group.await_whole()?;
    clients.await_more(ROWS, PATIENCE)?;
    clients.finish().check(group)
}

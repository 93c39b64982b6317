//! Misuse of servers of a group, by a person with all rights: it works, or is refused in words, and
//! all servers have the same data afterwards.

use std::thread;
use std::time::Duration;

use synod_e2e::mysql_clients::{READ_ONLY, REFUSED};
use synod_e2e::mysql_group::{self, GROUP, MysqlGroup, PATIENCE, others};
use synod_e2e::mysql_server::{self, MysqlServer};
use synod_e2e::{Outcome, Why, ensure, ensure_says};
use synod_local_cluster::wait_for;

use crate::statements::error_of;

const PORT: u16 = 19860;
const OUTSIDE_PORT: u16 = 19880;
const CHANNEL_PORT: u16 = 19900;
const IDENTITY_PORT: u16 = 19960;
/// The error of a statement that a table or the session's format does not allow.
const BAD_STATEMENT: u16 = 3098;
const RUNS_ALREADY: u16 = 3093;
const WRONG_SETTING: u16 = 3092;
/// The error of a channel that the plugin does not let start.
const HOOK_FAILED: u16 = 13117;
/// Threads that start and stop the plugin at once, and how often each does.
const AT_ONCE: usize = 4;
const TIMES: usize = 5;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn misused_sessions_and_servers_are_refused_and_change_nothing() -> Outcome {
    let group = MysqlGroup::new("misuse", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.t (id INT PRIMARY KEY)",
        "INSERT INTO e2e.t VALUES (1)",
    ])?;
    group.await_same_position()?;
    sessions(&group, writer).why("sessions of the writer")?;
    positions(&group, writer).why("positions")?;
    opened_replica(&group, writer).why("a replica opened by hand")?;
    flushes(&group.servers[writer]).why("flushes of the writer")?;
    // Events of a server without a number come from no server that could skip them.
    let insert = "INSERT INTO e2e.t VALUES (100)";
    group.servers[writer].execute(&["SET GLOBAL server_id = 0"])?;
    group.servers[writer].execute(&[insert])?;
    let rows = group.same_rows("SELECT id FROM e2e.t ORDER BY id")?;
    ensure(rows == ["1", "100"], || format!("{rows:?}"))?;
    let databases = group.same_rows("SHOW DATABASES")?;
    ensure(databases.len() == 5, || format!("{databases:?}"))
}

fn refused(server: &MysqlServer, statements: &[&str], wanted: u16) -> Outcome {
    let code = error_of(server, statements)?;
    ensure(code == Some(wanted), || {
        format!("{statements:?}: {code:?}, not {wanted}")
    })
}

fn sessions(group: &MysqlGroup, writer: usize) -> Outcome {
    let server = &group.servers[writer];
    let insert = "INSERT INTO e2e.t VALUES (2)";
    let format = "SET SESSION binlog_format = STATEMENT";
    refused(server, &[format, insert], BAD_STATEMENT)?;
    let number = format!("SET SESSION gtid_next = '{GROUP}:999999'");
    refused(server, &[&number, insert], REFUSED)?;
    refused(server, &[&number, "BEGIN", "COMMIT"], REFUSED)?;
    let tagged = "SET SESSION gtid_next = 'AUTOMATIC:tag'";
    refused(server, &[tagged, insert], REFUSED)?;
    let ends = ["XA COMMIT 'x' ONE PHASE", "XA PREPARE 'x'"];
    for end in ends {
        let xa = ["XA START 'x'", insert, "XA END 'x'", end];
        refused(server, &xa, REFUSED).why(end)?;
    }
    let executed = server.rows("SELECT @@global.gtid_executed")?.concat();
    ensure(
        !executed.contains("999999") && !executed.contains("tag"),
        || executed.clone(),
    )
}

/// The server's own refusals of what would change its position while it is in a group.
fn positions(group: &MysqlGroup, writer: usize) -> Outcome {
    let purged = format!("SET GLOBAL gtid_purged = '+{GROUP}:999999'");
    for server in [writer, others(writer)[0]] {
        for sql in [
            "RESET BINARY LOGS AND GTIDS",
            purged.as_str(),
            "SET GLOBAL gtid_mode = ON_PERMISSIVE",
            "STOP REPLICA FOR CHANNEL 'group_replication_applier'",
            "RESET REPLICA ALL FOR CHANNEL 'group_replication_applier'",
            "UNINSTALL PLUGIN synod",
            "UNINSTALL PLUGIN group_replication",
        ] {
            let code = error_of(&group.servers[server], &[sql])?;
            ensure(code.is_some(), || format!("db{} took {sql}", server + 1))?;
        }
    }
    group.await_whole().map(|_| ())
}

fn opened_replica(group: &MysqlGroup, writer: usize) -> Outcome {
    let replica = &group.servers[others(writer)[0]];
    let before = replica.rows("SELECT @@global.gtid_executed")?;
    for sql in [
        "INSERT INTO e2e.t VALUES (3)",
        "CREATE DATABASE other",
        "CREATE USER other",
        "CREATE TABLE e2e.other (id INT PRIMARY KEY)",
        "CREATE TABLE e2e.other (id INT PRIMARY KEY) ENGINE=MyISAM",
        "DROP TABLE e2e.t",
        "ALTER TABLE e2e.t ADD COLUMN c INT",
        "DROP DATABASE e2e",
    ] {
        let open = "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF";
        refused(replica, &[open, sql], REFUSED).why(sql)?;
    }
    for sql in [
        "ANALYZE TABLE e2e.t",
        "FLUSH TABLES",
        "OPTIMIZE TABLE e2e.t",
    ] {
        let answer = error_of(replica, &[sql])?;
        eprintln!("{sql} on an opened replica: {answer:?}");
    }
    replica.execute(&["SET GLOBAL super_read_only = ON"])?;
    let after = replica.rows("SELECT @@global.gtid_executed")?;
    ensure(before == after, || format!("{before:?}, then {after:?}"))?;
    let tables = group.same_rows(
        "SELECT table_name, column_name FROM information_schema.columns \
         WHERE table_schema = 'e2e' ORDER BY 1, 2",
    )?;
    ensure(tables == ["t\tid"], || format!("{tables:?}"))
}

/// The writer's position after a loss of power rests on it.
fn flushes(writer: &MysqlServer) -> Outcome {
    writer.execute(&["SET GLOBAL innodb_flush_log_at_trx_commit = 2"])?;
    let value = || {
        writer
            .rows("SELECT @@global.innodb_flush_log_at_trx_commit")
            .ok()
    };
    let again = wait_for(PATIENCE, || (value()? == ["1"]).then_some(()));
    ensure(again.is_some(), || format!("{:?}", value()))?;
    ensure_says(&writer.log(), "is set to 1 again")
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_that_was_written_to_outside_of_its_group_is_refused() -> Outcome {
    let group = MysqlGroup::new("written-outside", OUTSIDE_PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&["CREATE DATABASE e2e"])?;
    group.await_same_position()?;
    let [left, other] = others(writer);
    odd_orders(&group.servers[left]).why("odd orders")?;
    group.await_whole()?;
    let server = &group.servers[left];
    server.execute(&["STOP GROUP_REPLICATION", "SET GLOBAL super_read_only = OFF"])?;
    let opened = ["SET GLOBAL read_only = OFF", "CREATE DATABASE outside"];
    server.execute(&opened)?;
    group.servers[writer].execute(&["CREATE DATABASE inside"])?;
    server.execute(&["START GROUP_REPLICATION"])?;
    group.await_state(left, "failed")?;
    let problem = group.status(left, "problem").unwrap_or_default();
    ensure_says(&problem, "written to outside of its group")?;
    let number = format!("SET SESSION gtid_next = '{GROUP}:999999'");
    let server = &group.servers[other];
    server.execute(&["STOP GROUP_REPLICATION", "SET GLOBAL super_read_only = OFF"])?;
    server.execute(&["SET GLOBAL read_only = OFF", &number, "BEGIN", "COMMIT"])?;
    server.execute(&["START GROUP_REPLICATION"])?;
    group.await_state(other, "failed")?;
    let problem = group.status(other, "problem").unwrap_or_default();
    ensure_says(&problem, "999999")
}

/// START and STOP in other orders than people use, and many at once.
fn odd_orders(server: &MysqlServer) -> Outcome {
    let (start, stop) = ("START GROUP_REPLICATION", "STOP GROUP_REPLICATION");
    refused(server, &[start], RUNS_ALREADY)?;
    server.execute(&[stop, stop])?;
    refused(server, &["CREATE DATABASE stopped"], READ_ONLY)?;
    server.execute(&[start])?;
    refused(server, &[start], RUNS_ALREADY)?;
    thread::scope(|scope| {
        for at in 0..AT_ONCE {
            scope.spawn(move || {
                for turn in 0..TIMES {
                    // One of them is refused by another's.
                    let sql = if (at + turn) % 2 == 0 { start } else { stop };
                    let _ = server.execute(&[sql]);
                }
            });
        }
    });
    let code = error_of(server, &[start])?;
    ensure(code.is_none() || code == Some(RUNS_ALREADY), || {
        format!("{code:?}")
    })
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn channel_from_another_source_is_refused_in_a_group() -> Outcome {
    let group = MysqlGroup::new("channel", CHANNEL_PORT)?;
    let writer = group.await_whole()?;
    let root = mysql_server::installed()?;
    let port = CHANNEL_PORT + 15;
    let source = MysqlServer::new(root, "channel-source", port, &["--server-id=9"])?;
    source.execute(&["CREATE DATABASE elsewhere"])?;
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
         SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1 FOR CHANNEL 'elsewhere'"
    );
    let start = "START REPLICA FOR CHANNEL 'elsewhere'";
    let has_it = |server: &MysqlServer| {
        let rows = server.rows("SHOW DATABASES LIKE 'elsewhere'");
        rows.is_ok_and(|rows| rows == ["elsewhere"])
    };
    for at in [writer, others(writer)[0]] {
        let server = &group.servers[at];
        server.execute(&[&change])?;
        server.execute(&[start])?;
        let took_it = wait_for(Duration::from_secs(3), || has_it(server).then_some(()));
        ensure(took_it.is_none(), || {
            format!("db{} has the source's database", at + 1)
        })?;
        let ended = server.rows(
            "SELECT r.service_state, r.last_error_number, a.service_state FROM \
             performance_schema.replication_connection_status r JOIN \
             performance_schema.replication_applier_status a USING (channel_name) \
             WHERE channel_name = 'elsewhere'",
        )?;
        let wanted = format!("OFF\t{HOOK_FAILED}\tOFF");
        ensure(ended == [wanted], || format!("db{}: {ended:?}", at + 1))?;
        ensure_says(&server.log(), "channel 'elsewhere' is not started")?;
    }
    // Outside of its group, a server may have one; it comes back without.
    let server = &group.servers[others(writer)[0]];
    server.execute(&["STOP GROUP_REPLICATION", start])?;
    refused(server, &["START GROUP_REPLICATION"], WRONG_SETTING)?;
    let has = wait_for(PATIENCE, || has_it(server).then_some(()));
    ensure(has.is_some(), || server.log())
}

/// A server outside of a group stays as it was when it is asked for what cannot be.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_without_an_identity_is_refused_and_stays_open() -> Outcome {
    mysql_group::install_plugin(mysql_group::PLUGIN)?;
    let (root, port) = (mysql_server::installed()?, IDENTITY_PORT);
    let address = format!(
        "--loose-group-replication-local-address=127.0.0.1:{}",
        port + 11
    );
    let mut server = MysqlServer::new(
        root,
        "identity",
        port + 1,
        &[
            "--server-id=1",
            "--log-replica-updates=OFF",
            "--plugin-load-add=synod_mysql.so",
            "--loose-group-replication-start-on-boot=OFF",
            "--loose-group-replication-bootstrap-group=ON",
            &address,
        ],
    )?;
    let (start, stop) = ("START GROUP_REPLICATION", "STOP GROUP_REPLICATION");
    let name = format!("SET GLOBAL group_replication_group_name = '{GROUP}'");
    for (at, (set, says)) in [
        (
            "SET GLOBAL group_replication_group_name = @@server_uuid",
            "own server_uuid",
        ),
        ("SET GLOBAL server_id = 0", "server_id is 0"),
    ]
    .into_iter()
    .enumerate()
    {
        server.execute(&[set])?;
        refused(&server, &[start], WRONG_SETTING).why(set)?;
        ensure_says(&server.log(), says)?;
        let create = format!("CREATE DATABASE made_{at}");
        server.execute(&[stop, &create]).why(set)?;
        server.execute(&[&name])?;
    }
    server.execute(&["SET GLOBAL server_id = 1", start])?;
    let code = error_of(&server, &["SET PERSIST group_replication_group_name = ''"])?;
    ensure(code == Some(RUNS_ALREADY), || format!("{code:?}"))?;
    let fixed = "SET PERSIST synod_name = 'other'";
    ensure(error_of(&server, &[fixed])?.is_some(), || fixed.to_owned())?;
    let shown = |server: &MysqlServer| {
        server.rows(
            "SELECT service_state, HEX(CONCAT(group_name, source_uuid)) \
             FROM performance_schema.replication_connection_status",
        )
    };
    let group: String = GROUP.bytes().map(|byte| format!("{byte:02X}")).collect();
    let rows = shown(&server)?;
    ensure(rows == [format!("ON\t{group}{group}")], || {
        format!("{rows:?}")
    })?;
    server.end("-TERM")?;
    server.start(&[])?;
    server.await_up()?;
    let rows = shown(&server)?;
    ensure(rows == ["OFF\t"], || format!("of no group yet: {rows:?}"))
}

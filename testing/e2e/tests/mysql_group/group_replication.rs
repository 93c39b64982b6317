//! The plugin as `group_replication`: statements, tables and functions that tools know, and a group
//! that moves from MySQL's Group Replication to Synod and back.

use mysql::prelude::Queryable;
use synod_e2e::mysql_group::{self, MysqlGroup, PATIENCE, others};
use synod_e2e::mysql_server::MysqlServer;
use synod_e2e::{Failure, Outcome, Why, ensure, ensure_says};
use synod_local_cluster::wait_for;

const PORT: u16 = 19760;
const MIGRATION_PORT: u16 = 19780;
/// UUIDs of the groups before, with Synod, and after it.
const BEFORE: &str = "5e0dc0de-0000-4000-8000-0000000000a1";
const SYNOD: &str = "5e0dc0de-0000-4000-8000-0000000000a2";
const AFTER: &str = "5e0dc0de-0000-4000-8000-0000000000a3";
const RUNS_ALREADY: u16 = 3093;
const MEMBERS: &str = "SELECT MEMBER_ID, MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE \
    FROM performance_schema.replication_group_members ORDER BY MEMBER_PORT";

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn statements_tables_and_functions_of_group_replication_work() -> Outcome {
    let group = MysqlGroup::new("face", PORT)?;
    let writer = group.await_whole()?;
    await_members(&group.servers[writer], &expected(&group, Some(writer))?)?;
    for reader in others(writer) {
        await_members(&group.servers[reader], &expected(&group, Some(writer))?)?;
    }
    let channel = "SELECT SERVICE_STATE FROM performance_schema.replication_connection_status \
        WHERE CHANNEL_NAME = 'group_replication_applier'";
    let state = group.servers[writer].rows(channel)?;
    ensure(state == ["ON"], || format!("{state:?}"))?;
    let table = |name| format!("SELECT * FROM performance_schema.replication_group_{name}");
    let server = &group.servers[writer];
    let own = server.rows("SELECT @@server_uuid")?.concat();
    let actions = server.rows(&table("member_actions"))?;
    let enabled = "mysql_disable_super_read_only_if_primary\tAFTER_PRIMARY_ELECTION\t1";
    ensure(
        actions.len() == 2 && actions[0].starts_with(enabled),
        || format!("{actions:?}"),
    )?;
    let sorted = format!("{} ORDER BY priority DESC", table("member_actions"));
    let sorted = server.rows(&sorted)?;
    ensure(sorted.iter().rev().eq(&actions), || format!("{sorted:?}"))?;
    let version = server.rows(&table("configuration_version"))?;
    ensure(version == ["replication_group_member_actions\t1"], || {
        format!("{version:?}")
    })?;
    let leader = server.rows(&table("communication_information"))?.concat();
    ensure_says(&leader, &format!("8.0.27\t{own}\t{own}\t1"))?;
    server.execute(&[
        "CREATE DATABASE counted",
        "SET GLOBAL group_replication_consistency = 'BEFORE_AND_AFTER'",
    ])?;
    server.execute(&["CREATE TABLE counted.t (id INT PRIMARY KEY)"])?;
    server.execute(&["SET GLOBAL group_replication_consistency = DEFAULT"])?;
    let waits = server.rows(
        "SELECT variable_name FROM performance_schema.global_status \
         WHERE variable_name LIKE 'Gr\\_%' AND variable_value > 0",
    )?;
    ensure(waits.len() == 7, || format!("{waits:?}"))?;

    let next = others(writer)[0];
    let uuid = group.servers[next].rows("SELECT @@server_uuid")?.concat();
    let hand_over = format!("SELECT group_replication_set_as_primary('{uuid}')");
    let answer = group.servers[writer].rows(&hand_over)?.concat();
    ensure_says(&answer, "Primary server switched to")?;
    group.await_state(next, "writer")?;
    await_members(&group.servers[writer], &expected(&group, Some(next))?)?;

    // Out of the group and back in it, as operators of Group Replication do it.
    let server = &group.servers[writer];
    server.execute(&["STOP GROUP_REPLICATION"])?;
    let mut alone = server.rows(MEMBERS)?;
    ensure(
        alone.len() == 1 && alone.remove(0).contains("OFFLINE"),
        || format!("after STOP GROUP_REPLICATION: {:?}", server.rows(MEMBERS)),
    )?;
    let written = server.execute(&["CREATE DATABASE outside"]);
    ensure(written.is_err(), || {
        "a server outside its group took a write".to_owned()
    })?;
    group.servers[next].execute(&["CREATE DATABASE e2e"])?;
    server.execute(&["START GROUP_REPLICATION"])?;
    let again = server.connect()?.query_drop("START GROUP_REPLICATION");
    let code = match &again {
        Err(mysql::Error::MySqlError(error)) => error.code,
        _ => 0,
    };
    ensure(code == RUNS_ALREADY, || format!("{again:?}"))?;
    group.await_whole()?;
    let databases = group.same_rows("SHOW DATABASES LIKE 'e2e'")?;
    ensure(databases == ["e2e"], || format!("{databases:?}"))
}

/// Rows of the group's table; all servers are online.
fn expected(group: &MysqlGroup, writer: Option<usize>) -> Outcome<Vec<String>> {
    let mut rows = Vec::new();
    for (at, server) in group.servers.iter().enumerate() {
        let uuid = server.rows("SELECT @@server_uuid")?.concat();
        let role = match writer == Some(at) {
            true => "PRIMARY",
            false => "SECONDARY",
        };
        rows.push(format!("{uuid}\t{}\tONLINE\t{role}", server.port));
    }
    Ok(rows)
}

fn await_members(server: &MysqlServer, expected: &[String]) -> Outcome {
    let mut seen = Vec::new();
    let is_so = wait_for(PATIENCE, || {
        seen = server.rows(MEMBERS).unwrap_or_default();
        (seen == expected).then_some(())
    });
    is_so.ok_or_else(|| Failure(format!("{seen:?}, not {expected:?}\n{}", server.log())))
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn group_moves_from_group_replication_in_place_and_back() -> Outcome {
    mysql_group::install_plugin(mysql_group::PLUGIN)?;
    let mut servers = Vec::new();
    for n in 1..=3 {
        let options = options(n, BEFORE, &THEIRS);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let name = format!("migration-{n}");
        let root = synod_e2e::mysql_server::installed()?;
        servers.push(MysqlServer::new(root, &name, MIGRATION_PORT + n, &options)?);
    }
    start_group(&servers)?;
    let primary = await_all_online(&servers)?;
    servers[primary].execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.moved (id INT PRIMARY KEY)",
        "INSERT INTO e2e.moved VALUES (1), (2)",
    ])?;
    for (group, plugin, row) in [(SYNOD, &OURS[..], 3), (AFTER, &THEIRS[..], 4)] {
        change_all(&mut servers, group, plugin)?;
        start_group(&servers)?;
        let primary = await_all_online(&servers)?;
        let insert = format!("INSERT INTO e2e.moved VALUES ({row})");
        servers[primary].execute(&[&insert])?;
        let count = (row).to_string();
        for server in &servers {
            let has = || {
                let rows = server.rows("SELECT COUNT(*) FROM e2e.moved").ok()?;
                (rows == [count.clone()]).then_some(())
            };
            let has = wait_for(PATIENCE, has);
            ensure(has.is_some(), || {
                format!("not {count} rows with {plugin:?}:\n{}", server.log())
            })?;
        }
    }
    Ok(())
}

/// Lines of the configuration that differ.
const THEIRS: [&str; 4] = [
    "--plugin-load-add=group_replication.so",
    "--log-replica-updates=ON",
    "--sync-binlog=1",
    "--group-replication-recovery-get-public-key=ON",
];
const OURS: [&str; 3] = [
    "--plugin-load-add=synod_mysql.so",
    "--log-replica-updates=OFF",
    "--sync-binlog=0",
];

fn options(n: u16, group: &str, plugin: &[&str]) -> Vec<String> {
    let address = |n: u16| format!("127.0.0.1:{}", MIGRATION_PORT + 10 + n);
    let seeds = [1, 2, 3].map(address).join(",");
    let mut options: Vec<String> = plugin.iter().map(|line| (*line).to_owned()).collect();
    options.extend(
        [
            "--report-host=127.0.0.1",
            "--skip-replica-start=ON",
            "--innodb-flush-log-at-trx-commit=1",
            "--group-replication-start-on-boot=OFF",
            "--group-replication-ssl-mode=DISABLED",
        ]
        .map(str::to_owned),
    );
    options.extend([
        format!("--server-id={n}"),
        format!("--group-replication-group-name={group}"),
        format!("--group-replication-local-address={}", address(n)),
        format!("--group-replication-group-seeds={seeds}"),
    ]);
    options
}

/// The page's steps: all stop with the same GTIDs, and start with another plugin and group.
fn change_all(servers: &mut [MysqlServer], group: &str, plugin: &[&str]) -> Outcome {
    let executed = |server: &MysqlServer| server.rows("SELECT @@global.gtid_executed");
    let first = executed(&servers[0])?;
    for server in servers.iter() {
        let same = wait_for(PATIENCE, || (executed(server).ok()? == first).then_some(()));
        ensure(same.is_some(), || format!("{:?}", executed(server)))?;
    }
    for (n, server) in (1..).zip(servers.iter_mut()) {
        server.execute(&["STOP GROUP_REPLICATION"])?;
        server.end("-TERM")?;
        server.set_options(options(n, group, plugin));
    }
    for server in servers.iter_mut() {
        server.start(&[])?;
        server.await_up()?;
    }
    level_gtids(servers)
}

/// A server that ended earlier lacks numbers of the group, which changed nothing.
fn level_gtids(servers: &[MysqlServer]) -> Outcome {
    let mut all = String::new();
    for server in servers {
        all = server
            .rows(&format!(
                "SELECT GTID_SUBTRACT(CONCAT('{all},', @@global.gtid_executed), '')"
            ))?
            .concat();
    }
    for server in servers {
        let lacks = format!("SELECT GTID_SUBTRACT('{all}', @@global.gtid_executed)");
        let lacks = server.rows(&lacks)?.concat();
        if !lacks.is_empty() {
            server.execute(&[&format!("SET GLOBAL gtid_purged = '+{lacks}'")])?;
        }
    }
    Ok(())
}

/// Begins the group at the first server, as the manual of Group Replication says.
fn start_group(servers: &[MysqlServer]) -> Outcome {
    servers[0].execute(&[
        "SET GLOBAL group_replication_bootstrap_group = ON",
        "START GROUP_REPLICATION",
        "SET GLOBAL group_replication_bootstrap_group = OFF",
    ])?;
    for server in &servers[1..] {
        server
            .execute(&["START GROUP_REPLICATION"])
            .why(server.log())?;
    }
    Ok(())
}

/// Waits until all are online, for all; returns the primary.
fn await_all_online(servers: &[MysqlServer]) -> Outcome<usize> {
    let mut seen = Vec::new();
    let sees_all = |server: &MysqlServer, seen: &mut Vec<String>| {
        *seen = server.rows(MEMBERS).ok()?;
        let online = seen.iter().filter(|row| row.contains("\tONLINE\t"));
        (online.count() == servers.len()).then_some(())
    };
    for server in servers {
        let found = wait_for(PATIENCE, || sees_all(server, &mut seen));
        ensure(found.is_some(), || format!("{seen:?}\n{}", server.log()))?;
    }
    // A new primary takes writes once it has applied everything.
    let takes_writes = |server: &MysqlServer| {
        let rows = server.rows("SELECT @@global.super_read_only").ok();
        rows.is_some_and(|rows| rows == ["0"])
    };
    let primary = wait_for(PATIENCE, || servers.iter().position(takes_writes));
    primary.ok_or_else(|| Failure(format!("no server takes writes: {seen:?}")))
}

//! Variables, functions and errors that users and tools of Group Replication meet, and the refusal
//! of servers that the plugin does not fit.

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use synod_e2e::mysql_group::{self, MysqlGroup, PLUGIN};
use synod_e2e::mysql_server::{self, MysqlServer};
use synod_e2e::{Failure, Outcome, Why, ensure, ensure_says};

/// Variables with paths of plugins that are built with changed headers.
const OTHER_VERSION: &str = "SYNOD_E2E_MYSQL_OTHER_VERSION";
const OTHER_LAYOUT: &str = "SYNOD_E2E_MYSQL_OTHER_LAYOUT";
const PORT: u16 = 19820;
const VARIABLES_PORT: u16 = 19840;
const OUTSIDE_PORT: u16 = 19850;
const OTHERS_PORT: u16 = 19860;
/// UUID of a group that does not run yet.
const NEW_GROUP: &str = "5e0dc0de-0000-4000-8000-0000000000c1";
const WRONG_VALUE: u16 = 1231;
const READ_ONLY: u16 = 1290;
const CANNOT_INITIALIZE: u16 = 1123;
const RUNS_ALREADY: u16 = 3093;
const FUNCTION_FAILED: u16 = 3910;
const NOT_IN_GROUP: u16 = 3796;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn functions_work_or_are_refused_in_words() -> Outcome {
    let group = MysqlGroup::new("functions", PORT)?;
    let writer = &group.servers[group.await_whole()?];
    let own = writer.rows("SELECT @@server_uuid")?.concat();
    for (call, answer) in [
        ("set_as_primary(@@server_uuid, 5)", "already the current"),
        ("switch_to_single_primary_mode()", "already on"),
        ("switch_to_single_primary_mode(@@server_uuid)", "Already in"),
        ("get_communication_protocol()", "8.0.27"),
        ("set_communication_protocol('8.0.27')", "success"),
        ("reset_member_actions()", "OK"),
    ] {
        let answered = writer.rows(&format!("SELECT group_replication_{call}"))?;
        ensure_says(&answered.concat(), answer)?;
    }
    let several = "takes the writes of a group";
    for (call, code, why) in [
        ("switch_to_multi_primary_mode()", FUNCTION_FAILED, several),
        (
            "set_as_primary(@@server_uuid, 3601)",
            FUNCTION_FAILED,
            "Valid range",
        ),
        ("set_as_primary('x')", FUNCTION_FAILED, "no present server"),
        ("set_as_primary()", CANNOT_INITIALIZE, "server uuid"),
        (
            "set_communication_protocol('8.0.16')",
            FUNCTION_FAILED,
            "8.0.27 here",
        ),
        (
            "set_communication_protocol('8')",
            FUNCTION_FAILED,
            "major.minor.patch",
        ),
        (
            "disable_member_action('mysql_disable_super_read_only_if_primary', \
             'AFTER_PRIMARY_ELECTION')",
            FUNCTION_FAILED,
            "takes writes",
        ),
        (
            "set_write_concurrency(20)",
            FUNCTION_FAILED,
            "does not exist",
        ),
        ("get_write_concurrency()", FUNCTION_FAILED, "does not exist"),
    ] {
        refused(
            writer,
            &format!("SELECT group_replication_{call}"),
            code,
            why,
        )?;
    }
    let off = "SET GLOBAL group_replication_single_primary_mode = OFF";
    refused(writer, off, WRONG_VALUE, several)?;
    let name = format!("SET GLOBAL group_replication_group_name = '{NEW_GROUP}'");
    refused(writer, &name, RUNS_ALREADY, "Group Replication is running")?;
    // As tools set what has no meaning here.
    writer.execute(&[
        "SET PERSIST group_replication_ip_allowlist = '127.0.0.1'",
        "SET PERSIST group_replication_exit_state_action = 'READ_ONLY'",
        "SET GLOBAL group_replication_member_expel_timeout = 7",
        "SET GLOBAL group_replication_single_primary_mode = ON",
    ])?;

    // A client without the privilege moves no writer.
    writer.execute(&["CREATE USER plain"])?;
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(writer.port)
        .user(Some("plain"))
        .prefer_socket(false);
    let mut plain = Conn::new(options).why("connecting as plain")?;
    let order = format!("SELECT group_replication_set_as_primary('{own}')");
    let answer = plain.query_drop(order);
    match &answer {
        Err(mysql::Error::MySqlError(error)) => {
            ensure_says(&error.message, "GROUP_REPLICATION_ADMIN")
        }
        _ => Err(Failure(format!("without the privilege: {answer:?}"))),
    }
}

/// Checks that a statement is refused by this number, with these words.
fn refused(server: &MysqlServer, sql: &str, code: u16, why: &str) -> Outcome {
    // A function fails after the columns of its answer.
    match server.connect()?.query::<mysql::Row, _>(sql) {
        Err(mysql::Error::MySqlError(error)) if error.code == code => {
            ensure_says(&error.message, why)
        }
        other => Err(Failure(format!("{sql}: {other:?}, not error {code}"))),
    }
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn variables_and_tables_are_those_of_group_replication() -> Outcome {
    mysql_group::install_plugin(PLUGIN)?;
    let variables = "SELECT variable_name, data_type, m.min_value, m.max_value, variable_value \
        FROM performance_schema.variables_metadata m \
        LEFT JOIN performance_schema.global_variables USING (variable_name) \
        WHERE variable_name LIKE 'group_replication%' ORDER BY variable_name";
    let columns = "SELECT table_name, column_name, column_type, is_nullable, character_set_name \
        FROM information_schema.columns WHERE table_schema = 'performance_schema' \
        AND table_name LIKE 'replication_group_%' ORDER BY table_name, ordinal_position";
    let status = "SELECT variable_name FROM performance_schema.global_status \
        WHERE variable_name LIKE 'Gr\\_%'";
    let mut found = Vec::new();
    for (n, file) in (1..).zip(["group_replication.so", "synod_mysql.so"]) {
        let load = format!("--plugin-load-add={file}");
        let boot = "--loose-group-replication-start-on-boot=OFF";
        let root = mysql_server::installed()?;
        let name = format!("variables-{n}");
        let server = MysqlServer::new(root, &name, VARIABLES_PORT + n, &[&load, boot])?;
        found.push((
            [server.rows(variables)?, server.rows(columns)?],
            server.rows(status)?,
        ));
    }
    let [(theirs, their_status), (own, own_status)] = &found[..] else {
        return Err(Failure("not two servers".to_owned()));
    };
    for (theirs, own) in theirs.iter().zip(own) {
        ensure(theirs.len() > 30, || format!("{theirs:?}"))?;
        let differ: Vec<_> = own.iter().filter(|row| !theirs.contains(row)).collect();
        let lack: Vec<_> = theirs.iter().filter(|row| !own.contains(row)).collect();
        ensure(theirs == own, || format!("{differ:?} instead of {lack:?}"))?;
    }
    let is_known = own_status.iter().all(|name| their_status.contains(name));
    ensure(is_known && !own_status.is_empty(), || {
        format!("{own_status:?}, not of {their_status:?}")
    })
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_takes_local_writes_before_its_first_start_only() -> Outcome {
    mysql_group::install_plugin(PLUGIN)?;
    let address = format!("127.0.0.1:{}", OUTSIDE_PORT + 5);
    let options = [
        "--server-id=1".to_owned(),
        "--plugin-load-add=synod_mysql.so".to_owned(),
        "--log-replica-updates=OFF".to_owned(),
        "--innodb-flush-log-at-trx-commit=1".to_owned(),
        "--group-replication-start-on-boot=OFF".to_owned(),
        format!("--group-replication-group-name={NEW_GROUP}"),
        format!("--group-replication-local-address={address}"),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let root = mysql_server::installed()?;
    let mut server = MysqlServer::new(root, "outside", OUTSIDE_PORT, &options)?;
    server.execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.keyless (id INT)",
        "INSERT INTO e2e.keyless VALUES (1)",
        "SET GLOBAL group_replication_bootstrap_group = ON",
        "START GROUP_REPLICATION",
    ])?;
    let state = "SELECT member_state FROM performance_schema.replication_group_members";
    ensure(server.rows(state)?.len() == 1, || server.log())?;
    server.execute(&["STOP GROUP_REPLICATION"])?;
    refused(&server, "CREATE DATABASE later", READ_ONLY, "read-only")?;
    server.end("-TERM")?;
    server.start(&[])?;
    server.await_up()?;
    refused(&server, "CREATE DATABASE later", READ_ONLY, "read-only")?;
    ensure_says(
        &server.log(),
        "it takes no writes (super_read_only) before START",
    )
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn read_on_a_server_without_its_group_names_the_state() -> Outcome {
    mysql_group::install_plugin(PLUGIN)?;
    // Without a setting that it needs, it takes no part.
    let options = ["--server-id=1", "--plugin-load-add=synod_mysql.so"];
    let root = mysql_server::installed()?;
    let server = MysqlServer::new(root, "no-part", OUTSIDE_PORT + 1, &options)?;
    let mut client = server.connect()?;
    client
        .query_drop("SET SESSION group_replication_consistency = 'BEFORE'")
        .why("the level")?;
    match client.query_drop("SELECT COUNT(*) FROM mysql.user") {
        Err(mysql::Error::MySqlError(error)) if error.code == NOT_IN_GROUP => Ok(()),
        other => Err(Failure(format!("{other:?}, not error {NOT_IN_GROUP}"))),
    }
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn plugin_of_another_server_is_refused_when_it_is_installed() -> Outcome {
    let plugins = [
        (OTHER_VERSION, "it is built for MySQL 9.7.99"),
        (OTHER_LAYOUT, "other structures than the headers"),
    ];
    // A server keeps a library of one path: each is tried by a server of its own.
    for (n, (plugin, why)) in (0..).zip(plugins) {
        let root = mysql_server::installed()?;
        let name = format!("others-{n}");
        let server = MysqlServer::new(root, &name, OTHERS_PORT + n, &["--server-id=1"])?;
        mysql_group::install_plugin(plugin)?;
        let install = "INSTALL PLUGIN synod SONAME 'synod_mysql.so'";
        let installed = server.execute(&[install]);
        ensure(installed.is_err(), || {
            format!("{plugin:?} is loaded:\n{}", server.log())
        })?;
        ensure_says(&server.log(), why)?;
        // It works as before.
        server.execute(&["CREATE DATABASE e2e", "DROP DATABASE e2e"])?;
    }
    Ok(())
}

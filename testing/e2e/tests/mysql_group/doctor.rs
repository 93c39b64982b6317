//! `synod doctor` about servers of MySQL.

use synod_e2e::doctor::Doctor;
use synod_e2e::mysql_group::MysqlGroup;
use synod_e2e::{Outcome, ensure, ensure_says};

use mysql::prelude::Queryable;

const PORT: u16 = 19720;
const PROBLEMS: i32 = 11;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn doctor_names_what_a_group_of_mysql_does_not_take() -> Outcome {
    let mut group = MysqlGroup::new("doctor", PORT)?;
    let writer = group.await_whole()?;
    let server = &group.servers[writer];
    server.execute(&[
        "CREATE USER dba IDENTIFIED BY 'of caching_sha2'",
        "GRANT ALL ON *.* TO dba WITH GRANT OPTION",
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.good (a INT PRIMARY KEY)",
    ])?;
    group.await_same_position()?;
    let dir = group.data_dir(writer).join("..");
    let of = |server: usize| {
        let port = group.servers[server].port;
        Doctor::of_mysql(&dir, port, "dba", "of caching_sha2")
    };
    for server in 0..3 {
        let (findings, code) = of(server)?.findings()?;
        ensure(code == Some(0), || {
            format!("exit code {code:?}: {findings:#?}")
        })?;
        let wanted = ["note version the server is MySQL 9.7", "good settings "];
        for part in wanted {
            ensure_says(&findings.join("\n"), part)?;
        }
    }

    server.execute(&[
        "CREATE TABLE e2e.keyless (a INT)",
        "CREATE TABLE e2e.other (a INT PRIMARY KEY) ENGINE = MyISAM",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
        "SET GLOBAL sync_binlog = 1",
    ])?;
    let mut xa = server.connect()?;
    for sql in [
        "XA START 'x'",
        "INSERT INTO e2e.good VALUES (1)",
        "XA END 'x'",
    ] {
        xa.query_drop(sql)
            .map_err(|error| synod_e2e::Failure(error.to_string()))?;
    }
    let prepared = xa.query_drop("XA PREPARE 'x'");
    ensure(prepared.is_err(), || "XA PREPARE is taken".to_owned())?;
    let doctor = of(writer)?;
    let (findings, code) = doctor.findings()?;
    ensure(code == Some(PROBLEMS), || format!("exit code {code:?}"))?;
    let all = findings.join("\n");
    for part in [
        "problem tables e2e.keyless has no primary key",
        "problem tables e2e.other is of engine MyISAM",
        "problem settings innodb_flush_log_at_trx_commit is 2, and must be 1",
        "note settings sync_binlog is not 0",
        "problem features XA PREPARE was asked for 1 times",
    ] {
        ensure_says(&all, part)?;
    }
    // Its remedies make the findings of tables go away.
    for remedy in doctor
        .remedies()?
        .iter()
        .filter(|text| text.starts_with("ALTER"))
    {
        server.execute(&[remedy])?;
    }
    server.execute(&["SET GLOBAL innodb_flush_log_at_trx_commit = 1"])?;
    let (findings, _) = doctor.findings()?;
    let all = findings.join("\n");
    for gone in ["problem tables", "problem settings"] {
        ensure(!all.contains(gone), || format!("{gone} is still in {all}"))?;
    }
    group.same_rows("SELECT COUNT(*) FROM e2e.keyless")?;

    // A setting of the start, with which the plugin takes no part.
    let replica = synod_e2e::mysql_group::others(writer)[0];
    let doctor = of(replica)?;
    group.servers[replica].execute(&["SET GLOBAL super_read_only = OFF"])?;
    let (findings, _) = doctor.findings()?;
    ensure_says(
        &findings.join("\n"),
        "problem settings super_read_only is OFF",
    )?;
    group.servers[replica].end("-TERM")?;
    group.servers[replica].start(&["--log-replica-updates=ON"])?;
    group.servers[replica].await_up()?;
    let (findings, code) = doctor.findings()?;
    let all = findings.join("\n");
    ensure(code == Some(PROBLEMS), || all.clone())?;
    for part in [
        "problem settings log_replica_updates is ON, and must be OFF",
        "problem group this server takes no part in its group (stopped): log_replica_updates is",
    ] {
        ensure_says(&all, part)?;
    }
    let fix = doctor.run(&["--fix-config"])?;
    let fix = String::from_utf8_lossy(&fix.stdout).into_owned();
    ensure_says(&fix, "[mysqld]\nlog_replica_updates = OFF\n")?;
    group.servers[replica].end("-TERM")?;
    group.servers[replica].start(&[])?;
    group.await_state(replica, "replica")
}

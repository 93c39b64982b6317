//! `synod doctor` on a server that is alone, as before a migration, and on one of a group.

use std::path::Path;
use std::process::Command;
use std::thread;

use mysql::prelude::Queryable;
use synod_e2e::doctor::Doctor;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, place};

const BASE_PORT: u16 = 25906;

const GROUPS_BASE_PORT: u16 = 18106;

const ALL: [u8; 3] = [1, 2, 3];

fn ensure_found(findings: &[String], wanted: &[&str]) -> Outcome {
    for part in wanted {
        let is_found = findings.iter().any(|finding| finding.contains(part));
        ensure(is_found, || format!("no '{part}' in {findings:#?}"))?;
    }
    Ok(())
}

#[test]
fn server_outside_a_group_is_told_what_stands_in_the_way() -> Outcome {
    let mut cluster = TestCluster::empty("doctor", BASE_PORT, 1)?;
    cluster.up(&|_, _| ()).why("starting the server")?;
    cluster.create_account()?;
    cluster.execute(1, "CREATE TABLE e2e_data.old (a INT) ENGINE = MyISAM")?;
    cluster.execute(1, "CREATE TABLE e2e_data.`no key` (a INT)")?;
    cluster.execute(1, "SET GLOBAL innodb_snapshot_isolation = OFF")?;
    let event = "CREATE EVENT e2e_data.nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1";
    cluster.execute(1, event)?;

    let doctor = Doctor::of(&cluster, 1)?;
    let (findings, code) = doctor.findings()?;
    ensure(code == Some(11), || format!("exit code {code:?}"))?;
    ensure_found(
        &findings,
        &[
            "problem tables e2e_data.old (",
            "warning tables e2e_data.`no key` (",
            "warning settings innodb_snapshot_isolation is OFF",
            "warning features the event e2e_data.nightly is enabled",
            "good disk ",
        ],
    )?;
    remedies_work(&cluster, &doctor, &findings)?;
    account_for_copies_is_missed(&cluster, &doctor)?;
    writes_a_configuration_once(&cluster, &doctor)
}

/// The doctor's remedies make its findings go away.
fn remedies_work(cluster: &TestCluster, doctor: &Doctor, before: &[String]) -> Outcome {
    for remedy in doctor.remedies()? {
        if remedy.contains("RENAME TABLE") {
            follow(cluster, &remedy)?;
        }
    }
    cluster.execute(
        1,
        "DROP TABLE e2e_data.old_synod_old, e2e_data.`no key_synod_old`",
    )?;
    let (after, _) = doctor.findings()?;
    ensure(after.len() < before.len(), || format!("{after:#?}"))?;
    let no_longer = after
        .iter()
        .find(|finding| finding.contains(" tables e2e_data."));
    ensure(no_longer.is_none(), || format!("{after:#?}"))
}

/// Only where `mariabackup` could not connect to the server that it copies.
fn account_for_copies_is_missed(cluster: &TestCluster, doctor: &Doctor) -> Outcome {
    const MISSED: &str = "problem settings wsrep_sst_auth is empty";
    let is_missed = || -> Outcome<bool> {
        let (findings, _) = doctor.findings()?;
        Ok(findings.iter().any(|finding| finding.starts_with(MISSED)))
    };
    cluster.execute(1, "DROP USER IF EXISTS mysql@localhost")?;
    cluster.execute(1, "SET GLOBAL wsrep_sst_method = 'mariabackup'")?;
    cluster.execute(1, "SET GLOBAL wsrep_sst_auth = ''")?;
    ensure(is_missed()?, || "no account is no problem".to_owned())?;
    cluster.execute(1, "CREATE USER mysql@localhost IDENTIFIED VIA unix_socket")?;
    ensure(!is_missed()?, || {
        "the server's own user is not seen".to_owned()
    })?;
    cluster.execute(1, "DROP USER mysql@localhost")?;
    cluster.execute(1, "SET GLOBAL wsrep_sst_auth = 'sst:secret'")?;
    ensure(!is_missed()?, || {
        "an account in wsrep_sst_auth is not seen".to_owned()
    })
}

fn writes_a_configuration_once(cluster: &TestCluster, doctor: &Doctor) -> Outcome {
    let file = cluster.settings().dir.join("70-synod-doctor.cnf");
    let path = file.display().to_string();
    let shown = doctor.run(&["--fix-config", &path])?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure(text.contains("\ninnodb_snapshot_isolation = ON\n"), || {
        text.clone()
    })?;
    ensure(!file.exists(), || "it was written without --yes".to_owned())?;
    let written = doctor.run(&["--fix-config", &path, "--yes"])?;
    ensure(written.status.success(), || format!("{written:?}"))?;
    ensure_is_read(&file, "innodb_snapshot_isolation=ON")?;
    let again = doctor.run(&["--fix-config", &path, "--yes"])?;
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    ensure(
        again.status.code() == Some(1) && text.contains("not overwritten"),
        || text,
    )
}

/// The server's own reader of option files takes the file.
fn ensure_is_read(file: &Path, line: &str) -> Outcome {
    let output = Command::new("my_print_defaults")
        .arg(format!("--defaults-file={}", file.display()))
        .arg("--mysqld")
        .output()
        .why("my_print_defaults")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(text.contains(line), || format!("no '{line}' in:\n{text}"))
}

/// The rows of tables without a primary key lie in another order on each server, and those of
/// MyISAM are on one server only.
#[test]
fn remedies_leave_the_servers_of_a_group_alike() -> Outcome {
    let cluster = TestCluster::fresh("doctor-group", GROUPS_BASE_PORT)?;
    for sql in [
        "CREATE TABLE e2e_data.keyless (word VARCHAR(20), `key` INT)",
        "CREATE SEQUENCE e2e_data.numbers NOCACHE",
        "CREATE TABLE e2e_data.identified (a INT NOT NULL, b INT NOT NULL, UNIQUE (a, b))",
        "INSERT INTO e2e_data.identified VALUES (1, 1), (1, 2), (2, 1)",
    ] {
        cluster.execute(1, sql)?;
    }
    insert_in_another_order_on_each_server(&cluster)?;
    for sql in [
        "CREATE TABLE e2e_data.old (id INT PRIMARY KEY, twice INT AS (2 * id) STORED)
           ENGINE = MyISAM",
        "INSERT INTO e2e_data.old (id) VALUES (1), (2), (3)",
        "CREATE TABLE e2e_data.heap (word VARCHAR(20)) ENGINE = MEMORY",
        "INSERT INTO e2e_data.heap VALUES ('a'), ('b')",
        "SET GLOBAL innodb_lock_wait_timeout = 50",
        "SET GLOBAL wsrep_slave_threads = 1",
    ] {
        cluster.execute(1, sql)?;
    }
    let doctor = Doctor::of(&cluster, 1)?;
    let remedies = doctor.remedies()?;
    ensure(remedies.len() >= 6, || format!("{remedies:#?}"))?;
    for remedy in &remedies {
        follow(&cluster, remedy)?;
    }
    let (after, _) = doctor.findings()?;
    for left in [
        "e2e_data.keyless (",
        "e2e_data.identified (",
        "`numbers`",
        "e2e_data.old (",
        "timeout is 50",
    ] {
        let found = after.iter().find(|finding| finding.contains(left));
        ensure(found.is_none(), || format!("{after:#?}"))?;
    }
    for table in ["keyless", "old", "heap"] {
        cluster.execute(1, &format!("DROP TABLE e2e_data.{table}_synod_old"))?;
    }
    agreement::check(&cluster, &ALL)?;
    for sql in [
        "UPDATE e2e_data.keyless SET `key` = -1 WHERE id BETWEEN 20 AND 30",
        "DELETE FROM e2e_data.keyless WHERE id BETWEEN 40 AND 60",
        "UPDATE e2e_data.old SET id = 9 WHERE id = 2",
        "DELETE FROM e2e_data.heap WHERE word = 'a'",
    ] {
        cluster.execute(2, sql)?;
    }
    agreement::check(&cluster, &ALL)?;
    let rows = cluster.rows(3, "SELECT id, twice FROM e2e_data.old ORDER BY 1")?;
    ensure(rows == ["1\t2", "3\t6", "9\t18"], || format!("{rows:?}"))
}

/// Clients of all servers write at once until the servers show the rows in different orders.
fn insert_in_another_order_on_each_server(cluster: &TestCluster) -> Outcome {
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        thread::scope(|scope| {
            let writers = ALL.map(|node| {
                scope.spawn(move || -> Outcome {
                    let mut client = cluster.connect(node)?;
                    for number in 0..50 {
                        let row = format!("('{node}-{round}', {number})");
                        client
                            .query_drop(format!("INSERT INTO e2e_data.keyless VALUES {row}"))
                            .why("a row")?;
                    }
                    Ok(())
                })
            });
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().expect("a writer"))
        })?;
        agreement::check(cluster, &[1, 2, 3])?;
        let shown = |node| cluster.rows(node, "SELECT word FROM e2e_data.keyless");
        if shown(1)? != shown(2)? {
            return Ok(());
        }
    }
    Err("the servers keep one order").why("rows without a primary key")
}

/// Executes a remedy in one session, if it is one for SQL: statements, or a variable's line.
fn follow(cluster: &TestCluster, remedy: &str) -> Outcome {
    if let Some((name, value)) = remedy
        .split_once(" = ")
        .filter(|(name, _)| !name.contains(' '))
    {
        // Some are read at the start only.
        let _ = cluster.execute(1, &format!("SET GLOBAL {name} = {value}"));
        return Ok(());
    }
    let mut client = cluster.connect(1)?;
    let lines = remedy.lines().filter(|line| line.ends_with(';'));
    for statement in lines {
        client.query_drop(statement).why(statement)?;
    }
    Ok(())
}

#[test]
fn server_that_cannot_be_asked_is_said_to_be_so() -> Outcome {
    let output = Command::new(place::program()?)
        .args(["doctor", "--socket", "/nonexistent/socket"])
        .output()
        .why("running synod doctor")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.code() == Some(1), || format!("{output:?}"))?;
    ensure(text.contains("the server cannot be asked"), || text)
}

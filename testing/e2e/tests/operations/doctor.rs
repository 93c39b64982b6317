//! `synod doctor` on a server that is alone, as before a migration, and on one of a group.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use synod_e2e::doctor::Doctor;
use synod_e2e::{Outcome, TestCluster, Why, ensure, place};

const BASE_PORT: u16 = 25906;

fn ensure_found(findings: &[String], wanted: &[&str]) -> Outcome {
    for part in wanted {
        let is_found = findings.iter().any(|finding| finding.contains(part));
        ensure(is_found, || format!("no '{part}' in {findings:#?}"))?;
    }
    Ok(())
}

#[test]
fn server_outside_a_group_is_told_what_stands_in_the_way() -> Outcome {
    if place::is_galera() {
        return Ok(());
    }
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

/// What the doctor says to do makes its findings go away.
fn remedies_work(cluster: &TestCluster, doctor: &Doctor, before: &[String]) -> Outcome {
    let output = doctor.run(&["--json"])?;
    let document: Value = serde_json::from_slice(&output.stdout).why("the findings as JSON")?;
    let remedies = document["findings"].as_array().into_iter().flatten();
    let statements = remedies.filter_map(|finding| {
        let remedy = finding["remedy"].as_str()?;
        remedy.starts_with("ALTER TABLE").then_some(remedy)
    });
    for statement in statements {
        cluster.execute(1, statement)?;
    }
    let (after, _) = doctor.findings()?;
    ensure(after.len() < before.len(), || format!("{after:#?}"))?;
    ensure_found(&after, &["warning tables e2e_data.old ("])?;
    let no_longer = after
        .iter()
        .find(|finding| finding.starts_with("problem tables"));
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

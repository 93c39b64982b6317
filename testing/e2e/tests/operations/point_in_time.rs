//! The commands of `docs/operating/point-in-time.md`: a server as the group was before a mistake.

use std::fs;
use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::drill::Page;
use synod_e2e::programs::run_commands;
use synod_e2e::relay::{PASSWORD, Relay, USER};
use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 30806;
const PAGE: Page = Page("point-in-time.md");
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Commands appended to those of the page.
const END: &str = "
mariadb --socket=\"$SOCKET\" --user=root -N -e 'SELECT SUM(id), COUNT(*) FROM e2e_data.orders'
mariadb-admin --socket=\"$SOCKET\" --user=root shutdown
wait
";

#[test]
fn commands_of_the_manual_restore_what_was_dropped() -> Outcome {
    let (cluster, secret) = TestCluster::with_secret("point-in-time", BASE_PORT, 1)?;
    let mut relay = Relay::beside(&cluster, 1, &secret)?;
    relay.join()?;
    let outcome = restore(&cluster, &relay);
    if outcome.is_err() {
        eprintln!("{}\n{}", cluster.describe(), relay.says());
    }
    outcome
}

fn restore(cluster: &TestCluster, relay: &Relay) -> Outcome {
    let blocks = PAGE.shell_blocks()?;
    let [_, copy, find, end, start, replay] = blocks.as_slice() else {
        return ensure(false, || format!("{PAGE:?} has {} blocks", blocks.len()));
    };
    let variables = variables(cluster, relay)?;
    let mut conn = cluster.connect(1)?;
    run(
        &mut conn,
        &[
            "CREATE TABLE e2e_data.orders (id INT PRIMARY KEY)",
            "INSERT INTO e2e_data.orders VALUES (1), (2)",
        ],
    )?;
    run_commands(cluster, &[&variables, copy])?;
    run(
        &mut conn,
        &[
            "INSERT INTO e2e_data.orders VALUES (10), (20)",
            "UPDATE e2e_data.orders SET id = 30 WHERE id = 1",
            "DROP TABLE e2e_data.orders",
            "CREATE TABLE e2e_data.orders (id INT PRIMARY KEY)",
            "INSERT INTO e2e_data.orders VALUES (100)",
        ],
    )?;
    let last = conn.query_first::<String, _>("SELECT MAX(id) FROM e2e_data.orders");
    ensure(last.why("the group")?.as_deref() == Some("100"), || {
        "the group does not run on".to_owned()
    })?;
    let arrived = wait_for(PATIENCE, || {
        let text = relay.binlog(&["synod.0"]).ok()?;
        text.contains("DROP TABLE e2e_data.orders").then_some(())
    });
    ensure(arrived.is_some(), || "the relay lags".to_owned())?;
    binlog_ends_at_a_time(&mut conn, relay)?;
    let said = run_commands(cluster, &[&variables, find, end, start, replay, END])?;
    let last = said.lines().rfind(|line| line.contains('\t'));
    ensure(last == Some("62\t4"), || said.clone())
}

/// Everything comes up to a time that has passed, and nothing that is younger.
fn binlog_ends_at_a_time(conn: &mut mysql::Conn, relay: &Relay) -> Outcome {
    const AFTER_ALL: &str = "SELECT NOW() + INTERVAL 1 SECOND";
    let time: Option<String> = conn.query_first(AFTER_ALL).why(AFTER_ALL)?;
    let time = time.unwrap_or_default();
    let has_passed = wait_for(PATIENCE, || {
        let passed = format!("SELECT NOW() > '{time}'");
        conn.query_first(passed)
            .ok()?
            .filter(|passed: &bool| *passed)
    });
    ensure(has_passed.is_some(), || "the clock stands still".to_owned())?;
    let has_drop = |stop: &str| {
        let text = relay.binlog(&[&format!("--stop-datetime={stop}"), "synod.0"])?;
        Ok(text.contains("DROP TABLE e2e_data.orders"))
    };
    ensure(has_drop(&time)?, || format!("nothing comes up to {time}"))?;
    ensure(!has_drop("2001-01-01 00:00:00")?, || {
        "what is younger has come".to_owned()
    })
}

fn run(conn: &mut mysql::Conn, statements: &[&str]) -> Outcome {
    let mut statements = statements.iter();
    statements.try_for_each(|sql| conn.query_drop(sql).why(sql))
}

/// First block with this test's values for the page's names.
fn variables(cluster: &TestCluster, relay: &Relay) -> Outcome<String> {
    let dir = cluster.settings().dir.join("restored");
    if dir.exists() {
        fs::remove_dir_all(&dir).why("the restored server of an earlier run")?;
    }
    fs::create_dir_all(&dir).why(dir.display())?;
    let account = format!(
        "[client]\nhost = 127.0.0.1\nport = {}\nuser = {USER}\npassword = \"{PASSWORD}\"\n",
        relay.port
    );
    fs::write(dir.join("relay.cnf"), account).why("the relay's account")?;
    let user = cluster.user();
    user.give(&dir).why(dir.display())?;
    let port = cluster.port(1);
    let at = dir.display();
    Ok(format!(
        "cd '{at}'
         SERVER='--host=127.0.0.1 --port={port} --user=e2e --password=e2e'
         COPY='{at}/copy'
         RELAY='--defaults-extra-file={at}/relay.cnf'
         RESTORED='{at}/data'
         SOCKET='{at}/sock'
         MYSQL_USER=$(stat -c %U '{at}')
        "
    ))
}

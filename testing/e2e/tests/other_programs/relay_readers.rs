//! Programs for change data capture read from a relay: a group's changes, and an upstream's.

use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::readers::{Readers, Schema};
use synod_e2e::relay::{PASSWORD, Relay, USER};
use synod_e2e::relay_group::{RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, TestCluster, Why, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 30506;
const UPSTREAM_PORT: u16 = 30606;
const RELAYS_PORT: u16 = 30620;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

const STATEMENTS: [&str; 7] = [
    "CREATE TABLE e2e_data.orders (id INT PRIMARY KEY, item VARCHAR(20), amount INT)",
    "INSERT INTO e2e_data.orders VALUES (1, 'apples', 3), (2, 'pears', 5)",
    "UPDATE e2e_data.orders SET amount = 4 WHERE id = 1",
    "BEGIN",
    "DELETE FROM e2e_data.orders WHERE id = 2",
    "INSERT INTO e2e_data.orders VALUES (3, 'plums', 7)",
    "COMMIT",
];

#[test]
fn changes_are_read_by_programs_for_that() -> Outcome {
    let readers = Readers::install()?;
    let (cluster, secret) = TestCluster::with_secret("relay-readers", BASE_PORT, 1)?;
    let mut relay = Relay::beside(&cluster, 1, &secret)?;
    let server = format!("[\"127.0.0.1:{}\"]", cluster.port(1));
    relay.set("relay.sql_servers", &server);
    relay.join()?;
    cluster.execute(
        1,
        &format!("GRANT SELECT ON *.* TO {USER} IDENTIFIED BY '{PASSWORD}'"),
    )?;
    let outcome = read(&cluster, &relay, &readers);
    if outcome.is_err() {
        eprintln!("{}\n{}", cluster.describe(), relay.says());
    }
    outcome
}

fn read(cluster: &TestCluster, relay: &Relay, readers: &Readers) -> Outcome {
    let before = await_gtids(relay, 1)?;
    let mut conn = cluster.connect(1)?;
    for sql in STATEMENTS {
        conn.query_drop(sql).why(sql)?;
    }
    // The statement, and three transactions.
    await_gtids(relay, before.len() + 4)?;
    let last = before.last().cloned().unwrap_or_default();
    // The relay asks the server.
    let schema = Schema {
        port: relay.port,
        user: USER,
        password: PASSWORD,
    };
    read_changes(readers, relay.port, &last, &schema)
}

#[test]
fn changes_of_an_upstream_are_read_by_programs_for_that() -> Outcome {
    let readers = Readers::install()?;
    let dir = place::cluster_dir("relay-readers-upstream")?;
    let primary = StockServer::new(&dir.join("primary"), UPSTREAM_PORT, &UPSTREAM_OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    primary.execute(&[
        "CREATE DATABASE e2e_data",
        "CREATE USER schema_reader IDENTIFIED BY 'secret'",
        "GRANT SELECT ON e2e_data.* TO schema_reader",
    ])?;
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    primary.execute(&STATEMENTS)?;
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let relay = &group.relays[0];
    let kept = wait_for(PATIENCE, || {
        let status = relay.status().ok()?;
        (status["gtids"] == newest.as_str()).then_some(())
    });
    ensure(kept.is_some(), || relay.says())?;
    let schema = Schema {
        port: primary.port,
        user: "schema_reader",
        password: "secret",
    };
    read_changes(&readers, relay.port, &last, &schema)
}

/// Each of the programs reads what the statements have changed.
fn read_changes(readers: &Readers, port: u16, last: &str, schema: &Schema) -> Outcome {
    let found = readers.python(port, last, schema)?;
    let expected = [
        "insert e2e_data.orders id=1 item=apples amount=3",
        "insert e2e_data.orders id=2 item=pears amount=5",
        "update e2e_data.orders id=1 item=apples amount=4",
        "delete e2e_data.orders id=2 item=pears amount=5",
        "insert e2e_data.orders id=3 item=plums amount=7",
    ];
    same("python-mysql-replication", &found, &expected)?;

    let found = readers.go(port, last)?;
    let expected = [
        "insert e2e_data.orders [1 apples 3]",
        "insert e2e_data.orders [2 pears 5]",
        "update e2e_data.orders [1 apples 3]",
        "update e2e_data.orders [1 apples 4]",
        "delete e2e_data.orders [2 pears 5]",
        "insert e2e_data.orders [3 plums 7]",
    ];
    same("go-mysql", &found, &expected)
}

fn same(reader: &str, found: &[String], expected: &[&str]) -> Outcome {
    ensure(found == expected, || {
        format!("{reader} reads:\n{}", found.join("\n"))
    })
}

/// Waits until the relay has as many transactions.
fn await_gtids(relay: &Relay, count: usize) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let come = wait_for(PATIENCE, || {
        found = relay.gtids().ok()?;
        (found.len() >= count).then_some(())
    });
    ensure(come.is_some(), || format!("GTIDs: {found:?}"))?;
    Ok(found)
}

//! A server of a group replicates from a relay of a primary outside it. Where it is, is known on
//! all servers of the group: when it is killed, another one continues, and no row comes twice.

use mysql::prelude::Queryable;
use synod_e2e::relay;
use synod_e2e::relay_group::RelayGroup;
use synod_e2e::stock_server::{PATIENCE, StockServer};
use synod_e2e::{Outcome, TestCluster, Why, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 24106;
const PORT: u16 = 19406;
const RELAYS_PORT: u16 = 19420;
const SERVERS: [u8; 3] = [1, 2, 3];
const OPTIONS: [&str; 4] = [
    "--server-id=77",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
];
/// Rows that are inserted at a time.
const ROWS: usize = 200;

#[test]
fn another_server_of_the_group_continues_where_the_replica_was() -> Outcome {
    let dir = place::cluster_dir("relay-into-group-upstream")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut relays = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    relays.begin()?;
    let mut cluster = TestCluster::empty("relay-into-group", BASE_PORT, 3)?;
    for node in SERVERS {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        // What the manual says.
        own.extra_lines.extend([
            "log_bin = bin".to_owned(),
            "log_slave_updates = ON".to_owned(),
            "server_id = 50".to_owned(),
            format!("gtid_domain_id = {}", 20 + node),
            "wsrep_gtid_mode = ON".to_owned(),
            "wsrep_gtid_domain_id = 9".to_owned(),
            "innodb_flush_log_at_trx_commit = 1".to_owned(),
            "skip_slave_start".to_owned(),
        ]);
    }
    cluster.up(&|_, _| ()).why("starting the servers")?;
    cluster.create_account()?;
    let outcome = continue_elsewhere(&primary, &relays, &mut cluster);
    if outcome.is_err() {
        eprintln!("{}\n{}", cluster.describe(), relays.says());
    }
    outcome
}

fn continue_elsewhere(
    primary: &StockServer,
    relays: &RelayGroup,
    cluster: &mut TestCluster,
) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, turn INT)",
    ])?;
    let port = relays.relays[0].port;
    follow(cluster, 1, port)?;
    insert(primary, 1)?;
    await_same(primary, cluster, &SERVERS)?;
    std::thread::scope(|threads| {
        let inserting = threads.spawn(|| insert(primary, 2));
        cluster.kill(1).why("killing the replica")?;
        // Its threads stop while there is no majority.
        cluster
            .await_synced(&[2, 3], &|_, _| ())
            .why("after the kill")?;
        follow(cluster, 2, port)?;
        inserting.join().unwrap_or(Ok(()))
    })?;
    insert(primary, 3)?;
    await_same(primary, cluster, &[2, 3])?;

    // A replica that comes back after a crash continues by itself.
    cluster.start(1, &|_, _| ()).why("the first replica")?;
    std::thread::scope(|threads| {
        let inserting = threads.spawn(|| insert(primary, 4));
        await_rows(cluster, 3, "turn = 4", 20)?;
        cluster.kill(2).why("killing the second replica")?;
        cluster.start(2, &|_, _| ()).why("the second replica")?;
        let mut conn = cluster.connect(2)?;
        conn.query_drop("START SLAVE").why("START SLAVE")?;
        inserting.join().unwrap_or(Ok(()))
    })?;
    await_same(primary, cluster, &SERVERS)
}

/// Without what the manual says, the group gets the rows of a replica, and not its place. A replica
/// that has lost its place by a crash stops, and executes nothing again: one statement would count
/// twice.
#[test]
fn replica_that_has_lost_its_place_executes_nothing_twice() -> Outcome {
    let dir = place::cluster_dir("lost-place-source")?;
    let statements = [
        "--server-id=77",
        "--log-bin=primary",
        "--binlog-format=STATEMENT",
    ];
    let primary = StockServer::new(&dir.join("primary"), PORT, &statements)?;
    let grant = format!("GRANT REPLICATION SLAVE ON *.* TO {}", relay::USER);
    let user = format!(
        "CREATE USER {} IDENTIFIED BY '{}'",
        relay::USER,
        relay::PASSWORD
    );
    let create = "CREATE TABLE shop.orders (id INT PRIMARY KEY, v INT)";
    let row = "INSERT INTO shop.orders VALUES (1, 0)";
    primary.execute(&[&user, &grant, "CREATE DATABASE shop", create, row])?;
    let mut cluster = TestCluster::empty("lost-place", BASE_PORT, 3)?;
    // A kill loses everything that was executed last.
    let replica = cluster.settings_mut().overrides.entry(1).or_default();
    let flushes = "innodb_flush_log_at_timeout = 300".to_owned();
    replica.extra_lines.push(flushes);
    cluster.up(&|_, _| ()).why("starting the servers")?;
    cluster.create_account()?;
    let outcome = lose_the_place(&primary, &mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn lose_the_place(primary: &StockServer, cluster: &mut TestCluster) -> Outcome {
    const COUNTED: u32 = 100;
    follow(cluster, 1, PORT)?;
    let count = "UPDATE shop.orders SET v = v + 1 WHERE id = 1";
    primary.execute(&vec![count; COUNTED as usize])?;
    await_rows(cluster, 3, &format!("v = {COUNTED}"), 1)?;
    cluster.kill(1).why("killing the replica")?;
    primary.execute(&[count])?;
    cluster.start(1, &|_, _| ()).why("the replica")?;
    cluster.await_line(1, "have come back from the group's log after a crash")?;
    cluster.await_line(1, "refuses what comes from the server with server_id 77")?;
    for node in SERVERS {
        let rows = cluster.rows(node, "SELECT v FROM shop.orders")?;
        ensure(rows == [COUNTED.to_string()], || {
            format!("node{node}: {rows:?}")
        })?;
    }
    Ok(())
}

fn await_rows(cluster: &TestCluster, node: u8, condition: &str, count: u32) -> Outcome {
    let sql = format!("SELECT COUNT(*) >= {count} FROM shop.orders WHERE {condition}");
    let found = wait_for(PATIENCE, || {
        (cluster.rows(node, &sql).ok()? == ["1"]).then_some(())
    });
    ensure(found.is_some(), || {
        format!("node{node} has not {count} rows with {condition}")
    })
}

/// Has a server of the group replicate from what listens on this port, from where the group is.
fn follow(cluster: &TestCluster, node: u8, port: u16) -> Outcome {
    let (user, password) = (relay::USER, relay::PASSWORD);
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}',
         MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=0"
    );
    let mut conn = cluster.connect(node)?;
    // Everything that the former replica has brought is applied, so the position is the group's.
    conn.query_drop("SET wsrep_sync_wait = 1").why("SET")?;
    conn.query_drop("SELECT 1").why("waiting for the group")?;
    conn.query_drop(&change).why(&change)?;
    conn.query_drop("START SLAVE").why("START SLAVE")
}

fn insert(primary: &StockServer, turn: u32) -> Outcome {
    let insert = format!("INSERT INTO shop.orders (turn) VALUES ({turn})");
    primary.execute(&vec![insert.as_str(); ROWS])
}

/// Waits until these servers have the primary's rows, and know up to where they have them.
fn await_same(primary: &StockServer, cluster: &TestCluster, nodes: &[u8]) -> Outcome {
    const SUM: &str = "CHECKSUM TABLE shop.orders";
    let sum = primary.rows(SUM)?;
    let position = primary.rows("SELECT @@gtid_binlog_pos")?;
    for node in nodes {
        let mut found = Vec::new();
        let same = wait_for(PATIENCE, || {
            found = [SUM, "SELECT @@gtid_slave_pos"]
                .into_iter()
                .flat_map(|sql| cluster.rows(*node, sql).unwrap_or_default())
                .collect();
            (found == [sum.as_slice(), &position].concat()).then_some(())
        });
        ensure(same.is_some(), || {
            let status = cluster.rows(*node, "SHOW SLAVE STATUS");
            format!("node{node}: {found:?}, not {sum:?} at {position:?}: {status:?}")
        })?;
    }
    Ok(())
}

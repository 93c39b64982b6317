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
    if place::is_galera() {
        return Ok(());
    }
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
    await_same(primary, cluster, &[2, 3])
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

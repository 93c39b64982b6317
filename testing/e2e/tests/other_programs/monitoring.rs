//! Tools that know Galera watch a cluster of Synod and direct clients to its healthy nodes.
//!
//! Needs the packages `prometheus-mysqld-exporter` and `haproxy`.

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::harness::client_options;
use synod_e2e::monitor::{balancer_states, http_get, start_balancer, start_exporter};
use synod_e2e::{Outcome, Shared, TestCluster, Why, ensure, place};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("monitoring", 29306);

const PATIENCE: Duration = Duration::from_secs(60);
const EXPORTER_PORT: u16 = 29390;
const BALANCER_PORT: u16 = 29391;
const STATS_PORT: u16 = 29392;

/// Metrics that dashboards and alerts are built on, with the values of a healthy cluster of three.
const HEALTHY: [&str; 7] = [
    "mysql_up 1",
    "mysql_global_status_wsrep_cluster_size 3",
    "mysql_global_status_wsrep_cluster_status 1",
    "mysql_global_status_wsrep_connected 1",
    "mysql_global_status_wsrep_local_state 4",
    "mysql_global_status_wsrep_ready 1",
    "mysql_galera_variables_info{wsrep_cluster_name=\"synod-e2e-monitoring\"} 1",
];

/// Metrics whose value depends on what the cluster did.
const PRESENT: [&str; 12] = [
    "mysql_galera_evs_repl_latency_avg_seconds",
    "mysql_galera_gcache_size_bytes",
    "mysql_galera_status_info",
    "mysql_global_status_wsrep_cluster_conf_id",
    "mysql_global_status_wsrep_flow_control_paused",
    "mysql_global_status_wsrep_last_committed",
    "mysql_global_status_wsrep_local_bf_aborts",
    "mysql_global_status_wsrep_local_cert_failures",
    "mysql_global_status_wsrep_local_recv_queue",
    "mysql_global_status_wsrep_local_send_queue",
    "mysql_global_status_wsrep_received_bytes",
    "mysql_global_status_wsrep_replicated_bytes",
];

#[test]
fn exporter_shows_the_metrics_that_dashboards_use() {
    CLUSTER.scenario("Prometheus' exporter", |cluster| {
        let _exporter = start_exporter(cluster, 2, EXPORTER_PORT)?;
        let page = wait_for(PATIENCE, || http_get(EXPORTER_PORT, "/metrics").ok());
        let page = page.ok_or("no answer").why("the exporter")?;
        for metric in HEALTHY {
            ensure(page.lines().any(|line| line == metric), || {
                format!(
                    "no '{metric}' on the exporter's page: {}",
                    wsrep_lines(&page)
                )
            })?;
        }
        for name in PRESENT {
            ensure(page.lines().any(|line| line.starts_with(name)), || {
                format!("no {name} on the exporter's page: {}", wsrep_lines(&page))
            })?;
        }
        Ok(())
    });
}

fn wsrep_lines(page: &str) -> String {
    let lines = page.lines().filter(|l| !l.starts_with('#'));
    lines
        .filter(|l| l.contains("wsrep") || l.contains("galera"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn balancer_follows_the_members_that_serve() {
    CLUSTER.scenario("HAProxy with clustercheck's question", |cluster| {
        let dir = place::cluster_dir("monitoring-haproxy")?;
        let nodes = [1, 2, 3];
        let _balancer = start_balancer(cluster, &nodes, &dir, (BALANCER_PORT, STATS_PORT))?;
        await_states(["UP", "UP", "UP"])?;
        ensure_served_by(cluster, 1)?;

        cluster.kill(1).why("kill")?;
        await_states(["DOWN", "UP", "UP"])?;
        ensure_served_by(cluster, 2)?;

        // The last one alive has no majority: it must not look healthy.
        cluster.kill(2).why("kill")?;
        await_states(["DOWN", "DOWN", "DOWN"])?;

        cluster.up(&|_, _| ()).why("starting again")?;
        await_states(["UP", "UP", "UP"])?;
        ensure_served_by(cluster, 1)
    });
}

fn await_states(expected: [&str; 3]) -> Outcome {
    let states = || balancer_states(STATS_PORT).unwrap_or_default();
    let is_so = || {
        let states = states();
        let fits = |((_, seen), wanted): (&(String, String), &&str)| seen.starts_with(*wanted);
        (states.len() == 3 && states.iter().zip(&expected).all(fits)).then_some(())
    };
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("HAProxy says {:?}, not {expected:?}", states())
    })
}

/// A client of the balancer works on this node.
fn ensure_served_by(cluster: &TestCluster, node: u8) -> Outcome {
    let mut client = Conn::new(client_options(BALANCER_PORT)).why("connecting through HAProxy")?;
    client
        .query_drop(
            "CREATE TABLE IF NOT EXISTS e2e_data.balanced (id INT AUTO_INCREMENT PRIMARY KEY)",
        )
        .why("a table")?;
    client
        .query_drop("INSERT INTO e2e_data.balanced () VALUES ()")
        .why("an insert")?;
    let port: Option<u16> = client.query_first("SELECT @@port").why("the port")?;
    ensure(port == Some(cluster.port(node)), || {
        format!("clients are served at port {port:?}, not by node {node}")
    })
}

/// ProxySQL compares this number with `max_transactions_behind`.
#[test]
fn queue_shows_how_many_actions_a_server_lags() {
    CLUSTER.scenario("the receive queue", |cluster| {
        const LAGS: i64 = 7;
        cluster.execute(1, "CREATE TABLE e2e_data.queued (id SERIAL)")?;
        await_queue(cluster, |queue| queue == 0)?;
        let mut pausing = cluster.connect(3)?;
        pausing
            .query_drop("FLUSH TABLES WITH READ LOCK")
            .why("pausing node 3")?;
        for _ in 0..LAGS {
            cluster.execute(1, "INSERT INTO e2e_data.queued () VALUES ()")?;
        }
        await_queue(cluster, |queue| queue == LAGS)?;
        pausing.query_drop("UNLOCK TABLES").why("going on")?;
        await_queue(cluster, |queue| queue == 0)
    });
}

/// Waits until node 3 shows such a queue.
fn await_queue(cluster: &TestCluster, wanted: impl Fn(i64) -> bool) -> Outcome {
    let shown = || {
        let rows = cluster.rows(3, "SHOW STATUS LIKE 'wsrep_local_recv_queue'");
        let rows = rows.ok()?;
        rows.first()?.split('\t').nth(1)?.parse::<i64>().ok()
    };
    let is_so = || shown().filter(|queue| wanted(*queue));
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("node 3 shows wsrep_local_recv_queue {:?}", shown())
    })
}

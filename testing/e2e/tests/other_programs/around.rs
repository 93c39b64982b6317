//! Programs that people have around their servers: HAProxy with the packaged settings and the
//! agents, ProxySQL's question, `mydumper` and `myloader`, `pt-online-schema-change`.
//!
//! Needs the packages `haproxy`, `mydumper` and `percona-toolkit`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::agent_process::AgentProcess;
use synod_e2e::harness::{PASSWORD, USER, client_options};
use synod_e2e::monitor::http_get;
use synod_e2e::packaged_proxy::{self, ProxyPorts};
use synod_e2e::{Outcome, Shared, TestCluster, Why, ensure, ensure_says, place};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("around", 29806);

const PATIENCE: Duration = Duration::from_secs(60);
const PROXY: ProxyPorts = ProxyPorts {
    writer: 29890,
    readers: 29891,
    clustercheck: 29892,
    health: 29893,
};
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn haproxy_sends_writes_to_the_leader_and_reads_to_servers_in_step() {
    CLUSTER.scenario("HAProxy with the agents", |cluster| {
        let dir = place::cluster_dir("around-haproxy")?;
        fs::create_dir_all(&dir).why("a directory")?;
        let token = dir.join("token");
        fs::write(&token, TOKEN).why("the token")?;
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).why("the token")?;
        let token = token.display().to_string();
        let agents = (1..=3)
            .map(|node| AgentProcess::start(cluster, node, &["--token-file", &token]))
            .collect::<Outcome<Vec<_>>>()?;
        let _proxy = packaged_proxy::start(cluster, &agents, TOKEN, &dir, PROXY)?;
        let leader = cluster.leader();
        await_served(cluster, PROXY.writer, &[leader])?;
        await_served(cluster, PROXY.readers, &[1, 2, 3])?;
        await_served(cluster, PROXY.clustercheck, &[1, 2, 3])?;
        http_get(PROXY.health, "/healthz")?;
        paused_server_is_left_out(cluster)?;
        donor_is_left_out(cluster)?;
        writes_go_on_without_the_leader(cluster, leader)
    });
}

/// Waits until clients of a port are served by exactly these nodes.
fn await_served(cluster: &TestCluster, port: u16, nodes: &[u8]) -> Outcome {
    let wanted: BTreeSet<u16> = nodes.iter().map(|node| cluster.port(*node)).collect();
    let served = || -> Option<BTreeSet<u16>> {
        let ask = |_| {
            let mut client = Conn::new(client_options(port)).ok()?;
            client.query_first("SELECT @@port").ok()?
        };
        (0..9).map(ask).collect()
    };
    let is_so = || (served()? == wanted).then_some(());
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!(
            "clients of port {port} are served by {:?}, not {wanted:?}",
            served()
        )
    })
}

/// Pauses a server as a backup does: it shows the state of a donor meanwhile.
fn paused_server_is_left_out(cluster: &TestCluster) -> Outcome {
    let slow = cluster.follower();
    let mut pausing = cluster.connect(slow)?;
    let pause = "FLUSH TABLES WITH READ LOCK";
    pausing.query_drop(pause).why("pausing a follower")?;
    let mut client = Conn::new(client_options(PROXY.writer)).why("a client")?;
    client
        .query_drop("CREATE TABLE e2e_data.behind (id SERIAL)")
        .why("a write that the follower lacks")?;
    await_served(cluster, PROXY.readers, &cluster.others(slow))?;
    await_served(cluster, PROXY.clustercheck, &cluster.others(slow))?;
    pausing.query_drop("UNLOCK TABLES").why("going on")?;
    await_served(cluster, PROXY.readers, &[1, 2, 3])
}

/// A server out of step shows the state of a donor.
fn donor_is_left_out(cluster: &TestCluster) -> Outcome {
    let donor = cluster.follower();
    cluster.execute(donor, "SET GLOBAL wsrep_desync = ON")?;
    let others = cluster.others(donor);
    await_served(cluster, PROXY.readers, &others)?;
    await_served(cluster, PROXY.clustercheck, &others)?;
    cluster.execute(donor, "SET GLOBAL wsrep_desync = OFF")?;
    await_served(cluster, PROXY.readers, &[1, 2, 3])
}

fn writes_go_on_without_the_leader(cluster: &mut TestCluster, leader: u8) -> Outcome {
    cluster.execute(1, "CREATE TABLE e2e_data.written (id INT PRIMARY KEY)")?;
    let insert = |client: &mut Option<Conn>, id: u32| -> Option<u32> {
        let conn = match client {
            Some(conn) => conn,
            None => client.insert(Conn::new(client_options(PROXY.writer)).ok()?),
        };
        let done = conn.query_drop(format!("INSERT INTO e2e_data.written VALUES ({id})"));
        if done.is_err() {
            *client = None;
        }
        done.ok().map(|()| id)
    };
    let mut client = None;
    let before: Vec<u32> = (0..50).filter_map(|id| insert(&mut client, id)).collect();
    ensure(before.len() == 50, || {
        format!("only {} writes before", before.len())
    })?;
    cluster.kill(leader).why("kill")?;
    let killed = Instant::now();
    let mut id = 50;
    let next = wait_for(PATIENCE, || {
        id += 1;
        insert(&mut client, id)
    });
    let next = next
        .ok_or("none is acknowledged")
        .why("writes after the kill")?;
    eprintln!("    {:.1} s without writes", killed.elapsed().as_secs_f32());
    let successor = cluster.leader();
    ensure(successor != leader, || "the killed node leads".into())?;
    await_served(cluster, PROXY.writer, &[successor])?;
    await_served(cluster, PROXY.readers, &cluster.others(leader))?;
    let ids = cluster.rows(successor, "SELECT id FROM e2e_data.written")?;
    let missing = before
        .iter()
        .chain([&next])
        .find(|id| !ids.contains(&id.to_string()));
    ensure(missing.is_none(), || {
        format!("row {missing:?} was acknowledged and is lost")
    })?;
    cluster.up(&|_, _| ()).why("starting again")?;
    await_served(cluster, PROXY.readers, &[1, 2, 3])
}

/// Query of ProxySQL's monitor for `mysql_galera_hostgroups`.
const PROXYSQLS_QUESTION: &str = "SELECT
    (SELECT VARIABLE_VALUE FROM INFORMATION_SCHEMA.GLOBAL_STATUS
        WHERE VARIABLE_NAME = 'WSREP_LOCAL_STATE'),
    @@read_only,
    (SELECT VARIABLE_VALUE FROM INFORMATION_SCHEMA.GLOBAL_STATUS
        WHERE VARIABLE_NAME = 'WSREP_LOCAL_RECV_QUEUE'),
    @@wsrep_desync, @@wsrep_reject_queries, @@wsrep_sst_donor_rejects_queries,
    (SELECT VARIABLE_VALUE FROM INFORMATION_SCHEMA.GLOBAL_STATUS
        WHERE VARIABLE_NAME = 'WSREP_CLUSTER_STATUS'),
    (SELECT COALESCE(MAX(VARIABLE_VALUE), 'DISABLED') FROM INFORMATION_SCHEMA.GLOBAL_VARIABLES
        WHERE VARIABLE_NAME = 'pxc_maint_mode')";

/// ProxySQL's hostgroup for a server with this answer, with `max_transactions_behind = 5`.
fn hostgroup(answer: &[String]) -> &'static str {
    let [
        state,
        read_only,
        queue,
        desync,
        reject,
        donor_rejects,
        status,
        maintenance,
    ] = answer
    else {
        return "offline: another number of columns";
    };
    if status != "Primary" {
        "offline: not primary"
    } else if desync != "0" {
        "offline: desync"
    } else if state != "4" {
        "offline: state"
    } else if reject != "NONE" || donor_rejects != "0" {
        "offline: rejects"
    } else if maintenance != "DISABLED" {
        "offline: maintenance"
    } else if queue.parse().is_ok_and(|queue: u64| queue > 5) {
        "offline: lags"
    } else if read_only != "0" {
        "reader"
    } else {
        "writer"
    }
}

/// The question, by an account without a right to anything.
fn proxysql_asks(cluster: &TestCluster, node: u8) -> Outcome<&'static str> {
    let options = mysql::OptsBuilder::from_opts(client_options(cluster.port(node)))
        .user(Some("watching"))
        .pass(Some("watching"));
    let mut client = Conn::new(options).why("the account of the monitor")?;
    let row: Option<mysql::Row> = client.query_first(PROXYSQLS_QUESTION).why("its question")?;
    let row = row.ok_or("no row").why("its question")?;
    let text = |value: mysql::Value| match value {
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    };
    Ok(hostgroup(
        &row.unwrap().into_iter().map(text).collect::<Vec<_>>(),
    ))
}

fn await_hostgroup(cluster: &TestCluster, node: u8, wanted: &str) -> Outcome {
    let is_so = || (proxysql_asks(cluster, node).ok()? == wanted).then_some(());
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        let seen = proxysql_asks(cluster, node);
        format!("ProxySQL sees node {node} as {seen:?}, not {wanted}")
    })
}

#[test]
fn proxysqls_question_is_answered_in_every_state() {
    CLUSTER.scenario("ProxySQL's question", |cluster| {
        cluster.execute(
            1,
            "CREATE OR REPLACE USER watching@'127.0.0.1' IDENTIFIED BY 'watching'",
        )?;
        let node = cluster.follower();
        let states = [
            (
                "SET GLOBAL wsrep_desync = ON",
                "offline: desync",
                "SET GLOBAL wsrep_desync = OFF",
            ),
            (
                "SET GLOBAL read_only = ON",
                "reader",
                "SET GLOBAL read_only = OFF",
            ),
            (
                "SET GLOBAL wsrep_reject_queries = 'ALL'",
                "offline: rejects",
                "SET GLOBAL wsrep_reject_queries = 'NONE'",
            ),
        ];
        for (change, seen, back) in states {
            await_hostgroup(cluster, node, "writer")?;
            cluster.execute(node, change)?;
            await_hostgroup(cluster, node, seen)?;
            cluster.execute(node, back)?;
        }
        await_hostgroup(cluster, node, "writer")?;

        let mut pausing = cluster.connect(node)?;
        let pause = "FLUSH TABLES WITH READ LOCK";
        pausing.query_drop(pause).why("pausing")?;
        await_hostgroup(cluster, node, "offline: state")?;
        pausing.query_drop("UNLOCK TABLES").why("going on")?;
        await_hostgroup(cluster, node, "writer")?;

        // One writer by Synod is not seen by ProxySQL: the manual says what to set besides.
        let writers = |who| format!("SET GLOBAL wsrep_provider_options = 'synod.writers={who}'");
        cluster.execute(1, &writers("leader"))?;
        for node in 1..=3 {
            await_hostgroup(cluster, node, "writer")?;
        }
        cluster.execute(1, &writers("any"))?;

        for other in cluster.others(node) {
            cluster.kill(other).why("kill")?;
        }
        await_hostgroup(cluster, node, "offline: not primary")?;
        cluster.up(&|_, _| ()).why("starting again")
    });
}

/// Inserts on a node until the load is over; gives the acknowledged ids.
fn load(cluster: &TestCluster, node: u8, is_over: &AtomicBool) -> Outcome<Vec<u32>> {
    let mut client = cluster.connect(node)?;
    let mut acknowledged = Vec::new();
    for id in 1_000_001.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // A conflict with the tool may refuse it (1213).
        let insert = format!("INSERT INTO e2e_shop.orders (id, v) VALUES ({id}, 1)");
        if client.query_drop(insert).is_ok() {
            acknowledged.push(id);
        }
    }
    Ok(acknowledged)
}

/// Runs a tool while another node takes writes; gives what it printed and the acknowledged rows.
fn under_load(cluster: &TestCluster, tool: &mut Command) -> Outcome<(String, Vec<u32>)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = scope.spawn(|| load(cluster, cluster.leader(), &is_over));
        let made = tool.output().why(format_args!("starting {tool:?}"));
        is_over.store(true, Ordering::Relaxed);
        let acknowledged = clients.join().map_err(|_| "panic").why("the load")??;
        let made = made?;
        let text = String::from_utf8_lossy(&made.stdout) + String::from_utf8_lossy(&made.stderr);
        ensure(made.status.success(), || format!("{tool:?}: {text}"))?;
        Ok((text.into_owned(), acknowledged))
    })
}

/// 5000 orders.
fn fill_shop(cluster: &TestCluster) -> Outcome {
    let mut client = cluster.connect(1)?;
    for sql in [
        "CREATE OR REPLACE DATABASE e2e_shop",
        "CREATE OR REPLACE DATABASE e2e_copy",
        "USE e2e_shop",
        "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL)",
        "INSERT INTO orders (v) SELECT seq FROM seq_1_to_5000",
    ] {
        client.query_drop(sql).why(sql)?;
    }
    Ok(())
}

/// The answer to a query is the same on all nodes.
fn on_all(cluster: &TestCluster, sql: &str) -> Outcome<String> {
    let sql = format!("SET wsrep_sync_wait = 1; {sql}");
    let first = cluster.rows(1, &sql)?.join(" ");
    for node in [2, 3] {
        let other = cluster.rows(node, &sql)?.join(" ");
        ensure(other == first, || {
            format!("{sql}: node 1 {first}, node {node} {other}")
        })?;
    }
    Ok(first)
}

#[test]
fn dump_of_a_group_under_load_is_loaded_into_a_group() {
    CLUSTER.scenario("mydumper and myloader", |cluster| {
        fill_shop(cluster)?;
        let follower = cluster.follower();
        let port = cluster.port(follower).to_string();
        let dir = place::cluster_dir("around-dump")?;
        // What an earlier run left.
        let _ = fs::remove_dir_all(&dir);
        let account = ["-h", "127.0.0.1", "-u", USER, "-p", PASSWORD, "-P", &port];
        let mut dump = Command::new("mydumper");
        dump.args(account).args(["-B", "e2e_shop", "-o"]).arg(&dir);
        let (_, acknowledged) = under_load(cluster, &mut dump)?;
        ensure(!acknowledged.is_empty(), || {
            "nothing was written meanwhile".into()
        })?;

        let mut restore = Command::new("myloader");
        restore
            .args(account)
            .args(["-B", "e2e_copy", "-d"])
            .arg(&dir);
        under_load(cluster, &mut restore)?;
        let copied = on_all(
            cluster,
            "SELECT COUNT(*), SUM(v) FROM e2e_copy.orders WHERE id < 1000000",
        )?;
        // Servers of a group count in steps, so ids differ; the values do not.
        ensure(copied == format!("5000\t{}", 5000 * 5001 / 2), || {
            copied.clone()
        })
    });
}

#[test]
fn pt_online_schema_change_works_and_says_what_it_refuses() {
    CLUSTER.scenario("pt-online-schema-change", |cluster| {
        fill_shop(cluster)?;
        let follower = cluster.follower();
        let table = |name| {
            let port = cluster.port(follower);
            format!("h=127.0.0.1,P={port},u={USER},p={PASSWORD},D=e2e_shop,t={name}")
        };
        let alter = |what: &str, name| {
            let mut tool = Command::new("pt-online-schema-change");
            tool.args(["--execute", "--recursion-method=none", "--alter", what]);
            tool.arg(table(name));
            tool
        };
        let (said, acknowledged) = under_load(
            cluster,
            &mut alter("ADD COLUMN w INT NOT NULL DEFAULT 7", "orders"),
        )?;
        ensure_says(&said, "Successfully altered")?;
        let rows = on_all(cluster, "SELECT COUNT(*), SUM(w) FROM e2e_shop.orders")?;
        let expected = 5000 + acknowledged.len();
        ensure(rows == format!("{expected}\t{}", expected * 7), || {
            format!("{rows}, with {expected} rows acknowledged")
        })?;

        let refused = |tool: &mut Command, words: &str| -> Outcome {
            let made = tool.output().why("pt-online-schema-change")?;
            let text =
                String::from_utf8_lossy(&made.stdout) + String::from_utf8_lossy(&made.stderr);
            ensure(!made.status.success(), || "it is not refused".into())?;
            ensure_says(&text, words)
        };
        refused(
            &mut alter("ENGINE=MyISAM", "orders"),
            "MyISAM tables do not work with clusters",
        )?;
        cluster.execute(follower, "SET GLOBAL wsrep_OSU_method = 'RSU'")?;
        let why = "wsrep_OSU_method=TOI is required";
        let outcome = refused(&mut alter("ADD COLUMN x INT", "orders"), why);
        cluster.execute(follower, "SET GLOBAL wsrep_OSU_method = 'TOI'")?;
        outcome
    });
}

//! Servers whose members encrypt, connect by IPv6, and accept only the addresses of the allowlist.
//!
//! The commands that make certificates are those of the manual.

use std::path::PathBuf;

use synod_e2e::{Outcome, TestCluster, Why, certificates, ensure};
use synod_local_cluster::ports::Ports;

const BASE_PORT: u16 = 28306;

/// Makes an authority and certificates for node1 to node3, over those that are there.
fn make_certificates(cluster: &TestCluster) -> Outcome<PathBuf> {
    let dir = cluster.settings().dir.join("tls");
    certificates::make(&dir)?;
    for entry in std::fs::read_dir(&dir).why(dir.display())? {
        let path = entry.why(dir.display())?.path();
        cluster.user().give(&path).why(path.display())?;
    }
    cluster.user().give(&dir).why(dir.display())?;
    Ok(dir)
}

/// Three servers that are to encrypt, yet to be started.
fn encrypted(name: &str) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty(name, BASE_PORT, 3)?;
    let dir = make_certificates(&cluster)?;
    let dir = dir.display();
    for node in cluster.nodes() {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!(
            "socket.ssl=yes;socket.ssl_ca={dir}/ca.pem;socket.ssl_cert={dir}/node{node}.pem;\
             socket.ssl_key={dir}/node{node}.key"
        ));
    }
    Ok(cluster)
}

fn up(cluster: &mut TestCluster) -> Outcome {
    cluster.up(&|_, _| ()).why("starting the servers")
}

fn check_replicates(cluster: &TestCluster) -> Outcome {
    cluster.create_account()?;
    cluster.execute(
        1,
        "CREATE OR REPLACE TABLE e2e_data.t (id INT PRIMARY KEY, v LONGTEXT)",
    )?;
    // A write does not wait until its server has the table.
    let there = "SET wsrep_sync_wait = 1; SELECT COUNT(*) FROM e2e_data.t";
    cluster.rows(2, there)?;
    // Longer than a record of TLS, and than a chunk of the log.
    cluster.execute(
        2,
        "INSERT INTO e2e_data.t VALUES (1, REPEAT('x', 3000000)), (2, 'y')",
    )?;
    for node in cluster.nodes() {
        let sql = "SET wsrep_sync_wait = 1; SELECT SUM(LENGTH(v)) FROM e2e_data.t";
        let rows = cluster.rows(node, sql)?;
        ensure(rows == ["3000001"], || format!("node{node} has {rows:?}"))?;
    }
    Ok(())
}

#[test]
fn encrypted_servers_replicate_and_take_new_certificates() -> Outcome {
    let mut cluster = encrypted("tls")?;
    up(&mut cluster)?;
    check_replicates(&cluster)?;
    for node in cluster.nodes() {
        cluster.await_line(node, "encrypted by TLS 1.3")?;
        cluster.await_line(node, &format!("CN=node{node}"))?;
    }

    // Files that do not fit are refused at a reload; nothing changes.
    let dir = cluster.settings().dir.join("tls");
    let aside = dir.join("aside");
    let key = dir.join("node2.key");
    std::fs::rename(&key, &aside).why("moving a key")?;
    let reload = "SET GLOBAL wsrep_provider_options = 'socket.ssl_reload=1'";
    let refused = cluster.execute(2, reload);
    ensure(refused.is_err(), || {
        "reloading without a key succeeds".to_owned()
    })?;
    cluster.await_line(2, "node2.key (socket.ssl_key)")?;
    std::fs::rename(&aside, &key).why("moving a key back")?;

    // A new authority that the others do not know: its member is refused when it comes back.
    make_certificates(&cluster)?;
    cluster.stop(3).why("stopping node3")?;
    cluster.spawn(3, false).why("starting node3")?;
    cluster.await_line(3, "none of the authorities in socket.ssl_ca has signed it")?;
    for node in [1, 2] {
        cluster.execute(node, reload)?;
    }
    cluster
        .await_synced(&[3], &|_, _| ())
        .why("joining with the new certificates")?;
    check_replicates(&cluster)
}

#[test]
fn servers_find_each_other_by_ipv6() -> Outcome {
    let mut cluster = encrypted("six")?;
    let port = |node| Ports::of(BASE_PORT, node).group;
    let hosts: Vec<String> = cluster
        .nodes()
        .map(|node| format!("[::1]:{}", port(node)))
        .collect();
    for node in cluster.nodes() {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        let port = port(node);
        own.cluster_address = Some(format!("gcomm://{}", hosts.join(",")));
        own.extra_lines = vec![format!("wsrep_node_address = [::1]:{port}")];
        let options = own.provider_options.take().unwrap_or_default();
        own.provider_options = Some(format!("{options};gmcast.listen_addr=tcp://[::1]:{port}"));
    }
    up(&mut cluster)?;
    check_replicates(&cluster)
}

#[test]
fn server_that_is_not_on_the_list_is_refused() -> Outcome {
    let mut cluster = TestCluster::fresh("list", BASE_PORT)?;
    cluster.execute(
        1,
        "INSERT INTO mysql.wsrep_allowlist (ip) VALUES ('10.11.12.13')",
    )?;
    cluster.stop(3).why("stopping node3")?;
    cluster.spawn(3, false).why("starting node3")?;
    cluster.await_line(3, "127.0.0.1 is not in the allowlist")?;
    let leader = cluster.leader();
    cluster.await_line(leader, "connection from node3")?;
    cluster.await_line(leader, "127.0.0.1 is not in the allowlist")?;
    cluster.execute(
        1,
        "INSERT INTO mysql.wsrep_allowlist (ip) VALUES ('127.0.0.1')",
    )?;
    cluster
        .await_synced(&[3], &|_, _| ())
        .why("joining with an allowed address")?;
    Ok(())
}

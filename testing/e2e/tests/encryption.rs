//! Servers whose members encrypt, connect by IPv6, and accept only the addresses of the allowlist.
//!
//! The commands that make certificates are those of the manual.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use synod_e2e::programs::output_of;
use synod_e2e::{Outcome, TestCluster, Why, ensure, place};
use synod_local_cluster::ports::Ports;
use synod_local_cluster::wait_for;

const PATIENCE: Duration = Duration::from_secs(60);
const BASE_PORT: u16 = 28306;

/// The commands of the operator's manual.
fn documented_commands() -> Outcome<String> {
    let manual = place::workspace().join("docs/operating/tls.md");
    let text = std::fs::read_to_string(&manual).why(manual.display())?;
    let section = text.split("## TLS").nth(1).unwrap_or_default();
    let block = section.split("```sh\n").nth(1).unwrap_or_default();
    let commands = block.split("```").next().unwrap_or_default();
    ensure(commands.contains("openssl"), || {
        "the manual has no commands for certificates".to_owned()
    })?;
    Ok(commands.to_owned())
}

/// Makes an authority and certificates for node1 to node3, over those that are there.
fn make_certificates(cluster: &TestCluster) -> Outcome<PathBuf> {
    let dir = cluster.settings().dir.join("tls");
    std::fs::create_dir_all(&dir).why(dir.display())?;
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &documented_commands()?]);
    output_of(shell.current_dir(&dir), "the manual's commands")?;
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

fn await_line(cluster: &TestCluster, node: u8, line: &str) -> Outcome {
    let said = wait_for(PATIENCE, || {
        cluster.log_text(node).contains(line).then_some(())
    });
    ensure(said.is_some(), || {
        format!(
            "node{node} does not say '{line}':\n{}",
            cluster.log_tail(node)
        )
    })
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
    if place::is_galera() {
        return Ok(());
    }
    let mut cluster = encrypted("tls")?;
    up(&mut cluster)?;
    check_replicates(&cluster)?;
    for node in cluster.nodes() {
        await_line(&cluster, node, "encrypted by TLS 1.3")?;
        await_line(&cluster, node, &format!("CN=node{node}"))?;
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
    await_line(&cluster, 2, "node2.key (socket.ssl_key)")?;
    std::fs::rename(&aside, &key).why("moving a key back")?;

    // A new authority that the others do not know: its member is refused when it comes back.
    make_certificates(&cluster)?;
    cluster.stop(3).why("stopping node3")?;
    cluster.spawn(3, false).why("starting node3")?;
    await_line(
        &cluster,
        3,
        "none of the authorities in socket.ssl_ca has signed it",
    )?;
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
    if place::is_galera() {
        return Ok(());
    }
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
    if place::is_galera() {
        return Ok(());
    }
    let mut cluster = TestCluster::fresh("list", BASE_PORT)?;
    cluster.execute(
        1,
        "INSERT INTO mysql.wsrep_allowlist (ip) VALUES ('10.11.12.13')",
    )?;
    cluster.stop(3).why("stopping node3")?;
    cluster.spawn(3, false).why("starting node3")?;
    await_line(&cluster, 3, "127.0.0.1 is not in the allowlist")?;
    let leader = cluster.leader();
    await_line(&cluster, leader, "connection from node3")?;
    await_line(&cluster, leader, "127.0.0.1 is not in the allowlist")?;
    cluster.execute(
        1,
        "INSERT INTO mysql.wsrep_allowlist (ip) VALUES ('127.0.0.1')",
    )?;
    cluster
        .await_synced(&[3], &|_, _| ())
        .why("joining with an allowed address")?;
    Ok(())
}

//! Servers with a group secret.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::programs::new_group_secret;
use synod_e2e::{Outcome, TestCluster, Why};

const PATIENCE: Duration = Duration::from_secs(60);
const BASE_PORT: u16 = 28706;
/// Commits under load between two steps.
const COMMITS: u64 = 50;

fn secret_file(cluster: &TestCluster, node: u8) -> PathBuf {
    cluster.settings().dir.join(format!("secret-of-node{node}"))
}

/// Writes a node's file as an operator does: in place, for the server's user only.
fn write_secrets(cluster: &TestCluster, node: u8, secrets: &[&str]) -> Outcome {
    let path = secret_file(cluster, node);
    fs::write(&path, secrets.concat()).why(path.display())?;
    fs::set_permissions(&path, Permissions::from_mode(0o600)).why(path.display())?;
    cluster.user().give(&path).why(path.display())
}

/// Three servers with this secret.
fn with_secret(secret: &str) -> Outcome<TestCluster> {
    let mut cluster = TestCluster::empty("secret", BASE_PORT, 3)?;
    for node in cluster.nodes() {
        write_secrets(&cluster, node, &[secret])?;
        let path = secret_file(&cluster, node);
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!("synod.secret_file={}", path.display()));
    }
    cluster.up(&|_, _| ()).why("starting the servers")?;
    Ok(cluster)
}

#[test]
fn secret_is_replaced_under_load_and_another_one_is_refused() -> Outcome {
    let (old, new) = (new_group_secret()?, new_group_secret()?);
    let mut cluster = with_secret(&old)?;
    cluster.await_line(1, "encrypted by TLS 1.3: group secret")?;
    cluster.create_account()?;
    let writers = Writers::start(&cluster, "rotation", &[1, 2, 3], 1)?;
    let steps: [&[&str]; 3] = [&[&old, &new], &[&new, &old], &[&new]];
    for secrets in steps {
        for node in cluster.nodes() {
            write_secrets(&cluster, node, secrets)?;
            let reload = match node {
                1 => "FLUSH SSL",
                _ => "SET GLOBAL wsrep_provider_options = 'socket.ssl_reload=1'",
            };
            cluster.execute(node, reload)?;
            writers.await_more(COMMITS, PATIENCE)?;
        }
    }
    let all: Vec<u8> = cluster.nodes().collect();
    writers.finish().check_rows(&cluster, &all)?;
    cluster.await_line(1, "connections by a secret that was removed")?;

    cluster.stop(3).why("stopping node3")?;
    write_secrets(&cluster, 3, &[&old])?;
    cluster.spawn(3, false).why("starting node3")?;
    cluster.await_line(3, "group secret differs from this member's")?;
    let leader = cluster.leader();
    cluster.await_line(leader, "group secret differs from this member's")
}

//! Primary and replicas by MariaDB's own replication: the first server is the primary.

use std::time::Duration;

use synod_local_cluster::{Cluster, wait_for};

use super::{PASSWORD, System, USER, node};
use crate::error::{LabError, Result};

/// A replica reconnects and catches up with what little was written since its last stop.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Empties the logs of all servers. Each has made the same accounts by itself, which the replicas
/// would otherwise get once more.
pub(super) fn forget_own_history(system: &System) -> Result<()> {
    let sql = "RESET MASTER; SET GLOBAL gtid_slave_pos = ''";
    (0..system.hosts().len()).try_for_each(|server| system.query(server, sql).map(|_| ()))
}

/// Connects the replicas, and waits until they receive.
pub(super) fn connect(system: &System, tls: bool) -> Result<()> {
    let (address, port) = system.address(0);
    for server in 1..system.hosts().len() {
        let ssl = u8::from(tls);
        let sql = format!(
            "STOP SLAVE;
             CHANGE MASTER TO MASTER_HOST='{address}', MASTER_PORT={port}, MASTER_USER='{USER}',
               MASTER_PASSWORD='{PASSWORD}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1,
               MASTER_SSL={ssl}, MASTER_SSL_VERIFY_SERVER_CERT=0;
             START SLAVE;"
        );
        system.query(server, &sql)?;
    }
    for server in 1..system.hosts().len() {
        await_receiving(system, server)?;
    }
    Ok(())
}

/// Switches the primary's part of semi-synchronous replication on, and waits until it counts all
/// replicas. The setting ends with the server, so this is done at each start.
pub(super) fn wait_for_replicas(system: &System) -> Result<()> {
    system.query(0, "SET GLOBAL rpl_semi_sync_master_enabled = ON")?;
    let replicas = (system.hosts().len() - 1).to_string();
    let what = format!("{replicas} semi-synchronous replicas to be connected");
    await_status(system, 0, "Rpl_semi_sync_master_clients", &replicas, what)
}

/// Lets a primary that has replicas begin with its part switched on, as its operator would.
pub(super) fn wait_from_the_start(cluster: &mut Cluster) {
    let own = cluster.settings_mut().overrides.entry(node(0)).or_default();
    let line = "rpl_semi_sync_master_enabled = ON".to_owned();
    if !own.extra_lines.contains(&line) {
        own.extra_lines.push(line);
    }
}

fn await_receiving(system: &System, server: usize) -> Result<()> {
    let what = format!("the replica {} to receive", system.hosts()[server].name);
    await_status(system, server, "Slave_running", "ON", what)
}

/// Waits until a status variable of a server has a value.
fn await_status(
    system: &System,
    server: usize,
    name: &str,
    wanted: &str,
    what: String,
) -> Result<()> {
    let mut last = String::new();
    let has_value = wait_for(TIMEOUT, || {
        last = system.status_value(server, name)?;
        (last == wanted).then_some(())
    });
    has_value.ok_or(LabError::Timeout {
        what,
        seconds: TIMEOUT.as_secs(),
        now: format!("{name} is {last}"),
    })
}

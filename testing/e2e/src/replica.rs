//! A stock server outside the group, which replicates from it by MariaDB's own replication.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use synod_local_cluster::wait_for;

use crate::failure::{Outcome, ensure};
use crate::harness::TestCluster;
use crate::relay::{self, Relay};
use crate::stock_server::{PATIENCE, StockServer};

/// Its port, from the base port of the cluster on.
const PORT: u16 = 60;
/// Options that the manual has operators set on a replica of a group, and a replica's own.
const OPTIONS: [&str; 4] = [
    "--gtid-strict-mode=ON",
    "--server-id=99",
    "--relay-log=relayed",
    "--slave-parallel-threads=4",
];

/// A server with an empty database. Killed when dropped.
#[derive(Debug)]
pub struct Replica(StockServer);

impl Replica {
    /// Makes a database beside a cluster, and starts the server.
    pub fn beside(cluster: &TestCluster) -> Outcome<Replica> {
        let settings = cluster.settings();
        Replica::new(&settings.dir, settings.base_port + PORT)
    }

    /// Makes a database in a directory of this one, and starts the server.
    pub fn new(dir: &Path, port: u16) -> Outcome<Replica> {
        Replica::named(dir, "replica", port)
    }

    /// The same, in a directory with this name.
    ///
    /// # Errors
    /// As [`Replica::new`].
    pub fn named(dir: &Path, name: &str, port: u16) -> Outcome<Replica> {
        let server = StockServer::new(&dir.join(name), port, &OPTIONS)?;
        Ok(Replica(server))
    }

    /// Has it replicate from this relay, from where it is.
    pub fn follow(&self, relay: &Relay) -> Outcome {
        self.follow_port(relay.port, relay.master_ssl())
    }

    /// The same from what listens on this port, with what `CHANGE MASTER TO` says about encryption.
    ///
    /// # Errors
    /// As [`Replica::follow`].
    pub fn follow_port(&self, port: u16, ssl: &str) -> Outcome {
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{}',
             MASTER_PASSWORD='{}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1,
             MASTER_HEARTBEAT_PERIOD=1, {ssl}",
            relay::USER,
            relay::PASSWORD,
        );
        self.execute(&["STOP SLAVE", &change, "START SLAVE"])?;
        self.await_connection()
    }

    /// Waits until both of its replication threads run.
    pub fn await_connection(&self) -> Outcome {
        let runs = |sql| self.rows(sql).is_ok_and(|rows| rows == ["ON"]);
        let state = "SELECT variable_value FROM information_schema.global_status WHERE \
                     variable_name = 'Slave_running'";
        let connected = wait_for(PATIENCE, || runs(state).then_some(()));
        ensure(connected.is_some(), || {
            format!("no replication: {}", self.says())
        })
    }

    /// Status of its replication, and the end of its log.
    pub fn says(&self) -> String {
        let status = self.rows("SHOW SLAVE STATUS").unwrap_or_default();
        format!("{}\n{}", status.join("\n"), self.log())
    }
}

impl Deref for Replica {
    type Target = StockServer;

    fn deref(&self) -> &StockServer {
        &self.0
    }
}

impl DerefMut for Replica {
    fn deref_mut(&mut self) -> &mut StockServer {
        &mut self.0
    }
}

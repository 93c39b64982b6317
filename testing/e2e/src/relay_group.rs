//! Relays that keep the binlog of a server outside their group: real processes, `synod relay`.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::logger::{Logger, make_dir, quoted};
use crate::place;
use crate::ports;
use crate::programs::new_group_secret;
use crate::relay::{self, HASH};
use crate::stock_server::StockServer;

/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Options that the manual asks of an upstream, and those by which an acknowledged commit survives
/// a kill.
pub const UPSTREAM_OPTIONS: [&str; 6] = [
    "--server-id=1",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
    "--gtid-strict-mode=ON",
];
/// Ports for readers, above those of the group.
const READER_PORTS: u16 = 10;
/// The `server_id` that the upstream knows the relays by: one at a time pulls.
const SERVER_ID: u32 = 4711;

/// A relay of an upstream. Killed when dropped.
#[derive(Debug)]
pub struct KeepingRelay {
    member: Logger,
    pub name: String,
    pub port: u16,
}

/// The relays of one group.
#[derive(Debug)]
pub struct RelayGroup {
    /// All of them, whether they run or not.
    pub relays: Vec<KeepingRelay>,
}

impl RelayGroup {
    /// Makes the files of `count` relays of this server, in directories of this one, and the
    /// account on the server. Ports from `base_port` on are theirs.
    pub fn of(
        upstream: &StockServer,
        dir: &Path,
        base_port: u16,
        count: u16,
    ) -> Outcome<RelayGroup> {
        upstream.execute(&[
            &format!(
                "CREATE OR REPLACE USER {} IDENTIFIED BY '{}'",
                relay::USER,
                relay::PASSWORD
            ),
            &format!("GRANT REPLICATION SLAVE ON *.* TO {}", relay::USER),
        ])?;
        RelayGroup::of_port(upstream.port, dir, base_port, count)
    }

    /// The same for the server that listens on this port. The account is there already.
    ///
    /// # Errors
    /// As [`RelayGroup::of`].
    pub fn of_port(
        upstream_port: u16,
        dir: &Path,
        base_port: u16,
        count: u16,
    ) -> Outcome<RelayGroup> {
        ports::ensure_for_listening(base_port, 2 * READER_PORTS)?;
        let secret = new_group_secret()?;
        let address = |number: u16| format!("127.0.0.1:{}", base_port + number);
        let make = |number: u16| -> Outcome<KeepingRelay> {
            let name = format!("relay{number}");
            let dir = dir.join(&name);
            let secret_file = make_dir(&dir, &secret)?;
            let password_file = dir.join("upstream.password");
            crate::logger::write_private(&password_file, relay::PASSWORD)?;
            let peers = (1..=count).filter(|other| *other != number);
            let peers: Vec<String> = peers.map(|other| quoted(&address(other))).collect();
            let own = address(number);
            let port = base_port + READER_PORTS + number;
            let text = |path: &Path| quoted(&path.to_string_lossy());
            let server = format!("mysql://{}@127.0.0.1:{upstream_port}", relay::USER);
            let lines = [
                ("cluster_name", quoted("relayed")),
                ("name", quoted(&name)),
                ("address", quoted(&own)),
                ("peers", format!("[{}]", peers.join(", "))),
                ("synod.log_dir", text(&dir.join("log"))),
                ("synod.listen_addr", quoted(&own)),
                ("synod.secret_file", text(&secret_file)),
                ("relay.listen", quoted(&format!("127.0.0.1:{port}"))),
                ("relay.accounts.repl", quoted(HASH)),
                ("relay.upstream", quoted(&server)),
                ("relay.upstream_server_id", SERVER_ID.to_string()),
                ("relay.upstream_password_file", text(&password_file)),
                ("relay.upstream_semi_sync", "true".to_owned()),
            ];
            let lines = lines.map(|(key, value)| (key.to_owned(), value)).to_vec();
            Ok(KeepingRelay {
                member: Logger::with_lines("relay", dir, lines),
                name,
                port,
            })
        };
        Ok(RelayGroup {
            relays: (1..=count).map(make).collect::<Outcome<_>>()?,
        })
    }

    /// Begins the group with the first relay, and has the others join; waits until one pulls.
    pub fn begin(&mut self) -> Outcome {
        for (place, relay) in self.relays.iter_mut().enumerate() {
            if place == 0 {
                relay.start_with(&["--bootstrap"])?;
                relay.await_line("takes part in group")?;
            } else {
                relay.join()?;
            }
        }
        self.await_puller().map(|_| ())
    }

    /// Waits until a running relay pulls; its place.
    pub fn await_puller(&self) -> Outcome<usize> {
        let pulls = |relay: &KeepingRelay| {
            relay.pid().is_ok()
                && relay
                    .status()
                    .is_ok_and(|status| status["pull"] == "pulling")
        };
        let found = wait_for(PATIENCE, || self.relays.iter().position(pulls));
        found.ok_or_else(|| Failure(format!("no relay pulls:\n{}", self.says())))
    }

    /// The place of the running relay that leads, whether it can pull or not.
    pub fn await_leader(&self) -> Outcome<usize> {
        let leads = |relay: &KeepingRelay| {
            let status = relay.status();
            relay.pid().is_ok()
                && status.is_ok_and(|status| status["puller"] == relay.name.as_str())
        };
        let found = wait_for(PATIENCE, || self.relays.iter().position(leads));
        found.ok_or_else(|| Failure(format!("no relay leads:\n{}", self.says())))
    }

    /// Logs of all relays.
    pub fn says(&self) -> String {
        let lines = self.relays.iter();
        lines
            .map(|relay| format!("{}:\n{}", relay.name, relay.says()))
            .collect()
    }
}

impl KeepingRelay {
    /// Gives it a command: `status`, `pause`, ...
    pub fn command(&self, arguments: &[&str]) -> Outcome<Output> {
        let mut command = Command::new(place::program()?);
        command.arg("relay").args(arguments);
        command.arg("--dir").arg(self.log_dir());
        command.output().why("synod relay")
    }

    /// Gives it an order, which it must carry out.
    pub fn order(&self, arguments: &[&str]) -> Outcome<String> {
        let output = self.command(arguments)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure(output.status.success(), || {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{arguments:?} is refused: {said}{errors}")
        })?;
        Ok(said)
    }

    /// Waits until it has everything that its upstream has now.
    pub fn await_kept(&self, upstream: &StockServer, patience: Duration) -> Outcome {
        let last = upstream.rows("SELECT @@gtid_binlog_pos")?.concat();
        let kept = wait_for(patience, || {
            (self.status().ok()?["gtids"] == last.as_str()).then_some(())
        });
        ensure(kept.is_some(), || {
            format!("{last} is not kept:\n{}", self.says())
        })
    }

    /// Status of the relay.
    pub fn status(&self) -> Outcome<Value> {
        let text = self.order(&["status", "--json"])?;
        serde_json::from_str(&text).why("the status of a relay")
    }
}

impl Deref for KeepingRelay {
    type Target = Logger;

    fn deref(&self) -> &Logger {
        &self.member
    }
}

impl DerefMut for KeepingRelay {
    fn deref_mut(&mut self) -> &mut Logger {
        &mut self.member
    }
}

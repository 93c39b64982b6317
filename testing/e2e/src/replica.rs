//! A stock server outside the group, which replicates from it by MariaDB's own replication.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row};
use synod_local_cluster::{ServerUser, find_program, wait_for};

use crate::failure::{Outcome, Why, ensure};
use crate::harness::TestCluster;
use crate::programs::output_of;
use crate::relay::{self, Relay};

/// Its port, from the base port of the cluster on.
const PORT: u16 = 60;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// What the manual has operators set on a replica of a group.
const SETTINGS: [&str; 1] = ["--gtid-strict-mode=ON"];

/// A server with an empty database. Killed when dropped.
#[derive(Debug)]
pub struct Replica {
    dir: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Replica {
    /// Makes a database beside a cluster, and starts the server.
    ///
    /// # Errors
    /// When that fails, or takes too long.
    pub fn beside(cluster: &TestCluster) -> Outcome<Replica> {
        let settings = cluster.settings();
        let mut replica = Replica {
            dir: settings.dir.join("replica"),
            port: settings.base_port + PORT,
            process: None,
        };
        replica.install()?;
        replica.start()?;
        Ok(replica)
    }

    fn install(&self) -> Outcome {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir).why("removing the replica of an earlier run")?;
        }
        fs::create_dir_all(&self.dir).why("the replica's directory")?;
        let user = ServerUser::find().why("the servers' user")?;
        user.give(&self.dir).why("the replica's directory")?;
        let program = find_program("mariadb-install-db", "mariadb-server").why("the program")?;
        let mut install = Command::new(program);
        install
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.dir.join("data").display()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg("--skip-name-resolve")
            .current_dir(&self.dir);
        user.apply(&mut install);
        output_of(&mut install, "mariadb-install-db").map(|_| ())
    }

    /// Kills it (SIGKILL).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> Outcome {
        if let Some(mut process) = self.process.take() {
            process.kill().why("killing the replica")?;
            process.wait().why("the killed replica")?;
        }
        Ok(())
    }

    /// Starts it with what it has, and waits until it answers.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn start(&mut self) -> Outcome {
        let server = find_program("mariadbd", "mariadb-server").why("the server")?;
        let log = File::create(self.dir.join("error.log")).why("the replica's log")?;
        // It dies with this process, however that ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(server)
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.dir.join("data").display()))
            .arg(format!("--socket={}", self.dir.join("sock").display()))
            .arg(format!("--pid-file={}", self.dir.join("pid").display()))
            .arg(format!("--port={}", self.port))
            .args([
                "--bind-address=127.0.0.1",
                "--skip-name-resolve",
                "--server-id=99",
            ])
            .args(["--innodb-buffer-pool-size=64M", "--relay-log=relayed"])
            .arg("--slave-parallel-threads=4")
            .args(SETTINGS)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        ServerUser::find()
            .why("the servers' user")?
            .apply(&mut command);
        self.process = Some(command.spawn().why("starting the replica")?);
        let up = wait_for(PATIENCE, || self.rows("SELECT 1").ok());
        ensure(up.is_some(), || self.says())
    }

    fn connect(&self) -> Outcome<Conn> {
        let options = OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(self.port)
            .user(Some("root"))
            .prefer_socket(false)
            .read_timeout(Some(PATIENCE))
            .write_timeout(Some(PATIENCE));
        Conn::new(options).why("connecting to the replica")
    }

    /// Runs statements, one after the other.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn execute(&self, statements: &[&str]) -> Outcome {
        let mut conn = self.connect()?;
        for sql in statements {
            conn.query_drop(sql).why(format_args!("replica: {sql}"))?;
        }
        Ok(())
    }

    /// A query's rows, columns with tabs between them.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn rows(&self, sql: &str) -> Outcome<Vec<String>> {
        let rows: Vec<Row> = self
            .connect()?
            .query(sql)
            .why(format_args!("replica: {sql}"))?;
        let text = |row: Row| {
            let values = row.unwrap_raw().into_iter().flatten();
            let values: Vec<String> = values.map(|v| v.as_sql(true)).collect();
            values.join("\t").replace('\'', "")
        };
        Ok(rows.into_iter().map(text).collect())
    }

    /// Has it replicate from this relay, from where it is.
    ///
    /// # Errors
    /// When a statement fails, or it does not connect.
    pub fn follow(&self, relay: &Relay) -> Outcome {
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}',
             MASTER_PASSWORD='{}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1,
             MASTER_HEARTBEAT_PERIOD=1, {}",
            relay.port,
            relay::USER,
            relay::PASSWORD,
            relay.master_ssl()
        );
        self.execute(&["STOP SLAVE", &change, "START SLAVE"])?;
        self.await_connection()
    }

    /// Waits until both of its replication threads run.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn await_connection(&self) -> Outcome {
        let runs = |sql| self.rows(sql).is_ok_and(|rows| rows == ["ON"]);
        let state = "SELECT variable_value FROM information_schema.global_status WHERE \
                     variable_name = 'Slave_running'";
        let connected = wait_for(PATIENCE, || runs(state).then_some(()));
        ensure(connected.is_some(), || {
            format!("no replication: {}", self.says())
        })
    }

    /// What its replication says of itself, and the end of its log.
    pub fn says(&self) -> String {
        let status = self.rows("SHOW SLAVE STATUS").unwrap_or_default();
        let log = fs::read_to_string(self.dir.join("error.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        format!("{}\n{}", status.join("\n"), lines.join("\n"))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // The test has its outcome already.
        let _ = self.kill();
    }
}

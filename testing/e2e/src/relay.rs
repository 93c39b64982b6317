//! A relay beside a cluster: a real process, `synod relay`, with the file of the manual; and what
//! stock tools read from it.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::Command;

use synod_local_cluster::find_program;

use crate::certificates;
use crate::failure::{Outcome, Why};
use crate::harness::TestCluster;
use crate::logger::{Kind, Logger, quoted};
use crate::programs::output_of;

/// The account of readers.
pub const USER: &str = "repl";
pub const PASSWORD: &str = "secret";
/// Result of `SELECT PASSWORD('secret')`.
pub(crate) const HASH: &str = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
/// Ports for readers, from the base port on: between those for SQL and those of the group.
const PORTS: u16 = 50;

/// A relay's files, and its process while it runs. Killed when dropped.
#[derive(Debug)]
pub struct Relay {
    member: Logger,
    pub port: u16,
    /// The authority of its certificate, if it encrypts.
    authority: Option<PathBuf>,
}

impl Relay {
    /// Makes the files of relay `number` (1 or 2) for this cluster, whose members have this secret.
    pub fn beside(cluster: &TestCluster, number: u8, secret: &str) -> Outcome<Relay> {
        let port = cluster.settings().base_port + PORTS + u16::from(number);
        let kind = Kind {
            command: "relay",
            page: "docs/operating/relay.md",
            sample: "packaging/relay.toml",
            node: 9 - number,
        };
        let more = [
            ("relay.listen", quoted(&format!("127.0.0.1:{port}"))),
            ("relay.accounts.repl", quoted(HASH)),
        ];
        let member = Logger::of(kind, cluster, &format!("relay{number}"), secret, &more)?;
        Ok(Relay {
            member,
            port,
            authority: None,
        })
    }

    /// Has it serve encrypted connections only, from its next start on.
    pub fn encrypt(&mut self) -> Outcome {
        let dir = self.member.log_dir().with_file_name("tls");
        certificates::make(&dir)?;
        let file = |name: &str| quoted(&dir.join(name).to_string_lossy());
        self.member.set("relay.tls_cert", &file("node1.pem"));
        self.member.set("relay.tls_key", &file("node1.key"));
        self.authority = Some(dir.join("ca.pem"));
        Ok(())
    }

    /// Encryption clause for `CHANGE MASTER TO`.
    pub fn master_ssl(&self) -> &'static str {
        match self.authority {
            // The certificate is made for a name, and the relay is reached by an address.
            Some(_) => "MASTER_SSL=1, MASTER_SSL_VERIFY_SERVER_CERT=0",
            None => "MASTER_SSL=0",
        }
    }

    /// Output of `mariadb-binlog` with these arguments, as text.
    ///
    /// # Errors
    /// When the tool fails; with what it says.
    pub fn binlog(&self, arguments: &[&str]) -> Outcome<String> {
        let mut command = binlog_of_port(self.port)?;
        if let Some(authority) = &self.authority {
            command
                .arg("--ssl")
                .arg(format!("--ssl-ca={}", authority.display()));
        }
        command.args(arguments);
        let read = output_of(&mut command, "mariadb-binlog")?;
        Ok(String::from_utf8_lossy(&read).into_owned())
    }

    /// The GTIDs that `mariadb-binlog` reads from the beginning of its log.
    pub fn gtids(&self) -> Outcome<Vec<String>> {
        let text = self.binlog(&["synod.0"])?;
        let found = text.lines().filter(|line| line.starts_with('#'));
        let found = found.filter_map(|line| line.split_once("\tGTID "));
        let gtid = |(_, rest): (&str, &str)| rest.split(' ').next().unwrap_or(rest).to_owned();
        Ok(found.map(gtid).collect())
    }
}

/// `mariadb-binlog`, to read from the relay whose readers connect to this port.
pub fn binlog_of_port(port: u16) -> Outcome<Command> {
    let tool = find_program("mariadb-binlog", "mariadb-server").why("mariadb-binlog")?;
    let mut command = Command::new(tool);
    command
        .args([
            "--no-defaults",
            "--read-from-remote-server",
            "--host=127.0.0.1",
        ])
        .arg(format!("--port={port}"))
        .arg(format!("--user={USER}"))
        .arg(format!("--password={PASSWORD}"));
    Ok(command)
}

impl Deref for Relay {
    type Target = Logger;

    fn deref(&self) -> &Logger {
        &self.member
    }
}

impl DerefMut for Relay {
    fn deref_mut(&mut self) -> &mut Logger {
        &mut self.member
    }
}

//! Programs in other languages. Readers of binlogs that are no servers: what change data capture is
//! made of. Each prints the changes of rows that it reads from a relay, a line for each. And the
//! clients of `examples/clients`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::failure::{Outcome, Why};
use crate::harness::{self, TestCluster};
use crate::place;
use crate::programs::output_of;
use crate::relay;

#[derive(Debug)]
pub struct Readers {
    dir: PathBuf,
}

/// A server that knows the names of columns, and an account there.
#[derive(Debug)]
pub struct Schema {
    pub port: u16,
    /// Name of the account.
    pub user: &'static str,
    pub password: &'static str,
}

impl Schema {
    /// The first server of a cluster.
    pub fn of(cluster: &TestCluster) -> Schema {
        Schema {
            port: cluster.port(1),
            user: harness::USER,
            password: harness::PASSWORD,
        }
    }
}

impl Readers {
    /// Installs them, unless an earlier run has.
    ///
    /// # Errors
    /// When that fails: it needs Python, Go, Maven, and the network the first time.
    pub fn install() -> Outcome<Readers> {
        let dir = place::workspace().join("target/e2e-readers");
        let mut install = Command::new(sources().join("install"));
        output_of(install.arg(&dir), "testing/e2e/readers/install")?;
        Ok(Readers { dir })
    }

    /// Events that python-mysql-replication reads after a GTID at the relay on this port, with the
    /// names of columns from a server.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn python(&self, relay: u16, after: &str, schema: &Schema) -> Outcome<Vec<String>> {
        let mut command = Command::new(self.dir.join("python/bin/python"));
        command
            .arg(sources().join("python/changes.py"))
            .args([&relay.to_string(), after, relay::USER, relay::PASSWORD])
            .args([&schema.port.to_string(), schema.user, schema.password]);
        lines_of(command, "python-mysql-replication")
    }

    /// Events that go-mysql reads after a GTID at the relay on this port.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn go(&self, relay: u16, after: &str) -> Outcome<Vec<String>> {
        let mut command = Command::new(self.dir.join("go-mysql"));
        command.args([&relay.to_string(), after, relay::USER, relay::PASSWORD]);
        lines_of(command, "go-mysql")
    }
}

impl Readers {
    /// Starts Debezium: a snapshot of these tables, then their changes, in lines of JSON at the end
    /// of the file `changes` in this directory, behind a line `begin`. It continues an earlier run
    /// with that directory, and dies with this process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn debezium(&self, relay: u16, tables: &str, dir: &Path) -> Outcome<Child> {
        let append = |name: &str| {
            let mut options = File::options();
            options
                .create(true)
                .append(true)
                .open(dir.join(name))
                .why("a file of Debezium")
        };
        let mut changes = append("changes")?;
        // An earlier run may have been killed amid a line.
        changes.write_all(b"\n").why("a file of Debezium")?;
        let archives = self.archives("debezium", "changes");
        let mut command = that_dies_with_us(&["java", "-Xmx256m", "-cp", &archives]);
        command
            .args([
                "Changes",
                &relay.to_string(),
                relay::USER,
                relay::PASSWORD,
                tables,
            ])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(changes)
            .stderr(append("debezium.log")?);
        command.spawn().why("starting Debezium")
    }

    /// The clients of `examples/clients`, with the names of their languages. Each wants servers,
    /// and dies with this process.
    pub fn clients(&self) -> [(&'static str, Command); 4] {
        let sources = place::workspace().join("examples/clients");
        let with = |words: &[&str], path: PathBuf| {
            let mut command = that_dies_with_us(words);
            command.arg(path);
            command
        };
        let python = self.dir.join("python/bin/python").display().to_string();
        let archives = self.archives("orders", "orders");
        let java = ["java", "-Xmx128m", "-cp", &archives];
        [
            ("python", with(&[&python], sources.join("python/orders.py"))),
            ("go", with(&[], self.dir.join("go-orders"))),
            ("php", with(&["php"], sources.join("php/orders.php"))),
            ("java", with(&java, "Orders".into())),
        ]
    }

    /// Class path of a project of Maven that is installed: its archive, and those that it needs.
    fn archives(&self, project: &str, archive: &str) -> String {
        let dir = self.dir.join(project);
        format!("{0}/{archive}-1.jar:{0}/dependency/*", dir.display())
    }
}

fn that_dies_with_us(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).args(words);
    command
}

fn sources() -> PathBuf {
    place::workspace().join("testing/e2e/readers")
}

fn lines_of(mut command: Command, name: &str) -> Outcome<Vec<String>> {
    let printed = output_of(&mut command, name)?;
    let text = String::from_utf8_lossy(&printed);
    Ok(text.lines().map(str::to_owned).collect())
}

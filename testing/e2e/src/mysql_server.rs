//! A server of MySQL. Debian has one in its unstable suite only, so `scripts/test-mysql-upstream`
//! and `scripts/test-mysql-group` install that in a directory, which it runs in.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mysql::Conn;
use synod_local_cluster::wait_for;

use crate::administrator;
use crate::failure::{Failure, Outcome, Why, ensure};
use crate::ports;
use crate::programs::output_of;
use crate::stock_server::PATIENCE;

/// Variable with the directory of MySQL.
const ROOT: &str = "SYNOD_E2E_MYSQL";
/// Options that relays ask of MySQL, beyond its defaults.
const OPTIONS: [&str; 6] = [
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin=primary",
    "--mysqlx=OFF",
    "--secure-file-priv=NULL",
    "--innodb-buffer-pool-size=64M",
];

/// A server with a database of its own. Killed when dropped.
#[derive(Debug)]
pub struct MysqlServer {
    root: PathBuf,
    name: String,
    pub port: u16,
    options: Vec<String>,
    process: Option<Child>,
}

/// The directory that MySQL is installed in.
///
/// # Errors
/// When it is not: `scripts/test-mysql-upstream` installs it.
pub fn installed() -> Outcome<PathBuf> {
    let root = std::env::var_os(ROOT).map(PathBuf::from);
    let found = root.filter(|root| root.join("usr/sbin/mysqld").exists());
    found.ok_or_else(|| {
        Failure(format!(
            "no MySQL in {ROOT}: run scripts/test-mysql-upstream"
        ))
    })
}

/// Directory of the server of this name.
pub fn directory(root: &Path, name: &str) -> PathBuf {
    root.join("srv/synod-e2e").join(name)
}

impl MysqlServer {
    /// Makes an empty database in place of what an earlier run has left, and starts the server.
    pub fn new(root: PathBuf, name: &str, port: u16, options: &[&str]) -> Outcome<MysqlServer> {
        let mut server = MysqlServer::installed(root, name, port, options)?;
        server.start(&[])?;
        server.await_up()?;
        Ok(server)
    }

    /// Makes an empty database in place of what an earlier run has left.
    pub fn installed(
        root: PathBuf,
        name: &str,
        port: u16,
        options: &[&str],
    ) -> Outcome<MysqlServer> {
        ports::ensure_for_listening(port, 1)?;
        let server = MysqlServer {
            root,
            name: name.to_owned(),
            port,
            options: options.iter().map(ToString::to_string).collect(),
            process: None,
        };
        server.wipe()?;
        Ok(server)
    }

    /// Makes an empty database in the place of the one that it has. It must not run.
    pub fn wipe(&self) -> Outcome {
        let dir = self.dir();
        fs::create_dir_all(&dir).why("the server's directory")?;
        // A disk may be mounted there: it stays.
        let empty = ["-mindepth", "1", "-delete"];
        output_of(Command::new("find").arg(&dir).args(empty), "find")?;
        let mut give = Command::new("chroot");
        give.arg(&self.root).args(["chown", "mysql:"]);
        give.arg(self.inside(""));
        output_of(&mut give, "chown")?;
        let mut install = self.command();
        install.args(["--initialize-insecure", "--secure-file-priv=NULL"]);
        output_of(&mut install, "mysqld --initialize-insecure").map(|_| ())
    }

    /// Options of its starts, beside those of any server of tests.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Sets the options of later starts, in the place of those that it was made with.
    pub fn set_options(&mut self, options: Vec<String>) {
        self.options = options;
    }

    /// Starts it, with these options beside those that it always has.
    pub fn start(&mut self, options: &[&str]) -> Outcome {
        let own = self.options.clone();
        let all: Vec<&str> = own
            .iter()
            .map(String::as_str)
            .chain(options.iter().copied())
            .collect();
        self.start_plain(&all)
    }

    /// Starts it with these options only, beside those of any server of a test.
    pub fn start_plain(&mut self, options: &[&str]) -> Outcome {
        let path = self.dir().join("error.log");
        let log = OpenOptions::new().create(true).append(true).open(path);
        let log = log.why("the server's log")?;
        let mut command = self.command();
        command
            .arg(format!("--socket={}", self.inside("sock")))
            .arg(format!("--pid-file={}", self.inside("pid")))
            .arg(format!("--port={}", self.port))
            .arg("--bind-address=127.0.0.1")
            .args(OPTIONS)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(command.spawn().why("starting MySQL")?);
        Ok(())
    }

    /// The most memory that it has had since its start, in bytes.
    pub fn most_memory(&self) -> Outcome<u64> {
        let id = self.process.as_ref().map(Child::id).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{id}/status")).why("its status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes =
            line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kilobytes.ok_or("no VmHWM").why("its status")? << 10)
    }

    /// Waits until it answers clients.
    pub fn await_up(&self) -> Outcome {
        let up = wait_for(PATIENCE, || self.rows("SELECT 1").ok());
        ensure(up.is_some(), || self.log())
    }

    /// Sends it a signal, as `kill` names it: `-STOP`.
    pub fn signal(&self, name: &str) -> Outcome {
        let id = self.process.as_ref().map(Child::id).unwrap_or_default();
        ensure(id > 0, || format!("{} does not run", self.name))?;
        let mut kill = Command::new("kill");
        output_of(kill.args([name, &id.to_string()]), "kill").map(|_| ())
    }

    /// Ends it by this signal, and waits for the end.
    pub fn end(&mut self, signal: &str) -> Outcome {
        self.signal(signal)?;
        self.await_end().why(format_args!("after {signal}"))
    }

    /// Waits until it has ended.
    pub fn await_end(&mut self) -> Outcome {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let ended = wait_for(PATIENCE, || process.try_wait().ok().flatten());
        ensure(ended.is_some(), || {
            format!("{} has not ended:\n{}", self.name, self.log())
        })?;
        self.process = None;
        Ok(())
    }

    /// The server's program, as its own user. It dies with this process, however that ends: a
    /// change of the user would make the system forget that, so it comes after it.
    fn command(&self) -> Command {
        let mut command = Command::new("chroot");
        command
            .arg("--userspec=mysql:mysql")
            .arg(&self.root)
            // Not a directory of the root outside.
            .env_remove("TMPDIR")
            .args(["setpriv", "--pdeathsig", "KILL", "/usr/sbin/mysqld"])
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.inside("data")));
        command
    }

    /// A file of the server, as it sees it.
    fn inside(&self, file: &str) -> String {
        format!("/srv/synod-e2e/{}/{file}", self.name)
    }

    fn dir(&self) -> PathBuf {
        directory(&self.root, &self.name)
    }

    /// A dump of these schemas, taken while clients write, and the set of GTIDs that it has.
    pub fn dump(&self, schemas: &[&str]) -> Outcome<(String, String)> {
        let mut command = Command::new("chroot");
        command
            .arg(&self.root)
            .args(["/usr/bin/mysqldump", "--no-defaults", "--host=127.0.0.1"])
            .arg(format!("--port={}", self.port))
            .args([
                "--user=root",
                "--single-transaction",
                "--set-gtid-purged=COMMENTED",
            ])
            .args(["--skip-tz-utc", "--hex-blob", "--databases"])
            .args(schemas);
        let dump = output_of(&mut command, "mysqldump")?;
        let dump = String::from_utf8_lossy(&dump).into_owned();
        let quoted = dump.split("GTID_PURGED=").nth(1).unwrap_or_default();
        let set = quoted.split('\'').find(|text| text.contains(':'));
        let set = set.unwrap_or_default().trim_start_matches('+').to_owned();
        ensure(!set.is_empty(), || "the dump names no GTIDs".to_owned())?;
        Ok((dump, set))
    }

    /// A file in its data directory, such as its certificate.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir().join("data").join(name)
    }

    /// Connects as its administrator.
    pub fn connect(&self) -> Outcome<Conn> {
        administrator::connect(self.port)
    }

    /// Runs statements, one after the other, by one connection.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn execute(&self, statements: &[&str]) -> Outcome {
        administrator::execute(self.port, statements)
    }

    /// A query's rows, columns with tabs between them.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn rows(&self, sql: &str) -> Outcome<Vec<String>> {
        administrator::rows(self.port, sql)
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        administrator::end_of_log(&self.dir().join("error.log"))
    }
}

impl Drop for MysqlServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The test has its outcome already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

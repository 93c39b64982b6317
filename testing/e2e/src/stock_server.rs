//! A stock server outside any group.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql::Conn;
use synod_local_cluster::{ServerUser, find_program, wait_for};

use crate::administrator;
use crate::failure::{Failure, Outcome, Why, ensure};
use crate::ports;
use crate::programs::output_of;

/// For what takes moments, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A server with a database of its own. Killed when dropped.
#[derive(Debug)]
pub struct StockServer {
    dir: PathBuf,
    pub port: u16,
    /// More options, for the next start.
    pub options: Vec<String>,
    process: Option<Child>,
}

impl StockServer {
    /// Makes an empty database in this directory, in place of what is there, and starts the server.
    pub fn new(dir: &Path, port: u16, options: &[&str]) -> Outcome<StockServer> {
        ports::ensure_for_listening(port, 1)?;
        let mut server = StockServer {
            dir: dir.to_owned(),
            port,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            process: None,
        };
        server.install()?;
        server.start()?;
        Ok(server)
    }

    fn install(&self) -> Outcome {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir).why("removing the server of an earlier run")?;
        }
        fs::create_dir_all(&self.dir).why("the server's directory")?;
        let user = ServerUser::find().why("the servers' user")?;
        user.give(&self.dir).why("the server's directory")?;
        let program = find_program("mariadb-install-db", "mariadb-server").why("the program")?;
        let mut install = Command::new(program);
        install
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.data().display()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg("--skip-name-resolve")
            .current_dir(&self.dir);
        user.apply(&mut install);
        output_of(&mut install, "mariadb-install-db").map(|_| ())
    }

    pub fn kill(&mut self) -> Outcome {
        if let Some(mut process) = self.process.take() {
            process.kill().why("killing the server")?;
            process.wait().why("the killed server")?;
        }
        Ok(())
    }

    /// Starts it with what it has, and waits until it answers.
    pub fn start(&mut self) -> Outcome {
        let server = find_program("mariadbd", "mariadb-server").why("the server")?;
        let log = File::create(self.dir.join("error.log")).why("the server's log")?;
        // It dies with this process, however that ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(server)
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.data().display()))
            .arg(format!("--socket={}", self.dir.join("sock").display()))
            .arg(format!("--pid-file={}", self.dir.join("pid").display()))
            .arg(format!("--port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
            .arg("--innodb-buffer-pool-size=64M")
            .args(&self.options)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        ServerUser::find()
            .why("the servers' user")?
            .apply(&mut command);
        self.process = Some(command.spawn().why("starting the server")?);
        let up = wait_for(PATIENCE, || self.rows("SELECT 1").ok());
        ensure(up.is_some(), || self.log())
    }

    /// Sends it a signal, as `kill` names it: `-STOP`.
    pub fn signal(&self, name: &str) -> Outcome {
        let Some(process) = self.process() else {
            return Err(Failure("the server does not run".to_owned()));
        };
        let mut kill = Command::new("kill");
        kill.arg(name).arg(process.to_string());
        output_of(&mut kill, "signalling the server").map(|_| ())
    }

    /// Data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Its process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Connects as its administrator.
    pub fn connect(&self) -> Outcome<Conn> {
        administrator::connect(self.port)
    }

    /// Runs statements, one after the other.
    ///
    /// # Errors
    /// With the statement in the text.
    pub fn execute(&self, statements: &[&str]) -> Outcome {
        administrator::execute(self.port, statements)
    }

    /// Has its client execute a file of statements.
    pub fn load(&self, file: &Path) -> Outcome {
        let client = find_program("mariadb", "mariadb-client").why("the client")?;
        let mut command = Command::new(client);
        command
            .args(["--no-defaults", "--host=127.0.0.1", "--user=root"])
            .arg(format!("--port={}", self.port))
            .stdin(File::open(file).why("the file")?);
        output_of(&mut command, "mariadb").map(|_| ())
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
        administrator::end_of_log(&self.dir.join("error.log"))
    }
}

impl Drop for StockServer {
    fn drop(&mut self) {
        // The test has its outcome already.
        let _ = self.kill();
    }
}

//! A member as the parent sees it: its directory, and its process while it runs.
//!
//! The process is this same program, started as `synod-chaos member`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::database::Database;
use crate::member::{CONTROL_SOCKET, LOG_DIR, Planted};
use crate::protocol::{Command, Reply, receive, send};

/// The state of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process does not exist.
    Down,
    /// The process runs.
    Running,
    /// The process is stopped by a signal.
    Paused,
    /// The process is in an orderly shutdown, and ends by itself.
    Leaving,
}

/// Settings that all members share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) planted: Option<Planted>,
    /// `LogOptions::retain_bytes`.
    pub(crate) retain_bytes: u64,
}

/// A member; its process ends when this is dropped.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    address: String,
    seeds: Vec<String>,
    settings: Settings,
    child: Option<Child>,
    pub(crate) life: Life,
}

impl Member {
    pub(crate) fn new(
        run_dir: &Path,
        at: usize,
        addresses: &[String],
        settings: Settings,
    ) -> io::Result<Member> {
        let name = format!("m{at}");
        let dir = run_dir.join(&name);
        fs::create_dir_all(&dir)?;
        let mut seeds = addresses.to_vec();
        let address = seeds.remove(at);
        Ok(Member {
            name,
            dir,
            address,
            seeds,
            settings,
            child: None,
            life: Life::Down,
        })
    }

    /// Path of the process's log file.
    fn output_path(&self) -> PathBuf {
        self.dir.join("output.log")
    }

    /// Starts the process. The calling thread must stay alive, see `parent::die_with`.
    pub(crate) fn start(&mut self, bootstrap: bool) -> io::Result<()> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.output_path())?;
        let mut process = Process::new(std::env::current_exe()?);
        process
            .arg("member")
            .arg("--dir")
            .arg(&self.dir)
            .args(["--name", &self.name, "--address", &self.address])
            .args(["--seeds", &self.seeds.join(",")])
            .args(["--retain-bytes", &self.settings.retain_bytes.to_string()])
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        if bootstrap {
            process.arg("--bootstrap");
        }
        if let Some(planted) = self.settings.planted {
            use clap::ValueEnum;
            let value = planted.to_possible_value();
            let name = value.as_ref().map_or("", |value| value.get_name());
            process.args(["--planted", name]);
        }
        self.child = Some(process.spawn()?);
        self.life = Life::Running;
        Ok(())
    }

    /// SIGKILL, running or stopped.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.life = Life::Down;
    }

    /// Stops the process by SIGSTOP.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.life = Life::Paused;
    }

    /// Continues the process by SIGCONT.
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.life = Life::Running;
    }

    fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .as_ref()
            .and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // An error means that the process has ended, which `ended` notices.
            let _ = kill_process(pid, signal);
        }
    }

    /// Exit status of the process, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// The disk is lost: log and database. The process must be down.
    pub(crate) fn wipe_disk(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.dir.join(LOG_DIR)) {
            // The disk was lost already, and the member not started since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        self.wipe_database()
    }

    /// The database is lost. The process must be down.
    pub(crate) fn wipe_database(&self) -> io::Result<()> {
        Database::wipe(&self.dir)
    }

    /// Sends a command to a running member and returns the reply.
    pub(crate) fn ask(&self, command: &Command, limit: Duration) -> io::Result<Reply> {
        Connection::open(&self.dir, limit)?.ask(command)
    }

    /// The newest lines of the process.
    pub(crate) fn last_output(&self) -> String {
        tail(&self.output_path()).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn tail(path: &Path) -> io::Result<String> {
    const BYTES: u64 = 3000;
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A client's connection to a member.
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    pub(crate) fn open(dir: &Path, limit: Duration) -> io::Result<Connection> {
        let stream = UnixStream::connect(dir.join(CONTROL_SOCKET))?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn ask(&mut self, command: &Command) -> io::Result<Reply> {
        send(self.stream.get_mut(), command)?;
        receive(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_may_be_lost_again_before_the_member_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            planted: None,
            retain_bytes: 1 << 20,
        };
        let member = Member::new(dir.path(), 0, &["here:1".to_owned()], settings).unwrap();
        fs::create_dir(member.dir.join(LOG_DIR)).unwrap();
        member.wipe_disk().unwrap();
        assert!(!member.dir.join(LOG_DIR).exists());
        member.wipe_disk().unwrap();
    }
}

//! A logger beside a cluster: a real process, `synod logger`, with a file like that of the manual.
//! A relay is one, too, by another command (`relay.rs`).

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use synod_local_cluster::ports::Ports;
use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, Why, ensure};
use crate::harness::TestCluster;
use crate::{place, programs};

/// Its place among the ports of a cluster: no cluster of a test has so many nodes.
const NODE: u8 = 9;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Difference between loggers and relays.
pub(crate) struct Kind {
    /// The command of `synod`.
    pub(crate) command: &'static str,
    /// The page of the manual that shows its file.
    pub(crate) page: &'static str,
    /// The sample in the package, which the manual has changed.
    pub(crate) sample: &'static str,
    /// Its place among the ports of the cluster.
    pub(crate) node: u8,
}

/// A logger's files, and its process while it runs. Killed when dropped.
#[derive(Debug)]
pub struct Logger {
    /// Subcommand of `synod`.
    command: &'static str,
    dir: PathBuf,
    lines: Vec<(String, String)>,
    process: Option<Child>,
}

impl Logger {
    /// Makes the files of a logger for this cluster, whose members have this secret.
    pub fn beside(cluster: &TestCluster, name: &str, secret: &str) -> Outcome<Logger> {
        let page = "docs/operating/membership.md";
        Logger::of(
            Kind {
                command: "logger",
                page,
                sample: "packaging/logger.toml",
                node: NODE,
            },
            cluster,
            name,
            secret,
            &[],
        )
    }

    /// Makes the files of a member of this kind, with these values besides those of a logger.
    pub(crate) fn of(
        kind: Kind,
        cluster: &TestCluster,
        name: &str,
        secret: &str,
        more: &[(&str, String)],
    ) -> Outcome<Logger> {
        let settings = cluster.settings();
        let dir = settings.dir.join(name);
        let secret_file = make_dir(&dir, secret)?;
        let port = |node| Ports::of(settings.base_port, node).group;
        let peers = cluster
            .nodes()
            .map(|node| format!("\"127.0.0.1:{}\"", port(node)));
        let peers: Vec<String> = peers.collect();
        let address = format!("127.0.0.1:{}", port(kind.node));
        let log_dir = dir.join("log");
        let mut values = vec![
            ("cluster_name", quoted(&settings.cluster_name)),
            ("name", quoted(name)),
            ("address", quoted(&address)),
            ("peers", format!("[{}]", peers.join(", "))),
            ("synod.log_dir", quoted(&log_dir.to_string_lossy())),
            ("synod.secret_file", quoted(&secret_file.to_string_lossy())),
        ];
        values.extend_from_slice(more);
        let lines = file_of_the_manual(&kind, &values)?;
        let mut logger = Logger::with_lines(kind.command, dir, lines);
        // All members are on this machine.
        logger.set("synod.listen_addr", &quoted(&address));
        logger.write_file()?;
        Ok(logger)
    }

    /// A member that runs by this command of `synod`, with these lines in its file. The directory
    /// is made by [`make_dir`].
    pub(crate) fn with_lines(
        command: &'static str,
        dir: PathBuf,
        lines: Vec<(String, String)>,
    ) -> Logger {
        Logger {
            command,
            dir,
            lines,
            process: None,
        }
    }

    /// Sets a key of its file, in the words of TOML.
    pub fn set(&mut self, key: &str, value: &str) {
        self.lines.retain(|(known, _)| known != key);
        self.lines.push((key.to_owned(), value.to_owned()));
    }

    /// Removes a key from its file.
    pub fn unset(&mut self, key: &str) {
        self.lines.retain(|(known, _)| known != key);
    }

    /// Value of a key in its file; empty if not set.
    pub fn value(&self, key: &str) -> &str {
        let line = self.lines.iter().find(|(known, _)| known == key);
        line.map_or("", |(_, value)| value)
    }

    /// Directory of its log.
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The file with the group secret.
    pub fn secret_file(&self) -> PathBuf {
        self.dir.join("group.secret")
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join("logger.toml")
    }

    fn write_file(&self) -> Outcome {
        let lines = self.lines.iter();
        let text: String = lines
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        fs::write(self.file(), text).why("the logger's file")
    }

    /// Starts it; waits for nothing.
    pub fn start(&mut self) -> Outcome {
        self.start_with(&[])
    }

    /// Starts it with more arguments; waits for nothing.
    pub fn start_with(&mut self, arguments: &[&str]) -> Outcome {
        self.write_file()?;
        let errors = File::create(self.error_log()).why("the logger's lines")?;
        // It dies with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(place::program()?);
        command.args([self.command, "--config"]).arg(self.file());
        command.args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        self.process = Some(command.spawn().why("starting the logger")?);
        Ok(())
    }

    /// Starts it, and waits until it takes part in its group.
    pub fn join(&mut self) -> Outcome {
        self.start()?;
        self.await_line("takes part in group")
    }

    pub fn pid(&self) -> Outcome<i32> {
        let id = self.process.as_ref().map(Child::id);
        let pid = id.and_then(|id| i32::try_from(id).ok());
        pid.ok_or_else(|| Failure("the logger does not run".to_owned()))
    }

    pub fn kill(&mut self) -> Outcome {
        if let Some(mut process) = self.process.take() {
            process.kill().why("killing the logger")?;
            process.wait().why("the killed logger")?;
        }
        Ok(())
    }

    /// Sends it a signal, as `kill` names it: `-HUP`.
    pub fn signal(&self, name: &str) -> Outcome {
        let mut kill = Command::new("kill");
        kill.arg(name).arg(self.pid()?.to_string());
        programs::output_of(&mut kill, "signalling the logger").map(|_| ())
    }

    /// Has it leave in an orderly shutdown (SIGTERM).
    pub fn stop(&mut self) -> Outcome {
        self.signal("-TERM")?;
        self.await_exit(0)
    }

    /// Waits until it has ended by itself with this exit code.
    pub fn await_exit(&mut self, code: i32) -> Outcome {
        let Some(mut process) = self.process.take() else {
            return Err(Failure("the logger does not run".to_owned()));
        };
        let ended = wait_for(PATIENCE, || process.try_wait().ok().flatten());
        if ended.is_none() {
            // Not left behind.
            let _ = process.kill();
            let _ = process.wait();
        }
        let found = ended.and_then(|status| status.code());
        ensure(found == Some(code), || {
            format!(
                "the logger ended with {found:?}, not {code}:\n{}",
                self.says()
            )
        })
    }

    /// Waits for a line.
    pub fn await_line(&self, part: &str) -> Outcome {
        let found = wait_for(PATIENCE, || self.says().contains(part).then_some(()));
        ensure(found.is_some(), || {
            format!("the logger does not say '{part}':\n{}", self.says())
        })
    }

    /// Its lines since its last start.
    pub fn says(&self) -> String {
        fs::read_to_string(self.error_log()).unwrap_or_default()
    }

    fn error_log(&self) -> PathBuf {
        self.dir.join("logger.err")
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        // The test has its outcome already.
        let _ = self.kill();
    }
}

/// Makes the directory of a member, in place of what is there, with its secret; gives the path of
/// the latter.
pub(crate) fn make_dir(dir: &Path, secret: &str) -> Outcome<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).why("removing the logger of an earlier run")?;
    }
    fs::create_dir_all(dir).why("the logger's directory")?;
    let secret_file = dir.join("group.secret");
    write_private(&secret_file, secret)?;
    Ok(secret_file)
}

/// The packaged sample with the lines that the manual shows, and these values in place of theirs.
fn file_of_the_manual(kind: &Kind, values: &[(&str, String)]) -> Outcome<Vec<(String, String)>> {
    let read = |path: &str| fs::read_to_string(place::workspace().join(path)).why(path);
    let (page, sample) = (read(kind.page)?, read(kind.sample)?);
    let lines = page.lines().map(str::trim);
    let shown = lines
        .skip_while(|line| !line.starts_with("cluster_name = "))
        .map_while(|line| line.split_once(" = "));
    let shown: Vec<&str> = shown.map(|(key, _)| key).collect();
    let given = sample.lines().filter_map(|line| line.split_once(" = "));
    let given: Vec<&str> = given.map(|(key, _)| key).collect();
    let known: Vec<&str> = values.iter().map(|(key, _)| *key).collect();
    let is_whole = known
        .iter()
        .all(|key| shown.contains(key) || given.contains(key));
    ensure(
        is_whole && shown.iter().all(|key| known.contains(key)),
        || format!("the manual shows {shown:?}, and the sample has {given:?}: not {known:?}"),
    )?;
    let owned = |(key, value): &(&str, String)| ((*key).to_owned(), value.clone());
    Ok(values.iter().map(owned).collect())
}

/// Quotes a text for TOML.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Writes a file that no other user may read.
pub fn write_private(path: &Path, text: &str) -> Outcome {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).why(path.display())?;
    std::io::Write::write_all(&mut file, text.as_bytes()).why(path.display())
}

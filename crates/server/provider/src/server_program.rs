//! Asks the server's own program what only it knows: its settings, and where its database is.
//!
//! The provider is called before the storage engines start. At that time the same program, with the
//! same arguments, can be run to its end for an answer, as service units and SST scripts do. Such a
//! run loads no provider and opens no port.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::api::Gtid;

const POSITION_MARK: &str = "WSREP: Recovered position:";
/// Environment variables that the service manager sets for the server alone.
const SERVICE_VARIABLES: [&str; 4] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("cannot run {} {purpose}: {source}", program.display())]
    NotRun {
        program: PathBuf,
        purpose: &'static str,
        source: io::Error,
    },
    #[error(
        "{}, started with the arguments of this process, serves the data in {said}, and this \
         process those in {}. Give absolute paths in its arguments and options",
        program.display(), own.display()
    )]
    OtherData {
        program: PathBuf,
        said: String,
        own: PathBuf,
    },
    #[error("{} {purpose} says nothing of it, but: {last}", program.display())]
    Silent {
        program: PathBuf,
        purpose: &'static str,
        last: String,
    },
}

pub(crate) struct ServerProgram {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Base of relative paths among the arguments: the server has changed into its data directory
    /// since it read them. `None`: unknown, or closed to this process.
    started_in: Option<PathBuf>,
}

impl ServerProgram {
    pub(crate) fn of_this_process() -> io::Result<ServerProgram> {
        let line = std::fs::read("/proc/self/cmdline")?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        let words = line.split(|byte| *byte == 0);
        let arguments = words.skip(1).map(|word| OsString::from_vec(word.to_vec()));
        Ok(ServerProgram {
            program: std::env::current_exe()?,
            arguments: arguments.collect(),
            started_in: std::env::var_os("PWD")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute() && dir.join(".").is_dir()),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(dir) = &self.started_in {
            command.current_dir(dir);
        }
        command
    }

    pub(crate) fn check_data_dir(&self, own: &Path) -> Result<(), NoAnswer> {
        let settings = self.settings()?;
        let said = settings.get("datadir").unwrap_or_default().to_owned();
        let dir = self
            .started_in
            .as_deref()
            .unwrap_or(Path::new(""))
            .join(&said);
        match (dir.canonicalize(), own.canonicalize()) {
            (Ok(said), Ok(own)) if said == own => Ok(()),
            _ => Err(NoAnswer::OtherData {
                program: self.program.clone(),
                said,
                own: own.to_owned(),
            }),
        }
    }

    /// The values that variables have at the server's start, from its configuration and arguments.
    pub(crate) fn settings(&self) -> Result<Settings, NoAnswer> {
        let purpose = "--help";
        let (out, err) = self.run(&["--verbose"], purpose)?;
        let settings = Settings::parse(&out);
        // Every server has it.
        match settings.get("datadir") {
            Some(_) => Ok(settings),
            None => Err(self.silent(purpose, &err)),
        }
    }

    /// Position of the engine after its own recovery. The nil group: it was never in one.
    pub(crate) fn recovered_position(&self) -> Result<Gtid, NoAnswer> {
        // The ports are this process's. The log is this run's answer.
        let quiet = [
            "--skip-networking",
            "--socket=synod-recovery.sock",
            "--skip-log-error",
        ];
        let purpose = "--wsrep-recover";
        let (out, err) = self.run(&quiet, purpose)?;
        let found = out.lines().chain(err.lines()).find_map(parse_position);
        found.ok_or_else(|| self.silent(purpose, &err))
    }

    /// Runs the program in the place of this process, as at its start, but not from a position of
    /// then, nor to begin a group. Returns only if that fails.
    pub(crate) fn replace_this_process(&self, variable: &str, value: &str) -> io::Error {
        let mut command = self.command();
        command.args(lasting(&self.arguments)).env(variable, value);
        command.exec()
    }

    fn silent(&self, purpose: &'static str, log: &str) -> NoAnswer {
        NoAnswer::Silent {
            program: self.program.clone(),
            purpose,
            last: log.lines().last().unwrap_or_default().to_owned(),
        }
    }

    fn run(&self, before: &[&str], purpose: &'static str) -> Result<(String, String), NoAnswer> {
        let mut command = self.command();
        command
            .args(&self.arguments)
            .args(before)
            .arg(purpose)
            .stdin(Stdio::null());
        for variable in SERVICE_VARIABLES {
            command.env_remove(variable);
        }
        let output = command.output().map_err(|source| NoAnswer::NotRun {
            program: self.program.clone(),
            purpose,
            source,
        })?;
        Ok((
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

/// The server's variables at its start, as `mariadbd --help --verbose` lists them.
#[derive(Debug, Default)]
pub(crate) struct Settings(HashMap<String, String>);

impl Settings {
    pub(crate) fn parse(lines: &str) -> Settings {
        let variable = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        Settings(lines.lines().filter_map(variable).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// Arguments that hold for a second start, too.
fn lasting(arguments: &[OsString]) -> Vec<OsString> {
    let mut lasting = Vec::new();
    let mut takes_value = false;
    for argument in arguments {
        let text = argument.to_string_lossy().replace('_', "-");
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        if std::mem::take(&mut takes_value) {
            continue;
        }
        match name {
            "--wsrep-start-position" => takes_value = value.is_none(),
            "--wsrep-new-cluster" => {}
            _ => lasting.push(argument.clone()),
        }
    }
    lasting
}

fn parse_position(line: &str) -> Option<Gtid> {
    let (_, text) = line.split_once(POSITION_MARK)?;
    // The server may append more after a comma.
    let text = text.trim().split([',', ' ']).next()?;
    let (group, seqno) = text.rsplit_once(':')?;
    Some(Gtid::new(group.parse().ok()?, seqno.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::GroupId;

    /// A program that ignores its arguments and runs these commands.
    fn program(commands: &str) -> ServerProgram {
        ServerProgram {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".into(), commands.into()],
            started_in: None,
        }
    }

    #[test]
    fn position_is_found_among_the_lines_of_the_log() {
        let log = "echo noise >&2; echo '2026 0 [Note] WSREP: Recovered position: \
                   01010101-0101-0101-0101-010101010101:42,0-1-7' >&2";
        let position = program(log).recovered_position().unwrap();
        let group = GroupId([1; 16]);
        assert_eq!(position, Gtid { group, seqno: 42 });
    }

    #[test]
    fn variable_is_found_by_its_whole_name() {
        let help = program("echo 'datadir /a'; echo 'log-x-y   7'; echo 'log-x     b  '");
        let settings = help.settings().unwrap();
        assert_eq!(settings.get("log-x"), Some("b"));
        assert_eq!(settings.number("log-x-y"), Some(7));
        assert_eq!(settings.number::<u64>("log-x"), None);
        assert_eq!(settings.get("log"), None);
        let text = program("echo 'no such option' >&2").settings();
        let text = text.unwrap_err().to_string();
        assert!(text.contains("--help says nothing"), "{text}");
        assert!(text.contains("no such option"), "{text}");
    }

    #[test]
    fn program_that_fails_says_why() {
        let error = program("echo 'unknown option' >&2; exit 7").recovered_position();
        let text = error.unwrap_err().to_string();
        assert!(text.contains("--wsrep-recover says nothing"), "{text}");
        assert!(text.contains("unknown option"), "{text}");
        let missing = ServerProgram {
            program: PathBuf::from("/nowhere/mariadbd"),
            arguments: Vec::new(),
            started_in: None,
        };
        let text = missing.recovered_position().unwrap_err().to_string();
        assert!(
            text.contains("cannot run /nowhere/mariadbd --wsrep-recover"),
            "{text}"
        );
    }

    #[test]
    fn second_start_has_neither_the_position_nor_the_bootstrap_of_the_first() {
        let words = [
            "--defaults-file=/a",
            "--wsrep_start_position=u:4",
            "--user",
            "mysql",
            "--wsrep-start-position",
            "u:5",
            "--wsrep-new-cluster",
            "--log_error=x",
        ];
        let words = words.map(OsString::from);
        let expected = ["--defaults-file=/a", "--user", "mysql", "--log_error=x"];
        assert_eq!(lasting(&words), expected.map(OsString::from));
    }

    #[test]
    fn program_runs_where_this_process_was_started() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let mut relative = program("echo datadir .; pwd >&2");
        relative.started_in = Some(dir.clone());
        relative.check_data_dir(&dir).unwrap();
        let error = relative.check_data_dir(Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("absolute paths"), "{error}");
        let error = relative.recovered_position().unwrap_err().to_string();
        assert!(error.contains(dir.to_str().unwrap()), "{error}");
    }

    #[test]
    fn this_process_is_found() {
        let own = ServerProgram::of_this_process().unwrap();
        assert_eq!(own.program, std::env::current_exe().unwrap());
        assert_eq!(own.arguments.len(), std::env::args_os().count() - 1);
    }
}

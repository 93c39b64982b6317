//! Runs the package's test driver.
//!
//! The driver runs as an unprivileged user, in a work directory of its own, with a copy of the
//! provider library.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use synod_local_cluster::ServerUser;

use crate::args::{Args, Selection};
use crate::catalogue::{TestName, driver_of, package_dir};
use crate::error::CompatError;
use crate::outcome::{Outcome, Reader};

/// A file that marks a work directory, so that no other directory is ever emptied.
const MARK: &str = "made-by-synod-compat";
/// Seconds a server may take to stop before the driver kills it.
const SHUTDOWN_SECONDS: u8 = 60;
/// Copies of the data of failed tests that are kept.
const KEPT_DATA: u8 = 3;
/// Ports of each worker; what the driver takes for the largest group.
const PORTS_PER_WORKER: u16 = 30;
/// The driver counts ports in groups from here.
const FIRST_PORT: u16 = 10000;

/// Runs the selected tests and returns the result of each. The driver's output also goes to a file
/// in the work directory; a line for each run goes to standard output when the run ends.
///
/// # Errors
/// If the driver cannot be run, or ends before it has run everything.
pub(crate) fn run(
    args: &Args,
    selection: &Selection,
    tests: Option<&[TestName]>,
) -> Result<Outcome, CompatError> {
    let user = ServerUser::find()?;
    let work = prepare(&args.work_dir, &user)?;
    let provider = install_provider(&args.provider, &work)?;
    let skip_list = args.skip_test_list.as_deref().map(absolute).transpose()?;
    user.check_reach(&work)?;

    let mut command = Command::new("perl");
    command
        .arg(driver_of(&package_dir()))
        .current_dir(package_dir());
    command.env("WSREP_PROVIDER", &provider);
    // Nothing in the caller's environment may decide about servers and ports.
    for name in [
        "MTR_BUILD_THREAD",
        "MTR_PORT_BASE",
        "MTR_PARALLEL",
        "MTR_MEM",
    ] {
        command.env_remove(name);
    }
    command
        .arg(format!("--vardir={}", work.join("var").display()))
        .arg(format!("--tmpdir={}", work.join("tmp").display()))
        .args(["--force", "--max-test-fail=0", "--retry=0"])
        .arg(format!("--build-thread={}", build_thread(args.port_base)))
        .arg(format!("--port-group-size={PORTS_PER_WORKER}"))
        .arg(format!("--parallel={}", args.parallel))
        .arg(format!("--testcase-timeout={}", args.test_minutes))
        .arg(format!("--shutdown-timeout={SHUTDOWN_SECONDS}"))
        .arg(format!("--max-save-datadir={KEPT_DATA}"));
    if args.big {
        command.arg("--big-test");
    }
    if let Some(file) = skip_list {
        command.arg(format!("--skip-test-list={}", file.display()));
    }
    match (selection, tests) {
        (Selection::Suites(suites), _) => {
            command.arg(format!("--suite={}", suites.join(",")));
        }
        (Selection::Tests(_), tests) => {
            command.args(tests.unwrap_or_default().iter().map(ToString::to_string));
        }
    }
    user.apply(&mut command);
    follow(command, &work.join("driver.log"))
}

/// The driver's number for the group of ports that begins at this port or the next possible one.
fn build_thread(port_base: u16) -> u16 {
    port_base
        .saturating_sub(FIRST_PORT)
        .div_ceil(PORTS_PER_WORKER)
}

/// Runs the driver and reads what it writes until it ends.
fn follow(mut command: Command, log: &Path) -> Result<Outcome, CompatError> {
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| CompatError::File { what, path, source }
    };
    let mut copy = File::create(log).map_err(failed("write", log))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(copy.try_clone().map_err(failed("write", log))?);
    let mut child = command
        .spawn()
        .map_err(failed("start", Path::new("perl")))?;
    let mut reader = Reader::default();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // Not every line is UTF-8: tests write what they please.
        while output
            .read_until(b'\n', &mut line)
            .map_err(failed("read", log))?
            > 0
        {
            copy.write_all(&line).map_err(failed("write", log))?;
            for run in reader.line(String::from_utf8_lossy(&line).trim_end()) {
                println!("{run}");
            }
            line.clear();
        }
    }
    let status = child
        .wait()
        .map_err(failed("wait for", Path::new("perl")))?;
    let runs = reader.runs();
    reader.finish().ok_or_else(|| CompatError::DriverEnded {
        status: status.to_string(),
        runs,
        log: log.to_owned(),
    })
}

/// An empty work directory that belongs to the user who runs servers.
fn prepare(dir: &Path, user: &ServerUser) -> Result<PathBuf, CompatError> {
    let failed = |what: &'static str| {
        let path = dir.to_owned();
        move |source| CompatError::File { what, path, source }
    };
    if dir.exists() {
        let is_empty = std::fs::read_dir(dir)
            .map_err(failed("read"))?
            .next()
            .is_none();
        if !is_empty && !dir.join(MARK).is_file() {
            return Err(CompatError::ForeignDir {
                dir: dir.to_owned(),
            });
        }
        std::fs::remove_dir_all(dir).map_err(failed("empty"))?;
    }
    let tmp = dir.join("tmp");
    std::fs::create_dir_all(&tmp).map_err(failed("make"))?;
    File::create(dir.join(MARK)).map_err(failed("make"))?;
    user.give(dir)?;
    user.give(&tmp)?;
    absolute(dir)
}

/// Copies the library under test to the work directory. Servers run as another user, who may not
/// reach the directory of the build, and a build during the tests must not change what is tested.
fn install_provider(library: &Path, work: &Path) -> Result<PathBuf, CompatError> {
    if !library.is_file() {
        return Err(CompatError::NoProvider {
            path: library.to_owned(),
        });
    }
    let copy = work.join("provider.so");
    std::fs::copy(library, &copy).map_err(|source| CompatError::File {
        what: "copy",
        path: library.to_owned(),
        source,
    })?;
    Ok(copy)
}

fn absolute(path: &Path) -> Result<PathBuf, CompatError> {
    path.canonicalize().map_err(|source| CompatError::File {
        what: "find",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_begin_no_earlier_than_asked_for() {
        let first_port = |base| FIRST_PORT + build_thread(base) * PORTS_PER_WORKER;
        assert_eq!(first_port(28000), 28000);
        assert_eq!(first_port(28001), 28030);
        assert_eq!(first_port(10000), 10000);
        assert!(first_port(32000) <= 32767 - PORTS_PER_WORKER);
    }

    #[test]
    fn directory_of_another_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("precious"), "x").unwrap();
        let user = ServerUser::find().unwrap();
        let refused = prepare(dir.path(), &user);
        assert!(
            matches!(refused, Err(CompatError::ForeignDir { .. })),
            "{refused:?}"
        );
        assert!(dir.path().join("precious").exists());
    }

    #[test]
    fn own_directory_is_emptied() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("work");
        let user = ServerUser::find().unwrap();
        prepare(&dir, &user).unwrap();
        std::fs::write(dir.join("old"), "x").unwrap();
        prepare(&dir, &user).unwrap();
        assert!(!dir.join("old").exists());
    }

    #[test]
    fn driver_that_dies_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'galera.a   [ pass ]   12'; exit 3"]);
        let ended = follow(command, &dir.path().join("log"));
        assert!(
            matches!(ended, Err(CompatError::DriverEnded { runs: 1, .. })),
            "{ended:?}"
        );
    }
}

//! Creating an empty database, and asking a stopped one for its position.
//!
//! Both run programs of MariaDB to their end, as packages do at installation and at start.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::error::{ClusterError, IoContext, Lines, Result};
use crate::error_log;
use crate::files::NodeFiles;
use crate::process::{self, find_program};
use crate::settings::Settings;
use crate::user::ServerUser;

/// Creating system tables takes seconds; recovery reads a redo log of at most 96 MiB.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The line in which the server prints its position.
const MARK: &str = "WSREP: Recovered position:";

/// Creates an empty database whose only account is the administrator's, by socket.
pub(crate) fn install_database(settings: &Settings, node: u8, user: &ServerUser) -> Result<()> {
    let files = NodeFiles::of(&settings.dir, node);
    let program = find_program("mariadb-install-db", "mariadb-server")?;
    let output_path = files.root.join("install.log");
    let output = fs::File::create(&output_path).context("create", &output_path)?;
    let errors = output.try_clone().context("open", &output_path)?;
    let mut command = process::command(&program, settings.die_with_parent);
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", files.data.display()))
        .arg(format!("--tmpdir={}", files.tmp.display()))
        .args(["--auth-root-authentication-method=socket", "--skip-test-db"])
        .arg(format!("--auth-root-socket-user={}", user.admin))
        .args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"])
        .env("PATH", process::search_path())
        .env("TMPDIR", &files.tmp)
        .current_dir(&files.root)
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors));
    user.apply(&mut command);
    match process::run_bounded(command, TIMEOUT)? {
        Some(status) if status.success() => Ok(()),
        _ => {
            let output = error_log::lines_that_matter(&output_path, 0).to_string();
            Err(ClusterError::InstallFailed { node, output })
        }
    }
}

/// The position of the stopped node's database, as `UUID:SEQNO`; none when it has never been in a
/// group. The server itself finds it (`--wsrep-recover`), as under the service units of Debian.
pub(crate) fn recovered_position(
    settings: &Settings,
    node: u8,
    user: &ServerUser,
) -> Result<Option<String>> {
    let files = NodeFiles::of(&settings.dir, node);
    let program = find_program("mariadbd", "mariadb-server")?;
    let log = &files.recover_log;
    if log.exists() {
        fs::remove_file(log).context("remove", log)?;
    }
    let mut command = process::node_command(settings, node, user, &program);
    command
        .arg(format!("--defaults-file={}", files.cnf.display()))
        .arg("--wsrep-recover")
        .arg(format!("--log-error={}", log.display()))
        .env("PATH", process::search_path())
        .current_dir(&files.root)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = process::run_bounded(command, TIMEOUT)?;
    let text = error_log::text_since(log, 0);
    match parse_position(&text) {
        Some(position) => Ok(position.into_start_position()),
        None => Err(recover_failed(node, status.map(|s| s.to_string()), log)),
    }
}

fn recover_failed(node: u8, status: Option<String>, log: &Path) -> ClusterError {
    let tail: Lines = error_log::lines_that_matter(log, 0);
    let status = status.unwrap_or_else(|| format!("killed after {} s", TIMEOUT.as_secs()));
    ClusterError::RecoverFailed {
        node,
        status,
        log: log.to_owned(),
        tail,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    group: String,
    seqno: i64,
}

impl Position {
    /// The nil group means that the database was never in a group: it has no position.
    fn into_start_position(self) -> Option<String> {
        let nil = self.group.chars().all(|c| matches!(c, '0' | '-'));
        (!nil && self.seqno >= 0).then(|| format!("{}:{}", self.group, self.seqno))
    }
}

fn parse_position(log: &str) -> Option<Position> {
    let line = log.lines().rev().find(|line| line.contains(MARK))?;
    let text = line.split(MARK).nth(1)?.trim();
    // MariaDB may append ",domain-server-sequence".
    let text = text.split([',', ' ']).next()?;
    let (group, seqno) = text.split_once(':')?;
    Some(Position {
        group: group.to_owned(),
        seqno: seqno.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "8c6a5f0e-c4d2-11ef-9a51-3f0d8e1c2b7a";

    fn parse(text: &str) -> Option<Option<String>> {
        parse_position(text).map(Position::into_start_position)
    }

    #[test]
    fn last_position_of_the_log_is_taken() {
        let log = format!(
            "x\n0 [Note] WSREP: Recovered position: {GROUP}:3\n1 [Note] {MARK} {GROUP}:77\n"
        );
        assert_eq!(parse(&log), Some(Some(format!("{GROUP}:77"))));
    }

    #[test]
    fn gtid_after_the_position_is_not_part_of_it() {
        assert_eq!(
            parse(&format!("{MARK} {GROUP}:5,0-1-9\n")),
            Some(Some(format!("{GROUP}:5")))
        );
    }

    #[test]
    fn nil_group_means_no_position() {
        let log = format!("{MARK} 00000000-0000-0000-0000-000000000000:-1\n");
        assert_eq!(parse(&log), Some(None));
    }

    #[test]
    fn log_without_the_line_is_an_error() {
        assert_eq!(parse("[ERROR] InnoDB: corrupted\n"), None);
    }
}

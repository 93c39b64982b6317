//! Talking SQL to a node as its administrator, by the `mariadb` client program and the node's
//! socket: no password, no port, no client library in this program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{ClusterError, IoContext, Result};
use crate::process::find_program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tab-separated values without names, for programs.
    Plain,
    /// A drawn table with column names, for people.
    Table,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) node: u8,
    pub(crate) socket: &'a Path,
    pub(crate) admin: &'a str,
}

/// Runs statements and gives the rows, as text fields. `timeout`: whole seconds, at least one.
pub(crate) fn query(target: Target<'_>, sql: &str, timeout: Duration) -> Result<Vec<Vec<String>>> {
    let mut command = command(target, sql, timeout, Format::Plain)?;
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("start", "mariadb")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = if said.is_empty() {
            format!("no answer within {} s to: {sql}", timeout.as_secs().max(1))
        } else {
            said
        };
        return Err(ClusterError::Sql {
            node: target.node,
            message,
        });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect())
}

/// The client program, ready to run `sql`; killed when it takes longer than `timeout`.
pub(crate) fn command(
    target: Target<'_>,
    sql: &str,
    timeout: Duration,
    format: Format,
) -> Result<Command> {
    let client = find_program("mariadb", "mariadb-client")?;
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "--kill-after=1"])
        .arg(timeout.as_secs().max(1).to_string())
        .arg(client)
        .args(["--no-defaults", "--protocol=socket", "--connect-timeout=3"])
        .arg(format!("--socket={}", target.socket.display()))
        .arg(format!("--user={}", target.admin));
    match format {
        Format::Plain => command.args(["--batch", "--skip-column-names"]),
        Format::Table => command.args(["--table", "--show-warnings"]),
    };
    command.arg(format!("--execute={sql}"));
    Ok(command)
}

//! Keeps the server's `read_only` as its role asks: `ON` while another server is the only writer
//! (`synod.writers=leader`), `OFF` on the writer. Proxies and checks that know Galera look at that
//! variable: the library alone refuses writes, which they cannot see.
//!
//! The program `mariadb` sets it, with an account of the agent's own
//! (`docs/operating/single-primary.md`). While every server may write, and while the agent does not
//! know, the variable stays as it is, except that the agent takes back its own `ON`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use synod_admin::status::Status;
use tokio::process::Command;

use crate::Asker;

/// Pause between looks at the server's role.
const PAUSE: Duration = Duration::from_millis(200);
/// Time after which the variable is set again: a person may have changed it.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause after a failure. It is logged when its text changes.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Time limit for the program. The statement waits for transactions that are just committing, and
/// ends by itself before: see [`statements`].
const PROGRAM_LIMIT: Duration = Duration::from_secs(5);

/// Statements that end the sessions of clients; dumps of the binlog read only.
const END_SESSIONS: &str = "SELECT CONCAT('KILL CONNECTION ', id, ';') FROM \
    information_schema.processlist WHERE id <> CONNECTION_ID() AND command NOT IN ('Daemon', \
    'Binlog Dump', 'Slave_IO', 'Slave_SQL', 'Slave_worker') AND user NOT IN ('system user', \
    'event_scheduler')";

/// Error of a session that is another user's. With `--force` it does not end the program.
const NOT_ALLOWED_TO_KILL: &str = "ERROR 1095 ";

/// Work of the agent on its server's `read_only`.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    /// Option file of the program `mariadb` with the account; none: the program's own ones.
    pub account_file: Option<PathBuf>,
    /// Whether sessions of clients end when the server stops being the writer: pools reconnect,
    /// and their proxy leads them to the new one.
    pub ends_sessions: bool,
}

/// A server that the agent knows to have one role or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    /// Process of the server: nothing is known of one that was restarted.
    pid: u32,
    is_read_only: bool,
}

/// The role that the server has now; none: `read_only` stays as it is.
fn role(status: &Status, last: Option<Role>) -> Option<Role> {
    let pid = status.server.pid;
    let role = |is_read_only| Some(Role { pid, is_read_only });
    match &status.group {
        Some(group) if group.has_one_writer => role(!status.server.takes_writes),
        Some(_) => last
            .filter(|last| last.pid == pid && last.is_read_only)
            .and(role(false)),
        // It has left the group of one writer, or has not joined yet: it is not the writer.
        None => last.and_then(|_| role(true)),
    }
}

fn statements(role: Role) -> String {
    let value = if role.is_read_only { "ON" } else { "OFF" };
    format!(
        "SET SESSION lock_wait_timeout = 2; SELECT @@GLOBAL.read_only; SET GLOBAL read_only = \
         {value}"
    )
}

impl ReadOnly {
    /// Never ends.
    pub(crate) async fn keep(self, asker: Asker) {
        let mut last: Option<Role> = None;
        let mut set_at: Option<Instant> = None;
        let mut failure = String::new();
        loop {
            tokio::time::sleep(PAUSE).await;
            let Ok(seen) = asker.status().await else {
                continue;
            };
            if seen.server.is_mysql {
                say("read_only is left alone: with MySQL the plugin sets super_read_only itself");
                return;
            }
            let Some(role) = role(&seen, last) else {
                continue;
            };
            let is_new = last != Some(role);
            if !is_new && set_at.is_some_and(|at| at.elapsed() < AGAIN) {
                continue;
            }
            match self.set(role, is_new).await {
                Ok(()) => {
                    if self.ends_sessions && stops_writing(last, role) {
                        self.end_sessions().await;
                    }
                    (last, set_at) = (Some(role), Some(Instant::now()));
                    failure.clear();
                }
                Err(why) => {
                    if why != failure {
                        say(&format!("cannot set read_only: {why}"));
                    }
                    failure = why;
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    async fn set(&self, role: Role, is_new: bool) -> Result<(), String> {
        let before = self.run(&statements(role), &[]).await?;
        let was_read_only = before.trim() == "1";
        if was_read_only != role.is_read_only {
            let value = if role.is_read_only { "ON" } else { "OFF" };
            let why = match (is_new, role.is_read_only) {
                (false, _) => "it had been changed",
                (true, true) => "the server is not the writer (synod.writers=leader)",
                (true, false) => "the server takes writes",
            };
            say(&format!("read_only is {value} now: {why}"));
        }
        Ok(())
    }

    async fn end_sessions(&self) {
        let ended = match self.run(END_SESSIONS, &[]).await {
            Ok(kills) if kills.is_empty() => Ok(0),
            // It may have ended meanwhile: the next one is killed all the same.
            Ok(kills) => (self.run(&kills, &["--force"]).await).map(|_| kills.lines().count()),
            Err(why) => Err(why),
        };
        match ended {
            Ok(count) => say(&format!(
                "the server is no longer the writer: ended {count} sessions of clients"
            )),
            Err(why) => say(&format!("cannot end the sessions of clients: {why}")),
        }
    }

    /// Standard output of the program. Its `--force` counts only behind the statements.
    async fn run(&self, statements: &str, more: &[&str]) -> Result<String, String> {
        let mut command = Command::new("mariadb");
        if let Some(file) = &self.account_file {
            let mut option = std::ffi::OsString::from("--defaults-extra-file=");
            option.push(file);
            command.arg(option);
        }
        command
            .args(["--batch", "--skip-column-names", "--connect-timeout=2"])
            .args(["--execute", statements])
            .args(more)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(PROGRAM_LIMIT, command.output()).await;
        let output = output.map_err(|_| {
            format!(
                "the server has not answered for {} s",
                PROGRAM_LIMIT.as_secs()
            )
        })?;
        let Output {
            status,
            stdout,
            stderr,
        } = output.map_err(|error| {
            format!(
                "cannot run the program 'mariadb': {error}. Install it (Debian: apt-get install \
                 mariadb-client)"
            )
        })?;
        let text = String::from_utf8_lossy(&stderr);
        if status.success() && !text.contains(NOT_ALLOWED_TO_KILL) {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        } else {
            let remedy = match text.contains("denied") || text.contains(NOT_ALLOWED_TO_KILL) {
                true => ". The account that it needs: docs/operating/single-primary.md",
                false => "",
            };
            Err(format!("{}{remedy}", text.trim()))
        }
    }
}

fn stops_writing(last: Option<Role>, role: Role) -> bool {
    last.is_some_and(|last| last.pid == role.pid && !last.is_read_only) && role.is_read_only
}

fn say(text: &str) {
    // An agent whose log is closed keeps the variable all the same.
    let _ = writeln!(std::io::stderr(), "synod agent: {text}");
}

#[cfg(test)]
mod tests {
    use synod_admin::status::{Group, Server};

    use super::*;

    fn status(one_writer: Option<bool>, takes_writes: bool) -> Status {
        Status {
            server: Server {
                pid: 7,
                takes_writes,
                ..Server::default()
            },
            group: one_writer.map(|has_one_writer| Group {
                has_one_writer,
                ..Group::default()
            }),
            ..Status::default()
        }
    }

    fn of(pid: u32, is_read_only: bool) -> Role {
        Role { pid, is_read_only }
    }

    #[test]
    fn only_the_writer_is_not_read_only() {
        let role = |takes_writes| role(&status(Some(true), takes_writes), None);
        assert_eq!(role(true), Some(of(7, false)));
        assert_eq!(role(false), Some(of(7, true)));
    }

    #[test]
    fn variable_is_the_operators_while_all_servers_write() {
        let all_write = status(Some(false), true);
        assert_eq!(role(&all_write, None), None);
        assert_eq!(role(&all_write, Some(of(6, true))), None, "restarted since");
        assert_eq!(role(&all_write, Some(of(7, true))), Some(of(7, false)));
        assert_eq!(role(&all_write, Some(of(7, false))), None, "taken back");
    }

    #[test]
    fn server_that_left_its_group_is_read_only_if_the_agent_cares_for_it() {
        assert_eq!(role(&status(None, false), None), None);
        let was_writer = Some(of(7, false));
        assert_eq!(role(&status(None, false), was_writer), Some(of(7, true)));
    }

    #[test]
    fn sessions_end_where_the_writer_was_only() {
        assert!(stops_writing(Some(of(7, false)), of(7, true)));
        assert!(!stops_writing(Some(of(7, true)), of(7, true)));
        assert!(!stops_writing(None, of(7, true)), "the agent has started");
        assert!(!stops_writing(Some(of(6, false)), of(7, true)), "restarted");
    }
}

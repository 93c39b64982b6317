//! The program `mariadb`, or else `mysql`, which knows how operators reach their server: its option
//! files hold the password, and on the server's machine root needs none.

use std::io;
use std::process::{Command, Output, Stdio};

/// Error of a server that is out of its group and refuses to read tables.
const NOT_READY: &str = "ERROR 1047 ";

/// Error of the program: nothing listens on the server's socket.
const NO_SERVER: &str = "ERROR 2002 ";

#[derive(Clone, Debug)]
pub struct SqlClient {
    arguments: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "cannot run the program 'mariadb', nor 'mysql': {0}. On the machine of a logger or relay the doctor \
         looks at its file: write /etc/synod/logger.toml or relay.toml first. On a server's \
         machine, or to ask one elsewhere (--host), install the program (Debian: apt-get install \
         mariadb-client)"
    )]
    NotRun(#[source] io::Error),
    #[error(
        "the server cannot be asked: {0}. If it is starting, 'systemctl status mariadb' says what \
         it waits for. If it runs, be root on its machine, or name the server and a user: synod \
         doctor --host HOST --user USER, with the password in ~/.my.cnf"
    )]
    Refused(String),
}

impl ClientError {
    /// Whether no server answers at the place where one of this machine would.
    pub(super) fn is_without_server(&self) -> bool {
        match self {
            ClientError::NotRun(_) => true,
            ClientError::Refused(text) => text.contains(NO_SERVER),
        }
    }
}

impl SqlClient {
    /// Reaches the server by these arguments.
    pub fn new(arguments: Vec<String>) -> SqlClient {
        SqlClient { arguments }
    }

    /// The rows of a query, also of a server that is out of its group. NULL is the text `NULL`.
    pub fn rows(&self, query: &str) -> Result<Vec<Vec<String>>, ClientError> {
        match self.ask(query) {
            Err(ClientError::Refused(text)) if text.contains(NOT_READY) => {
                // Not always: a server without wsrep does not know the variable.
                self.ask(&format!("SET SESSION wsrep_dirty_reads = ON; {query}"))
            }
            answer => answer,
        }
    }

    fn ask(&self, query: &str) -> Result<Vec<Vec<String>>, ClientError> {
        let output = match self.run("mariadb", query) {
            // The client of MySQL's packages; its arguments are the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.run("mysql", query).map_err(|_| error)
            }
            ran => ran,
        };
        let output = output.map_err(ClientError::NotRun)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(ClientError::Refused(text.trim().to_owned()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(cells).collect())
    }

    fn run(&self, program: &str, query: &str) -> io::Result<Output> {
        Command::new(program)
            .args(&self.arguments)
            .args(["--batch", "--skip-column-names", "--connect-timeout=10"])
            .args(["--execute", query])
            .stdin(Stdio::null())
            .output()
    }
}

fn cells(line: &str) -> Vec<String> {
    line.split('\t').map(unescape).collect()
}

/// The program writes a tab, a line's end and a backslash in a value with a backslash.
fn unescape(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut chars = cell.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('t') => text.push('\t'),
                Some('n') => text.push('\n'),
                Some('0') => text.push('\0'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_the_server_has_them() {
        assert_eq!(cells("a\tb\\tc\t\\\\d\\n"), ["a", "b\tc", "\\d\n"]);
        assert_eq!(cells(""), [""]);
    }
}

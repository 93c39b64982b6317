//! Starts the router's process, sends it requests, and ends it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::control::{self, Answer, Counters, LinkChange, Request};
use super::process::{READY, RouterHost};
use crate::error::{IoContext, LabError, Result};

/// Real-time priority of the router, 1 to 99: above everything that has none.
const PRIORITY: &str = "20";

#[derive(Debug)]
pub struct Router {
    process: Child,
    socket: PathBuf,
}

impl Router {
    /// Starts the router and waits until the hosts' devices exist. `program` is `synod`.
    pub fn start(program: &Path, socket: &Path, hosts: &[RouterHost]) -> Result<Router> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if may_have_priority() {
            command.args(["chrt", "--fifo", PRIORITY]);
        }
        command.arg(program).args(["router", "--socket"]);
        command.arg(socket);
        for host in hosts {
            command.arg(argument(host));
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start", program)?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line); // an empty line is an error, too
        }
        if line.trim() == READY {
            let socket = socket.to_owned();
            return Ok(Router { process, socket });
        }
        let _ = process.kill(); // it may have ended by itself
        if let Some(mut stderr) = process.stderr.take() {
            let _ = stderr.read_to_string(&mut line);
        }
        let _ = process.wait();
        let said = line.trim().to_owned();
        Err(LabError::RouterEnded { said })
    }

    pub fn set(&self, changes: Vec<LinkChange>) -> Result<()> {
        match ask(&self.socket, &Request::Set(changes))? {
            Answer::Done | Answer::Counters(_) => Ok(()),
            Answer::Refused(reason) => Err(LabError::Refused(reason)),
        }
    }

    pub fn read(&self) -> Result<Counters> {
        match ask(&self.socket, &Request::Read)? {
            Answer::Counters(counters) => Ok(counters),
            Answer::Done => Err(LabError::Refused("it does not tell its counters".into())),
            Answer::Refused(reason) => Err(LabError::Refused(reason)),
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended by itself
        let _ = self.process.wait();
    }
}

fn ask(socket: &Path, request: &Request) -> Result<Answer> {
    control::ask(socket, request).context("ask the router at", socket)
}

pub fn argument(host: &RouterHost) -> String {
    let file = host.namespace.display();
    format!("{}={}={file}", host.name, host.address)
}

pub fn parse_argument(text: &str) -> std::result::Result<RouterHost, String> {
    let wrong = || format!("'{text}' is not NAME=ADDRESS=FILE");
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (address, file) = rest.split_once('=').ok_or_else(wrong)?;
    Ok(RouterHost {
        name: name.to_owned(),
        address: address.parse().map_err(|_| wrong())?,
        namespace: file.into(),
    })
}

/// Whether this machine gives real-time priorities; containers often do not. Without one, delays
/// are longer when servers use all cores.
fn may_have_priority() -> bool {
    let mut command = Command::new("chrt");
    command.args(["--fifo", PRIORITY, "true"]);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_read_as_it_was_written() {
        let host = RouterHost {
            name: "db1".into(),
            address: [10, 77, 0, 1].into(),
            namespace: "/run/netns/synod-lab-x-db1".into(),
        };
        assert_eq!(parse_argument(&argument(&host)), Ok(host));
        assert!(parse_argument("db1=10.77.0.1").is_err());
        assert!(parse_argument("db1=here=/x").is_err());
    }
}

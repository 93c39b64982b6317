//! An agent (`synod agent`) beside a server of a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::{Outcome, Why};
use crate::harness::TestCluster;
use crate::monitor::http_answer;
use crate::place;

/// An agent; killed when dropped.
#[derive(Debug)]
pub struct AgentProcess {
    process: Child,
    /// The port of 127.0.0.1 on which it listens.
    pub port: u16,
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl AgentProcess {
    /// Starts the agent of a node, on a port that the system chooses.
    pub fn start(cluster: &TestCluster, node: u8, more: &[&str]) -> Outcome<AgentProcess> {
        AgentProcess::of(&cluster.files(node).data, more)
    }

    /// The same for the server whose log is in this directory.
    pub fn of(dir: &Path, more: &[&str]) -> Outcome<AgentProcess> {
        let process = Command::new(place::program()?)
            .args(["agent", "--listen", "127.0.0.1:0", "--dir"])
            .arg(dir)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .why("starting an agent")?;
        let mut agent = AgentProcess { process, port: 0 };
        let output = agent.process.stdout.take();
        let output = output.ok_or("no output").why("the agent")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .why("its first line")?;
        let port = line.trim_end().rsplit(':').next();
        let port = port.and_then(|port| port.parse().ok());
        agent.port = port.ok_or(&line).why("the agent's address")?;
        Ok(agent)
    }

    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Status and body of a page.
    pub fn get(&self, path: &str) -> Outcome<(u16, String)> {
        http_answer(self.port, path, "")
    }
}

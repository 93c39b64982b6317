//! Requests to the running router: one line of JSON each way, over its Unix socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::queue::{LinkCounters, LinkSettings};
use super::stalls::StallsRead;

/// The router answers at once; longer means that it hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Set(Vec<LinkChange>),
    Read,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkChange {
    pub from: String,
    pub to: String,
    pub settings: LinkSettings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    /// The request names a host that does not exist, or cannot be read.
    Refused(String),
    Counters(Counters),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Counters of each direction of a link.
    pub links: Vec<(LinkName, LinkCounters)>,
    /// The times that cores stood still.
    pub stalls: StallsRead,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkName {
    pub from: String,
    pub to: String,
}

pub fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let line = serde_json::to_string(request)? + "\n";
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

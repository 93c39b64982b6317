//! The findings of a meter, in the form of its JSON file.
//!
//! Meters write these records, and the report reads them. Times are milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::Machine;
use crate::statistics::Distribution;

/// Version of the file's format: changes when a reader of the old one would misunderstand.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterRecord {
    /// [`FORMAT`] of the program that wrote the file.
    pub format: u32,
    pub command: String,
    pub date: String,
    pub machine: Machine,
    pub versions: BTreeMap<String, String>,
    pub system: String,
    pub topology: String,
    pub servers: Vec<String>,
    /// Processes that could run but did not (load average over a minute) before the meter began,
    /// per core: above 0.5 the machine was busy with other things.
    pub busy_before: f64,
    pub findings: Findings,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Findings {
    Delay(DelayFindings),
    Giant(Vec<GiantFindings>),
    Lag(Box<LagFindings>),
}

impl Findings {
    pub fn meter(&self) -> &'static str {
        match self {
            Findings::Delay(_) => "delay",
            Findings::Giant(_) => "giant",
            Findings::Lag(_) => "lag",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayFindings {
    pub writer: String,
    pub reader: String,
    pub load_clients: u32,
    pub phases: Vec<DelayPhase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOn {
    Nothing,
    Writer,
    Reader,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelayPhase {
    pub load_on: LoadOn,
    /// Whether readers asked to see all commits (`wsrep_sync_wait=1`).
    pub sync_wait: bool,
    pub samples: usize,
    /// Writes that the first read after the OK did not show.
    pub stale: usize,
    /// Writes that no read showed within the time limit.
    pub never: usize,
    /// Time from the OK to the start of the first read that showed the write; 0 if the first did.
    pub delay: Distribution,
    pub stale_delay: Distribution,
    pub read: Distribution,
    pub write: Distribution,
    pub load_tps: f64,
}

impl DelayPhase {
    /// The share of first reads that missed the write, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn stale_share(&self) -> f64 {
        self.stale as f64 / (self.samples.max(1) as f64)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GiantFindings {
    pub rows: u64,
    pub fragment_bytes: u64,
    pub origin: String,
    /// Small transactions per second that were to be made, all servers.
    pub rate: f64,
    pub seconds: f64,
    pub refused: Option<String>,
    /// Elections meanwhile: how much the term has grown. None: the system has no terms.
    pub elections: Option<i64>,
    pub servers: Vec<GiantServer>,
}

/// Effect of a huge transaction on one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GiantServer {
    pub server: String,
    pub commits: u64,
    /// The longest that one of its clients waited for an answer.
    pub longest_wait_ms: f64,
    /// The longest time without any commit of its clients.
    pub longest_gap_ms: f64,
    /// Longest time that its clients fell behind their pace.
    pub longest_behind_ms: f64,
    pub errors: BTreeMap<String, u64>,
    /// Time until small transactions of other servers became visible here.
    pub late: Distribution,
    /// Small transactions of other servers that were never seen here.
    pub never_seen: u64,
    /// Time from the statement's OK until its rows were visible here. None: the statement was
    /// refused, or its rows were not seen in time.
    pub visible_after_ms: Option<f64>,
    /// Resident memory before, bytes. None: the server is elsewhere.
    pub resident_before_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
    /// Status variables of the library that tell bytes: their greatest values meanwhile.
    pub library_bytes: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LagFindings {
    pub slow_server: String,
    /// Means by which it was slowed down, in words.
    pub slowed_by: String,
    pub origin: String,
    pub clients: u32,
    /// The group before, with the server as fast as the others.
    pub before: Pace,
    /// The group while the server was slow.
    pub slowed: Pace,
    /// The group afterwards, when the server had caught up.
    pub after: Pace,
    /// Greatest lag of the slow server, in actions.
    pub most_behind: i64,
    /// States that the slow server showed (`wsrep_local_state_comment`), with how often.
    pub states: BTreeMap<String, u64>,
    /// The fewest members that another server counted (`wsrep_cluster_size`).
    pub fewest_members: i64,
    /// Time from the end of the limit until the server had applied everything, with the load
    /// running. None: it had not when the load ended.
    pub caught_up_under_load_ms: Option<f64>,
    /// Time from the end of the load, if it had not before. None: not within the time limit.
    pub caught_up_without_load_ms: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    pub tps: f64,
    pub tps_by_second: Vec<f64>,
    pub errors: BTreeMap<String, u64>,
}

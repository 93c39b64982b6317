//! The findings of a meter, in the form of its JSON file.
//!
//! Meters write these records, and the report reads them. Times are milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::Machine;
use crate::statistics::Distribution;

/// Version of the file's format: changes when a reader of the old one would misunderstand.
pub const FORMAT: u32 = 1;

/// One run of one meter on one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterRecord {
    /// [`FORMAT`] of the program that wrote the file.
    pub format: u32,
    /// The command, as it can be typed again.
    pub command: String,
    /// Start: UTC, as `2026-11-22T23:45:00Z`.
    pub date: String,
    pub machine: Machine,
    /// Version of each program and library, by name.
    pub versions: BTreeMap<String, String>,
    /// `synod`, `galera`, ...
    pub system: String,
    /// Name of the emulated network.
    pub topology: String,
    /// The servers' names, in their order.
    pub servers: Vec<String>,
    /// Processes that could run but did not (load average over a minute) before the meter began,
    /// per core: above 0.5 the machine was busy with other things.
    pub busy_before: f64,
    pub findings: Findings,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Findings {
    /// `delay`: from OK on one server to visible on another.
    Delay(DelayFindings),
    /// `giant`: what one huge transaction does to others.
    Giant(Vec<GiantFindings>),
    /// `lag`: what one slow server does to the group.
    Lag(Box<LagFindings>),
}

impl Findings {
    /// The meter's name, as on the command line.
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
    /// Clients of the load, where there was one.
    pub load_clients: u32,
    pub phases: Vec<DelayPhase>,
}

/// Server that had a load beside writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOn {
    Nothing,
    Writer,
    Reader,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelayPhase {
    /// Server with the load.
    pub load_on: LoadOn,
    /// Whether readers asked to see all commits (`wsrep_sync_wait=1`).
    pub sync_wait: bool,
    /// Writes that were looked for.
    pub samples: usize,
    /// Writes that the first read after the OK did not show.
    pub stale: usize,
    /// Writes that no read showed within the time limit.
    pub never: usize,
    /// Time from the OK to the start of the first read that showed the write; 0 if the first did.
    pub delay: Distribution,
    /// Delays of stale reads alone.
    pub stale_delay: Distribution,
    /// Times of the first reads.
    pub read: Distribution,
    /// Times of the writes.
    pub write: Distribution,
    /// Commits per second of the load.
    pub load_tps: f64,
}

impl DelayPhase {
    /// The share of first reads that missed the write, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn stale_share(&self) -> f64 {
        self.stale as f64 / (self.samples.max(1) as f64)
    }
}

/// Found by `giant`, at one rate of small transactions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GiantFindings {
    /// Rows that one statement changed.
    pub rows: u64,
    /// `wsrep_trx_fragment_size` of the session, bytes; 0: no fragments.
    pub fragment_bytes: u64,
    pub origin: String,
    /// Small transactions per second that were to be made, all servers.
    pub rate: f64,
    /// Time from the statement to its answer, seconds.
    pub seconds: f64,
    /// Reason for a refusal. None: the statement succeeded.
    pub refused: Option<String>,
    /// Elections meanwhile: how much the term has grown. None: the system has no terms.
    pub elections: Option<i64>,
    pub servers: Vec<GiantServer>,
}

/// Effect of a huge transaction on one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GiantServer {
    pub server: String,
    /// Small transactions committed there.
    pub commits: u64,
    /// The longest that one of its clients waited for an answer.
    pub longest_wait_ms: f64,
    /// The longest time without any commit of its clients.
    pub longest_gap_ms: f64,
    /// Longest time that its clients fell behind their pace.
    pub longest_behind_ms: f64,
    /// Failed small transactions by error.
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
    /// The most resident memory meanwhile, bytes.
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
    /// Commits of each second.
    pub tps_by_second: Vec<f64>,
    /// Failed transactions by error.
    pub errors: BTreeMap<String, u64>,
}

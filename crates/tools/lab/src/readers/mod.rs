//! Measures the readers of a server's binlog, at the server and at a relay.
//!
//! The same writes go to one server. Readers follow its binlog by the protocol of replicas: first
//! at the server itself, then at a relay of it, again and again. All clients and readers are
//! threads of this process, so all times are by one clock.
//!
//! - `follower`: one reader;
//! - `paced`: the age of rows when they reach readers, at a rate, and the resources used;
//! - `late`: readers that begin far behind, and their effect on the age of the newest rows;
//! - `behind`: the memory that one reader costs while it stays far behind.

mod behind;
mod follower;
mod late;
mod paced;

use std::time::Instant;

use serde::Serialize;
use synod_upstream::{Position, UpstreamConfig, UpstreamError};

pub use self::behind::Behind;
pub use self::late::{Kind, Late};
pub use self::paced::{Paced, Used};
use crate::error::LabError;
use crate::meters::{Group, MeterError, Server};

/// The table of marks, in the meters' database.
const MARKS: &str = "marks";
/// The lowest `server_id` of the readers. Others of the server should be below.
const FIRST_SERVER_ID: u32 = 4_200_000_000;

type Result<T> = std::result::Result<T, ReadersError>;

/// Error of the measurement.
#[derive(Debug, thiserror::Error)]
pub enum ReadersError {
    #[error("reader of {address}: {source}")]
    Reader {
        /// Address of the server or relay.
        address: String,
        /// Cause. Boxed: it is large.
        source: Box<UpstreamError>,
    },
    /// The server refused something, or a signal came.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// Readers do not come to the end.
    #[error(
        "{behind} of {readers} readers of {address} do not get the last row within {seconds} s"
    )]
    Behind {
        /// Readers that have not seen it.
        behind: usize,
        readers: usize,
        /// Address of the server or relay.
        address: String,
        seconds: u64,
    },
    /// A reader's thread cannot get a lower priority.
    #[error("a reader's thread gets no lower priority: {0}")]
    Priority(Box<LabError>),
    /// A thread ended by a mistake of this program.
    #[error("a reader's thread panicked; its message is above")]
    Panicked,
}

/// A place where readers connect.
#[derive(Debug, Clone)]
pub struct Way {
    /// `server`, `relay`.
    pub name: String,
    /// Connection of a reader; each gets a `server_id` of its own.
    pub config: UpstreamConfig,
}

/// Parameters of the measurement.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server that is written to.
    pub server: Server,
    /// The ways, in the order of turns.
    pub ways: Vec<Way>,
    /// Processes whose use is measured: name and process id.
    pub processes: Vec<(String, i32)>,
    pub rates: Vec<u32>,
    pub readers: Vec<u32>,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// Readers that are late at the same time.
    pub late_readers: u32,
    /// MiB that late readers have to read.
    pub late_mib: u32,
}

/// Results of the measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Readers while a server commits at a rate.
    pub paced: Vec<Paced>,
    /// Readers that begin far behind.
    pub late: Vec<Late>,
    /// Readers beside one that stays far behind.
    pub behind: Vec<Behind>,
}

/// Measures. The database of meters on the server is replaced, and dropped at the end.
pub fn run(plan: &Plan) -> Result<Findings> {
    let group = Group {
        system: "server".to_owned(),
        topology: None,
        servers: vec![plan.server.clone()],
    };
    let _database = group.make_database()?;
    let column = "id BIGINT AUTO_INCREMENT PRIMARY KEY, mark CHAR(40) NOT NULL";
    let create = format!(
        "CREATE TABLE {}.{MARKS} ({column})",
        crate::meters::group::DATABASE
    );
    plan.server.execute(&[&create])?;
    let clock = Instant::now();
    let begun = positions(plan)?;
    let mut paced = Vec::new();
    for rate in &plan.rates {
        for readers in &plan.readers {
            for way in &plan.ways {
                let found = paced::measure(plan, &group, way, (*rate, *readers), clock)?;
                eprintln!("{}", found.line());
                paced.push(found);
            }
        }
    }
    let (mut late, mut behind) = (Vec::new(), Vec::new());
    if plan.late_mib > 0 {
        late.extend(late::measure(plan, &group, Kind::Small, &begun, clock)?);
        let begun = positions(plan)?;
        late::fill(plan)?;
        late.extend(late::measure(plan, &group, Kind::Large, &begun, clock)?);
        behind = behind::measure(plan, &group, &begun, clock)?;
    }
    Ok(Findings {
        paced,
        late,
        behind,
    })
}

/// After the newest transaction, by each way.
fn positions(plan: &Plan) -> Result<Vec<Position>> {
    plan.ways.iter().map(Way::position).collect()
}

/// Microseconds since the clock's start.
fn us_since(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Way {
    /// Connection of reader `number` (from 0).
    fn reader(&self, number: u32) -> UpstreamConfig {
        let mut config = self.config.clone();
        config.server_id = FIRST_SERVER_ID + number;
        config
    }

    /// After the newest transaction. Later readers can begin there.
    fn position(&self) -> Result<Position> {
        let upstream = follower::connect(&self.reader(0), &Position::Now)?;
        Ok(Position::Gtids(upstream.start().clone()))
    }

    /// Starts readers with these numbers, which take what comes as fast as they can.
    fn follow(
        &self,
        numbers: std::ops::Range<u32>,
        from: &Position,
        marks: (Instant, u64),
    ) -> Result<Vec<follower::Follower>> {
        let start = |number| follower::Follower::start(&self.reader(number), from, marks, None);
        numbers.map(start).collect()
    }
}

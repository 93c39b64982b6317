//! Readers that begin far behind: their throughput, and their effect on the age of the newest rows.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use serde::Serialize;
use synod_upstream::Position;

use super::follower::{Seen, apart};
use super::paced::{end, finish};
use super::{MARKS, Plan, Result, Way, us_since};
use crate::meters::Group;
use crate::meters::clients::{Crew, Work};
use crate::meters::group::DATABASE;
use crate::meters::interrupt::pause;
use crate::statistics::Distribution;

/// Bytes of a row that late readers have to read.
const ROW_BYTES: usize = 1 << 20;
/// Transactions per second beside late readers.
const RATE: f64 = 500.0;
const CLIENTS: u32 = 4;
/// For so long, in parts of a measurement's time, new rows are looked at before.
const ALONE_PARTS: u32 = 2;
/// Time limit for late readers.
const LIMIT: Duration = Duration::from_secs(600);
/// The number of the reader of the newest rows.
pub(super) const TAIL: u32 = 1000;

/// Size of the transactions that late readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Transactions that were written at a rate: a row with a mark in each.
    Small,
    /// A row of 1 MiB in each transaction.
    Large,
}

/// Late readers of one way.
#[derive(Debug, Clone, Serialize)]
pub struct Late {
    /// Size of the transactions.
    pub kind: Kind,
    /// Name of the [`Way`] by which they read.
    pub way: String,
    /// Readers at a time.
    pub readers: u32,
    /// Whether their threads have the scheduling policy `SCHED_IDLE`.
    pub are_apart: bool,
    pub bytes: u64,
    /// Small transactions per second of one, the mean of all; none, if they read large ones.
    pub each_transactions_s: Option<f64>,
    /// Million bytes per second of one, the mean of all.
    pub each_mb_s: f64,
    /// Million bytes per second of all.
    pub all_mb_s: f64,
    /// Ages of new rows at another reader, meanwhile.
    pub tail: Distribution,
    /// Ages of new rows at that reader without late readers.
    pub tail_alone: Distribution,
}

/// Measures one late reader, several, and several that stand back from the processor, by each way.
/// They begin where the ways were then, and read transactions of this kind.
pub(super) fn measure(
    plan: &Plan,
    group: &Group,
    kind: Kind,
    begun: &[Position],
    clock: Instant,
) -> Result<Vec<Late>> {
    let mut found = Vec::new();
    let several = plan.late_readers;
    for crowd in [(1, false), (several, false), (several, true)] {
        for (way, beginning) in plan.ways.iter().zip(begun) {
            let late = measure_way(plan, group, kind, (way, beginning), crowd, clock)?;
            eprintln!("{}", late.line());
            found.push(late);
        }
    }
    Ok(found)
}

/// Writes what late readers read: random rows, so that nothing compresses them.
pub(super) fn fill(plan: &Plan) -> Result<()> {
    let server = &plan.server;
    let create = format!("CREATE TABLE {DATABASE}.late (id SERIAL, v LONGBLOB NOT NULL)");
    server.execute(&[&create])?;
    let mut connection = server.connect()?;
    let insert = format!("INSERT INTO {DATABASE}.late (v) VALUES (?)");
    let mut random = SmallRng::seed_from_u64(1);
    let mut row = vec![0; ROW_BYTES];
    for _ in 0..plan.late_mib {
        random.fill_bytes(&mut row);
        let done = connection.exec_drop(&insert, (&row,));
        done.map_err(|error| server.refused(&insert, error))?;
    }
    Ok(())
}

fn measure_way(
    plan: &Plan,
    group: &Group,
    kind: Kind,
    (way, beginning): (&Way, &Position),
    (readers, are_apart): (u32, bool),
    clock: Instant,
) -> Result<Late> {
    let crew = Crew {
        work: Work::Marks(MARKS.to_owned()),
        clients: CLIENTS,
        rate: Some(RATE),
    };
    let last = us_since(clock) + u64::from(u32::MAX);
    let tail = way.follow(TAIL..TAIL + 1, &Position::Now, (clock, last))?;
    let running = crew.start(group, &[0], clock)?;
    pause(Duration::from_secs(plan.seconds) / ALONE_PARTS)?;
    let begin = || {
        let late_from_us = us_since(clock);
        // They end where the newest row is now.
        let their_last = late_from_us + u64::from(u32::MAX) + 1;
        end(&plan.server, their_last)?;
        let late = way.follow(0..readers, beginning, (clock, their_last))?;
        Ok((late_from_us, late))
    };
    let (late_from_us, late) = if are_apart { apart(begin)? } else { begin()? };
    let late = finish(late, way, LIMIT)?;
    let late_until_us = us_since(clock);
    running.finish()?;
    end(&plan.server, last)?;
    let tail = finish(tail, way, LIMIT)?;
    Ok(Late {
        are_apart,
        ..Late::of(kind, way, &late, &tail, (late_from_us, late_until_us))
    })
}

impl Late {
    fn of(kind: Kind, way: &Way, late: &[Seen], tail: &[Seen], during_us: (u64, u64)) -> Late {
        let rate = |seen: &Seen| seen.bytes as f64 / 1e6 / seen.took.as_secs_f64().max(1e-9);
        let bytes: u64 = late.iter().map(|seen| seen.bytes).sum();
        let longest = late.iter().map(|seen| seen.took.as_secs_f64());
        let longest = longest.fold(1e-9, f64::max);
        let readers = late.len().max(1);
        let (mut before, mut meanwhile) = (Vec::new(), Vec::new());
        for row in tail.iter().flat_map(|seen| &seen.rows) {
            if row.arrived_us < during_us.0 {
                before.push(row.age_ms);
            } else if row.arrived_us < during_us.1 {
                meanwhile.push(row.age_ms);
            }
        }
        let marks = |seen: &Seen| seen.rows.len() as f64 / seen.took.as_secs_f64().max(1e-9);
        Late {
            kind,
            way: way.name.clone(),
            readers: readers as u32,
            are_apart: false,
            bytes: bytes / readers as u64,
            each_transactions_s: match kind {
                Kind::Small => Some(late.iter().map(marks).sum::<f64>() / readers as f64),
                Kind::Large => None,
            },
            each_mb_s: late.iter().map(rate).sum::<f64>() / readers as f64,
            all_mb_s: bytes as f64 / 1e6 / longest,
            tail: Distribution::of(&meanwhile),
            tail_alone: Distribution::of(&before),
        }
    }

    /// Number of readers, in words.
    pub(crate) fn who(&self) -> String {
        match self.are_apart {
            true => format!("{}, apart", self.readers),
            false => self.readers.to_string(),
        }
    }

    /// Describes the transactions in words.
    pub(crate) fn what(&self) -> String {
        match self.each_transactions_s {
            Some(rate) => format!("small, {rate:.0}/s each"),
            None => "1 MiB".to_owned(),
        }
    }

    fn line(&self) -> String {
        format!(
            "{:>8} late readers of the {:<6}, transactions {}: {:.0} MB each, {:.0} MB/s each, \
             {:.0} MB/s in all; new rows meanwhile after p50 {:.2}, p99 {:.2} ms (before p50 \
             {:.2}, p99 {:.2})",
            self.who(),
            self.way,
            self.what(),
            self.bytes as f64 / 1e6,
            self.each_mb_s,
            self.all_mb_s,
            self.tail.p50_ms,
            self.tail.p99_ms,
            self.tail_alone.p50_ms,
            self.tail_alone.p99_ms,
        )
    }
}

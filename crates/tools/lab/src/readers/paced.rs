//! Age of rows when they reach readers, while a server commits at a steady rate.

use std::time::{Duration, Instant};

use serde::Serialize;
use synod_upstream::Position;

use super::follower::{Follower, Seen};
use super::{MARKS, Plan, ReadersError, Result, Way, us_since};
use crate::bench::usage::ProcessUse;
use crate::meters::clients::{Crew, Work, mark};
use crate::meters::group::DATABASE;
use crate::meters::interrupt::pause;
use crate::meters::{Group, Server, timeline};
use crate::statistics::Distribution;

const CLIENTS: u32 = 16;
/// The first part of a load is not measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time limit for readers to get what was committed.
const END_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Readers of one way at one rate.
#[derive(Debug, Clone, Serialize)]
pub struct Paced {
    /// Name of the [`Way`] by which they read.
    pub way: String,
    /// Transactions per second that were asked for.
    pub rate: u32,
    /// Transactions per second that were committed.
    pub committed: f64,
    /// Readers at a time.
    pub readers: u32,
    /// Time from the start of a statement to its row at a reader: all rows of all readers.
    pub age: Distribution,
    /// 99.9 of 100 rows were not older, milliseconds.
    pub age_p999_ms: f64,
    /// Time from the start of a statement to its OK.
    pub commit: Distribution,
    /// Resources that the processes used meanwhile.
    pub processes: Vec<Used>,
}

/// Resources that a process used.
#[derive(Debug, Clone, Serialize)]
pub struct Used {
    /// Its name, as given.
    pub name: String,
    /// Share of one core.
    pub cores: f64,
    /// Resident memory at the end, bytes.
    pub resident_bytes: u64,
}

/// Writes at a rate, with so many readers.
pub(super) fn measure(
    plan: &Plan,
    group: &Group,
    way: &Way,
    (rate, readers): (u32, u32),
    clock: Instant,
) -> Result<Paced> {
    let last = us_since(clock) + u64::from(u32::MAX);
    let followers = way.follow(0..readers, &Position::Now, (clock, last))?;
    let crew = Crew {
        work: Work::Marks(MARKS.to_owned()),
        clients: CLIENTS,
        rate: Some(f64::from(rate)),
    };
    let running = crew.start(group, &[0], clock)?;
    pause(WARM_UP)?;
    let (begun, begun_us, before) = (Instant::now(), us_since(clock), used(plan));
    pause(Duration::from_secs(plan.seconds))?;
    let (seconds, after) = (begun.elapsed().as_secs_f64(), used(plan));
    let logs = running.finish()?;
    let attempts: Vec<_> = logs.iter().flat_map(|log| log.attempts()).collect();
    end(&plan.server, last)?;
    let seen = finish(followers, way, END_LIMIT)?;
    let rows = seen.iter().flat_map(|seen| &seen.rows);
    let ages: Vec<f64> = rows
        .filter(|row| row.arrived_us >= begun_us)
        .map(|row| row.age_ms)
        .collect();
    let commits: Vec<f64> = (attempts.iter())
        .filter(|attempt| attempt.begun_us >= begun_us)
        .map(|attempt| (attempt.ended_us - attempt.begun_us) as f64 / 1000.0)
        .collect();
    let loaded_s = plan.seconds as f64 + WARM_UP.as_secs_f64();
    let share =
        |((name, before), (_, after)): (&(String, ProcessUse), &(String, ProcessUse))| Used {
            name: name.clone(),
            cores: (after.processor_s() - before.processor_s()) / seconds,
            resident_bytes: after.resident_bytes,
        };
    Ok(Paced {
        way: way.name.clone(),
        rate,
        committed: timeline::commits(&attempts) as f64 / loaded_s,
        readers,
        age: Distribution::of(&ages),
        age_p999_ms: crate::statistics::percentile(&ages, 99.9).unwrap_or_default(),
        commit: Distribution::of(&commits),
        processes: before.iter().zip(&after).map(share).collect(),
    })
}

/// The row at which readers end.
pub(super) fn end(server: &Server, last: u64) -> Result<()> {
    let insert = format!(
        "INSERT INTO {DATABASE}.{MARKS} (mark) VALUES ('{}')",
        mark(last)
    );
    Ok(server.execute(&[&insert])?)
}

/// Waits until all readers have received the last row, and gives what each received.
pub(super) fn finish(followers: Vec<Follower>, way: &Way, limit: Duration) -> Result<Vec<Seen>> {
    let begun = Instant::now();
    loop {
        let behind = followers.iter().filter(|one| !one.is_finished()).count();
        if behind == 0 {
            return followers.into_iter().map(Follower::finish).collect();
        }
        if begun.elapsed() > limit {
            let readers = followers.len();
            followers.into_iter().for_each(Follower::stop);
            return Err(ReadersError::Behind {
                behind,
                readers,
                address: way.config.address.to_string(),
                seconds: limit.as_secs(),
            });
        }
        pause(LOOK_EVERY)?;
    }
}

/// A process that has ended uses nothing.
fn used(plan: &Plan) -> Vec<(String, ProcessUse)> {
    let read =
        |(name, pid): &(String, i32)| (name.clone(), ProcessUse::read(*pid).unwrap_or_default());
    plan.processes.iter().map(read).collect()
}

impl Paced {
    /// The figures in a line.
    pub(super) fn line(&self) -> String {
        let Distribution { p50_ms, p99_ms, .. } = self.age;
        let used: String = (self.processes.iter())
            .map(|used| {
                let mib = used.resident_bytes >> 20;
                format!(", {} {:.2} cores {mib} MiB", used.name, used.cores)
            })
            .collect();
        format!(
            "{:>6} transactions/s of {:>5}, {:>2} readers of the {:<6}: row at the reader after \
             p50 {p50_ms:.2}, p99 {p99_ms:.2}, p99.9 {:.2} ms (OK after p50 {:.2}, p99 {:.2}){used}",
            self.committed.round(),
            self.rate,
            self.readers,
            self.way,
            self.age_p999_ms,
            self.commit.p50_ms,
            self.commit.p99_ms,
        )
    }
}

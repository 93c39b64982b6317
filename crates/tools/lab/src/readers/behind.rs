//! Memory cost of one reader that is far behind and stays there, beside readers of the newest rows.

use std::time::{Duration, Instant};

use serde::Serialize;
use synod_upstream::Position;

use super::follower::Follower;
use super::late::TAIL;
use super::paced::{end, finish};
use super::{MARKS, Plan, Result, Way, us_since};
use crate::meters::clients::{Crew, Work};
use crate::meters::interrupt::pause;
use crate::meters::{Group, memory};
use crate::statistics::Distribution;

/// Transactions per second meanwhile.
const RATE: f64 = 1000.0;
const CLIENTS: u32 = 8;
/// The slow reader would need so many times the time of the measurement for what there is.
const SLOWER: f64 = 4.0;
const END_LIMIT: Duration = Duration::from_secs(60);

/// Readers of one way, one of them far behind.
#[derive(Debug, Clone, Serialize)]
pub struct Behind {
    /// Name of the [`Way`] by which they read.
    pub way: String,
    pub readers: u32,
    /// Bytes that the slow reader still lacked at the end, at least.
    pub behind_bytes: u64,
    /// Ages of new rows at the others.
    pub age: Distribution,
    /// The most resident memory of each process meanwhile, bytes, by its name.
    pub peak_bytes: Vec<(String, u64)>,
}

/// Measures by each way, with the largest number of readers of the plan. The slow one begins where
/// the way was before the rows of 1 MiB.
pub(super) fn measure(
    plan: &Plan,
    group: &Group,
    begun: &[Position],
    clock: Instant,
) -> Result<Vec<Behind>> {
    let mut found = Vec::new();
    for (way, beginning) in plan.ways.iter().zip(begun) {
        let behind = measure_way(plan, group, (way, beginning), clock)?;
        eprintln!("{}", behind.line());
        found.push(behind);
    }
    Ok(found)
}

fn measure_way(
    plan: &Plan,
    group: &Group,
    (way, beginning): (&Way, &Position),
    clock: Instant,
) -> Result<Behind> {
    let readers = plan.readers.iter().max().copied().unwrap_or(1);
    let bytes = u64::from(plan.late_mib) << 20;
    let pace = bytes as f64 / (plan.seconds as f64 * SLOWER);
    let last = us_since(clock) + u64::from(u32::MAX);
    let slow = Follower::start(&way.reader(TAIL), beginning, (clock, last), Some(pace))?;
    let others = way.follow(1..readers, &Position::Now, (clock, last))?;
    let crew = Crew {
        work: Work::Marks(MARKS.to_owned()),
        clients: CLIENTS,
        rate: Some(RATE),
    };
    let running = crew.start(group, &[0], clock)?;
    (plan.processes.iter()).for_each(|(_, pid)| memory::forget_peak(*pid));
    pause(Duration::from_secs(plan.seconds))?;
    let peaks = plan.processes.iter();
    let peaks = peaks.map(|(name, pid)| (name.clone(), memory::peak_bytes(*pid).unwrap_or(0)));
    let peak_bytes = peaks.collect();
    let behind_bytes = bytes.saturating_sub(slow.taken());
    running.finish()?;
    slow.stop();
    end(&plan.server, last)?;
    let seen = finish(others, way, END_LIMIT)?;
    let rows = seen.iter().flat_map(|seen| &seen.rows);
    let ages: Vec<f64> = rows.map(|row| row.age_ms).collect();
    Ok(Behind {
        way: way.name.clone(),
        readers,
        behind_bytes,
        age: Distribution::of(&ages),
        peak_bytes,
    })
}

impl Behind {
    /// The most memory of each process, in words.
    pub(crate) fn memory(&self) -> String {
        let peaks = self.peak_bytes.iter();
        let peaks = peaks.map(|(name, bytes)| format!("{name} {} MiB", bytes >> 20));
        peaks.collect::<Vec<_>>().join(", ")
    }

    fn line(&self) -> String {
        format!(
            "{:>2} readers of the {:<6}, one of them {:.0} MB behind: new rows at the others after \
             p50 {:.2}, p99 {:.2} ms; at most {}",
            self.readers,
            self.way,
            self.behind_bytes as f64 / 1e6,
            self.age.p50_ms,
            self.age.p99_ms,
            self.memory(),
        )
    }
}

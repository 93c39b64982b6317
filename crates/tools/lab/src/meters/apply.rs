//! `apply`: time that other servers still apply after a load on one server has ended.

use std::thread;
use std::time::{Duration, Instant};

use super::clients::{Crew, Work};
use super::error::Result;
use super::group::Group;
use super::record::{ApplyFindings, ApplyLag};
use super::timeline;
use super::watch::{self, Watch};

/// Rows of the load's table: so many that its clients rarely meet.
const ROWS: u32 = 100_000;

/// Longest time to apply what is left.
const APPLY_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplyPlan {
    /// Place of the server that is written to.
    pub origin: usize,
    pub seconds: u64,
    pub clients: u32,
}

#[allow(clippy::cast_precision_loss)]
pub fn run(group: &Group, plan: &ApplyPlan) -> Result<ApplyFindings> {
    let _database = group.make_database()?;
    let columns = "id INT PRIMARY KEY, n BIGINT NOT NULL";
    group.make_table("load_rows", columns, "seq, 0", u64::from(ROWS))?;
    let crew = Crew {
        work: Work::RandomRows("load_rows".into(), ROWS),
        clients: plan.clients,
        rate: None,
        patience: None,
    };
    let watch = Watch::start(group)?;
    let running = crew.start(group, &[plan.origin], Instant::now())?;
    thread::sleep(Duration::from_secs(plan.seconds));
    let logs = running.finish()?;
    let times = group.await_agreement(&group.servers[plan.origin], APPLY_TIMEOUT)?;
    let moments = watch.finish()?;
    let commits: u64 = logs
        .iter()
        .map(|log| timeline::commits(&log.attempts()))
        .sum();
    let others = (0..group.servers.len()).filter(|place| *place != plan.origin);
    let lag = |place: usize| ApplyLag {
        server: group.servers[place].name.clone(),
        most_behind: watch::most_behind(&moments, place, plan.origin),
        finished_after_ms: times[place].as_secs_f64() * 1000.0,
    };
    Ok(ApplyFindings {
        origin: group.servers[plan.origin].name.clone(),
        clients: plan.clients,
        seconds: plan.seconds,
        tps: commits as f64 / (plan.seconds.max(1) as f64),
        others: others.map(lag).collect(),
    })
}

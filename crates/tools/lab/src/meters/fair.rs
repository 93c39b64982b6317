//! `fair`: throughput of each server while clients on all servers change the same rows.

use std::time::{Duration, Instant};

use super::clients::{Crew, ServerLog, Work};
use super::error::Result;
use super::group::Group;
use super::interrupt::pause;
use super::record::{FairFindings, FairServer};
use super::timeline;

/// Parameters of the meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FairPlan {
    /// Numbers of rows, one part of the run each.
    pub rows: Vec<u32>,
    /// Clients of each server.
    pub clients: u32,
    /// Duration of each part.
    pub seconds: u64,
}

/// Runs the meter.
pub fn run(group: &Group, plan: &FairPlan) -> Result<Vec<FairFindings>> {
    let _database = group.make_database()?;
    let mut findings = Vec::new();
    for rows in &plan.rows {
        findings.push(run_part(group, plan, *rows)?);
    }
    Ok(findings)
}

fn run_part(group: &Group, plan: &FairPlan, rows: u32) -> Result<FairFindings> {
    let table = format!("fair_{rows}");
    let columns = "id INT PRIMARY KEY, n BIGINT NOT NULL";
    group.make_table(&table, columns, "seq, 0", u64::from(rows))?;
    let leader = group.leader();
    let crew = Crew {
        work: Work::RandomRows(table, rows),
        clients: plan.clients,
        rate: None,
    };
    let all: Vec<usize> = (0..group.servers.len()).collect();
    let clock = Instant::now();
    let running = crew.start(group, &all, clock)?;
    pause(Duration::from_secs(plan.seconds))?;
    let logs = running.finish()?;
    let is_leader = |log: &ServerLog| log.server == leader && group.system == "synod";
    let servers = logs
        .iter()
        .map(|log| server(group, log, is_leader(log), plan.seconds))
        .collect();
    let origin = &group.servers[0];
    group.await_agreement(origin, Duration::from_secs(300))?;
    Ok(FairFindings {
        rows,
        clients: plan.clients,
        seconds: plan.seconds,
        servers,
    })
}

#[allow(clippy::cast_precision_loss)]
fn server(group: &Group, log: &ServerLog, leads: bool, seconds: u64) -> FairServer {
    let attempts = log.attempts();
    let errors = timeline::errors_by_kind(&attempts);
    let refused: u64 = errors.values().sum();
    let per_second = |count: u64| count as f64 / (seconds.max(1) as f64);
    FairServer {
        server: group.servers[log.server].name.clone(),
        leads,
        tps: per_second(timeline::commits(&attempts)),
        tps_by_second: timeline::commits_by_second(&attempts, 0, seconds * 1_000_000),
        refused_per_second: per_second(refused),
        errors,
    }
}

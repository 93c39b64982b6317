//! `lag`: effect of one slow server on the group, and the time until that server has caught up.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::clients::{Crew, Work, us_since};
use super::error::{MeterError, Result};
use super::group::{Group, number};
use super::record::{LagFindings, Pace};
use super::throttle::Throttle;
use super::timeline::{self, Attempt};
use super::watch::{self, Moment, Watch};

/// Rows of the load's table: so many that its clients rarely meet.
const ROWS: u32 = 100_000;

/// A server that is no further behind than this keeps up with a running load, actions.
const KEEPS_UP: i64 = 100;

/// Interval of looks whether the server has caught up.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest time to catch up when the load has ended.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LagPlan {
    pub slow: usize,
    /// Share of one core that it gets.
    pub share: f64,
    pub origin: usize,
    pub clients: u32,
    /// Duration of each part: before, slow, and after. The server has twice that time to catch up
    /// under load.
    pub seconds: u64,
}

pub fn run(group: &Group, plan: &LagPlan) -> Result<LagFindings> {
    let _database = group.make_database()?;
    let columns = "id INT PRIMARY KEY, n BIGINT NOT NULL";
    group.make_table("load_rows", columns, "seq, 0", u64::from(ROWS))?;
    let part = Duration::from_secs(plan.seconds);
    let watch = Watch::start(group)?;
    let crew = Crew {
        work: Work::RandomRows("load_rows".into(), ROWS),
        clients: plan.clients,
        rate: None,
        patience: None,
    };
    let clock = Instant::now();
    let running = crew.start(group, &[plan.origin], clock)?;
    thread::sleep(part);
    let before_us = us_since(clock);
    let slow = &group.servers[plan.slow];
    let pid = slow.pid.ok_or_else(|| MeterError::NotHere {
        server: slow.name.clone(),
    })?;
    let throttle = Throttle::start(pid, plan.share)?;
    let slowed_by = format!(
        "{:.0} % of a core, by {}",
        plan.share * 100.0,
        throttle.means
    );
    thread::sleep(part);
    let slowed_us = us_since(clock);
    drop(throttle);
    let under_load = await_keeping_up(group, plan, part * 2)?;
    let after_us = us_since(clock);
    thread::sleep(part);
    let end_us = us_since(clock);
    let attempts = running
        .finish()?
        .iter()
        .flat_map(|l| l.attempts())
        .collect::<Vec<_>>();
    let without_load = match under_load {
        Some(_) => None,
        None => await_all(group, plan)?,
    };
    let moments = watch.finish()?;
    Ok(LagFindings {
        slow_server: group.servers[plan.slow].name.clone(),
        slowed_by,
        origin: group.servers[plan.origin].name.clone(),
        clients: plan.clients,
        before: pace(&attempts, 0, before_us),
        slowed: pace(&attempts, before_us, slowed_us),
        after: pace(&attempts, after_us, end_us),
        most_behind: watch::most_behind(&moments, plan.slow, plan.origin),
        states: states(&moments, plan.slow),
        fewest_members: fewest_members(&moments, plan.origin),
        caught_up_under_load_ms: under_load.map(ms_of),
        caught_up_without_load_ms: without_load.map(ms_of),
    })
}

fn ms_of(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Time until the server keeps up with the running load; none: not in time.
fn await_keeping_up(group: &Group, plan: &LagPlan, time: Duration) -> Result<Option<Duration>> {
    let (origin, slow) = (&group.servers[plan.origin], &group.servers[plan.slow]);
    let (mut at_origin, mut at_slow) = (origin.connect()?, slow.connect()?);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let position = |status| number(&status, "wsrep_last_committed").unwrap_or_default();
        let target = position(origin.status_by(&mut at_origin)?);
        if target - position(slow.status_by(&mut at_slow)?) <= KEEPS_UP {
            return Ok(Some(begin.elapsed()));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

/// Time until all have caught up without a load; none: not in time.
fn await_all(group: &Group, plan: &LagPlan) -> Result<Option<Duration>> {
    match group.await_agreement(&group.servers[plan.origin], CATCH_UP_TIMEOUT) {
        Ok(times) => Ok(times.get(plan.slow).copied()),
        Err(MeterError::Timeout { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The whole seconds of a part of the run.
#[allow(clippy::cast_precision_loss)]
fn pace(attempts: &[Attempt], from_us: u64, to_us: u64) -> Pace {
    let within = |a: &&Attempt| (from_us..to_us).contains(&a.ended_us);
    let part: Vec<Attempt> = attempts.iter().filter(within).copied().collect();
    let seconds = to_us.saturating_sub(from_us) as f64 / 1e6;
    Pace {
        tps: timeline::commits(&part) as f64 / seconds.max(1e-6),
        tps_by_second: timeline::commits_by_second(&part, from_us, to_us),
        errors: timeline::errors_by_kind(&part),
    }
}

fn states(moments: &[Moment], place: usize) -> BTreeMap<String, u64> {
    let mut states = BTreeMap::new();
    for moment in moments {
        let status = moment.get(place).and_then(Option::as_ref);
        let state = status.and_then(|s| s.get("wsrep_local_state_comment"));
        let state = state.map_or("no answer", String::as_str);
        *states.entry(state.to_owned()).or_default() += 1;
    }
    states
}

fn fewest_members(moments: &[Moment], place: usize) -> i64 {
    let size = |m: &Moment| number(m.get(place)?.as_ref()?, "wsrep_cluster_size");
    moments.iter().filter_map(size).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Ending;
    use super::*;

    #[test]
    fn pace_is_that_of_its_part_of_the_run() {
        let commit = |ended_us| Attempt {
            due_us: 0,
            begun_us: 0,
            ended_us,
            ending: Ending::Committed,
        };
        let attempts: Vec<Attempt> = [500_000, 1_200_000, 1_300_000, 2_500_000, 3_100_000]
            .map(commit)
            .into();
        let part = pace(&attempts, 1_000_000, 3_000_000);
        assert_eq!(part.tps_by_second, [2.0, 1.0]);
        assert!((part.tps - 1.5).abs() < 1e-9);
    }

    #[test]
    fn server_that_gives_no_answer_is_a_state_of_its_own() {
        let status =
            |name: &str, value: &str| Some(BTreeMap::from([(name.to_owned(), value.to_owned())]));
        let moments = [
            vec![status("wsrep_local_state_comment", "Synced")],
            vec![None],
        ];
        let expected = [("Synced".to_owned(), 1), ("no answer".to_owned(), 1)];
        assert_eq!(states(&moments, 0), expected.into());
        let sizes = [vec![status("wsrep_cluster_size", "3")], vec![None]];
        assert_eq!(fewest_members(&sizes, 0), 3);
    }
}

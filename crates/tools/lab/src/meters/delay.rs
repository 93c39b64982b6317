//! `delay`: time from the OK of a write on one server until a read on another server shows it.
//!
//! One thread writes and reads, so that nothing but the two statements lies between the OK and
//! the read. With an emulated network both connections start from hosts beside their servers.

use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::clients::{Crew, Running, Work, us_since};
use super::error::Result;
use super::group::{DATABASE, Group};
use super::record::{DelayFindings, DelayPhase, LoadOn};
use super::timeline;
use super::visibility::{Seen, Written, classify};
use crate::statistics::Distribution;

/// Pause after each sample, so that the next one meets a group at rest.
const PAUSE: Duration = Duration::from_millis(2);

/// A write that is not visible after this time counts as never seen.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

/// Rows of the load's table: so many that its clients rarely meet.
const LOAD_ROWS: u32 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayPlan {
    pub writer: usize,
    pub reader: usize,
    pub seconds: u64,
    pub load_clients: u32,
}

pub fn run(group: &Group, plan: &DelayPlan) -> Result<DelayFindings> {
    let _database = group.make_database()?;
    let numbers = "id INT PRIMARY KEY, n BIGINT NOT NULL";
    group.make_table("delay", numbers, "seq, 0", 1)?;
    group.make_table("load_rows", numbers, "seq, 0", u64::from(LOAD_ROWS))?;
    let mut findings = DelayFindings {
        writer: group.servers[plan.writer].name.clone(),
        reader: group.servers[plan.reader].name.clone(),
        load_clients: plan.load_clients,
        phases: Vec::new(),
    };
    let mut sampler = Sampler::connect(group, plan)?;
    for load_on in [LoadOn::Nothing, LoadOn::Writer, LoadOn::Reader] {
        let load = start_load(group, plan, load_on)?;
        let begin = Instant::now();
        let mut phases = Vec::new();
        for sync_wait in [false, true] {
            phases.push(sampler.phase(load_on, sync_wait, plan.seconds)?);
        }
        let load_tps = match load {
            Some(load) => rate_of(load, begin.elapsed())?,
            None => 0.0,
        };
        for phase in &mut phases {
            phase.load_tps = load_tps;
        }
        findings.phases.append(&mut phases);
        let writer = &group.servers[plan.writer];
        group.await_agreement(writer, Duration::from_secs(300))?;
    }
    Ok(findings)
}

fn start_load(group: &Group, plan: &DelayPlan, load_on: LoadOn) -> Result<Option<Running>> {
    let place = match load_on {
        LoadOn::Nothing => return Ok(None),
        LoadOn::Writer => plan.writer,
        LoadOn::Reader => plan.reader,
    };
    let crew = Crew {
        work: Work::RandomRows("load_rows".into(), LOAD_ROWS),
        clients: plan.load_clients,
        rate: None,
        patience: None,
    };
    crew.start(group, &[place], Instant::now()).map(Some)
}

#[allow(clippy::cast_precision_loss)]
fn rate_of(load: Running, time: Duration) -> Result<f64> {
    let logs = load.finish()?;
    let commits: u64 = logs
        .iter()
        .map(|log| timeline::commits(&log.attempts()))
        .sum();
    Ok(commits as f64 / time.as_secs_f64())
}

struct Sampler<'a> {
    group: &'a Group,
    plan: DelayPlan,
    writer: Conn,
    reader: Conn,
    clock: Instant,
    number: u64,
}

/// One write, and what became of it.
#[derive(Debug, Clone, Copy)]
struct Sample {
    seen: Seen,
    write_us: u64,
    read_us: u64,
}

impl Sampler<'_> {
    fn connect<'a>(group: &'a Group, plan: &DelayPlan) -> Result<Sampler<'a>> {
        Ok(Sampler {
            group,
            plan: *plan,
            writer: group.servers[plan.writer].connect()?,
            reader: group.servers[plan.reader].connect()?,
            clock: Instant::now(),
            number: 0,
        })
    }

    fn phase(&mut self, load_on: LoadOn, sync_wait: bool, seconds: u64) -> Result<DelayPhase> {
        let set = format!("SET SESSION wsrep_sync_wait = {}", u8::from(sync_wait));
        let done = self.reader.query_drop(&set);
        done.map_err(|e| self.group.servers[self.plan.reader].refused(&set, e))?;
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut samples = Vec::new();
        while Instant::now() < end {
            samples.push(self.sample()?);
            thread::sleep(PAUSE);
        }
        Ok(summary(load_on, sync_wait, &samples))
    }

    fn sample(&mut self) -> Result<Sample> {
        self.number += 1;
        let write = format!(
            "UPDATE {DATABASE}.delay SET n = {} WHERE id = 1",
            self.number
        );
        let begun_us = self.now_us();
        let done = self.writer.query_drop(&write);
        let at_us = self.now_us();
        done.map_err(|e| self.group.servers[self.plan.writer].refused(&write, e))?;
        let written = Written {
            row: 1,
            number: self.number,
            at_us,
        };
        let (reads, read_us) = self.read_until_shown(written)?;
        Ok(Sample {
            seen: classify(written, &reads),
            write_us: at_us - begun_us,
            read_us,
        })
    }

    /// Reads again and again until the write is shown; gives the reads, and how long the first
    /// one took.
    fn read_until_shown(&mut self, written: Written) -> Result<(Vec<(u64, u64)>, u64)> {
        let read = format!("SELECT n FROM {DATABASE}.delay WHERE id = 1");
        let mut reads = Vec::new();
        let mut first_us = 0;
        loop {
            let begun_us = self.now_us();
            let shown: Option<u64> = self
                .reader
                .query_first(&read)
                .map_err(|e| self.group.servers[self.plan.reader].refused(&read, e))?;
            if reads.is_empty() {
                first_us = self.now_us() - begun_us;
            }
            let shown = shown.unwrap_or_default();
            reads.push((begun_us, shown));
            let waited = Duration::from_micros(begun_us.saturating_sub(written.at_us));
            if shown >= written.number || waited > GIVE_UP_AFTER {
                return Ok((reads, first_us));
            }
        }
    }

    fn now_us(&self) -> u64 {
        us_since(self.clock)
    }
}

fn summary(load_on: LoadOn, sync_wait: bool, samples: &[Sample]) -> DelayPhase {
    let delay_ms = |sample: &Sample| match sample.seen {
        Seen::AtOnce => Some(0.0),
        Seen::After(us) => Some(timeline::ms(us)),
        Seen::Never => None,
    };
    let stale: Vec<&Sample> = samples.iter().filter(|s| s.seen.is_stale()).collect();
    let all_delays: Vec<f64> = samples.iter().filter_map(delay_ms).collect();
    let stale_delays: Vec<f64> = stale.iter().filter_map(|s| delay_ms(s)).collect();
    let of = |time: fn(&Sample) -> u64| {
        let times: Vec<f64> = samples.iter().map(|s| timeline::ms(time(s))).collect();
        Distribution::of(&times)
    };
    DelayPhase {
        load_on,
        sync_wait,
        samples: samples.len(),
        stale: stale.len(),
        never: samples.len() - all_delays.len(),
        delay: Distribution::of(&all_delays),
        stale_delay: Distribution::of(&stale_delays),
        read: of(|s| s.read_us),
        write: of(|s| s.write_us),
        load_tps: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_fresh_reads_as_no_delay() {
        let sample = |seen| Sample {
            seen,
            write_us: 1000,
            read_us: 500,
        };
        let samples = [
            sample(Seen::AtOnce),
            sample(Seen::After(3000)),
            sample(Seen::After(5000)),
            sample(Seen::Never),
        ];
        let phase = summary(LoadOn::Reader, false, &samples);
        assert_eq!((phase.samples, phase.stale, phase.never), (4, 3, 1));
        assert!((phase.stale_share() - 0.75).abs() < 1e-9);
        assert!((phase.delay.mean_ms - 8.0 / 3.0).abs() < 1e-9);
        assert!((phase.stale_delay.mean_ms - 4.0).abs() < 1e-9);
        assert!((phase.write.p50_ms - 1.0).abs() < 1e-9);
    }
}

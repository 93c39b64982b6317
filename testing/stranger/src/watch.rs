//! Measures what attacks must not affect: servers, membership, the database, commits, memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Report, Writers};
use synod_e2e::usage::resident_bytes;
use synod_e2e::{Failure, Outcome, TestCluster, ensure};
use synod_local_cluster::wait_for;

/// The group must not be without a commit for longer.
const GAP_MAX: Duration = Duration::from_secs(5);
/// A server must not take more than this during an attack, in bytes.
const GROWTH_MAX: u64 = 96 << 20;
/// After an attack the group has all members again within this time.
const RECOVERY: Duration = Duration::from_secs(20);
/// Interval of measurements of the memory.
const SAMPLE: Duration = Duration::from_millis(100);
/// Commits that must follow an attack.
const COMMITS_AFTER: u64 = 30;

/// Resident memory of the servers, by process id, in bytes.
type Memory = BTreeMap<i32, u64>;

/// Watches a group under attack.
pub(crate) struct Watch {
    writers: Writers,
    meter: Meter,
}

/// An attack that has begun.
pub(crate) struct Begun {
    at: Instant,
    memory: Memory,
}

/// Result of an attack.
pub(crate) struct Finding {
    attack: &'static str,
    from: Instant,
    to: Instant,
    /// Result of the attack at the stranger.
    done: Outcome<String>,
    /// State of the group afterwards.
    state: Outcome,
    before: Memory,
    peak: Memory,
    after: Memory,
}

impl Watch {
    /// Starts the load: clients on each server insert rows without a pause.
    pub(crate) fn start(cluster: &TestCluster) -> Outcome<Watch> {
        let nodes: Vec<u8> = cluster.nodes().collect();
        let writers = Writers::start(cluster, "steady", &nodes, 1)?;
        writers.await_more(COMMITS_AFTER, RECOVERY)?;
        Ok(Watch {
            writers,
            meter: Meter::start(),
        })
    }

    pub(crate) fn begin(&mut self, cluster: &TestCluster) -> Begun {
        let pids = cluster.nodes().filter_map(|node| cluster.pid(node));
        Begun {
            at: Instant::now(),
            memory: self.meter.reset(pids),
        }
    }

    /// The attack has ended: checks the group.
    pub(crate) fn end(
        &mut self,
        cluster: &TestCluster,
        attack: &'static str,
        begun: Begun,
        done: Outcome<String>,
    ) -> Finding {
        let state = is_whole(cluster).and_then(|()| {
            self.writers.await_more(COMMITS_AFTER, RECOVERY)?;
            let tables = cluster.rows(1, "SELECT COUNT(*) FROM e2e_data.steady")?;
            ensure(tables.len() == 1, || "the table is gone".to_owned())
        });
        let (peak, after) = self.meter.read();
        Finding {
            attack,
            from: begun.at,
            to: Instant::now(),
            done,
            state,
            before: begun.memory,
            peak,
            after,
        }
    }

    /// Ends the load; its answers.
    pub(crate) fn finish(self) -> Report {
        self.writers.finish()
    }
}

/// Waits until all servers are synced members of the primary view.
fn is_whole(cluster: &TestCluster) -> Outcome {
    let count = cluster.nodes().count();
    let mut last = Vec::new();
    let whole = wait_for(RECOVERY, || {
        last = cluster.status();
        let in_place = |node: &&synod_local_cluster::NodeStatus| {
            node.is_synced() && node.primary && node.view_size == Some(count as u32)
        };
        (last.iter().filter(in_place).count() == count).then_some(())
    });
    whole.ok_or_else(|| {
        let states = last.iter().map(|node| {
            let (name, state) = (&node.name, &node.member_state);
            format!("{name} {state}, view of {:?}", node.view_size)
        });
        Failure(format!(
            "the group is not whole: {}",
            states.collect::<Vec<_>>().join("; ")
        ))
    })
}

impl Finding {
    /// Whether the group is no longer fit to be attacked.
    pub(crate) fn servers_gave_way(&self) -> bool {
        self.state.is_err()
    }

    /// The largest growth of a server that ran all the time, in bytes.
    fn growth(&self) -> u64 {
        let grown = self.before.iter().map(|(pid, before)| {
            let peak = self.peak.get(pid).copied().unwrap_or_default();
            peak.saturating_sub(*before)
        });
        grown.max().unwrap_or_default()
    }

    fn effect(&self) -> Result<(), String> {
        if let Err(Failure(why)) = self.state.as_ref() {
            return Err(why.clone());
        }
        if let Err(Failure(why)) = self.done.as_ref() {
            return Err(why.clone());
        }
        if self.growth() > GROWTH_MAX {
            return Err(format!("a server grew by {} MiB", self.growth() >> 20));
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did = match (&self.done, self.effect()) {
            (_, Err(why)) => format!("GAVE WAY: {why}"),
            (Ok(saw), Ok(())) => saw.clone(),
            (Err(Failure(why)), Ok(())) => why.clone(),
        };
        let seconds = (self.to - self.from).as_secs_f32();
        write!(f, "{}: {did} ({seconds:.1} s)", self.attack)
    }
}

/// All findings of a configuration, with what the load saw.
pub(crate) struct Findings {
    rows: Vec<Row>,
}

struct Row {
    attack: &'static str,
    saw: String,
    commits: usize,
    gap: Duration,
    memory: String,
    effect: Result<(), String>,
}

impl Findings {
    pub(crate) fn judge(findings: Vec<Finding>, load: &Report) -> Findings {
        let rows = findings.into_iter().map(|finding| {
            let (from, to) = (finding.from, finding.to);
            let nodes: Vec<u8> = load.records.iter().map(|record| record.node).collect();
            let gap = load.longest_gap(&nodes, from, to);
            let acknowledged = load.records.iter().flat_map(|record| &record.acknowledged);
            let commits = acknowledged
                .filter(|(_, at)| (from..=to).contains(at))
                .count();
            let too_long = || format!("no commit for {:.1} s", gap.as_secs_f32());
            let effect = finding.effect();
            Row {
                attack: finding.attack,
                commits,
                gap,
                memory: memory_text(&finding),
                effect: effect.and(if gap > GAP_MAX {
                    Err(too_long())
                } else {
                    Ok(())
                }),
                saw: finding.done.unwrap_or_else(|Failure(why)| why),
            }
        });
        Findings {
            rows: rows.collect(),
        }
    }

    /// Number of attacks that had an effect.
    pub(crate) fn failures(&self) -> usize {
        self.rows.iter().filter(|row| row.effect.is_err()).count()
    }
}

/// Before, peak and after, of each server that ran all the time, in MiB.
fn memory_text(finding: &Finding) -> String {
    let servers = finding.before.iter().filter_map(|(pid, before)| {
        let (peak, after) = (finding.peak.get(pid)?, finding.after.get(pid)?);
        Some(format!("{}/{}/{}", before >> 20, peak >> 20, after >> 20))
    });
    servers.collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<44} {:>7} {:>7}  {:<38} what happened",
            "attack", "commits", "gap s", "MiB before/peak/after of each server"
        )?;
        for row in &self.rows {
            let gap = row.gap.as_secs_f32();
            let (attack, commits, memory) = (row.attack, row.commits, &row.memory);
            write!(f, "{attack:<44} {commits:>7} {gap:>7.2}  {memory:<38} ")?;
            match &row.effect {
                Ok(()) => writeln!(f, "{}", row.saw)?,
                Err(why) => writeln!(f, "GAVE WAY: {why} ({})", row.saw)?,
            }
        }
        Ok(())
    }
}

/// Measures memory all the time, for its peak.
struct Meter {
    state: Arc<Mutex<MeterState>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct MeterState {
    latest: Memory,
    peak: Memory,
}

impl MeterState {
    fn measure(&mut self) {
        // A server that has ended has no memory any more.
        self.latest.retain(|pid, bytes| {
            let measured = resident_bytes(*pid);
            *bytes = *measured.as_ref().unwrap_or(bytes);
            measured.is_ok()
        });
        for (pid, bytes) in &self.latest {
            let peak = self.peak.entry(*pid).or_default();
            *peak = (*peak).max(*bytes);
        }
    }
}

impl Meter {
    fn start() -> Meter {
        let (state, stop) = (Arc::<Mutex<MeterState>>::default(), Arc::default());
        let (measured, stopped) = (Arc::clone(&state), Arc::<AtomicBool>::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut state = measured.lock().unwrap_or_else(PoisonError::into_inner);
                state.measure();
                drop(state);
                std::thread::park_timeout(SAMPLE);
            }
        });
        Meter {
            state,
            stop,
            thread: Some(thread),
        }
    }

    /// Begins again, with these processes; what they take now.
    fn reset(&self, pids: impl Iterator<Item = i32>) -> Memory {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = MeterState::default();
        state.latest = pids.map(|pid| (pid, 0)).collect();
        state.measure();
        state.latest.clone()
    }

    /// The peak since then, and what they take now.
    fn read(&self) -> (Memory, Memory) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.measure();
        (state.peak.clone(), state.latest.clone())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has printed the reason.
            let _ = thread.join();
        }
    }
}

//! Everything that a seed decides before the first event: the members, the options of each part,
//! the workload, and which faults are on at all.
//!
//! This is swarm testing: a fault that is always on hides what happens only without it. The names
//! of faults are part of the hash of a run, and their order decides what a seed draws; neither
//! changes.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use synod_consensus::{Limits, MemberId, Timing};
use synod_member::{Tuning, VoterPolicy};
use synod_wire::Region;

use crate::faults::scenes::Scene;

/// The regions of members, where they have one.
const REGIONS: [&str; 2] = ["north", "south"];

/// Most members that a simulated group may begin with.
const MEMBERS_MAX: usize = 15;

/// Makes the enum, the list of its values, and their names.
macro_rules! faults {
    ($(#[$doc:meta] $fault:ident = $name:literal;)*) => {
        /// A kind of fault, or of action of an operator.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $(#[$doc] $fault,)*
        }

        impl Fault {
            pub const ALL: &[Fault] = &[$(Fault::$fault),*];

            /// A short name for reports and for the hash of a run.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$fault => $name,)*
                }
            }
        }
    };
}

faults! {
    /// Messages vanish.
    Loss = "loss";
    /// Messages arrive twice, the second time late.
    Duplicates = "duplicates";
    /// Messages overtake each other.
    Reordering = "reordering";
    /// Some links are slow.
    SlowLinks = "slow links";
    /// Links carry a limited number of bytes per second.
    Bandwidth = "bandwidth";
    /// Some members cannot exchange messages with the others.
    Partition = "partition";
    /// A link carries in one direction only.
    OneWay = "one way";
    /// Connections break; both ends notice.
    Resets = "resets";
    /// Processes end.
    Crash = "crash";
    /// The power of one machine fails: some of what was not synced is lost.
    PowerCut = "power cut";
    /// The power of all machines fails at once.
    Blackout = "blackout";
    /// Processes pause.
    Pause = "pause";
    /// A disk is lost; its member comes back as a new one, under the same name.
    Wipe = "wipe";
    /// Syncs take long.
    SlowDisk = "slow disk";
    /// Bytes change on the disk of a member that is down.
    BitRot = "bit rot";
    /// Bytes change on the disk under a running member.
    RotWhileRunning = "rot while running";
    /// A write lands elsewhere on the disk: in the same file or in another one.
    MisdirectedWrite = "misdirected write";
    /// Writes fail because the disk is full.
    NoSpace = "no space";
    /// A sync fails.
    FailedSync = "failed sync";
    /// The power fails while a log is being recovered.
    TornRecovery = "torn recovery";
    /// Clocks run fast or slow.
    Drift = "drift";
    /// Clocks jump ahead or stand still.
    Jumps = "jumps";
    /// Databases apply slowly.
    SlowApply = "slow apply";
    /// Operators add, remove, demote and promote members.
    Members = "members";
    /// Operators transfer leadership.
    LeaderTransfer = "transfer";
    /// Logs are kept so short that members need full copies.
    Purge = "purge";
    /// Members shut down in an orderly way, and come back.
    Leave = "leave";
    /// Operators change leader weights.
    Weights = "weights";
    /// In the end most voters are lost, and an operator makes one of the others a forced primary.
    ForcedPrimary = "forced leadership";
    /// Members run programs of different versions, which operators upgrade and downgrade.
    Versions = "mixed versions";
    /// Machines are suspended: all their clocks stand still.
    Suspend = "suspended machine";
}

/// Workload of the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Mean time between two transactions, in microseconds.
    pub period_us: u64,
    /// Number of rows. Few rows mean many conflicts.
    pub rows: u16,
    /// Most rows of one transaction.
    pub rows_per_action: u16,
    /// Share of statements in total order.
    pub total_order: f64,
    /// Share of write sets that the server calls unsafe to apply in parallel.
    pub pa_unsafe: f64,
    /// Share of causal reads among requests.
    pub reads: f64,
    /// After this time a client gives up, in microseconds.
    pub timeout_us: u64,
    /// Share of clients that hand over large actions chunk by chunk, and their longest pause
    /// between two chunks, in microseconds.
    pub hesitant: (f64, u64),
    /// Share of transactions with more bytes than their rows need, and how many bytes at most.
    pub filler: (f64, usize),
}

/// The options of a run. Rates are between zero and one.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Voters with a database.
    pub voters: usize,
    /// Voters without a database.
    pub loggers: usize,
    /// Members with a database that do not want to vote.
    pub learners: usize,
    /// Whether the members are in two regions, in turn.
    pub has_regions: bool,
    /// Whether commits are on disks of both regions: where `is_about_time` is false.
    pub commits_in_regions: bool,
    /// Timing of the protocol. Members have shorter promises, too.
    pub timing: Timing,
    /// By how much the rates of two members' clocks may differ, in parts per million.
    pub clock_drift_ppm: u32,
    /// Limits of the protocol.
    pub limits: Limits,
    /// Size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// Size of the log's cache of records, in bytes.
    pub cache_bytes: u64,
    /// Target size of a log, in bytes.
    pub retain_bytes: u64,
    /// Size of the disk of each member, in bytes; zero: it has no bound. A log leaves a quarter of
    /// it free.
    pub disk_bytes: u64,
    /// Whether leaders purge full logs of what too few databases have.
    pub drops_full_logs: bool,
    /// Most headers that recovery returns.
    pub tail_headers_max: usize,
    /// Entries read at start to warm up certification.
    pub warm_entries: u64,
    /// Seqnos in the certification window.
    pub span_max: u64,
    /// Payload bytes that are read at once for a lagging member.
    pub catch_up_bytes: usize,
    /// Payload bytes in the entry cache.
    pub entry_cache_bytes: usize,
    /// Size of a chunk, in bytes; larger actions are split.
    pub chunk_bytes: usize,
    /// Length of the safety phase, in microseconds.
    pub safety_us: u64,
    /// Longest time in which the healed core must come to rest, in microseconds.
    pub liveness_us: u64,
    /// Workload of the clients.
    pub workload: Workload,
    /// Faults that may happen.
    pub faults: BTreeSet<Fault>,
    /// Scenes that may happen.
    pub scenes: Vec<Scene>,
    /// In the end a primary is forced although the majority lives, and the majority comes back.
    pub two_histories: bool,
    /// One member of that majority comes back with its database, and without its log.
    pub loses_log: bool,
    /// Disks hang one after the other before the faults begin.
    pub hung_disks: bool,
    /// The disks of all members are slow before the faults begin.
    pub slow_disks: bool,
    /// Databases are slow, one part after the other, before the faults begin.
    pub lagging_databases: bool,
    /// Two servers and a logger are lost one after the other before the faults begin.
    pub lost_beside_logger: bool,
    /// Leadership follows the writers, who are in one of two regions, and move.
    pub following_writers: bool,
    /// Voters are lost, stopped and replaced before the faults begin.
    pub replaced_voters: bool,
    /// Full copies take longer than the log of their receiver reaches.
    pub long_copies: bool,
    /// Actions fail on one database at a time before the faults begin.
    pub failing_actions: bool,
    /// Operators give orders of all kinds, to any member and about any, without force.
    pub any_orders: bool,
    /// Number of voters that operators aim at.
    pub voter_policy: VoterPolicy,
    /// A learner that is silent for so long is forgotten.
    pub learner_patience: Duration,
    /// Share of messages lost, if [`Fault::Loss`] is on.
    pub loss: f64,
    /// Share of messages duplicated, if [`Fault::Duplicates`] is on.
    pub duplicates: f64,
    /// Shortest and longest delay of a message, in microseconds.
    pub delay_us: (u64, u64),
    /// Shortest and longest sync, in microseconds.
    pub sync_us: (u64, u64),
    /// Bytes per second of a link, if [`Fault::Bandwidth`] is on.
    pub bytes_per_s: u64,
    /// Mean time between two faults, in microseconds.
    pub fault_interval_us: u64,
    /// Bound on the lag of the best majority's databases, in microseconds; zero: none.
    pub apply_lag_max_us: u64,
    /// Share of turns that take several events before effects are performed.
    pub gather: f64,
}

/// Options with which no run is possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// No member could ever lead.
    #[error(
        "a group needs at least one voter with data (asked for: {voters} voters, {loggers} loggers)"
    )]
    NoVoter {
        /// Voters asked for.
        voters: usize,
        /// Loggers asked for.
        loggers: usize,
    },
    /// More members than are simulated.
    #[error("{found} members are more than the {max} that are simulated")]
    TooMany {
        /// Members asked for.
        found: usize,
        /// Most members allowed.
        max: usize,
    },
    /// A rate that is no probability.
    #[error("the rate {name} = {found} is not between 0 and {max}")]
    Rate {
        /// Name of the option.
        name: &'static str,
        /// The rate asked for.
        found: f64,
        /// Highest rate allowed.
        max: f64,
    },
    /// A duration or size that is zero, or a range that ends before it begins.
    #[error("{name} = {found} is too small: at least {min} is needed")]
    TooSmall {
        /// Name of the option.
        name: &'static str,
        /// The value asked for.
        found: u64,
        /// Lowest value allowed.
        min: u64,
    },
}

impl Options {
    /// Draws all options.
    pub fn draw(rng: &mut SmallRng) -> Options {
        let (voters, loggers, learners) = draw_members(rng);
        let mut faults = BTreeSet::new();
        // Some seeds have few faults, some nearly all.
        let share = [0.1, 0.3, 0.5, 0.8][rng.random_range(0..4)];
        for &fault in Fault::ALL {
            if rng.random_bool(share) {
                faults.insert(fault);
            }
        }
        let delay_us = pick(rng, &[(100, 400), (300, 3_000), (1_000, 20_000)]);
        let sync_us = pick(rng, &[(100, 600), (500, 5_000), (2_000, 30_000)]);
        let mut options = Options {
            voters,
            loggers,
            learners,
            has_regions: false,
            commits_in_regions: false,
            timing: draw_timing(rng),
            clock_drift_ppm: pick(rng, &[20_000, 20_000, 100_000, 100_000]),
            limits: draw_limits(rng),
            segment_bytes: pick(rng, &[64 << 10, 64 << 10, 96 << 10, 256 << 10]),
            cache_bytes: pick(rng, &[0, 4 << 10, 1 << 20]),
            retain_bytes: pick(rng, &[128 << 10, 512 << 10, 64 << 20]),
            disk_bytes: 0,
            drops_full_logs: false,
            tail_headers_max: pick(rng, &[1, 7, 50, 4096]),
            warm_entries: pick(rng, &[3, 40, 10_000]),
            span_max: pick(rng, &[20, 200, 100_000]),
            catch_up_bytes: pick(rng, &[300, 5_000, 4 << 20]),
            entry_cache_bytes: pick(rng, &[500, 20_000, 32 << 20]),
            chunk_bytes: pick(rng, &[100, 400, 1 << 20]),
            safety_us: rng.random_range(4_000_000..15_000_000),
            liveness_us: 120_000_000,
            workload: draw_workload(rng),
            faults,
            scenes: Vec::new(),
            two_histories: false,
            loses_log: false,
            hung_disks: false,
            slow_disks: false,
            lagging_databases: false,
            lost_beside_logger: false,
            following_writers: false,
            replaced_voters: false,
            long_copies: false,
            failing_actions: false,
            any_orders: false,
            voter_policy: VoterPolicy::default(),
            learner_patience: Tuning::default().learner_patience,
            loss: rng.random_range(0.0..0.15),
            duplicates: rng.random_range(0.0..0.2),
            delay_us,
            sync_us,
            bytes_per_s: pick(rng, &[100_000, 1_000_000]),
            fault_interval_us: pick(rng, &[60_000, 250_000, 1_000_000]),
            gather: pick(rng, &[0.0, 0.3, 0.8]),
            apply_lag_max_us: pick(rng, &[0, 50_000, 200_000]),
        };
        // Drawn last: the rest of what a seed draws stays as it was.
        options.drops_full_logs = !options.has(Fault::ForcedPrimary) && rng.random_bool(0.2);
        options.has_regions = rng.random_bool(0.3);
        options
    }

    /// A member that has sent nothing for this time leaves the view.
    pub(crate) fn suspect(&self) -> Duration {
        Duration::from_micros(2 * self.timing.election_timeout_max_us)
    }

    /// The bound on the lag of the best majority.
    pub(crate) fn apply_lag_max(&self) -> Duration {
        Duration::from_micros(self.apply_lag_max_us)
    }

    /// The region of a member, one of two, or none.
    pub(crate) fn region(&self, member: MemberId) -> Option<Region> {
        let name = REGIONS[usize::from(member.0.is_multiple_of(2))];
        let has_region = self.has_regions || self.following_writers;
        name.parse().ok().filter(|_| has_region)
    }

    /// The region whose clients write at this time; none: those of all members do. It changes about
    /// three times in a pause of a leader.
    pub(crate) fn writing_region(&self, now_us: u64) -> Option<Region> {
        let name = REGIONS[usize::from(!(now_us / self.writers_stay_us()).is_multiple_of(2))];
        name.parse().ok().filter(|_| self.following_writers)
    }

    fn writers_stay_us(&self) -> u64 {
        20 * self.timing.heartbeat_us
    }

    /// For how long a member leads at least, before it moves leadership to the writers.
    pub(crate) fn leader_pause_us(&self) -> u64 {
        3 * self.writers_stay_us()
    }

    /// Whether a fault may happen.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Whether operators change whose writes the group takes: in one seed of 16, unless databases
    /// or disks are slowed down in turn, or leadership follows the writers, or actions fail: that
    /// is about the load of all members.
    pub(crate) fn sets_writers(&self, seed: u64) -> bool {
        let is_about_load = self.hung_disks || self.lagging_databases || self.two_histories;
        let is_about_load = is_about_load || self.slow_disks || self.following_writers;
        // What the only writer writes fails nowhere else.
        let is_about_load = is_about_load || self.failing_actions;
        seed % 16 == 13 && !is_about_load
    }

    /// Whether some rule of this run is about how soon something is committed.
    pub(crate) fn is_about_time(&self) -> bool {
        let is_about_load = self.hung_disks || self.lagging_databases || self.slow_disks;
        let is_about_members = self.replaced_voters || self.lost_beside_logger || self.any_orders;
        let is_about_databases = self.two_histories || self.long_copies || self.failing_actions;
        is_about_load || is_about_members || is_about_databases || self.following_writers
    }

    /// Whether operators hold the group's protocol version: in one seed of four of those with
    /// programs of different versions.
    pub(crate) fn holds_version(&self, seed: u64) -> bool {
        seed % 4 == 1 && self.has(Fault::Versions)
    }

    /// Refuses options with which no run is possible.
    ///
    /// # Errors
    /// The first such option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let (voters, loggers) = (self.voters, self.loggers);
        // Every group is founded by a member with a database.
        if voters == 0 {
            return Err(OptionsError::NoVoter { voters, loggers });
        }
        let found = voters.saturating_add(loggers).saturating_add(self.learners);
        if found > MEMBERS_MAX {
            return Err(OptionsError::TooMany {
                found,
                max: MEMBERS_MAX,
            });
        }
        // With every message lost, a run could show nothing.
        rate("loss", self.loss, 0.9)?;
        rate("duplicates", self.duplicates, 1.0)?;
        rate("gather", self.gather, 1.0)?;
        rate("total_order", self.workload.total_order, 1.0)?;
        rate("pa_unsafe", self.workload.pa_unsafe, 1.0)?;
        rate("reads", self.workload.reads, 1.0)?;
        rate("filler", self.workload.filler.0, 1.0)?;
        rate("hesitant", self.workload.hesitant.0, 1.0)?;
        at_least("hesitant", self.workload.hesitant.1, 1)?;
        at_least("filler", self.workload.filler.1 as u64, 1)?;
        at_least("safety_us", self.safety_us, 1)?;
        at_least("liveness_us", self.liveness_us, 1)?;
        at_least("period_us", self.workload.period_us, 1)?;
        at_least("rows", u64::from(self.workload.rows), 1)?;
        let rows_per_action = u64::from(self.workload.rows_per_action);
        at_least("rows_per_action", rows_per_action, 1)?;
        at_least("timeout_us", self.workload.timeout_us, 1)?;
        at_least("trouble_us", self.fault_interval_us, 1)?;
        at_least("bytes_per_s", self.bytes_per_s, 1000)?;
        at_least("delay_us (longest)", self.delay_us.1, self.delay_us.0)?;
        at_least("sync_us (longest)", self.sync_us.1, self.sync_us.0)
    }
}

fn rate(name: &'static str, found: f64, max: f64) -> Result<(), OptionsError> {
    // NaN is in no range.
    if (0.0..=max).contains(&found) {
        Ok(())
    } else {
        Err(OptionsError::Rate { name, found, max })
    }
}

fn at_least(name: &'static str, found: u64, min: u64) -> Result<(), OptionsError> {
    if found >= min {
        Ok(())
    } else {
        Err(OptionsError::TooSmall { name, found, min })
    }
}

fn pick<T: Clone>(rng: &mut SmallRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())].clone()
}

fn draw_members(rng: &mut SmallRng) -> (usize, usize, usize) {
    let voting = pick(rng, &[3, 3, 3, 5, 5, 7]);
    let loggers = pick(rng, &[0, 0, 0, 1, voting / 2]);
    let learners = pick(rng, &[0, 0, 1, 2]);
    (voting - loggers, loggers, learners)
}

fn draw_timing(rng: &mut SmallRng) -> Timing {
    timing(pick(rng, &[1, 2, 5]))
}

/// The protocol's times, `scale` times as long as the shortest ones, with the longest promise of
/// any member.
pub(crate) fn timing(scale: u64) -> Timing {
    let ms = 1_000 * scale;
    Timing {
        heartbeat_us: 20 * ms,
        promise_us: 80 * ms,
        election_timeout_min_us: 300 * ms,
        election_timeout_max_us: 600 * ms,
        retry_us: 100 * ms,
    }
}

fn draw_limits(rng: &mut SmallRng) -> Limits {
    Limits {
        inflight_messages_max: pick(rng, &[1, 4, 256]),
        inflight_bytes_max: pick(rng, &[2_000, 16 << 20]),
        append_bytes_max: pick(rng, &[600, 1 << 20]),
        uncommitted_bytes_max: pick(rng, &[3_000, 64 << 20]),
        tail_headers_max: pick(rng, &[2, 20, 65_536]),
    }
}

fn draw_workload(rng: &mut SmallRng) -> Workload {
    let rows = pick(rng, &[4, 30, 500]);
    Workload {
        period_us: pick(rng, &[5_000, 20_000, 60_000]),
        rows,
        rows_per_action: pick(rng, &[1, 3, 20]).min(rows),
        total_order: pick(rng, &[0.0, 0.01, 0.1]),
        pa_unsafe: pick(rng, &[0.0, 0.02]),
        reads: pick(rng, &[0.02, 0.1, 0.4]),
        timeout_us: pick(rng, &[100_000, 1_000_000, 10_000_000]),
        filler: (0.3, 600),
        hesitant: (0.0, 1),
    }
}

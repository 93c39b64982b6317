//! Profiles: some rules of the protocol matter only if several things happen at once.
//!
//! Most seeds have a profile, by their last digit, that makes one such conjunction likely: it sets
//! options and scenes over what was drawn. The other seeds stay as drawn.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::Limits;
use synod_member::VoterPolicy;

use crate::faults::scenes::Scene;
use crate::options::{Fault, Options, timing};

/// The conjunction that a seed makes likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// None: the options stay as drawn.
    Plain,
    /// Voters that restart right after they have voted, and candidates that ask late.
    Elections,
    /// Leaders that are replaced at the first moment at which that is allowed.
    IsolatedLeaders,
    /// Leadership that moves all the time, and proposals that arrive when it has moved.
    LeaderTransfers,
    /// Leaders that keep working after the group has replaced them.
    LateLeaders,
    /// Members that come back when no log holds what they lack.
    Absences,
    /// Logs that hold as little as they may, on disks with failing syncs.
    ShortLogs,
    /// Large actions of slow clients, in logs that are too small for them.
    LongActions,
    /// A forced primary, and a majority that lives and comes back.
    TwoHistories,
    /// Disks that hang, the leader's among them.
    HungDisks,
    /// Disks that are slow, on all members at once.
    SlowDisks,
    /// Databases that are slow, a minority or all of them.
    LaggingDatabases,
    /// Two servers and a logger, each of which is lost.
    LostBesideLogger,
    /// Leadership that follows the writers, who move from one region to the other.
    FollowingWriters,
    /// Voters that are lost for good and replaced, and orderly shutdowns.
    ReplacedVoters,
    /// Full copies that take longer than the log of their receiver reaches.
    LongCopies,
    /// Actions that fail on one database only, whose member dies then.
    FailingActions,
    /// Orders of all kinds, many of which make no sense.
    AnyOrders,
}

impl Profile {
    /// The profile of a seed.
    pub(crate) fn of(seed: u64) -> Profile {
        match seed % 10 {
            4 => Profile::Absences,
            5 => Profile::Elections,
            6 => Profile::IsolatedLeaders,
            7 => Profile::LeaderTransfers,
            8 => Profile::LateLeaders,
            9 => Profile::ShortLogs,
            // One of six seeds with the next digit stays as drawn.
            1 if (seed / 10).is_multiple_of(3) => Profile::LongActions,
            1 if seed / 10 % 3 == 1 => Profile::TwoHistories,
            1 if seed / 10 % 6 == 2 => Profile::HungDisks,
            1 if seed / 10 % 6 == 5 => Profile::SlowDisks,
            2 if seed / 10 % 6 == 1 => Profile::LongCopies,
            2 if seed / 10 % 6 == 2 => Profile::LaggingDatabases,
            2 if seed / 10 % 6 == 4 => Profile::LostBesideLogger,
            2 if seed / 10 % 6 == 3 => Profile::FollowingWriters,
            2 if seed / 10 % 6 == 5 => Profile::ReplacedVoters,
            3 if seed / 10 % 6 == 3 => Profile::FailingActions,
            3 if seed / 10 % 6 == 4 => Profile::AnyOrders,
            _ => Profile::Plain,
        }
    }

    /// Sets the options of this profile over what the seed has drawn.
    pub(crate) fn apply(self, seed: u64, options: &mut Options) {
        if self == Profile::Plain {
            return;
        }
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xf1a_0f1a_0f1a);
        // Too many faults of other kinds hide what a scene is about.
        options.faults.retain(|_| rng.random_bool(0.5));
        for fault in [
            Fault::Partition,
            Fault::OneWay,
            Fault::Pause,
            Fault::Suspend,
        ] {
            options.faults.remove(&fault);
        }
        (options.timing, options.clock_drift_ppm) = (timing(1), 20_000);
        options.fault_interval_us = 60_000;
        options.delay_us = [(100, 400), (300, 3_000)][rng.random_range(0..2)];
        options.sync_us = [(100, 600), (500, 5_000)][rng.random_range(0..2)];
        options.gather = 0.0;
        let workload = &mut options.workload;
        (workload.period_us, workload.timeout_us) = (5_000, 10_000_000);
        match self {
            Profile::Plain => {}
            Profile::Elections => options.scenes = vec![Scene::SplitVote],
            Profile::IsolatedLeaders => {
                options.scenes = vec![Scene::IsolatedLeader, Scene::LateAnswers]
            }
            Profile::LeaderTransfers => {
                options.scenes = vec![Scene::LeaderTransfers];
                options.faults.insert(Fault::Duplicates);
                options.duplicates = 0.2;
                options.chunk_bytes = 100;
            }
            Profile::LateLeaders => {
                options.scenes = vec![Scene::LateLeader];
                // Many conflicts, which clients learn of late.
                (workload.rows, workload.rows_per_action) = (40, 2);
                workload.total_order = 0.0;
                (options.delay_us, options.sync_us) = ((1_000, 20_000), (2_000, 30_000));
            }
            Profile::Absences => {
                options.scenes = vec![Scene::LongAbsence];
                // A member that comes back proposes again before its database notices that it lags.
                (options.delay_us, options.sync_us) = ((100, 400), (100, 600));
                options.retain_bytes = 128 << 10;
                set_heavy_writes(options);
            }
            Profile::ShortLogs => {
                options.scenes = vec![Scene::ShortLogs, Scene::FailedSync];
                options.retain_bytes = 64 << 20;
                set_heavy_writes(options);
            }
            Profile::LongActions => {
                options.retain_bytes = 128 << 10;
                set_heavy_writes(options);
                options.chunk_bytes = 400;
                options.workload.hesitant = (0.1, 200_000);
            }
            Profile::HungDisks => {
                options.hung_disks = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                options.retain_bytes = 64 << 20;
                options.entry_cache_bytes = 64 << 10;
                options.limits.uncommitted_bytes_max = 64 << 10;
            }
            Profile::SlowDisks => {
                options.slow_disks = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                options.voters = [3, 3, 4, 5][rng.random_range(0..4)];
                options.retain_bytes = 64 << 20;
                options.catch_up_bytes = 4 << 20;
                // The timing that a group has by default, and as many writes as slow disks take.
                (options.timing, options.clock_drift_ppm) = (timing(5), 20_000);
                options.workload.period_us = 50_000;
                options.workload.filler = (0.1, 300);
            }
            Profile::LaggingDatabases => {
                options.lagging_databases = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                (options.voters, options.loggers) =
                    [(3, 0), (2, 1), (5, 0)][rng.random_range(0..3)];
                // Either logs are large, or they grow for whom they are kept for.
                (options.retain_bytes, options.disk_bytes) =
                    [(64 << 20, 0), (128 << 10, 64 << 20)][rng.random_range(0..2)];
                options.apply_lag_max_us = [50_000, 200_000][rng.random_range(0..2)];
                options.span_max = 100_000;
                // What slow databases have not finished with is in no client's way.
                let workload = &mut options.workload;
                (workload.rows, workload.rows_per_action) = (60_000, 1);
                (workload.total_order, workload.filler) = (0.0, (1.0, 500));
            }
            Profile::LostBesideLogger => {
                options.lost_beside_logger = true;
                options.faults.retain(|fault| *fault == Fault::Weights);
                options.safety_us = 500_000;
                set_heavy_writes(options);
                (options.voters, options.loggers) = (2, 1);
                options.retain_bytes = 64 << 20;
            }
            Profile::FollowingWriters => {
                options.following_writers = true;
                // Both make a pause look shorter than it is.
                options.faults.remove(&Fault::Drift);
                options.faults.remove(&Fault::Jumps);
                set_heavy_writes(options);
                options.voters = [3, 5][rng.random_range(0..2)];
                options.retain_bytes = 64 << 20;
                options.fault_interval_us = 1_000_000;
                let workload = &mut options.workload;
                (workload.filler, workload.rows) = ((0.1, 500), 60_000);
            }
            Profile::ReplacedVoters => {
                options.replaced_voters = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                // Nothing is about load, and much time passes.
                options.workload.period_us = 50_000;
                options.workload.filler = (0.1, 300);
                options.retain_bytes = 64 << 20;
                options.voters = [3, 3, 4, 5][rng.random_range(0..4)];
                let wanted = [0, 0, options.voters][rng.random_range(0..3)];
                let dead_after = Duration::from_secs(3);
                options.voter_policy = VoterPolicy { wanted, dead_after };
                options.learner_patience = Duration::from_secs(20);
            }
            Profile::LongCopies => {
                options.long_copies = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                options.retain_bytes = 64 << 20;
                // Much is fetched in many parts, chunks of actions among it.
                options.catch_up_bytes = 20_000;
                options.chunk_bytes = [1_000, 1 << 20][rng.random_range(0..2)];
            }
            Profile::FailingActions => {
                options.failing_actions = true;
                options.faults.clear();
                options.safety_us = 500_000;
                set_heavy_writes(options);
                options.voters = [3, 3, 4, 5][rng.random_range(0..4)];
                // Nothing is about load, and much time passes.
                options.workload.period_us = 20_000;
                options.workload.filler = (0.1, 300);
                options.retain_bytes = 64 << 20;
            }
            Profile::AnyOrders => {
                options.any_orders = true;
                // No operator looks at disks here before a voter is taken away.
                let kept = [Fault::Crash, Fault::Loss, Fault::Duplicates, Fault::Resets];
                options.faults.retain(|fault| kept.contains(fault));
                set_heavy_writes(options);
                (options.voters, options.loggers, options.learners) = (4, 1, 2);
                options.workload.period_us = 50_000;
            }
            Profile::TwoHistories => {
                options.two_histories = true;
                options.loses_log = (seed / 10).is_multiple_of(2);
                options.drops_full_logs = false;
                options.faults.clear();
                options.retain_bytes = 128 << 10;
                options.safety_us = 500_000;
                set_heavy_writes(options);
            }
        }
    }
}

/// Clients fill a segment in less time than a database takes to flush, and no other option slows
/// them down.
fn set_heavy_writes(options: &mut Options) {
    (options.voters, options.loggers, options.learners) = (3, 0, 0);
    options.faults.remove(&Fault::SlowApply);
    options.faults.remove(&Fault::Bandwidth);
    options.limits = Limits::default();
    options.segment_bytes = 64 << 10;
    options.chunk_bytes = 1 << 20;
    let workload = &mut options.workload;
    workload.period_us = 2_500;
    workload.filler = (1.0, 3_000);
    (workload.rows, workload.rows_per_action) = (500, 3);
    workload.reads = 0.02;
}

//! Flavours: some rules of the protocol matter only if several things happen at once. Most seeds are
//! of a flavour that makes one such conjunction likely; the others are as drawn.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::Limits;

use crate::faults::scenes::Scene;
use crate::options::{Fault, Options, timing};

/// What a seed is for, beside what it has drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Nothing.
    Plain,
    /// Members that restart right after they have voted, and others that ask late.
    Elections,
    /// Leaders that are replaced at the first moment at which that may be.
    Leases,
    /// Leadership that moves all the time, and proposals that arrive when it has moved.
    HandOvers,
    /// Leaders that go on without the group.
    LateLeaders,
    /// Members that come back when nobody has in its log what they lack.
    Absences,
    /// Logs that hold as little as they may, on bad disks.
    ShortLogs,
    /// Large actions of slow clients, in logs that are too small for them.
    LongActions,
}

impl Profile {
    /// That of a seed.
    pub(crate) fn of(seed: u64) -> Profile {
        match seed % 10 {
            4 => Profile::Absences,
            5 => Profile::Elections,
            6 => Profile::Leases,
            7 => Profile::HandOvers,
            8 => Profile::LateLeaders,
            9 => Profile::ShortLogs,
            // The rest of these is as drawn.
            1 if (seed / 10).is_multiple_of(3) => Profile::LongActions,
            _ => Profile::Plain,
        }
    }

    /// Changes what was drawn.
    pub(crate) fn apply(self, seed: u64, options: &mut Options) {
        if self == Profile::Plain {
            return;
        }
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xf1a_0f1a_0f1a);
        // Too much trouble of other kinds hides what a scene is about.
        options.faults.retain(|_| rng.random_bool(0.5));
        for fault in [Fault::Partition, Fault::OneWay, Fault::Pause] {
            options.faults.remove(&fault);
        }
        options.timing = timing(1, 20_000);
        options.fault_interval_us = 60_000;
        options.delay_us = [(100, 400), (300, 3_000)][rng.random_range(0..2)];
        options.sync_us = [(100, 600), (500, 5_000)][rng.random_range(0..2)];
        options.gather = 0.0;
        let workload = &mut options.workload;
        (workload.period_us, workload.timeout_us) = (5_000, 10_000_000);
        match self {
            Profile::Plain => {}
            Profile::Elections => options.scenes = vec![Scene::SplitVote],
            Profile::Leases => options.scenes = vec![Scene::CutOff, Scene::LateAnswers],
            Profile::HandOvers => {
                options.scenes = vec![Scene::HandOvers];
                options.faults.insert(Fault::Duplicates);
                options.duplicates = 0.2;
                options.chunk_bytes = 100;
            }
            Profile::LateLeaders => {
                options.scenes = vec![Scene::LateLeader];
                // Many conflicts, of which nobody hears soon.
                (workload.rows, workload.rows_per_action) = (40, 2);
                workload.total_order = 0.0;
                (options.delay_us, options.sync_us) = ((1_000, 20_000), (2_000, 30_000));
            }
            Profile::Absences => {
                options.scenes = vec![Scene::Away];
                // Whoever comes back proposes again before its database notices that it is behind.
                (options.delay_us, options.sync_us) = ((100, 400), (100, 600));
                options.retain_bytes = 128 << 10;
                set_heavy_writes(options);
            }
            Profile::ShortLogs => {
                options.scenes = vec![Scene::ShortLogs, Scene::BadSync];
                options.retain_bytes = 64 << 20;
                set_heavy_writes(options);
            }
            Profile::LongActions => {
                options.retain_bytes = 128 << 10;
                set_heavy_writes(options);
                options.chunk_bytes = 400;
                options.workload.hesitant = (0.1, 200_000);
            }
        }
    }
}

/// A segment in less time than a database takes to flush, and nothing that slows down all else.
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

//! Seeds, as many as fit into an ordinary test run; equal seeds, equal runs; nonsense refused.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use synod_sim::{Coverage, Fault, OptionsError, options_of, run};

const SEEDS: u64 = 300;
/// Short, so that there can be many.
const SAFETY_US_MAX: u64 = 1_500_000;

/// A shorter run of a seed than the program's, with troubles close together.
fn run_short(seed: u64) -> Result<synod_sim::Passed, Box<synod_sim::Failed>> {
    let mut options = options_of(seed);
    options.safety_us = options.safety_us.min(SAFETY_US_MAX);
    options.fault_interval_us = options.fault_interval_us.min(100_000);
    run(seed, options, false)
}

/// Seeds of full length that have found something (docs/simulation.md). What a seed draws changes with the
/// simulator; then they are like any others.
#[test]
fn seeds_that_found_something_pass() {
    let seeds = [
        61, 181, 271, 297, 1079, 1804, 2547, 20_388, 20_651, 22_504, 24_307, 26_478, 27_365,
        29_660, 31_061, 31_563, 32_903, 34_780, 45_883, 50_782, 56_470, 82_547, 302_437, 310_771,
        330_110, 409_881, 419_397, 429_601,
    ];
    for seed in seeds {
        if let Err(failed) = run(seed, options_of(seed), false) {
            panic!("{failed}");
        }
    }
}

#[test]
fn random_seeds_break_no_rule() {
    let (next, total) = (AtomicU64::new(1), Mutex::new(Coverage::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > SEEDS {
                        return;
                    }
                    match run_short(seed) {
                        Ok(passed) => total.lock().unwrap().add(&passed.coverage),
                        Err(failed) => panic!("{failed}"),
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    // The test would be worth nothing if the faults prevented all work, or did not happen.
    assert!(
        total.of("transaction acknowledged") > 40 * SEEDS,
        "{total:?}"
    );
    assert!(total.of("election won") > 2 * SEEDS, "{total:?}");
    for name in [
        "crash",
        "power cut",
        "wipe",
        "partition",
        "log reset",
        "full copy",
        "member fenced",
        "repair complete",
        "damage met while running",
        "bit rot",
        "rot while running",
        "misdirected write",
        "upgrade",
        "downgrade",
        "program refused",
        "configuration of version 2",
        "forced leadership",
        "entries lost by order",
    ] {
        assert!(total.of(name) >= 5, "{name}: {total:?}");
    }
}

/// Messages overtake each other, and a member far behind refuses most of what it gets: what is to be read
/// for it must not grow faster than it is read.
#[test]
fn ranges_for_a_member_far_behind_are_bounded() {
    let mut options = options_of(861);
    options.safety_us = SAFETY_US_MAX;
    options.faults = [Fault::Reordering].into();
    options.delay_us = (1_000, 20_000);
    // A window has many messages, of an entry each, and nearly all have to be read.
    options.limits.inflight_messages_max = 256;
    options.limits.append_bytes_max = 600;
    options.entry_cache_bytes = 500;
    options.workload.period_us = 5_000;
    let passed = run(861, options, false).unwrap_or_else(|failed| panic!("{failed}"));
    assert!(passed.coverage.of("catch-up from disk") > 100);
}

/// Databases apply slower than clients write, and logs are short: clients have to wait, or what the databases
/// lack would be gone from all logs.
#[test]
fn logs_keep_what_slow_databases_lack() {
    let mut slowed = 0;
    for seed in 1..=4 {
        let mut options = options_of(seed);
        (options.voters, options.loggers, options.learners) = (3, 0, 0);
        options.safety_us = 3_000_000;
        options.faults = [Fault::SlowApply].into();
        options.retain_bytes = 128 << 10;
        options.segment_bytes = 64 << 10;
        options.workload.period_us = 2_500;
        options.workload.filler = (1.0, 3_000);
        (options.workload.rows, options.workload.rows_per_action) = (5_000, 1);
        (options.workload.reads, options.workload.total_order) = (0.02, 0.0);
        (options.chunk_bytes, options.limits) = (1 << 20, Default::default());
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        slowed += u64::from(passed.coverage.of("log full") > 0);
        assert!(passed.coverage.of("transaction acknowledged") > 50);
    }
    assert!(slowed > 0, "no log was ever full");
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..=6 {
        let (a, b) = (run_short(seed).unwrap(), run_short(seed).unwrap());
        assert_eq!(
            (a.trace_hash, a.events),
            (b.trace_hash, b.events),
            "seed {seed}"
        );
        assert_eq!(a.coverage, b.coverage);
    }
    let (one, two) = (run_short(1).unwrap(), run_short(2).unwrap());
    assert_ne!(one.trace_hash, two.trace_hash);
}

#[test]
fn groups_of_3_5_and_7_with_loggers_and_learners_are_drawn() {
    let drawn: Vec<_> = (1..200).map(options_of).collect();
    for voting in [3, 5, 7] {
        assert!(drawn.iter().any(|o| o.voters + o.loggers == voting));
    }
    assert!(drawn.iter().any(|o| o.loggers > 0) && drawn.iter().any(|o| o.learners > 0));
    for fault in Fault::ALL {
        let on = drawn.iter().filter(|o| o.has(fault)).count();
        assert!(on > 25 && on < 160, "{} is on in {on} of 199", fault.name());
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |change: &dyn Fn(&mut synod_sim::Options)| {
        let mut options = options_of(1);
        change(&mut options);
        let error = options.check().unwrap_err();
        // And are not run either.
        let failed = run(1, options, false).unwrap_err();
        assert_eq!(
            (failed.rule.as_str(), failed.what),
            ("options", error.to_string())
        );
        error
    };
    assert!(matches!(
        refused(&|o| o.voters = 0),
        OptionsError::NoVoter { .. }
    ));
    assert!(
        matches!(refused(&|o| o.learners = 100), OptionsError::TooMany { found, .. } if found > 100)
    );
    assert!(matches!(
        refused(&|o| o.loss = 1.5),
        OptionsError::Rate { name: "loss", .. }
    ));
    assert!(matches!(
        refused(&|o| o.loss = f64::NAN),
        OptionsError::Rate { .. }
    ));
    assert!(matches!(
        refused(&|o| o.duplicates = -0.1),
        OptionsError::Rate {
            name: "duplicates",
            ..
        }
    ));
    assert!(matches!(
        refused(&|o| o.safety_us = 0),
        OptionsError::TooSmall {
            name: "safety_us",
            ..
        }
    ));
    assert!(matches!(
        refused(&|o| o.delay_us = (9, 1)),
        OptionsError::TooSmall { .. }
    ));
}

#[test]
fn failure_tells_everything_needed_to_see_it_again() {
    let mut options = options_of(1);
    // Nobody comes to rest that fast.
    options.liveness_us = 1;
    let failed = run(1, options, false).unwrap_err();
    let text = failed.to_string();
    for part in [
        "seed 1 failed",
        "options: Options",
        "last events:",
        "members at the end:",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(!failed.last.is_empty());
}

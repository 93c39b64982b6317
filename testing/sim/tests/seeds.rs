//! The simulator's own tests: many seeds break no rule, seeds that once found a fault still pass,
//! equal seeds give equal runs, the hash of a run does not depend on texts, and impossible options
//! are refused.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use std::hash::{DefaultHasher, Hash, Hasher};

use synod_consensus::Timing;
use synod_sim::{
    Coverage, Fault, MessageKind, Note, Options, OptionsError, Text, What, options_of, run,
};

const SEEDS: u64 = 300;
/// Short, so that there can be many.
const SAFETY_US_MAX: u64 = 1_500_000;

/// A run of a seed that is shorter than the program's, with more faults per second.
fn run_short(seed: u64) -> Result<synod_sim::Passed, Box<synod_sim::Failed>> {
    let mut options = options_of(seed);
    options.safety_us = options.safety_us.min(SAFETY_US_MAX);
    options.fault_interval_us = options.fault_interval_us.min(100_000);
    run(seed, options, false)
}

/// Seeds that found a fault, at full length, with what they found (regressions.tsv says more). What
/// a seed draws changes with the simulator; after such a change, these are seeds like any others.
const FOUND: [(u64, &str); 34] = [
    (61, "full logs purged the first chunks of a partial action"),
    (181, "not noted"),
    (
        271,
        "a restarted member did not see that what it had read was committed",
    ),
    (297, "learners left and joined the view for ever"),
    (372, "checker: as 432"),
    (
        432,
        "checker: an origin's log had purged what its transaction lost to",
    ),
    (
        661,
        "a lost newest segment looked unused, and its promises seemed known",
    ),
    (
        662,
        "a learner whose feeder had purged what it needs got nothing for ever",
    ),
    (1079, "applied actions counted as flushed after a power cut"),
    (
        1093,
        "checker: a short pause within a long one ended both of them",
    ),
    (
        1804,
        "all logs were intact, but no database held what came before them",
    ),
    (2547, "not noted"),
    (
        20_388,
        "a log was reset beyond the view that announced its member",
    ),
    (
        20_651,
        "a database beyond the group waited for its next action for ever",
    ),
    (22_504, "as 20388"),
    (24_307, "as 20388"),
    (26_478, "as 20388"),
    (27_365, "as 20388"),
    (29_660, "as 20651"),
    (31_061, "not noted"),
    (31_563, "not noted"),
    (32_903, "as 20651"),
    (
        34_780,
        "checker: a missing write took the only header that stated it",
    ),
    (45_883, "fault atlas: the last complete database was lost"),
    (
        50_097,
        "a member that fetched gave up for the sake of entries without an action",
    ),
    (
        50_782,
        "a learner with the newest log neither voted nor stood",
    ),
    (
        56_470,
        "a member under repair waited for a later term for ever",
    ),
    (
        82_547,
        "full logs were purged between the chunks of an action",
    ),
    (
        302_437,
        "members took purged entries without actions for missing actions",
    ),
    (
        310_771,
        "checker: a follower's full log was too large under a new leader",
    ),
    (
        330_110,
        "fault atlas: a damaged header seemed to state the highest floor",
    ),
    (
        409_881,
        "a learner was promoted before it knew that it was a member",
    ),
    (
        419_397,
        "checker: a purge was judged by an outdated configuration",
    ),
    (
        429_601,
        "checker: a new leader's full log had to shrink at once",
    ),
];

#[test]
fn seeds_that_found_something_pass() {
    for (seed, found) in FOUND {
        if let Err(failed) = run(seed, options_of(seed), false) {
            panic!("seed {seed} once found: {found}\n{failed}");
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
    // The test proves nothing if faults prevent all work, or do not happen.
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
        "bit rot",
        "rot while running",
        "misdirected write",
        "upgrade",
        "downgrade",
        "configuration of the next version",
        "forced leadership",
        "entries lost to a forced primary",
        "died with a failed action",
        "failed action applied again",
        "full disk of a database",
        "engine corrected",
    ] {
        assert!(total.of(name) >= 5, "{name}: {total:?}");
    }
    // Rare in runs as short as these.
    for name in ["damage met while running", "failed action in doubt"] {
        assert!(total.of(name) >= 1, "{name}: {total:?}");
    }
}

/// The members of these seeds want to know up to where all databases have applied.
#[test]
fn what_is_said_to_be_applied_everywhere_is() {
    let mut checked = 0;
    for nth in 1..=12 {
        let seed = 16 * nth - 5;
        let mut options = options_of(seed);
        options.safety_us = 4_000_000;
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        checked += passed.coverage.of("applied everywhere, checked");
    }
    assert!(checked > 100, "{checked} claims were checked");
}

/// Operators of these seeds say whose writes the group takes, while leaders die and change.
#[test]
fn only_the_writer_writes() {
    let (mut written, mut refused) = (0, 0);
    for nth in 1..=12 {
        let seed = 16 * nth - 3;
        let mut options = options_of(seed);
        options.safety_us = 4_000_000;
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        written += passed.coverage.of("action of the only writer");
        refused += passed.coverage.of("not the writer");
    }
    assert!(written > 100, "the writer committed {written} actions");
    assert!(refused > 100, "{refused} writes elsewhere were refused");
}

/// The groups of these seeds lose regions, too, and have to commit between that.
#[test]
fn commits_are_in_two_regions() {
    let mut committed = 0;
    for nth in 1..=12 {
        let seed = 16 * nth - 9;
        let mut options = options_of(seed);
        options.safety_us = 4_000_000;
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        committed += passed.coverage.of("commit in two regions");
    }
    assert!(committed > 1000, "{committed} commits");
}

/// Messages overtake each other, and a lagging member refuses most of them. The ranges that wait to
/// be read for it must not grow faster than they are read.
#[test]
fn ranges_for_a_lagging_member_are_bounded() {
    let mut options = options_of(861);
    options.safety_us = SAFETY_US_MAX;
    options.faults = [Fault::Reordering].into();
    // They end a step, and this one is about messages.
    options.hung_disks = false;
    options.lagging_databases = false;
    options.lost_beside_logger = false;
    options.replaced_voters = false;
    options.delay_us = (1_000, 20_000);
    // A window has many messages of one entry each, and nearly all entries have to be read.
    options.limits.inflight_messages_max = 256;
    options.limits.append_bytes_max = 600;
    options.entry_cache_bytes = 500;
    options.workload.period_us = 5_000;
    let passed = run(861, options, false).unwrap_or_else(|failed| panic!("{failed}"));
    assert!(passed.coverage.of("catch-up from disk") > 100);
}

/// Databases apply slower than clients write, and logs are short. Clients have to wait; otherwise
/// no log would hold what the databases lack.
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

/// Machines with clients that only read are suspended, and the others continue without them.
fn with_suspended_machines(seed: u64) -> Options {
    let mut options = options_of(10 * seed);
    (options.voters, options.loggers, options.learners) = (3, 0, 0);
    options.faults = [Fault::Suspend].into();
    options.timing = Timing {
        heartbeat_us: 20_000,
        promise_us: 80_000,
        election_timeout_min_us: 100_000,
        election_timeout_max_us: 200_000,
        retry_us: 100_000,
    };
    (options.delay_us, options.sync_us) = ((100, 400), (100, 600));
    options.safety_us = 4_000_000;
    options.fault_interval_us = 250_000;
    (options.workload.period_us, options.workload.reads) = (5_000, 0.4);
    options
}

/// Promise P4: no causal read is stale, also where all clocks of a machine stand still.
#[test]
fn suspended_machine_reads_nothing_stale() {
    for seed in 1..=10 {
        let options = with_suspended_machines(seed);
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        assert!(passed.coverage.of("suspended machine") > 0);
        assert!(passed.coverage.of("database of a known age") > 0);
    }
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

fn hash_of(what: What) -> u64 {
    let member = synod_consensus::MemberId(1);
    let note = Note {
        at_us: 5,
        member,
        what,
    };
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn hash_of_a_run_does_not_depend_on_texts() {
    let said = |text: &str| What::Logged {
        text: Text(text.to_owned()),
    };
    assert_eq!(hash_of(said("joined")), hash_of(said("has joined")));
    let refused = |text: &str| What::Refused {
        why: Text(text.to_owned()),
    };
    assert_eq!(hash_of(refused("no space")), hash_of(refused("disk full")));
    assert_ne!(hash_of(said("no space")), hash_of(refused("no space")));
}

#[test]
fn hash_of_a_run_depends_on_numbers_of_messages_and_not_on_their_names() {
    let lost = |number, name| What::Lost {
        to: synod_consensus::MemberId(2),
        kind: MessageKind { number, name },
    };
    let vote = hash_of(lost(3, "vote"));
    assert_eq!(vote, hash_of(lost(3, "request for a vote")));
    assert_ne!(vote, hash_of(lost(4, "vote")));
}

/// Two servers and a logger survive the loss of any one, and the logger leads for a moment only.
#[test]
fn servers_beside_a_logger_are_lost_one_after_the_other() {
    let mut led = 0;
    for nth in 1..=12 {
        let seed = 60 * nth - 18;
        let passed = run_short(seed).unwrap_or_else(|failed| panic!("{failed}"));
        led += passed.coverage.of("a logger led");
    }
    assert!(led > 12, "a logger led {led} times");
}

/// Writers of these seeds move from one region to the other, and leadership follows them.
#[test]
fn leadership_follows_the_writers_but_not_at_once() {
    let mut moved = 0;
    for nth in 1..=12 {
        let seed = 60 * nth - 28;
        let mut options = options_of(seed);
        options.safety_us = 4_000_000;
        let passed = run(seed, options, false).unwrap_or_else(|failed| panic!("{failed}"));
        moved += passed.coverage.of("leader moved to the writers");
    }
    assert!(moved > 12, "leadership moved {moved} times");
}

/// Voters are lost for good, stopped in any order and replaced, and the group keeps their number.
#[test]
fn voters_are_stopped_lost_and_replaced_without_an_operator() {
    let seen = [
        "replaced under its name",
        "replaced under another name",
        "all voters were shut down",
        "all lost members are forgotten",
    ];
    let mut counts = [0; 4];
    for nth in 1..=12 {
        let seed = 60 * nth - 8;
        let passed = run_short(seed).unwrap_or_else(|failed| panic!("{failed}"));
        for (count, what) in counts.iter_mut().zip(seen) {
            *count += passed.coverage.of(what);
        }
    }
    for (count, what) in counts.iter().zip(seen) {
        assert!(*count > 5, "{what}: {count} times");
    }
}

/// Copies of these seeds take longer than the log of their receiver reaches, and those who send the
/// rest are killed.
#[test]
fn what_is_missing_after_a_long_copy_is_fetched() {
    let (mut gaps, mut kills) = (0, 0);
    for nth in 1..=6 {
        let seed = 60 * nth - 48;
        let passed = run(seed, options_of(seed), false).unwrap_or_else(|failed| panic!("{failed}"));
        gaps += passed.coverage.of("long copy with a gap");
        kills += passed.coverage.of("killed while it sent entries");
    }
    assert!(gaps > 6, "{gaps} copies had a gap after them");
    assert!(
        kills > 6,
        "{kills} members were killed while they sent entries"
    );
}

#[test]
fn groups_of_3_5_and_7_with_loggers_and_learners_are_drawn() {
    let drawn: Vec<_> = (1..480).map(options_of).collect();
    for voting in [3, 5, 7] {
        assert!(drawn.iter().any(|o| o.voters + o.loggers == voting));
    }
    assert!(drawn.iter().any(|o| o.loggers > 0) && drawn.iter().any(|o| o.learners > 0));
    for &fault in Fault::ALL {
        let on = drawn.iter().filter(|o| o.has(fault)).count();
        assert!(on > 20 && on < 380, "{} is on in {on} of 479", fault.name());
    }
}

#[test]
fn impossible_options_are_refused() {
    let refused = |change: &dyn Fn(&mut synod_sim::Options)| {
        let mut options = options_of(1);
        change(&mut options);
        let error = options.check().unwrap_err();
        // A run with them ends at once, too.
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
fn failure_shows_everything_that_is_needed_to_see_it_again() {
    let mut options = options_of(1);
    // No group comes to rest that fast.
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

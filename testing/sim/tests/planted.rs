//! Proves the prover: bugs that are put in on purpose are found within a bounded number of seeds.
//!
//! The run prints which seed and which rule found each bug (`docs/simulation.md`). Needs
//! `--features planted`; without it, shipping code cannot have these bugs.

use std::hash::{DefaultHasher, Hash, Hasher};

use synod_planted::{Bug, plant};
use synod_sim::playground::Playground;
use synod_sim::{Fault, Options, options_of, run};

/// Most seeds until a bug must be found.
const SEEDS: u64 = 300;
/// The same for a bug that few seeds show: a database has to apply what is then lost to a forced
/// primary.
const SEEDS_FOR_RARE: u64 = 1200;
/// One of how many bugs a sample has.
const SAMPLE: u64 = 4;
/// Length of the safety phase, in microseconds; long enough for most bugs.
const SAFETY_US: u64 = 3_000_000;

/// Bugs that show only where a log is damaged and repaired.
const OF_REPAIR: [Bug; 3] = [Bug::ForgetMark, Bug::VoteUnderRepair, Bug::ServeDamage];

/// The seed to try as the nth. Bugs that show in one scene only are looked for in seeds that have
/// it (`src/profile.rs`); in the others they do no harm.
fn seed_of(bug: Bug, nth: u64) -> u64 {
    match bug {
        Bug::ResendAfterReset => 10 * nth - 6,
        Bug::ForgetOtherHistory => 30 * nth - 19,
        Bug::TrustDatabase => 60 * nth - 19,
        Bug::KeepStalledLeader => 60 * nth - 39,
        Bug::KeepLoggerLeading => 60 * nth - 18,
        Bug::DropLateVotes | Bug::ConsentWhileVoting | Bug::HandOverToSlow => 60 * nth - 9,
        Bug::FollowAtOnce => 60 * nth - 28,
        Bug::GrowByReplacement | Bug::LeaverLosesVote => 60 * nth - 8,
        Bug::SkipUnfetched => 60 * nth - 48,
        Bug::DropUnfinished => 30 * nth - 29,
        Bug::BelieveEngine | Bug::RecordUnsynced => 60 * nth - 27,
        Bug::ForgetUnflushed | Bug::ApplyTwice => 60 * nth - 27,
        Bug::WaitForOne => 16 * nth - 5,
        Bug::WriteElsewhere | Bug::WriteBeforeApplied => 16 * nth - 3,
        Bug::ForgetRegions => 16 * nth - 9,
        Bug::RiseThoughHeld => 4 * nth - 3,
        Bug::SlowestSetsThePace | Bug::LagWithoutBound => 60 * nth - 38,
        _ => nth,
    }
}

/// Faults that every seed gets for this bug, because few seeds have what shows it.
fn added_faults(bug: Bug) -> &'static [Fault] {
    match bug {
        _ if OF_REPAIR.contains(&bug) => &[Fault::BitRot, Fault::RotWhileRunning],
        Bug::UndoApplied => &[Fault::ForcedPrimary],
        // A member that is removed while it is cut off does not learn of that from its log.
        Bug::AdmitRemoved => &[Fault::Members, Fault::Partition, Fault::OneWay],
        // Members have to be upgraded, or downgraded after their group has risen.
        Bug::IgnoreVersion | Bug::RiseThoughHeld => &[Fault::Versions],
        _ => &[],
    }
}

/// Some scenes have rules that hold only without other faults.
fn excludes_faults(options: &Options) -> bool {
    options.two_histories
        || options.hung_disks
        || options.slow_disks
        || options.lagging_databases
        || options.lost_beside_logger
        || options.replaced_voters
        || options.long_copies
        || options.failing_actions
}

/// Length of the safety phase for this bug, in microseconds.
fn safety_us_of(bug: Bug) -> u64 {
    match bug {
        // A member joins, is cut off, removed, connected again, and misses its group.
        Bug::AdmitRemoved => 4 * SAFETY_US,
        _ => SAFETY_US,
    }
}

/// Most seeds until this bug must be found.
fn seeds_max(bug: Bug) -> u64 {
    match bug {
        Bug::UndoApplied => SEEDS_FOR_RARE,
        _ => SEEDS,
    }
}

/// The first seed that breaks a rule, and the rule. The seed breaks none without the bug.
fn first_found(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (1..=seeds_max(bug)).find_map(|nth| {
        let seed = seed_of(bug, nth);
        let mut options = options_of(seed);
        options.safety_us = safety_us_of(bug);
        let added = added_faults(bug);
        if !added.is_empty() && excludes_faults(&options) {
            return None;
        }
        options.faults.extend(added);
        let failed = run(seed, options.clone(), false).err()?;
        assert_ne!(failed.rule, "options", "{bug:?}: seed {seed} does not run");
        Some((seed, options, failed.rule))
    });
    plant(None);
    let (seed, options, rule) = found?;
    let right = run(seed, options, false).err().map(|failed| failed.rule);
    assert_eq!(right, None, "seed {seed} fails without {bug:?}, too");
    Some((seed, rule))
}

/// Whether this run looks for a bug. `SYNOD_PLANTED_SAMPLE` is the hash of a commit and leaves a
/// quarter of the bugs to look for, another one for each commit.
fn is_in_sample(bug: Bug) -> bool {
    let Ok(commit) = std::env::var("SYNOD_PLANTED_SAMPLE") else {
        return true;
    };
    let mut hasher = DefaultHasher::new();
    (commit, format!("{bug:?}")).hash(&mut hasher);
    hasher.finish().is_multiple_of(SAMPLE)
}

#[track_caller]
fn are_found(bugs: &[Bug]) {
    for bug in bugs.iter().filter(|bug| is_in_sample(**bug)) {
        let found = first_found(*bug);
        println!("{bug:?}: {found:?}");
        let tried = seeds_max(*bug);
        assert!(found.is_some(), "{bug:?} is not found in {tried} seeds");
    }
}

#[test]
fn promises_that_are_not_durable_are_found() {
    are_found(&[Bug::AckBeforeSync, Bug::CountOwnDiskEarly, Bug::SkipVote]);
    are_found(&[Bug::IgnoreFailedSync, Bug::LoseTruncate]);
}

#[test]
fn leader_that_keeps_leading_without_its_disk_is_found() {
    are_found(&[Bug::KeepStalledLeader]);
}

#[test]
fn elections_that_slow_disks_prevent_are_found() {
    are_found(&[
        Bug::DropLateVotes,
        Bug::ConsentWhileVoting,
        Bug::HandOverToSlow,
    ]);
}

#[test]
fn logger_that_keeps_leading_is_found() {
    are_found(&[Bug::KeepLoggerLeading]);
}

#[test]
fn leadership_that_follows_writers_at_once_is_found() {
    are_found(&[Bug::FollowAtOnce]);
}

#[test]
fn removed_member_that_comes_back_is_found() {
    are_found(&[Bug::AdmitRemoved]);
}

#[test]
fn wrong_numbers_of_voters_are_found() {
    are_found(&[Bug::GrowByReplacement, Bug::LeaverLosesVote]);
}

#[test]
fn pace_of_the_wrong_databases_is_found() {
    are_found(&[Bug::SlowestSetsThePace, Bug::LagWithoutBound]);
}

#[test]
fn forgotten_votes_are_found() {
    are_found(&[Bug::ForgetVote, Bug::VoteTwice]);
}

#[test]
fn wrong_elections_and_commits_are_found() {
    are_found(&[Bug::VoteForShorterLog, Bug::AppendAnywhere]);
    are_found(&[
        Bug::CommitOlderTerms,
        Bug::HalfIsMajority,
        Bug::TwoChangesAtOnce,
    ]);
}

#[test]
fn commit_indexes_that_are_believed_too_far_are_found() {
    are_found(&[Bug::CommitUnmatched]);
}

#[test]
fn proposals_ordered_twice_and_stale_reads_are_found() {
    are_found(&[Bug::ResendWithoutDedup, Bug::LocalRead]);
    are_found(&[Bug::UnconfirmedRead, Bug::AgeFromAnswer]);
    are_found(&[Bug::AcceptStaleProposal, Bug::ResendAfterReset]);
}

#[test]
fn wrong_certification_is_found() {
    are_found(&[Bug::WindowOffByOne, Bug::NoCertificationRollback]);
    are_found(&[Bug::ColdCertification, Bug::NoEpoch]);
}

#[test]
fn wrong_delivery_is_found() {
    are_found(&[Bug::DeliverUncommitted, Bug::LeaveToTheDead]);
    are_found(&[Bug::MissingChunks]);
}

#[test]
fn databases_that_leave_out_what_was_not_fetched_are_found() {
    are_found(&[Bug::SkipUnfetched]);
}

#[test]
fn databases_that_leave_out_what_failed_are_found() {
    are_found(&[
        Bug::BelieveEngine,
        Bug::RecordUnsynced,
        Bug::ForgetUnflushed,
        Bug::ApplyTwice,
    ]);
}

#[test]
fn wrong_retention_is_found() {
    are_found(&[Bug::RetainUnflushed, Bug::RetainForOne, Bug::DropUnfinished]);
}

#[test]
fn databases_that_keep_lost_actions_are_found() {
    are_found(&[Bug::UndoApplied]);
}

#[test]
fn histories_that_are_mixed_up_are_found() {
    are_found(&[Bug::ForgetOtherHistory]);
}

#[test]
fn databases_that_join_without_proof_of_their_history_are_found() {
    are_found(&[Bug::TrustDatabase]);
}

#[test]
fn commits_that_do_not_wait_for_all_are_found() {
    are_found(&[Bug::WaitForOne]);
}

#[test]
fn writes_of_two_writers_are_found() {
    are_found(&[Bug::WriteElsewhere, Bug::WriteBeforeApplied]);
}

#[test]
fn commits_in_one_region_are_found() {
    are_found(&[Bug::ForgetRegions]);
}

#[test]
fn effects_of_a_stopped_driver_are_found() {
    are_found(&[Bug::TurnAfterStop]);
}

#[test]
fn strangers_that_are_listened_to_are_found() {
    are_found(&[Bug::StrangerMayVote, Bug::StrangerMayPropose]);
    are_found(&[Bug::HeardFromStrangers]);
}

#[test]
fn cut_damage_is_found() {
    are_found(&[Bug::CutDamage]);
}

#[test]
fn versions_that_a_member_does_not_speak_are_found() {
    are_found(&[Bug::RiseTooHigh, Bug::IgnoreVersion]);
}

#[test]
fn version_that_rises_though_an_operator_holds_it_is_found() {
    are_found(&[Bug::RiseThoughHeld]);
}

#[test]
fn damage_served_or_forgotten_is_found() {
    are_found(&OF_REPAIR);
}

/// The page must be able to show a loss.
#[test]
fn playground_names_the_rule_that_a_missing_sync_breaks() {
    for bug in [None, Some(Bug::AckBeforeSync)] {
        plant(bug);
        let mut group = Playground::new(1, 3);
        for order in ['w', 'p', 's'] {
            group.run(2_000_000);
            assert!(group.follow(order, 0));
        }
        let look = group.look();
        assert_eq!(look.broken.is_some(), bug.is_some(), "{bug:?}: {look:?}");
    }
    plant(None);
}

//! Proves the prover: bugs put in on purpose are found within a bounded number of seeds.

use synod_sim::{Planted, options_of, run};

/// A run long enough for all of these.
const SAFETY_US: u64 = 1_500_000;

/// The first seed up to `most` that breaks a rule.
fn first_found(bug: Planted, most: u64) -> Option<(u64, String)> {
    (1..=most).find_map(|seed| {
        let mut options = options_of(seed);
        options.safety_us = SAFETY_US;
        options.planted = Some(bug);
        let failed = run(seed, options, false).err()?;
        Some((seed, failed.rule))
    })
}

#[track_caller]
fn is_found(bug: Planted, most: u64) {
    let found = first_found(bug, most);
    println!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {most} seeds");
}

#[test]
fn promises_before_the_disk_are_found() {
    is_found(Planted::AckBeforeSync, 3);
    is_found(Planted::CountOwnDiskEarly, 3);
    is_found(Planted::SkipVote, 3);
    is_found(Planted::LoseTruncate, 40);
}

#[test]
fn ignored_failure_of_a_sync_is_found() {
    is_found(Planted::IgnoreFailedSync, 40);
}

#[test]
fn proposal_ordered_twice_is_found() {
    is_found(Planted::ResendWithoutDedup, 20);
}

#[test]
fn wrong_certification_is_found() {
    is_found(Planted::WindowOffByOne, 20);
    is_found(Planted::NoCertificationRollback, 40);
    is_found(Planted::ColdCertification, 40);
    is_found(Planted::NoEpoch, 20);
}

#[test]
fn premature_delivery_is_found() {
    is_found(Planted::DeliverUncommitted, 3);
}

#[test]
fn stale_read_is_found() {
    is_found(Planted::LocalRead, 20);
}

#[test]
#[ignore = "needs a hundred seeds of full length or so: run it with --release"]
fn lease_from_the_time_of_receipt_is_found() {
    let found = (1..=200).find(|seed| {
        let mut options = options_of(*seed);
        options.planted = Some(Planted::LeaseFromReceiveTime);
        run(*seed, options, false).is_err()
    });
    assert!(found.is_some());
}

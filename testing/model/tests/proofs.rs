//! The rules, as they are written, hold in every state within these bounds.

use synod_model::{Bounds, Group, Limits, Order, check};

/// Visits all states; returns how many there are.
fn prove(bounds: Bounds) -> usize {
    let group = Group::new(bounds, None).expect("sensible bounds");
    let outcome = check(group.with_symmetry(), Order::Depth, &Limits::default());
    assert!(outcome.is_proof(), "{bounds:?}: {outcome:#?}");
    outcome.states
}

#[test]
fn three_members_two_terms_one_change_one_crash() {
    let bounds = Bounds {
        terms: 2,
        entries: 1,
        changes: 1,
        crashes: 1,
        ..Bounds::default()
    };
    assert!(prove(bounds) > 100_000);
}

#[test]
fn three_members_three_terms() {
    let bounds = Bounds {
        terms: 3,
        entries: 1,
        ..Bounds::default()
    };
    assert!(prove(bounds) > 100_000);
}

#[test]
fn a_learner_becomes_a_voter() {
    let bounds = Bounds {
        servers: 3,
        voters: 2,
        terms: 2,
        entries: 1,
        changes: 1,
        crashes: 1,
        ..Bounds::default()
    };
    assert!(prove(bounds) > 10_000);
}

/// The running code: only leaders count.
#[test]
fn without_counting_origins() {
    let bounds = Bounds {
        terms: 2,
        entries: 1,
        changes: 1,
        crashes: 1,
        origin_counts: false,
        ..Bounds::default()
    };
    assert!(prove(bounds) > 100_000);
}

/// Nothing depends on the shortcut that what cannot be seen is synced at once.
#[test]
fn with_a_sync_for_every_write() {
    let bounds = Bounds {
        terms: 2,
        entries: 0,
        changes: 1,
        crashes: 1,
        every_sync: true,
        ..Bounds::default()
    };
    assert!(prove(bounds) > 200_000);
}

/// To rename members neither hides nor invents anything.
#[test]
fn symmetry_leaves_the_verdict_as_it_is() {
    let bounds = Bounds {
        terms: 2,
        entries: 0,
        changes: 1,
        ..Bounds::default()
    };
    let group = Group::new(bounds, None).expect("sensible bounds");
    let all = check(group.clone(), Order::Depth, &Limits::default());
    assert!(all.is_proof(), "{all:#?}");
    let few = prove(bounds);
    assert!(few < all.states && all.states <= 6 * few);
}

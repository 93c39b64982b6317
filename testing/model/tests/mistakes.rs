//! With a rule broken, the checker must find what that leads to. A checker that finds nothing wrong
//! with these would prove nothing about the right rules.

use synod_model::{Bounds, Group, Limits, Mistake, Order, check};

const LEADERS: Bounds = Bounds {
    servers: 3,
    voters: 3,
    terms: 2,
    entries: 0,
    changes: 0,
    crashes: 0,
    origin_counts: false,
    every_sync: false,
};
const ORIGINS: Bounds = Bounds {
    origin_counts: true,
    ..LEADERS
};

const COMMITTED: &str = "committed is never lost";
const ACKNOWLEDGED: &str = "acknowledged by an origin is never lost";

/// The violation is found, by the shortest way there is.
fn expect(mistake: Mistake, bounds: Bounds, property: &'static str) {
    let limits = Limits {
        steps_max: Some(5_000_000),
        until: Some(property),
        ..Limits::default()
    };
    let group = Group::new(bounds, Some(mistake)).expect("sensible bounds");
    let outcome = check(group.with_symmetry(), Order::Breadth, &limits);
    let Some(way) = outcome.violated.get(property) else {
        let found: Vec<_> = outcome.violated.keys().collect();
        let states = outcome.states;
        panic!("{mistake:?} does not violate '{property}' in {states} states, but {found:?}");
    };
    // For the table in the document; shown with `--nocapture`.
    let steps = way.iter().filter(|(_, step)| step.is_some()).count();
    println!(
        "{mistake:?}: '{property}' after {steps} steps, {} states",
        outcome.states
    );
}

#[test]
fn own_disk_counted_before_its_sync() {
    let bounds = Bounds {
        crashes: 1,
        ..LEADERS
    };
    expect(Mistake::CountOwnDiskEarly, bounds, COMMITTED);
}

#[test]
fn acknowledgement_before_the_sync() {
    let bounds = Bounds {
        crashes: 1,
        ..LEADERS
    };
    expect(Mistake::AckBeforeSync, bounds, COMMITTED);
}

#[test]
fn forgotten_vote() {
    let bounds = Bounds {
        crashes: 1,
        ..LEADERS
    };
    expect(Mistake::ForgetVote, bounds, "one leader per term");
}

#[test]
fn vote_for_a_log_that_lacks_entries() {
    expect(Mistake::VoteForAnyLog, LEADERS, COMMITTED);
}

#[test]
fn older_terms_committed_by_counting() {
    let bounds = Bounds {
        terms: 4,
        ..LEADERS
    };
    expect(Mistake::CommitOlderTerms, bounds, COMMITTED);
}

#[test]
fn configuration_used_only_when_committed() {
    let bounds = Bounds {
        entries: 1,
        changes: 2,
        ..LEADERS
    };
    expect(Mistake::ConfigWhenCommitted, bounds, COMMITTED);
}

#[test]
fn two_changes_at_once() {
    let bounds = Bounds {
        changes: 2,
        ..LEADERS
    };
    expect(Mistake::TwoChangesAtOnce, bounds, COMMITTED);
    expect(Mistake::TwoChangesAtOnce, bounds, "no two disjoint quorums");
}

#[test]
fn change_before_the_leader_has_committed() {
    let bounds = Bounds {
        servers: 4,
        voters: 4,
        terms: 3,
        changes: 2,
        ..LEADERS
    };
    expect(
        Mistake::ChangeBeforeOwnCommit,
        bounds,
        "no two disjoint quorums",
    );
}

#[test]
fn origin_counts_across_terms() {
    let bounds = Bounds {
        terms: 3,
        ..ORIGINS
    };
    expect(Mistake::OriginAcrossTerms, bounds, ACKNOWLEDGED);
}

#[test]
fn origin_counts_entries_of_older_terms() {
    let bounds = Bounds {
        terms: 4,
        ..ORIGINS
    };
    expect(Mistake::OriginOlderTerms, bounds, ACKNOWLEDGED);
}

#[test]
fn origin_takes_the_leaders_disk_for_granted() {
    let bounds = Bounds {
        crashes: 1,
        ..ORIGINS
    };
    expect(Mistake::OriginTrustsLeader, bounds, ACKNOWLEDGED);
}

#[test]
fn reads_by_the_commit_index_although_origins_count() {
    let property = "reads see what was acknowledged";
    let bounds = Bounds {
        terms: 1,
        entries: 1,
        ..ORIGINS
    };
    expect(Mistake::ReadAtCommit, bounds, property);
}

/// The bounds are not what makes the mistakes fail: with the right rules nothing is violated in
/// them.
#[test]
fn none_of_it_without_the_mistake() {
    let crash = Bounds {
        crashes: 1,
        ..LEADERS
    };
    let changes = Bounds {
        changes: 2,
        ..LEADERS
    };
    let terms = Bounds {
        terms: 3,
        ..ORIGINS
    };
    for bounds in [crash, changes, terms] {
        let group = Group::new(bounds, None).expect("sensible bounds");
        let outcome = check(group.with_symmetry(), Order::Depth, &Limits::default());
        assert!(outcome.exhausted, "{bounds:?}: {outcome:#?}");
    }
}

//! Commits in several regions: they wait for a region, or for a time only, and a new leader keeps
//! to that.

mod harness;

use harness::{MS, Options, SECOND, Sim, id};
use synod_consensus::{CommitRegions, ConfigChange, GroupSetting, LogIndex, MemberId, RegionWait};

/// Members 1 and 2 are in one region, 3 in another one; 1 leads.
fn group(seed: u64) -> Sim {
    let mut sim = Sim::group(seed, 3, Options::default());
    let two = GroupSetting::CommitRegions(CommitRegions::new(2).expect("a number"));
    sim.change(id(1), ConfigChange::Set(two));
    place(&mut sim);
    sim.expect("level logs", 10 * SECOND, Sim::is_level);
    sim
}

fn place(sim: &mut Sim) {
    for node in sim.up() {
        let places = [(id(1), Some(0)), (id(2), Some(0)), (id(3), Some(1))];
        sim.with(node, |core, now| core.set_regions(now, places.into()));
    }
}

fn commit(sim: &Sim, node: MemberId) -> LogIndex {
    sim.core(node).commit_index()
}

#[test]
fn commits_wait_for_the_other_region_and_no_longer_than_the_leader_is_patient() {
    let mut sim = group(7);
    assert_eq!(sim.core(id(1)).regions_needed(), 2);
    assert!(sim.core(id(1)).holds_region(id(3)) && !sim.core(id(1)).holds_region(id(2)));
    let before = commit(&sim, id(1));
    sim.crash(id(3));
    sim.submit(id(1));
    sim.run_for(20 * SECOND);
    assert_eq!(sim.ready_leader(), Some(id(1)), "it hears a majority");
    assert_eq!([1, 2].map(|n| commit(&sim, id(n))), [before; 2]);
    let wait = sim.core(id(1)).region_wait();
    assert!(matches!(wait, RegionWait::Waiting { .. }), "{wait:?}");

    sim.with(id(1), |core, _| core.set_region_patience(Some(SECOND)));
    sim.expect("commits without the region", SECOND, |sim| {
        commit(sim, id(2)) > before
    });
    let wait = sim.core(id(1)).region_wait();
    assert!(matches!(wait, RegionWait::GivenUp { .. }), "{wait:?}");

    sim.start(id(3));
    sim.expect("the region is back", 10 * SECOND, |sim| {
        sim.is_level() && sim.core(id(1)).region_wait() == RegionWait::None
    });
    sim.crash(id(3));
    let before = commit(&sim, id(1));
    sim.submit(id(1));
    sim.run_for(500 * MS);
    assert_eq!(commit(&sim, id(1)), before, "it is waited for again");
}

#[test]
fn new_leader_commits_nothing_before_another_region_has_it() {
    let mut sim = group(8);
    let before = commit(&sim, id(2));
    sim.crash(id(3));
    sim.submit(id(1));
    sim.run_for(SECOND);
    sim.crash(id(1));
    sim.start(id(1));
    place(&mut sim);
    sim.run_for(20 * SECOND);
    assert!(sim.leader().is_some_and(|leader| leader != id(3)));
    assert_eq!(sim.ready_leader(), None);
    assert_eq!(commit(&sim, id(2)), before);
    sim.start(id(3));
    sim.expect("the region is back", 20 * SECOND, |sim| {
        commit(sim, id(2)) > before && sim.is_level()
    });
}

#[test]
fn setting_that_is_taken_back_releases_what_waits() {
    let mut sim = group(9);
    let before = commit(&sim, id(1));
    sim.crash(id(3));
    sim.submit(id(1));
    sim.run_for(SECOND);
    assert_eq!(commit(&sim, id(1)), before);
    let one = GroupSetting::CommitRegions(CommitRegions::default());
    sim.change(id(1), ConfigChange::Set(one));
    sim.expect("commits", 2 * SECOND, |sim| commit(sim, id(2)) > before);
}

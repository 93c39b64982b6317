//! Links: each member knows how far away the others are, and what their clocks show.

use std::time::Duration;

use crate::support::{Group, eventually};

#[test]
fn each_member_measures_the_link_to_each_other() {
    let group = Group::of(3, "links");
    for member in &group.members {
        let (own, _) = member.node().identity();
        let mut others: Vec<_> = group.members.iter().collect();
        others.retain(|other| other.node().identity().0 != own);
        eventually("round trips and clocks", || {
            let links = member.node().links();
            let measured = |id| {
                let mut found = links.iter().filter(|link| link.member == id);
                let link = found.next()?;
                Some((link.round_trip?, link.clock?))
            };
            others
                .iter()
                .all(|other| measured(other.node().identity().0).is_some())
        });
        for link in member.node().links() {
            // All of them have the clock of this machine.
            let clock = link.clock.unwrap();
            assert!(
                clock.ahead_us.unsigned_abs() <= clock.error_us + 2,
                "{link:?}"
            );
        }
    }
}

#[test]
fn round_trip_of_a_member_that_is_gone_is_not_shown_for_long() {
    let mut group = Group::of(3, "link-gone");
    let (gone, asked) = (group.follower(), group.leader());
    let id = group.members[gone].node().identity().0;
    let round_trip = |group: &Group| -> Option<Duration> {
        let links = group.members[asked].node().links();
        let mut found = links.into_iter().filter(|link| link.member == id);
        found.next()?.round_trip
    };
    eventually("a round trip", || round_trip(&group).is_some());
    group.members[gone].stop();
    eventually("it is forgotten", || round_trip(&group).is_none());
}

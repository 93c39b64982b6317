//! Members that should rather lead than others.

use synod_node::{DataState, LeaderPreference, LeaderWeight, LiveSetting};

use crate::support::{Group, Member, eventually, seqno_of};

fn prefer(member: &Member, weight: u8, hands_over: bool) {
    let weight = LeaderWeight::new(weight).unwrap();
    member
        .node()
        .set(LiveSetting::LeaderPreference(LeaderPreference {
            weight,
            hands_over,
        }));
}

/// Waits until this member leads; a client of the group gets on with its work meanwhile.
fn work_until_it_leads(group: &Group, at: usize, worker: usize) {
    let mut number = 0;
    eventually("the heavier one leads", || {
        seqno_of(group.members[worker].order("k", format!("{at}-{number}")));
        number += 1;
        group.members[at].is_leader()
    });
}

#[test]
fn leader_hands_over_to_a_member_whose_weight_is_raised_while_clients_work() {
    let group = Group::of(3, "weights");
    for member in &group.members {
        member.wait_voter();
        prefer(member, 50, true);
    }
    let (first, next) = (group.leader(), group.follower());
    prefer(&group.members[next], 51, true);
    work_until_it_leads(&group, next, first);
    let name = &group.members[next].config.name;
    let line = format!("handing leadership over to {name}");
    assert!(group.members[first].host.lock().says(&line));
    let weight = group.members[next].node().status().leader_weight;
    assert_eq!(weight.get(), 51);
    group.check_same_history();
}

#[test]
fn every_member_knows_the_weights_of_members_that_are_fit_to_lead() {
    let group = Group::of(3, "known");
    let some = group.follower();
    let id = group.members[some].node().status().member;
    let wait_known = |known: Option<u8>| {
        for member in group.members.iter() {
            if member.node().status().member == id {
                continue;
            }
            eventually("every member knows", || {
                let status = member.node().status();
                let at = status.members.iter().find(|m| m.member == id);
                at.is_some_and(|m| m.leader_weight.map(LeaderWeight::get) == known)
            });
        }
    };
    wait_known(Some(50));
    prefer(&group.members[some], 80, false);
    wait_known(Some(80));
    group.members[some].node().set_data_state(DataState::Donor);
    wait_known(None);
    group.members[some].node().set_data_state(DataState::Synced);
    wait_known(Some(80));
}

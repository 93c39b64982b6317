//! Settings that are the group's: who sets them, and how long that takes.

use std::time::{Duration, Instant};

use synod_admin::Client;
use synod_admin::protocol::{Answer, Request};
use wsrep_sys::*;

use crate::server::{LIMIT, Server};
use crate::two_members::{pair, pair_with};

/// The command `synod weight MEMBER WEIGHT`, given at `server`.
fn weigh(server: &Server, member: &str, weight: u8) {
    let member = member.to_owned();
    let mut client = Client::connect(&server.dir).unwrap();
    let answer = client.ask(Request::SetWeight { member, weight }, LIMIT);
    assert!(matches!(answer, Ok(Answer::Done(_))), "{answer:?}");
}

#[test]
fn saved_list_does_not_take_back_what_another_server_has_set() {
    let (one, two) = pair_with("synod.leader_weight=20");
    let saved = two.options();
    assert!(saved.contains("synod.writers = any; "), "{saved}");
    assert_eq!(one.set_options("synod.writers=leader"), WSREP_OK);
    assert_eq!(two.set_options("synod.leader_weight=70"), WSREP_OK);
    two.wait_status("synod_writers", "leader");
    two.wait_status("synod_leader_weight", "70");

    assert_eq!(two.set_options(&saved), WSREP_OK);
    two.inner.wait_logged("synod.writers=any is ignored");
    two.inner.wait_logged("synod.leader_weight=20 is ignored");
    let shown = two.options();
    assert!(shown.contains("synod.writers = leader; "), "{shown}");
    assert!(shown.contains("synod.leader_weight = 70; "), "{shown}");
    // What an order by that list would have changed is ordered after it.
    assert_eq!(two.set_options("synod.writers=leader"), WSREP_OK);
    assert_eq!(one.status("synod_writers"), "leader");

    assert_eq!(two.set_options("synod.writers=any"), WSREP_OK);
    one.wait_status("synod_writers", "any");
}

#[test]
fn weight_that_a_command_has_set_stays_until_the_server_ends_or_a_person_names_another() {
    let (one, two) = pair(1);
    weigh(&one, "n2", 0);
    two.wait_status("synod_leader_weight", "0");
    let saved = two.options();
    for list in [&*saved, "synod.leader_handover=yes"] {
        assert_eq!(two.set_options(list), WSREP_OK);
        // A later order of the same server: that list has taken effect.
        weigh(&two, "n1", 60);
        assert_eq!(two.status("synod_leader_weight"), "0", "{list}");
    }
    for (set_meanwhile, shown) in [(None, "0"), (Some("synod.leader_weight=70"), "70")] {
        assert_eq!(two.disconnect(), WSREP_OK);
        if let Some(list) = set_meanwhile {
            assert_eq!(two.set_options(list), WSREP_OK);
        }
        assert_eq!(two.connect(&one.address(), false), WSREP_OK);
        two.wait_status("synod_leader_weight", shown);
        weigh(&two, "n1", 60);
        assert_eq!(two.status("synod_leader_weight"), shown);
    }
}

#[test]
fn setting_that_the_group_does_not_make_holds_no_client_up_and_changes_nothing() {
    let (one, two) = pair(1);
    assert_eq!(two.set_options("gmcast.isolate=1"), WSREP_OK);
    two.wait_status("local_state_comment", "Initialized");
    let begun = Instant::now();
    let list = "evs.suspect_timeout=PT9S; synod.writers=leader";
    assert_eq!(one.set_options(list), WSREP_NODE_FAIL);
    // The server holds a lock meanwhile that every new connection needs.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    one.inner.wait_logged("the group has not agreed yet");
    let shown = one.options();
    assert!(shown.contains("evs.suspect_timeout = PT1.5S; "), "{shown}");
    // The group is asked on, and agrees when it can.
    assert_eq!(two.set_options("gmcast.isolate=0"), WSREP_OK);
    two.wait_status("synod_writers", "leader");
}

#[test]
fn desynced_server_is_desynced_after_a_loss_of_its_group() {
    let (one, two) = pair(1);
    assert_eq!(two.simple(|t| t.desync.unwrap()), WSREP_OK);
    two.wait_status("local_state_comment", "Donor/Desynced");
    assert_eq!(two.set_options("gmcast.isolate=1"), WSREP_OK);
    two.wait_status("local_state_comment", "Initialized");
    assert_eq!(two.set_options("gmcast.isolate=0"), WSREP_OK);
    two.wait_status("local_state_comment", "Donor/Desynced");
    assert_eq!(two.status("desync_count"), "1");
    one.write("a");
    two.wait_applied("a");
    assert_eq!(two.status("local_state_comment"), "Donor/Desynced");
    assert_eq!(two.simple(|t| t.resync.unwrap()), WSREP_OK);
    two.wait_status("local_state_comment", "Synced");
}

#[test]
fn desync_of_a_pause_ends_with_it_where_the_group_was_lost_meanwhile() {
    let (one, two) = pair(1);
    assert_eq!(two.simple(|t| t.desync.unwrap()), WSREP_OK);
    two.pause();
    assert_eq!(two.set_options("gmcast.isolate=1"), WSREP_OK);
    two.wait_status("local_state_comment", "Initialized");
    assert_eq!(two.set_options("gmcast.isolate=0"), WSREP_OK);
    // The server cannot be shown that the group is back: it does not take the desync back.
    assert_eq!(two.simple(|t| t.resume.unwrap()), WSREP_OK);
    two.wait_status("local_state_comment", "Synced");
    assert_eq!(two.status("desync_count"), "0");
    one.write("a");
    two.wait_applied("a");
}

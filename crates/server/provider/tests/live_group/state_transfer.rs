//! Ways into a group: from the own log, from the group's log, by a full copy; and how they fail.

use std::thread;

use wsrep_sys::*;

use crate::server::*;

fn position(server: &Server, seqno: i64) -> wsrep_gtid_t {
    wsrep_gtid_t {
        seqno,
        ..server.inner.last_committed()
    }
}

/// Waits until `donor` gives a copy; the seqno it must contain.
fn wait_donates(donor: &Server) -> i64 {
    donor.inner.until("donation", |seen| {
        seen.iter().any(|s| matches!(s, Seen::Donates { .. }))
    });
    let seen = donor.inner.seen();
    let found = seen.iter().find_map(|s| match s {
        Seen::Donates { to, seqno } => {
            assert_eq!(to, "fake\0here\0", "unchanged from host to host");
            Some(*seqno)
        }
        _ => None,
    });
    found.unwrap()
}

fn joiner(donor: &Server) -> Server {
    joiner_with(donor, "")
}

/// A joiner that ends if its copy fails: another start in the same process would end the tests.
fn joiner_without_restarts(donor: &Server) -> Server {
    joiner_with(donor, "synod.restart_on_failure=no")
}

fn joiner_with(donor: &Server, options: &str) -> Server {
    let joiner = Server::new("n2");
    assert_eq!(joiner.set_options(options), WSREP_OK);
    assert_eq!(joiner.connect(&donor.address(), false), WSREP_OK);
    joiner.add_applier();
    joiner
        .inner
        .until("request", |seen| seen.contains(&Seen::RequestedCopy));
    joiner
}

/// The library ends the joiner's script once it knows that the copy has failed, and the server
/// reports that, by a thread that waits for the script.
fn script_is_ended(joiner: &Server) {
    joiner.inner.wait_logged("the full copy (SST) has failed");
    let inner = joiner.inner;
    thread::spawn(|| inner.copy_received(UNDEFINED, -32));
}

#[test]
fn server_restarted_after_a_clean_stop_goes_on_where_it_was() {
    let server = Server::bootstrapped("n1", 1);
    let last = server.write("a");
    let url = server.address();
    let (dir, port) = server.stop();
    let server = Server::with("n1", &dir, port, UNDEFINED, "");
    assert_eq!(server.connect(&url, false), WSREP_OK);
    server.add_applier();
    server.wait_synced(1);
    let seen = server.inner.seen();
    let Seen::View {
        seqno,
        committed_inside,
        ..
    } = seen[1]
    else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (seqno, committed_inside),
        (last + 1, last),
        "no view but the group's own"
    );
    assert_eq!(server.applied(), Vec::<String>::new());
}

#[test]
fn what_the_engine_has_lost_comes_from_the_own_log() {
    let server = Server::bootstrapped("n1", 1);
    for row in ["a", "b", "c"] {
        server.write(row);
    }
    let start = position(&server, 2);
    let url = server.address();
    let (dir, port) = server.stop();
    let server = Server::with("n1", &dir, port, start, "");
    assert_eq!(server.connect(&url, false), WSREP_OK);
    server.add_applier();
    server.wait_synced(1);
    let seen = server.inner.seen();
    let Seen::View {
        status: WSREP_VIEW_PRIMARY,
        seqno: 2,
        members,
        committed_inside: 2,
        ..
    } = seen[1]
    else {
        panic!("starts the engines at their own position: {seen:?}");
    };
    assert_eq!(
        members, 3,
        "this session, the one before, and one that never was"
    );
    assert_eq!(server.applied(), ["b", "c"]);
}

/// The group's decision comes after the statement, and after the copy's position.
#[test]
fn copy_that_ends_with_what_failed_everywhere_is_kept() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner(&one);
    wait_donates(&one);
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end_failed(5), WSREP_OK);
    let seqno = meta.gtid.seqno;
    one.copy_sent(position(&one, seqno), 0);
    two.copy_received(position(&one, seqno), 0);
    two.wait_synced(1);
    one.write("after");
    two.wait_applied("after");
    assert_eq!(two.status("local_state_comment"), "Synced");
}

#[test]
fn copy_that_contains_the_joiners_view_is_not_shown_it_again() {
    let one = Server::bootstrapped("n1", 1);
    one.write("a");
    let two = joiner(&one);
    let after = wait_donates(&one);
    two.inner.until("its mark for Galera's tools", |_| {
        let saved = two.grastate();
        saved.is_some_and(|(group, seqno)| group.starts_with("00000000-") && seqno == "-1")
    });
    let record = std::fs::read_to_string(two.dir.join("synod-database.log")).unwrap();
    assert!(
        record.contains("\ncopying\n"),
        "half a copy is not believed: {record}"
    );
    assert_eq!(one.status("local_state_comment"), "Donor/Desynced");
    assert_eq!(
        two.status("local_state_comment"),
        "Joining: receiving State Transfer"
    );
    one.write("during");
    one.copy_sent(position(&one, after), 0);
    one.wait_synced(2);
    two.copy_received(position(&one, after), 0);
    two.wait_synced(1);
    two.wait_applied("during");
    one.write("after");
    two.wait_applied("after");
    assert_eq!(two.applied(), ["during", "after"]);
    let views = two
        .inner
        .seen()
        .iter()
        .filter(|s| matches!(s, Seen::View { .. }))
        .count();
    assert_eq!(views, 0);
    assert_eq!(two.grastate().unwrap().0, one.status("local_state_uuid"));
    assert_eq!(two.write("mine"), after + 3);
    one.wait_applied("mine");
}

/// The donor of a mysqldump resumes once all is sent, and the joiner has the copy.
#[test]
fn joiner_hears_of_its_donor_before_the_copy_is_over() {
    let one = Server::bootstrapped("n1", 1);
    one.donate_slowly(true);
    let two = joiner(&one);
    let after = wait_donates(&one);
    two.inner.wait_logged("gives this member a copy");
    one.donate_slowly(false);
    one.copy_sent(position(&one, after), 0);
    two.copy_received(position(&one, after), 0);
    two.wait_synced(1);
    one.wait_synced(2);
}

#[test]
fn copy_may_be_newer_than_asked_for() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner(&one);
    wait_donates(&one);
    let contained = one.write("contained");
    one.write("missing");
    one.copy_sent(position(&one, contained), 0);
    two.copy_received(position(&one, contained), 0);
    two.wait_applied("missing");
    assert_eq!(two.applied(), ["missing"]);
}

#[test]
fn joiner_gives_up_when_the_donor_fails() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner_without_restarts(&one);
    wait_donates(&one);
    one.copy_sent(UNDEFINED, -255);
    script_is_ended(&two);
    two.join_appliers();
    two.inner.wait_logged("the donor failed with code -255");
    assert_eq!(two.final_views(), 1);
    one.wait_synced(2);
    assert_eq!(two.disconnect(), WSREP_OK);
}

#[test]
fn joiner_gives_up_when_its_own_script_fails() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner_without_restarts(&one);
    wait_donates(&one);
    two.copy_received(UNDEFINED, -32);
    two.join_appliers();
    two.inner.wait_logged("the copy failed here with code -32");
    assert_eq!(two.final_views(), 1);
}

/// The server that these tests play has no program that could be started again: it stays as it is.
#[test]
fn joiner_whose_copy_failed_tries_again_and_does_not_tell_the_server() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner(&one);
    wait_donates(&one);
    let inner = two.inner;
    thread::scope(|scope| {
        let script = scope.spawn(|| inner.copy_received(UNDEFINED, -32));
        two.inner
            .wait_logged("this server takes another full copy by itself");
        two.inner
            .wait_logged("this server cannot start itself again");
        assert!(!script.is_finished(), "the server would end");
        assert_eq!(two.final_views(), 0);
        // As an order to end does.
        assert_eq!(two.disconnect(), WSREP_OK);
        two.join_appliers();
        script.join().unwrap();
    });
    assert_eq!(two.final_views(), 1);
}

/// A log's disk that becomes full during a long copy.
#[test]
fn joiner_whose_log_fails_during_the_copy_takes_another_one() {
    let one = Server::bootstrapped("n1", 1);
    let dir = new_dir();
    let log_dir = dir.join("log");
    std::fs::create_dir_all(&log_dir).unwrap();
    let options = format!(
        "synod.log_dir={}; synod.log_segment_size=1M",
        log_dir.display()
    );
    let two = Server::with("n2", &dir, free_port(), UNDEFINED, &options);
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    wait_donates(&one);
    // A new segment finds no directory.
    std::fs::rename(&log_dir, dir.join("gone")).unwrap();
    let row: &'static str = "x".repeat(1 << 19).leak();
    for _ in 0..8 {
        one.write(row);
    }
    script_is_ended(&two);
    let again = "this server takes another full copy by itself";
    two.inner.wait_logged(again);
    assert_eq!(two.final_views(), 0, "the server would end");
    assert_eq!(two.disconnect(), WSREP_OK);
    two.join_appliers();
}

#[test]
fn copy_of_another_history_is_refused() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner_without_restarts(&one);
    wait_donates(&one);
    two.copy_received(
        wsrep_gtid_t {
            uuid: wsrep_uuid_t { data: [9; 16] },
            seqno: 5,
        },
        0,
    );
    two.join_appliers();
    two.inner.wait_logged("is no position of the group");
}

#[test]
fn joiner_gives_up_when_the_donor_is_gone() {
    let one = Server::bootstrapped("n1", 1);
    let donor = Server::new("donor");
    donor.set_copy_request(b"trivial\0\0");
    assert_eq!(donor.connect(&one.address(), false), WSREP_OK);
    donor.add_applier();
    donor.wait_synced(1);
    let joiner = joiner_without_restarts(&one);
    // Not the leader, if there is a choice.
    wait_donates(&donor);
    donor.disconnect();
    script_is_ended(&joiner);
    joiner.join_appliers();
    joiner.inner.wait_logged("the donor has left");
    assert_eq!(joiner.final_views(), 1);
}

#[test]
fn server_may_leave_during_a_full_copy() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner(&one);
    wait_donates(&one);
    assert_eq!(two.disconnect(), WSREP_OK);
    two.join_appliers();
    assert_eq!(two.final_views(), 1);
    assert!(
        !two.inner
            .log_lines()
            .iter()
            .any(|(level, _)| *level <= WSREP_LOG_ERROR)
    );
    let record = std::fs::read_to_string(two.dir.join("synod-database.log")).unwrap();
    assert!(record.contains("\ncopying\n"), "{record}");
    one.copy_sent(UNDEFINED, -32);
    one.wait_synced(2);
    one.write("continues");
}

#[test]
fn donor_takes_one_joiner_at_a_time() {
    let one = Server::bootstrapped("n1", 1);
    let two = joiner(&one);
    let after = wait_donates(&one);
    let three = Server::new("n3");
    assert_eq!(three.connect(&one.address(), false), WSREP_OK);
    three.add_applier();
    three.inner.wait_logged("waiting for a donor");
    one.copy_sent(position(&one, after), 0);
    two.copy_received(position(&one, after), 0);
    two.wait_synced(1);
    let donations = |seen: &[Seen]| {
        seen.iter()
            .filter(|s| matches!(s, Seen::Donates { .. }))
            .count()
    };
    let deadline = std::time::Instant::now() + LIMIT;
    while donations(&one.inner.seen()) + donations(&two.inner.seen()) < 2 {
        assert!(
            std::time::Instant::now() < deadline,
            "no donor gives the second copy"
        );
        thread::yield_now();
    }
    let donor = if donations(&one.inner.seen()) == 2 {
        &one
    } else {
        &two
    };
    let at = one.inner.last_committed();
    donor.copy_sent(at, 0);
    three.copy_received(at, 0);
    three.wait_synced(1);
}

/// A server that was not emptied when its group was restored from a backup.
#[test]
fn data_of_another_group_are_refused_by_name_and_not_replaced() {
    let one = Server::bootstrapped("n1", 1);
    let (dir, port) = Server::new("n2").stop();
    let former = wsrep_gtid_t {
        uuid: wsrep_uuid_t { data: [9; 16] },
        seqno: 2,
    };
    let two = Server::with("n2", &dir, port, former, "");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.join_appliers();
    let group = "09090909-0909-0909-0909-090909090909, at 2";
    two.inner.wait_logged(&format!("belong to group {group}"));
    assert!(!two.inner.seen().contains(&Seen::RequestedCopy));
}

/// After a restore from a backup, only the engine has the position.
#[test]
fn group_begun_on_a_copy_has_an_id_of_its_own() {
    let (dir, port) = Server::new("n1").stop();
    let former = wsrep_gtid_t {
        uuid: wsrep_uuid_t { data: [9; 16] },
        seqno: 40,
    };
    let one = Server::with("n1", &dir, port, former, "");
    assert_eq!(one.connect(&one.address(), true), WSREP_OK);
    one.add_applier();
    one.wait_synced(1);
    let last = one.inner.last_committed();
    assert_ne!(last.uuid.data, former.uuid.data);
    assert!(last.seqno < 40, "{}", last.seqno);
}

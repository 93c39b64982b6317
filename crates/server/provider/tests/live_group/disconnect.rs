//! Ends of connections.

use std::thread::{self, JoinHandle};

use wsrep_sys::*;

use crate::server::*;

fn recv_results(server: &Server) -> Vec<wsrep_status_t> {
    let seen = server.inner.seen();
    let ended = seen.iter().filter_map(|s| match s {
        Seen::RecvEnded(status) => Some(*status),
        _ => None,
    });
    let mut results: Vec<wsrep_status_t> = ended.collect();
    results.sort_unstable();
    results
}

/// Waits until nothing new is taken. What was taken meanwhile is left to the appliers.
fn wait_refusal(inner: &'static Inner) {
    inner.until("refusal", |_| {
        let mut trx = inner.begin("late");
        let status = trx.certify();
        trx.release();
        status == WSREP_CONN_FAIL
    });
}

/// Disconnects on a thread of its own; waits until nothing new is taken.
fn disconnect_aside(inner: &'static Inner) -> JoinHandle<wsrep_status_t> {
    let disconnecting = thread::spawn(move || {
        // SAFETY: a table.
        unsafe {
            let t: *const wsrep_t = inner.t();
            (*t).disconnect.unwrap()(t.cast_mut())
        }
    });
    wait_refusal(inner);
    disconnecting
}

#[test]
fn disconnect_shows_the_final_view_once_and_lets_all_appliers_go() {
    let server = Server::bootstrapped("n1", 3);
    assert_eq!(server.disconnect(), WSREP_OK);
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
    assert_eq!(
        recv_results(&server),
        [WSREP_OK, WSREP_CONN_FAIL, WSREP_CONN_FAIL]
    );
    assert_eq!(server.status("local_state_comment"), "Initialized");
    assert_eq!(server.disconnect(), WSREP_OK, "again");
    server.add_applier();
    server.join_appliers();
    assert_eq!(
        server.final_views(),
        1,
        "a late applier finds everything done"
    );
}

#[test]
fn disconnected_server_refuses_transactions() {
    let server = Server::bootstrapped("n1", 1);
    let mut open = server.begin("a");
    server.disconnect();
    assert_eq!(open.certify(), WSREP_CONN_FAIL);
    open.release();
    assert_eq!(server.inner.execute_start(1, "db").0, WSREP_CONN_FAIL);
    assert_eq!(server.inner.sync_wait(None, 1).0, WSREP_TRX_FAIL);
    assert_eq!(server.pause(), -1);
}

#[test]
fn disconnect_without_an_applier_does_not_wait_for_one() {
    let server = Server::new("n1");
    assert_eq!(server.connect("gcomm://", true), WSREP_OK);
    assert_eq!(server.disconnect(), WSREP_OK);
    assert_eq!(server.final_views(), 0);
    server.add_applier();
    server.join_appliers();
    assert_eq!(server.final_views(), 1, "the server waits for it");
    assert_eq!(server.grastate(), None, "nothing has changed");
}

#[test]
fn free_without_disconnect_stops_everything() {
    let server = Server::bootstrapped("n1", 2);
    server.free();
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
}

#[test]
fn second_connection_has_a_new_name_and_the_same_state() {
    let server = Server::bootstrapped("n1", 2);
    let last = server.write("a");
    assert_eq!(server.disconnect(), WSREP_OK);
    server.join_appliers();
    assert_eq!(server.connect(&server.address(), false), WSREP_OK);
    server.add_applier();
    server.add_applier();
    server.wait_synced(2);
    let connected: Vec<_> = server
        .inner
        .seen()
        .into_iter()
        .filter_map(|s| match s {
            Seen::Connected { me, group, .. } => Some((me, group)),
            _ => None,
        })
        .collect();
    let [(first, group), (second, same_group)] = connected[..] else {
        panic!("{connected:?}")
    };
    assert_ne!(first, second);
    assert_eq!(group, same_group);
    assert_eq!(
        server.applied(),
        Vec::<String>::new(),
        "what is there is not applied again"
    );
    assert_eq!(server.write("b"), last + 2, "the view has a place, too");
}

#[test]
fn transaction_of_an_earlier_connection_cannot_disturb_the_next() {
    let server = Server::bootstrapped("n1", 2);
    let mut old = server.begin("old");
    assert_eq!((old.certify(), old.enter(), old.leave()), (0, 0, 0));
    let mut executing = server.begin("executing");
    // There is no need to wait for the whole limit: it is freed below.
    let disconnecting = disconnect_aside(server.inner);
    old.release();
    assert_eq!(disconnecting.join().unwrap(), WSREP_OK);
    server.join_appliers();
    assert_eq!(server.connect(&server.address(), false), WSREP_OK);
    server.add_applier();
    server.wait_synced(2);
    assert_eq!(
        (executing.certify(), executing.enter(), executing.leave()),
        (0, 0, 0)
    );
    executing.release();
    old.release();
    assert_eq!(server.final_views(), 1);
}

#[test]
fn what_clients_have_in_the_order_is_finished_before_the_end() {
    let server = Server::bootstrapped("n1", 1);
    let mut first = server.begin("a");
    let mut second = server.begin("b");
    assert_eq!((first.certify(), second.certify()), (WSREP_OK, WSREP_OK));
    let disconnecting = disconnect_aside(server.inner);
    for trx in [&mut first, &mut second] {
        assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
        trx.release();
    }
    assert_eq!(disconnecting.join().unwrap(), WSREP_OK);
    synod::boundary::run_exit_tasks();
    let saved: i64 = server.grastate().unwrap().1.parse().unwrap();
    assert!(saved >= second.seqno(), "stopped at {saved}");
    assert_eq!(saved, server.inner.last_committed().seqno);
}

#[test]
fn last_but_one_applier_goes_when_the_server_wants_fewer() {
    let one = Server::bootstrapped("n1", 1);
    let two = Server::new("n2");
    two.set_copy_request(b"trivial\0\0");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.add_applier();
    two.wait_synced(1);
    two.on_apply(|_| Verdict::CommitAndExit);
    one.write("a");
    two.inner.until("one applier gone", |seen| {
        seen.contains(&Seen::RecvEnded(WSREP_OK))
    });
    two.on_apply(|_| Verdict::Commit);
    one.write("b");
    two.wait_applied("b");
    assert_eq!(two.final_views(), 0);
    assert_eq!(two.disconnect(), WSREP_OK);
    assert_eq!(two.final_views(), 1);
}

#[test]
fn broken_log_takes_the_member_out_but_not_the_server_down() {
    let server = Server::bootstrapped("n1", 2);
    // The next segment cannot be created.
    for entry in std::fs::read_dir(&server.dir).unwrap() {
        let _ = std::fs::remove_file(entry.unwrap().path());
    }
    std::fs::remove_dir(&server.dir).unwrap();
    let refused = (0..100).find_map(|i| {
        let mut trx = server.begin(&format!("row {i}"));
        assert_eq!(trx.append_data(&[7; 100_000]), WSREP_OK);
        match trx.certify() {
            WSREP_OK => {
                // The order may have ended meanwhile; then it stays in the log, and is committed.
                if trx.enter() == WSREP_OK {
                    assert_eq!(trx.leave(), WSREP_OK);
                } else {
                    assert_eq!(trx.replay(), WSREP_OK);
                }
                trx.release();
                None
            }
            status => {
                trx.release();
                Some(status)
            }
        }
    });
    assert_eq!(refused, Some(WSREP_CONN_FAIL));
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
    server.inner.wait_logged("the log failed");
    assert_eq!(server.status("local_state_comment"), "Initialized");
    assert_eq!(server.begin("x").certify(), WSREP_CONN_FAIL);
    assert_eq!(server.disconnect(), WSREP_OK);
}

#[test]
fn unreachable_group_is_an_error_that_says_so() {
    let options = "pc.wait_prim_timeout=PT0.3S";
    let server = Server::with("n1", &new_dir(), free_port(), UNDEFINED, options);
    let url = format!("gcomm://127.0.0.1:{}", free_port());
    assert_eq!(server.connect(&url, false), WSREP_NODE_FAIL);
    server.inner.wait_logged("pc.wait_prim_timeout");
    // On a busy machine even a group of one takes longer than the first try.
    let patient = "gcomm://?pc.wait_prim_timeout=PT30S";
    assert_eq!(
        server.connect(patient, true),
        WSREP_OK,
        "another try is possible"
    );
}

#[test]
fn used_port_is_an_error_that_names_it() {
    let one = Server::bootstrapped("n1", 1);
    let two = Server::with("n2", &new_dir(), one.port, UNDEFINED, "");
    assert_eq!(two.connect("gcomm://", true), WSREP_NODE_FAIL);
    two.inner.wait_logged(&one.port.to_string());
    two.inner.wait_logged("base_port");
}

#[test]
fn connecting_twice_is_refused() {
    let server = Server::bootstrapped("n1", 1);
    assert_eq!(server.connect("gcomm://", true), WSREP_NODE_FAIL);
    assert_eq!(server.write("a"), 2, "the first continues");
}

#[test]
fn server_may_leave_while_it_looks_for_the_group() {
    let options = "pc.wait_prim=no";
    let server = Server::with("n1", &new_dir(), free_port(), UNDEFINED, options);
    let url = format!("gcomm://127.0.0.1:{}", free_port());
    assert_eq!(server.connect(&url, false), WSREP_OK);
    server.add_applier();
    assert_eq!(server.disconnect(), WSREP_OK);
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
    assert!(
        !server
            .inner
            .log_lines()
            .iter()
            .any(|(level, _)| *level <= WSREP_LOG_ERROR)
    );
}

#[test]
fn configured_member_waits_for_its_group_as_long_as_it_is_told() {
    let one = Server::bootstrapped("n1", 1);
    let two = Server::new("n2");
    two.set_copy_request(b"trivial\0\0");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_synced(1);
    let url = one.address();
    let (dir, port) = two.stop();
    drop(one);
    let options = "pc.wait_prim_timeout=PT0.1S;synod.rejoin_timeout=PT0.4S";
    let two = Server::with("n2", &dir, port, UNDEFINED, options);
    assert_eq!(two.connect(&url, false), WSREP_NODE_FAIL);
    two.inner.wait_logged("synod.rejoin_timeout");
}

//! Two servers: replication, conflicts, aborts of local transactions by applied ones, and a member
//! whose data differ.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use synod_admin::Client;
use synod_admin::conflict::Conflicts;
use synod_admin::protocol::{Answer, Request};
use wsrep_sys::*;

use crate::server::*;

/// Two synced voters with the same data. The second has some appliers.
pub(crate) fn pair(appliers: usize) -> (Server, Server) {
    let one = Server::bootstrapped("n1", 2);
    let two = Server::new("n2");
    two.set_copy_request(b"trivial\0\0");
    assert_eq!(
        two.connect(&one.address(), false),
        WSREP_OK,
        "{:?}",
        two.inner.log_lines()
    );
    for _ in 0..appliers {
        two.add_applier();
    }
    two.wait_synced(1);
    one.wait_status("synod_voters", "2");
    (one, two)
}

/// [`pair`] with these options and an applier each.
pub(crate) fn pair_with(options: &str) -> (Server, Server) {
    let start = |name| Server::with(name, &new_dir(), free_port(), UNDEFINED, options);
    let (one, two) = (start("n1"), start("n2"));
    two.set_copy_request(b"trivial\0\0");
    for (server, url) in [(&one, "gcomm://".to_owned()), (&two, one.address())] {
        let connected = server.connect(&url, url == "gcomm://");
        assert_eq!(connected, WSREP_OK, "{:?}", server.inner.log_lines());
        server.add_applier();
        server.wait_synced(1);
    }
    one.wait_status("synod_voters", "2");
    (one, two)
}

/// Holds the first application of `row` until told.
fn hold(server: &Server, row: &'static str) -> (Receiver<i64>, Sender<()>) {
    let (began, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let (began, may_go) = (Mutex::new(began), Mutex::new(may_go));
    server.on_apply(move |action| {
        if action.data == row {
            let _ = began.lock().unwrap().send(action.seqno);
            let _ = may_go.lock().unwrap().recv_timeout(LIMIT);
        }
        Verdict::Commit
    });
    (has_begun, go)
}

#[test]
fn what_one_commits_the_other_applies_in_order() {
    let (one, two) = pair(4);
    let rows: Vec<String> = (0..50).map(|i| format!("row {i}")).collect();
    for row in &rows {
        one.write(row);
    }
    two.wait_applied("row 49");
    assert_eq!(two.applied(), rows);
    let last = one.inner.last_committed();
    assert_eq!(two.inner.sync_wait(None, -1), (WSREP_OK, last.seqno));
    two.write("back");
    one.wait_applied("back");
}

#[test]
fn statement_in_total_order_is_executed_everywhere() {
    let (one, two) = pair(2);
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end(5), WSREP_OK);
    let executed = Seen::Executed {
        seqno: meta.gtid.seqno,
    };
    two.inner
        .until("execution", |seen| seen.contains(&executed));
}

#[test]
fn error_log_that_hangs_stops_no_client() {
    let (one, two) = pair(1);
    let held = one.inner.hang_log();
    let before = held.len();
    // The members log the new view.
    assert_eq!(two.disconnect(), WSREP_OK);
    let (done, certified) = channel();
    let inner = one.inner;
    let client = std::thread::spawn(move || {
        let mut trx = inner.begin("meanwhile");
        done.send(trx.certify()).unwrap();
        assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
        trx.release();
    });
    let outcome = certified.recv_timeout(LIMIT);
    drop(held);
    assert_eq!(outcome, Ok(WSREP_OK), "it waits for the error log");
    client.join().unwrap();
    let is_logged = |_: &[Seen]| one.inner.log_lines().len() > before;
    one.inner.until("the lines", is_logged);
}

#[test]
fn conflict_is_refused_without_a_place_in_the_order() {
    let (one, two) = pair(2);
    assert_eq!(two.set_options("cert.log_conflicts=yes"), WSREP_OK);
    let (has_begun, go) = hold(&two, "contended");
    let mut loser = two.begin("contended");
    let winner = one.write("contended");
    assert_eq!(has_begun.recv_timeout(LIMIT), Ok(winner));
    assert_eq!(loser.certify(), WSREP_TRX_FAIL);
    assert_eq!(loser.meta, WSREP_TRX_META_UNDEFINED);
    two.inner.wait_logged("was refused: it conflicts"); // cert.log_conflicts
    assert_eq!(two.status("local_cert_failures"), "1");
    go.send(()).unwrap();
    loser.release();
    two.wait_applied("contended");
    assert_eq!(
        two.write("next"),
        winner + 1,
        "no other server has seen the loser"
    );
}

/// The server's answer to `synod conflicts`.
fn conflicts(server: &Server) -> Conflicts {
    let mut client = Client::connect(&server.dir).unwrap();
    let answer = client.ask(Request::Conflicts, LIMIT).unwrap();
    let Answer::Conflicts(conflicts) = answer else {
        panic!("{answer:?}");
    };
    conflicts
}

#[test]
fn refused_transaction_is_explained_by_its_row_and_by_who_won() {
    let (one, two) = pair(2);
    let (has_begun, go) = hold(&two, "contended");
    let mut loser = two.begin("contended");
    loser.add("another row");
    let winner = one.write("contended");
    assert_eq!(has_begun.recv_timeout(LIMIT), Ok(winner));
    assert_eq!(loser.certify(), WSREP_TRX_FAIL);
    go.send(()).unwrap();
    loser.release();
    let found = conflicts(&two);
    let [key] = &found.keys[..] else {
        panic!("{found:?}");
    };
    // The key is the row's name.
    assert_eq!((key.table.as_str(), key.recent), ("db.t", 1));
    assert_eq!(key.hex.as_deref(), Some("636f6e74656e646564"));
    assert_eq!(key.last_lost_to, Some(winner));
    let latest = &found.latest[0];
    assert_eq!(
        (latest.how.as_str(), latest.connection),
        ("refused", Some(7))
    );
    assert_eq!(latest.winner.as_deref(), Some("n1"));
    assert_eq!(
        (latest.winner_connection, latest.lost_to),
        (Some(7), Some(winner))
    );
    assert_eq!((found.refused, found.recent), (1, 1));
    assert!(conflicts(&one).keys.is_empty(), "each server has its own");
}

#[test]
fn transaction_that_was_aborted_before_its_commit_is_explained() {
    let (one, two) = pair(2);
    let mut victim = two.begin("contended");
    let (told, id) = channel();
    let (id_of, told) = (Mutex::new(id), told);
    two.on_apply(move |action| {
        if action.data == "contended" {
            let victim = id_of.lock().unwrap().recv_timeout(LIMIT).unwrap();
            assert_eq!(action.server.abort(action.seqno, victim), (WSREP_OK, -1));
        }
        Verdict::Commit
    });
    told.send(victim.id()).unwrap();
    let winner = one.write("contended");
    two.wait_applied("contended");
    victim.release();
    let found = conflicts(&two);
    assert_eq!((found.aborted, found.keys[0].recent), (1, 1));
    let latest = &found.latest[0];
    assert_eq!(
        (latest.how.as_str(), latest.lost_to),
        ("aborted", Some(winner))
    );
    assert_eq!(
        (latest.connection, latest.winner_connection),
        (None, Some(7))
    );
    assert_eq!(
        latest.key.as_deref(),
        found.keys.first().map(|key| key.key.as_str())
    );
}

/// The applier has committed the row in the engine. Its bookkeeping waits for another client's.
#[test]
fn client_that_got_a_row_after_an_applier_does_not_conflict_with_it() {
    let (one, two) = pair(2);
    let mut slow = two.begin("slow");
    assert_eq!((slow.certify(), slow.enter(), slow.leave()), (0, 0, 0));
    let before = one.write("contended");
    let mut next = two.begin("next");
    assert_eq!((next.certify(), next.enter()), (0, 0));
    assert_eq!(
        next.seqno(),
        before + 1,
        "the row before it has left the order"
    );
    assert!(two.inner.last_committed().seqno < before);
    let mut after = two.begin("contended");
    assert_eq!(after.certify(), WSREP_OK);
    slow.release();
    assert_eq!(next.leave(), WSREP_OK);
    next.release();
    assert_eq!((after.enter(), after.leave()), (0, 0));
    after.release();
    one.wait_applied("contended");
}

#[test]
fn applier_aborts_a_local_transaction_that_is_ordered_later() {
    let (one, two) = pair(2);
    let victim_id = Arc::new(Mutex::new(None::<(u64, i64)>));
    let (go, may_go) = channel::<()>();
    let (may_go, known) = (Mutex::new(may_go), victim_id.clone());
    let has_aborted = Arc::new(AtomicBool::new(false));
    let aborted = has_aborted.clone();
    two.on_apply(move |action| {
        if action.data == "first" {
            may_go.lock().unwrap().recv_timeout(LIMIT).unwrap();
            let (id, seqno) = known.lock().unwrap().unwrap();
            // Before: the victim may be awake before the call returns.
            aborted.store(true, Ordering::SeqCst);
            assert_eq!(action.server.abort(action.seqno, id), (WSREP_OK, seqno));
        }
        Verdict::Commit
    });
    let first = one.write("first");
    let mut victim = two.begin("victim");
    assert_eq!(victim.certify(), WSREP_OK);
    assert_eq!(victim.seqno(), first + 1);
    *victim_id.lock().unwrap() = Some((victim.id(), victim.seqno()));
    go.send(()).unwrap();
    assert_eq!(victim.enter(), WSREP_BF_ABORT);
    assert!(has_aborted.load(Ordering::SeqCst));
    assert_eq!(victim.replay(), WSREP_OK);
    victim.release();
    assert_eq!(two.applied(), ["first", "victim"]);
    one.wait_applied("victim");
}

/// An applier needs a row of a large transaction whose pieces do not get to the leader.
#[test]
fn large_transaction_lets_go_of_its_locks_while_it_is_being_sent() {
    let (one, two) = pair_with("synod.chunk_size=64K;evs.suspect_timeout=PT60S");
    assert_eq!(one.set_options("gmcast.isolate=1"), WSREP_OK);
    let mut victim = two.begin("large");
    assert_eq!(victim.append_data(&vec![b'x'; 32 << 20]), WSREP_OK);
    let id = victim.id();
    let certified = std::thread::spawn(move || {
        let status = victim.certify();
        victim.release();
        status
    });
    eventually("the first piece", || two.status("local_send_queue") != "0");
    assert_eq!(two.inner.abort(9, id), (WSREP_NOT_ALLOWED, -1));
    assert_eq!(certified.join().unwrap(), WSREP_TRX_FAIL);
    assert_eq!(one.set_options("gmcast.isolate=0"), WSREP_OK);
    two.write("next");
    one.wait_applied("next");
}

#[test]
fn appliers_work_in_parallel_where_nothing_depends() {
    let (one, two) = pair(4);
    let (has_begun, go) = hold(&two, "slow");
    let slow = one.write("slow");
    assert_eq!(has_begun.recv_timeout(LIMIT), Ok(slow));
    let (began, others) = channel();
    let began = Mutex::new(began);
    two.on_apply(move |action| {
        let _ = began.lock().unwrap().send(action.seqno);
        Verdict::Commit
    });
    one.write("other");
    assert_eq!(
        others.recv_timeout(LIMIT),
        Ok(slow + 1),
        "it has begun beside the slow one"
    );
    assert_eq!(two.applied(), Vec::<String>::new(), "but commits after it");
    go.send(()).unwrap();
    two.wait_applied("other");
    assert_eq!(two.applied(), ["slow", "other"]);
}

#[test]
fn pause_lets_appliers_finish_and_holds_back_the_rest() {
    let (one, two) = pair(2);
    let (has_begun, go) = hold(&two, "begun");
    let begun = one.write("begun");
    assert_eq!(has_begun.recv_timeout(LIMIT), Ok(begun));
    let (done, paused) = channel();
    std::thread::scope(|scope| {
        let two = &two;
        let inner = two.inner;
        scope.spawn(|| {
            // SAFETY: a table.
            let at = unsafe {
                let t: *const wsrep_t = inner.t();
                (*t).pause.unwrap()(t.cast_mut())
            };
            done.send(at).unwrap();
        });
        assert!(paused.try_recv().is_err());
        go.send(()).unwrap();
        assert_eq!(paused.recv_timeout(LIMIT), Ok(begun));
        let held = one.write("held");
        let target = wsrep_gtid_t {
            seqno: held,
            ..one.inner.last_committed()
        };
        assert_eq!(inner.sync_wait(Some(target), 1).0, WSREP_TRX_FAIL);
        assert_eq!(two.applied(), ["begun"]);
        assert_eq!(two.simple(|t| t.resume.unwrap()), WSREP_OK);
        assert_eq!(inner.sync_wait(Some(target), 30), (WSREP_OK, held));
    });
}

#[test]
fn member_that_cannot_apply_leaves_and_applies_it_again_when_it_is_back() {
    let (one, two) = pair(3);
    let (has_begun, go) = hold(&two, "before");
    one.write("before");
    has_begun.recv_timeout(LIMIT).unwrap();
    // The hook is asked when an action begins, so this does not touch the one that waits.
    two.on_apply(|action| match action.data.as_str() {
        "broken" => Verdict::Fail,
        _ => Verdict::Commit,
    });
    let broken = one.write("broken");
    one.write("after");
    let mut local = two.begin("local");
    assert_eq!(local.certify(), WSREP_OK);
    go.send(()).unwrap();
    assert_eq!(local.enter(), WSREP_BF_ABORT, "its turn never comes");
    assert_eq!(local.replay(), WSREP_OK, "the group has committed it");
    assert_eq!(two.final_views(), 1, "this server takes no statements");
    local.release();
    one.wait_applied("local");
    two.join_appliers();
    assert_eq!(two.final_views(), 1);
    assert_eq!(
        two.applied(),
        ["before"],
        "nothing after the failure gets in"
    );
    two.inner.wait_logged(&format!(
        ":{broken} failed to apply here, and not on the other servers: Can't find record"
    ));
    let errors = two
        .inner
        .log_lines()
        .into_iter()
        .filter(|(level, _)| *level <= WSREP_LOG_ERROR);
    assert_eq!(errors.count(), 1, "said once");
    assert_eq!(two.status("local_state_comment"), "Initialized");
    assert_eq!(two.begin("x").certify(), WSREP_CONN_FAIL);
    one.inner.until("a view without it", |seen| {
        matches!(
            seen.iter().rfind(|s| matches!(s, Seen::View { .. })),
            Some(Seen::View {
                status: WSREP_VIEW_PRIMARY,
                members: 1,
                ..
            })
        )
    });
    one.write("continues");
    assert_eq!(two.engine_position().seqno, broken);
    let two = two.restart("n2");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_applied("continues");
    let expected = ["broken", "after", "local", "continues"];
    assert_eq!(two.applied(), expected);
}

#[test]
fn apply_queue_is_bounded_at_run_time() {
    // So patient that a processor that stands still costs no majority.
    let (one, two) = pair_with("evs.suspect_timeout=PT60S");
    assert_eq!(two.set_options("synod.apply_queue_size=1M"), WSREP_OK);
    let (has_begun, go) = hold(&two, "slow");
    one.write("slow");
    has_begun.recv_timeout(LIMIT).unwrap();
    for i in 0..40 {
        let mut trx = one.begin(&format!("big {i}"));
        assert_eq!(trx.append_data(&[b'x'; 100_000]), WSREP_OK);
        assert_eq!((trx.certify(), trx.enter(), trx.leave()), (0, 0, 0));
        trx.release();
    }
    go.send(()).unwrap();
    let last = one.inner.last_committed();
    assert_eq!(two.inner.sync_wait(Some(last), 30), (WSREP_OK, last.seqno));
}

#[test]
fn group_is_formed_again_from_one_of_two_only_where_an_operator_says_so() {
    // So patient that neither leaves the other out because a processor stood still for a moment.
    let (one, two) = pair_with("evs.suspect_timeout=PT60S");
    one.write("a");
    two.wait_applied("a");
    // Neither can tell the other that it goes.
    assert_eq!(one.set_options("gmcast.isolate=1"), WSREP_OK);
    // From here on nothing is committed, so no view can be agreed either.
    assert_eq!(one.set_options("evs.suspect_timeout=PT0.7S"), WSREP_OK);
    one.inner.until("without the other", |seen| {
        let is_alone =
            |s: &Seen| matches!(s, Seen::View { status, .. } if *status != WSREP_VIEW_PRIMARY);
        seen.iter().any(is_alone)
    });
    let url = one.address();
    let (dir, port) = one.stop();
    drop(two);

    let options = "pc.wait_prim_timeout=PT0.1S;synod.rejoin_timeout=PT3S";
    let refused = Server::with("n1", &dir, port, UNDEFINED, options);
    assert_eq!(refused.connect(&url, true), WSREP_NODE_FAIL);
    let (dir, port) = refused.stop();

    let file = dir.join("grastate.dat");
    let text = std::fs::read_to_string(&file).unwrap();
    let edited = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    assert_ne!(edited, text);
    std::fs::write(&file, edited).unwrap();
    let again = Server::with("n1", &dir, port, UNDEFINED, "");
    assert_eq!(again.connect(&url, true), WSREP_OK);
    again.add_applier();
    again.wait_synced(1);
    again.write("b");
}

/// Galera's tools look for the mark after a full stop.
#[test]
fn last_member_is_marked_as_such_and_that_is_no_order() {
    fn safe(server: &Server) -> bool {
        let text = std::fs::read_to_string(server.dir.join("grastate.dat")).unwrap();
        text.contains("safe_to_bootstrap: 1")
    }
    let (one, two) = pair(1);
    assert!(!safe(&one) && !safe(&two));
    let (dir, port) = two.stop();
    one.wait_status("synod_voters", "1");
    let lone = |s: &Seen| match s {
        Seen::View {
            members, status, ..
        } => *members == 1 && *status == WSREP_VIEW_PRIMARY,
        _ => false,
    };
    one.inner.until("a view without the other", |seen| {
        seen.last().is_some_and(lone)
    });
    eventually("the mark", || safe(&one));
    let url = one.address();
    let two = Server::with("n2", &dir, port, UNDEFINED, "");
    assert_eq!(two.connect(&url, false), WSREP_OK);
    two.add_applier();
    two.wait_synced(1);
    eventually("no mark", || !safe(&one));
    let (dir, _) = two.stop();
    let text = std::fs::read_to_string(dir.join("grastate.dat")).unwrap();
    assert!(text.contains("safe_to_bootstrap: 0"));
}

#[test]
fn member_may_be_silent_for_as_long_as_is_set_at_run_time() {
    let (one, two) = pair(1);
    assert_eq!(one.set_options("evs.suspect_timeout=PT0.7S"), WSREP_OK);
    assert_eq!(two.set_options("evs.suspect_timeout=PT0.7S"), WSREP_OK);
    let began = std::time::Instant::now();
    assert_eq!(two.set_options("gmcast.isolate=1"), WSREP_OK);
    two.inner.until("without the group", |seen| {
        let lost =
            |s: &Seen| matches!(s, Seen::View { status, .. } if *status != WSREP_VIEW_PRIMARY);
        seen.iter().any(lost)
    });
    // The default is five seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(4));
}

#[test]
fn write_of_a_paused_server_waits_and_can_be_aborted() {
    let (one, two) = pair(1);
    assert!(one.pause() > 0);
    let mut waiting = one.begin("a");
    let waiting = std::thread::spawn(move || (waiting.certify(), waiting));
    let mut victim = one.begin("b");
    let id = victim.id();
    let victim = std::thread::spawn(move || {
        let status = victim.certify();
        victim.release();
        status
    });
    two.write("c");
    assert_eq!(one.inner.abort(-1, id), (WSREP_OK, -1));
    assert_eq!(victim.join().unwrap(), WSREP_TRX_FAIL);
    assert!(!waiting.is_finished());
    assert_eq!(one.simple(|t| t.resume.unwrap()), WSREP_OK);
    let (status, mut waiting) = waiting.join().unwrap();
    assert_eq!(status, WSREP_OK);
    assert_eq!(waiting.enter(), WSREP_OK);
    assert_eq!(waiting.leave(), WSREP_OK);
    waiting.release();
    two.wait_applied("a");
}

//! A group of one: local transactions and everything that acts on them.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use synod_admin::Client;
use synod_admin::protocol::{Answer, Request};
use synod_admin::status::{CommitStep, Status};
use wsrep_sys::*;

use crate::server::*;

/// The status as the agent is told it.
fn told(server: &Server) -> Status {
    let mut client = Client::connect(&server.dir).unwrap();
    match client.ask(Request::Status, Duration::from_secs(60)) {
        Ok(Answer::Status(status)) => *status,
        other => panic!("{other:?}"),
    }
}

fn step<'a>(status: &'a Status, name: &str) -> &'a CommitStep {
    let mut steps = status.commit_steps.iter();
    steps.find(|step| step.step == name).unwrap()
}

/// Runs a call that may wait; its answer, later.
fn later<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> std::sync::mpsc::Receiver<T> {
    let (done, answer) = channel();
    thread::spawn(move || done.send(call()));
    answer
}

fn upto(server: &Server, seqno: i64) -> Option<wsrep_gtid_t> {
    Some(wsrep_gtid_t {
        seqno,
        ..server.inner.last_committed()
    })
}

#[test]
fn begins_a_group_and_shows_the_first_view_with_everything_before_it_released() {
    let server = Server::bootstrapped("n1", 1);
    let seen = server.inner.seen();
    let Seen::Connected { seqno: 1, .. } = seen[0] else {
        panic!("{seen:?}")
    };
    let first_view = Seen::View {
        status: WSREP_VIEW_PRIMARY,
        seqno: 1,
        own: 0,
        members: 1,
        committed_inside: 0,
    };
    assert_eq!(&seen[1..], &[first_view, Seen::Synced]);
    assert_eq!(server.status("local_state_comment"), "Synced");
    assert_eq!(server.status("local_state"), "4");
    assert_eq!(server.inner.last_committed().seqno, 1);
}

#[test]
fn position_file_follows_the_connection() {
    let server = Server::new("n1");
    assert_eq!(server.grastate(), None);
    assert_eq!(server.connect("gcomm://", true), WSREP_OK);
    assert_eq!(server.grastate(), None, "nothing has changed yet");
    server.add_applier();
    server.wait_synced(1);
    let group = server.status("local_state_uuid");
    assert_eq!(server.grastate(), Some((group.clone(), "-1".to_owned())));
    let seqno = server.write("a");
    assert_eq!(server.grastate(), Some((group.clone(), "-1".to_owned())));
    assert_eq!(server.disconnect(), WSREP_OK);
    // The server closes its engines after that.
    synod::boundary::run_exit_tasks();
    assert_eq!(server.grastate(), Some((group, seqno.to_string())));
}

#[test]
fn times_of_commits_and_steps_are_counted_for_good_at_the_release() {
    const STEPS: [&str; 5] = ["queue", "order", "turn", "engine", "release"];
    let server = Server::bootstrapped("n1", 1);
    server.write("a");
    let mut open = server.begin("b");
    assert_eq!(open.certify(), WSREP_OK);
    let first = told(&server);
    assert_eq!(first.commits.total(), 1, "the second is open");
    assert_eq!(first.commits.counts.len(), first.time_bounds_us.len() + 1);
    assert_eq!(step(&first, "order").times.total(), 2);
    assert_eq!(step(&first, "engine").times.total(), 1);

    assert_eq!((open.enter(), open.leave()), (WSREP_OK, WSREP_OK));
    open.release();
    server.flush_status();
    let second = told(&server);
    assert_eq!(second.commits.total(), 2);
    for name in STEPS {
        let step = step(&second, name);
        assert_eq!((step.samples, step.times.total()), (0, 2), "{name}");
    }
    // Each commit has its steps within it.
    assert!(second.commits.sum_us >= step(&second, "order").times.sum_us);
}

#[test]
fn transaction_counts_as_committed_once_it_is_released() {
    let server = Server::bootstrapped("n1", 1);
    let mut trx = server.begin("a");
    assert_eq!(trx.certify(), WSREP_OK);
    assert_eq!((trx.seqno(), trx.meta.stid.trx), (2, trx.id()));
    assert!(trx.meta.depends_on < trx.seqno());
    assert_eq!(trx.enter(), WSREP_OK);
    assert_eq!(trx.leave(), WSREP_OK);
    assert_eq!(server.inner.last_committed().seqno, 1);
    trx.release();
    assert_eq!(server.inner.last_committed().seqno, 2);
    assert_eq!(server.status("local_commits"), "1");
    assert_eq!(server.status("replicated"), "1");
}

#[test]
fn status_shows_how_long_certification_the_disk_and_the_group_took() {
    let server = Server::bootstrapped("n1", 1);
    let samples = |name: &str| step(&told(&server), name).samples;
    let steps = ["certify", "append", "fsync", "quorum"];
    for step in steps {
        assert_eq!(samples(step), 0, "{step}");
    }
    let syncs = || server.status("synod_log_syncs").parse::<u64>().unwrap();
    let before = syncs();
    server.write("a");
    server.write("b");
    // A client may be told before the step is counted.
    for step in steps {
        eventually(step, || samples(step) == 2);
    }
    // Each was durable before the next one began.
    assert!(syncs() >= before + 2, "{before}, {}", syncs());
}

#[test]
fn rolled_back_transaction_leaves_nothing_behind() {
    let server = Server::bootstrapped("n1", 1);
    let mut trx = server.begin("a");
    assert_eq!(server.status("open_transactions"), "1");
    trx.release();
    assert_eq!(server.status("open_transactions"), "0");
    assert_eq!(server.write("a"), 2);
}

#[test]
fn own_transactions_never_conflict_with_each_other() {
    let server = Server::bootstrapped("n1", 1);
    let mut first = server.begin("a");
    let mut second = server.begin("a");
    assert_eq!(first.certify(), WSREP_OK);
    assert_eq!(
        second.certify(),
        WSREP_OK,
        "the engine's locks have seen to it"
    );
    for trx in [&mut first, &mut second] {
        assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
        trx.release();
    }
}

#[test]
fn transactions_enter_by_seqno_and_may_be_released_in_any_order() {
    let server = Server::bootstrapped("n1", 1);
    let mut first = server.begin("a");
    let mut second = server.begin("b");
    assert_eq!((first.certify(), second.certify()), (WSREP_OK, WSREP_OK));
    let waiting = later(move || {
        let entered = second.enter();
        (entered, second)
    });
    assert_eq!(first.enter(), WSREP_OK);
    assert_eq!(
        waiting.recv_timeout(Duration::ZERO).err(),
        Some(RecvTimeoutError::Timeout)
    );
    assert_eq!(first.leave(), WSREP_OK);
    let (entered, mut second) = waiting.recv_timeout(LIMIT).unwrap();
    assert_eq!(entered, WSREP_OK);
    assert_eq!(second.leave(), WSREP_OK);
    second.release();
    assert_eq!(server.inner.last_committed().seqno, 1);
    first.release();
    assert_eq!(server.inner.last_committed().seqno, 3);
}

#[test]
fn certified_transaction_that_never_enters_is_applied_by_an_applier() {
    let server = Server::bootstrapped("n1", 2);
    let mut trx = server.begin("given up");
    assert_eq!(trx.certify(), WSREP_OK);
    trx.release();
    server.wait_applied("given up");
    let next = server.write("b");
    assert_eq!(
        server.inner.sync_wait(upto(&server, next), 30),
        (WSREP_OK, next)
    );
}

#[test]
fn abort_of_an_unknown_transaction_is_granted() {
    let server = Server::bootstrapped("n1", 1);
    assert_eq!(server.inner.abort(-1, 999_999), (WSREP_OK, -1));
}

#[test]
fn abort_while_executing_fails_the_commit_but_not_the_statements() {
    let server = Server::bootstrapped("n1", 1);
    let mut trx = server.begin("a");
    assert_eq!(server.inner.abort(5, trx.id()), (WSREP_OK, -1));
    assert_eq!(
        trx.append_key("b"),
        WSREP_OK,
        "an error would be a warning in the server's log"
    );
    assert_eq!(trx.append_data(b"b"), WSREP_OK);
    assert_eq!(trx.certify(), WSREP_TRX_FAIL);
    assert_eq!(trx.meta, WSREP_TRX_META_UNDEFINED);
    assert_eq!(server.inner.abort(5, trx.id()), (WSREP_NOT_ALLOWED, -1));
    trx.release();
    assert_eq!(server.inner.abort(5, trx.id()), (WSREP_OK, -1), "forgotten");
}

#[test]
fn abort_of_an_ordered_transaction_makes_it_replay() {
    let server = Server::bootstrapped("n1", 1);
    let mut first = server.begin("a");
    let mut victim = server.begin("b");
    assert_eq!((first.certify(), victim.certify()), (WSREP_OK, WSREP_OK));
    let (id, seqno) = (victim.id(), victim.seqno());
    assert_eq!(
        server.inner.abort(seqno + 1, id),
        (WSREP_NOT_ALLOWED, seqno),
        "it is first"
    );
    let waiting = later(move || (victim.enter(), victim));
    assert_eq!(server.inner.abort(first.seqno(), id), (WSREP_OK, seqno));
    let (entered, mut victim) = waiting.recv_timeout(LIMIT).unwrap();
    assert_eq!(entered, WSREP_BF_ABORT);
    assert_eq!(
        server.inner.abort(-1, id),
        (WSREP_NOT_ALLOWED, seqno),
        "aborted already"
    );
    let replaying = later(move || (victim.replay(), victim));
    assert_eq!((first.enter(), first.leave()), (WSREP_OK, WSREP_OK));
    assert_eq!(
        server.applied(),
        Vec::<String>::new(),
        "not before the first is released"
    );
    first.release();
    let (replayed, mut victim2) = replaying.recv_timeout(LIMIT).unwrap();
    victim = {
        victim2.release();
        victim2
    };
    assert_eq!(replayed, WSREP_OK);
    assert_eq!(server.applied(), ["b"]);
    assert_eq!(server.inner.last_committed().seqno, victim.seqno());
    assert_eq!(server.status("local_replays"), "1");
}

#[test]
fn abort_by_a_statement_or_a_kill_needs_no_seqno() {
    let server = Server::bootstrapped("n1", 1);
    let mut trx = server.begin("a");
    assert_eq!(trx.certify(), WSREP_OK);
    assert_eq!(server.inner.abort(-1, trx.id()), (WSREP_OK, trx.seqno()));
    assert_eq!(trx.enter(), WSREP_BF_ABORT, "although it was its turn");
    assert_eq!(trx.replay(), WSREP_OK);
    trx.release();
    assert_eq!(server.applied(), ["a"]);
}

#[test]
fn abort_comes_too_late_once_the_order_is_entered() {
    let server = Server::bootstrapped("n1", 1);
    let mut trx = server.begin("a");
    assert_eq!(trx.certify(), WSREP_OK);
    assert_eq!(trx.enter(), WSREP_OK);
    assert_eq!(
        server.inner.abort(-1, trx.id()),
        (WSREP_NOT_ALLOWED, trx.seqno())
    );
    assert_eq!(trx.leave(), WSREP_OK);
    assert_eq!(
        server.inner.abort(-1, trx.id()),
        (WSREP_NOT_ALLOWED, trx.seqno())
    );
    trx.release();
}

#[test]
fn statement_in_total_order_is_alone() {
    let server = Server::bootstrapped("n1", 1);
    let mut before = server.begin("a");
    assert_eq!(
        (before.certify(), before.enter(), before.leave()),
        (0, 0, 0)
    );
    let inner = server.inner;
    let statement = later(move || inner.execute_start(5, "elsewhere"));
    let answer = statement.recv_timeout(Duration::ZERO);
    assert!(answer.is_err(), "what is before is not released");
    before.release();
    let (status, meta) = statement.recv_timeout(LIMIT).unwrap();
    assert_eq!((status, meta.gtid.seqno, meta.depends_on), (WSREP_OK, 3, 2));
    assert_eq!((meta.stid.trx, meta.stid.conn), (u64::MAX, 5));
    let mut after = server.begin("b");
    assert_eq!(after.certify(), WSREP_OK, "ordering continues");
    let waiting = later(move || (after.enter(), after));
    let second = later(move || inner.execute_start(6, "other"));
    assert_eq!(server.inner.last_committed().seqno, 2);
    assert_eq!(server.inner.execute_end(5), WSREP_OK);
    let (entered, mut after) = waiting.recv_timeout(LIMIT).unwrap();
    assert_eq!((entered, after.leave()), (WSREP_OK, WSREP_OK));
    after.release();
    assert_eq!(second.recv_timeout(LIMIT).unwrap().0, WSREP_OK);
    assert_eq!(server.inner.execute_end(6), WSREP_OK);
    assert_eq!(
        server.inner.execute_end(6),
        WSREP_TRX_MISSING,
        "one end for one start"
    );
}

#[test]
fn causal_read_waits_for_what_was_acknowledged() {
    let server = Server::bootstrapped("n1", 1);
    let seqno = server.write("a");
    assert_eq!(server.inner.sync_wait(None, -1), (WSREP_OK, seqno));
    assert_eq!(server.status("causal_reads"), "1");
}

#[test]
fn reads_within_a_bound_ask_again_only_when_half_of_it_is_over() {
    let server = Server::bootstrapped("n1", 1);
    let seqno = server.write("a");
    let reads = |count: usize| {
        for _ in 0..count {
            assert_eq!(server.inner.sync_wait(None, -1), (WSREP_OK, seqno));
        }
        server.status("causal_reads")
    };
    assert_eq!(server.status("synod_staleness_ms"), "-1", "nothing asked");
    assert_eq!(reads(2), "2");
    assert_ne!(server.status("synod_staleness_ms"), "-1");
    let set = |text: &str| server.set_options(&format!("synod.max_staleness={text}"));
    assert_eq!(set("PT1H"), WSREP_OK);
    assert_eq!(reads(1000), "2", "none waits");
    assert_eq!(set("-1"), WSREP_NODE_FAIL);
    assert_eq!(set("0"), WSREP_OK);
    assert_eq!(reads(1), "3");
    // Each finds the last question older than half of the bound, or asks itself.
    assert_eq!(set("1ms"), WSREP_OK);
    reads(1);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(20) {
        reads(1);
    }
    let age: u64 = server.status("synod_staleness_ms").parse().unwrap();
    assert!(age < 20, "{age} ms: no read asked again");
}

#[test]
fn wait_for_a_position_ends_when_it_is_released_or_time_is_up() {
    let server = Server::bootstrapped("n1", 1);
    let inner = server.inner;
    assert_eq!(inner.sync_wait(upto(&server, 1), 0), (WSREP_OK, 1));
    assert_eq!(inner.sync_wait(upto(&server, 2), 0).0, WSREP_TRX_FAIL);
    let target = upto(&server, 2);
    let waiting = later(move || inner.sync_wait(target, i32::MAX));
    assert_eq!(server.write("a"), 2);
    assert_eq!(waiting.recv_timeout(LIMIT).unwrap(), (WSREP_OK, 2));
    assert_eq!(
        server.set_options("repl.causal_read_timeout=PT0.05S"),
        WSREP_OK
    );
    let began = Instant::now();
    assert_eq!(inner.sync_wait(upto(&server, 3), -1).0, WSREP_TRX_FAIL);
    assert!(began.elapsed() >= Duration::from_millis(50));
    let foreign = wsrep_gtid_t {
        uuid: wsrep_uuid_t { data: [9; 16] },
        seqno: 1,
    };
    assert_eq!(inner.sync_wait(Some(foreign), 1).0, WSREP_TRX_MISSING);
}

#[test]
fn pause_stops_commits_until_resume() {
    let server = Server::bootstrapped("n1", 1);
    assert_eq!(server.simple(|t| t.desync.unwrap()), WSREP_OK);
    assert_eq!(server.status("local_state_comment"), "Donor/Desynced");
    let mut trx = server.begin("a");
    assert_eq!(trx.certify(), WSREP_OK);
    assert_eq!(server.pause(), 1, "it has not begun to commit");
    let waiting = later(move || (trx.enter(), trx));
    assert_eq!(
        server.inner.sync_wait(upto(&server, 2), 0).0,
        WSREP_TRX_FAIL
    );
    assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err());
    assert_eq!(server.simple(|t| t.resume.unwrap()), WSREP_OK);
    let (entered, mut trx) = waiting.recv_timeout(LIMIT).unwrap();
    assert_eq!((entered, trx.leave()), (WSREP_OK, WSREP_OK));
    trx.release();
    assert_eq!(server.simple(|t| t.resync.unwrap()), WSREP_OK);
    server.wait_synced(2);
}

#[test]
fn resync_that_was_not_preceded_by_desync_does_nothing() {
    let server = Server::bootstrapped("n1", 1);
    assert_eq!(server.simple(|t| t.resync.unwrap()), WSREP_OK);
    assert_eq!(server.status("local_state_comment"), "Synced");
}

#[test]
fn size_of_write_sets_is_bounded_at_run_time() {
    let server = Server::bootstrapped("n1", 1);
    assert_eq!(server.set_options("repl.max_ws_size=100"), WSREP_OK);
    let mut trx = server.begin("a");
    assert_eq!(trx.append_data(&[0; 99]), WSREP_OK);
    assert_eq!(trx.append_data(&[0; 1]), WSREP_SIZE_EXCEEDED);
    assert_eq!(trx.certify(), WSREP_SIZE_EXCEEDED, "keys count");
    trx.release();
    assert_eq!(server.set_options("repl.max_ws_size=20"), WSREP_OK);
    let (status, _) = server.inner.execute_start(9, "db");
    assert_eq!(status, WSREP_SIZE_EXCEEDED, "statements, too");
    assert_eq!(server.set_options("repl.max_ws_size=2147483647"), WSREP_OK);
    assert_eq!(server.write("a"), 2);
}

#[test]
fn wrong_options_are_refused_by_name() {
    let server = Server::new("n1");
    assert_eq!(server.set_options("synod.log_dri=/x"), WSREP_NODE_FAIL);
    server.inner.wait_logged("did you mean 'synod.log_dir'");
    assert_eq!(server.set_options("gmcast.isolate=2"), WSREP_NODE_FAIL);
    assert_eq!(
        server.set_options("synod.log_dir=/x"),
        WSREP_NODE_FAIL,
        "only at start"
    );
}

#[test]
fn many_clients_commit_at_once() {
    let server = Server::bootstrapped("n1", 2);
    let inner = server.inner;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            later(move || {
                for i in 0..25 {
                    let mut trx = inner.begin(&format!("{client}/{i}"));
                    assert_eq!((trx.certify(), trx.enter(), trx.leave()), (0, 0, 0));
                    trx.release();
                }
            })
        })
        .collect();
    for client in clients {
        client.recv_timeout(LIMIT).unwrap();
    }
    assert_eq!(server.inner.last_committed().seqno, 1 + 8 * 25);
}

//! Servers on which the same action ends differently: the group decides who stays.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use wsrep_sys::*;

use crate::server::*;
use crate::two_members::pair;

/// Three synced members with the same data.
fn trio(options: &str) -> [Server; 3] {
    let server = |name| Server::with(name, &new_dir(), free_port(), UNDEFINED, options);
    let servers = ["n1", "n2", "n3"].map(server);
    let address = servers[0].address();
    for (at, server) in servers.iter().enumerate() {
        server.set_copy_request(b"trivial\0\0");
        let url = if at == 0 { "gcomm://" } else { &address };
        assert_eq!(
            server.connect(url, at == 0),
            WSREP_OK,
            "{:?}",
            server.inner.log_lines()
        );
        server.add_applier();
        server.add_applier();
        server.wait_synced(1);
    }
    // The others have got it with their copy.
    wait_size(&servers[0], 3);
    servers
}

/// Everything that begins with this fails.
fn fail(server: &Server, data: &'static str) {
    server.on_apply(move |action| match action.data.starts_with(data) {
        true => Verdict::Fail,
        false => Verdict::Commit,
    });
}

/// Statements fail on this server, each once it is told so.
fn fail_when_told(server: &Server) -> Sender<()> {
    let (go, may_go) = channel();
    let may_go = Mutex::new(may_go);
    server.on_apply(move |action| match action.data.starts_with("ALTER") {
        true => {
            may_go.lock().unwrap().recv().unwrap();
            Verdict::Fail
        }
        false => Verdict::Commit,
    });
    go
}

fn wait_size(server: &Server, size: i32) {
    server.inner.until("the view", |seen| {
        let mut views = seen.iter().rev().filter_map(|seen| match seen {
            Seen::View {
                status: WSREP_VIEW_PRIMARY,
                members,
                ..
            } => Some(*members),
            _ => None,
        });
        views.next() == Some(size)
    });
}

fn has_left(server: &Server) {
    server.wait_status("local_state_comment", "Inconsistent");
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
    assert!(
        server.grastate().unwrap().0.starts_with("00000000-"),
        "its data are not trusted again"
    );
    assert_eq!(server.begin("x").certify(), WSREP_CONN_FAIL);
}

/// Asserts that the server left with a database that is a prefix of the others', so it may come
/// back.
fn has_left_whole(server: &Server) {
    server.join_appliers();
    assert_eq!(server.final_views(), 1);
    assert_eq!(server.status("local_state_comment"), "Initialized");
    assert!(!server.grastate().unwrap().0.starts_with("00000000-"));
    assert_eq!(server.begin("x").certify(), WSREP_CONN_FAIL);
}

#[test]
fn statement_that_fails_alike_everywhere_leaves_every_server_in() {
    let servers = trio("");
    fail(&servers[1], "ALTER");
    fail(&servers[2], "ALTER");
    let (status, meta) = servers[0].inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(servers[0].inner.execute_end_failed(5), WSREP_OK);
    let failed = Seen::FailedAlike {
        seqno: meta.gtid.seqno,
    };
    for server in &servers[1..] {
        server.inner.until("its failure", |s| s.contains(&failed));
    }
    servers[1].write("all continue");
    for server in [&servers[0], &servers[2]] {
        server.wait_applied("all continue");
        assert_eq!(server.status("local_state_comment"), "Synced");
    }
}

/// A session setting of the client, or a `KILL`, ended the statement there.
#[test]
fn statement_that_failed_for_its_client_only_is_executed_by_an_applier() {
    let (one, two) = pair(2);
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end_failed(5), WSREP_OK);
    let executed = Seen::Executed {
        seqno: meta.gtid.seqno,
    };
    for server in [&one, &two] {
        server
            .inner
            .until("execution", |seen| seen.contains(&executed));
    }
    one.write("of one");
    two.wait_applied("of one");
    two.write("of two");
    one.wait_applied("of two");
    assert_eq!(one.status("local_state_comment"), "Synced");
}

#[test]
fn orderly_stop_waits_for_a_statement_that_an_applier_has_to_execute() {
    let (one, two) = pair(2);
    let (status, meta) = two.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(two.inner.execute_end_failed(5), WSREP_OK);
    assert_eq!(two.disconnect(), WSREP_OK);
    two.join_appliers();
    let seqno = meta.gtid.seqno;
    assert!(two.inner.seen().contains(&Seen::Executed { seqno }));
    assert!(two.inner.last_committed().seqno >= seqno);
    one.write("continues");
}

#[test]
fn server_on_which_a_statement_fails_for_its_client_and_an_applier_leaves() {
    let (one, two) = pair(2);
    fail(&one, "ALTER");
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end_failed(5), WSREP_OK);
    has_left_whole(&one);
    let executed = Seen::Executed {
        seqno: meta.gtid.seqno,
    };
    two.inner.until("execution", |s| s.contains(&executed));
    wait_size(&two, 1);
    two.write("continues");
}

/// The server has committed and told its client: the change stays in its log, although it fits
/// nowhere else.
#[test]
fn server_that_did_what_others_could_not_leaves_though_it_had_no_error() {
    let servers = trio("");
    fail(&servers[1], "odd");
    fail(&servers[2], "odd");
    let odd = servers[0].write("odd");
    has_left(&servers[0]);
    servers[0]
        .inner
        .wait_logged(&format!(":{odd} is inconsistent with group"));
    for server in &servers[1..] {
        wait_size(server, 2);
        assert!(
            server
                .inner
                .seen()
                .contains(&Seen::FailedAlike { seqno: odd })
        );
    }
    servers[1].write("continues");
    servers[2].wait_applied("continues");
}

#[test]
fn policy_lets_one_success_stand_against_more_errors() {
    let servers = trio("gcs.vote_policy=1");
    fail(&servers[1], "odd");
    fail(&servers[2], "odd");
    servers[0].write("odd");
    has_left_whole(&servers[1]);
    has_left_whole(&servers[2]);
    wait_size(&servers[0], 1);
}

/// The others have decided before it gets there, and it has to agree with them.
#[test]
fn slow_server_is_judged_by_what_was_decided_without_it() {
    let servers = trio("");
    let (go, may_go) = channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    servers[0].on_apply(move |action| {
        if action.data == "before" {
            may_go.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        Verdict::Commit
    });
    fail(&servers[2], "odd");
    servers[1].write("before");
    let odd = servers[1].write("odd");
    // One success and one error, and the third does not answer: success.
    has_left_whole(&servers[2]);
    let not_there = servers[0].applied();
    assert!(not_there.is_empty(), "{not_there:?}");
    go.send(()).unwrap();
    servers[0].wait_applied("odd");
    servers[0].write("stays");
    servers[1].wait_applied("stays");
    assert!(servers[0].inner.last_committed().seqno > odd);
}

/// The others' answers do not allow a decision yet. The engine's position is past what it lacks, as
/// after a kill.
#[test]
fn server_that_is_stopped_while_it_waits_for_a_decision_applies_the_action_again() {
    let (one, two) = pair(2);
    fail(&two, "odd");
    let mut odd = one.begin("odd");
    assert_eq!((odd.certify(), odd.enter()), (WSREP_OK, WSREP_OK));
    one.inner.wait_logged("asking the others");
    assert!(
        !two.inner
            .seen()
            .contains(&Seen::NotApplied { seqno: odd.seqno() })
    );
    assert_eq!(two.disconnect(), WSREP_OK);
    has_left_whole(&two);
    assert_eq!(odd.leave(), WSREP_OK);
    odd.release();
    wait_size(&one, 1);
    one.write("continues");
    assert_eq!(two.engine_position().seqno, odd.seqno());
    let two = two.restart("n2");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_applied("continues");
    assert_eq!(two.applied(), ["odd", "continues"]);
    two.wait_status("local_state_comment", "Synced");
    two.write("both");
    one.wait_applied("both");
}

/// The server lags and has no vote; the repeated action was decided before.
#[test]
fn server_that_repeats_what_failed_everywhere_may_fail_again() {
    let (one, two) = pair(2);
    fail(&two, "ALTER");
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end_failed(5), WSREP_OK);
    one.write("later");
    two.wait_applied("later");
    let (dir, port) = two.stop();
    let seqno = meta.gtid.seqno;
    let before = wsrep_gtid_t {
        seqno: seqno - 1,
        ..meta.gtid
    };
    let two = Server::with("n2", &dir, port, before, "");
    fail(&two, "ALTER");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_synced(1);
    assert!(two.inner.seen().contains(&Seen::FailedAlike { seqno }));
    two.wait_applied("later");
    two.write("continues");
    one.wait_applied("continues");
}

/// The engine's position does not move with views.
#[test]
fn statement_in_which_a_server_was_killed_may_come_behind_a_view() {
    let (one, two) = pair(2);
    let seqno = one.write("before");
    two.wait_applied("before");
    let (dir, port) = two.stop();
    wait_size(&one, 1);
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end(5), WSREP_OK);
    assert_eq!(meta.gtid.seqno, seqno + 2, "a view is between");
    let stopped = std::fs::read_to_string(dir.join("grastate.dat")).unwrap();
    let killed = stopped.replace(&format!("seqno:   {seqno}"), "seqno:   -1");
    assert_ne!(killed, stopped);
    std::fs::write(dir.join("grastate.dat"), killed).unwrap();
    let uuid = meta.gtid.uuid;
    let two = Server::with("n2", &dir, port, wsrep_gtid_t { uuid, seqno }, "");
    two.fail_with(b" Duplicate column name 'c', Error_code: 1060;\0");
    fail(&two, "ALTER");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_status("local_state_comment", "Synced");
    two.inner.wait_logged("because it was executed before");
    one.write("continues");
    two.wait_applied("continues");
}

/// Event that defines table `f` for the rows of `CREATE TABLE ... SELECT`, as the server writes it.
fn definition() -> String {
    let statement = b"CREATE TABLE `f` (\n  `a` int)";
    let mut event = vec![0; 4];
    event.extend([2, 1, 0, 0, 0, 0x50, 0, 0, 0, 0x50, 0, 0, 0, 0, 0]);
    event.extend([7, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    event.extend(b"demo\0");
    event.extend(statement);
    event[9] = event.len() as u8;
    String::from_utf8(event).unwrap()
}

/// The server makes the table durable by itself, and its engine's position need not follow: not
/// where the client was, nor if there were no rows. The statement after it may be durable, too.
#[test]
fn table_made_from_rows_before_a_kill_is_made_again() {
    let (one, two) = pair(2);
    let seqno = one.write("before");
    two.wait_applied("before");
    let uuid = one.inner.last_committed().uuid;
    let (dir, port) = two.stop();
    wait_size(&one, 1);
    one.write(&definition());
    let (status, _) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end(5), WSREP_OK);
    let stopped = std::fs::read_to_string(dir.join("grastate.dat")).unwrap();
    let killed = stopped.replace(&format!("seqno:   {seqno}"), "seqno:   -1");
    assert_ne!(killed, stopped);
    std::fs::write(dir.join("grastate.dat"), killed).unwrap();
    let two = Server::with("n2", &dir, port, wsrep_gtid_t { uuid, seqno }, "");
    two.fail_with(b" it is there already, Error_code: 1050;\0");
    two.on_apply(|action| {
        let makes = action.data.contains("CREATE TABLE `f`");
        match makes || action.data.starts_with("ALTER") {
            true => Verdict::Fail,
            false => Verdict::Commit,
        }
    });
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_status("local_state_comment", "Synced");
    let applied = two.applied();
    let again = applied.iter().find(|data| data.contains("demo\0CREATE"));
    let again = again.expect("the table");
    assert!(
        again.contains("CREATE OR REPLACE TABLE `f` (\n  `a` int)"),
        "{again:?}"
    );
    assert_eq!(
        again.as_bytes()[9] as usize,
        again.len(),
        "the size by its header"
    );
    assert!(two.inner.logged("because it was executed before"));
    // What was never executed here is applied as it is.
    one.write("continues");
    one.write(&definition());
    two.inner.until("leaving", |_| {
        two.inner
            .logged("it is there already, Error_code: 1050, success")
    });
}

/// A server that came back has found the decision in its log. A new leader knows nothing of it, and
/// would decide again, without those that answered then: they would take their data for other ones.
#[test]
fn failure_that_was_decided_before_a_restart_is_not_asked_about_again() {
    let (one, two) = pair(2);
    let seqno = one.write("before");
    two.wait_applied("before");
    fail(&two, "ALTER");
    let (status, meta) = one.inner.execute_start(5, "db");
    assert_eq!(status, WSREP_OK);
    assert_eq!(one.inner.execute_end_failed(5), WSREP_OK);
    let failed = Seen::FailedAlike {
        seqno: meta.gtid.seqno,
    };
    two.inner.until("failure", |seen| seen.contains(&failed));
    let (dir, port) = two.stop();
    wait_size(&one, 1);
    let uuid = meta.gtid.uuid;
    let two = Server::with("n2", &dir, port, wsrep_gtid_t { uuid, seqno }, "");
    fail(&two, "ALTER");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.inner.until("failure", |seen| seen.contains(&failed));
    two.wait_status("local_state_comment", "Synced");
    one.stop();
    wait_size(&two, 1);
    // Reports are repeated a few times a second.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        two.write("alone");
    }
    assert!(!two.inner.logged("asking the others"), "it was decided");
}

/// Here it does not fail on anybody else.
#[test]
fn server_on_which_an_action_fails_alone_again_has_other_data() {
    let (one, two) = pair(2);
    let odd = one.write("odd");
    one.write("later");
    two.wait_applied("later");
    let group = one.inner.last_committed().uuid;
    let (dir, port) = two.stop();
    let seqno = odd - 1;
    let before = wsrep_gtid_t { uuid: group, seqno };
    let two = Server::with("n2", &dir, port, before, "");
    fail(&two, "odd");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    has_left_whole(&two);
    assert!(two.applied().is_empty());
    wait_size(&one, 1);
    let two = two.restart("n2");
    fail(&two, "odd");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    has_left(&two);
    assert!(two.applied().is_empty());
    two.inner.wait_logged("failed to apply here 2 times");
    wait_size(&one, 1);
    one.write("continues");
    // The next start takes a copy.
    let two = two.restart("n2");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_synced(1);
    assert!(two.inner.seen().contains(&Seen::RequestedCopy));
}

/// Each decision stands in the log behind all these statements, and does not say how they ended
/// there.
#[test]
fn server_that_is_killed_after_many_failures_alike_has_the_same_data() {
    const MANY: u64 = 6;
    let [one, two, three] = trio("");
    let (two_may, three_may) = (fail_when_told(&two), fail_when_told(&three));
    let tell = |may: &Sender<()>| (0..MANY).for_each(|_| may.send(()).unwrap());
    let index = || one.status("synod_commit_index").parse::<u64>().unwrap();
    let before = index();
    let inner = one.inner;
    let clients = (0..MANY).map(|conn| {
        thread::spawn(move || {
            let (status, meta) = inner.execute_start(conn, "db");
            assert_eq!(
                (status, inner.execute_end_failed(conn)),
                (WSREP_OK, WSREP_OK)
            );
            meta.gtid
        })
    });
    let clients: Vec<_> = clients.collect();
    inner.until("all statements in the log", |_| index() >= before + MANY);
    tell(&two_may);
    let gtids = clients.into_iter().map(|client| client.join().unwrap());
    let gtids: Vec<wsrep_gtid_t> = gtids.collect();
    tell(&three_may);
    for gtid in &gtids {
        let failed = Seen::FailedAlike { seqno: gtid.seqno };
        three
            .inner
            .until("the failure", |seen| seen.contains(&failed));
    }
    let last = gtids.into_iter().max_by_key(|gtid| gtid.seqno).unwrap();
    let (dir, port) = three.stop();
    let three = Server::with("n3", &dir, port, last, "");
    assert_eq!(three.connect(&one.address(), false), WSREP_OK);
    three.add_applier();
    three.wait_status("local_state_comment", "Synced");
    one.write("continues");
    three.wait_applied("continues");
    assert!(!three.inner.seen().contains(&Seen::RequestedCopy));
}

/// The record of the failure is lost, and the engine counts what it has rolled back.
#[test]
fn server_whose_database_is_said_to_have_what_failed_there_has_other_data() {
    let [one, _two, three] = trio("");
    fail(&three, "odd");
    let seqno = one.write("odd");
    has_left_whole(&three);
    one.write("later");
    let uuid = one.inner.last_committed().uuid;
    let (dir, port) = three.stop();
    std::fs::remove_file(dir.join("synod-database.log")).unwrap();
    let three = Server::with("n3", &dir, port, wsrep_gtid_t { uuid, seqno }, "");
    assert_eq!(three.connect(&one.address(), false), WSREP_OK);
    three.add_applier();
    has_left(&three);
    three
        .inner
        .wait_logged("but the database is said to have it");
    wait_size(&one, 2);
    one.write("continues");
}

/// Want of something is no divergence, however often it shows.
#[test]
fn server_that_lacks_something_tries_until_it_has_it() {
    let (one, two) = pair(2);
    two.fail_with(b" The table 't' is full, Error_code: 1114;\0");
    fail(&two, "odd");
    one.write("odd");
    has_left_whole(&two);
    let mut two = two;
    for _ in 0..2 {
        two = two.restart("n2");
        two.fail_with(b" The table 't' is full, Error_code: 1114;\0");
        fail(&two, "odd");
        assert_eq!(two.connect(&one.address(), false), WSREP_OK);
        two.add_applier();
        has_left_whole(&two);
    }
    let two = two.restart("n2");
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_applied("odd");
    two.wait_synced(1);
    two.write("continues");
    one.wait_applied("continues");
}

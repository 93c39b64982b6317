//! Servers of a group of MySQL are killed, stopped and frozen under load: what was acknowledged is
//! on all of them exactly once, and the group comes back without a person.

use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::{self, Clients};
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19600;
const PUBLISHED_PORT: u16 = 19620;
/// Within this, another server is the writer. A busy machine takes most of it.
const FAILOVER_LIMIT: Duration = Duration::from_secs(10);
/// In this time, what was under way when servers froze comes to its end.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// Shorter than the limit of clients, so that their waits are seen.
const NOTHING_FOR: Duration = Duration::from_secs(3);

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn group_keeps_what_it_acknowledged_whichever_server_fails() -> Outcome {
    let mut group = MysqlGroup::new("failures", PORT)?;
    secondary_is_killed(&mut group).why("secondary killed")?;
    writer_ends(&mut group, "-KILL").why("writer killed")?;
    writer_ends(&mut group, "-TERM").why("writer stopped in order")?;
    all_are_killed(&mut group).why("all killed")?;
    both_secondaries_stop(&mut group).why("both secondaries stopped")?;
    servers_restart_one_by_one(&mut group).why("rolling restart")
}

fn secondary_is_killed(group: &mut MysqlGroup) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let [secondary, _] = others(writer);
    let at = Instant::now();
    group.servers[secondary].end("-KILL")?;
    clients.await_more(ROWS, PATIENCE)?;
    group.servers[secondary].start(&[])?;
    group.await_state(secondary, "replica")?;
    clients.await_more(ROWS, PATIENCE)?;
    let answers = clients.finish();
    eprintln!(
        "secondary killed: {:?} at most without a commit",
        answers.longest_gap_after(at)
    );
    answers.check(group)
}

/// Another server becomes the writer, and this one comes back behind it.
fn writer_ends(group: &mut MysqlGroup, signal: &str) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let at = Instant::now();
    group.servers[writer].end(signal)?;
    let (_, took) = group.await_writer(&others(writer))?;
    clients.await_more(ROWS, PATIENCE)?;
    group.servers[writer].start(&[])?;
    group.await_state(writer, "replica")?;
    clients.await_more(ROWS, PATIENCE)?;
    let answers = clients.finish();
    let gap = answers.longest_gap_after(at);
    eprintln!("writer, {signal}: another after {took:?}, {gap:?} at most without a commit");
    answers.check(group)?;
    ensure(took <= FAILOVER_LIMIT, || {
        format!("another writer after {took:?} only")
    })
}

fn all_are_killed(group: &mut MysqlGroup) -> Outcome {
    let (_, clients) = under_load(group)?;
    for server in &mut group.servers {
        server.end("-KILL")?;
    }
    let at = Instant::now();
    for server in &mut group.servers {
        server.start(&[])?;
    }
    group.await_whole()?;
    eprintln!("all killed: back {:?} after their start", at.elapsed());
    clients.await_more(ROWS, PATIENCE)?;
    clients.finish().check(group)
}

/// Nothing is acknowledged without a majority; a client that waits can be killed.
fn both_secondaries_stop(group: &mut MysqlGroup) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let before = freeze_secondaries(group, writer, &clients)?;
    let port = group.servers[writer].port;
    let mut waiting = mysql_clients::connect(port).why("a client that waits")?;
    let id: Option<u64> = waiting
        .query_first("SELECT CONNECTION_ID()")
        .why("its id")?;
    let id = id.unwrap_or_default();
    let insert = "INSERT INTO e2e.written (id) VALUES (1)";
    let waits = thread::spawn(move || waiting.query_drop(insert));
    let (find, kill) = (
        format!(
            "SELECT 1 FROM performance_schema.processlist WHERE id = {id} AND info IS NOT NULL"
        ),
        format!("KILL QUERY {id}"),
    );
    let is_there = || {
        let rows = group.servers[writer].rows(&find).unwrap_or_default();
        (!rows.is_empty()).then_some(())
    };
    ensure(wait_for(PATIENCE, is_there).is_some(), || {
        "the client does not wait".to_owned()
    })?;
    let killed = Instant::now();
    group.servers[writer].execute(&[&kill])?;
    let answer = waits
        .join()
        .map_err(|_| synod_e2e::Failure("the client panicked".into()))?;
    eprintln!(
        "both secondaries stopped: KILL took {:?}: {answer:?}",
        killed.elapsed()
    );
    ensure(matches!(answer, Err(mysql::Error::MySqlError(_))), || {
        format!("the killed client has got {answer:?}, and no error of the server")
    })?;
    ensure_nothing_since(before, &clients)?;
    for secondary in others(writer) {
        group.servers[secondary].end("-KILL")?;
        group.servers[secondary].start(&[])?;
    }
    group.await_whole()?;
    clients.await_more(ROWS, PATIENCE)?;
    clients.finish().check(group)
}

fn servers_restart_one_by_one(group: &mut MysqlGroup) -> Outcome {
    let (_, clients) = under_load(group)?;
    let at = Instant::now();
    for server in 0..3 {
        group.servers[server].end("-TERM")?;
        group.servers[server].start(&[])?;
        group.await_whole()?;
        clients.await_more(ROWS, PATIENCE)?;
    }
    let answers = clients.finish();
    eprintln!(
        "rolling restart: {:?} at most without a commit",
        answers.longest_gap_after(at)
    );
    answers.check(group)
}

/// The case in which asynchronous acknowledgements lose all: the secondaries have stopped before
/// they wrote anything, and the writer dies.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn nothing_is_lost_when_the_secondaries_stopped_before_the_writer_died() -> Outcome {
    let mut group = MysqlGroup::new("published", PUBLISHED_PORT)?;
    published_case(&mut group, "-KILL").why("all are started again")?;
    published_case(&mut group, "-CONT").why("the secondaries continue")
}

/// `then`: signal for the secondaries after the death of the writer.
fn published_case(group: &mut MysqlGroup, then: &str) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let before = freeze_secondaries(group, writer, &clients)?;
    ensure_nothing_since(before, &clients)?;
    group.servers[writer].end("-KILL")?;
    let at = Instant::now();
    for secondary in others(writer) {
        if then == "-CONT" {
            group.servers[secondary].signal(then)?;
        } else {
            group.servers[secondary].end(then)?;
            group.servers[secondary].start(&[])?;
        }
    }
    group.servers[writer].start(&[])?;
    group.await_whole()?;
    let back = at.elapsed();
    clients.await_more(ROWS, PATIENCE)?;
    eprintln!("published case, {then}: back after {back:?}");
    clients.finish().check(group)
}

/// Stops both secondaries; the number of rows that were acknowledged before.
fn freeze_secondaries(group: &MysqlGroup, writer: usize, clients: &Clients) -> Outcome<u64> {
    for secondary in others(writer) {
        group.servers[secondary].signal("-STOP")?;
    }
    thread::sleep(UNDER_WAY);
    Ok(clients.count())
}

fn ensure_nothing_since(before: u64, clients: &Clients) -> Outcome {
    thread::sleep(NOTHING_FOR);
    let more = clients.count() - before;
    ensure(more == 0, || {
        format!("{more} rows were acknowledged by one server of three")
    })
}

//! `synod.commit_wait=applied`: what one server acknowledges is seen at once on all others, without
//! `wsrep_sync_wait`; a server that stands still does not stop commits for longer than
//! `evs.suspect_timeout`; and a client that waits holds up no other statement.

use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use synod_e2e::programs::signal;
use synod_e2e::read_your_writes::{Clients, Tally};
use synod_e2e::{Failure, Outcome, Shared, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("commit-wait", 21706);

const ALL: [u8; 3] = [1, 2, 3];
/// Readers of each server, of each way to read.
const READERS: u8 = 2;
/// So many plain reads show what the option does.
const READS: u64 = 4000;
/// Clients that write while a server stands still, and the rows of each.
const WRITERS: usize = 4;
const ROWS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest time for what waits for nothing, on a busy machine; `evs.suspect_timeout` is 5 s.
const AT_ONCE: Duration = Duration::from_secs(2);

fn set_everywhere(cluster: &TestCluster, wait: &str) -> Outcome {
    for node in ALL {
        set(cluster, node, wait)?;
    }
    Ok(())
}

fn set(cluster: &TestCluster, node: u8, wait: &str) -> Outcome {
    let sql = format!("SET GLOBAL wsrep_provider_options = 'synod.commit_wait={wait}'");
    cluster.execute(node, &sql)?;
    let in_force = wait_for(PATIENCE, || {
        (cluster.synod_status(node, "commit_wait").ok()? == wait).then_some(())
    });
    in_force.ok_or_else(|| Failure(format!("node{node} does not show commit_wait {wait}")))
}

/// Writers and readers of all servers, until enough plain reads were answered.
fn plain_reads(cluster: &TestCluster, name: &str) -> Outcome<Tally> {
    let clients = Clients::start(cluster, name, READERS)?;
    let enough = wait_for(PATIENCE, || (clients.plain_reads() >= READS).then_some(()));
    let (_, plain) = clients.finish();
    enough.ok_or_else(|| Failure(format!("too few reads in {PATIENCE:?}: {plain}")))?;
    Ok(plain)
}

#[test]
fn plain_reads_elsewhere_show_what_was_acknowledged() {
    CLUSTER.scenario("reads elsewhere", |cluster| {
        set_everywhere(cluster, "applied")?;
        let waited = plain_reads(cluster, "applied")?;
        eprintln!("  synod.commit_wait=applied: {waited}");
        eprintln!("  waits: {}", cluster.synod_status(1, "commit_applied")?);
        set_everywhere(cluster, "durable")?;
        let unwaited = plain_reads(cluster, "durable")?;
        eprintln!("  synod.commit_wait=durable: {unwaited}");
        ensure(waited.stale == 0, || {
            format!("stale reads: {waited}; {:?}", waited.example)
        })?;
        ensure(unwaited.stale > 0, || {
            format!("this test sees no stale reads: {unwaited}")
        })?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn definitions_are_there_at_once_on_all_servers() {
    CLUSTER.scenario("definitions elsewhere", |cluster| {
        set_everywhere(cluster, "applied")?;
        let mut origin = cluster.connect(1)?;
        let mut others = [cluster.connect(2)?, cluster.connect(3)?];
        for round in 0..100 {
            let table = format!("e2e_data.defined{round}");
            let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY)");
            origin.query_drop(create).why("creating")?;
            for other in &mut others {
                let select = format!("SELECT COUNT(*) FROM {table}");
                other.query_drop(select).why("a table created elsewhere")?;
            }
            origin
                .query_drop(format!("DROP TABLE {table}"))
                .why("dropping")?;
        }
        set_everywhere(cluster, "durable")
    });
}

#[test]
fn server_that_stands_still_is_excluded_and_those_that_wait_hold_nothing_up() {
    CLUSTER.scenario("a server stands still", |cluster| {
        set_everywhere(cluster, "applied")?;
        let create = "CREATE OR REPLACE TABLE e2e_data.still (id INT PRIMARY KEY, v INT)";
        cluster.execute(1, create)?;
        let still = cluster.follower();
        let origin = cluster.others(still)[0];
        let clients: Vec<Conn> = (0..WRITERS)
            .map(|_| cluster.connect(origin))
            .collect::<Outcome<_>>()?;
        let watcher = cluster.connect(origin)?;
        let killed = cluster.connect(origin)?;
        signal(cluster, still, "-STOP")?;
        let written = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(clients)
                .map(|(writer, client)| scope.spawn(move || write(client, writer)))
                .collect();
            let id = killed.connection_id();
            scope.spawn(move || insert_and_be_killed(killed));
            let watched = nothing_is_held_up(watcher, id);
            let written: Vec<Outcome> = threads.into_iter().map(joined).collect();
            written.into_iter().chain([watched]).collect::<Outcome>()
        });
        // Whatever happened, no server stays behind that stands still.
        signal(cluster, still, "-CONT")?;
        written?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        let insert = "INSERT INTO e2e_data.still VALUES (1000, 0)";
        cluster.execute(origin, insert)?;
        for node in ALL {
            let rows = cluster.rows(node, "SELECT COUNT(*) FROM e2e_data.still")?;
            ensure(rows == ["82"], || format!("node{node} has {rows:?} rows"))?;
        }
        set_everywhere(cluster, "durable")
    });
}

/// Inserts rows, each of which waits for the server that stands still, or for its exclusion.
fn write(mut client: Conn, writer: u64) -> Outcome {
    for row in 0..ROWS {
        let id = writer * 100 + row;
        let insert = format!("INSERT INTO e2e_data.still VALUES ({id}, 0)");
        client.query_drop(insert).why("a write meanwhile")?;
    }
    Ok(())
}

/// Its client may get either answer.
fn insert_and_be_killed(mut client: Conn) {
    let _ = client.query_drop("INSERT INTO e2e_data.still VALUES (900, 0)");
}

/// While clients wait: their rows are seen and not locked, and their sessions can be listed and
/// killed.
fn nothing_is_held_up(mut watcher: Conn, killed: u32) -> Outcome {
    let before = exclusions(&mut watcher)?;
    let seen = wait_for(PATIENCE, || {
        let ids = "SELECT id FROM e2e_data.still";
        let rows: Vec<u64> = watcher.query(ids).ok()?;
        (rows.len() > 1 && rows.contains(&900)).then_some(())
    });
    seen.ok_or_else(|| Failure("no row was seen".into()))?;
    let lock = "SELECT id FROM e2e_data.still FOR UPDATE";
    let locked: Vec<u64> = watcher.query(lock).why("locking rows")?;
    ensure(!locked.is_empty(), || "no row was locked".into())?;
    watcher.query_drop("SHOW PROCESSLIST").why("listing")?;
    let began = Instant::now();
    watcher
        .query_drop(format!("KILL QUERY {killed}"))
        .why("killing")?;
    let took = began.elapsed();
    ensure(took < AT_ONCE, || format!("a kill took {took:?}"))?;
    let after = exclusions(&mut watcher)?;
    ensure(before == after, || {
        "rows or the list of sessions came only when the clients did not wait any more".into()
    })
}

fn exclusions(watcher: &mut Conn) -> Outcome<String> {
    let show = "SHOW STATUS LIKE 'wsrep_synod_commit_wait_exclusions'";
    let shown: Option<(String, String)> = watcher.query_first(show).why(show)?;
    let (_, count) = shown.ok_or_else(|| Failure(format!("{show} shows nothing")))?;
    Ok(count)
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, Outcome>) -> Outcome {
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure("a client panicked".into())))
}

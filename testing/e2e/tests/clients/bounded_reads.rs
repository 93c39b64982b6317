//! `synod.max_staleness`: a read with `wsrep_sync_wait` does not wait while its server can prove to
//! be recent enough, shows what the bound says, and otherwise waits and fails as without it. And
//! reads that wait for one write, by its token.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Error};
use synod_e2e::programs::signal;
use synod_e2e::{Failure, Outcome, Shared, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("bounded-reads", 24706);

const ALL: [u8; 3] = [1, 2, 3];
const BOUND: Duration = Duration::from_secs(3);
/// Reads one after the other: far more than there are questions in their time.
const READS: u64 = 1000;
const COUNT: &str = "SELECT COUNT(*) FROM e2e_data.bounded";
/// `ER_LOCK_WAIT_TIMEOUT`: the answer to a causal read that has waited too long.
const TIMEOUT: u16 = 1205;
/// `ER_UNKNOWN_COM_ERROR`: the server hears no majority.
const NOT_READY: u16 = 1047;
/// `ER_INCORRECT_GTID_STATE`: the text is not one of a GTID.
const NOT_A_GTID: u16 = 1941;
const PATIENCE: Duration = Duration::from_secs(60);

fn set(cluster: &TestCluster, node: u8, options: &str) -> Outcome {
    let sql = format!("SET GLOBAL wsrep_provider_options = '{options}'");
    cluster.execute(node, &sql)
}

fn reads_that_waited(cluster: &TestCluster, node: u8) -> Outcome<u64> {
    let sql = "SELECT variable_value FROM information_schema.global_status
               WHERE variable_name = 'wsrep_causal_reads'";
    let shown = cluster.rows(node, sql)?.join("");
    shown.parse().why(shown)
}

fn causal_reader(cluster: &TestCluster, node: u8) -> Outcome<Conn> {
    let mut reader = cluster.connect(node)?;
    let causal = "SET wsrep_sync_wait = 1";
    reader.query_drop(causal).why(causal)?;
    Ok(reader)
}

#[test]
fn reads_with_a_bound_do_not_wait_and_stop_at_it() {
    CLUSTER.scenario("a bound", |cluster| {
        let (slow, writer) = (cluster.follower(), cluster.leader());
        let create = "CREATE OR REPLACE TABLE e2e_data.bounded (id INT PRIMARY KEY)";
        cluster.execute(writer, create)?;
        set(
            cluster,
            slow,
            "synod.max_staleness=3;repl.causal_read_timeout=PT0.5S",
        )?;
        let mut reader = causal_reader(cluster, slow)?;
        let before = reads_that_waited(cluster, slow)?;
        for _ in 0..READS {
            let rows: Option<u64> = reader.query_first(COUNT).why(COUNT)?;
            ensure(rows == Some(0), || format!("{rows:?} rows"))?;
        }
        let waited = reads_that_waited(cluster, slow)? - before;
        eprintln!("  {waited} of {READS} reads waited");
        ensure(waited < READS / 10, || {
            format!("{waited} of {READS} reads have waited")
        })?;

        let mut lock = cluster.connect(slow)?;
        lock.query_drop("FLUSH TABLES WITH READ LOCK").why("lock")?;
        let insert = "INSERT INTO e2e_data.bounded VALUES (1)";
        cluster.execute(writer, insert)?;
        reads_stop(&mut reader, Instant::now())?;
        let age: u128 = {
            let shown = cluster.synod_status(slow, "staleness_ms")?;
            shown.parse().why(shown)?
        };
        ensure(age > BOUND.as_millis(), || format!("{age} ms are proven"))?;
        set(cluster, slow, "repl.causal_read_timeout=PT30S")?;
        lock.query_drop("UNLOCK TABLES").why("unlock")?;
        let rows: Option<u64> = reader.query_first(COUNT).why(COUNT)?;
        ensure(rows == Some(1), || format!("{rows:?} rows after the lag"))?;
        set(cluster, slow, "synod.max_staleness=0")?;
        agreement::check(cluster, &ALL)
    });
}

/// Reads on a server that has not applied a row acknowledged at this time: they lack it for no
/// longer than the bound.
fn reads_stop(reader: &mut Conn, acknowledged: Instant) -> Outcome {
    let mut without = 0;
    loop {
        let began = Instant::now();
        match reader.query_first::<u64, _>(COUNT) {
            Ok(Some(0)) => without += 1,
            Err(Error::MySqlError(error)) if error.code == TIMEOUT => break,
            other => return Err(Failure(format!("{other:?}"))),
        }
        ensure(began <= acknowledged + BOUND, || {
            format!(
                "a read lacks a row acknowledged {:?} before it",
                began - acknowledged
            )
        })?;
    }
    eprintln!("  {without} reads lacked the row");
    ensure(without > 0, || "no read relied on the bound".to_owned())
}

#[test]
fn bound_that_cannot_be_reached_is_explained() {
    CLUSTER.scenario("an unreachable bound", |cluster| {
        let server = cluster.follower();
        for (value, why) in [
            ("-1", "cannot be '-1': expected an ISO 8601 duration"),
            (
                "0.0001",
                "cannot be '0.0001': it must be PT0S, or at least 1ms",
            ),
        ] {
            let refused = set(cluster, server, &format!("synod.max_staleness={value}"));
            ensure(refused.is_err(), || format!("{value} is taken"))?;
            cluster.await_line(server, &format!("'synod.max_staleness' {why}"))?;
        }
        let mut client = cluster.connect(server)?;
        let others = cluster.others(server);
        for other in &others {
            signal(cluster, *other, "-STOP")?;
        }
        let warned = warnings_of(&mut client, "synod.max_staleness=100ms");
        for other in &others {
            signal(cluster, *other, "-CONT")?;
        }
        let warned = warned?;
        ensure(
            warned.contains("did not answer this server within half of it (50 ms)"),
            || format!("warnings: {warned}"),
        )?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        let quiet = wait_for(PATIENCE, || {
            // A statement without warnings leaves those of the one before.
            let mut client = cluster.connect(server).ok()?;
            let warned = warnings_of(&mut client, "synod.max_staleness=10").ok()?;
            warned.is_empty().then_some(())
        });
        ensure(quiet.is_some(), || "10 s are not reached".to_owned())?;
        set(cluster, server, "synod.max_staleness=0")
    });
}

#[test]
fn reads_fail_in_time_where_the_majority_is_lost() {
    CLUSTER.scenario("no majority", |cluster| {
        let server = cluster.follower();
        let mut causal = causal_reader(cluster, server)?;
        let mut plain = cluster.connect(server)?;
        let others = cluster.others(server);
        for other in &others {
            signal(cluster, *other, "-STOP")?;
        }
        let began = Instant::now();
        let codes = (error_of(&mut causal), error_of(&mut plain));
        let took = began.elapsed();
        for other in &others {
            signal(cluster, *other, "-CONT")?;
        }
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
        eprintln!("  {codes:?} after {took:?}");
        ensure(codes == (Some(TIMEOUT), Some(NOT_READY)), || {
            format!("{codes:?}")
        })?;
        ensure(took < PATIENCE / 2, || format!("after {took:?}"))
    });
}

/// Number of the first error of reads one after the other; none: they have no other answer.
fn error_of(reader: &mut Conn) -> Option<u16> {
    wait_for(PATIENCE, || {
        match reader.query_first::<u64, _>("SELECT COUNT(*) FROM mysql.user") {
            Err(Error::MySqlError(error)) => Some(error.code),
            Ok(_) | Err(_) => None,
        }
    })
}

/// The servers answer these by themselves, from what the library has released.
#[test]
fn token_of_a_write_is_waited_for_elsewhere() {
    CLUSTER.scenario("tokens", |cluster| {
        let (slow, writer) = (cluster.follower(), cluster.leader());
        let mut client = cluster.connect(writer)?;
        client
            .query_drop("CREATE OR REPLACE TABLE e2e_data.tokens (id INT PRIMARY KEY)")
            .why("a table")?;
        let mut lock = cluster.connect(slow)?;
        lock.query_drop("FLUSH TABLES WITH READ LOCK").why("lock")?;
        let insert = "INSERT INTO e2e_data.tokens VALUES (1)";
        client.query_drop(insert).why(insert)?;
        let token: Option<String> = client
            .query_first("SELECT WSREP_LAST_WRITTEN_GTID()")
            .why("a token")?;
        let token = token.unwrap_or_default();
        let mut reader = cluster.connect(slow)?;
        let mut wait = |token: &str, seconds: u8| -> Outcome<Option<u16>> {
            let sql = format!("SELECT WSREP_SYNC_WAIT_UPTO_GTID('{token}', {seconds})");
            match reader.query_first::<u8, _>(&sql) {
                Ok(Some(1)) => Ok(None),
                Err(Error::MySqlError(error)) => Ok(Some(error.code)),
                other => Err(Failure(format!("{sql}: {other:?}"))),
            }
        };
        let future = format!("{}999", token);
        for (token, seconds, code) in [
            (token.as_str(), 1, Some(TIMEOUT)),
            (future.as_str(), 1, Some(TIMEOUT)),
            ("no token", 1, Some(NOT_A_GTID)),
        ] {
            let answer = wait(token, seconds)?;
            ensure(answer == code, || format!("'{token}': {answer:?}"))?;
        }
        lock.query_drop("UNLOCK TABLES").why("unlock")?;
        let answer = wait(&token, 60)?;
        ensure(answer.is_none(), || format!("'{token}': {answer:?}"))?;
        // The server may say so a moment before the row is seen (docs/operating/settings.md).
        let is_there = || {
            let rows = cluster.rows(slow, "SELECT id FROM e2e_data.tokens").ok()?;
            (rows == ["1"]).then_some(())
        };
        let seen = wait_for(Duration::from_secs(1), is_there);
        ensure(seen.is_some(), || "the row is not there".to_owned())
    });
}

/// Sets an option; the warnings that its client gets.
fn warnings_of(client: &mut Conn, option: &str) -> Outcome<String> {
    let sql = format!("SET GLOBAL wsrep_provider_options = '{option}'");
    client.query_drop(&sql).why(&sql)?;
    let shown: Vec<(String, u16, String)> = client.query("SHOW WARNINGS").why("warnings")?;
    Ok(shown.into_iter().map(|(_, _, text)| text).collect())
}

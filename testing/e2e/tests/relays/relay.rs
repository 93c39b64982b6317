//! Three servers, two relays, and a stock replica: what the group commits arrives there, whichever
//! member is killed meanwhile, and `mariadb-binlog` reads the same from both relays.

use std::process::Command;
use std::time::Duration;

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::programs::output_of;
use synod_e2e::relay::Relay;
use synod_e2e::replica::Replica;
use synod_e2e::{Failure, Outcome, TestCluster, Why, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 29106;
const SERVERS: [u8; 3] = [1, 2, 3];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Commits that show that a group serves.
const SOME: u64 = 300;

#[test]
fn replica_follows_the_group_through_relays() -> Outcome {
    let (mut cluster, secret) = TestCluster::with_secret("relay", BASE_PORT, 3)?;
    let mut relays = [1, 2].map(|number| Relay::beside(&cluster, number, &secret));
    let [Ok(first), Ok(second)] = &mut relays else {
        return relays.into_iter().try_for_each(|relay| relay.map(|_| ()));
    };
    let replica = Replica::beside(&cluster)?;
    let outcome = follow(&mut cluster, first, second, &replica);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
        eprintln!("replica:\n{}", replica.says());
        eprintln!("relays:\n{}\n{}", first.says(), second.says());
    }
    outcome
}

fn follow(
    cluster: &mut TestCluster,
    first: &mut Relay,
    second: &mut Relay,
    replica: &Replica,
) -> Outcome {
    let mut check = Command::new(place::program()?);
    check.args(["relay", "--config"]).arg(first.file());
    output_of(check.arg("--check"), "synod relay --check")?;
    statements_without_notes(cluster)?;
    first.join()?;
    second.encrypt()?;
    second.join()?;
    replica.follow(first)?;
    let writers = Writers::start(cluster, "relayed", &SERVERS, 2)?;
    writers.await_more(SOME, PATIENCE)?;
    change_schema(cluster)?;
    stream(cluster)?;
    writers.await_more(SOME, PATIENCE)?;
    fail_statements(cluster)?;
    let tables = ["before", "ddl", "ddl_rows", "streamed", "some"];
    await_same_tables(cluster, replica, &tables)?;
    die_amid_a_statement(cluster, replica)?;
    no_failed_statement(first)?;

    // The relay: the replica comes again by itself, with its GTID.
    first.kill()?;
    writers.await_more(SOME, PATIENCE)?;
    first.join()?;
    replica.await_connection()?;
    writers.await_more(SOME, PATIENCE)?;

    // Another relay has the same GTIDs. It encrypts, and the replica wishes to acknowledge.
    replica.execute(&["SET GLOBAL rpl_semi_sync_slave_enabled = ON"])?;
    replica.follow(second)?;
    let state = replica.rows("SHOW STATUS LIKE 'Rpl_semi_sync_slave_status'")?;
    ensure(state == ["Rpl_semi_sync_slave_status\tON"], || {
        format!("the replica's wish is not taken: {state:?}")
    })?;
    first.stop()?;
    writers.await_more(SOME, PATIENCE)?;

    // The leader of the group.
    let leader = cluster.leader();
    cluster.kill(leader).why("killing the leader")?;
    writers.await_more(SOME, PATIENCE)?;
    stream(cluster)?;
    let report = writers.finish();
    cluster
        .spawn(leader, false)
        .why("starting the former leader")?;
    cluster
        .await_synced(&SERVERS, &|_, _| ())
        .why("after the leader was killed")?;
    report.check_rows(cluster, &SERVERS)?;
    // Its fragments follow each other now.
    stream(cluster)?;
    let tables = [
        "relayed", "before", "ddl", "ddl_rows", "streamed", "some", "slow",
    ];
    await_same_tables(cluster, replica, &tables)?;

    first.join()?;
    let gtids = same_gtids(first, second)?;
    begin_amid_a_stream(first, &gtids)?;
    refusals(second)?;
    first.stop()?;
    second.stop()
}

/// A connection of a server that is up.
fn connect(cluster: &TestCluster) -> Outcome<mysql::Conn> {
    cluster.connect(cluster.leader())
}

/// A statement that fails while the group has no relay: its outcome is not noted.
fn statements_without_notes(cluster: &TestCluster) -> Outcome {
    let mut conn = connect(cluster)?;
    run(
        &mut conn,
        &[
            "CREATE TABLE e2e_data.before (id INT PRIMARY KEY)",
            "INSERT INTO e2e_data.before VALUES (1), (2)",
        ],
    )?;
    must_fail(&mut conn, &["CREATE TABLE e2e_data.before (id INT)"])
}

/// Statements that fail on all servers, and are in the log. A replica that executed them would
/// empty a table, or stop.
const FAILING: [&str; 12] = [
    "CREATE TABLE e2e_data.ddl (id INT)",
    "--\n-- Table of a dump\n--\nCREATE TABLE e2e_data.ddl (id INT, dumped INT)",
    "SET STATEMENT lock_wait_timeout = 5 FOR CREATE TABLE e2e_data.ddl (id INT, waits INT)",
    "DROP DATABASE e2e_missing",
    "/* x */ create table e2e_data.ddl LIKE e2e_data.streamed",
    "CREATE DATABASE e2e_data",
    "ALTER TABLE e2e_data.ddl ADD COLUMN v INT",
    "CREATE INDEX i ON e2e_data.ddl (missing)",
    "DROP TABLE e2e_data.missing",
    "CREATE TRIGGER e2e_data.counts BEFORE UPDATE ON e2e_data.ddl FOR EACH ROW SET NEW.n = 9",
    // These do a part of their work.
    "DROP TABLE e2e_data.goes, e2e_data.missing",
    "CREATE USER relayed_new, relayed_known",
];

fn fail_statements(cluster: &TestCluster) -> Outcome {
    let mut conn = connect(cluster)?;
    run(
        &mut conn,
        &[
            "CREATE TABLE e2e_data.goes (id INT PRIMARY KEY)",
            "CREATE TABLE e2e_data.some (id INT PRIMARY KEY, n INT)",
            "INSERT INTO e2e_data.some VALUES (1, 1)",
            "CREATE USER relayed_known",
        ],
    )?;
    must_fail(&mut conn, &FAILING)?;
    // Rows after them show that the replica has passed them.
    run(&mut conn, &["INSERT INTO e2e_data.some VALUES (2, 2)"])
}

fn run(conn: &mut mysql::Conn, statements: &[&str]) -> Outcome {
    use mysql::prelude::Queryable;
    let mut statements = statements.iter();
    statements.try_for_each(|sql| conn.query_drop(sql).why(sql))
}

fn must_fail(conn: &mut mysql::Conn, statements: &[&str]) -> Outcome {
    use mysql::prelude::Queryable;
    statements.iter().try_for_each(|sql| {
        let failed = conn.query_drop(sql).is_err();
        ensure(failed, || format!("it has not failed: {sql}"))
    })
}

/// A statement that failed as a whole does not come out; one that did a part of its work does.
fn no_failed_statement(relay: &Relay) -> Outcome {
    let text = relay.binlog(&["synod.0"])?;
    let (whole, part) = FAILING.split_at(FAILING.len() - 2);
    for sql in whole {
        ensure(!text.contains(sql), || format!("readers get: {sql}"))?;
    }
    let dropped = part[0].replace("TABLE ", "TABLE IF EXISTS ");
    let is_there = text.contains(&dropped) && text.contains(part[1]);
    ensure(is_there, || "a part of the work is missing".to_owned())?;
    let harmless = "CREATE TABLE IF NOT EXISTS e2e_data.before (id INT)";
    ensure(text.contains(harmless), || {
        "a statement of unknown outcome is missing".to_owned()
    })
}

/// The origin of a statement dies while it executes: its outcome is not noted, and readers do not
/// wait for it.
fn die_amid_a_statement(cluster: &mut TestCluster, replica: &Replica) -> Outcome {
    use mysql::prelude::Queryable;
    // Some seconds: a long text is made and hashed for each row.
    const SLOW: &str = "ALTER TABLE e2e_data.slow ADD COLUMN late INT \
                        DEFAULT (LENGTH(SHA2(REPEAT(id, 8000000), 512)))";
    let leader = cluster.leader();
    let origin = SERVERS.into_iter().find(|server| *server != leader);
    let origin = origin.unwrap_or(leader);
    let mut conn = cluster.connect(origin)?;
    run(
        &mut conn,
        &[
            "CREATE TABLE e2e_data.slow (id INT PRIMARY KEY)",
            "INSERT INTO e2e_data.slow SELECT seq FROM e2e_data.seq_1_to_60",
        ],
    )?;
    let client = std::thread::spawn(move || conn.query_drop(SLOW).is_ok());
    let executes = wait_for(PATIENCE, || {
        // Only what is ordered, and has its turn, gets to that.
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE \
                   state = 'copy to tmp table'";
        let counted = cluster.rows(origin, sql).ok()?;
        (counted != ["0"]).then_some(())
    });
    ensure(executes.is_some(), || {
        "the statement never began".to_owned()
    })?;
    cluster.kill(origin).why("killing the origin")?;
    let answered = client.join().unwrap_or(true);
    ensure(!answered, || {
        "it ended before its server was killed".to_owned()
    })?;
    let columns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 'slow' AND \
                   column_name = 'late'";
    let arrives = wait_for(PATIENCE, || {
        (replica.rows(columns).ok()? == ["1"]).then_some(())
    });
    ensure(arrives.is_some(), || {
        "the replica waits for the outcome".to_owned()
    })?;
    cluster
        .spawn(origin, false)
        .why("starting the origin again")?;
    cluster
        .await_synced(&SERVERS, &|_, _| ())
        .why("after the origin was killed")
}

/// Statements of all kinds, with one that fails on all servers: the table is there already.
fn change_schema(cluster: &TestCluster) -> Outcome {
    use mysql::prelude::Queryable;
    let mut conn = connect(cluster)?;
    for sql in [
        "CREATE TABLE e2e_data.ddl (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO e2e_data.ddl VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "ALTER TABLE e2e_data.ddl ADD COLUMN n INT DEFAULT 7",
        "CREATE TRIGGER e2e_data.counts BEFORE UPDATE ON e2e_data.ddl FOR EACH ROW SET NEW.n = 8",
        "UPDATE e2e_data.ddl SET v = 'changed' WHERE id > 1",
        "CREATE TABLE e2e_data.ddl_rows AS SELECT * FROM e2e_data.ddl",
        "CREATE TABLE e2e_data.streamed (id SERIAL, v VARCHAR(100))",
    ] {
        conn.query_drop(sql).why(sql)?;
    }
    let repeated = conn.query_drop("CREATE TABLE e2e_data.ddl (id INT)");
    ensure(repeated.is_err(), || "the table was made twice".to_owned())
}

/// A streamed transaction that commits, and one that is rolled back.
fn stream(cluster: &TestCluster) -> Outcome {
    use mysql::prelude::Queryable;
    let mut conn = connect(cluster)?;
    let rows = "INSERT INTO e2e_data.streamed (v) SELECT REPEAT('x', 80) FROM e2e_data.seq_1_to_90";
    for sql in [
        "SET SESSION wsrep_trx_fragment_unit = 'rows'",
        "SET SESSION wsrep_trx_fragment_size = 7",
        "BEGIN",
        rows,
        "UPDATE e2e_data.streamed SET v = CONCAT(v, 'y') WHERE id % 3 = 0",
        "COMMIT",
        "BEGIN",
        rows,
        "ROLLBACK",
    ] {
        conn.query_drop(sql).why(sql)?;
    }
    Ok(())
}

/// The replica gets what the group has.
fn await_same_tables(cluster: &TestCluster, replica: &Replica, tables: &[&str]) -> Outcome {
    let names: Vec<String> = tables
        .iter()
        .map(|name| format!("e2e_data.{name}"))
        .collect();
    // Tables that take rows meanwhile are left to the end of the load.
    let sql = format!("CHECKSUM TABLE {}", names.join(", "));
    let mut found = (Vec::new(), Vec::new());
    let same = wait_for(PATIENCE, || {
        found = (
            cluster.rows(cluster.leader(), &sql).ok()?,
            replica.rows(&sql).ok()?,
        );
        (found.0 == found.1).then_some(())
    });
    ensure(same.is_some(), || {
        format!("the group has {:?}, the replica {:?}", found.0, found.1)
    })
}

/// Both relays give the same transactions the same GTIDs, in ascending order.
fn same_gtids(first: &Relay, second: &Relay) -> Outcome<Vec<String>> {
    let mut both = (Vec::new(), Vec::new());
    let same = wait_for(PATIENCE, || {
        both = (first.gtids().ok()?, second.gtids().ok()?);
        (!both.0.is_empty() && both.0 == both.1).then_some(())
    });
    ensure(same.is_some(), || {
        format!("{} and {} transactions", both.0.len(), both.1.len())
    })?;
    let sequences = sequences(&both.0);
    let ascend = sequences.windows(2).all(|pair| pair[0] < pair[1]);
    ensure(ascend && sequences.len() == both.0.len(), || {
        format!("GTIDs do not ascend: {:?}", both.0)
    })?;
    // From a GTID on: what follows it, and nothing else.
    let middle = &both.0[both.0.len() / 2];
    let rest = first.binlog(&[&format!("--start-position={middle}"), "synod.0"])?;
    let count = rest.matches("\tGTID ").count();
    let expected = both.0.len() - both.0.len() / 2 - 1;
    ensure(count == expected, || {
        format!("{count} transactions after {middle}, not {expected}")
    })?;
    Ok(both.0)
}

fn sequences(gtids: &[String]) -> Vec<u64> {
    let sequence = |gtid: &String| gtid.rsplit('-').next()?.parse().ok();
    gtids.iter().filter_map(sequence).collect()
}

/// A reader that begins between the fragments of a streamed transaction gets all of it.
fn begin_amid_a_stream(relay: &Relay, gtids: &[String]) -> Outcome {
    const FRAGMENTS: u64 = 10;
    let sequences = sequences(gtids);
    let mut pairs = sequences.windows(2).rev();
    let commit = pairs
        .find(|pair| pair[1] - pair[0] > FRAGMENTS)
        .map(|pair| pair[1]);
    let Some(commit) = commit else {
        return Err(Failure("no transaction was streamed".to_owned()));
    };
    let (group, _) = gtids[0].rsplit_once('-').unwrap_or_default();
    let rows_after = |sequence: u64| -> Outcome<Vec<String>> {
        let start = format!("--start-position={group}-{sequence}");
        let text = relay.binlog(&["-v", "--base64-output=DECODE-ROWS", &start, "synod.0"])?;
        let (_, text) = text.split_once("\tGTID ").unwrap_or_default();
        let (first, _) = text.split_once("\nCOMMIT").unwrap_or((text, ""));
        ensure(first.starts_with(&format!("{group}-{commit} ")), || {
            format!("after {sequence}, not {commit} comes first: {first}")
        })?;
        let rows = first.lines().filter(|line| line.starts_with("### "));
        Ok(rows.map(str::to_owned).collect())
    };
    // After the transaction before it, and before its last fragments.
    let before = sequences.iter().rev().find(|sequence| **sequence < commit);
    let whole = rows_after(before.copied().unwrap_or(0))?;
    let amid = rows_after(commit - 3)?;
    ensure(whole == amid && whole.len() > 90, || {
        format!(
            "{} lines with rows, and {} from amid",
            whole.len(),
            amid.len()
        )
    })
}

/// Requests that cannot be served are refused in words.
fn refusals(relay: &Relay) -> Outcome {
    let refused = |arguments: &[&str], part: &str| {
        let said = match relay.binlog(arguments) {
            Ok(_) => "nothing".to_owned(),
            Err(failure) => failure.to_string(),
        };
        ensure(said.contains(part), || format!("{part} is not in: {said}"))
    };
    refused(
        &["--start-position=1-1-1", "synod.0"],
        "has no GTID of this group",
    )?;
    let gtids = relay.gtids()?;
    let own = gtids.last().map(|gtid| gtid.split('-').collect::<Vec<_>>());
    let Some([domain, _, sequence]) = own.as_deref() else {
        return Err(Failure(format!("no GTIDs: {gtids:?}")));
    };
    let foreign = format!("--start-position={domain}-1-{sequence}");
    refused(&[&foreign, "synod.0"], "no transaction of this group")?;
    refused(&["mysql-bin.000001"], "There is no binlog")?;
    refused(&["--password=wrong", "synod.0"], "Access denied for 'repl'")?;
    refused(
        &["--skip-ssl", "synod.0"],
        "serves encrypted connections only",
    )
}

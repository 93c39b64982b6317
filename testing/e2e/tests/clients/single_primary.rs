//! `synod.writers=leader`: one server takes writes, the others say which; clients of different
//! servers never conflict; when the writer dies, the next one takes over.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use synod_e2e::acknowledged_writes::{NOT_THE_WRITER, Style, Writers};
use synod_e2e::programs::lead;
use synod_e2e::{Failure, Outcome, Shared, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("single-primary", 25306);

const ALL: [u8; 3] = [1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(60);
/// "Deadlock found", "Lock wait timeout exceeded".
const DEADLOCK: u16 = 1213;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// Time for which writers fight for hot rows before and after the writer dies.
const LOAD: Duration = Duration::from_secs(5);

/// Sets the option on one server: it is then set on all.
fn set(cluster: &TestCluster, node: u8, writers: &str) -> Outcome {
    let sql = format!("SET GLOBAL wsrep_provider_options = 'synod.writers={writers}'");
    cluster.execute(node, &sql)?;
    ensure(cluster.synod_status(node, "writers")? == writers, || {
        format!("node{node} answered before it knew {writers}")
    })?;
    for node in ALL {
        let shown = wait_for(PATIENCE, || {
            (cluster.synod_status(node, "writers").ok()? == writers).then_some(())
        });
        shown.ok_or_else(|| Failure(format!("node{node} does not show {writers}")))?;
    }
    Ok(())
}

/// The server's error for a statement that must fail.
fn error_of(client: &mut Conn, sql: &str) -> Outcome<(u16, String)> {
    match client.query_drop(sql) {
        Err(mysql::Error::MySqlError(error)) => Ok((error.code, error.message)),
        other => Err(Failure(format!("{sql}: {other:?}"))),
    }
}

/// Result of `SHOW WARNINGS`.
fn warnings(client: &mut Conn) -> Outcome<String> {
    let rows: Vec<Row> = client.query("SHOW WARNINGS").why("SHOW WARNINGS")?;
    let texts = rows.iter().filter_map(|row| row.get::<String, _>(2));
    Ok(texts.collect::<Vec<String>>().join("\n"))
}

/// A statement is refused, and the client is told where to go.
fn is_refused(client: &mut Conn, sql: &str, writer: &str) -> Outcome {
    let (code, text) = error_of(client, sql)?;
    ensure(code == NOT_THE_WRITER && text.contains(writer), || {
        format!("{sql}: {code} {text}, instead of {NOT_THE_WRITER} with {writer}")
    })
}

#[test]
fn one_server_takes_writes_and_the_others_name_it() {
    CLUSTER.scenario("one writer", |cluster| {
        let table = "CREATE OR REPLACE TABLE e2e_data.single (id INT PRIMARY KEY, v INT)";
        cluster.execute(1, table)?;
        cluster.execute(1, "INSERT INTO e2e_data.single VALUES (1, 0), (2, 0)")?;
        let (leader, follower) = (cluster.leader(), cluster.follower());
        let mut client = cluster.connect(follower)?;
        client
            .query_drop("SET SESSION wsrep_sync_wait = 15")
            .why("sync")?;
        let mut open = cluster.connect(follower)?;
        open.query_drop("BEGIN").why("begin")?;
        open.query_drop("UPDATE e2e_data.single SET v = 9 WHERE id = 2")
            .why("update")?;

        set(cluster, follower, "leader")?;
        let writer = format!("'node{leader}' at 127.0.0.1:{}", cluster.port(leader));
        // The server takes a refused commit for a conflict; its repetition is told more.
        let (code, text) = error_of(&mut open, "COMMIT")?;
        ensure(code == DEADLOCK, || format!("COMMIT: {code} {text}"))?;
        let update = "UPDATE e2e_data.single SET v = 9 WHERE id = 2";
        is_refused(&mut open, update, &writer)?;
        is_refused(
            &mut client,
            "UPDATE e2e_data.single SET v = 9 WHERE id = 1",
            &writer,
        )?;
        is_refused(
            &mut client,
            "INSERT INTO e2e_data.single VALUES (3, 9)",
            &writer,
        )?;
        client.query_drop("BEGIN").why("begin")?;
        is_refused(&mut client, "DELETE FROM e2e_data.single", &writer)?;
        client.query_drop("COMMIT").why("nothing was changed")?;
        // The server takes the error of a definition for its own; ours is among the warnings.
        for sql in [
            "CREATE TABLE e2e_data.other (id INT)",
            "TRUNCATE e2e_data.single",
            "CREATE USER 'other'@'%'",
        ] {
            let (code, text) = error_of(&mut client, sql)?;
            ensure(code == LOCK_WAIT_TIMEOUT, || {
                format!("{sql}: {code} {text}")
            })?;
            let warnings = warnings(&mut client)?;
            ensure(warnings.contains(&writer), || {
                format!("{sql}: {warnings}, without {writer}")
            })?;
        }
        let rows = "SELECT id, v FROM e2e_data.single";
        cluster.execute(leader, "UPDATE e2e_data.single SET v = 1 WHERE id = 1")?;
        let read: Vec<(u32, u32)> = client.query(rows).why("reading")?;
        ensure(read == [(1, 1), (2, 0)], || format!("{read:?}"))?;
        shows_the_writer(cluster, leader)?;

        cluster.kill(follower).why("kill")?;
        cluster.start(follower, &|_, _| ()).why("start")?;
        ensure(
            cluster.synod_status(follower, "writers")? == "leader",
            || format!("node{follower} has forgotten the setting"),
        )?;
        is_refused(
            &mut cluster.connect(follower)?,
            "INSERT INTO e2e_data.single VALUES (3, 9)",
            &writer,
        )?;
        set(cluster, follower, "any")?;
        cluster.execute(follower, "INSERT INTO e2e_data.single VALUES (3, 9)")?;
        agreement::check(cluster, &ALL)
    });
}

fn shows_the_writer(cluster: &TestCluster, leader: u8) -> Outcome {
    for node in ALL {
        let shown = ["writer", "writer_address", "takes_writes"]
            .map(|name| cluster.synod_status(node, name).unwrap_or_default());
        let takes = if node == leader { "1" } else { "0" };
        let address = format!("127.0.0.1:{}", cluster.port(leader));
        let expected = [format!("node{leader}"), address, takes.to_owned()];
        ensure(shown == expected, || {
            format!("node{node} shows {shown:?} instead of {expected:?}")
        })?;
        let refused = cluster.synod_status(node, "writes_refused")?;
        ensure((refused == "0") == (node != cluster.follower()), || {
            format!("node{node} has refused {refused} writes")
        })?;
        let options = "SELECT @@wsrep_provider_options LIKE '%synod.writers = leader%'";
        if node == cluster.follower() {
            let shown = cluster.rows(node, options)?;
            ensure(shown == ["1"], || "the options do not show it".to_owned())?;
        }
    }
    Ok(())
}

#[test]
fn streamed_transaction_of_a_former_writer_is_rolled_back_everywhere() {
    CLUSTER.scenario("a streamed transaction", |cluster| {
        set(cluster, 1, "any")?;
        let table = "CREATE OR REPLACE TABLE e2e_data.streamed (id INT PRIMARY KEY, v INT)";
        cluster.execute(1, table)?;
        let (leader, follower) = (cluster.leader(), cluster.follower());
        let mut open = cluster.connect(follower)?;
        for sql in [
            "SET SESSION wsrep_trx_fragment_unit = 'rows'",
            "SET SESSION wsrep_trx_fragment_size = 1",
            "BEGIN",
            "INSERT INTO e2e_data.streamed VALUES (1, 1)",
            "INSERT INTO e2e_data.streamed VALUES (2, 1)",
        ] {
            open.query_drop(sql).why(sql)?;
        }
        set(cluster, leader, "leader")?;
        let insert = "INSERT INTO e2e_data.streamed VALUES (3, 1)";
        let (code, text) = error_of(&mut open, insert)?;
        ensure(code == DEADLOCK, || format!("{insert}: {code} {text}"))?;
        // The others have let go of its rows.
        cluster.execute(
            leader,
            "INSERT INTO e2e_data.streamed VALUES (1, 2), (3, 2)",
        )?;
        for node in ALL {
            let sql = "SET SESSION wsrep_sync_wait = 1; SELECT id, v FROM e2e_data.streamed";
            let rows = cluster.rows(node, sql)?;
            ensure(rows == ["1\t2", "3\t2"], || {
                format!("node{node} has {rows:?}")
            })?;
        }
        set(cluster, follower, "any")?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn setting_is_refused_with_a_reason() {
    CLUSTER.scenario("bad settings", |cluster| {
        set(cluster, 1, "any")?;
        let mut client = cluster.connect(1)?;
        let (_, text) = error_of(
            &mut client,
            "SET GLOBAL wsrep_provider_options = 'synod.writers=both'",
        )?;
        eprintln!("  a word that is none: {text}");
        // Without a majority no group agrees on anything.
        cluster.kill(2).why("kill")?;
        cluster.kill(3).why("kill")?;
        let (_, text) = error_of(
            &mut client,
            "SET GLOBAL wsrep_provider_options = 'synod.writers=leader'",
        )?;
        eprintln!("  without a majority: {text}");
        ensure(text.contains("has not agreed yet"), || text.clone())?;
        for node in [2, 3] {
            cluster.start(node, &|_, _| ()).why("start")?;
        }
        set(cluster, 1, "any")
    });
}

#[test]
fn transaction_that_began_before_the_writer_changed_does_not_write() {
    CLUSTER.scenario("transactions from before", |cluster| {
        set(cluster, 1, "any")?;
        for table in ["seats", "bookings"] {
            let sql = format!("CREATE OR REPLACE TABLE e2e_data.{table} (id INT PRIMARY KEY)");
            cluster.execute(1, &sql)?;
        }
        set(cluster, 1, "leader")?;
        let (old, new) = (cluster.leader(), cluster.follower());
        let free = "SELECT COUNT(*) FROM e2e_data.seats";
        let book = |id: u32| format!("INSERT INTO e2e_data.bookings VALUES ({id})");
        let begin = |client: &mut Conn| -> Outcome {
            client.query_drop("BEGIN").why("begin")?;
            let taken: Option<u32> = client.query_first(free).why(free)?;
            ensure(taken == Some(0), || format!("{taken:?} seats are taken"))
        };
        let mut writer = cluster.connect(old)?;
        begin(&mut writer)?;
        writer.query_drop(book(1)).why("the writer writes")?;

        // The next writer lags, and has not what the first one acknowledges.
        let mut lock = cluster.connect(new)?;
        lock.query_drop("FLUSH TABLES WITH READ LOCK").why("lock")?;
        cluster.execute(old, "INSERT INTO e2e_data.seats VALUES (1)")?;
        let mut early = cluster.connect(new)?;
        begin(&mut early)?;
        lead(cluster, new)?;
        lock.query_drop("UNLOCK TABLES").why("unlock")?;
        takes_writes(cluster, new)?;
        let (code, text) = error_of(&mut early, &book(2))?;
        let says = "began before this server was the writer";
        ensure(code == NOT_THE_WRITER && text.contains(says), || {
            format!("{code} {text}")
        })?;
        early.query_drop("ROLLBACK").why("rollback")?;
        early.query_drop(book(3)).why("it is repeated")?;

        // The first writer is back; what it had begun has not seen what the other has written.
        lead(cluster, old)?;
        takes_writes(cluster, old)?;
        let (code, text) = error_of(&mut writer, "COMMIT")?;
        ensure(code == DEADLOCK, || format!("COMMIT: {code} {text}"))?;
        writer.query_drop(book(4)).why("it is repeated")?;
        let booked = cluster.rows(old, "SELECT id FROM e2e_data.bookings")?;
        ensure(booked == ["3", "4"], || format!("booked: {booked:?}"))?;
        set(cluster, 1, "any")?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn event_that_asks_for_the_writer_runs_there_and_nowhere_else() {
    CLUSTER.scenario("events", |cluster| {
        set(cluster, 1, "leader")?;
        let (old, new) = (cluster.leader(), cluster.follower());
        cluster.execute(
            old,
            "CREATE OR REPLACE TABLE e2e_data.ticks (id INT PRIMARY KEY AUTO_INCREMENT, at TEXT)",
        )?;
        cluster.execute(
            old,
            "CREATE EVENT e2e_data.tick ON SCHEDULE EVERY 1 SECOND DO
             IF (SELECT variable_value FROM information_schema.global_status
                 WHERE variable_name = 'wsrep_synod_takes_writes') = 1 THEN
               INSERT INTO e2e_data.ticks (at) VALUES (@@wsrep_node_name);
             END IF",
        )?;
        let enable = "SET SESSION wsrep_on = OFF; ALTER EVENT e2e_data.tick ENABLE";
        for node in ALL {
            cluster.execute(node, "SET GLOBAL event_scheduler = ON")?;
            if node != old {
                cluster.execute(node, enable)?;
            }
        }
        let refused = |node| cluster.synod_status(node, "writes_refused");
        let before = (refused(old)?, refused(new)?);
        runs_at(cluster, old)?;
        lead(cluster, new)?;
        runs_at(cluster, new)?;
        ensure((refused(old)?, refused(new)?) == before, || {
            "the event has written on a server that is not the writer".to_owned()
        })?;
        cluster.execute(new, "DROP EVENT e2e_data.tick")?;
        set(cluster, 1, "any")?;
        agreement::check(cluster, &ALL)
    });
}

#[test]
fn event_that_stays_at_the_former_writer_is_seen_at_both() {
    CLUSTER.scenario("an event of the former writer", |cluster| {
        let check = check_of_the_page()?;
        let found = |node| cluster.rows(node, &check).map(|rows| rows.len());
        set(cluster, 1, "leader")?;
        let (old, new) = (cluster.leader(), cluster.follower());
        cluster.execute(
            old,
            "CREATE OR REPLACE TABLE e2e_data.purged (id INT PRIMARY KEY AUTO_INCREMENT)",
        )?;
        cluster.execute(
            old,
            "CREATE EVENT e2e_data.purge ON SCHEDULE EVERY 1 SECOND DO
             INSERT INTO e2e_data.purged () VALUES ()",
        )?;
        for node in ALL {
            cluster.execute(node, "SET GLOBAL event_scheduler = ON")?;
        }
        let refused = |node| cluster.synod_status(node, "writes_refused");
        let before = refused(old)?;
        lead(cluster, new)?;
        takes_writes(cluster, new)?;
        let grows = || (refused(old).ok()? != before).then_some(());
        wait_for(PATIENCE, grows)
            .ok_or("nothing was refused")
            .why("the former writer")?;
        let seen = (found(old)?, found(new)?);
        ensure(seen == (0, 1), || {
            format!("the page's check finds {seen:?} events")
        })?;
        let enable = "SET SESSION wsrep_on = OFF; ALTER EVENT e2e_data.purge ENABLE";
        cluster.execute(new, enable)?;
        let enabled = found(new)?;
        cluster.execute(new, "SET GLOBAL event_scheduler = OFF")?;
        let off = found(new)?;
        ensure((enabled, off) == (0, 1), || {
            format!("enabled {enabled}, with the scheduler off {off}")
        })?;
        cluster.execute(new, "DROP EVENT e2e_data.purge")?;
        set(cluster, 1, "any")
    });
}

/// The statement of the manual that names events which do nothing now.
fn check_of_the_page() -> Outcome<String> {
    let page = place::workspace().join("docs/operating/single-primary.md");
    let page = std::fs::read_to_string(page).why("the page")?;
    let lines = page
        .lines()
        .skip_while(|line| !line.starts_with("    SELECT event_schema, event_name, status"))
        .take_while(|line| !line.is_empty());
    let sql: Vec<&str> = lines.collect();
    ensure(!sql.is_empty(), || "no check on the page".to_owned())?;
    Ok(sql.join("\n"))
}

/// The event writes at this server.
fn runs_at(cluster: &TestCluster, node: u8) -> Outcome {
    let sql = format!("SELECT COUNT(*) > 1 FROM e2e_data.ticks WHERE at = 'node{node}'");
    let runs = || (cluster.rows(node, &sql).ok()? == ["1"]).then_some(());
    wait_for(PATIENCE, runs).ok_or_else(|| Failure(format!("the event never ran at node{node}")))
}

fn takes_writes(cluster: &TestCluster, node: u8) -> Outcome {
    let takes = || (cluster.synod_status(node, "takes_writes").ok()? == "1").then_some(());
    wait_for(PATIENCE, takes).ok_or_else(|| Failure(format!("node{node} takes no writes")))
}

#[test]
fn servers_never_conflict_and_the_next_writer_takes_over() {
    CLUSTER.scenario("the writer dies", |cluster| {
        let mut writers = Writers::prepare(cluster, "single_writer")?;
        set(cluster, 1, "leader")?;
        let before = conflicts(cluster, &ALL)?;
        let begun = Instant::now();
        for node in ALL {
            writers.add(cluster, node, 2, Style::Hot);
            writers.add(cluster, node, 2, Style::Alone);
        }
        let old = cluster.leader();
        writers.await_more(300, PATIENCE)?;
        std::thread::sleep(LOAD);
        cluster.kill(old).why("kill")?;
        let killed = Instant::now();
        let others = cluster.others(old);
        let new = wait_for(PATIENCE, || {
            let takes = |node: &&u8| {
                let takes = cluster.synod_status(**node, "takes_writes");
                takes.is_ok_and(|takes| takes == "1")
            };
            others.iter().find(takes).copied()
        });
        let new = new.ok_or_else(|| Failure("no server takes writes".to_owned()))?;
        let taken = Instant::now();
        writers.await_commit_after(new, taken, PATIENCE)?;
        std::thread::sleep(LOAD);
        cluster.start(old, &|_, _| ()).why("start")?;
        writers.await_more(300, PATIENCE)?;
        let report = writers.finish();
        let idle = *others.iter().find(|node| **node != new).unwrap_or(&new);
        let by = |node| {
            let records = report.records.iter().filter(|record| record.node == node);
            records
                .map(|record| record.acknowledged.len())
                .sum::<usize>()
        };
        let end = Instant::now();
        let deadlocks = |node, from, to| report.errors_on(&[node], DEADLOCK, from, to);
        let refused = report.errors_on(&ALL, NOT_THE_WRITER, begun, end);
        let elsewhere: usize = ALL.map(|node| deadlocks(node, begun, end)).iter().sum();
        let at_the_writer = deadlocks(old, begun, killed) + deadlocks(new, taken, end);
        eprintln!(
            "  acknowledged: {} by the writer, {} by the next, {} by the other; longest gap {:?}; \
             errors {DEADLOCK}: {at_the_writer} at the writer, {elsewhere} in all; \
             refused: {refused}",
            by(old),
            by(new),
            by(idle),
            report.longest_gap(&ALL, killed, taken.max(killed + LOAD)),
        );
        ensure(by(idle) == 0, || format!("node{idle} has written"))?;
        ensure(by(old) > 0 && by(new) > 0, || "no load".to_owned())?;
        ensure(refused > 0, || "no write was refused".to_owned())?;
        // Elsewhere an applier may abort a write before it is refused.
        ensure(at_the_writer == 0, || {
            format!("{at_the_writer} transactions of the writer met conflicts")
        })?;
        let after = conflicts(cluster, &others)?;
        ensure(after <= before, || {
            format!("{after} conflicts, {before} before")
        })?;
        report.check_rows(cluster, &ALL)?;
        set(cluster, 1, "any")?;
        agreement::check(cluster, &ALL)
    });
}

/// Transactions that the group has refused because of another server's.
fn conflicts(cluster: &TestCluster, nodes: &[u8]) -> Outcome<u64> {
    let mut sum = 0;
    for node in nodes {
        let rows = cluster.rows(*node, "SHOW STATUS LIKE 'wsrep_local_cert_failures'")?;
        let count = rows.first().and_then(|row| row.split('\t').nth(1));
        sum += count.and_then(|count| count.parse().ok()).unwrap_or(0);
    }
    Ok(sum)
}

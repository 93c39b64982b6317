//! A relay of an upstream says in words what it cannot do: to a reader that would leave out the
//! upstream's transactions, has another reader's number, or is ahead of the relay, or before the
//! relay has a group; to operators while its log is full, or has changes that readers of rows do
//! not get. A full log that no reader needs gets room again by itself.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use synod_binlog::GtidList;
use synod_e2e::pull::{self, Puller, check_complete};
use synod_e2e::relay_group::{KeepingRelay, RelayGroup};
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::wait_for;
use synod_upstream::{Incoming, Position, Upstream, UpstreamConfig};

const PORT: u16 = 17706;
const REPLICA_PORT: u16 = 17707;
const SECOND_PORT: u16 = 17708;
const RELAYS_PORT: u16 = 17720;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const UPSTREAM_ID: u32 = 7;
/// `server_id` of a new replica.
const REPLICA_ID: u32 = 99;
/// `server_id` of a reader that hangs.
const HANGING_ID: u32 = 50;
const OPTIONS: [&str; 4] = [
    "--server-id=7",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
];
/// A log of a few megabytes, whatever the disk has.
const SMALL: [(&str, &str); 3] = [
    ("synod.log_segment_size", "\"1M\""),
    ("synod.log_retain_size", "\"2M\""),
    ("synod.log_min_free", "100"),
];

/// A primary with an empty table, and a relay with such a log.
fn begin_small(dir: &Path) -> Outcome<(StockServer, RelayGroup)> {
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, dir, RELAYS_PORT, 1)?;
    let relay = &mut group.relays[0];
    SMALL.iter().for_each(|(key, value)| relay.set(key, value));
    group.begin()?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
    ])?;
    Ok((primary, group))
}

#[test]
fn relay_says_what_it_cannot_do() -> Outcome {
    let dir = place::cluster_dir("relay-refusals")?;
    let (primary, mut group) = begin_small(&dir)?;
    let mut config = pull::config(&primary, &dir, UPSTREAM_ID)?;
    let relay = &mut group.relays[0];
    config.address.port = relay.port;
    await_kept(&primary, relay)?;
    let outcome = number_of_the_upstream(&primary, config)
        .and_then(|()| not_whole_rows(&primary, relay))
        .and_then(|()| full(&primary, relay));
    if outcome.is_err() {
        eprintln!("{}\n{:?}", relay.says(), relay.status());
    }
    outcome
}

/// A replica leaves out what has its own number, so it would get nothing, without a word.
fn number_of_the_upstream(primary: &StockServer, mut config: UpstreamConfig) -> Outcome {
    let told = first_error(&config, &Position::Gtids(GtidList::default()));
    let names = told.contains(&format!("server_id is {UPSTREAM_ID}"));
    ensure(names, || format!("the reader is told: {told}"))?;
    // One that lacks nothing of that server may be it, after others have taken its place.
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let has = newest.parse().unwrap_or_default();
    let told = first_error(&config, &Position::Gtids(has));
    ensure(told.is_empty(), || format!("the reader is told: {told}"))?;
    config.server_id = UPSTREAM_ID + 1;
    let told = first_error(&config, &Position::Gtids(GtidList::default()));
    ensure(told.is_empty(), || format!("the reader is told: {told}"))
}

/// Error before the first event; empty: an event has come.
fn first_error(config: &UpstreamConfig, position: &Position) -> String {
    let first = Upstream::connect(config, position).and_then(|mut upstream| upstream.next());
    first.map_or_else(|error| error.to_string(), |_: Incoming| String::new())
}

/// Sessions of the upstream with other settings are passed on, with a warning.
fn not_whole_rows(primary: &StockServer, relay: &KeepingRelay) -> Outcome {
    let warning = |relay: &KeepingRelay| -> Outcome<String> {
        let status = relay.status()?;
        Ok(status["warning"].as_str().unwrap_or_default().to_owned())
    };
    primary.execute(&[
        "CREATE TABLE shop.wide (id INT PRIMARY KEY, v BLOB, w INT AS (id + 1) VIRTUAL,
             x INT AS (id + 2) STORED, y INT INVISIBLE DEFAULT 3) WITH SYSTEM VERSIONING",
        "CREATE TABLE shop.early (id INT PRIMARY KEY) ENGINE = MyISAM",
        "INSERT INTO shop.wide (id, v) VALUES (1, 'a'), (2, 'b')",
        "UPDATE shop.wide SET v = 'c'",
        "DELETE FROM shop.wide WHERE id = 2",
        "INSERT INTO shop.early VALUES (1)",
        "CREATE TABLE shop.made SELECT id, v FROM shop.wide",
    ])?;
    await_kept(primary, relay)?;
    let told = warning(relay)?;
    ensure(told.is_empty(), || format!("whole rows are called: {told}"))?;
    for (statements, says) in [
        (
            [
                "SET SESSION binlog_format = 'STATEMENT'",
                "INSERT INTO shop.early VALUES (2)",
            ],
            "began: 1. The newest, 0-7-",
        ),
        (
            [
                "SET SESSION binlog_format = 'STATEMENT'",
                "REPLACE INTO shop.wide (id, v) VALUES (1, 'd')",
            ],
            "REPLACE INTO shop.wide",
        ),
        (
            [
                "SET SESSION binlog_row_image = 'MINIMAL'",
                "UPDATE shop.wide SET v = 'e'",
            ],
            "began: 3. The newest, 0-7-",
        ),
    ] {
        primary.execute(&statements)?;
        await_kept(primary, relay)?;
        let told = warning(relay)?;
        ensure(told.contains(says), || format!("not '{says}': {told}"))?;
    }
    let told = warning(relay)?;
    ensure(told.contains("binlog_row_image"), || told.clone())?;
    let line = "has a statement instead of rows";
    let times = relay.says().matches(line).count();
    ensure(times == 1, || format!("'{line}' was said {times} times"))
}

#[test]
fn replica_that_is_ahead_waits_for_its_relay() -> Outcome {
    let dir = place::cluster_dir("relay-behind")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    let relay = &group.relays[0];
    let replica = Replica::new(&dir, REPLICA_PORT)?;
    primary.execute(&["CREATE DATABASE shop", "CREATE TABLE shop.t (id INT)"])?;
    await_kept(&primary, relay)?;
    relay.order(&["pause"])?;
    primary.execute(&["INSERT INTO shop.t VALUES (1)"])?;
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let has = |gtid: &str| {
        let found = replica.rows("SELECT @@gtid_slave_pos");
        found.is_ok_and(|rows| rows.concat() == gtid).then_some(())
    };
    replica.follow_port(primary.port, "MASTER_SSL=0")?;
    let came = wait_for(PATIENCE, || has(&newest));
    ensure(came.is_some(), || replica.says())?;

    replica.execute(&[
        "STOP SLAVE",
        &format!("CHANGE MASTER TO MASTER_PORT={}", relay.port),
        "START SLAVE",
    ])?;
    let told = wait_for(PATIENCE, || {
        // Its status says nothing of an error after which it tries again.
        let log = replica.log();
        log.contains("this relay knows none after").then_some(())
    });
    ensure(told.is_some(), || replica.says())?;
    relay.order(&["resume"])?;
    primary.execute(&["INSERT INTO shop.t VALUES (2)"])?;
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let came = wait_for(PATIENCE, || has(&newest));
    ensure(came.is_some(), || replica.says())?;

    // One that is ahead of the upstream itself need not wait.
    let mut config = pull::config(&primary, &dir, UPSTREAM_ID + 1)?;
    config.address.port = relay.port;
    let elsewhere = "0-7-999".parse().why("a GTID")?;
    let told = first_error(&config, &Position::Gtids(elsewhere));
    ensure(
        told.contains("the upstream of this relay has none after"),
        || format!("the reader is told: {told}"),
    )
}

#[test]
fn replica_waits_for_a_relay_that_is_in_no_group() -> Outcome {
    let dir = place::cluster_dir("relay-without-group")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    let replica = Replica::new(&dir, REPLICA_PORT)?;
    let relay = &mut group.relays[0];
    relay.start()?;
    relay.await_line("readers connect to")?;
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}',
         MASTER_PASSWORD='{}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
        relay.port,
        pull::USER,
        pull::PASSWORD,
    );
    replica.execute(&[&change, "START SLAVE"])?;
    let told = wait_for(PATIENCE, || {
        let status = replica.rows("SHOW SLAVE STATUS").ok()?.concat();
        status.contains("in no group yet").then_some(())
    });
    ensure(told.is_some(), || replica.says())?;
    // It comes again by itself.
    relay.kill()?;
    group.begin()?;
    replica.await_connection()
}

#[test]
fn newer_of_two_readers_with_one_number_is_served() -> Outcome {
    let dir = place::cluster_dir("relay-same-number")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
    ])?;
    let relay = &group.relays[0];
    let outcome = two_replicas(&primary, relay, &dir).and_then(|()| {
        let mut config = pull::config(&primary, &dir, HANGING_ID)?;
        config.address.port = relay.port;
        hanging_reader(&primary, relay, &config)
    });
    if outcome.is_err() {
        eprintln!("{}\n{:?}", relay.says(), relay.status());
    }
    outcome
}

/// The relay tells the older reader why it stops, and what helps.
fn two_replicas(primary: &StockServer, relay: &KeepingRelay, dir: &Path) -> Outcome {
    let older = Replica::new(dir, REPLICA_PORT)?;
    let newer = Replica::named(dir, "second", SECOND_PORT)?;
    older.follow_port(relay.port, "MASTER_SSL=0")?;
    newer.follow_port(relay.port, "MASTER_SSL=0")?;
    let told = wait_for(PATIENCE, || {
        let status = older.rows("SHOW SLAVE STATUS").ok()?.concat();
        let words = ["error 1236", "same server_uuid/server_id", "Give one"];
        words
            .iter()
            .all(|words| status.contains(words))
            .then_some(())
    });
    ensure(told.is_some(), || older.says())?;
    let readers = readers_with(relay, REPLICA_ID)?;
    ensure(readers.len() == 1, || format!("{readers:?}"))?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('for the newer one')"])?;
    await_rows(&newer, 1)?;
    // What it says helps.
    older.execute(&["STOP SLAVE", "SET GLOBAL server_id = 98", "START SLAVE"])?;
    older.await_connection()?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('for both')"])?;
    await_rows(&older, 2)?;
    await_rows(&newer, 2)
}

/// The relay cannot tell a reader that takes nothing. The connection ends, so no place is held.
fn hanging_reader(primary: &StockServer, relay: &KeepingRelay, config: &UpstreamConfig) -> Outcome {
    // More than the system's buffers between the two take.
    let large = "INSERT INTO shop.t (v) SELECT REPEAT('z', 1000000) FROM shop.seq_1_to_40";
    primary.execute(&[large])?;
    await_kept(primary, relay)?;
    let from = Position::Gtids(GtidList::default());
    let hanging = Upstream::connect(config, &from).why("the reader that hangs")?;
    await_status(relay, "a reader is behind", |status| {
        is_behind(status, HANGING_ID)
    })?;
    let newer = Puller::start(config.clone());
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    newer.await_gtid(&last, PATIENCE)?;
    let readers = readers_with(relay, HANGING_ID)?;
    ensure(readers.len() == 1, || format!("{readers:?}"))?;
    drop(hanging);
    check_complete(&newer.finish(), primary)
}

fn readers_with(relay: &KeepingRelay, server_id: u32) -> Outcome<Vec<Value>> {
    let status = relay.status()?;
    let readers = status["readers"].as_array().cloned().unwrap_or_default();
    let same = |reader: &Value| reader["server_id"] == server_id;
    Ok(readers.into_iter().filter(same).collect())
}

fn is_behind(status: &Value, server_id: u32) -> bool {
    let readers = status["readers"].as_array().cloned().unwrap_or_default();
    let mut readers = readers.iter();
    readers.any(|reader| reader["server_id"] == server_id && reader["behind"].as_u64() > Some(0))
}

fn await_rows(replica: &Replica, count: u32) -> Outcome {
    let wanted = [count.to_string()];
    let came = wait_for(PATIENCE, || {
        let rows = replica.rows("SELECT COUNT(*) FROM shop.t").ok()?;
        (rows == wanted).then_some(())
    });
    ensure(came.is_some(), || replica.says())
}

/// A transaction that is as large as the log may be fills it for good: the newest one is kept.
fn full(primary: &StockServer, relay: &mut KeepingRelay) -> Outcome {
    let large = "INSERT INTO shop.t (v) SELECT REPEAT('z', 1000000) FROM shop.seq_1_to_12";
    primary.execute(&[large])?;
    await_status(relay, "the log is full", |status| {
        let error = status["error"].as_str().unwrap_or_default();
        error.contains("the log is full") && error.contains("synod.log_retain_size")
    })?;
    // What it says helps.
    relay.kill()?;
    relay.set("synod.log_retain_size", "\"64M\"");
    relay.start()?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('more')"])?;
    await_kept(primary, relay)?;
    await_status(relay, "nothing is wrong", |status| {
        status["error"].is_null()
    })
}

/// More than the log may have, in fewer transactions than a log of small ones has in a moment.
#[test]
fn full_log_that_no_reader_needs_gets_room_again() -> Outcome {
    let dir = place::cluster_dir("relay-room-again")?;
    let (primary, group) = begin_small(&dir)?;
    let mut config = pull::config(&primary, &dir, UPSTREAM_ID + 1)?;
    config.address.port = group.relays[0].port;
    let outcome = more_than_the_log_may_have(&primary, &group.relays[0], config);
    if outcome.is_err() {
        eprintln!("{}\n{:?}", group.says(), group.relays[0].status());
    }
    outcome
}

fn more_than_the_log_may_have(
    primary: &StockServer,
    relay: &KeepingRelay,
    config: UpstreamConfig,
) -> Outcome {
    let rows = vec!["INSERT INTO shop.t (v) VALUES (REPEAT('z', 1000000))"; 60];
    primary.execute(&rows)?;
    await_kept(primary, relay)?;
    let told = first_error(&config, &Position::Gtids(GtidList::default()));
    ensure(told.contains("has been purged"), || {
        format!("the log still has everything, so it was never full: {told}")
    })?;
    // A reader gets what is still there. At the end of the log, it needs nothing of it.
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let reader_id = config.server_id;
    let reader = Puller::after(config, newest.parse().why("a GTID")?);
    primary.execute(&rows)?;
    await_kept(primary, relay)?;
    // The place of a registered reader is noted in the log, which must have room for that.
    relay.order(&["readers", "add", &reader_id.to_string()])?;
    let (fewer, _) = rows.split_at(10);
    primary.execute(fewer)?;
    await_kept(primary, relay)?;
    let newest = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    reader.await_gtid(&newest, PATIENCE)?;
    let pulled = reader.finish();
    ensure(
        pulled.transactions.len() == rows.len() + fewer.len(),
        || {
            let (came, ends) = (pulled.transactions.len(), &pulled.ends);
            format!("the reader got {came} transactions: {ends:?}")
        },
    )
}

fn await_kept(primary: &StockServer, relay: &KeepingRelay) -> Outcome {
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    await_status(relay, &last, |status| status["gtids"] == last.as_str())
}

fn await_status(relay: &KeepingRelay, what: &str, is_so: impl Fn(&Value) -> bool) -> Outcome {
    let found = wait_for(PATIENCE, || is_so(&relay.status().ok()?).then_some(()));
    ensure(found.is_some(), || {
        format!("not seen: {what}: {:?}", relay.status())
    })
}

//! A registered reader is away: all relays hold what it lacks, and the pull stops before they would
//! lose it. The reader comes back, and gets everything. A purge by force takes something from it,
//! and it is told what.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use synod_e2e::pull::{self, Puller, check_complete};
use synod_e2e::relay_group::{KeepingRelay, RelayGroup};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, ensure, place};
use synod_local_cluster::wait_for;

const PORT: u16 = 19906;
const RELAYS_PORT: u16 = 19920;
const READER_ID: u32 = 4801;
/// For what takes moments, or a few rounds of notes and purges, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
const OPTIONS: [&str; 5] = [
    "--server-id=1",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
    "--max-allowed-packet=64M",
];
/// Some of the parts of a large transaction.
const PARTS: u64 = 20;
/// The time of two looks at readers, and more.
const LOOKS: Duration = Duration::from_secs(25);
/// Logs so small that a few megabytes are too much.
const SMALL: [(&str, &str); 3] = [
    ("synod.log_segment_size", "\"1M\""),
    ("synod.log_retain_size", "\"2M\""),
    ("synod.log_min_free", "100"),
];

#[test]
fn registered_reader_loses_nothing_while_it_is_away() -> Outcome {
    let dir = place::cluster_dir("relay-registered")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 3)?;
    for relay in &mut group.relays {
        SMALL.iter().for_each(|(key, value)| relay.set(key, value));
    }
    let outcome = away_and_back(&primary, &mut group, &dir);
    if outcome.is_err() {
        let statuses: Vec<_> = group.relays.iter().map(|relay| relay.status()).collect();
        eprintln!("{}\n{statuses:?}", group.says());
    }
    outcome
}

#[test]
fn transaction_that_is_coming_is_held_from_its_beginning() -> Outcome {
    let dir = place::cluster_dir("relay-coming")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    let outcome = comes_slowly(&primary, &group.relays[0], &dir);
    if outcome.is_err() {
        eprintln!("{}\n{:?}", group.says(), group.relays[0].status());
    }
    outcome
}

fn comes_slowly(primary: &StockServer, relay: &KeepingRelay, dir: &Path) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
    ])?;
    let mut config = pull::config(primary, dir, READER_ID)?;
    config.address.port = relay.port;
    let reader = Puller::start(config);
    let before = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    reader.await_gtid(&before, PATIENCE)?;
    relay.order(&["readers", "add", &READER_ID.to_string()])?;
    let large = "INSERT INTO shop.t (v) SELECT REPEAT('z', 1000000) FROM shop.seq_1_to_400";
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| primary.execute(&[large]));
        // It hangs while its transaction comes.
        let coming = wait_for(PATIENCE, || (held(relay)? >= PARTS).then_some(()));
        primary.signal("-STOP")?;
        let kept = relay.status()?["gtids"] == before.as_str();
        // The relay looks at its readers every ten seconds, and notes where they are.
        let lost = wait_for(LOOKS, || (held(relay)? < PARTS).then_some(()));
        primary.signal("-CONT")?;
        writing.join().unwrap_or(Ok(()))?;
        ensure(coming.is_some() && kept, || {
            "the transaction came at once".to_owned()
        })?;
        ensure(lost.is_none(), || {
            "a part is not held of a transaction that the reader has nothing of".to_owned()
        })
    })?;
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    reader.await_gtid(&last, PATIENCE)?;
    check_complete(&reader.finish(), primary)
}

/// Actions of the log that are held for the reader.
fn held(relay: &KeepingRelay) -> Option<u64> {
    relay.status().ok()?["registered"][0]["holds"].as_u64()
}

fn away_and_back(primary: &StockServer, group: &mut RelayGroup, dir: &Path) -> Outcome {
    group.begin()?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
    ])?;
    let puller = group.await_puller()?;
    let id = READER_ID.to_string();
    // Any relay takes the order, and all of them know.
    let order = ["readers", "add", &id];
    group.relays[(puller + 1) % 3].order(&order)?;
    await_registered(group)?;
    let again = group.relays[puller].command(&order)?;
    ensure(again.status.code() == Some(4), || format!("{again:?}"))?;

    // Away. The relays stop pulling, and say why.
    write(primary, 600)?;
    let leader = group.relays[puller].name.clone();
    await_status(group, &leader, "the pull stops", |status| {
        let error = status["error"].as_str().unwrap_or_default();
        error.contains(&format!("registered reader {READER_ID} needs"))
    })?;

    // Back, at a relay that does not lead: it gets everything, and the pull continues.
    let mut config = pull::config(primary, dir, READER_ID)?;
    config.address.port = group.relays[(puller + 2) % 3].port;
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let reader = Puller::start(config.clone());
    reader.await_gtid(&last, PATIENCE)?;
    for relay in &group.relays {
        await_status(group, &relay.name, "where the reader is", |status| {
            status["registered"][0]["gtids"] == last.as_str()
        })?;
    }
    check_complete(&reader.finish(), primary)?;

    // Away again. The order itself is purged by now; all relays still know.
    write(primary, 30)?;
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    for relay in &mut group.relays {
        relay.kill()?;
    }
    for relay in &mut group.relays {
        relay.start()?;
    }
    let puller = group.await_puller()?;
    await_registered(group)?;
    for relay in &group.relays {
        await_status(group, &relay.name, "what was written last", |status| {
            status["gtids"] == last.as_str()
        })?;
    }
    purges(group, puller, config, &last)
}

fn await_registered(group: &RelayGroup) -> Outcome {
    group.relays.iter().try_for_each(|relay| {
        await_status(group, &relay.name, "the reader is registered", |status| {
            status["registered"][0]["server_id"] == READER_ID
        })
    })
}

fn purges(
    group: &RelayGroup,
    puller: usize,
    config: synod_upstream::UpstreamConfig,
    last: &str,
) -> Outcome {
    let relay = &group.relays[puller];
    let refused = relay.command(&["purge", "--to", last])?;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    let names = text.contains("registered reader") && text.contains("--yes");
    ensure(refused.status.code() == Some(4) && names, || {
        format!("a purge of what a reader needs is not refused: {refused:?}")
    })?;
    relay.order(&["purge", "--to", last, "--yes"])?;
    // A reader that begins before that is told what it has lost, on every relay.
    for other in &group.relays {
        await_status(group, &other.name, "the reader holds nothing", |status| {
            status["registered"][0]["gtids"] == last
        })?;
        let mut config = config.clone();
        config.address.port = other.port;
        let told = wait_for(PATIENCE, || {
            let error = first_error(&config)?;
            error.contains("has been purged: transaction").then_some(())
        });
        ensure(told.is_some(), || {
            format!("{} serves what is purged, or does not say so", other.name)
        })?;
    }
    relay.order(&["readers", "remove", &READER_ID.to_string()])?;
    relay.order(&["stop"])?;
    await_status(group, &relay.name, "nothing is registered", |status| {
        status["registered"].as_array().is_some_and(Vec::is_empty) && status["is_paused"] == true
    })?;
    relay.order(&["start"]).map(|_| ())
}

/// First error of a reader from the beginning on.
fn first_error(config: &synod_upstream::UpstreamConfig) -> Option<String> {
    let beginning = synod_upstream::Position::Gtids(synod_binlog::GtidList::default());
    let mut upstream = match synod_upstream::Upstream::connect(config, &beginning) {
        Ok(upstream) => upstream,
        Err(error) => return Some(error.to_string()),
    };
    upstream.next().err().map(|error| error.to_string())
}

/// Transactions of about 10,000 bytes.
fn write(primary: &StockServer, count: u32) -> Outcome {
    let insert = "INSERT INTO shop.t (v) VALUES (REPEAT('z', 10000))";
    let many: Vec<&str> = (0..count).map(|_| insert).collect();
    primary.execute(&many)
}

fn await_status(
    group: &RelayGroup,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Outcome {
    let relay = group.relays.iter().find(|relay| relay.name == name);
    let relay = relay.ok_or_else(|| synod_e2e::Failure(format!("no relay {name}")))?;
    let found = wait_for(PATIENCE, || is_so(&relay.status().ok()?).then_some(()));
    ensure(found.is_some(), || {
        format!("{name}: not seen: {what}: {:?}", relay.status())
    })
}

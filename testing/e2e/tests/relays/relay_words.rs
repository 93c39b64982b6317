//! A relay of an upstream takes a reader at its words: it stops where the reader says, and refuses
//! what it does not do. It takes callers without a password within bounds, and starts with a
//! certificate that has expired.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use synod_binlog::GtidList;
use synod_e2e::pull;
use synod_e2e::relay_group::{KeepingRelay, RelayGroup};
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, certificates, ensure, place};
use synod_local_cluster::{ServerUser, wait_for};
use synod_upstream::{Incoming, Position, Upstream, UpstreamConfig};

const PORT: u16 = 17906;
const REPLICA_PORT: u16 = 17907;
const RELAYS_PORT: u16 = 17920;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const OPTIONS: [&str; 4] = [
    "--server-id=7",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
];

#[test]
fn relay_takes_readers_at_their_words() -> Outcome {
    let dir = place::cluster_dir("relay-words")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    let relay = &mut group.relays[0];
    let replica = Replica::new(&dir, REPLICA_PORT)?;
    let outcome = until(&primary, relay, &replica)
        .and_then(|()| filter(&replica))
        .and_then(|()| own_transactions(&primary, relay, &dir))
        .and_then(|()| crowd(relay, &dir))
        .and_then(|()| expired(relay, &replica, &dir));
    if outcome.is_err() {
        eprintln!("{}\n{}", relay.says(), replica.says());
    }
    outcome
}

/// The newest GTID of the primary, once the relay has it.
fn newest(primary: &StockServer, relay: &KeepingRelay) -> Outcome<String> {
    relay.await_kept(primary, PATIENCE)?;
    Ok(primary.rows("SELECT @@gtid_binlog_pos")?.concat())
}

fn await_state(replica: &Replica, words: &[&str]) -> Outcome {
    let found = wait_for(PATIENCE, || {
        let status = replica.rows("SHOW SLAVE STATUS").ok()?.concat();
        words.iter().all(|word| status.contains(word)).then_some(())
    });
    ensure(found.is_some(), || {
        format!("not seen: {words:?}: {}", replica.says())
    })
}

/// Transactions after the GTID are not executed: here, they remove the rows.
fn until(primary: &StockServer, relay: &KeepingRelay, replica: &Replica) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "INSERT INTO shop.t VALUES (1), (2)",
    ])?;
    let last = newest(primary, relay)?;
    primary.execute(&["DROP TABLE shop.t", "CREATE TABLE shop.after (id INT)"])?;
    newest(primary, relay)?;
    replica.execute(&[&change(relay, "MASTER_SSL=0")])?;
    let start = format!("START SLAVE UNTIL master_gtid_pos = '{last}'");
    replica.execute(&[&start])?;
    let stopped = wait_for(PATIENCE, || {
        let position = replica.rows("SELECT @@gtid_slave_pos").ok()?.concat();
        let runs = replica
            .rows("SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Slave_SQL'")
            .ok()?
            .concat();
        (position == last && runs == "0").then_some(())
    });
    ensure(stopped.is_some(), || replica.says())?;
    let rows = replica.rows("SELECT COUNT(*) FROM shop.t")?;
    ensure(rows == ["2"], || format!("{rows:?} of 2 rows are there"))?;
    // Without an end it continues.
    replica.execute(&["STOP SLAVE", "START SLAVE"])?;
    let went_on = wait_for(PATIENCE, || {
        replica.rows("SELECT COUNT(*) FROM shop.after").ok()
    });
    ensure(went_on.is_some(), || replica.says())
}

fn change(relay: &KeepingRelay, ssl: &str) -> String {
    format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}',
         MASTER_PASSWORD='{}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, {ssl}",
        relay.port,
        pull::USER,
        pull::PASSWORD,
    )
}

/// The replica would leave filtering to the relay, which does none.
fn filter(replica: &Replica) -> Outcome {
    let set = |to: &str| format!("SET GLOBAL replicate_events_marked_for_skip = {to}");
    replica.execute(&["STOP SLAVE", &set("FILTER_ON_MASTER"), "START SLAVE"])?;
    await_state(replica, &["FILTER_ON_SLAVE"])?;
    replica.execute(&["STOP SLAVE", &set("FILTER_ON_SLAVE"), "START SLAVE"])?;
    replica.await_connection()?;
    replica.execute(&["STOP SLAVE"])
}

/// A former primary that lacks an older transaction of its own would leave it out, though another
/// server has written the newest.
fn own_transactions(primary: &StockServer, relay: &KeepingRelay, dir: &Path) -> Outcome {
    let before = newest(primary, relay)?;
    primary.execute(&[
        "SET SESSION server_id = 21",
        "INSERT INTO shop.after VALUES (1)",
    ])?;
    let own = newest(primary, relay)?;
    ensure(own.starts_with("0-21-"), || own.clone())?;
    primary.execute(&["INSERT INTO shop.after VALUES (2)"])?;
    newest(primary, relay)?;
    let mut config = pull::config(primary, dir, 21)?;
    newest(primary, relay)?;
    config.address.port = relay.port;
    let told = first_error(&config, &before)?;
    let says = told.contains("server_id is 21") && told.contains(&own);
    ensure(says, || format!("the reader is told: {told}"))?;
    let told = first_error(&config, &own)?;
    ensure(told.is_empty(), || {
        format!("a former primary is told: {told}")
    })
}

/// The error that a reader at a GTID gets before a transaction; empty: a transaction has come.
fn first_error(config: &UpstreamConfig, gtid: &str) -> Outcome<String> {
    let position = Position::Gtids(gtid.parse::<GtidList>().why("a GTID")?);
    let mut upstream = Upstream::connect(config, &position).why("a reader")?;
    loop {
        match upstream.next() {
            Err(error) => return Ok(error.to_string()),
            Ok(Incoming::Part(_)) => return Ok(String::new()),
            // The name of the binlog.
            Ok(Incoming::Rotated { .. }) => {}
            Ok(Incoming::Heartbeat) => return Ok("nothing".to_owned()),
        }
    }
}

/// Sockets that send a byte now and then keep no reader out, and not their places either.
fn crowd(relay: &KeepingRelay, dir: &Path) -> Outcome {
    const CROWD: usize = 100;
    let mut config = pull::config_of_port(relay.port, dir, 30)?;
    config.address.port = relay.port;
    let begun = Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut caller = TcpStream::connect(("127.0.0.1", relay.port)).why("a caller")?;
        // The header of an answer of 16 KiB.
        let _ = caller.write_all(b"\x00\x40\x00\x01");
        crowd.push(caller);
    }
    Upstream::connect(&config, &Position::Gtids(GtidList::default())).why("a reader")?;
    for caller in &mut crowd {
        let mut said = Vec::new();
        // Greeting, then the end.
        let ended = drip(caller, &mut said);
        ensure(ended, || format!("a caller is there still: {said:?}"))?;
    }
    ensure(begun.elapsed() < PATIENCE, || {
        "callers stay long".to_owned()
    })?;
    relay.await_line("too many callers at a time have proven no password")
}

/// Sends a byte now and then until the relay ends the connection.
fn drip(caller: &mut TcpStream, said: &mut Vec<u8>) -> bool {
    let limit = Instant::now() + PATIENCE;
    let pause = Duration::from_millis(200);
    if caller.set_read_timeout(Some(pause)).is_err() {
        return false;
    }
    while Instant::now() < limit {
        let mut bytes = [0; 256];
        match caller.read(&mut bytes) {
            Ok(0) => return true,
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if caller.write_all(b"x").is_err() {
                    return true;
                }
            }
            Err(_) => return true,
        }
    }
    false
}

/// Readers that do not look at the dates stay, and a renewed certificate needs no restart.
fn expired(relay: &mut KeepingRelay, replica: &Replica, dir: &Path) -> Outcome {
    let tls = dir.join("tls");
    certificates::make(&tls)?;
    certificates::make_expired(&tls, "relay")?;
    let user = ServerUser::find().why("the user")?;
    let file = |name: &str| tls.join(name);
    for given in [&tls, &file("relay.pem"), &file("relay.key")] {
        user.give(given).why("the certificates")?;
    }
    // It is valid for its first second.
    thread::sleep(Duration::from_secs(2));
    for (key, name) in [
        ("relay.tls_cert", "relay.pem"),
        ("relay.tls_key", "relay.key"),
    ] {
        relay.set(key, &format!("\"{}\"", file(name).display()));
    }
    relay.kill()?;
    relay.start()?;
    relay.await_line("Readers that look at it are not served")?;
    replica.execute(&[
        &change(relay, "MASTER_SSL=1, MASTER_SSL_VERIFY_SERVER_CERT=0"),
        "START SLAVE",
    ])?;
    replica.await_connection()
}

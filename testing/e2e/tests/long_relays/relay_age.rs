//! Relays purge by age what no registered reader needs, and keep what one does, however old it is.
//!
//! Of two relays of one primary, one has a registered reader. The other one, whose log may be older
//! by some looks at it, shows by what it purges that it is old enough.

use std::path::Path;
use std::time::Duration;

use synod_binlog::GtidList;
use synod_e2e::pull;
use synod_e2e::relay_group::{KeepingRelay, RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::wait_for;
use synod_upstream::{Incoming, Position, Upstream, UpstreamConfig, UpstreamError};

const PORT: u16 = 19506;
const HOLDING_PORT: u16 = 19520;
const OTHER_PORT: u16 = 19540;
const READER_ID: u32 = 4801;
/// The other relay is another reader of the primary.
const OTHER_ID: &str = "4712";
/// Nothing of the last minute is purged; and a log is looked at every five seconds.
const AGE: &str = "\"PT1S\"";
const OTHER_AGE: &str = "\"PT75S\"";
const PATIENCE: Duration = Duration::from_secs(300);
/// Files are purged as a whole.
const SETTINGS: [(&str, &str); 2] = [
    ("synod.log_segment_size", "\"1M\""),
    ("relay.upstream_semi_sync", "false"),
];

#[test]
fn old_log_is_kept_for_registered_readers_only() -> Outcome {
    let dir = place::cluster_dir("relay-age")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &UPSTREAM_OPTIONS)?;
    let mut holding = RelayGroup::of(&primary, &dir.join("holding"), HOLDING_PORT, 1)?;
    let mut other = RelayGroup::of(&primary, &dir.join("other"), OTHER_PORT, 1)?;
    for relay in [&mut holding.relays[0], &mut other.relays[0]] {
        SETTINGS
            .iter()
            .for_each(|(key, value)| relay.set(key, value));
    }
    holding.relays[0].set("synod.log_retain_age", AGE);
    other.relays[0].set("synod.log_retain_age", OTHER_AGE);
    other.relays[0].set("relay.upstream_server_id", OTHER_ID);
    holding.begin()?;
    other.begin()?;
    let outcome = age(&primary, &holding.relays[0], &other.relays[0], &dir);
    if outcome.is_err() {
        eprintln!("holding:\n{}\nother:\n{}", holding.says(), other.says());
    }
    outcome
}

fn age(primary: &StockServer, holding: &KeepingRelay, other: &KeepingRelay, dir: &Path) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
    ])?;
    let config = pull::config(primary, dir, READER_ID)?;
    let unneeded = write(primary)?;
    await_kept(holding, &unneeded)?;
    holding.order(&["readers", "add", &READER_ID.to_string()])?;
    write(primary)?;
    // The newest file is kept whatever its age.
    write(primary)?;
    await_purged(other, &config, &unneeded)?;
    await_purged(holding, &config, "")?;

    // The reader comes, and gets what it lacks.
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let mut reader = connect(holding, &config, &unneeded).why("the registered reader")?;
    let mut next = sequence(&unneeded)? + 1;
    while next <= sequence(&last)? {
        if let Incoming::Part(part) = reader.next().why("the registered reader")? {
            ensure(part.gtid.sequence == next, || {
                format!("{} comes, and not number {next}", part.gtid)
            })?;
            next += u64::from(part.last);
        }
    }
    // It needs none of it any more.
    await_purged(holding, &config, &unneeded)
}

/// Several files of a relay's log; the newest GTID.
fn write(primary: &StockServer) -> Outcome<String> {
    let insert = "INSERT INTO shop.t (v) VALUES (REPEAT('z', 10000))";
    primary.execute(&[insert; 400])?;
    Ok(primary.rows("SELECT @@gtid_binlog_pos")?.concat())
}

fn sequence(gtids: &str) -> Outcome<u64> {
    let list: GtidList = gtids.parse().why(gtids)?;
    Ok(list.0.first().map_or(0, |gtid| gtid.sequence))
}

fn connect(
    relay: &KeepingRelay,
    config: &UpstreamConfig,
    after: &str,
) -> Result<Upstream, UpstreamError> {
    let mut config = config.clone();
    config.address.port = relay.port;
    Upstream::connect(&config, &Position::Gtids(after.parse().unwrap_or_default()))
}

/// Waits until the relay tells a reader with these transactions that the next ones are purged. The
/// reader has a `server_id` of its own, since its place would be noted for the registered reader.
fn await_purged(relay: &KeepingRelay, config: &UpstreamConfig, after: &str) -> Outcome {
    let mut config = config.clone();
    config.server_id = READER_ID + 1;
    let told = wait_for(PATIENCE, || {
        let begun = connect(relay, &config, after).and_then(|mut reader| reader.next());
        let error = begun.err()?.to_string();
        error.contains("has been purged: transaction").then_some(())
    });
    ensure(told.is_some(), || {
        format!("{} still has what follows '{after}'", relay.name)
    })
}

fn await_kept(relay: &KeepingRelay, last: &str) -> Outcome {
    let kept = wait_for(PATIENCE, || {
        (relay.status().ok()?["gtids"] == last).then_some(())
    });
    ensure(kept.is_some(), || format!("{last} is not kept"))
}

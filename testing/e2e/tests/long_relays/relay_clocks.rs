//! An upstream whose clock is hours off, and jumps: readers get everything, and the status of a
//! relay shows no time that cannot be.
//!
//! `SET TIMESTAMP` gives the primary's events the times of such a clock.

use std::time::Duration;

use serde_json::Value;
use synod_e2e::pull::{self, Puller, check_complete};
use synod_e2e::relay_group::{KeepingRelay, RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, ensure, place};
use synod_local_cluster::wait_for;

const PORT: u16 = 19006;
const RELAYS_PORT: u16 = 19020;
const READER_ID: u32 = 4801;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const FIVE_HOURS_MS: u64 = 5 * 3_600_000;
const DAY_MS: u64 = 24 * 3_600_000;

#[test]
fn clock_of_the_upstream_may_be_hours_off() -> Outcome {
    let dir = place::cluster_dir("relay-clocks")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &UPSTREAM_OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    let mut config = pull::config(&primary, &dir, READER_ID)?;
    let relay = &mut group.relays[0];
    config.address.port = relay.port;
    let outcome = clocks(&primary, relay).and_then(|()| {
        let reader = Puller::start(config);
        let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
        reader.await_gtid(&last, PATIENCE)?;
        check_complete(&reader.finish(), &primary)
    });
    if outcome.is_err() {
        eprintln!("{}\n{:?}", relay.says(), relay.status());
    }
    outcome
}

fn clocks(primary: &StockServer, relay: &mut KeepingRelay) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
    ])?;
    let delay = |status: &Value| status["delay_ms"].as_u64();
    let ahead = write(primary, relay, 1, "UNIX_TIMESTAMP() + 18000")?;
    ensure(delay(&ahead).is_none(), || format!("{ahead}"))?;
    let behind = write(primary, relay, 2, "UNIX_TIMESTAMP() - 18000")?;
    let is_told = delay(&behind).is_some_and(|ms| (FIVE_HOURS_MS..DAY_MS).contains(&ms));
    ensure(is_told, || format!("{behind}"))?;
    // What came before its start has no delay, and nothing is known of when it came.
    relay.kill()?;
    relay.start()?;
    let again = kept(primary, relay)?;
    let is_unknown = delay(&again).is_none() && again["quiet_ms"].is_null();
    ensure(is_unknown, || format!("{again}"))?;
    let right = write(primary, relay, 3, "DEFAULT")?;
    ensure(delay(&right).is_some_and(|ms| ms < FIVE_HOURS_MS), || {
        format!("{right}")
    })
}

/// A transaction with the time of this clock; the relay's status when it has it.
fn write(primary: &StockServer, relay: &KeepingRelay, id: u32, clock: &str) -> Outcome<Value> {
    primary.execute(&[
        &format!("SET TIMESTAMP = {clock}"),
        &format!("INSERT INTO shop.t VALUES ({id})"),
    ])?;
    kept(primary, relay)
}

/// The relay's status when it has what was written last.
fn kept(primary: &StockServer, relay: &KeepingRelay) -> Outcome<Value> {
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let status = wait_for(PATIENCE, || {
        let status = relay.status().ok()?;
        (status["gtids"] == last.as_str()).then_some(status)
    });
    ensure(status.is_some(), || format!("{last} is not kept"))?;
    Ok(status.unwrap_or_default())
}

//! Three relays keep the binlog of a stock primary, which commits when two of them have it on disk:
//! whichever is killed, a replica and a late reader behind them get every transaction once; and the
//! replica takes the place of a primary that is lost.

use std::path::PathBuf;
use std::time::Duration;

use synod_e2e::agent_process::AgentProcess;
use synod_e2e::logger::write_private;
use synod_e2e::pull::{self, Puller};
use synod_e2e::relay;
use synod_e2e::relay_group::{RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, ensure, place};
use synod_local_cluster::wait_for;

use Which::{AnyOne, Every};

const PORT: u16 = 19306;
const OTHER_PORT: u16 = 19307;
const REPLICA_PORT: u16 = 19308;
const RELAYS_PORT: u16 = 19320;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longer than a relay needs to take over.
const TIMEOUT: &str = "--rpl-semi-sync-master-timeout=60000";

#[test]
fn relays_keep_what_a_primary_commits() -> Outcome {
    let dir = place::cluster_dir("relay-upstream")?;
    let mut primary = StockServer::new(
        &dir.join("primary"),
        PORT,
        &[&UPSTREAM_OPTIONS[..], &[TIMEOUT]].concat(),
    )?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 3)?;
    let mut replica = Replica::new(&dir, REPLICA_PORT)?;
    // It can take the primary's place.
    let binlog = [
        "--log-bin=replica",
        "--log-slave-updates",
        "--binlog-format=ROW",
    ];
    replica.options.extend(binlog.map(str::to_owned));
    replica.kill()?;
    replica.start()?;
    let outcome = keep(&primary, &mut group, &replica, &dir)
        .and_then(|()| fail_over(&mut primary, &group, &replica));
    if outcome.is_err() {
        eprintln!("{}\nreplica:\n{}", group.says(), replica.says());
    }
    outcome
}

fn keep(
    primary: &StockServer,
    group: &mut RelayGroup,
    replica: &Replica,
    dir: &std::path::Path,
) -> Outcome {
    primary.execute(&["SET GLOBAL rpl_semi_sync_master_enabled = ON"])?;
    group.begin()?;
    replica.follow_port(group.relays[0].port, "MASTER_SSL=0")?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, turn INT)",
    ])?;
    write(primary, 1)?;
    await_same(primary, replica)?;

    // The relay that pulls dies under writes; each waits for two relays.
    let puller = group.await_puller()?;
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| write(primary, 2));
        group.relays[puller].kill()?;
        writing.join().unwrap_or(Ok(()))
    })?;
    let next = group.await_puller()?;
    ensure(next != puller, || "a dead relay pulls".to_owned())?;
    replica.follow_port(group.relays[next].port, "MASTER_SSL=0")?;
    await_same(primary, replica)?;
    let acknowledged = primary.rows("SHOW STATUS LIKE 'Rpl_semi_sync_master_no_tx'")?;
    ensure(acknowledged == ["Rpl_semi_sync_master_no_tx\t0"], || {
        format!("commits that no relay acknowledged: {acknowledged:?}")
    })?;
    group.relays[puller].join()?;

    // All of them at once.
    for relay in &mut group.relays {
        relay.kill()?;
    }
    for relay in &mut group.relays {
        relay.start()?;
    }
    group.await_puller()?;
    write(primary, 3)?;
    await_same(primary, replica)?;

    pass_on(primary, group)?;
    await_same(primary, replica)?;

    orders(primary, group)?;
    await_same(primary, replica)?;

    // What the primary has purged, the relays still have: a reader gets it from each of them.
    let config = pull::config(primary, dir, 4712)?;
    let written = pull::events_on_disk(primary)?;
    primary.execute(&["FLUSH BINARY LOGS"])?;
    let logs = primary.rows("SHOW BINARY LOGS")?;
    let newest = logs.last().and_then(|row| row.split('\t').next());
    let newest = newest.unwrap_or_default();
    primary.execute(&[&format!("PURGE BINARY LOGS TO '{newest}'")])?;
    for relay in &group.relays {
        let mut config = config.clone();
        config.address.port = relay.port;
        let reader = Puller::start(config);
        let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
        reader.await_gtid(&last, PATIENCE)?;
        let read = reader.finish();
        let differs = read.events().zip(&written).position(|(got, is)| got != is);
        let counts = (read.events().count(), written.len());
        ensure(differs.is_none() && counts.0 == counts.1, || {
            let name = &relay.name;
            format!("{name}: event {differs:?} differs; {counts:?} events came, and were written")
        })?;
    }
    Ok(())
}

/// The replica takes the place of a primary that is lost, for the relays, too.
fn fail_over(primary: &mut StockServer, group: &RelayGroup, replica: &Replica) -> Outcome {
    let agents = group
        .relays
        .iter()
        .map(|relay| AgentProcess::of(&relay.log_dir(), &[]));
    let agents = agents.collect::<Outcome<Vec<AgentProcess>>>()?;
    await_health(&agents, Every, 200)?;
    primary.kill()?;
    // The relay whose turn it is to pull says that it cannot.
    await_health(&agents, AnyOne, 503)?;
    replica.execute(&["STOP SLAVE"])?;
    let puller = &group.relays[group.await_leader()?];
    puller.order(&["switch", &format!("127.0.0.1:{REPLICA_PORT}")])?;
    write(replica, 5)?;
    for relay in &group.relays {
        relay.await_kept(replica, PATIENCE)?;
    }
    await_health(&agents, Every, 200)?;
    let status = puller.status()?;
    ensure(status["is_switched"] == true, || format!("{status}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Every,
    AnyOne,
}

/// Waits until every relay's health, or that of any one, has this status.
fn await_health(agents: &[AgentProcess], which: Which, wanted: u16) -> Outcome {
    let mut last = Vec::new();
    let seen = wait_for(PATIENCE, || {
        let health = agents.iter().map(|agent| agent.get("/health/relay"));
        last = health.collect::<Outcome<Vec<_>>>().ok()?;
        let mut are_so = last.iter().map(|(status, _)| *status == wanted);
        let is_so = match which {
            Every => are_so.all(|is_so| is_so),
            AnyOne => are_so.any(|is_so| is_so),
        };
        is_so.then_some(())
    });
    eprintln!("  health of the relays: {last:?}");
    let names_it = || {
        last.iter()
            .any(|(_, why)| why.contains("gets nothing new from"))
    };
    ensure(seen.is_some() && (wanted == 200 || names_it()), || {
        format!("the relays' health is not {wanted}: {last:?}")
    })
}

/// Clients that insert rows, and a change of the table.
fn write(primary: &StockServer, turn: u32) -> Outcome {
    let insert = format!("INSERT INTO shop.orders (turn) VALUES ({turn})");
    let column = format!("ALTER TABLE shop.orders ADD COLUMN c{turn} INT DEFAULT {turn}");
    let many: Vec<&str> = std::iter::repeat_n(insert.as_str(), 150).collect();
    primary.execute(&many)?;
    primary.execute(&[&column, &insert])
}

fn await_same(primary: &StockServer, replica: &Replica) -> Outcome {
    let sum = "CHECKSUM TABLE shop.orders";
    let wanted = primary.rows(sum)?;
    let same = wait_for(PATIENCE, || {
        (replica.rows(sum).ok()? == wanted).then_some(())
    });
    ensure(same.is_some(), || {
        format!("the replica has other rows than {wanted:?}")
    })
}

/// A relay that the upstream refuses, as its file has another password, has another one pull.
fn pass_on(primary: &StockServer, group: &RelayGroup) -> Outcome {
    let puller = group.await_puller()?;
    let file = PathBuf::from(
        group.relays[puller]
            .value("relay.upstream_password_file")
            .trim_matches('"'),
    );
    write_private(&file, "an old one")?;
    let dumps = primary
        .rows("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")?;
    for id in dumps {
        primary.execute(&[&format!("KILL {id}")])?;
    }
    let next = wait_for(PATIENCE, || {
        group.await_puller().ok().filter(|next| *next != puller)
    });
    write_private(&file, relay::PASSWORD)?;
    let former = &group.relays[puller];
    ensure(next.is_some(), || {
        format!("{} cannot pull, and leads: {}", former.name, former.says())
    })?;
    former.await_line("leads now, and tries in its place")?;
    write(primary, 6)
}

/// Orders of operators, at the relay that leads and at another one.
fn orders(primary: &StockServer, group: &RelayGroup) -> Outcome {
    let puller = group.await_puller()?;
    let other = &group.relays[(puller + 1) % 3];
    let refused = other.command(&["pause"])?;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    let names = text.contains(&group.relays[puller].name);
    ensure(refused.status.code() == Some(4) && names, || {
        format!("a relay that does not lead takes orders: {text}")
    })?;
    let puller = &group.relays[puller];
    puller.order(&["pause"])?;
    let status = puller.status()?;
    ensure(status["is_paused"] == true, || format!("{status}"))?;
    puller.order(&["resume"])?;
    let stray = puller.command(&["switch", &format!("127.0.0.1:{OTHER_PORT}")])?;
    let text = String::from_utf8_lossy(&stray.stderr).into_owned();
    let stays = text.contains("the upstream stays as it is");
    ensure(stray.status.code() == Some(4) && stays, || {
        format!("an upstream that does not answer is taken: {text}")
    })?;
    let pulls = wait_for(PATIENCE, || group.await_puller().ok());
    ensure(pulls.is_some(), || "nothing is pulled".to_owned())?;
    write(primary, 4)
}

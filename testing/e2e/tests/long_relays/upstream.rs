//! A stock primary under load, and a reader of its binlog as a relay is one: every transaction
//! comes once, in order, as it is on the primary's disk, whatever is killed or interrupted
//! meanwhile; a filter leaves every GTID; so does encryption; commits wait for acknowledgements.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use synod_e2e::pull::{self, Puller, check_complete, events_on_disk};
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, certificates, ensure, place};
use synod_upstream::{
    Filter, Held, Incoming, Position, Upstream, UpstreamConfig, UpstreamEncryption,
};

const PORT: u16 = 32706;
const SERVER_ID: u32 = 4711;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time after which a missing answer counts as none.
const MOMENT: Duration = Duration::from_millis(500);
/// Parts are so small here that transactions have several.
const PART_BYTES: usize = 1 << 20;
/// Options by which an acknowledged commit survives a kill.
const OPTIONS: [&str; 8] = [
    "--server-id=1",
    "--log-bin=primary",
    "--binlog-format=ROW",
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
    "--max-binlog-size=4M",
    "--rpl-semi-sync-master-timeout=60000",
    "--max-allowed-packet=64M",
];
/// Clients that write at a time.
const CLIENTS: u32 = 3;
/// Statements of each client before something happens.
const TURN: u32 = 120;

#[test]
fn reader_gets_every_transaction_once() -> Outcome {
    let dir = place::cluster_dir("upstream")?;
    let mut primary = StockServer::new(&dir.join("primary"), PORT, &OPTIONS)?;
    let mut config = pull::config(&primary, &dir, SERVER_ID)?;
    config.part_bytes = PART_BYTES;
    primary.execute(&["CREATE DATABASE shop", "CREATE DATABASE other"])?;
    let puller = Puller::start(config.clone());
    load(&primary, 1)?;
    puller.interrupt();
    load(&primary, 2)?;
    puller.await_gtid(&newest(&primary)?, PATIENCE)?;
    // Under load, and amid a large transaction.
    thread::scope(|threads| {
        let loading = threads.spawn(|| load(&primary, 3));
        for _ in 0..5 {
            thread::sleep(MOMENT / 2);
            puller.interrupt();
        }
        loading.join().unwrap_or(Ok(()))
    })?;
    primary.kill()?;
    primary.start()?;
    load(&primary, 4)?;
    puller.await_gtid(&newest(&primary)?, PATIENCE)?;
    let pulled = puller.finish();
    check_complete(&pulled, &primary)?;
    ensure(pulled.largest_part <= PART_BYTES, || {
        format!("a part has {} bytes", pulled.largest_part)
    })?;
    ensure(pulled.ends.len() > 2, || format!("{:?}", pulled.ends))?;
    filters(&primary, &config)?;
    config.encryption = Some(encrypt(&dir, &mut primary)?);
    from_the_beginning(&primary, &config)?;
    acknowledgements(&primary, config)
}

/// Clients that do all that ends up in a binlog in another form. `turn` tells their names apart.
fn load(primary: &StockServer, turn: u32) -> Outcome {
    thread::scope(|threads| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| threads.spawn(move || write(primary, turn * 10 + client)))
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or(Ok(())))
    })
}

fn write(primary: &StockServer, name: u32) -> Outcome {
    let mut conn = primary.connect()?;
    let (schema, other) = if name.is_multiple_of(2) {
        ("shop", "other")
    } else {
        ("other", "shop")
    };
    let mut run = |sql: &str| conn.query_drop(sql).why(sql);
    run(&format!("USE {schema}"))?;
    run(&format!(
        "CREATE TABLE t{name} (id INT PRIMARY KEY, v LONGTEXT)"
    ))?;
    run(&format!(
        "CREATE TABLE {other}.o{name} (id INT PRIMARY KEY, v INT)"
    ))?;
    run(&format!("CREATE TABLE a{name} (id INT) ENGINE=Aria"))?;
    for id in 0..TURN {
        match id % 8 {
            0 => run(&format!("INSERT INTO a{name} VALUES ({id})"))?,
            1 => {
                run("BEGIN")?;
                run(&format!("INSERT INTO t{name} VALUES ({id}, 'x')"))?;
                run(&format!("INSERT INTO {other}.o{name} VALUES ({id}, 1)"))?;
                run("SAVEPOINT s")?;
                run(&format!("INSERT INTO a{name} VALUES ({id})"))?;
                run(&format!("DELETE FROM t{name} WHERE id < {id} - 60"))?;
                run("ROLLBACK TO s")?;
                run("COMMIT")?;
            }
            // Both tables in one statement: the last rows are of one of them.
            2 => run(&format!(
                "UPDATE t{name} t JOIN {other}.o{name} o ON t.id = o.id SET t.v = {id}, o.v = {id}"
            ))?,
            3 => {
                let xid = format!("'x{name}-{id}'");
                run(&format!("XA START {xid}"))?;
                run(&format!("INSERT INTO t{name} VALUES ({id}, 'xa')"))?;
                run(&format!("XA END {xid}"))?;
                run(&format!("XA PREPARE {xid}"))?;
                run(&format!("XA COMMIT {xid}"))?;
            }
            _ => run(&format!("INSERT INTO t{name} VALUES ({id}, '{id}')"))?,
        }
    }
    run(&format!("ALTER TABLE t{name} ADD COLUMN n INT DEFAULT 7"))?;
    run(&format!(
        "CREATE TABLE c{name} AS SELECT id, n FROM t{name}"
    ))?;
    run("FLUSH BINARY LOGS")?;
    if name % 10 == 1 {
        // One event that is larger than a packet of the protocol.
        run(&format!(
            "INSERT INTO t{name} VALUES (-1, REPEAT('y', 17000000), 1)"
        ))?;
        // A transaction that is larger than a part, and than a file of the primary.
        run("BEGIN")?;
        for id in 2..20 {
            run(&format!(
                "INSERT INTO t{name} VALUES (-{id}, REPEAT('z', 1000000), 1)"
            ))?;
        }
        run("COMMIT")?;
    }
    Ok(())
}

fn newest(primary: &StockServer) -> Outcome<String> {
    Ok(primary.rows("SELECT @@gtid_binlog_pos")?.concat())
}

/// A filtered stream has every GTID, and fewer events.
fn filters(primary: &StockServer, config: &UpstreamConfig) -> Outcome {
    let pattern = |text: &str| text.parse().why(text);
    let mut config = config.clone();
    config.filter = Filter {
        keep: vec![pattern("shop.*")?],
        ignore: vec![pattern("shop.a*")?],
    };
    let puller = Puller::start(config);
    puller.await_gtid(&newest(primary)?, PATIENCE)?;
    let pulled = puller.finish();
    let sequences = pulled.transactions.iter().map(|(gtid, _)| gtid.sequence);
    ensure(sequences.eq(1..=pulled.transactions.len() as u64), || {
        "a GTID is missing".to_owned()
    })?;
    let (all, kept) = (events_on_disk(primary)?.len(), pulled.events().count());
    ensure(kept > all / 4 && kept < all, || {
        format!("{kept} events are left of {all}")
    })
}

/// Restarts the primary with a certificate, and so that its commits wait for acknowledgements.
/// Gives what its readers need to know.
fn encrypt(dir: &Path, primary: &mut StockServer) -> Outcome<UpstreamEncryption> {
    let tls = dir.join("tls");
    let encrypting = certificates::server_options(&tls)?;
    primary.kill()?;
    primary.options.extend(encrypting);
    let waiting = "--rpl-semi-sync-master-enabled=ON".to_owned();
    primary.options.push(waiting);
    primary.start()?;
    Ok(UpstreamEncryption {
        authorities: tls.join("ca.pem"),
        checks_name: false,
    })
}

/// Everything that the primary has comes as fast as it can, not when it is written.
fn from_the_beginning(primary: &StockServer, config: &UpstreamConfig) -> Outcome {
    let puller = Puller::start(config.clone());
    puller.await_gtid(&newest(primary)?, PATIENCE)?;
    check_complete(&puller.finish(), primary)
}

/// A commit waits until it is acknowledged, over an encrypted connection, from another thread.
fn acknowledgements(primary: &StockServer, mut config: UpstreamConfig) -> Outcome {
    config.semi_sync = true;
    let mut upstream = Upstream::connect(&config, &Position::Now).why("connecting")?;
    // The first heartbeat shows that the dump has begun, for which the primary's commits wait.
    while upstream.next().why("a heartbeat")? != Incoming::Heartbeat {}
    for number in 0..20 {
        thread::scope(|threads| -> Outcome {
            let (told, hears) = mpsc::channel();
            let statement = format!("INSERT INTO shop.a22 VALUES ({number})");
            threads.spawn(move || told.send(primary.execute(&[&statement])));
            let part = loop {
                if let Incoming::Part(part) = upstream.next().why("a part")? {
                    break part;
                }
            };
            if number == 0 {
                let early = hears.recv_timeout(MOMENT);
                ensure(early.is_err(), || "the commit has not waited".to_owned())?;
            }
            let handle = upstream.handle();
            // As a relay does: while its reader waits for the next event.
            threads.spawn(move || handle.acknowledge(&part.end));
            while upstream.next().why("a heartbeat")? != Incoming::Heartbeat {}
            hears.recv_timeout(PATIENCE).why("an answer")?
        })?;
    }
    held(primary, &config, upstream)?;
    let status = primary.rows("SHOW STATUS LIKE 'Rpl_semi_sync_master_yes_tx'")?;
    ensure(status == ["Rpl_semi_sync_master_yes_tx\t21"], || {
        format!("{status:?}")
    })
}

/// A reader that ends before it has acknowledged what it has does so when it comes again: the
/// primary does not send it again. A place that is not that of the reader's transactions is not
/// acknowledged.
fn held(primary: &StockServer, config: &UpstreamConfig, mut upstream: Upstream) -> Outcome {
    thread::scope(|threads| -> Outcome {
        let (told, hears) = mpsc::channel();
        threads.spawn(move || told.send(primary.execute(&["INSERT INTO shop.a22 VALUES (99)"])));
        let part = loop {
            if let Incoming::Part(part) = upstream.next().why("a part")? {
                break part;
            }
        };
        upstream.handle().stop();
        let has = Position::Gtids(synod_binlog::GtidList(vec![part.gtid]));
        let mut elsewhere = part.end.clone();
        elsewhere.offset += 1_000_000;
        for (place, is_answered) in [(elsewhere, false), (part.end, true)] {
            let held = Held::Place(place.clone());
            let mut again = Upstream::connect_holding(config, &has, Some(&held)).why("again")?;
            while again.next().why("a heartbeat")? != Incoming::Heartbeat {}
            let limit = if is_answered { PATIENCE } else { MOMENT };
            let answer = hears.recv_timeout(limit);
            ensure(answer.is_ok() == is_answered, || {
                format!("acknowledging {place}: {answer:?}")
            })?;
            again.handle().stop();
        }
        Ok(())
    })
}

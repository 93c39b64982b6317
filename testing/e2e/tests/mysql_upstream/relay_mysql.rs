//! Three relays keep the binlog of MySQL and serve it as that of MariaDB: a replica behind them has
//! the same tables and rows, whichever relay is killed; the relays change to another MySQL with the
//! same GTIDs; what cannot be followed is refused in words, and can be left out; a new group goes
//! on with the GTIDs of the one before.
//!
//! Skipped where there is no MySQL: `make mysql-upstream` installs one and runs this.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use synod_e2e::mysql_server::{self, MysqlServer};
use synod_e2e::programs::output_of;
use synod_e2e::pull;
use synod_e2e::relay;
use synod_e2e::relay_group::RelayGroup;
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::wait_for;
use synod_upstream::{Position, Upstream, UpstreamConfig, UpstreamEncryption, UpstreamError};

const PORT: u16 = 19406;
const SECOND_PORT: u16 = 19407;
const STRANGE_PORT: u16 = 19408;
const MARIADB_PORT: u16 = 19409;
const REPLICA_PORT: u16 = 19410;
const RELAYS_PORT: u16 = 19420;
const MOVED_PORT: u16 = 19460;
const MOVED_REPLICA_PORT: u16 = 19461;
const MOVED_RELAY_PORT: u16 = 19470;
const REFUSING_PORT: u16 = 19450;
const STOPPED_PORT: u16 = 19480;
const STOPPED_REPLICA_PORT: u16 = 19481;
const STOPPED_RELAY_PORT: u16 = 19490;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longer than a relay needs to take over.
const SEMI_SYNC: [&str; 3] = [
    "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
    "SET GLOBAL rpl_semi_sync_source_timeout = 60000",
    "SET GLOBAL rpl_semi_sync_source_enabled = ON",
];
/// Tables that both servers are compared by, and what is compared.
const TABLES: [(&str, &str); 9] = [
    ("orders", "CONCAT_WS('#', id, turn, note, at, price)"),
    ("items", "CONCAT_WS('#', id, HEX(data))"),
    ("copied", "CONCAT_WS('#', id, turn, note, at, price)"),
    ("plain", "CONCAT_WS('#', a)"),
    ("computed", "CONCAT_WS('#', id, a, v, s)"),
    (
        "kinds",
        "CONCAT_WS('#', id, d, t, e, s, f, HEX(b), y, tm, u)",
    ),
    (
        "bare",
        "CONCAT_WS('#', id, a IS NULL, b IS NULL, c, d, dt IS NULL, t6 IS NULL)",
    ),
    ("implicit", "CONCAT_WS('#', id, a, b)"),
    ("keyless", "CONCAT_WS('#', my_row_id, v)"),
];
/// Tables whose columns say nothing of NULL and defaults, or that MySQL adds columns to.
const SCHEMA: [&str; 9] = [
    "CREATE TABLE shop.bare (id INT PRIMARY KEY AUTO_INCREMENT, a TIMESTAMP, b TIMESTAMP, \
     c CHAR(3), d DECIMAL(8,3), dt DATETIME(3), t6 TIMESTAMP(6), n NUMERIC, ti TINYINT, \
     si SMALLINT UNSIGNED, mi MEDIUMINT, bi BIGINT UNSIGNED, f FLOAT, db DOUBLE, bt BIT(3), \
     da DATE, tm TIME(2), y YEAR, vc VARCHAR(20), bn BINARY(4), vb VARBINARY(9), tt TINYTEXT, \
     tx TEXT, mt MEDIUMTEXT, lt LONGTEXT, tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB, \
     e ENUM('x','y'), s SET('p','q'), p POINT, bo BOOLEAN)",
    "INSERT INTO shop.bare (a, b, c) VALUES (NULL, NULL, 'x'), (NOW(), NULL, NULL)",
    "UPDATE shop.bare SET d = 1.5, p = ST_GeomFromText('POINT(1 2)') WHERE id = 1",
    "SET SESSION explicit_defaults_for_timestamp = OFF",
    "CREATE TABLE shop.implicit (id INT PRIMARY KEY AUTO_INCREMENT, a TIMESTAMP, n INT)",
    "SET SESSION explicit_defaults_for_timestamp = ON",
    "ALTER TABLE shop.implicit ADD COLUMN b TIMESTAMP, ADD COLUMN h INT INVISIBLE DEFAULT 5",
    "SET SESSION sql_generate_invisible_primary_key = ON",
    "CREATE TABLE shop.keyless (v INT)",
];
/// The columns of all tables, in words that both servers share.
const COLUMNS: &str = "SELECT CONCAT_WS('#', table_name, column_name, ordinal_position, is_nullable, \
    data_type, column_type LIKE '%unsigned%', character_maximum_length, datetime_precision, \
    LOWER(REPLACE(REPLACE(COALESCE(column_default, 'NULL'), '()', ''), '\\'', '')), \
    TRIM(LOWER(REPLACE(REPLACE(REPLACE(extra, 'DEFAULT_GENERATED', ''), '()', ''), ',', '')))) \
    FROM information_schema.columns WHERE table_schema = 'shop' \
    AND table_name IN ('bare', 'implicit', 'keyless', 'orders', 'kinds') \
    ORDER BY table_name, ordinal_position";

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-upstream runs it"]
fn relays_keep_what_mysql_commits() -> Outcome {
    let root = mysql_server::installed()?;
    let dir = place::cluster_dir("relay-mysql")?;
    let new = |name, port, id: &str| {
        let option = format!("--server-id={id}");
        MysqlServer::new(root.clone(), name, port, &[&option])
    };
    let primary = new("primary", PORT, "11")?;
    accounts(&primary)?;
    let mut group = RelayGroup::of_port(PORT, &dir, RELAYS_PORT, 3)?;
    let replica = Replica::new(&dir, REPLICA_PORT)?;
    let second = new("second", SECOND_PORT, "12")?;
    let stranger = new("stranger", STRANGE_PORT, "13")?;
    accounts(&stranger)?;
    trust(&mut group, &dir, &[&primary, &second, &stranger])?;
    let outcome = keep(&primary, &mut group, &replica)
        .and_then(|()| refuse_others(&group, &stranger, &dir))
        .and_then(|()| switch(&primary, &second, &group, &replica));
    if outcome.is_err() {
        let (relays, replica) = (group.says(), replica.says());
        eprintln!("{relays}\nreplica:\n{replica}\nMySQL:\n{}", primary.log());
    }
    outcome
}

/// The account of relays, as the manual has it.
fn accounts(server: &MysqlServer) -> Outcome {
    let (user, password) = (relay::USER, relay::PASSWORD);
    // A replica of MariaDB could not execute it.
    server.execute(&[
        "SET SESSION sql_log_bin = OFF",
        &format!("CREATE USER {user} IDENTIFIED WITH caching_sha2_password BY '{password}'"),
        &format!("GRANT REPLICATION SLAVE ON *.* TO {user}"),
    ])
}

/// The relays trust the certificates of these servers themselves, as the manual has it.
fn trust(group: &mut RelayGroup, dir: &Path, servers: &[&MysqlServer]) -> Outcome {
    let read = |server: &&MysqlServer| fs::read_to_string(server.file("server-cert.pem"));
    let certificates: Result<String, _> = servers.iter().map(read).collect();
    fs::create_dir_all(dir).why("the directory")?;
    let file = dir.join("upstream-server-cert.pem");
    fs::write(&file, certificates.why("a certificate")?).why("the certificates")?;
    for relay in &mut group.relays {
        relay.set("relay.upstream_tls_ca", &format!("\"{}\"", file.display()));
        relay.set("relay.upstream_tls_verify_name", "false");
    }
    Ok(())
}

fn keep(primary: &MysqlServer, group: &mut RelayGroup, replica: &Replica) -> Outcome {
    primary.execute(&SEMI_SYNC)?;
    group.begin()?;
    replica.follow_port(group.relays[0].port, "MASTER_SSL=0")?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, turn INT, note VARCHAR(40), \
         at DATETIME(6) DEFAULT NOW(6), price DECIMAL(10,2), KEY (note)) ENGINE=InnoDB",
        "CREATE TABLE shop.items (id INT PRIMARY KEY, data LONGBLOB)",
        "CREATE TABLE shop.plain (a INT) ENGINE=MyISAM",
        "CREATE TABLE shop.kinds (id INT PRIMARY KEY AUTO_INCREMENT, d DATE, t TIME(3), \
         e ENUM('a','b'), s SET('x','y'), f DOUBLE, b BIT(9), y YEAR, tm TIMESTAMP(2) NULL, \
         u BIGINT UNSIGNED)",
        "CREATE TABLE shop.computed (id INT PRIMARY KEY AUTO_INCREMENT, a INT, \
         v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED)",
    ])?;
    write(primary, 1)?;
    primary.execute(&SCHEMA)?;
    primary.execute(&[
        "INSERT INTO shop.implicit (n) VALUES (1)",
        "INSERT INTO shop.keyless VALUES (7), (8)",
        "SET SESSION gtid_next = 'AUTOMATIC:orders'",
        "INSERT INTO shop.orders (turn) VALUES (0)",
        "SET SESSION gtid_next = 'AUTOMATIC'",
    ])?;
    // The texts of statements come, too.
    primary.execute(&[
        "SET SESSION binlog_rows_query_log_events = ON",
        "INSERT INTO shop.orders (turn) VALUES (0)",
        "CREATE TABLE shop.copied AS SELECT * FROM shop.orders WHERE turn = 1",
    ])?;
    await_same(primary, replica, group)?;

    // The relay that pulls dies under writes; each waits for two relays.
    for turn in [2, 3] {
        let puller = group.await_puller()?;
        std::thread::scope(|threads| {
            let writing = threads.spawn(|| write(primary, turn));
            group.relays[puller].kill()?;
            writing.join().unwrap_or(Ok(()))
        })?;
        let next = group.await_puller()?;
        ensure(next != puller, || "a dead relay pulls".to_owned())?;
        replica.follow_port(group.relays[next].port, "MASTER_SSL=0")?;
        await_same(primary, replica, group)?;
        group.relays[puller].join()?;
    }
    let alone = primary.rows("SHOW STATUS LIKE 'Rpl_semi_sync_source_no_tx'")?;
    ensure(alone == ["Rpl_semi_sync_source_no_tx\t0"], || {
        format!("commits that no relay acknowledged: {alone:?}")
    })?;

    // All of them at once.
    for relay in &mut group.relays {
        relay.kill()?;
    }
    for relay in &mut group.relays {
        relay.start()?;
    }
    group.await_puller()?;
    write(primary, 4)?;
    await_same(primary, replica, group)
}

/// Clients that change rows, a change of a table, and a transaction of several parts.
fn write(server: &MysqlServer, turn: u32) -> Outcome {
    let insert =
        format!("INSERT INTO shop.orders (turn, note, price) VALUES ({turn}, 'Grüße', {turn}.25)");
    let mut statements = vec![insert.as_str(); 60];
    let update = format!("UPDATE shop.orders SET note = '€uro {turn}' WHERE id % 3 = 0");
    let delete = format!("DELETE FROM shop.orders WHERE turn = {turn} AND id % 7 = 0");
    let plain = format!("INSERT INTO shop.plain (a) VALUES ({turn}), ({turn})");
    let column = format!("ALTER TABLE shop.plain ADD COLUMN c{turn} INT DEFAULT {turn}");
    let kinds = "INSERT INTO shop.kinds (d, t, e, s, f, b, y, tm, u) VALUES ('2026-02-28', \
                 '-12:34:56.789', 'b', 'x,y', 1.5e-7, b'101010101', 2026, \
                 '2026-01-02 03:04:05.67', 18446744073709551615), \
                 (NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL)";
    let items: Vec<String> = (1..8)
        .map(|id| {
            let id = turn * 10 + id;
            format!("INSERT INTO shop.items VALUES ({id}, REPEAT(CHAR({id}), 1000000))")
        })
        .collect();
    statements.extend([&*update, &delete, &plain, &column, kinds]);
    statements.extend([
        "INSERT INTO shop.computed (a) VALUES (1), (2), (3)",
        "UPDATE shop.computed SET a = a + 10 WHERE a < 3",
        "DELETE FROM shop.computed WHERE a = 3",
        "BEGIN",
    ]);
    statements.extend(items.iter().map(String::as_str));
    statements.extend(["SAVEPOINT s", &delete, "ROLLBACK TO s", "COMMIT"]);
    statements.extend([
        "CREATE OR REPLACE VIEW shop.v AS SELECT id FROM shop.orders",
        &insert,
    ]);
    server.execute(&statements)
}

/// The replica has the same rows, and the relays as many GTIDs as MySQL has.
fn await_same(server: &MysqlServer, replica: &Replica, group: &RelayGroup) -> Outcome {
    for (table, row) in TABLES {
        let sum = format!("SELECT COUNT(*), SUM(CRC32({row})), BIT_XOR(CRC32({row})) FROM {table}")
            .replace("FROM ", "FROM shop.");
        let wanted = server.rows(&sum)?;
        let same = wait_for(PATIENCE, || {
            (replica.rows(&sum).ok()? == wanted).then_some(())
        });
        ensure(same.is_some(), || {
            let found = replica.rows(&sum);
            format!("{table}: the replica has {found:?}, and {wanted:?} is in MySQL")
        })?;
    }
    let wanted = server.rows(COLUMNS)?;
    let found = replica.rows(COLUMNS)?;
    ensure(found == wanted, || {
        let rows = found
            .iter()
            .zip(&wanted)
            .filter(|(found, wanted)| found != wanted);
        let rows: Vec<_> = rows.collect();
        format!("the replica has other tables than MySQL: {rows:?}")
    })?;
    let executed = executed(server)?;
    let count = count_of(&executed);
    let same = wait_for(PATIENCE, || {
        let status = group.relays[group.await_leader().ok()?].status().ok()?;
        let sequence = status["gtids"].as_str()?.rsplit('-').next()?.parse().ok();
        let is_same = status["mysql_gtids"] == executed.as_str() && sequence == Some(count);
        (is_same && status["warning"].is_null()).then_some(())
    });
    ensure(same.is_some(), || {
        format!(
            "MySQL has {count} transactions, {executed}:\n{}",
            group.says()
        )
    })
}

/// The set of MySQL's transactions, in one line.
fn executed(server: &MysqlServer) -> Outcome<String> {
    let set = server.rows("SELECT @@GLOBAL.gtid_executed")?.concat();
    Ok(set.replace("\\n", "").replace('\n', ""))
}

/// Number of transactions in a set, as MySQL writes it.
fn count_of(set: &str) -> u64 {
    let runs = set.split(',').flat_map(|server| server.split(':').skip(1));
    let sizes = runs.filter_map(|run| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some(last.parse::<u64>().ok()? - first.parse::<u64>().ok()? + 1)
    });
    sizes.sum()
}

/// Servers that do not have what the relays have.
fn refuse_others(group: &RelayGroup, stranger: &MysqlServer, dir: &Path) -> Outcome {
    // The relays know this certificate. Its server has another user.
    let file = |name: &str| -> Outcome<String> {
        let copy = dir.join(name);
        let text = fs::read(stranger.file(name)).why("a certificate")?;
        fs::write(&copy, text).why("a certificate's copy")?;
        Ok(copy.display().to_string())
    };
    let (cert, key) = (file("server-cert.pem")?, file("server-key.pem")?);
    let mariadb = StockServer::new(
        &dir.join("mariadb"),
        MARIADB_PORT,
        &[
            "--server-id=3",
            "--log-bin=primary",
            "--binlog-format=ROW",
            &format!("--ssl-cert={cert}"),
            &format!("--ssl-key={key}"),
        ],
    )?;
    mariadb.execute(&[
        &format!(
            "CREATE USER {} IDENTIFIED BY '{}'",
            relay::USER,
            relay::PASSWORD
        ),
        &format!("GRANT REPLICATION SLAVE ON *.* TO {}", relay::USER),
    ])?;
    let puller = &group.relays[group.await_puller()?];
    for (port, words) in [
        (STRANGE_PORT, "does not have the transactions"),
        (MARIADB_PORT, "the upstream is MariaDB"),
    ] {
        let refused = puller.command(&["switch", &format!("127.0.0.1:{port}")])?;
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        let says = text.contains(words) && text.contains("stays as it is");
        ensure(!refused.status.success() && says, || text)?;
    }
    Ok(())
}

/// The relays pull from a server that replicates from the first one.
fn switch(
    primary: &MysqlServer,
    second: &MysqlServer,
    group: &RelayGroup,
    replica: &Replica,
) -> Outcome {
    second.execute(&[
        &format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, \
             SOURCE_USER='{}', SOURCE_PASSWORD='{}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1",
            primary.port,
            relay::USER,
            relay::PASSWORD
        ),
        "START REPLICA",
    ])?;
    let wanted = "SELECT @@GLOBAL.gtid_executed";
    let executed = primary.rows(wanted)?;
    let came = wait_for(PATIENCE, || {
        (second.rows(wanted).ok()? == executed).then_some(())
    });
    ensure(came.is_some(), || second.log())?;
    second.execute(&["STOP REPLICA", "RESET REPLICA ALL"])?;
    accounts(second)?;
    let puller = &group.relays[group.await_puller()?];
    puller.order(&["switch", &format!("127.0.0.1:{}", second.port)])?;
    group.await_puller()?;
    write(second, 5)?;
    await_same(second, replica, group)
}

/// A dump becomes a replica by the manual, while a client writes.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-upstream runs it"]
fn dump_of_mysql_becomes_a_replica() -> Outcome {
    let root = mysql_server::installed()?;
    let dir = place::cluster_dir("relay-mysql-moved")?;
    let server = MysqlServer::new(root, "moved", MOVED_PORT, &["--server-id=11"])?;
    accounts(&server)?;
    let mut group = RelayGroup::of_port(MOVED_PORT, &dir, MOVED_RELAY_PORT, 1)?;
    trust(&mut group, &dir, &[&server])?;
    let replica = Replica::new(&dir, MOVED_REPLICA_PORT)?;
    server.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.names (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) UNIQUE)",
    ])?;
    let insert = "INSERT INTO shop.names (name) VALUES (UUID())";
    let write = || server.execute(&vec![insert; 300]);
    // They differ by a blank only.
    server.execute(&["INSERT INTO shop.names (name) VALUES ('a'), ('a '), ('ö')"])?;
    let (dump, set) = std::thread::scope(|threads| {
        let writing = threads.spawn(write);
        let dump = server.dump(&["shop"]);
        writing.join().unwrap_or(Ok(()))?;
        dump
    })?;
    let file = dir.join("shop.sql");
    let dump = dump.replace("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci");
    std::fs::write(&file, dump).why("the dump")?;
    replica.load(&file)?;
    group.relays[0].set("relay.upstream_start", &format!("\"{set}\""));
    group.relays[0].unset("relay.upstream_semi_sync");
    group.begin()?;
    begin_after(&replica, &set)?;
    replica.follow_port(group.relays[0].port, "MASTER_SSL=0")?;
    write()?;
    let sum = "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', id, name))) FROM shop.names";
    let wanted = server.rows(sum)?;
    let same = wait_for(PATIENCE, || {
        (replica.rows(sum).ok()? == wanted).then_some(())
    });
    ensure(same.is_some(), || {
        let (found, says) = (replica.rows(sum), replica.says());
        format!("{found:?}, not {wanted:?}:\n{}\n{says}", group.says())
    })
}

/// Tells a replica that it has this set of MySQL's transactions, as the manual has it.
fn begin_after(replica: &Replica, set: &str) -> Outcome {
    let mut command = Command::new(place::program()?);
    let shown = output_of(command.args(["relay", "gtid", set]), "synod relay gtid")?;
    let gtid = String::from_utf8_lossy(&shown).trim().to_owned();
    replica.execute(&[&format!("SET GLOBAL gtid_slave_pos = '{gtid}'")])
}

/// A transaction that stops the pull is left out by an order, and a replica says so. Another group
/// begins later: no reader of the first one passes over a transaction in it.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-upstream runs it"]
fn what_is_left_out_or_was_purged_is_never_passed_over() -> Outcome {
    let root = mysql_server::installed()?;
    let dir = place::cluster_dir("relay-mysql-stopped")?;
    let server = MysqlServer::new(root, "stopped", STOPPED_PORT, &["--server-id=11"])?;
    accounts(&server)?;
    let mut group = RelayGroup::of_port(STOPPED_PORT, &dir, STOPPED_RELAY_PORT, 1)?;
    trust(&mut group, &dir, &[&server])?;
    let replica = Replica::new(&dir, STOPPED_REPLICA_PORT)?;
    group.begin()?;
    replica.follow_port(group.relays[0].port, "MASTER_SSL=0")?;
    server.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "INSERT INTO shop.t VALUES (1)",
        "SET SESSION binlog_transaction_compression = ON",
        "INSERT INTO shop.t VALUES (2)",
        "SET SESSION binlog_transaction_compression = OFF",
        "INSERT INTO shop.t VALUES (3)",
    ])?;
    leave_out(&server, &group, &replica)?;

    replica.execute(&["STOP SLAVE"])?;
    server.execute(&["INSERT INTO shop.t VALUES (4)"])?;
    let relay = &mut group.relays[0];
    relay.kill()?;
    fs::remove_dir_all(relay.log_dir()).why("the log")?;
    fs::create_dir(relay.log_dir()).why("another log")?;
    let set = executed(&server)?;
    relay.set("relay.upstream_start", &format!("\"{set}\""));
    group.begin()?;
    server.execute(&vec![
        "INSERT INTO shop.t SELECT MAX(id) + 1 FROM shop.t";
        30
    ])?;
    replica.execute(&["START SLAVE"])?;
    let refused = wait_for(PATIENCE, || {
        let status = replica.rows("SHOW SLAVE STATUS").ok()?.concat();
        status
            .contains("What the reader lacks has been purged")
            .then_some(())
    });
    ensure(refused.is_some(), || replica.says())?;
    // A copy of the row that it lacks.
    replica.execute(&["STOP SLAVE", "INSERT INTO shop.t VALUES (4)"])?;
    begin_after(&replica, &set)?;
    replica.execute(&["START SLAVE"])?;
    await_rows(&replica, &server)
}

fn leave_out(server: &MysqlServer, group: &RelayGroup, replica: &Replica) -> Outcome {
    let set = executed(server)?;
    let (uuid, last) = set.split_once(":1-").unwrap_or_default();
    let last: u64 = last.parse().why("the set")?;
    let compressed = format!("{uuid}:{}", last - 1);
    let relay = &group.relays[0];
    let names = format!("synod relay skip {compressed}");
    let stopped = wait_for(PATIENCE, || {
        let status = relay.status().ok()?;
        status["error"].as_str()?.contains(&names).then_some(())
    });
    ensure(stopped.is_some(), || group.says())?;
    let other = relay.command(&["skip", &format!("{uuid}:{last}")])?;
    ensure(!other.status.success(), || {
        "another transaction is left out".to_owned()
    })?;
    relay.order(&["skip", &compressed])?;
    let told = wait_for(PATIENCE, || {
        let status = replica.rows("SHOW SLAVE STATUS").ok()?.concat();
        let text = format!("have left out transaction {compressed} of MySQL");
        status.contains(&text).then_some(())
    });
    ensure(told.is_some(), || replica.says())?;
    replica.execute(&[
        "INSERT INTO shop.t VALUES (2)",
        "SET GLOBAL sql_slave_skip_counter = 1",
        "START SLAVE",
    ])?;
    await_rows(replica, server)
}

fn await_rows(replica: &Replica, server: &MysqlServer) -> Outcome {
    let rows = "SELECT COUNT(*), MIN(id), MAX(id) FROM shop.t";
    let wanted = server.rows(rows)?;
    let same = wait_for(PATIENCE, || {
        (replica.rows(rows).ok()? == wanted).then_some(())
    });
    ensure(same.is_some(), || {
        let (found, says) = (replica.rows(rows), replica.says());
        format!("{found:?}, not {wanted:?}: {says}")
    })
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-upstream runs it"]
fn what_cannot_be_followed_is_refused_in_words() -> Outcome {
    let root = mysql_server::installed()?;
    let dir = place::cluster_dir("relay-mysql-refused")?;
    std::fs::create_dir_all(&dir).why("the directory")?;
    let server = MysqlServer::new(root, "refusing", REFUSING_PORT, &["--server-id=11"])?;
    accounts(&server)?;
    let mut config = pull::config_of_port(REFUSING_PORT, &dir, 4711)?;
    config.heartbeat = Duration::from_millis(500);
    relay::USER.clone_into(&mut config.user);
    passwords(&server, &mut config)?;
    settings(&server, &config)?;
    events(&server, &config)
}

#[track_caller]
fn says<T>(found: Result<T, UpstreamError>, words: &str) -> Outcome {
    let text = found.err().map(|error| error.to_string());
    ensure(
        text.as_ref().is_some_and(|text| text.contains(words)),
        || format!("not refused by '{words}': {text:?}"),
    )
}

/// The way of MySQL 8 to prove a password.
fn passwords(server: &MysqlServer, config: &mut UpstreamConfig) -> Outcome {
    config.encryption = None;
    says(
        Upstream::connect(config, &Position::Now),
        "relay.upstream_tls_ca",
    )?;
    // A certificate of the same authority is not that of the server.
    for (certificate, works) in [("client-cert.pem", false), ("server-cert.pem", true)] {
        config.encryption = Some(UpstreamEncryption {
            authorities: server.file(certificate),
            checks_name: false,
        });
        let connected = Upstream::connect(config, &Position::Now).is_ok();
        ensure(connected == works, || {
            format!("with {certificate}: {connected}")
        })?;
    }
    // From now on the server knows the password, and a proof will do.
    config.encryption = None;
    Upstream::connect(config, &Position::Now).why("by a proof")?;
    Ok(())
}

fn settings(server: &MysqlServer, config: &UpstreamConfig) -> Outcome {
    for (set, reset, words) in [
        (
            "gtid_mode = ON_PERMISSIVE",
            "gtid_mode = ON",
            "gtid_mode = ON_PERMISSIVE",
        ),
        (
            "binlog_format = MIXED",
            "binlog_format = ROW",
            "binlog_format = MIXED",
        ),
        (
            "binlog_row_image = MINIMAL",
            "binlog_row_image = FULL",
            "binlog_row_image = MINIMAL",
        ),
        (
            "binlog_row_value_options = PARTIAL_JSON",
            "binlog_row_value_options = ''",
            "binlog_row_value_options = PARTIAL_JSON",
        ),
        (
            "binlog_transaction_compression = ON",
            "binlog_transaction_compression = OFF",
            "binlog_transaction_compression = OFF",
        ),
    ] {
        server.execute(&[&format!("SET GLOBAL {set}")])?;
        says(Upstream::connect(config, &Position::Now), words)?;
        server.execute(&[&format!("SET GLOBAL {reset}")])?;
    }
    let mut own = config.clone();
    own.server_id = 11;
    says(Upstream::connect(&own, &Position::Now), "server_id 11")?;
    let list: synod_binlog::GtidList = "0-1-7".parse().why("a position")?;
    says(
        Upstream::connect(config, &Position::Gtids(list)),
        "the upstream is MySQL",
    )?;
    let place = synod_upstream::FilePosition {
        file: "primary.000001".to_owned(),
        offset: 4,
    };
    says(
        Upstream::connect(config, &Position::File(place)),
        "gtid_executed",
    )
}

/// Events of connections that write whatever the settings of the server are.
fn events(server: &MysqlServer, config: &UpstreamConfig) -> Outcome {
    server.execute(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, j JSON)",
    ])?;
    for (statements, words) in [
        (
            &[
                "XA START 'x'",
                "INSERT INTO d.t VALUES (1, NULL)",
                "XA END 'x'",
                "XA PREPARE 'x'",
                "XA COMMIT 'x'",
            ][..],
            "one of XA",
        ),
        (
            &[
                "SET SESSION binlog_transaction_compression = ON",
                "INSERT INTO d.t VALUES (2, '{\"a\": 1}')",
            ],
            "is compressed",
        ),
        (
            &[
                "SET SESSION binlog_row_value_options = PARTIAL_JSON",
                "UPDATE d.t SET j = JSON_SET(j, '$.a', 2) WHERE id = 2",
            ],
            "PARTIAL_JSON",
        ),
    ] {
        let mut upstream = Upstream::connect(config, &Position::Now).why("connecting")?;
        server.execute(statements)?;
        let refused = loop {
            match upstream.next() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        says::<()>(Err(refused), words)?;
    }
    server.execute(&["FLUSH BINARY LOGS"])?;
    let logs = server.rows("SHOW BINARY LOGS")?;
    let newest = logs.last().and_then(|row| row.split('\t').next());
    let purge = format!("PURGE BINARY LOGS TO '{}'", newest.unwrap_or_default());
    server.execute(&[&purge])?;
    let beginning = Position::Gtids(synod_binlog::GtidList::default());
    says(Upstream::connect(config, &beginning), "has purged")
}

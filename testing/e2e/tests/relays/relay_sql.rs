//! A relay that passes statements on: data and changes at one address. A reader that takes a
//! snapshot under load and then follows gets every change once, whichever way it begins; a session
//! ends with its server, and is never continued elsewhere; what cannot be is said in words.

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::relay::{PASSWORD, Relay, USER};
use synod_e2e::replica::Replica;
use synod_e2e::{Outcome, TestCluster, Why, ensure, ensure_says};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 21106;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Commits that show that a group serves.
const SOME: u64 = 300;
const GRANTS: &str =
    "GRANT SELECT, RELOAD, SHOW DATABASES, BINLOG MONITOR, REPLICATION SLAVE ON *.*";
const TABLES: [&str; 2] = ["read", "read_hot"];

#[test]
fn snapshot_and_changes_are_read_at_one_address() -> Outcome {
    let (mut cluster, secret) = TestCluster::with_secret("relay-sql", BASE_PORT, 3)?;
    let mut relay = Relay::beside(&cluster, 1, &secret)?;
    let servers = [2, 3].map(|node| format!("\"127.0.0.1:{}\"", cluster.port(node)));
    relay.set("relay.sql_servers", &format!("[{}]", servers.join(", ")));
    relay.join()?;
    let outcome = read(&mut cluster, &mut relay);
    if outcome.is_err() {
        eprintln!("{}\n{}", cluster.describe(), relay.says());
    }
    outcome
}

fn read(cluster: &mut TestCluster, relay: &mut Relay) -> Outcome {
    refuses(relay, "Create the account on a server of the group")?;
    cluster.execute(1, &format!("{GRANTS} TO {USER} IDENTIFIED BY '{PASSWORD}'"))?;
    variables(cluster, relay)?;
    let mut writers = Writers::prepare(cluster, "read")?;
    for node in [1, 2, 3] {
        writers.add(cluster, node, 1, Style::Hot);
    }
    writers.await_more(SOME, PATIENCE)?;

    let mut copies = Vec::new();
    for (number, begin) in [LOCKED, LOCKED_WITHOUT_AUTOCOMMIT].iter().enumerate() {
        let name = format!("replica{number}");
        let port = cluster.settings().base_port + 61 + number as u16;
        let replica = Replica::named(&cluster.settings().dir, &name, port)?;
        replica.execute(&[&format!("SET GLOBAL server_id = {}", 70 + number)])?;
        copy(relay, &replica, begin, || {
            writers.await_more(SOME, PATIENCE)
        })?;
        replica.follow(relay)?;
        writers.await_more(SOME, PATIENCE)?;
        copies.push(replica);
    }
    unlocked(relay, &writers)?;

    // A server goes, with a snapshot in it and with a statement.
    let mut reading = connect(relay)?;
    let mut waiting = connect(relay)?;
    run(&mut reading, LOCKED)?;
    let taken: Option<String> = waiting.query_first("SELECT @@hostname").why("a session")?;
    ensure(taken.is_some(), || "no session".to_owned())?;
    let waits = std::thread::spawn(move || waiting.query_drop("SELECT SLEEP(60)"));
    cluster.kill(2).why("killing a server")?;
    let lost = reading.query_drop("SELECT COUNT(*) FROM e2e_data.read");
    says(lost, "is lost with it")?;
    let after = reading.query_drop("SELECT 1");
    ensure(after.is_err(), || "the session continues".to_owned())?;
    says(waits.join().expect("it does not panic"), "is lost with it")?;
    // Another one takes over.
    let mut conn = connect(relay)?;
    let port: Option<u16> = conn.query_first("SELECT @@port").why("the other server")?;
    ensure(port == Some(cluster.port(3)), || {
        format!("the server at {port:?} serves")
    })?;
    cluster.spawn(2, false).why("starting the server")?;
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("the server's return")?;
    writers.await_more(SOME, PATIENCE)?;
    let report = writers.finish();
    report.check_rows(cluster, &[1, 2, 3])?;
    for replica in &copies {
        same_tables(cluster, replica)?;
    }
    wrong_servers(cluster, relay)
}

/// Steps by which programs begin a snapshot, and the position is asked.
const LOCKED: &[&str] = &[
    "FLUSH TABLES WITH READ LOCK",
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "SHOW MASTER STATUS",
    "UNLOCK TABLES",
];
const LOCKED_WITHOUT_AUTOCOMMIT: &[&str] = &[
    "SET autocommit = 0",
    "SELECT COUNT(*) FROM information_schema.tables",
    "FLUSH TABLES WITH READ LOCK",
    "SELECT COUNT(*) FROM e2e_data.read_hot",
    "SHOW MASTER STATUS",
    "UNLOCK TABLES",
];

/// Gives a new replica the tables as a snapshot has them, and the position that the relay names for
/// it. `meanwhile` lets the group commit while the snapshot is there.
fn copy(
    relay: &Relay,
    replica: &Replica,
    begin: &[&str],
    meanwhile: impl Fn() -> Outcome,
) -> Outcome {
    let mut conn = connect(relay)?;
    run(&mut conn, begin)?;
    meanwhile()?;
    replica.execute(&["CREATE DATABASE e2e_data"])?;
    for table in TABLES {
        let (_, definition): (String, String) = conn
            .query_first(format!("SHOW CREATE TABLE e2e_data.{table}"))
            .why("the table")?
            .ok_or("there is no table")
            .why(table)?;
        let definition = definition.replacen('`', "`e2e_data`.`", 1);
        replica.execute(&[&definition])?;
        let rows: Vec<mysql::Row> = conn
            .query(format!("SELECT * FROM e2e_data.{table}"))
            .why(table)?;
        for rows in rows.chunks(500) {
            let rows = rows.iter().map(|row| {
                let values = row.clone().unwrap();
                let values: Vec<String> = values.iter().map(|value| value.as_sql(false)).collect();
                format!("({})", values.join(", "))
            });
            let rows: Vec<String> = rows.collect();
            replica.execute(&[&format!(
                "INSERT INTO e2e_data.{table} VALUES {}",
                rows.join(", ")
            )])?;
        }
    }
    let (file, gtid) = position(&mut conn)?;
    let seqno = file.trim_start_matches("synod.").trim_start_matches('0');
    ensure(gtid.ends_with(&format!("-{seqno}")), || {
        format!("{file} and {gtid} differ")
    })?;
    replica.execute(&[&format!("SET GLOBAL gtid_slave_pos = '{gtid}'")])
}

/// The binlog and the GTID of the session's position.
fn position(conn: &mut Conn) -> Outcome<(String, String)> {
    let status: Option<mysql::Row> = conn.query_first("SHOW MASTER STATUS").why("the status")?;
    let file = status
        .and_then(|row| row.get::<String, _>(0))
        .unwrap_or_default();
    let gtid: Option<String> = conn
        .query_first("SELECT @@gtid_binlog_pos")
        .why("the GTID")?;
    let gtid = gtid.unwrap_or_default();
    let by_place: Option<String> = conn
        .query_first(format!("SELECT BINLOG_GTID_POS('{file}', 4)"))
        .why("the place")?;
    ensure(by_place.as_deref() == Some(&*gtid), || {
        format!("{file} is at {by_place:?}, not {gtid}")
    })?;
    Ok((file, gtid))
}

/// A snapshot that no lock protects begins no later than the position that is told in it.
fn unlocked(relay: &Relay, writers: &Writers) -> Outcome {
    for begin in [
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "/* a */ BEGIN",
        "SET autocommit=0",
    ] {
        let mut conn = connect(relay)?;
        run(&mut conn, &[begin])?;
        let count = "SELECT COUNT(*) FROM e2e_data.read";
        let before: Option<u64> = conn.query_first(count).why("the rows")?;
        writers.await_more(SOME, PATIENCE)?;
        let (_, told) = position(&mut conn)?;
        let rows: Option<u64> = conn.query_first(count).why("the rows")?;
        ensure(rows == before, || format!("{begin}: no snapshot"))?;
        let mut now = connect(relay)?;
        let newest: Option<String> = now.query_first("SELECT @@gtid_binlog_pos").why("now")?;
        let newest = newest.unwrap_or_default();
        let seqno = |gtid: &str| gtid.rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        let between = seqno(&newest).unwrap_or(0) - seqno(&told).unwrap_or(0);
        ensure(between >= SOME, || {
            format!("{begin}: {told} is told, the newest is {newest}")
        })?;
    }
    let mut conn = connect(relay)?;
    run(
        &mut conn,
        &[
            "/*!40100 START TRANSACTION */",
            "SELECT COUNT(*) FROM e2e_data.read",
        ],
    )?;
    says(
        conn.query_drop("SHOW MASTER STATUS"),
        "does not know from which position",
    )
}

/// Values of the relay among those that the server answers.
fn variables(cluster: &TestCluster, relay: &Relay) -> Outcome {
    let mut conn = connect(relay)?;
    let all: Vec<(String, String)> = conn.query("SHOW GLOBAL VARIABLES").why("the variables")?;
    let value = |name: &str| {
        let found = all.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let server_id: Option<String> = conn.query_first("SELECT @@server_id").why("the number")?;
    ensure(value("server_id") == server_id.unwrap_or_default(), || {
        value("server_id")
    })?;
    ensure(value("log_bin") == "ON", || value("log_bin"))?;
    ensure(value("port") == cluster.port(2).to_string(), || {
        value("port")
    })?;
    let prepared: Option<u32> = conn.exec_first("SELECT ? + 1", (41,)).why("prepared")?;
    ensure(prepared == Some(42), || format!("{prepared:?}"))?;
    run(&mut conn, &["USE e2e_data", "SET @mine = 7"])?;
    let own: Option<(String, u32)> = conn
        .query_first("SELECT DATABASE(), @mine")
        .why("the session")?;
    ensure(own == Some(("e2e_data".to_owned(), 7)), || {
        format!("{own:?}")
    })?;
    says(
        conn.query_drop("INSERT INTO e2e_data.x VALUES (1)"),
        "denied",
    )?;
    // A row of more than a packet.
    let large: Option<(String, String)> = conn
        .query_first("SELECT REPEAT('x', 9000000), REPEAT('y', 9000000)")
        .why("a large row")?;
    let bytes = large.map_or(0, |(x, y)| x.len() + y.len());
    ensure(bytes == 18_000_000, || format!("{bytes} bytes"))
}

fn refuses(relay: &Relay, text: &str) -> Outcome {
    says(connect(relay)?.query_drop("SELECT 1"), text)
}

/// Servers that are none, are elsewhere, or are the relay.
fn wrong_servers(cluster: &TestCluster, relay: &mut Relay) -> Outcome {
    let copies = cluster.settings().base_port + 61;
    let cases = [
        (relay.port, "it is a relay"),
        (copies, "it is no server of a group"),
        (1, "cannot connect"),
    ];
    let alone = Conn::new(
        OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(copies)
            .user(Some("root")),
    );
    let grant = format!("GRANT SELECT ON *.* TO {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'");
    alone
        .why("the copy")?
        .query_drop(&grant)
        .why("the account")?;
    for (port, text) in cases {
        relay.stop()?;
        relay.set("relay.sql_servers", &format!("[\"127.0.0.1:{port}\"]"));
        relay.join()?;
        refuses(relay, text)?;
    }
    Ok(())
}

fn connect(relay: &Relay) -> Outcome<Conn> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(relay.port)
        .user(Some(USER))
        .pass(Some(PASSWORD))
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 30))
        .read_timeout(Some(PATIENCE));
    Conn::new(options).why("connecting to the relay")
}

fn run(conn: &mut Conn, statements: &[&str]) -> Outcome {
    statements
        .iter()
        .try_for_each(|sql| conn.query_drop(sql).why(sql))
}

fn says(answered: mysql::Result<()>, text: &str) -> Outcome {
    match answered {
        Ok(()) => ensure(false, || format!("no error: {text}")),
        Err(error) => ensure_says(&error.to_string(), text),
    }
}

fn same_tables(cluster: &TestCluster, replica: &Replica) -> Outcome {
    let sum = format!(
        "CHECKSUM TABLE {}",
        TABLES.map(|name| format!("e2e_data.{name}")).join(", ")
    );
    let expected = cluster.rows(1, &sum)?;
    let mut found = Vec::new();
    let same = wait_for(PATIENCE, || {
        found = replica.rows(&sum).ok()?;
        (found == expected).then_some(())
    });
    ensure(same.is_some(), || {
        format!("{found:?}, not {expected:?}: {}", replica.says())
    })
}

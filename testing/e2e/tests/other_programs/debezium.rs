//! Debezium takes a snapshot and follows, with nothing but a relay to talk to, while clients write
//! to all servers, and relay, server and Debezium are killed. Each change comes once and in order:
//! the row before it is the one that the change before has left. After a kill Debezium repeats what
//! it has not noted as given, and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use serde_json::Value;
use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::readers::Readers;
use synod_e2e::relay::{PASSWORD, Relay, USER};
use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 22306;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Commits that show that a group serves.
const SOME: u64 = 300;
const TABLES: [&str; 2] = ["captured", "captured_hot"];

#[test]
fn debezium_gets_each_change_once_from_a_relay() -> Outcome {
    let readers = Readers::install()?;
    let (mut cluster, secret) = TestCluster::with_secret("debezium", BASE_PORT, 3)?;
    let mut relay = Relay::beside(&cluster, 1, &secret)?;
    let servers = [3, 2].map(|node| format!("\"127.0.0.1:{}\"", cluster.port(node)));
    relay.set("relay.sql_servers", &format!("[{}]", servers.join(", ")));
    // Debezium takes half of the others for negative.
    relay.set("relay.domain", "1");
    relay.join()?;
    let grant = format!(
        "GRANT SELECT, RELOAD, SHOW DATABASES, BINLOG MONITOR, REPLICATION SLAVE ON *.* TO {USER} \
         IDENTIFIED BY '{PASSWORD}'"
    );
    cluster.execute(1, &grant)?;
    let dir = cluster.settings().dir.join("captured");
    fs::create_dir(&dir).why("a directory")?;
    let mut debezium = Debezium {
        readers,
        port: relay.port,
        dir,
        process: None,
        judged: Judged::default(),
        read: 0,
        cut: false,
    };
    let outcome = capture(&mut cluster, &mut relay, &mut debezium);
    if outcome.is_err() {
        let log = fs::read_to_string(debezium.dir.join("debezium.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(60).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        eprintln!(
            "{}\n{}\n{}",
            cluster.describe(),
            relay.says(),
            lines.join("\n")
        );
    }
    outcome
}

fn capture(cluster: &mut TestCluster, relay: &mut Relay, debezium: &mut Debezium) -> Outcome {
    let mut writers = Writers::prepare(cluster, "captured")?;
    for node in [1, 2, 3] {
        writers.add(cluster, node, 1, Style::Hot);
    }
    writers.await_more(SOME, PATIENCE)?;
    debezium.start()?;
    debezium.await_more(SOME)?;

    relay.kill()?;
    writers.await_more(SOME, PATIENCE)?;
    relay.join()?;
    debezium.await_more(SOME)?;

    debezium.kill()?;
    writers.await_more(SOME, PATIENCE)?;
    debezium.start()?;
    debezium.await_more(SOME)?;

    // The server with the sessions of the relay.
    cluster.kill(3).why("killing a server")?;
    debezium.kill()?;
    debezium.start()?;
    debezium.await_more(SOME)?;
    cluster.spawn(3, false).why("starting the server")?;
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("its return")?;
    let report = writers.finish();
    report.check_rows(cluster, &[1, 2, 3])?;

    let same = wait_for(PATIENCE, || {
        let judged = debezium.judge().ok()?;
        is_same(cluster, judged).ok().filter(|same| *same)
    });
    // The error of an event that does not fit, rather than that of the tables.
    let judged = debezium.judge()?;
    let (rows, changes, repeated) = (judged.rows.len(), judged.changes, judged.repeated);
    eprintln!("  {rows} rows, {changes} changes, {repeated} repeated");
    ensure(same.is_some(), || {
        "the tables differ from what Debezium has given".to_owned()
    })
}

fn is_same(cluster: &TestCluster, judged: &Judged) -> Outcome<bool> {
    let mut expected = BTreeMap::new();
    for (table, columns) in TABLES
        .iter()
        .zip(["place, id, node, payload", "id, changes"])
    {
        let columns: Vec<&str> = columns.split(", ").collect();
        let pairs: Vec<String> = columns
            .iter()
            .map(|name| format!("'{name}', {name}"))
            .collect();
        let sql = format!(
            "SELECT JSON_OBJECT({}) FROM e2e_data.{table}",
            pairs.join(", ")
        );
        for row in cluster.rows(1, &sql)? {
            let row: Value = serde_json::from_str(&row).why("a row")?;
            expected.insert(key(table, &row), row);
        }
    }
    Ok(expected == judged.rows)
}

struct Debezium {
    readers: Readers,
    port: u16,
    dir: PathBuf,
    process: Option<Child>,
    judged: Judged,
    /// Bytes that were judged.
    read: u64,
    /// The last line was no event.
    cut: bool,
}

impl Debezium {
    fn start(&mut self) -> Outcome {
        let tables = TABLES.map(|name| format!("e2e_data.{name}")).join(",");
        self.process = Some(self.readers.debezium(self.port, &tables, &self.dir)?);
        Ok(())
    }

    fn kill(&mut self) -> Outcome {
        if let Some(mut process) = self.process.take() {
            process.kill().why("killing Debezium")?;
            process.wait().why("killing Debezium")?;
        }
        Ok(())
    }

    /// Waits for as many more changes from the binlog. It must not have ended by itself.
    fn await_more(&mut self, count: u64) -> Outcome {
        let before = self.judge()?.changes;
        let mut now = before;
        let come = wait_for(PATIENCE, || {
            now = self.judge().ok()?.changes;
            (now >= before + count).then_some(())
        });
        self.judge()?;
        let process = self.process.as_mut();
        let ended = process.and_then(|process| process.try_wait().ok().flatten());
        ensure(ended.is_none(), || format!("Debezium has ended: {ended:?}"))?;
        ensure(come.is_some(), || {
            format!("{} changes have come", now - before)
        })
    }

    /// Judges the whole lines that have come. After an error it gives that again.
    fn judge(&mut self) -> Outcome<&Judged> {
        let mut file = File::open(self.dir.join("changes")).why("the changes")?;
        file.seek(SeekFrom::Start(self.read)).why("the changes")?;
        let mut lines = BufReader::new(file);
        loop {
            let mut line = String::new();
            let count = lines.read_line(&mut line).why("the changes")?;
            if !line.ends_with('\n') {
                return Ok(&self.judged);
            }
            let line = line.trim_end();
            match serde_json::from_str::<Value>(line) {
                Ok(event) if !self.cut => self.judged.take(&event)?,
                Err(_) if line.is_empty() || line == "begin" => self.cut = false,
                // It was killed amid this line, if the next one is that of a new beginning.
                Err(_) if !self.cut => self.cut = true,
                Ok(_) | Err(_) => ensure(false, || format!("no event was before: {line}"))?,
            }
            self.read += count as u64;
        }
    }
}

type Key = (String, u64);

/// The tables that the events make, if each event fits what was before it.
#[derive(Debug, Default)]
struct Judged {
    rows: BTreeMap<Key, Value>,
    /// Changes from the binlog, without repeated ones.
    changes: u64,
    repeated: u64,
    newest: u64,
    /// The row after each change.
    seen: BTreeMap<(u64, Key), Value>,
}

impl Judged {
    fn take(&mut self, event: &Value) -> Outcome {
        let source = &event["source"];
        let table = source["table"].as_str().unwrap_or_default();
        let (before, after) = (&event["before"], &event["after"]);
        let is = key(table, if after.is_null() { before } else { after });
        if event["op"] == "r" {
            // A snapshot that was killed begins again.
            if source["snapshot"] == "first" {
                *self = Judged::default();
            }
            self.rows.insert(is, after.clone());
            return Ok(());
        }
        let gtid = source["gtid"].as_str().unwrap_or_default();
        let seqno = gtid
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok());
        let seqno: u64 = seqno.ok_or("no GTID").why(event)?;
        let change = (seqno, is.clone());
        if let Some(given) = self.seen.get(&change) {
            self.repeated += 1;
            return ensure(given == after, || {
                format!("{given} was in its place: {event}")
            });
        }
        ensure(seqno >= self.newest, || {
            format!("{} was before {event}", self.newest)
        })?;
        let known = self.rows.get(&is).unwrap_or(&Value::Null);
        ensure(known == before, || format!("{known} was before {event}"))?;
        self.seen.insert(change, after.clone());
        (self.newest, self.changes) = (seqno, self.changes + 1);
        match after {
            Value::Null => drop(self.rows.remove(&is)),
            after => drop(self.rows.insert(is, after.clone())),
        }
        Ok(())
    }
}

/// The row's table and primary key.
fn key(table: &str, row: &Value) -> Key {
    let number = row["place"].as_u64().or_else(|| row["id"].as_u64());
    (table.to_owned(), number.unwrap_or(0))
}

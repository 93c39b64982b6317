//! A relay's binlogs by their names: an archive of files by `mariadb-binlog --raw`, from which a
//! server is filled, and a replica that asks for a file and a position.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use synod_e2e::programs::{output_of, printed};
use synod_e2e::relay::{self, binlog_of_port};
use synod_e2e::relay_group::{KeepingRelay, RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, ensure, place};
use synod_local_cluster::{find_program, wait_for};

const PORT: u16 = 18906;
const REPLICA_PORT: u16 = 18907;
const EMPTY_PORT: u16 = 18908;
const RELAYS_PORT: u16 = 18920;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const CHECKSUM: &str = "CHECKSUM TABLE shop.t, shop.other";

#[test]
fn binlogs_of_a_relay_are_read_by_name() -> Outcome {
    let dir = place::cluster_dir("relay-files")?;
    let primary = StockServer::new(&dir.join("primary"), PORT, &UPSTREAM_OPTIONS)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    group.begin()?;
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))",
        "CREATE TABLE shop.other (id INT PRIMARY KEY) ENGINE=Aria",
        "INSERT INTO shop.t (v) SELECT CONCAT('ä', seq) FROM shop.seq_1_to_500",
        "INSERT INTO shop.other VALUES (1), (2)",
        "UPDATE shop.t SET v = 'changed' WHERE id % 3 = 0",
    ])?;
    let relay = &mut group.relays[0];
    let outcome = relay
        .await_kept(&primary, PATIENCE)
        .and_then(|()| replica_by_file(&primary, relay, &dir))
        .and_then(|()| archive(&primary, relay, &dir));
    if outcome.is_err() {
        eprintln!("{}\n{:?}", relay.says(), relay.status());
    }
    outcome
}

/// A replica gets all of a binlog from its beginning. Within it, it continues by GTID only.
fn replica_by_file(primary: &StockServer, relay: &KeepingRelay, dir: &Path) -> Outcome {
    let replica = Replica::new(dir, REPLICA_PORT)?;
    let file = first_binlog(relay)?;
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}',
         MASTER_PASSWORD='{}', MASTER_USE_GTID=no, MASTER_LOG_FILE='{file}', MASTER_LOG_POS=4,
         MASTER_CONNECT_RETRY=1",
        relay.port,
        relay::USER,
        relay::PASSWORD,
    );
    replica.execute(&[&change, "START SLAVE"])?;
    await_same(primary, &replica).or_else(|_| ensure(false, || replica.says()))?;
    // It comes again from the position after what it has.
    replica.execute(&["STOP SLAVE", "START SLAVE"])?;
    let told = wait_for(PATIENCE, || {
        let status = replica.rows("SHOW SLAVE STATUS").ok()?.concat();
        let words = ["error 1236", "from its beginning only", "MASTER_USE_GTID"];
        words
            .iter()
            .all(|words| status.contains(words))
            .then_some(())
    });
    ensure(told.is_some(), || replica.says())?;
    // What it says helps.
    replica.execute(&[
        "STOP SLAVE",
        "CHANGE MASTER TO MASTER_USE_GTID=slave_pos",
        "START SLAVE",
    ])?;
    replica.await_connection()?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('by GTID')"])?;
    await_same(primary, &replica).or_else(|_| ensure(false, || replica.says()))
}

/// Archives as the manual shows, with a tool that waits for more; a server is filled from the
/// files.
fn archive(primary: &StockServer, relay: &mut KeepingRelay, dir: &Path) -> Outcome {
    let archive = dir.join("archive");
    if archive.exists() {
        fs::remove_dir_all(&archive).why("the archive of an earlier run")?;
    }
    fs::create_dir(&archive).why("the archive")?;
    let first = first_binlog(relay)?;
    let mut tool = Archiver::start(relay, &archive, &first)?;
    await_archived(primary, &archive)?;
    relay.kill()?;
    tool.await_end()?;
    relay.start()?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('while it is away')"])?;
    relay.await_kept(primary, PATIENCE)?;
    // It begins again with its newest file, and writes that one from its beginning.
    let newest = files(&archive)?.pop().unwrap_or_default();
    let name = newest.file_name().unwrap_or_default().to_string_lossy();
    let tool = Archiver::start(relay, &archive, &name)?;
    primary.execute(&["INSERT INTO shop.t (v) VALUES ('while it is there')"])?;
    await_archived(primary, &archive)?;
    drop(tool);
    refused_file_stays(relay, &archive)?;
    let empty = StockServer::new(&dir.join("empty"), EMPTY_PORT, &["--server-id=5"])?;
    let statements = dir.join("archive.sql");
    fs::write(&statements, text_of(&archive)?).why("the statements")?;
    empty.load(&statements)?;
    ensure(empty.rows(CHECKSUM)? == primary.rows(CHECKSUM)?, || {
        format!("{:?}, {:?}", empty.rows(CHECKSUM), primary.rows(CHECKSUM))
    })
}

/// A refused request leaves a file with its name unchanged.
fn refused_file_stays(relay: &KeepingRelay, archive: &Path) -> Outcome {
    const NAME: &str = "synod.refused";
    let file = archive.join(NAME);
    fs::write(&file, NAME).why(NAME)?;
    Archiver::start(relay, archive, NAME)?.await_end()?;
    let is = fs::read_to_string(&file).why(NAME)?;
    ensure(is == NAME, || format!("{NAME} has become '{is}'"))?;
    fs::remove_file(&file).why(NAME)
}

/// `mariadb-binlog --raw --stop-never`. Killed when dropped.
struct Archiver(Child);

impl Archiver {
    fn start(relay: &KeepingRelay, archive: &Path, first: &str) -> Outcome<Archiver> {
        let mut command = binlog_of_port(relay.port)?;
        command
            .args(["--raw", "--stop-never", first])
            .arg("--stop-never-slave-server-id=4901")
            .current_dir(archive)
            .stdin(Stdio::null());
        command.spawn().why("mariadb-binlog").map(Archiver)
    }

    /// Waits until it ends by itself, with an error.
    fn await_end(&mut self) -> Outcome {
        let ended = wait_for(PATIENCE, || self.0.try_wait().ok()?);
        let has_failed = ended.is_some_and(|status| !status.success());
        ensure(has_failed, || format!("mariadb-binlog: {ended:?}"))
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the files have the newest transaction of the primary.
fn await_archived(primary: &StockServer, archive: &Path) -> Outcome {
    let last = primary.rows("SELECT @@gtid_binlog_pos")?.concat();
    let wanted = format!("\tGTID {last} ");
    let came = wait_for(PATIENCE, || {
        text_of(archive).ok()?.contains(&wanted).then_some(())
    });
    ensure(came.is_some(), || {
        format!("{last} is not archived: {:?}", files(archive))
    })
}

/// The archive as statements.
fn text_of(archive: &Path) -> Outcome<String> {
    let tool = find_program("mariadb-binlog", "mariadb-server").why("mariadb-binlog")?;
    let mut command = Command::new(tool);
    command.arg("--no-defaults").args(files(archive)?);
    printed(&mut command)
}

/// The files of the archive, in their order.
fn files(archive: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(archive).why("the archive")?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// The name of the first binlog that the relay has, as a client shows it.
fn first_binlog(relay: &KeepingRelay) -> Outcome<String> {
    let client = find_program("mariadb", "mariadb-client").why("the client")?;
    let mut command = Command::new(client);
    command
        .args([
            "--no-defaults",
            "--skip-ssl",
            "--host=127.0.0.1",
            "-N",
            "-e",
        ])
        .arg("SHOW BINARY LOGS")
        .arg(format!("--port={}", relay.port))
        .arg(format!("--user={}", relay::USER))
        .arg(format!("--password={}", relay::PASSWORD));
    let shown = output_of(&mut command, "SHOW BINARY LOGS")?;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    Ok(shown.split('\t').next().unwrap_or_default().to_owned())
}

fn await_same(primary: &StockServer, replica: &StockServer) -> Outcome {
    let wanted = primary.rows(CHECKSUM)?;
    let same = wait_for(PATIENCE, || {
        (replica.rows(CHECKSUM).ok()? == wanted).then_some(())
    });
    ensure(same.is_some(), || format!("not the rows {wanted:?}"))
}

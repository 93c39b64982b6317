//! A relay's binlog ends at 1 GiB, and the next one begins: a replica gets what follows, and so
//! does `mariadb-binlog`, if it is asked for all of them. All connections are encrypted, so that
//! much passes through them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use synod_e2e::programs::output_of;
use synod_e2e::relay::binlog_of_port;
use synod_e2e::relay_group::{RelayGroup, UPSTREAM_OPTIONS};
use synod_e2e::replica::Replica;
use synod_e2e::stock_server::StockServer;
use synod_e2e::{Outcome, Why, certificates, ensure, place};
use synod_local_cluster::wait_for;

const PORT: u16 = 19106;
const REPLICA_PORT: u16 = 19107;
const RELAYS_PORT: u16 = 19120;
/// For a gigabyte, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Rows of 8 MiB: more than 1 GiB, and less than 2.
const ROWS: u32 = 140;
const ROW_BYTES: u32 = 8 << 20;
/// Last row written.
const LAST: &str = "the last row of all";
const CHECK: &str = "SELECT COUNT(*), SUM(CRC32(v)), SUM(LENGTH(v)) FROM shop.t";

#[test]
fn what_is_behind_the_end_of_a_binlog_is_read() -> Outcome {
    let dir = place::cluster_dir("relay-rotation")?;
    let (tls, own) = (dir.join("primary-tls"), dir.join("relay-tls"));
    certificates::make(&own)?;
    let [certificate, key] = certificates::server_options(&tls)?;
    let mut options = UPSTREAM_OPTIONS.to_vec();
    options.extend(["--max-allowed-packet=64M", &certificate, &key]);
    let primary = StockServer::new(&dir.join("primary"), PORT, &options)?;
    let mut group = RelayGroup::of(&primary, &dir, RELAYS_PORT, 1)?;
    let relay = &mut group.relays[0];
    for (key, value) in [
        ("relay.upstream_tls_ca", tls.join("ca.pem")),
        ("relay.tls_cert", own.join("node1.pem")),
        ("relay.tls_key", own.join("node1.key")),
        ("synod.log_retain_size", "4G".into()),
    ] {
        relay.set(key, &format!("\"{}\"", value.display()));
    }
    // The certificate is made for a name, and the primary is reached by an address.
    relay.set("relay.upstream_tls_verify_name", "false");
    group.begin()?;
    fill(&primary)?;
    let relay = &group.relays[0];
    relay.await_kept(&primary, PATIENCE)?;
    let port = relay.port;
    let outcome = tool(port, &dir).and_then(|()| replica(&primary, port, &dir));
    if outcome.is_err() {
        eprintln!("{}", group.says());
        return outcome;
    }
    drop((group, primary));
    // It has gigabytes.
    fs::remove_dir_all(&dir).why(dir.display())
}

fn fill(primary: &StockServer) -> Outcome {
    primary.execute(&[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGTEXT)",
    ])?;
    for id in 0..ROWS {
        let row =
            format!("INSERT INTO shop.t VALUES ({id}, REPEAT(CHAR(65 + {id} % 26), {ROW_BYTES}))");
        primary.execute(&[&row])?;
    }
    primary.execute(&[&format!("INSERT INTO shop.t VALUES (-1, '{LAST}')")])
}

/// Asked for one binlog, the tool ends where that does, without an error; the manual says so.
fn tool(port: u16, dir: &Path) -> Outcome {
    let one = files(port, &dir.join("one"), &[])?;
    ensure(one.len() == 1 && !has_last(&one)?, || format!("{one:?}"))?;
    let all = files(port, &dir.join("all"), &["--to-last-log"])?;
    ensure(all.len() == 2 && has_last(&all)?, || format!("{all:?}"))
}

/// The files that the tool writes, in their order.
fn files(port: u16, dir: &Path, arguments: &[&str]) -> Outcome<Vec<PathBuf>> {
    if dir.exists() {
        fs::remove_dir_all(dir).why("the files of an earlier run")?;
    }
    fs::create_dir(dir).why(dir.display())?;
    let mut command = binlog_of_port(port)?;
    command.current_dir(dir).args(["--ssl", "--raw"]);
    command.args(arguments);
    output_of(command.arg("synod.0"), "mariadb-binlog")?;
    let entries = fs::read_dir(dir).why(dir.display())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// Whether the last row is in the last of the files.
fn has_last(files: &[PathBuf]) -> Outcome<bool> {
    let Some(file) = files.last() else {
        return Ok(false);
    };
    let bytes = fs::read(file).why(file.display())?;
    let end = &bytes[bytes.len().saturating_sub(4096)..];
    Ok(String::from_utf8_lossy(end).contains(LAST))
}

fn replica(primary: &StockServer, port: u16, dir: &Path) -> Outcome {
    let replica = Replica::new(dir, REPLICA_PORT)?;
    replica.follow_port(port, "MASTER_SSL=1, MASTER_SSL_VERIFY_SERVER_CERT=0")?;
    let wanted = primary.rows(CHECK)?;
    let is_same = || (replica.rows(CHECK).ok()? == wanted).then_some(());
    ensure(wait_for(PATIENCE, is_same).is_some(), || replica.says())
}

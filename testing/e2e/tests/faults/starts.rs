//! Starts that are not the ordinary one: from databases that hold a history already, and without a
//! majority.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure};
use synod_local_cluster::{find_program, wait_for};

const BASE_PORT: u16 = 31306;
/// Log text of a server that runs the script of a full copy.
const SST_MARK: &str = "--role 'joiner'";
/// For a line in an error log, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that waits for its group leaves nothing, so nothing but its own end takes time.
const END_LIMIT: Duration = Duration::from_secs(20);

fn run(body: impl FnOnce() -> Outcome) {
    if let Err(failure) = body() {
        panic!("{failure:?}");
    }
}

fn quiet(_node: u8, _what: &str) {}

/// Copies a stopped node's database, without what the group's log knows.
fn copy_database(from: &Path, to: &Path) -> Outcome {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    ensure(copied.why("cp")?.success(), || {
        format!("cp {} {}", from.display(), to.display())
    })?;
    remove_log(to)
}

/// Removes the log, as in a database from elsewhere.
fn remove_log(data: &Path) -> Outcome {
    for entry in fs::read_dir(data).why("data directory")? {
        let path: PathBuf = entry.why("data directory")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("synod-") {
            fs::remove_file(&path).why("removing the log")?;
        }
    }
    Ok(())
}

/// Has `grastate.dat` say what it would say after Galera's library: this library's own remarks are
/// not in it.
fn write_position_as_galera(data: &Path) -> Outcome {
    let path = data.join("grastate.dat");
    let ours = fs::read_to_string(&path).why("grastate.dat")?;
    let lines: Vec<&str> = ours.lines().filter(|line| !line.starts_with('#')).collect();
    fs::write(&path, lines.join("\n") + "\n").why("grastate.dat")
}

/// After Galera there are three databases, a position, and no log. Only a database at another
/// position than the first one's is copied.
#[test]
fn group_begins_from_databases_with_a_position() {
    run(|| {
        let mut cluster = TestCluster::empty("positions", BASE_PORT, 3)?;
        cluster.spawn(1, true).why("first start")?;
        cluster.await_synced(&[1], &quiet).why("first start")?;
        cluster.create_account()?;
        cluster.stop(1).why("stop")?;
        let (first, second, third) = (cluster.files(1), cluster.files(2), cluster.files(3));
        for files in [&second, &third] {
            fs::create_dir_all(&files.root).why("node directory")?;
            cluster.user().give(&files.root).why("node directory")?;
        }
        copy_database(&first.data, &third.data)?;
        cluster.spawn(1, false).why("second start")?;
        cluster.await_synced(&[1], &quiet).why("second start")?;
        cluster.execute(1, "CREATE TABLE e2e_data.t (a INT PRIMARY KEY)")?;
        cluster.execute(1, "INSERT INTO e2e_data.t VALUES (1)")?;
        cluster.stop(1).why("stop")?;
        copy_database(&first.data, &second.data)?;
        remove_log(&first.data)?;
        for files in [&first, &second, &third] {
            write_position_as_galera(&files.data)?;
        }

        cluster.spawn(1, true).why("bootstrap")?;
        for node in [1, 2, 3] {
            if node > 1 {
                cluster.spawn(node, false).why("joining")?;
            }
            cluster
                .await_synced(&[node], &quiet)
                .why(format_args!("node{node}"))?;
        }
        cluster.execute(2, "INSERT INTO e2e_data.t VALUES (2)")?;
        for node in [1, 2, 3] {
            let sql = "SET SESSION wsrep_sync_wait = 1; SELECT a FROM e2e_data.t ORDER BY a";
            let rows = cluster.rows(node, sql)?;
            ensure(rows == ["1", "2"], || format!("node{node}: {rows:?}"))?;
            let copied = cluster.log_text(node).contains(SST_MARK);
            ensure(copied == (node == 3), || {
                format!("node{node} took a full copy: {copied}")
            })?;
        }
        Ok(())
    });
}

/// `galera_new_cluster` on a second server: systemd starts it again after 10 s, unless it ends with
/// the status of the packages' unit, and it would join.
#[test]
fn second_group_is_not_begun_beside_the_first() {
    run(|| {
        let mut cluster = TestCluster::empty("beside", BASE_PORT, 2)?;
        cluster.spawn(1, true).why("first start")?;
        cluster.await_synced(&[1], &quiet).why("first start")?;
        cluster.create_account()?;
        cluster.spawn(2, true).why("second group")?;
        let how = wait_for(PATIENCE, || cluster.ended(2));
        let how = how.ok_or("it runs").why("the second group was begun")?;
        ensure(how.contains("exit status: 3"), || how.clone())?;
        let log = cluster.log_text(2);
        for words in [
            "no group is begun here: node1 at",
            "start this member without bootstrap",
        ] {
            ensure(log.contains(words), || cluster.log_tail(2).to_string())?;
        }
        cluster.spawn(2, false).why("joining")?;
        cluster.await_synced(&[1, 2], &quiet).why("joining")
    });
}

/// Nothing that an operator ordered may be left without an answer because the group is not there.
#[test]
fn server_that_waits_for_its_group_ends_on_sigterm() {
    run(|| {
        let mut cluster = TestCluster::fresh("waiting", BASE_PORT)?;
        cluster.kill_all().why("kill all")?;
        cluster.spawn(2, false).why("start")?;
        let waits = || {
            let log = cluster.log_text(2);
            log.contains("voters are connected, and 2 must be")
                .then_some(())
        };
        ensure(wait_for(PATIENCE, waits).is_some(), || {
            format!(
                "node2 does not say what it waits for: {}",
                cluster.log_tail(2)
            )
        })?;
        let began = Instant::now();
        cluster.stop(2).why("SIGTERM")?;
        let took = began.elapsed();
        eprintln!("  a waiting server ended after {took:?}");
        ensure(took < END_LIMIT, || format!("it ended after {took:?}"))?;
        cluster.up(&quiet).why("start of all")?;
        cluster.execute(2, "CREATE TABLE e2e_data.after_wait (a INT PRIMARY KEY)")
    });
}

/// A server that a person has started by hand. Killed when dropped.
struct ByHand(Child);

impl ByHand {
    /// Starts it from the directory of the configuration, as a person there would.
    fn start(cluster: &TestCluster, node: u8) -> Outcome<ByHand> {
        let files = cluster.files(node);
        // It dies with this process, however that ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(find_program("mariadbd", "mariadb-server").why("the server")?)
            .arg("--defaults-file=my.cnf")
            .env("PWD", &files.root)
            .current_dir(&files.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        cluster.user().apply(&mut command);
        command.spawn().why("starting the server").map(ByHand)
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        // The test has its outcome already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server has changed into its data directory when the library asks the engine for its position
/// with the same arguments.
#[test]
fn servers_started_by_a_relative_path_come_back_after_a_crash_of_all() {
    run(|| {
        let mut cluster = TestCluster::fresh("relative", BASE_PORT)?;
        cluster.execute(1, "CREATE TABLE e2e_data.kept (a INT PRIMARY KEY)")?;
        cluster.execute(1, "INSERT INTO e2e_data.kept VALUES (1)")?;
        agreement::check(&cluster, &[1, 2, 3])?;
        cluster.kill_all().why("the crash")?;
        let servers = cluster.nodes().map(|node| ByHand::start(&cluster, node));
        let servers = servers.collect::<Outcome<Vec<ByHand>>>()?;
        for node in cluster.nodes() {
            let mut last = String::new();
            let is_synced = || {
                let mut conn = cluster.connect(node).ok()?;
                let sql = "SHOW STATUS LIKE 'wsrep_local_state_comment'";
                let row: Option<(String, String)> = conn.query_first(sql).ok()?;
                last = row?.1;
                (last == "Synced").then_some(conn)
            };
            let conn = wait_for(PATIENCE, is_synced);
            let mut conn = conn.ok_or(&last).why(format_args!(
                "node{node} is not synced:\n{}",
                cluster.log_tail(node)
            ))?;
            let rows: Vec<u32> = conn.query("SELECT a FROM e2e_data.kept").why("rows")?;
            ensure(rows == [1], || format!("node{node}: {rows:?}"))?;
        }
        drop(servers);
        Ok(())
    });
}

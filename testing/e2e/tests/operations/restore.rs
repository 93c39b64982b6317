//! The commands of `docs/operating/backup.md`: a backup, and a whole group restored from it. One
//! step is forgotten on some machines, which then say so, and done there later.

use std::fs;
use std::time::Duration;

use synod_e2e::drill::Page;
use synod_e2e::logger::Logger;
use synod_e2e::programs::run_commands;
use synod_e2e::relay::Relay;
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, ensure_says};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 19306;
const PAGE: Page = Page("backup.md");
/// Machine of the backup, on which it is restored.
const RESTORED: u8 = 1;
const EMPTIED: u8 = 2;
/// Machine whose data are forgotten.
const FORGOTTEN: u8 = 3;
const ALL: [u8; 3] = [RESTORED, EMPTIED, FORGOTTEN];
const PATIENCE: Duration = Duration::from_secs(60);
/// Exit code of a logger or relay that cannot take part.
const FAILED: i32 = 3;

#[test]
fn old_data_and_logs_are_refused_by_a_group_that_was_restored() -> Outcome {
    let (mut cluster, secret) = TestCluster::with_secret("restore", BASE_PORT, 3)?;
    let mut logger = Logger::beside(&cluster, "witness", &secret)?;
    let mut relay = Relay::beside(&cluster, 1, &secret)?;
    logger.join()?;
    relay.join()?;
    let outcome = restore(&mut cluster, &mut [&mut logger, &mut relay]);
    if outcome.is_err() {
        let describe = cluster.describe();
        eprintln!("{describe}\n{}\n{}", logger.says(), relay.says());
    }
    outcome
}

fn restore(cluster: &mut TestCluster, others: &mut [&mut Logger; 2]) -> Outcome {
    let blocks = PAGE.shell_blocks()?;
    let [_, copy, move_away, restore] = blocks.as_slice() else {
        return ensure(false, || format!("{PAGE:?} has {} blocks", blocks.len()));
    };
    let former = group_of(cluster, RESTORED)?;
    cluster.execute(1, "CREATE TABLE e2e_data.orders (id INT PRIMARY KEY)")?;
    cluster.execute(1, "INSERT INTO e2e_data.orders VALUES (1), (2)")?;
    run_commands(cluster, &[&variables(cluster, RESTORED)?, copy])?;
    cluster.execute(1, "INSERT INTO e2e_data.orders VALUES (10)")?;
    agreement::check(cluster, &ALL)?;
    for other in &mut *others {
        other.stop()?;
    }
    cluster.down(&|_, _| ()).why("stopping the servers")?;

    for node in [RESTORED, EMPTIED] {
        run_commands(cluster, &[&variables(cluster, node)?, move_away])?;
    }
    run_commands(cluster, &[&variables(cluster, RESTORED)?, restore])?;
    cluster.spawn(RESTORED, true).why("the restored server")?;
    cluster.await_synced(&[RESTORED], &|_, _| ()).why("alone")?;
    cluster.await_line(RESTORED, "beginning group")?;
    let group = group_of(cluster, RESTORED)?;
    ensure(group != former, || "the group keeps its id".to_owned())?;
    for row in 100..130 {
        let insert = format!("INSERT INTO e2e_data.orders VALUES ({row})");
        cluster.execute(RESTORED, &insert)?;
    }
    cluster.spawn(EMPTIED, false).why("an empty server")?;
    cluster.await_synced(&[EMPTIED], &|_, _| ()).why("two")?;

    cluster.spawn(FORGOTTEN, false).why("the forgotten one")?;
    let ended = wait_for(PATIENCE, || cluster.ended(FORGOTTEN));
    ensure(ended.is_some(), || "it does not end".to_owned())?;
    names_both(&cluster.log_text(FORGOTTEN), &former, &group)?;
    for other in &mut *others {
        other.start()?;
        other.await_exit(FAILED)?;
        names_both(&other.says(), &former, &group)?;
    }

    run_commands(cluster, &[&variables(cluster, FORGOTTEN)?, move_away])?;
    cluster.spawn(FORGOTTEN, false).why("emptied")?;
    for other in &mut *others {
        fs::remove_dir_all(other.log_dir()).why("emptying a log")?;
        other.join()?;
    }
    cluster.await_synced(&ALL, &|_, _| ()).why("all three")?;
    for node in ALL {
        let is_new = group_of(cluster, node)? == group;
        ensure(is_new, || format!("node{node} is in another group"))?;
    }
    let rows = cluster.rows(
        FORGOTTEN,
        "SELECT COUNT(*), MIN(id), SUM(id = 10) FROM e2e_data.orders",
    )?;
    ensure(rows == ["32\t1\t0"], || format!("{rows:?}"))?;
    agreement::check(cluster, &ALL)
}

/// Both groups and the remedy are named, and nothing that would continue the former group.
fn names_both(text: &str, former: &str, group: &str) -> Outcome {
    let remedy = "move its synod-*.log files away (of a server, its whole data directory)";
    for words in [former, group, remedy] {
        ensure_says(text, words)?;
    }
    ensure(!text.contains("synod recover"), || text.to_owned())
}

fn group_of(cluster: &TestCluster, node: u8) -> Outcome<String> {
    let sql = "SELECT variable_value FROM information_schema.global_status
               WHERE variable_name = 'wsrep_cluster_state_uuid'";
    Ok(cluster.rows(node, sql)?.concat())
}

/// First block with this test's values for the page's names.
fn variables(cluster: &TestCluster, node: u8) -> Outcome<String> {
    let files = cluster.files(node);
    let (root, data) = (files.root.display(), files.data.display());
    let copy = cluster.settings().dir.join("copy");
    let port = cluster.port(node);
    Ok(format!(
        "SERVER='--host=127.0.0.1 --port={port} --user=e2e --password=e2e'
         COPY='{}'
         DATA='{data}'
         MYSQL_USER=$(stat -c %U '{root}')
        ",
        copy.display()
    ))
}

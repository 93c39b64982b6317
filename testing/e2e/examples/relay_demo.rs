//! A demonstration of `synod relay`: a group, a relay, an asynchronous replica and a program for
//! change data capture. Everything is killed once; nothing is lost, and nothing is left behind.
//!
//! ```text
//! make relay-demo
//! ```

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::programs::new_group_secret;
use synod_e2e::readers::{Readers, Schema};
use synod_e2e::relay::Relay;
use synod_e2e::replica::Replica;
use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 31606;
const SERVERS: [u8; 3] = [1, 2, 3];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const SUMS: &str = "SELECT COUNT(*), SUM(amount) FROM e2e_data.orders";

fn main() -> Outcome {
    let begun = Instant::now();
    let readers = Readers::install()?;
    let secret = new_group_secret()?;
    let mut cluster = TestCluster::empty("relay-demo", BASE_PORT, 3)?;
    cluster.settings_mut().group_secret = Some(secret.trim().to_owned());
    let dir = cluster.settings().dir.clone();
    let outcome = show(&mut cluster, &secret, &readers);
    drop(cluster);
    let removed = std::fs::remove_dir_all(&dir).why(dir.display());
    outcome?;
    removed?;
    let seconds = begun.elapsed().as_secs();
    say(&format!(
        "That was all, in {seconds} s. The servers have ended and their files are removed.\n\
         To set up a relay of your own: docs/operating/relay.md"
    ));
    Ok(())
}

fn show(cluster: &mut TestCluster, secret: &str, readers: &Readers) -> Outcome {
    say(
        "1. A group of three MariaDB servers. Each commit is on two disks before its client hears\n\
         OK. None of the servers writes a binlog.",
    );
    cluster.up(&|_, _| ()).why("starting the servers")?;
    cluster.create_account()?;

    say(
        "2. A relay: a member of the group without a database. It has the group's log, and looks\n\
         like a primary with a binlog to programs that read one.",
    );
    let mut relay = Relay::beside(cluster, 1, secret)?;
    relay.join()?;
    println!("   It listens on port {}.", relay.port);

    say(
        "3. A stock MariaDB server, which is not in the group, replicates from the relay\n\
         (CHANGE MASTER TO ... MASTER_USE_GTID = slave_pos). It is asynchronous: however slow it\n\
         is, the group does not wait for it.",
    );
    let mut replica = Replica::beside(cluster)?;
    replica.follow(&relay)?;

    say("4. Some changes in the group, on different servers:");
    change(
        cluster,
        &[
            (
                1,
                "CREATE TABLE e2e_data.orders (id INT PRIMARY KEY, item VARCHAR(20), amount INT)",
            ),
            (
                1,
                "INSERT INTO e2e_data.orders VALUES (1, 'apples', 3), (2, 'pears', 5)",
            ),
            (2, "UPDATE e2e_data.orders SET amount = 4 WHERE id = 1"),
            (3, "DELETE FROM e2e_data.orders WHERE id = 2"),
        ],
    )?;
    let after = compare(cluster, &replica)?;

    say(
        "5. A program for change data capture (python-mysql-replication) reads the same from the\n\
         relay, row by row:",
    );
    for line in readers.python(relay.port, "", &Schema::of(cluster))? {
        println!("   {line}");
    }

    say(
        "6. Everything is killed at once, as by a loss of power: three servers, the relay, the\n\
         replica. Then everything is started again.",
    );
    cluster.kill_all().why("killing the servers")?;
    relay.kill()?;
    replica.kill()?;
    cluster.up(&|_, _| ()).why("starting the servers again")?;
    relay.join()?;
    replica.start()?;
    replica.await_connection()?;
    println!("   The replica has found the relay again by itself.");

    say("7. Nothing is lost, and what happens now arrives, too:");
    change(
        cluster,
        &[(
            2,
            "INSERT INTO e2e_data.orders VALUES (4, 'plums', 7), (5, 'cherries', 40)",
        )],
    )?;
    let now = compare(cluster, &replica)?;
    ensure(after != now, || "nothing has changed".to_owned())?;
    let lines = readers.python(relay.port, "", &Schema::of(cluster))?;
    for line in lines.iter().rev().take(2).rev() {
        println!("   {line}");
    }
    relay.stop()
}

fn say(text: &str) {
    println!("\n{text}");
}

/// Runs statements on servers of the group, and shows them.
fn change(cluster: &TestCluster, statements: &[(u8, &str)]) -> Outcome {
    for (server, sql) in statements {
        println!("   server {server}: {sql}");
        cluster.connect(*server)?.query_drop(*sql).why(sql)?;
    }
    Ok(())
}

/// Waits until the replica has what the group has, and shows both.
fn compare(cluster: &TestCluster, replica: &Replica) -> Outcome<Vec<String>> {
    let mut both = (Vec::new(), Vec::new());
    let same = wait_for(PATIENCE, || {
        both = (
            cluster.rows(SERVERS[0], SUMS).ok()?,
            replica.rows(SUMS).ok()?,
        );
        (both.0 == both.1).then_some(())
    });
    ensure(same.is_some(), || {
        format!("group and replica differ: {both:?}")
    })?;
    let shown = |rows: &[String]| rows.join(" ").replace('\t', " with a sum of ");
    let (group, copy) = (shown(&both.0), shown(&both.1));
    println!("   rows: the group has {group}, the replica has {copy}");
    Ok(both.0)
}

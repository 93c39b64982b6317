//! A disk that is full, and transactions of a million rows and of more than the server's limit.

use std::path::Path;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use synod_e2e::mysql_clients::REFUSED;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19780;
const ROWS_PORT: u16 = 19800;
/// A disk with room for the database and little more.
const DISK_BYTES: u64 = 600 << 20;
/// For so long a disk stays full.
const FULL_FOR: Duration = Duration::from_secs(5);
const MILLION: u64 = 1_000_000;

/// The disk of a secondary is full under load: the others continue. With room again, it follows by
/// itself.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn secondary_with_a_full_disk_stops_nobody_and_follows_once_it_has_room() -> Outcome {
    let (group, disks) = MysqlGroup::on_disks_of("full", PORT, DISK_BYTES)?;
    let (writer, clients) = under_load(&group)?;
    let [full, _] = others(writer);
    let since = Instant::now();
    fill(disks[full].path())?;
    let lags = || {
        let (has, group_has) = (
            number(&group, full, "applied")?,
            number(&group, writer, "applied")?,
        );
        (has + ROWS < group_has).then_some(())
    };
    let until = Instant::now() + PATIENCE;
    while lags().is_none() && Instant::now() < until {
        clients.await_more(ROWS, PATIENCE)?;
    }
    std::thread::sleep(FULL_FOR);
    eprintln!(
        "a full disk of db{}: {:?}, problem {:?}",
        full + 1,
        group.status(full, "state"),
        group.status(full, "problem")
    );
    clients.await_more(ROWS, PATIENCE)?;
    std::fs::remove_file(disks[full].path().join("filler")).why("making room")?;
    let begun = Instant::now();
    clients.await_more(ROWS, PATIENCE)?;
    let answers = clients.finish();
    group.await_state(full, "replica")?;
    group.await_same_position()?;
    eprintln!(
        "it has all {:?} after it had room; {:?} at most without a commit",
        begun.elapsed(),
        answers.longest_gap_after(since)
    );
    answers.check(&group)
}

/// Takes all room.
fn fill(dir: &Path) -> Outcome {
    let mut file = std::fs::File::create(dir.join("filler")).why("the file that fills")?;
    // Ends with the error that is wanted.
    let _ = std::io::copy(&mut std::io::repeat(1), &mut file);
    file.sync_all().why("the file that fills")
}

fn number(group: &MysqlGroup, server: usize, name: &str) -> Option<u64> {
    group.status(server, name)?.parse().ok()
}

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn transaction_of_a_million_rows_is_carried_through_and_one_of_a_gigabyte_refused() -> Outcome {
    let group = MysqlGroup::new("million", ROWS_PORT)?;
    let writer = group.await_whole()?;
    let server = &group.servers[writer];
    let memory = || -> Outcome<Vec<u64>> {
        group
            .servers
            .iter()
            .map(|server| Ok(server.most_memory()? >> 20))
            .collect()
    };
    server.execute(&[
        "CREATE DATABASE e2e",
        "CREATE TABLE e2e.many (id INT PRIMARY KEY, data VARCHAR(300))",
    ])?;
    let before = memory()?;
    let insert = |first: u64, rows: u64| {
        format!(
            "INSERT INTO e2e.many WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL \
             SELECT i + 1 FROM n WHERE i < {rows}) \
             SELECT i + {first}, CONCAT(SHA2(i, 256), SHA2(-i, 224)) FROM n"
        )
    };
    let recursion = "SET SESSION cte_max_recursion_depth = 10000000";
    let begun = Instant::now();
    server.execute(&[recursion, &insert(0, MILLION)])?;
    let committed = begun.elapsed();
    let expected = format!("{MILLION}");
    let rows = group.same_rows("SELECT COUNT(*) FROM e2e.many")?;
    ensure(rows == [expected.clone()], || format!("{rows:?}"))?;
    let inserted = memory()?;
    eprintln!(
        "a million rows inserted in {committed:?}, on all after {:?}; most memory in MiB: \
         {before:?} before, {inserted:?} after (the writer is db{})",
        begun.elapsed(),
        writer + 1
    );
    let begun = Instant::now();
    server.execute(&["UPDATE e2e.many SET data = CONCAT(data, 'x')"])?;
    let committed = begun.elapsed();
    group.same_rows("SELECT COUNT(*), SUM(CRC32(data)) FROM e2e.many")?;
    eprintln!(
        "a million rows updated in {committed:?}, on all after {:?}; most memory in MiB: {:?}",
        begun.elapsed(),
        memory()?
    );
    let small = begun.elapsed();
    ensure(small < PATIENCE * 4, || format!("it took {small:?}"))?;

    // More than the server's limit of an event of a channel.
    server.execute(&["CREATE TABLE e2e.large (id INT PRIMARY KEY, data LONGBLOB)"])?;
    let mut connection = server.connect()?;
    connection.query_drop("BEGIN").why("BEGIN")?;
    for id in 0..65 {
        let sql = format!("INSERT INTO e2e.large VALUES ({id}, REPEAT('x', 16 << 20))");
        connection.query_drop(&sql).why(&sql)?;
    }
    let answer = connection.query_drop("COMMIT");
    let code = match &answer {
        Err(mysql::Error::MySqlError(error)) => Some(error.code),
        _ => None,
    };
    ensure(code == Some(REFUSED), || format!("a gigabyte: {answer:?}"))?;
    let says = wait_for(PATIENCE, || server.log().contains("split it").then_some(()));
    ensure(says.is_some(), || server.log())?;
    eprintln!(
        "more than 1 GiB is refused; most memory in MiB: {:?}",
        memory()?
    );
    let rows = group.same_rows("SELECT COUNT(*) FROM e2e.large")?;
    ensure(rows == ["0"], || format!("{rows:?}"))
}

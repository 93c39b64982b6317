//! The server's event scheduler, whose threads commit without a client, when the writer changes.

use std::time::Duration;

use synod_e2e::mysql_group::{MysqlGroup, others};
use synod_e2e::{Outcome, ensure};
use synod_local_cluster::wait_for;

use crate::steps::Pause;

const PORT: u16 = 19920;
/// The scheduler drops this event once it has ended.
const ENDS_SOON: &str =
    "CREATE EVENT e2e.ended ON SCHEDULE EVERY 1 SECOND ENDS NOW() + INTERVAL 1 SECOND DO DO 1";

/// The group refuses what the scheduler of a deposed writer commits; it keeps no locks.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn refused_event_scheduler_keeps_no_locks() -> Outcome {
    let group = MysqlGroup::that_pauses("events", PORT)?;
    let writer = group.await_whole()?;
    let next = others(writer)[0];
    group.servers[writer].execute(&["CREATE DATABASE e2e"])?;
    let server = &group.servers[writer];
    server.execute(&[
        "SET GLOBAL event_scheduler = OFF",
        ENDS_SOON,
        "DO SLEEP(1.1)",
    ])?;
    let pause = Pause::ask(&group, writer, "asking")?;
    server.execute(&["SET GLOBAL event_scheduler = ON"])?;
    pause.await_reached()?;
    let name = format!("db{}", next + 1);
    group.synod_says(writer, &["leader", "transfer", &name])?;
    group.await_state(next, "writer")?;
    pause.end()?;
    group.await_state(writer, "replica")?;
    let locks = "SELECT name, thread_id, processlist_info, object_name, lock_mode, lock_data \
        FROM performance_schema.data_locks JOIN performance_schema.threads USING (thread_id)";
    let mut held = Vec::new();
    let free = wait_for(Duration::from_secs(10), || {
        held = server.rows(locks).ok()?;
        held.is_empty().then_some(())
    });
    ensure(free.is_some(), || format!("{held:?}\n{}", server.log()))?;
    // It applies what the new writer does to events, and does so itself as the writer again.
    group.servers[next].execute(&["CREATE EVENT e2e.later ON SCHEDULE EVERY 1 DAY DO DO 1"])?;
    group.await_same_position()?;
    let name = format!("db{}", writer + 1);
    group.synod_says(writer, &["leader", "transfer", &name])?;
    group.await_state(writer, "writer")?;
    let drops = [
        "SET SESSION innodb_lock_wait_timeout = 5, SESSION lock_wait_timeout = 5",
        "DROP EVENT e2e.later",
        "DROP DATABASE e2e",
        "CREATE DATABASE e2e",
    ];
    server.execute(&drops)?;
    group.await_same_position()
}

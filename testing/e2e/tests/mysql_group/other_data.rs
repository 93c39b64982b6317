//! A server whose data are not those that the group began with takes no part.

use synod_e2e::mysql_group::{GROUP, MysqlGroup, others};
use synod_e2e::mysql_server::MysqlServer;
use synod_e2e::{Outcome, Why, ensure, ensure_says};

const PORT: u16 = 19800;
/// UUID of a group that the server was in before.
const FORMER: &str = "5e0dc0de-0000-4000-8000-0000000000b1";

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn server_with_other_data_than_the_group_began_with_takes_no_part() -> Outcome {
    let mut group = MysqlGroup::new("other-data", PORT)?;
    let writer = group.await_whole()?;
    group.servers[writer].execute(&["CREATE DATABASE e2e"])?;
    let at = others(writer)[1];
    let server = &mut group.servers[at];
    server.end("-TERM")?;

    // As a new server that has had a life of its own.
    let options = server.options().to_vec();
    server.wipe()?;
    server.set_options(vec!["--server-id=9".to_owned()]);
    server.start(&[])?;
    server.await_up()?;
    server.execute(&[
        &format!("SET SESSION gtid_next = '{FORMER}:1'"),
        "CREATE DATABASE other",
        "SET SESSION gtid_next = AUTOMATIC",
    ])?;
    server.end("-TERM")?;
    server.set_options(options);
    server.start(&[])?;
    server.await_up()?;
    group.await_state(at, "failed")?;
    let problem = group.status(at, "problem").unwrap_or_default();
    ensure_says(
        &problem,
        "the group began with other data than this server has",
    )?;
    ensure_says(&problem, FORMER)?;
    let has_group = has_database(&group.servers[at])?;
    ensure(!has_group, || {
        "it has carried out the group's transactions".to_owned()
    })?;

    // Empty as the group was, it has all from the log.
    let server = &mut group.servers[at];
    server.end("-KILL")?;
    server.wipe()?;
    server.start(&[])?;
    group.await_whole()?;
    group.await_same_position()?;
    let has_group = has_database(&group.servers[at])?;
    ensure(has_group, || format!("{GROUP}: no database e2e"))
}

fn has_database(server: &MysqlServer) -> Outcome<bool> {
    let rows = server.rows("SHOW DATABASES LIKE 'e2e'").why("databases")?;
    Ok(rows == ["e2e"])
}

//! The program `synod` asks running servers, and gives orders to their group.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use mysql::prelude::Queryable;
use serde_json::Value;
use synod_e2e::{Outcome, Shared, TestCluster, Why, ensure, ensure_says, place};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("commands", 22706);

const PATIENCE: Duration = Duration::from_secs(60);

fn synod(arguments: &[&str]) -> Outcome<Output> {
    let mut program = Command::new(place::program()?);
    program.args(arguments).output().why("starting synod")
}

/// The answer of a command, which must succeed, of a node's server.
fn ask(cluster: &TestCluster, node: u8, arguments: &[&str]) -> Outcome<String> {
    let dir = dir(cluster, node);
    let dir = dir.to_string_lossy();
    let all = [arguments, &["--dir", &dir]].concat();
    let output = synod(&all)?;
    ensure(output.status.success(), || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("synod {all:?} failed ({}): {errors}", output.status)
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Output of a command that must fail with this exit code.
fn refused(arguments: &[&str], code: i32) -> Outcome<String> {
    let output = synod(arguments)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.code() == Some(code), || {
        format!("synod {arguments:?} ends with {}: {errors}", output.status)
    })?;
    Ok(errors)
}

fn dir(cluster: &TestCluster, node: u8) -> PathBuf {
    cluster.files(node).data
}

fn status(cluster: &TestCluster, node: u8) -> Outcome<Value> {
    let text = ask(cluster, node, &["status", "--json"])?;
    serde_json::from_str(&text).why("the status as JSON")
}

/// Waits until the status of a node fits.
fn await_status(
    cluster: &TestCluster,
    node: u8,
    what: &str,
    fits: impl Fn(&Value) -> bool,
) -> Outcome<Value> {
    let looked = wait_for(PATIENCE, || status(cluster, node).ok().filter(|s| fits(s)));
    let last = || status(cluster, node).map(|s| s.to_string());
    match looked {
        Some(found) => Ok(found),
        None => Err(format!("{what}; the last status is {:?}", last())).why("waiting"),
    }
}

fn row<'a>(status: &'a Value, name: &str) -> &'a Value {
    let rows = status["members"].as_array().map_or(&[][..], Vec::as_slice);
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or(&Value::Null)
}

#[test]
fn status_tells_what_each_server_knows() {
    CLUSTER.scenario("synod status", |cluster| {
        cluster.execute(1, "CREATE TABLE IF NOT EXISTS e2e_data.seen (id SERIAL)")?;
        for _ in 0..20 {
            cluster.execute(1, "INSERT INTO e2e_data.seen () VALUES ()")?;
        }
        let leader = cluster.leader();
        let follower = cluster.follower();
        let name = |node: u8| format!("node{node}");
        let of_leader = await_status(cluster, leader, "the leader knows all logs", |status| {
            let rows = (1..=3).map(|node| row(status, &name(node)));
            rows.clone()
                .all(|r| r["durable_index"].is_u64() && r["applied_seqno"].is_i64())
        })?;
        ensure(of_leader["group"]["leader"] == name(leader), || {
            format!("another leader: {of_leader}")
        })?;
        ensure(of_leader["last_election"]["term"].is_u64(), || {
            format!("no election: {of_leader}")
        })?;
        let steps = of_leader["commit_steps"].as_array().map(Vec::as_slice);
        let steps = steps.unwrap_or_default().iter();
        let steps: Vec<_> = steps.filter_map(|step| step["step"].as_str()).collect();
        for step in [
            "queue", "order", "certify", "append", "fsync", "quorum", "apply",
        ] {
            ensure(steps.contains(&step), || format!("no {step}: {steps:?}"))?;
        }
        // A follower knows its own log, and no other one.
        let seen = status(cluster, follower)?;
        let own = row(&seen, &name(follower));
        ensure(
            own["is_own"] == true && own["durable_index"].is_u64(),
            || format!("not its own row: {own}"),
        )?;
        let of_others = row(&seen, &name(leader));
        ensure(of_others["durable_index"].is_null(), || {
            format!("a follower made something up: {of_others}")
        })?;
        let table = ask(cluster, follower, &["status"])?;
        for words in [
            "synod-e2e-commands",
            "3 voters: 1 may fail at a time",
            "primary",
            &format!("{}*", name(follower)),
        ] {
            ensure_says(&table, words)?;
        }
        let list = ask(cluster, follower, &["member", "list"])?;
        ensure(list.lines().count() == 4, || {
            format!("not three members:\n{list}")
        })?;
        let leads = ask(cluster, follower, &["leader"])?;
        ensure_says(&leads, &format!("{} leads term", name(leader)))
    });
}

#[test]
fn killed_server_is_absent_and_its_socket_says_so() {
    CLUSTER.scenario("synod status after a kill", |cluster| {
        let (leader, killed) = (cluster.leader(), cluster.follower());
        let name = format!("node{killed}");
        cluster.kill(killed).why("kill")?;
        let dead_dir = dir(cluster, killed);
        let dead_dir = dead_dir.to_string_lossy();
        let error = refused(&["status", "--dir", &dead_dir], 3)?;
        ensure_says(&error, "has ended without removing its socket")?;
        let absent = |status: &Value| row(status, &name)["is_present"] == false;
        let gone = await_status(cluster, leader, "the killed one is absent", absent)?;
        ensure(row(&gone, &name)["applied_seqno"].is_null(), || {
            format!("a position of an absent server: {gone}")
        })?;
        let why = ask(cluster, leader, &["why", "--topic", "membership"])?;
        ensure_says(&why, &format!("{name} has sent nothing for"))?;
        // The socket that it left is replaced.
        cluster.start(killed, &|_, _| ()).why("starting it again")?;
        let is_ready = |status: &Value| status["server"]["is_ready"] == true;
        await_status(cluster, killed, "ready again", is_ready)?;
        // It removes its socket when it ends in order.
        cluster.stop(killed).why("stopping it")?;
        let commands: [&[&str]; 4] = [
            &["status"],
            &["status", "--check"],
            &["why"],
            &["member", "list"],
        ];
        for command in commands {
            let error = refused(&[command, &["--dir", &dead_dir]].concat(), 3)?;
            ensure_says(&error, "there is no synod.sock")?;
        }
        cluster.start(killed, &|_, _| ()).why("starting it again")?;
        Ok(())
    });
}

#[test]
fn server_that_waits_for_a_majority_answers() {
    CLUSTER.scenario("synod status without a majority", |cluster| {
        for node in 1..=3 {
            cluster.kill(node).why("kill")?;
        }
        cluster.start(1, &|_, _| ()).why("starting one of three")?;
        let waits = |status: &Value| {
            let rows = status["members"].as_array().map_or(0, Vec::len);
            status["group"]["is_primary"] == false && rows == 3
        };
        let waiting = await_status(cluster, 1, "it waits", waits)?;
        ensure(waiting["server"]["is_ready"] == false, || {
            format!("ready without a majority: {waiting}")
        })?;
        ensure(row(&waiting, "node2")["applied_seqno"].is_null(), || {
            format!("a position of a server that is down: {waiting}")
        })?;
        let table = ask(cluster, 1, &["status"])?;
        ensure_says(&table, "NOT PRIMARY")?;
        let dir = dir(cluster, 1);
        let check = ["status", "--check", "--dir", &dir.to_string_lossy()];
        let output = synod(&check)?;
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure(output.status.code() == Some(6), || {
            format!("{}: {shown}", output.status)
        })?;
        ensure_says(&shown, "NOT PRIMARY")?;
        cluster.up(&|_, _| ()).why("starting all")?;
        let is_ready = |status: &Value| status["server"]["is_ready"] == true;
        await_status(cluster, 1, "ready with a majority", is_ready)?;
        ask(cluster, 1, &["status", "--check"])?;
        Ok(())
    });
}

#[test]
fn server_that_is_meant_must_be_known() {
    CLUSTER.scenario("which server", |cluster| {
        // Three servers run here, at least.
        let error = refused(&["status"], 3)?;
        ensure_says(&error, "name the one that you mean by --dir")?;
        ensure_says(&error, &dir(cluster, 2).to_string_lossy())?;
        let elsewhere = place::cluster_dir("commands-nothing")?;
        std::fs::create_dir_all(&elsewhere).why("an empty directory")?;
        let error = refused(&["status", "--dir", &elsewhere.to_string_lossy()], 3)?;
        ensure_says(&error, "there is no synod.sock")?;
        refused(&["status", "--nonsense"], 2)?;
        other_user_is_refused(&dir(cluster, 1))
    });
}

/// A user that is neither the server's nor root. Only root can become it.
fn other_user_is_refused(dir: &Path) -> Outcome {
    let program = place::program()?;
    let run = |arguments: &[&str]| {
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        other.arg(&program).args(arguments).output()
    };
    let can_change = run(&["--version"]).is_ok_and(|output| output.status.success());
    if !can_change {
        eprintln!("  not run as root, or the program is out of reach: nothing to check");
        return Ok(());
    }
    let dir = dir.to_string_lossy();
    let output = run(&["status", "--dir", &dir]).why("another user")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.code() == Some(5), || {
        format!("another user: {}: {errors}", output.status)
    })?;
    ensure_says(&errors, "may not give orders")
}

#[test]
fn leadership_goes_where_it_is_ordered_from_any_server() {
    CLUSTER.scenario("synod leader transfer", |cluster| {
        let (leader, to) = (cluster.leader(), cluster.follower());
        let name = format!("node{to}");
        let answer = ask(cluster, to, &["leader", "transfer", &name])?;
        ensure_says(&answer, &format!("{name} leads"))?;
        let leads = |status: &Value| status["group"]["leader"] == name.as_str();
        await_status(cluster, leader, "the old leader follows", leads)?;
        let why = ask(
            cluster,
            leader,
            &["why", "--topic", "leadership", "--last", "5"],
        )?;
        ensure_says(&why, &format!("node{leader} has handed leadership over"))?;
        let dir = dir(cluster, 1);
        let dir = dir.to_string_lossy();
        let error = refused(&["leader", "transfer", "node9", "--dir", &dir], 4)?;
        ensure_says(&error, "node9")?;
        ask(cluster, 1, &["weight", "node1", "60"])?;
        let has_weight = |status: &Value| row(status, "node1")["weight"] == 60;
        await_status(cluster, 1, "node1 has another weight", has_weight)?;
        ask(cluster, 1, &["weight", "node1", "50"])?;
        Ok(())
    });
}

#[test]
fn vote_is_taken_only_with_a_yes_and_given_back() {
    CLUSTER.scenario("synod member demote", |cluster| {
        let node = cluster.follower();
        let name = format!("node{node}");
        let dir = dir(cluster, 1);
        let dir = dir.to_string_lossy();
        let error = refused(&["member", "demote", &name, "--dir", &dir], 4)?;
        ensure_says(&error, "--yes")?;
        let error = refused(&["member", "remove", &name, "--dir", &dir], 4)?;
        ensure_says(&error, "--yes")?;
        let answer = ask(cluster, 1, &["member", "demote", &name, "--yes"])?;
        let told = format!("{name} does not vote any more (committed at ");
        ensure_says(&answer, &told)?;
        ensure_says(&answer, "2 voters: none may fail")?;
        let learns = |status: &Value| row(status, &name)["role"] == "learner";
        await_status(cluster, 1, "it does not vote", learns)?;
        let answer = ask(cluster, 1, &["member", "promote", &name])?;
        ensure_says(&answer, &format!("{name} votes (committed at "))?;
        ensure_says(&answer, "3 voters: 1 may fail at a time")?;
        let follows = |status: &Value| row(status, &name)["is_voter"] == true;
        await_status(cluster, 1, "it votes again", follows)?;
        Ok(())
    });
}

#[test]
fn protocol_version_is_held_and_released_and_told_in_a_sentence() {
    CLUSTER.scenario("synod protocol set", |cluster| {
        let version = status(cluster, 1)?["group"]["protocol"].to_string();
        let was = format!("it was {version} before, and rose by itself (committed at ");
        let answer = ask(cluster, 1, &["protocol", "set", &version])?;
        let told = format!("the protocol version of all 3 members of the group is {version}, and");
        ensure_says(&answer, &told)?;
        ensure_says(&answer, &was)?;
        let answer = ask(cluster, 2, &["protocol", "set", "auto"])?;
        ensure_says(
            &answer,
            "all 3 members of the group rises by itself from now on",
        )?;
        let was = format!("it was held at {version} before (committed at ");
        ensure_says(&answer, &was)?;
        Ok(())
    });
}

#[test]
fn conflicts_name_the_table_and_the_row() {
    CLUSTER.scenario("synod conflicts", |cluster| {
        cluster.execute(
            1,
            "CREATE TABLE e2e_data.fought (id INT PRIMARY KEY, n INT)",
        )?;
        cluster.execute(1, "INSERT INTO e2e_data.fought VALUES (1, 0)")?;
        let has_row = || cluster.rows(2, "SELECT id FROM e2e_data.fought").ok();
        wait_for(PATIENCE, || has_row().filter(|rows| rows.len() == 1));
        let mut loser = cluster.connect(2)?;
        loser.query_drop("BEGIN").why("begin")?;
        loser
            .query_drop("UPDATE e2e_data.fought SET n = 2")
            .why("an update")?;
        cluster.execute(1, "UPDATE e2e_data.fought SET n = 1")?;
        let commit = loser.query_drop("COMMIT");
        ensure(commit.is_err(), || "both have committed".to_owned())?;
        let text = ask(cluster, 2, &["conflicts", "--json"])?;
        let found: Value = serde_json::from_str(&text).why("conflicts as JSON")?;
        let tables = found["tables"].as_array().map_or(&[][..], Vec::as_slice);
        let is_it = |row: &&Value| row["table"] == "e2e_data.fought" && row["recent"] == 1;
        ensure(tables.iter().any(|row| is_it(&row)), || {
            format!("the table is not named: {text}")
        })?;
        let is_it = |row: &Value| {
            row["table"] == "e2e_data.fought" && row["hex"] == "0001000000" && row["recent"] == 1
        };
        let keys = found["keys"].as_array().map_or(&[][..], Vec::as_slice);
        ensure(keys.iter().any(is_it), || {
            format!("the row is not named: {text}")
        })?;
        let latest = &found["latest"][0];
        ensure(
            latest["winner"] == "node1" && latest["winner_connection"].is_u64(),
            || format!("who won is not named: {text}"),
        )?;
        let shown = ask(cluster, 2, &["conflicts"])?;
        ensure_says(&shown, "e2e_data.fought")?;
        ensure_says(&shown, "0001000000 (1)")
    });
}

#[test]
fn watch_tells_the_rate() {
    CLUSTER.scenario("synod watch", |cluster| {
        let looks = ask(cluster, 1, &["watch", "--json", "--count", "2"])?;
        let looks: Vec<Value> = looks
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .why("looks as JSON")?;
        ensure(looks.len() == 2, || format!("{} looks", looks.len()))?;
        ensure(looks[0]["commits_per_second"].is_null(), || {
            "a rate of one look".into()
        })?;
        ensure(looks[1]["commits_per_second"].is_f64(), || {
            format!("no rate: {}", looks[1])
        })?;
        let plain = ask(cluster, 1, &["watch", "--count", "1"])?;
        ensure_says(&plain, "commits/s in the group")
    });
}

//! A majority is lost with commits that the survivor lacks: it continues by order, and the lost
//! ones come back by a full copy only. What the order costs is said before, and it is refused where
//! nothing is lost. (`drills.rs` runs the drill of the manual, in which nothing is lost.)

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;
use serde_json::Value;
use synod_e2e::programs::new_group_secret;
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 27106;
const PATIENCE: Duration = Duration::from_secs(90);
const PLAN: &str = "recover --plan";
const FORCE: &str = "recover --force --yes";
/// Rows that only the lost majority has committed.
const LOST_ROWS: u32 = 3;
/// Rows that the survivor commits afterwards: more, so that its history is longer.
const NEW_ROWS: u32 = 10;

/// Runs a command for a node's server. Several run on this machine, so its directory is named.
fn synod(cluster: &TestCluster, node: u8, command: &str) -> Outcome<Output> {
    let mut program = Command::new(place::program()?);
    program.args(command.split(' '));
    program.arg("--dir").arg(dir(cluster, node));
    program.output().why("starting synod")
}

fn dir(cluster: &TestCluster, node: u8) -> PathBuf {
    cluster.files(node).data
}

/// Output of a command that must end with this exit code.
fn says(cluster: &TestCluster, node: u8, command: &str, code: i32) -> Outcome<String> {
    let output = synod(cluster, node, command)?;
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure(output.status.code() == Some(code), || {
        format!("synod {command} ends with {}: {text}", output.status)
    })?;
    Ok(text)
}

fn ensure_says(text: &str, parts: &[&str]) -> Outcome {
    let missing: Vec<&&str> = parts.iter().filter(|part| !text.contains(**part)).collect();
    ensure(missing.is_empty(), || format!("no {missing:?} in:\n{text}"))
}

/// Waits until a node's server answers, and hears no leader.
fn await_without_leader(cluster: &TestCluster, node: u8) -> Outcome {
    let lost = wait_for(PATIENCE, || {
        let output = synod(cluster, node, "status --json").ok()?;
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let rows = status["members"].as_array().map_or(0, Vec::len);
        (status["group"]["is_primary"] == false && rows == 3).then_some(())
    });
    ensure(lost.is_some(), || {
        format!("node{node} does not answer without a leader")
    })
}

/// Waits until a node's database would come back with all that is committed, if it were killed.
fn await_flushed(cluster: &TestCluster, node: u8) -> Outcome {
    let flushed = wait_for(PATIENCE, || {
        let output = synod(cluster, node, "status --json").ok()?;
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let own = status["members"]
            .as_array()?
            .iter()
            .find(|m| m["is_own"] == true)?;
        let flushed = own["flushed_seqno"].as_i64()?;
        (flushed >= status["group"]["commit_seqno"].as_i64()?).then_some(())
    });
    ensure(flushed.is_some(), || {
        format!("the database of node{node} does not flush")
    })
}

fn insert(cluster: &TestCluster, node: u8, what: &str, rows: u32) -> Outcome {
    for _ in 0..rows {
        let sql = format!("INSERT INTO e2e_data.drill (what) VALUES ('{what}')");
        cluster.execute(node, &sql)?;
    }
    Ok(())
}

fn count(cluster: &TestCluster, node: u8, what: &str) -> Outcome<String> {
    let sql = format!("SELECT COUNT(*) FROM e2e_data.drill WHERE what = '{what}'");
    let rows = cluster.rows(node, &sql)?;
    Ok(rows.concat())
}

#[test]
fn survivor_of_a_lost_majority_continues_and_the_others_are_copied_to() -> Outcome {
    let mut cluster = TestCluster::fresh("recover", BASE_PORT)?;
    let outcome = lose_a_majority_with_commits(&mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn lose_a_majority_with_commits(cluster: &mut TestCluster) -> Outcome {
    let columns = "id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20)";
    cluster.execute(1, &format!("CREATE TABLE e2e_data.drill ({columns})"))?;
    refuses_in_a_healthy_group(cluster)?;
    survivor_that_runs_knows_what_may_be_lost(cluster)?;

    // The survivor lacks what the majority commits last.
    let (leader, survivor) = (cluster.leader(), cluster.follower());
    let others = cluster.others(survivor);
    let other = others.iter().copied().find(|node| *node != leader);
    let other = other.ok_or_else(|| Failure("no third server".to_owned()))?;
    insert(cluster, leader, "kept", 1)?;
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("all three")?;
    agreement::check(cluster, &[1, 2, 3])?;
    cluster.kill(survivor).why("killing the survivor")?;
    insert(cluster, leader, "lost", LOST_ROWS)?;
    await_flushed(cluster, leader)?;
    for node in [leader, other] {
        cluster.kill(node).why("killing the majority")?;
    }
    cluster.wipe(other).why("losing a disk")?;

    // It waits at its start, and takes the order.
    cluster
        .spawn(survivor, false)
        .why("starting the survivor")?;
    await_without_leader(cluster, survivor)?;
    let name = format!("node{survivor}");
    let text = says(cluster, survivor, PLAN, 0)?;
    eprintln!("{text}\n");
    ensure_says(
        &text,
        &[
            "continue with",
            &name,
            "lost at most",
            "synod recover --force",
        ],
    )?;
    let text = says(cluster, survivor, "recover --force", 4)?;
    ensure_says(&text, &["as the only voter", "--yes"])?;
    let done = wait_for(PATIENCE, || says(cluster, survivor, FORCE, 0).ok());
    let Some(text) = done else {
        return says(cluster, survivor, FORCE, 0).map(|_| ());
    };
    eprintln!("{text}\n");
    ensure_says(&text, &[&format!("{name} continues as the only voter")])?;
    cluster
        .await_synced(&[survivor], &|_, _| ())
        .why("the survivor")?;
    insert(cluster, survivor, "new", NEW_ROWS)?;

    cluster.spawn(other, false).why("starting without a disk")?;
    cluster
        .await_synced(&[survivor, other], &|_, _| ())
        .why("the second")?;
    old_majority_comes_back_by_a_copy_only(cluster, leader)?;
    agreement::check(cluster, &[1, 2, 3])?;
    for node in 1..=3 {
        for (what, rows) in [("kept", 1), ("lost", 0), ("new", NEW_ROWS)] {
            let found = count(cluster, node, what)?;
            ensure(found == rows.to_string(), || {
                format!("node{node} has {found} rows '{what}', not {rows}")
            })?;
        }
    }
    refuses_in_a_healthy_group(cluster)
}

/// The commit may be in the log, and may not: that must not cost the only database that is left.
#[test]
fn survivor_stopped_amid_a_streamed_commit_continues_with_its_data() -> Outcome {
    let mut cluster = TestCluster::fresh("recover-streamed", BASE_PORT)?;
    cluster.execute(
        1,
        "CREATE TABLE e2e_data.drill (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
    )?;
    insert(&cluster, 1, "kept", 1)?;
    agreement::check(&cluster, &[1, 2, 3])?;
    let mut client = cluster.connect(1)?;
    for sql in [
        "SET SESSION wsrep_trx_fragment_unit = 'rows', SESSION wsrep_trx_fragment_size = 1",
        "START TRANSACTION",
        "INSERT INTO e2e_data.drill (what) VALUES ('streamed'), ('streamed')",
    ] {
        client.query_drop(sql).why(sql)?;
    }
    for node in [2, 3] {
        cluster.kill(node).why("losing the majority")?;
    }
    let committing = std::thread::spawn(move || client.query_drop("COMMIT"));
    let waits = wait_for(PATIENCE, || {
        let sessions = cluster.rows(1, "SHOW PROCESSLIST").ok()?;
        let mut sessions = sessions.iter();
        sessions.any(|row| row.contains("\tCOMMIT")).then_some(())
    });
    ensure(waits.is_some(), || "no COMMIT waits".to_owned())?;
    await_without_leader(&cluster, 1)?;
    cluster.stop(1).why("an orderly stop")?;
    let answer = committing.join().map_err(|_| "a panic").why("the client")?;
    ensure(answer.is_err(), || "the COMMIT is acknowledged".to_owned())?;
    for node in [2, 3] {
        cluster.wipe(node).why("losing their disks")?;
    }

    cluster.spawn(1, false).why("starting the survivor")?;
    await_without_leader(&cluster, 1)?;
    let done = wait_for(PATIENCE, || says(&cluster, 1, FORCE, 0).ok());
    ensure(done.is_some(), || "no order is taken".to_owned())?;
    cluster.await_synced(&[1], &|_, _| ()).why("the survivor")?;
    let kept = count(&cluster, 1, "kept")?;
    ensure(kept == "1", || format!("{kept} rows are left"))
}

/// A newcomer's accident: to a server with another secret, a group that runs looks like a lost one.
#[test]
fn server_with_another_secret_continues_alone_only_when_the_others_are_gone() -> Outcome {
    let (mut cluster, _) = TestCluster::with_secret("recover-secret", BASE_PORT, 3)?;
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("all three")?;
    cluster.stop(3).why("stopping the third")?;
    let other = new_group_secret()?;
    cluster.settings_mut().group_secret = Some(other.trim().to_owned());
    cluster.spawn(3, false).why("starting it with it")?;
    await_without_leader(&cluster, 3)?;
    let text = says(&cluster, 3, "status --json", 0)?;
    let status: Value = serde_json::from_str(&text).why("the status as JSON")?;
    let members = status["members"].as_array().map_or(&[][..], Vec::as_slice);
    let others = members.iter().filter(|member| member["is_own"] == false);
    let mut named: Vec<&str> = others.filter_map(|m| m["address"].as_str()).collect();
    ensure(named.len() == 2, || text.clone())?;
    named.push("group secret differs");
    let is_told = |text: &str| named.iter().all(|words| text.contains(words));
    let told = wait_for(PATIENCE, || {
        let status = says(&cluster, 3, "status", 0).ok()?;
        is_told(&status).then_some(status)
    });
    let status = told.ok_or_else(|| Failure(format!("no {named:?} in the status")))?;
    ensure(!status.contains("synod recover"), || status)?;
    for command in [PLAN, FORCE] {
        // At first the refusal is that the others may answer yet.
        let refused = wait_for(PATIENCE, || {
            let refused = says(&cluster, 3, command, 4);
            let is_last = refused.as_ref().map_or(true, |text| is_told(text));
            is_last.then_some(refused)
        });
        refused.ok_or_else(|| Failure(format!("no {named:?} of {command}")))??;
    }
    cluster.execute(1, "CREATE TABLE e2e_data.serves (id SERIAL)")?;

    for node in [1, 2] {
        cluster.kill(node).why("losing the others")?;
    }
    let done = wait_for(PATIENCE, || says(&cluster, 3, FORCE, 0).ok());
    ensure(done.is_some(), || "the order is refused".to_owned())?;
    cluster.await_synced(&[3], &|_, _| ()).why("the survivor")
}

fn refuses_in_a_healthy_group(cluster: &TestCluster) -> Outcome {
    for command in [PLAN, FORCE] {
        let text = says(cluster, cluster.follower(), command, 4)?;
        ensure_says(&text, &["nothing has to be recovered"])?;
    }
    Ok(())
}

/// Two servers are killed for a moment: the third one knows until when it had everything.
fn survivor_that_runs_knows_what_may_be_lost(cluster: &mut TestCluster) -> Outcome {
    let survivor = cluster.follower();
    let others = cluster.others(survivor);
    let killed_ms = unix_ms();
    for node in &others {
        cluster.kill(*node).why("kill")?;
    }
    loss_is_shown_before_the_view_changes(cluster, survivor)?;
    await_without_leader(cluster, survivor)?;
    were_heard_until(cluster, survivor, killed_ms)?;
    let text = says(cluster, survivor, PLAN, 0)?;
    eprintln!("{text}\n");
    let thrown_out = others.iter().map(|node| format!("node{node}"));
    let thrown_out = thrown_out.collect::<Vec<_>>().join(", ");
    ensure_says(
        &text,
        &["last heard", "what was committed after", &thrown_out],
    )?;
    let table = says(cluster, survivor, "status", 0)?;
    ensure_says(&table, &["NOT PRIMARY", "synod recover --plan"])?;
    let why = says(cluster, survivor, "why", 0)?;
    ensure_says(&why, &["synod recover --plan"])?;
    for node in others {
        cluster.spawn(node, false).why("starting again")?;
    }
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("the majority is back")
}

/// While the group still counts as primary, its status says that nothing commits, and why.
fn loss_is_shown_before_the_view_changes(cluster: &TestCluster, node: u8) -> Outcome {
    let mut last = Value::Null;
    let shown = wait_for(PATIENCE, || {
        let output = synod(cluster, node, "status --json").ok()?;
        last = serde_json::from_slice(&output.stdout).ok()?;
        let group = &last["group"];
        let outlook = group["outlook"].as_str().unwrap_or_default();
        let is_shown = group["can_commit"] == false && outlook.contains("3 voters, 1 answers");
        (is_shown || group["is_primary"] == false).then_some(())
    });
    let is_before = shown.is_some() && last["group"]["is_primary"] == true;
    ensure(is_before, || {
        format!("the loss is shown late: {}", last["group"])
    })
}

/// The plan says until when each lost server was heard: until it was killed, and not longer.
fn were_heard_until(cluster: &TestCluster, survivor: u8, killed_ms: u64) -> Outcome {
    /// Longest time from the last message of a server to its end, and of the kills.
    const SLACK_MS: u64 = 3_000;
    let text = says(cluster, survivor, "recover --plan --json", 0)?;
    let plan: Value = serde_json::from_str(&text).why("the plan as JSON")?;
    let members = plan["members"].as_array().map_or(&[][..], Vec::as_slice);
    let heard = members.iter().filter(|member| member["has"].is_null());
    let heard: Vec<u64> = heard
        .filter_map(|member| member["heard_unix_ms"].as_u64())
        .collect();
    let is_right = |heard: &u64| heard.abs_diff(killed_ms) < SLACK_MS;
    ensure(heard.len() == 2 && heard.iter().all(is_right), || {
        format!("killed at {killed_ms}: {text}")
    })
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// A server of the old majority has rows that the group has lost. It stops; with its log away, too,
/// nothing shows its history, and it takes a full copy.
fn old_majority_comes_back_by_a_copy_only(cluster: &mut TestCluster, node: u8) -> Outcome {
    cluster.spawn(node, false).why("the old leader")?;
    let names_them = "that are in this member's database";
    let stopped = wait_for(PATIENCE, || {
        let text = cluster.log_text(node);
        text.contains(names_them).then_some(())
    });
    ensure(stopped.is_some(), || {
        format!("node{node} does not name what is lost")
    })?;
    ensure(!cluster.node_status(node).is_synced(), || {
        format!("node{node} takes part with another history")
    })?;
    cluster.kill(node).why("ending it")?;
    let files = std::fs::read_dir(dir(cluster, node)).why("its files")?;
    for file in files.flatten() {
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("synod-") && name.ends_with(".log") {
            std::fs::remove_file(file.path()).why("its log")?;
        }
    }
    cluster.spawn(node, false).why("with its database alone")?;
    cluster
        .await_synced(&[1, 2, 3], &|_, _| ())
        .why("the old leader")?;
    let text = cluster.log_text(node);
    ensure_says(&text, &["the database has to be copied again"])
}

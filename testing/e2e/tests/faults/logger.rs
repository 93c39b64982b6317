//! Two servers and a logger: any one of the three may be lost, and nothing acknowledged with it.
//!
//! The drill of the manual, "two data centres and a witness", with the file that is shown there.
//! Prints the logger's memory, and the longest time without an acknowledgement at each loss.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::agent_process::AgentProcess as Agent;
use synod_e2e::logger::{Logger, write_private};
use synod_e2e::programs::{new_group_secret, output_of};
use synod_e2e::{Outcome, TestCluster, Why, agreement, ensure, place, usage};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 26306;
const SERVERS: [u8; 2] = [1, 2];
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// In which time the end of a member is shown; the suspect timeout is five seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(4);
/// Commits that show that a group serves.
const SOME: u64 = 300;
/// Limit for a logger at rest, in bytes.
const AT_REST_MAX: u64 = 30_000_000;

fn await_voters(cluster: &TestCluster, node: u8, voters: &str) -> Outcome {
    let sql = "SHOW GLOBAL STATUS LIKE 'wsrep_synod_voters'";
    let voted = wait_for(PATIENCE, || {
        let rows = cluster.rows(node, sql).ok()?;
        rows.iter().any(|row| row.ends_with(voters)).then_some(())
    });
    ensure(voted.is_some(), || {
        format!("node{node} does not count {voters} voters")
    })
}

#[test]
fn two_servers_and_a_logger_survive_the_loss_of_any_one() -> Outcome {
    let (mut cluster, secret) = TestCluster::with_secret("logger", BASE_PORT, 2)?;
    let mut logger = Logger::beside(&cluster, "witness", &secret)?;
    let mut check = Command::new(place::program()?);
    check
        .args(["logger", "--config"])
        .arg(logger.file())
        .arg("--check");
    output_of(&mut check, "synod logger --check")?;
    logger.join()?;
    await_voters(&cluster, 1, "3")?;
    await_attendance(&cluster, true)?;
    let outcome = lose_each(&mut cluster, &mut logger);
    if outcome.is_err() {
        eprintln!("{}\nlogger:\n{}", cluster.describe(), logger.says());
    }
    outcome?;
    logger.signal("-HUP")?;
    logger.await_line("the credentials were read again")?;
    logger.stop()?;
    ensure(logger.says().contains("this member has left"), || {
        logger.says()
    })
}

fn lose_each(cluster: &mut TestCluster, logger: &mut Logger) -> Outcome {
    print_memory(logger, "at rest")?;
    let at_rest = usage::resident_bytes(logger.pid()?)?;
    ensure(at_rest < AT_REST_MAX, || {
        format!("the logger takes {at_rest} bytes at rest")
    })?;
    let writers = Writers::start(cluster, "lost", &SERVERS, 4)?;
    writers.await_more(SOME, PATIENCE)?;

    // The leader: the other server continues with the logger.
    let first = cluster.leader();
    let second = cluster.others(first)[0];
    let killed = Instant::now();
    cluster.kill(first).why("killing the leader")?;
    writers.await_commit_after(second, Instant::now(), PATIENCE)?;
    let continued = Instant::now();
    await_leader(cluster, second)?;
    writers.await_more(SOME, PATIENCE)?;

    // The other one: what it committed meanwhile, the first gets from the logger's log.
    cluster.kill(second).why("killing the other server")?;
    cluster
        .spawn(first, false)
        .why("starting the first server")?;
    await_leader(cluster, first)?;
    let alone = Instant::now();
    writers.await_commit_after(first, alone, PATIENCE)?;
    cluster
        .spawn(second, false)
        .why("starting the second server")?;
    cluster
        .await_synced(&SERVERS, &|_, _| ())
        .why("waiting for both servers")?;
    print_memory(logger, "under load")?;

    // The logger: the servers continue without a pause.
    let lost_logger = Instant::now();
    logger.kill()?;
    await_attendance(cluster, false)?;
    writers.await_more(SOME, PATIENCE)?;
    let without_logger = Instant::now();
    logger.join()?;
    await_attendance(cluster, true)?;
    writers.await_more(SOME, PATIENCE)?;

    // Both servers at once.
    cluster.kill_all().why("killing both servers")?;
    let report = writers.finish();
    for node in SERVERS {
        cluster.spawn(node, false).why("starting a server")?;
    }
    cluster
        .await_synced(&SERVERS, &|_, _| ())
        .why("after both servers were killed")?;
    eprintln!(
        "  longest gap: {:.2?} on node{second} when the leader was killed, {:.2?} on any when the \
         logger was killed",
        report.longest_gap(&[second], killed, continued),
        report.longest_gap(&SERVERS, lost_logger, without_logger),
    );
    report.check_rows(cluster, &SERVERS)?;
    agreement::check(cluster, &SERVERS)?;
    let leads = wait_for(PATIENCE, || {
        let is_leader = |node: &u8| cluster.node_status(*node).role.as_deref() == Some("leader");
        SERVERS.iter().find(|node| is_leader(node))
    });
    ensure(leads.is_some(), || "the logger keeps leading".to_owned())?;
    print_memory(logger, "after the load")
}

/// A logger is no less there than a server: both servers' commands, health checks and metrics say
/// so while it lives, and soon after its end that it is gone.
fn await_attendance(cluster: &TestCluster, is_there: bool) -> Outcome {
    // A dead member is shown as silent after a second, long before it counts as absent.
    let patience = if is_there { PATIENCE } else { NOTICED_WITHIN };
    let begun = Instant::now();
    for node in SERVERS {
        let agent = Agent::start(cluster, node, &[])?;
        let outlook = if is_there {
            "3 voters: 1 may fail at a time"
        } else {
            "no further one may fail"
        };
        let tolerated = format!("synod_failures_tolerated {}", u8::from(is_there));
        let present = format!(
            "synod_members_present{{kind=\"logger\"}} {}",
            u8::from(is_there)
        );
        let mut seen = String::new();
        let is_so = || {
            let mut command = Command::new(place::program().ok()?);
            command
                .arg("status")
                .arg("--dir")
                .arg(cluster.files(node).data);
            let status = output_of(&mut command, "synod status").ok()?;
            let status = String::from_utf8_lossy(&status).into_owned();
            let row = status.lines().find(|line| line.starts_with("witness"))?;
            let is_shown = row.contains(" present ") == is_there && status.contains(outlook);
            let (_, health) = agent.get("/health/primary").ok()?;
            let (_, page) = agent.get("/metrics").ok()?;
            let is_counted = page.lines().any(|line| line == tolerated)
                && page.lines().any(|line| line == present);
            let is_so = is_shown && is_counted && health.contains(outlook);
            seen = format!("{status}\n{health}");
            is_so.then_some(())
        };
        let found = wait_for(patience, is_so);
        ensure(found.is_some(), || {
            format!("node{node} does not show the logger as it is ({is_there}):\n{seen}")
        })?;
    }
    eprintln!(
        "  shown on both servers as {} after {:.1?}",
        if is_there { "present" } else { "gone" },
        begun.elapsed()
    );
    Ok(())
}

/// Leadership comes to a server, if the logger led at first.
fn await_leader(cluster: &TestCluster, node: u8) -> Outcome {
    let leads = wait_for(PATIENCE, || {
        let role = cluster.node_status(node).role;
        (role.as_deref() == Some("leader")).then_some(())
    });
    ensure(leads.is_some(), || format!("node{node} does not lead"))
}

fn print_memory(logger: &Logger, when: &str) -> Outcome {
    let bytes = usage::resident_bytes(logger.pid()?)?;
    eprintln!(
        "  memory of the logger {when}: {:.1} MB",
        bytes as f64 / 1e6
    );
    Ok(())
}

#[test]
fn wrong_files_directories_ports_and_secrets_are_refused_with_what_to_do() -> Outcome {
    let (cluster, secret) = TestCluster::with_secret("logger-input", BASE_PORT + 1000, 2)?;
    let mut logger = Logger::beside(&cluster, "witness", &secret)?;
    let refused = |logger: &mut Logger, code: i32, parts: &[&str]| -> Outcome {
        logger.start()?;
        logger.await_exit(code)?;
        let text = logger.says();
        let is_whole = parts.iter().all(|part| text.contains(part)) && !text.contains("panicked");
        ensure(is_whole, || {
            format!("the logger does not say {parts:?}:\n{text}")
        })
    };
    let with = |logger: &mut Logger, key: &str, value: &str, code, parts: &[&str]| -> Outcome {
        let before = logger.value(key).to_owned();
        logger.set(key, value);
        refused(logger, code, parts)?;
        logger.set(key, &before);
        Ok(())
    };

    let data_dir = format!("{:?}", cluster.files(1).data.to_string_lossy());
    let of_server = [
        "is the data directory of a database server",
        "synod.log_dir",
    ];
    with(&mut logger, "synod.log_dir", &data_dir, 3, &of_server)?;
    let unwritable = ["the log cannot be written to /proc/x", "install -d -o"];
    with(&mut logger, "synod.log_dir", "\"/proc/x\"", 3, &unwritable)?;
    let unknown = ["there is no key 'synod.log_dri'. Did you mean 'synod.log_dir'?"];
    refused_with_more(&mut logger, "synod.log_dri = \"/x\"", &unknown)?;

    let taken = TcpListener::bind("127.0.0.1:0").why("a port")?;
    let address = format!("\"{}\"", taken.local_addr().why("a port")?);
    let in_use = ["cannot listen on", "Is another server using this port?"];
    with(&mut logger, "synod.listen_addr", &address, 1, &in_use)?;

    write_private(&logger.secret_file(), &new_group_secret()?)?;
    let other_secret = [
        "group secret differs from this member's",
        "no group has admitted this member",
    ];
    refused(&mut logger, 1, &other_secret)?;
    write_private(&logger.secret_file(), &secret)?;
    let other_name = ["is another one. Make them equal", "'another'"];
    with(&mut logger, "cluster_name", "\"another\"", 3, &other_name)?;

    logger.join()?;
    let mut second = Logger::beside(&cluster, "second", &secret)?;
    let log_dir = format!("{:?}", logger.log_dir().to_string_lossy());
    second.set("synod.log_dir", &log_dir);
    let free = TcpListener::bind("127.0.0.1:0").why("a port")?;
    let address = format!("\"{}\"", free.local_addr().why("a port")?);
    drop(free);
    second.set("synod.listen_addr", &address);
    second.set("address", &address);
    refused(&mut second, 1, &["the log is in use by process"])?;
    logger.kill()?;
    refused(
        &mut second,
        3,
        &["is that of 'witness', and this member is 'second'"],
    )?;
    logger.join()
}

/// Starts the logger with a line added to the file; expects a refusal.
fn refused_with_more(logger: &mut Logger, line: &str, parts: &[&str]) -> Outcome {
    let (key, value) = line.split_once(" = ").unwrap_or((line, "\"\""));
    logger.set(key, value);
    logger.start()?;
    logger.await_exit(3)?;
    let text = logger.says();
    logger.unset(key);
    ensure(parts.iter().all(|part| text.contains(part)), || text)
}

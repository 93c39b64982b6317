//! Tools of operators for a group of MySQL: commands of `synod`, its agent, a logger that votes.

use synod_e2e::agent_process::AgentProcess;
use synod_e2e::mysql_clients::Clients;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure, ensure_says};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19680;
const WITNESS_PORT: u16 = 19700;
/// Steps of each commit.
const STEPS: [&str; 8] = [
    "queue", "order", "certify", "wake", "append", "fsync", "quorum", "engine",
];
/// Exit code of a command that is refused.
const REFUSED: i32 = 4;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn commands_and_agent_know_a_group_of_mysql() -> Outcome {
    let mut group = MysqlGroup::new("commands", PORT)?;
    let (writer, clients) = under_load(&group)?;
    shows_the_group(&group, writer).why("commands that look")?;
    agent_tells_writer_and_readers(&group, writer).why("the agent")?;
    let next = leadership_moves(&group, writer, &clients).why("leader transfer")?;
    clients.finish().check(&group)?;
    survivor_tells_what_is_left(&mut group, next).why("recover --plan")
}

fn shows_the_group(group: &MysqlGroup, writer: usize) -> Outcome {
    for server in 0..3 {
        let status = group.synod_says(server, &["status"])?;
        for words in [
            ": primary\n",
            "db1",
            "db2",
            "db3",
            "Synced",
            "transactions of this server got error 3101",
        ] {
            ensure_says(&status, words)?;
        }
        // A member that has just joined is heard a moment later.
        let may_fail = "3 voters: 1 may fail at a time";
        let is_healthy = || {
            let check = group.synod_says(server, &["status", "--check"]).ok()?;
            check.contains(may_fail).then_some(())
        };
        if wait_for(PATIENCE, is_healthy).is_none() {
            ensure_says(&group.synod_says(server, &["status", "--check"])?, may_fail)?;
        }
    }
    let status = group.synod_says(writer, &["status"])?;
    eprintln!("{status}");
    let steps = status.lines().find(|line| line.starts_with("commit steps"));
    let steps = steps.unwrap_or_default();
    for step in STEPS {
        ensure_says(steps, &format!("{step} "))?;
    }
    let members = group.synod_says(writer, &["member", "list"])?;
    ensure_says(&members, &format!("db{}*", writer + 1))?;
    let watched = group.synod_says(writer, &["watch", "--count", "2", "--json"])?;
    let last = watched.lines().last().unwrap_or_default();
    ensure_says(last, "\"is_mysql\":true")?;
    let rate = last.split("\"commits_per_second\":").nth(1);
    let rate = rate.and_then(|rest| rest.split([',', '}']).next()?.parse::<f64>().ok());
    ensure(rate.is_some_and(|rate| rate > 1.0), || {
        format!("commits per second: {rate:?}")
    })?;
    let why = group.synod_says(writer, &["why"])?;
    ensure_says(&why, &format!("db{}", writer + 1))?;
    eprintln!("{why}");
    let refused = group.synod(writer, &["conflicts"])?;
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure(refused.status.code() == Some(REFUSED), || says.clone())?;
    ensure_says(&says, "Synod_refused")
}

fn agent_tells_writer_and_readers(group: &MysqlGroup, writer: usize) -> Outcome {
    for server in 0..3 {
        let agent = AgentProcess::of(&group.data_dir(server), &[])?;
        let expected = [
            ("/health/live", 200),
            ("/health/primary", 200),
            ("/health/writer", if server == writer { 200 } else { 503 }),
            ("/health/reader", 200),
            ("/health/reader?max_lag_ms=5000", 200),
            ("/clustercheck", 200),
            ("/", 200),
        ];
        for (page, code) in expected {
            let (found, text) = agent.get(page)?;
            ensure(found == code, || {
                format!("db{}{page}: {found}, not {code}: {text}", server + 1)
            })?;
        }
        let (_, metrics) = agent.get("/metrics")?;
        for line in ["synod_ready 1\n", "synod_state{state=\"Synced\"} 1\n"] {
            ensure_says(&metrics, line)?;
        }
        for counter in [
            "synod_local_commits_total",
            "synod_commit_seconds_count",
            "synod_commit_step_seconds_count{step=\"engine\"}",
        ] {
            let mut lines = metrics.lines();
            let count =
                lines.find_map(|line| line.strip_prefix(counter)?.trim().parse::<f64>().ok());
            ensure(
                count.is_some_and(|count| (count > 0.0) == (server == writer)),
                || format!("db{}: {counter} {count:?}", server + 1),
            )?;
        }
    }
    Ok(())
}

/// Hands the group to another server while clients write; returns that.
fn leadership_moves(group: &MysqlGroup, writer: usize, clients: &Clients) -> Outcome<usize> {
    let next = others(writer)[0];
    let agent = AgentProcess::of(&group.data_dir(next), &[])?;
    let name = format!("db{}", next + 1);
    let done = group.synod_says(writer, &["leader", "transfer", &name])?;
    ensure_says(&done, &name)?;
    group.await_state(next, "writer")?;
    let tells = || {
        agent
            .get("/health/writer")
            .ok()
            .filter(|seen| seen.0 == 200)
    };
    ensure(wait_for(PATIENCE, tells).is_some(), || {
        format!("{:?}", agent.get("/health/writer"))
    })?;
    let took = clients.await_more(ROWS, PATIENCE)?;
    eprintln!("{ROWS} rows in {took:?} after a transfer");
    Ok(next)
}

fn survivor_tells_what_is_left(group: &mut MysqlGroup, writer: usize) -> Outcome {
    let [survivor, other] = others(writer);
    let not_lost = group.synod(survivor, &["recover", "--plan"])?;
    ensure(not_lost.status.code() == Some(REFUSED), || {
        String::from_utf8_lossy(&not_lost.stdout).into_owned()
    })?;
    for server in [writer, other] {
        group.servers[server].end("-KILL")?;
    }
    let waits = || {
        let ran = group.synod(survivor, &["status", "--check"]).ok()?;
        (ran.status.code() == Some(6)).then_some(())
    };
    ensure(wait_for(PATIENCE, waits).is_some(), || {
        "a server without a majority says that it commits".to_owned()
    })?;
    let plan = || group.synod_says(survivor, &["recover", "--plan"]).ok();
    let plan = wait_for(PATIENCE, plan).unwrap_or_default();
    eprintln!("{plan}");
    for server in 0..3 {
        ensure_says(&plan, &format!("db{}", server + 1))?;
    }
    for server in [writer, other] {
        group.servers[server].start(&[])?;
    }
    group.await_whole().map(|_| ())
}

/// Two servers and a logger: either server may fail, and the logger keeps the majority.
#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn logger_keeps_the_majority_of_two_servers() -> Outcome {
    let (mut group, mut logger) = MysqlGroup::with_logger("witness", WITNESS_PORT)?;
    let (writer, clients) = under_load(&group)?;
    let members = group.synod_says(writer, &["member", "list"])?;
    ensure_says(&members, "witness")?;
    group.servers[writer].end("-KILL")?;
    let (next, took) = group.await_writer(&[1 - writer])?;
    eprintln!("the writer of two was killed: the other one is it after {took:?}");
    clients.await_more(ROWS, PATIENCE)?;
    group.servers[writer].start(&[])?;
    group.await_state(writer, "replica")?;
    logger.kill()?;
    clients.await_more(ROWS, PATIENCE)?;
    logger.join()?;
    group.servers[writer].end("-KILL")?;
    clients.await_more(ROWS, PATIENCE)?;
    group.servers[writer].start(&[])?;
    group.await_whole()?;
    ensure(
        group.status(next, "state").as_deref() == Some("writer"),
        || "the writer has changed without need".to_owned(),
    )?;
    clients.finish().check(&group)
}

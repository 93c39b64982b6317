//! Agents beside real servers: what load balancers and Prometheus are told while a member is
//! killed and comes back.

use std::time::Duration;

use synod_e2e::agent_process::AgentProcess as Agent;
use synod_e2e::{Outcome, Shared, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("agent", 25806);

const PATIENCE: Duration = Duration::from_secs(60);

/// The value of a metric, written as on the page: with its labels.
fn metric(agent: &Agent, sample: &str) -> Outcome<Option<f64>> {
    let (_, page) = agent.get("/metrics")?;
    let values = page.lines().filter_map(|line| line.rsplit_once(' '));
    let mut values = values.filter(|(name, _)| *name == sample);
    Ok(values.next().and_then(|(_, value)| value.parse().ok()))
}

/// Waits until an agent answers like this.
fn await_answer(agent: &Agent, path: &str, wanted: impl Fn(u16, &str) -> bool) -> Outcome {
    let is_so = || {
        let (code, body) = agent.get(path).ok()?;
        wanted(code, &body).then_some(())
    };
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("{path} answers {:?}", agent.get(path))
    })
}

fn agents_of(cluster: &TestCluster) -> Outcome<Vec<Agent>> {
    [1, 2, 3]
        .into_iter()
        .map(|node| Agent::start(cluster, node, &[]))
        .collect()
}

const FIT_ALL: [&str; 4] = [
    "/health/live",
    "/health/primary",
    "/health/reader?max_lag_ms=60000",
    "/clustercheck",
];

/// All are healthy, and one of them, at this position, is the writer.
fn await_healthy(agents: &[Agent]) -> Outcome<usize> {
    for agent in agents {
        for path in FIT_ALL {
            await_answer(agent, path, |code, _| code == 200)?;
        }
    }
    let writer = || {
        let codes = agents.iter().map(|agent| agent.get("/health/writer"));
        let codes: Vec<u16> = codes
            .map(|a| a.map(|(code, _)| code))
            .collect::<Result<_, _>>()
            .ok()?;
        let mut writers = (0..codes.len()).filter(|at| codes[*at] == 200);
        writers.next().filter(|_| writers.next().is_none())
    };
    wait_for(PATIENCE, writer)
        .ok_or("there is none, or more")
        .why("the writer")
}

#[test]
fn agents_follow_a_member_that_is_killed_and_comes_back() {
    CLUSTER.scenario("agents while a member is killed", |cluster| {
        let agents = agents_of(cluster)?;
        let writer = await_healthy(&agents)?;
        let leader = cluster.leader();
        ensure(writer + 1 == usize::from(leader), || {
            format!("node {} is the writer, node {leader} leads", writer + 1)
        })?;
        let synced = agents[0].get("/clustercheck")?.1;
        ensure(synced == "Galera cluster node is synced.\r\n", || {
            synced.clone()
        })?;

        cluster.kill(leader).why("kill")?;
        for path in [
            "/health/live",
            "/health/primary",
            "/health/writer",
            "/health/reader",
        ] {
            let tells = |code, body: &str| code == 503 && body.contains("has ended");
            await_answer(&agents[writer], path, tells)?;
        }
        let unsynced = "Galera cluster node is not synced.\r\n";
        await_answer(&agents[writer], "/clustercheck", |code, body| {
            code == 503 && body == unsynced
        })?;
        await_answer(&agents[writer], "/metrics", |code, body| {
            code == 200 && body.contains("\nsynod_up 0\n") && !body.contains("synod_ready")
        })?;
        let survivors: Vec<&Agent> = agents
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != writer)
            .map(|(_, a)| a)
            .collect();
        let new_writer = || {
            survivors
                .iter()
                .find(|a| a.get("/health/writer").is_ok_and(|a| a.0 == 200))
        };
        ensure(
            wait_for(PATIENCE, || new_writer().map(|_| ())).is_some(),
            || "no other server became the writer".into(),
        )?;

        // The last one alive lives, but has no majority.
        let other = cluster.others(leader)[0];
        cluster.kill(other).why("kill")?;
        let last = usize::from(cluster.others(leader)[1]) - 1;
        for path in [
            "/health/primary",
            "/health/writer",
            "/health/reader",
            "/clustercheck",
        ] {
            await_answer(&agents[last], path, |code, _| code == 503)?;
        }
        await_answer(&agents[last], "/health/live", |code, _| code == 200)?;

        cluster.up(&|_, _| ()).why("starting again")?;
        await_healthy(&agents).map(|_| ())
    });
}

#[test]
fn metrics_are_those_of_the_group() {
    CLUSTER.scenario("metrics of a real group", |cluster| {
        let agents = agents_of(cluster)?;
        let writer = await_healthy(&agents)?;
        cluster.execute(
            1,
            "CREATE TABLE IF NOT EXISTS e2e_data.measured (id SERIAL)",
        )?;
        for _ in 0..10 {
            cluster.execute(1, "INSERT INTO e2e_data.measured () VALUES ()")?;
        }
        for (at, agent) in agents.iter().enumerate() {
            let leads = f64::from(u8::from(at == writer));
            for (sample, value) in [
                ("synod_up", 1.0),
                ("synod_ready", 1.0),
                ("synod_primary", 1.0),
                ("synod_state{state=\"Synced\"}", 1.0),
                ("synod_cluster_size", 3.0),
                ("synod_members{kind=\"database\"}", 3.0),
                ("synod_members{kind=\"logger\"}", 0.0),
                ("synod_members_present{kind=\"database\"}", 3.0),
                ("synod_voters", 3.0),
                ("synod_failures_tolerated", 1.0),
                ("synod_role{role=\"leader\"}", leads),
                ("synod_role{role=\"follower\"}", 1.0 - leads),
            ] {
                let shown = || metric(agent, sample).ok().flatten();
                let is_so = || (shown() == Some(value)).then_some(());
                ensure(wait_for(PATIENCE, is_so).is_some(), || {
                    format!("node {}: {sample} is {:?}, not {value}", at + 1, shown())
                })?;
            }
        }
        // An answer may be a tenth of a second old.
        let shown = |sample| metric(&agents[0], sample).ok().flatten();
        let commits = || shown("synod_local_commits_total").filter(|count| *count >= 10.0);
        ensure(wait_for(PATIENCE, commits).is_some(), || {
            format!("commits: {:?}", shown("synod_local_commits_total"))
        })?;
        for (times, number) in [
            (
                "synod_commit_seconds_sum",
                "synod_commit_seconds_bucket{le=\"+Inf\"}",
            ),
            (
                "synod_commit_step_seconds_sum{step=\"order\"}",
                "synod_commit_step_seconds_count{step=\"order\"}",
            ),
        ] {
            let (sum, count) = (shown(times), shown(number));
            let mean = sum.zip(count).map(|(sum, count)| sum / count);
            let is_so = mean.is_some_and(|mean| mean > 0.0 && mean < 60.0);
            ensure(is_so && count.is_some_and(|count| count >= 10.0), || {
                format!("{times} is {sum:?}, {number} is {count:?}")
            })?;
        }
        Ok(())
    });
}

//! Agents that keep `read_only` beside real servers: what proxies that know Galera only look at.

use std::fs;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::agent_process::AgentProcess as Agent;
use synod_e2e::programs::lead;
use synod_e2e::{Outcome, Shared, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("read-only", 26406);

const ALL: [u8; 3] = [1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(60);
const MORE: u64 = 50;
/// The account of the page, and one of an application, which `read_only` binds.
const ACCOUNTS: [&str; 4] = [
    "CREATE OR REPLACE USER agent@localhost IDENTIFIED BY 'of the agent'",
    "GRANT READ ONLY ADMIN, CONNECTION ADMIN, PROCESS ON *.* TO agent@localhost",
    "CREATE OR REPLACE USER shop@'127.0.0.1' IDENTIFIED BY 'of the shop'",
    "GRANT SELECT, INSERT ON e2e_data.* TO shop@'127.0.0.1'",
];

fn start_agent(cluster: &TestCluster, node: u8) -> Outcome<Agent> {
    let files = cluster.files(node);
    let account = files.root.join("agent.cnf");
    let socket = files.socket.display();
    let text = format!("[client]\nuser=agent\npassword='of the agent'\nsocket={socket}\n");
    fs::write(&account, text).why("the account's file")?;
    let account = account.display().to_string();
    let arguments = [
        "--manage-read-only",
        "--account-file",
        &account,
        "--end-sessions",
    ];
    Agent::start(cluster, node, &arguments)
}

fn shop(cluster: &TestCluster, node: u8) -> Outcome<Conn> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(cluster.port(node))
        .user(Some("shop"))
        .pass(Some("of the shop"));
    Conn::new(options).why("the shop's session")
}

/// Waits until exactly these servers are not read-only.
fn await_writable(cluster: &TestCluster, of: &[u8], wanted: &[u8]) -> Outcome {
    let writable = || -> Vec<u8> {
        let is_off = |node: &u8| {
            let rows = cluster.rows(*node, "SELECT @@GLOBAL.read_only");
            rows.is_ok_and(|rows| rows == ["0"])
        };
        of.iter().copied().filter(is_off).collect()
    };
    let so = wait_for(PATIENCE, || (writable() == wanted).then_some(()));
    ensure(so.is_some(), || {
        format!("not read-only: {:?} instead of {wanted:?}", writable())
    })
}

#[test]
fn read_only_is_off_at_the_writer_alone_and_its_former_sessions_end() {
    CLUSTER.scenario("read_only by the role", |cluster| {
        for sql in ACCOUNTS {
            cluster.execute(1, sql)?;
        }
        let agents: Outcome<Vec<Agent>> = ALL
            .map(|node| start_agent(cluster, node))
            .into_iter()
            .collect();
        let agents = agents?;
        cluster.execute(
            1,
            "SET GLOBAL wsrep_provider_options = 'synod.writers=leader'",
        )?;
        let (first, second) = (cluster.leader(), cluster.follower());
        await_writable(cluster, &ALL, &[first])?;

        // Writers that `read_only` does not bind keep the old and the new one busy.
        let writers = Writers::start(cluster, "by_role", &ALL, 2)?;
        writers.await_more(MORE, PATIENCE)?;
        let mut session = shop(cluster, first)?;
        session.query_drop("SELECT 1").why("the session before")?;
        lead(cluster, second)?;
        await_writable(cluster, &ALL, &[second])?;
        let ended = wait_for(PATIENCE, || {
            session.query_drop("SELECT 1").is_err().then_some(())
        });
        ensure(ended.is_some(), || {
            "the session at the former writer is still there".to_owned()
        })?;
        shop(cluster, second)?
            .query_drop("SELECT 1")
            .why("a session at the new writer")?;
        writers.await_more(MORE, PATIENCE)?;

        // A writer that is killed comes back as one that is not.
        cluster.kill(second).why("kill")?;
        let others = cluster.others(second);
        let third = wait_for(PATIENCE, || {
            let takes = |node: &&u8| {
                cluster
                    .synod_status(**node, "takes_writes")
                    .is_ok_and(|t| t == "1")
            };
            others.iter().find(takes).copied()
        });
        let third = third.ok_or("none takes writes").why("after the kill")?;
        await_writable(cluster, &others, &[third])?;
        cluster.start(second, &|_, _| ()).why("start")?;
        await_writable(cluster, &ALL, &[third])?;
        writers.finish().check_rows(cluster, &ALL)?;

        // A person changes it; then all write again.
        let other = cluster.others(third)[0];
        cluster.execute(other, "SET GLOBAL read_only = OFF")?;
        await_writable(cluster, &ALL, &[third])?;
        cluster.execute(1, "SET GLOBAL wsrep_provider_options = 'synod.writers=any'")?;
        await_writable(cluster, &ALL, &ALL)?;
        drop(agents);
        agreement::check(cluster, &ALL)
    });
}

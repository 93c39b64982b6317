//! Read-your-writes with `wsrep_sync_wait=1` while one leader after the other stands still.
//!
//! A leader is stopped by `SIGSTOP` for longer than an election, as a paused virtual machine is.
//! The others elect a new one and acknowledge writes. Reads that reach the old leader meanwhile
//! are what it finds first when it continues, and it does not know yet that it leads no more: its
//! answers must not lack those writes. The same clients without `wsrep_sync_wait` are counted
//! beside, and must have been seen stale: otherwise this test could not see a stale read at all.

use std::sync::Barrier;
use std::time::Duration;

use synod_e2e::programs::signal;
use synod_e2e::read_your_writes::{Clients, Reader, Reading};
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 32306;
const ALL: [u8; 3] = [1, 2, 3];
/// Number of leaders that stand still, one after the other.
const LEADERS: u8 = 4;
/// Longer than an election.
const ABSENCE: Duration = Duration::from_secs(5);
/// Rows that the others acknowledge before and while a leader stands still.
const ROWS: u64 = 20;
/// Readers of each node that read all the time, of each way to read.
const READERS: u8 = 2;
/// Reads, of each way, that a leader finds when it continues.
const LATE: u8 = 8;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn causal_reads_show_what_was_acknowledged_though_leaders_stand_still() -> Outcome {
    let mut cluster = TestCluster::fresh("causal-reads", BASE_PORT)?;
    let clients = Clients::start(&cluster, "causal_reads", READERS)?;
    for _ in 0..LEADERS {
        await_rows(&clients)?;
        pause_leader(&cluster, &clients)?;
        cluster.await_synced(&ALL, &|_, _| ()).why("synced")?;
    }
    await_rows(&clients)?;
    let rows = clients.acknowledged();
    let (causal, plain) = clients.finish();
    eprintln!("  {LEADERS} leaders stood still for {ABSENCE:?} each; writers reached {rows}");
    eprintln!("  wsrep_sync_wait=1: {causal}");
    eprintln!("  wsrep_sync_wait=0: {plain}");
    ensure(causal.stale == 0, || {
        format!(
            "stale causal reads: {causal}; {:?}\n{}",
            causal.example,
            cluster.describe()
        )
    })?;
    ensure(causal.answered > 0, || {
        format!("no causal read was answered: {causal}")
    })?;
    ensure(plain.stale > 0, || {
        format!("this test sees no stale reads: {plain}")
    })?;
    agreement::check(&cluster, &ALL)
}

/// Stops the leader until the others have elected one and acknowledged rows, and lets it find
/// reads when it continues.
fn pause_leader(cluster: &TestCluster, clients: &Clients) -> Outcome {
    let leader = await_leader(cluster, &ALL)?;
    let late = late_readers(cluster, clients, leader)?;
    signal(cluster, leader, "-STOP")?;
    // This tests the time: what the leader knew when it stopped is old when it continues.
    std::thread::sleep(ABSENCE);
    let elected = await_leader(cluster, &cluster.others(leader));
    let written = elected.and_then(|next| await_rows(clients).map(|()| next));
    // Whatever happened, no server stays behind that stands still.
    continue_with(cluster, leader, late)?;
    eprintln!("  node{leader} stood still, node{} led", written?);
    Ok(())
}

/// Connected readers of a node, of both ways to read.
fn late_readers(cluster: &TestCluster, clients: &Clients, node: u8) -> Outcome<Vec<Reader>> {
    let ways = [Reading::Causal, Reading::Plain];
    let all = (0..LATE).flat_map(|_| ways);
    all.map(|reading| clients.reader(cluster, node, reading))
        .collect()
}

/// Continues a node right when the late readers send their reads.
fn continue_with(cluster: &TestCluster, node: u8, late: Vec<Reader>) -> Outcome {
    let noted = Barrier::new(late.len() + 1);
    std::thread::scope(|scope| {
        for reader in late {
            scope.spawn(|| {
                reader.read(|| {
                    noted.wait();
                });
            });
        }
        noted.wait();
        signal(cluster, node, "-CONT")
    })
}

/// Waits until one of these nodes leads. Of two that say so, the one of the later term.
fn await_leader(cluster: &TestCluster, nodes: &[u8]) -> Outcome<u8> {
    let leader = wait_for(PATIENCE, || {
        let status = nodes.iter().map(|node| (*node, cluster.node_status(*node)));
        let leaders = status.filter(|(_, status)| status.role.as_deref() == Some("leader"));
        Some(leaders.max_by_key(|(_, status)| status.term)?.0)
    });
    leader.ok_or_else(|| Failure(format!("none of the nodes {nodes:?} leads")))
}

/// Waits until clients got answers to [`ROWS`] more rows.
fn await_rows(clients: &Clients) -> Outcome {
    let goal = clients.acknowledged() + ROWS;
    let reached = wait_for(PATIENCE, || (clients.acknowledged() >= goal).then_some(()));
    reached.ok_or_else(|| Failure("nothing is acknowledged".into()))
}

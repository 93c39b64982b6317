//! Commits in two regions: two servers in one, and a third in another one. What is acknowledged
//! outlives the first region; commits wait for the second one, or for a time only.

use std::time::Duration;

use synod_e2e::acknowledged_writes::Writers;
use synod_e2e::{Outcome, TestCluster, Why, ensure};
use synod_local_cluster::wait_for;

const BASE_PORT: u16 = 29506;
const NEAR: [u8; 2] = [1, 2];
const FAR: u8 = 3;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Commits that show that a group serves.
const SOME: u64 = 200;
/// In which nothing may be acknowledged.
const WAIT: Duration = Duration::from_secs(3);

fn set(cluster: &TestCluster, node: u8, option: &str) -> Outcome {
    let sql = format!("SET GLOBAL wsrep_provider_options = '{option}'");
    cluster.execute(node, &sql)
}

/// Waits until the leader, which is in the near region, says this of the regions, or nothing.
fn await_trouble(cluster: &TestCluster, text: &str) -> Outcome {
    let mut shown = String::new();
    let said = wait_for(PATIENCE, || {
        shown = cluster
            .synod_status(cluster.leader(), "commit_regions_trouble")
            .ok()?;
        (shown.contains(text) && shown.is_empty() == text.is_empty()).then_some(())
    });
    ensure(said.is_some(), || {
        format!("no '{text}' in wsrep_synod_commit_regions_trouble: '{shown}'")
    })
}

#[test]
fn acknowledged_commits_outlive_their_region_and_wait_for_the_other_one() -> Outcome {
    let mut cluster = TestCluster::empty("regions", BASE_PORT, 3)?;
    for node in cluster.nodes() {
        let (region, weight) = if node == FAR {
            ("far", 0)
        } else {
            ("near", 50)
        };
        let options = format!("synod.region={region};synod.leader_weight={weight}");
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(options);
    }
    "synod.commit_regions=2".clone_into(&mut cluster.settings_mut().provider_options);
    cluster.up(&|_, _| ()).why("starting the cluster")?;
    cluster.create_account()?;
    let outcome = lose_regions(&mut cluster);
    if outcome.is_err() {
        eprintln!("{}", cluster.describe());
    }
    outcome
}

fn lose_regions(cluster: &mut TestCluster) -> Outcome {
    // Alone, the first server had no other region.
    cluster.await_line(1, "the voters are in 1: node1 (region near)")?;
    for node in cluster.nodes() {
        let regions = cluster.synod_status(node, "commit_regions")?;
        ensure(regions == "2", || format!("node{node}: '{regions}'"))?;
    }
    await_trouble(cluster, "")?;
    let writers = Writers::start(cluster, "regions", &NEAR, 2)?;
    writers.await_more(SOME, PATIENCE)?;

    wait_for_the_far_region(cluster, &writers)?;
    continue_without_the_far_region(cluster, &writers)?;

    // The near region is lost, and the far one has all that it has acknowledged.
    for node in NEAR {
        cluster.kill(node).why("killing the near region")?;
    }
    let report = writers.finish();
    let lost = wait_for(PATIENCE, || {
        let leader = cluster.synod_status(FAR, "leader").ok()?;
        leader.is_empty().then_some(())
    });
    ensure(lost.is_some(), || "the leader is not missed".to_owned())?;
    set(cluster, FAR, "pc.bootstrap=yes")?;
    cluster
        .await_synced(&[FAR], &|_, _| ())
        .why("continuing in the far region")?;
    eprintln!("  {} acknowledged", report.acknowledged_count());
    report.check_rows(cluster, &[FAR])?;
    cluster.kill_all().why("ending the cluster")
}

fn wait_for_the_far_region(cluster: &mut TestCluster, writers: &Writers) -> Outcome {
    cluster.kill(FAR).why("killing the far server")?;
    await_trouble(cluster, "commits wait for a voter's disk in 2 regions")?;
    let acknowledged = || NEAR.map(|node| writers.acknowledged_by(node));
    let before = acknowledged();
    std::thread::sleep(WAIT);
    let after = acknowledged();
    ensure(before == after, || {
        format!("{before:?} and then {after:?} acknowledged in one region")
    })?;
    let shown = cluster.synod_status(cluster.leader(), "commit_regions_trouble")?;
    eprintln!("  {shown}");
    ensure(shown.contains("node3 (region far)"), || shown)?;
    come_back(cluster, writers)
}

fn continue_without_the_far_region(cluster: &mut TestCluster, writers: &Writers) -> Outcome {
    for node in NEAR {
        set(cluster, node, "synod.commit_regions_timeout=PT2S")?;
    }
    cluster.kill(FAR).why("killing the far server")?;
    await_trouble(cluster, "commits do not wait for 2 regions any more")?;
    writers.await_more(SOME, PATIENCE)?;
    for node in NEAR {
        set(cluster, node, "synod.commit_regions_timeout=PT0S")?;
    }
    come_back(cluster, writers)
}

fn come_back(cluster: &mut TestCluster, writers: &Writers) -> Outcome {
    cluster.spawn(FAR, false).why("starting the far server")?;
    cluster
        .await_synced(&[FAR], &|_, _| ())
        .why("waiting for the far server")?;
    await_trouble(cluster, "")?;
    writers.await_more(SOME, PATIENCE)
}

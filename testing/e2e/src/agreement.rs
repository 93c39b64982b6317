//! A check that all nodes hold the same tables, definitions and accounts, at one position.
//!
//! No node may commit while checksums are taken: the positions before and after must be equal.

use std::time::Duration;

use synod_local_cluster::wait_for;

use crate::failure::{Failure, Outcome, ensure};
use crate::harness::TestCluster;

/// Longest time until nodes are at one position; appliers may have a queue when the load ends.
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);
/// Schemas of the server itself.
const SYSTEM: &str = "'mysql','information_schema','performance_schema','sys'";

/// Checks tables, definitions and accounts of these nodes against the first of them.
///
/// # Errors
/// Naming what differs, or when the nodes do not come to rest at the same position.
pub fn check(cluster: &TestCluster, nodes: &[u8]) -> Outcome {
    let Some((first, rest)) = nodes.split_first() else {
        return Ok(());
    };
    let mut last = Err(Failure("not tried".into()));
    wait_for(QUIET_TIMEOUT, || {
        last = snapshots(cluster, nodes);
        last.is_ok().then_some(())
    });
    let all = last?;
    for (node, snapshot) in rest.iter().zip(&all[1..]) {
        compare(*first, &all[0], *node, snapshot)?;
    }
    Ok(())
}

/// Everything compared, as sorted lines.
type Snapshot = Vec<String>;

fn snapshots(cluster: &TestCluster, nodes: &[u8]) -> Outcome<Vec<Snapshot>> {
    let before = positions(cluster, nodes);
    ensure(
        before
            .windows(2)
            .all(|pair| pair[0] == pair[1] && pair[0].is_some()),
        || format!("nodes {nodes:?} do not reach the same position: {before:?}"),
    )?;
    let all = nodes
        .iter()
        .map(|node| snapshot(cluster, *node))
        .collect::<Outcome<Vec<_>>>()?;
    let after = positions(cluster, nodes);
    ensure(before == after, || {
        format!("nodes {nodes:?} do not come to rest at {after:?}")
    })?;
    Ok(all)
}

fn positions(cluster: &TestCluster, nodes: &[u8]) -> Vec<Option<i64>> {
    nodes
        .iter()
        .map(|node| cluster.node_status(*node).last_committed)
        .collect()
}

fn snapshot(cluster: &TestCluster, node: u8) -> Outcome<Snapshot> {
    let mut lines = checksums(cluster, node)?;
    for sql in [
        format!(
            "SELECT 'column', table_schema, table_name, column_name, ordinal_position,
               column_type, is_nullable, column_default, extra
             FROM information_schema.columns WHERE table_schema NOT IN ({SYSTEM})"
        ),
        format!(
            "SELECT 'index', table_schema, table_name, index_name, seq_in_index, column_name,
               non_unique
             FROM information_schema.statistics WHERE table_schema NOT IN ({SYSTEM})"
        ),
        "SELECT 'foreign key', constraint_schema, table_name, constraint_name,
           referenced_table_name, delete_rule FROM information_schema.referential_constraints"
            .to_owned(),
        "SELECT 'account', host, user, priv FROM mysql.global_priv".to_owned(),
        "SELECT 'grant', host, db, user, select_priv, insert_priv, drop_priv FROM mysql.db"
            .to_owned(),
    ] {
        lines.extend(cluster.rows(node, &sql)?);
    }
    lines.sort_unstable();
    Ok(lines)
}

fn checksums(cluster: &TestCluster, node: u8) -> Outcome<Vec<String>> {
    let tables = cluster.rows(
        node,
        &format!(
            "SELECT CONCAT('`', table_schema, '`.`', table_name, '`')
             FROM information_schema.tables
             WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({SYSTEM}) ORDER BY 1"
        ),
    )?;
    if tables.is_empty() {
        return Ok(tables);
    }
    cluster.rows(node, &format!("CHECKSUM TABLE {}", tables.join(", ")))
}

fn compare(one: u8, left: &Snapshot, two: u8, right: &Snapshot) -> Outcome {
    let only = |a: &Snapshot, b: &Snapshot| -> Vec<String> {
        a.iter()
            .filter(|line| b.binary_search(line).is_err())
            .take(5)
            .cloned()
            .collect()
    };
    ensure(left == right, || {
        format!(
            "node{one} and node{two} differ:\n only on node{one}: {:#?}\n only on node{two}: {:#?}",
            only(left, right),
            only(right, left)
        )
    })
}

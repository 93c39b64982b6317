//! The lab measures MySQL's own replication, also after its servers were stopped and started.

use std::process::Command;

use serde_json::Value;
use synod_e2e::mysql_server::installed;
use synod_e2e::{Outcome, Why, ensure, place};

/// Each has two turns: it is stopped for the others', and comes back.
const SYSTEMS: [&str; 5] = [
    "mgr",
    "mgr-after",
    "mgr-single-leader-tls",
    "mysql-semisync",
    "mysql-semisync-tls",
];

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-upstream runs it"]
fn lab_measures_the_replication_of_mysql() -> Outcome {
    let results = place::cluster_dir("lab-mysql")?.with_extension("json");
    let mut lab = Command::new(place::lab()?);
    lab.args(["--name", "e2emysql", "bench", "--mysql"]);
    lab.arg(installed()?);
    lab.args(["--system", &SYSTEMS.join(","), "--repeat", "2"]);
    lab.args(["--threads", "2", "--seconds", "2", "--warm-up", "0"]);
    lab.args(["--tables", "1", "--table-rows", "100", "--json"]);
    let output = lab.arg(&results).output().why("starting synod-lab")?;
    ensure(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let text = std::fs::read(&results).why("reading the results")?;
    let results: Value = serde_json::from_slice(&text).why("the results")?;
    let version = results["versions"]["mysqld"].as_str().unwrap_or_default();
    ensure(version.contains("Ver "), || {
        format!("no version: {version}")
    })?;
    let measured = results["measurements"].as_array();
    let measured = measured.map(Vec::as_slice).unwrap_or_default();
    let committed = |measurement: &&Value| measurement["transactions"].as_u64() > Some(0);
    let count = measured.iter().filter(committed).count();
    ensure(count == 2 * SYSTEMS.len(), || {
        format!("{count} measurements have transactions: {measured:?}")
    })
}

//! Prometheus watches a group: its own tool accepts the agent's page, the alert rules and the
//! queries of the dashboard for Grafana, and a server that is killed raises the alerts.
//!
//! Needs the package `prometheus`.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use synod_e2e::agent_process::AgentProcess;
use synod_e2e::prometheus::{ask_prometheus, packaged_rules, promtool, start_prometheus};
use synod_e2e::{Outcome, Shared, Why, ensure, place};
use synod_local_cluster::wait_for;

static CLUSTER: Shared = Shared::new("prometheus", 30706);

const PATIENCE: Duration = Duration::from_secs(60);
const PROMETHEUS_PORT: u16 = 30790;

#[test]
fn alert_rules_pass_their_tests() -> Outcome {
    promtool(&["check", "rules", "synod.rules.yml"], "")?;
    promtool(&["test", "rules", "synod.rules.test.yml"], "")?;
    let read = |file| fs::read_to_string(packaged_rules().join(file)).why(file);
    let (rules, tests) = (read("synod.rules.yml")?, read("synod.rules.test.yml")?);
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() >= 10, "{alerts:?}");
    for alert in alerts {
        let fires = format!("alertname=\"{alert}\"");
        assert!(tests.contains(&fires), "no test in which {alert} fires");
    }
    Ok(())
}

/// Checks the query of each panel as a recording rule, with a value for Grafana's variables.
#[test]
fn queries_of_the_dashboard_are_queries() -> Outcome {
    let file = place::workspace().join("packaging/grafana/synod.json");
    let dashboard = fs::read_to_string(file).why("the dashboard")?;
    let dashboard: Value = serde_json::from_str(&dashboard).why("the dashboard")?;
    let mut queries = BTreeSet::new();
    find_queries(&dashboard, &mut queries);
    assert!(queries.len() >= 20, "{queries:?}");
    let rules: Vec<Value> = (queries.iter().enumerate())
        .map(|(number, query)| {
            let query = query.replace("$__rate_interval", "1m");
            serde_json::json!({"record": format!("query:{number}"), "expr": query})
        })
        .collect();
    // JSON is YAML, too.
    let rules = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let dir = place::cluster_dir("prometheus-queries")?;
    fs::create_dir_all(&dir).why("a directory")?;
    let file = dir.join("queries.yml");
    fs::write(&file, rules.to_string()).why("the queries")?;
    promtool(&["check", "rules", &file.display().to_string()], "")
}

/// Every value of a key `expr`, at any depth.
fn find_queries(value: &Value, queries: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field {
                    Value::String(query) if key == "expr" => {
                        queries.insert(query.clone());
                    }
                    other => find_queries(other, queries),
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                find_queries(value, queries);
            }
        }
        _ => {}
    }
}

#[test]
fn killed_server_raises_the_alerts() {
    CLUSTER.scenario("Prometheus with the packaged rules", |cluster| {
        cluster.execute(1, "CREATE TABLE e2e_data.scraped (id SERIAL)")?;
        cluster.execute(1, "INSERT INTO e2e_data.scraped () VALUES ()")?;
        let agents = [1, 2, 3].map(|node| AgentProcess::start(cluster, node, &[]));
        let agents = agents.into_iter().collect::<Outcome<Vec<_>>>()?;
        for agent in &agents {
            let (code, page) = agent.get("/metrics")?;
            ensure(code == 200, || format!("{code} {page}"))?;
            promtool(&["check", "metrics"], &page)?;
        }
        let dir = place::cluster_dir("prometheus-files")?;
        let _prometheus = start_prometheus(&dir, PROMETHEUS_PORT, &agents)?;
        await_count("synod_up%20==%201", 3)?;
        // The steps of commits, as the leader has them all.
        await_count("count%20by%20(step)(synod_commit_step_seconds_bucket)", 13)?;
        await_alerts(&[])?;

        cluster.kill(3).why("kill")?;
        await_alerts(&[
            "SynodMemberAbsent",
            "SynodNoFailureTolerated",
            "SynodServerDown",
        ])?;

        cluster.up(&|_, _| ()).why("starting again")?;
        await_alerts(&[])
    });
}

/// Waits until a query has so many results.
fn await_count(query: &str, wanted: usize) -> Outcome {
    let count = || {
        let answer = ask_prometheus(PROMETHEUS_PORT, &format!("query?query={query}"));
        answer.ok()?["result"].as_array().map(Vec::len)
    };
    let is_so = || (count() == Some(wanted)).then_some(());
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("{query} has {:?} results, not {wanted}", count())
    })
}

/// Waits until just these alerts are pending or firing.
fn await_alerts(wanted: &[&str]) -> Outcome {
    let names = || -> Option<BTreeSet<String>> {
        let answer = ask_prometheus(PROMETHEUS_PORT, "alerts").ok()?;
        let alerts = answer["alerts"].as_array()?;
        let name = |alert: &Value| alert["labels"]["alertname"].as_str().map(str::to_owned);
        alerts.iter().map(name).collect()
    };
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    let is_so = || (names().as_ref() == Some(&wanted)).then_some(());
    ensure(wait_for(PATIENCE, is_so).is_some(), || {
        format!("the alerts are {:?}, not {wanted:?}", names())
    })
}

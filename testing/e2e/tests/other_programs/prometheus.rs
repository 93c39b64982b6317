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
        if OF_ONE_KIND.contains(&alert) || alert.starts_with("SynodRelay") {
            continue;
        }
        for kind in ["logger", "relay"] {
            let beside = format!("{fires},instance=\"{kind}1\"");
            assert!(tests.contains(&beside), "{alert} fires beside no {kind}");
        }
    }
    for alert in ["SynodMemberAbsent", "SynodClocksDiffer"] {
        for member in ["db2", "logger", "relay"] {
            let about = |line: &str| {
                line.contains(&format!("\"{alert}\""))
                    && line.contains(&format!("member=\"{member}"))
            };
            assert!(tests.lines().any(about), "{alert} is about no {member}");
        }
    }
    Ok(())
}

/// Alerts about what a member without a database does not have.
const OF_ONE_KIND: [&str; 6] = [
    "SynodNotReady",
    "SynodInconsistent",
    "SynodLag",
    "SynodQuorumSlow",
    "SynodConflicts",
    "SynodWritesAtOtherServer",
];

/// Each test of the packaged file, once more with each kind of member, all of them there or one
/// absent: an alert is about its own cause only. Tests about absent members are not varied.
#[test]
fn alerts_do_not_depend_on_the_kinds_of_the_members() -> Outcome {
    let file = packaged_rules().join("synod.rules.test.yml");
    let file = fs::read_to_string(file).why("the tests of the rules")?;
    let (head, tests) = file.split_once(TEST).ok_or("no test").why("the tests")?;
    let rules = packaged_rules().join("synod.rules.yml");
    let mut varied = head.replace("synod.rules.yml", &rules.display().to_string());
    let is_varied = |test: &&str| !test.contains("synod_member_present");
    let tests: Vec<&str> = tests.split(TEST).filter(is_varied).collect();
    assert!(tests.len() >= 20, "{tests:?}");
    for test in tests {
        for absent in ["no member", "db2", "logger1", "relay1"] {
            varied += &with_members(test, absent)?;
        }
    }
    let dir = place::cluster_dir("prometheus-members")?;
    fs::create_dir_all(&dir).why("a directory")?;
    let file = dir.join("members.test.yml");
    fs::write(&file, varied).why("the tests")?;
    promtool(&["test", "rules", &file.display().to_string()], "")
}

/// Begin of each test in the packaged file.
const TEST: &str = "  - name: ";
/// The metrics about the members of two databases, a logger with a vote and a relay without one:
/// name, other labels, the member that it is about.
const MEMBERS: [(&str, &str, &str); 8] = [
    ("synod_member_present", ",member=\"db1\"", "db1"),
    ("synod_member_present", ",member=\"db2\"", "db2"),
    ("synod_member_present", ",member=\"logger1\"", "logger1"),
    ("synod_member_present", ",member=\"relay1\"", "relay1"),
    ("synod_voters", "", ""),
    ("synod_voters_present", "", ""),
    ("synod_failures_tolerated", "", ""),
    ("synod_primary", "", ""),
];
/// The alerts that are about absent members.
const ABOUT_ABSENCE: &str = "SynodMemberAbsent|SynodNoFailureTolerated";

/// A test with these metrics as well, if one member is absent.
fn with_members(test: &str, absent: &str) -> Outcome<String> {
    let is_about_absence = |line: &&str| ABOUT_ABSENCE.split('|').any(|alert| line.contains(alert));
    let lines = test.lines().filter(|line| !is_about_absence(line));
    let test: String = lines.map(|line| format!("{line}\n")).collect();
    let instance = |line: &str| {
        let (_, rest) = line.split_once("{instance=\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let instances: BTreeSet<String> = test.lines().filter_map(instance).collect();
    let mut series = String::new();
    for instance in &instances {
        for (name, labels, member) in MEMBERS {
            if test.contains(&format!("{name}{{instance=\"{instance}\"")) {
                continue;
            }
            let value = match name {
                "synod_voters" => 3,
                "synod_voters_present" if matches!(absent, "db2" | "logger1") => 2,
                "synod_voters_present" => 3,
                "synod_failures_tolerated" => i32::from(!matches!(absent, "db2" | "logger1")),
                _ => i32::from(member != absent),
            };
            let labels = format!("instance=\"{instance}\"{labels}");
            series +=
                &format!("      - {{series: '{name}{{{labels}}}', values: \"{value}x100\"}}\n");
        }
    }
    let input = "    input_series:\n";
    let (name, rest) = test.split_once(input).ok_or("no series").why("a test")?;
    let firing = "alertstate=\"firing\"";
    let others = format!("{firing},alertname!~\"{ABOUT_ABSENCE}\"");
    // Not in labels of samples.
    let rest = rest.replace(&format!("{firing}}})"), &format!("{others}}})"));
    let rest = rest.replace(&format!("{firing}}}["), &format!("{others}}}["));
    Ok(format!(
        "{TEST}{absent} is absent, {name}{input}{series}{rest}"
    ))
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

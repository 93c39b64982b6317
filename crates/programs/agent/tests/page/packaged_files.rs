//! The files for Prometheus and Grafana name only metrics that a page has.

use std::collections::BTreeSet;
use std::path::Path;

use crate::parsed::{complete, page_of};
use serde_json::Value;

fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap();
    let path = root.join("packaging").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of Synod's metrics in an expression.
fn metrics_in(expression: &str) -> BTreeSet<&str> {
    let is_outside = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = expression.split(is_outside);
    words.filter(|word| word.starts_with("synod_")).collect()
}

fn assert_on_the_page(what: &str, expression: &str) {
    let page = page_of(complete());
    let used = metrics_in(expression);
    assert!(!used.is_empty(), "{what} uses no metric: {expression}");
    for name in used {
        assert!(page.names().contains(name), "{what}: no {name} on the page");
    }
    let count = |c| expression.matches(c).count();
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        assert_eq!(count(open), count(close), "{what}: {expression}");
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn alert_rules_are_about_metrics_that_exist_and_say_what_to_do() {
    let rules: Value = serde_yaml_ng::from_str(&read("prometheus/synod.rules.yml")).unwrap();
    let mut names = BTreeSet::new();
    for group in list(&rules, "groups") {
        for rule in list(group, "rules") {
            let name = text(rule, "alert");
            assert!(names.insert(name), "{name} twice");
            // An agent that is gone has no page: Prometheus knows.
            if name != "SynodAgentDown" {
                assert_on_the_page(name, text(rule, "expr"));
            }
            let severity = text(&rule["labels"], "severity");
            assert!(
                ["warning", "critical"].contains(&severity),
                "{name}: {severity}"
            );
            text(rule, "for");
            for annotation in ["summary", "description"] {
                assert!(
                    text(&rule["annotations"], annotation).ends_with('.'),
                    "{name}"
                );
            }
        }
    }
    assert!(names.len() >= 10, "{names:?}");
}

/// A logger and a relay are never ready: alone, the metric shows each of them as a fault.
#[test]
fn readiness_is_asked_of_servers_alone() {
    let files = ["prometheus/synod.rules.yml", "grafana/synod.json"].map(read);
    for file in files {
        let file: Value = serde_yaml_ng::from_str(&file).unwrap();
        let asking = expressions(&file)
            .into_iter()
            .filter(|expression| metrics_in(expression).contains("synod_ready"));
        let mut found = 0;
        for expression in asking {
            found += 1;
            let no_others = r#"unless on (instance) synod_state{state=~"logger|relay"} == 1"#;
            assert!(expression.ends_with(no_others), "{expression}");
        }
        assert_eq!(found, 1);
    }
}

/// Every value of a key `expr`, at any depth.
fn expressions(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("expr").and_then(Value::as_str).into_iter();
            own.chain(fields.values().flat_map(expressions)).collect()
        }
        Value::Array(values) => values.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn dashboard_shows_metrics_that_exist_and_its_panels_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&read("grafana/synod.json")).unwrap();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: a second id"
        );
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title} is too wide");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} lies on another panel");
            }
        }
        if text(panel, "type") != "row" {
            for target in list(panel, "targets") {
                assert_on_the_page(title, text(target, "expr"));
            }
        }
    }
    for variable in list(&dashboard["templating"], "list") {
        if text(variable, "type") == "query" {
            assert_on_the_page(text(variable, "name"), text(variable, "definition"));
        }
    }
}

//! The page for Prometheus, read by the rules of its format.

use std::sync::Arc;

use crate::parsed::{CERTIFICATE_UNTIL, Page, complete, page_of, page_with, relay};
use synod_admin::status::{Member, Status};
use synod_agent::metrics::{self, Format};

#[test]
fn page_follows_the_format_and_the_conventions_for_names() {
    let page = page_of(complete());
    for (name, kind) in &page.kinds {
        assert!(name.starts_with("synod_"), "{name}");
        let foreign = ["_ms", "_us", "_milliseconds", "_kb", "_total", "_count"];
        assert!(!foreign.iter().any(|unit| name.ends_with(unit)), "{name}");
        let has_values = page
            .names()
            .iter()
            .any(|sample| sample.starts_with(name.as_str()));
        assert!(has_values, "{name} ({kind}) has no value");
        let help = &page.helps[name];
        assert!(help.len() > 10 && !help.ends_with('.'), "{name}: {help}");
    }
    assert!(page.kinds.len() > 60, "{}", page.kinds.len());
}

/// Name, labels and value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

#[test]
fn values_are_those_of_the_status_in_base_units() {
    let page = page_of(complete());
    let own = "db \"1\"\\\n";
    let of_own = [("member", own), ("member_id", "id of db \"1\"\\\n")];
    let expected: &[Expected] = &[
        ("synod_up", &[], 1.0),
        (
            "synod_agent_certificate_expiry_timestamp_seconds",
            &[],
            CERTIFICATE_UNTIL as f64,
        ),
        ("synod_ready", &[], 1.0),
        (
            "synod_server_info",
            &[("server", own), ("version", "0.1.0")],
            1.0,
        ),
        ("synod_role", &[("role", "leader")], 1.0),
        ("synod_role", &[("role", "follower")], 0.0),
        ("synod_state", &[("state", "Synced")], 1.0),
        ("synod_state", &[("state", "Joined")], 0.0),
        ("synod_term", &[], 7.0),
        ("synod_cluster_size", &[], 2.0),
        ("synod_voters", &[], 2.0),
        ("synod_lag_seconds", &[], 1.5),
        ("synod_member_lag_seconds", &of_own, 1.5),
        ("synod_log_size_bytes", &[], 4096.0),
        ("synod_log_syncs_total", &[], 11.0),
        ("synod_flow_control_paused_seconds_total", &[], 2.5),
        ("synod_commit_seconds_count", &[], 8.0),
        ("synod_commit_seconds_sum", &[], 12.0025),
        ("synod_commit_seconds_bucket", &[("le", "+Inf")], 8.0),
        ("synod_commit_seconds_bucket", &[("le", "10.0")], 7.0),
        (
            "synod_commit_step_seconds_bucket",
            &[("le", "0.001"), ("step", "order")],
            6.0,
        ),
        (
            "synod_commit_step_seconds_sum",
            &[("step", "order")],
            0.0055,
        ),
        (
            "synod_commit_step_seconds_count",
            &[("step", "applied")],
            0.0,
        ),
        ("synod_writes_refused_total", &[], 6.0),
        ("synod_conflicts_total", &[("reason", "aborted")], 4.0),
        (
            "synod_table_conflicts_total",
            &[("table", "a.`b\\\"`")],
            2.0,
        ),
        ("synod_status_timestamp_seconds", &[], 1_700_000_000.5),
    ];
    for (name, labels, value) in expected {
        assert_eq!(page.value(name, labels), Some(*value), "{name} {labels:?}");
    }
}

/// Two servers, a logger and a relay.
fn group_of_all_kinds() -> Status {
    let mut status = complete();
    let template = status.members[1].clone();
    for kind in ["logger", "relay"] {
        status.members.push(Member {
            name: kind.into(),
            id: format!("id of {kind}"),
            kind: kind.into(),
            role: kind.into(),
            ..template.clone()
        });
    }
    status
}

#[test]
fn members_of_each_kind_are_counted_apart_and_present_while_they_answer() {
    let kinds = ["database", "logger", "relay"];
    let counts = |status: &Status, name: &str| {
        let page = page_of(status.clone());
        kinds.map(|kind| page.value(name, &[("kind", kind)]).unwrap())
    };
    for (lost, name) in [(1, "db2"), (2, "logger"), (3, "relay")] {
        let mut status = group_of_all_kinds();
        let id = format!("id of {name}");
        let labels = [("member", name), ("member_id", &*id)];
        let is_present = |status: &Status| {
            let page = page_of(status.clone());
            page.value("synod_member_present", &labels)
        };
        assert_eq!(counts(&status, "synod_members_present"), [2.0, 1.0, 1.0]);
        assert_eq!(is_present(&status), Some(1.0));
        for (is_present_yet, is_silent) in [(true, true), (false, false)] {
            status.members[lost].is_present = is_present_yet;
            status.members[lost].is_silent = is_silent;
            assert_eq!(is_present(&status), Some(0.0), "{name}");
            assert_eq!(counts(&status, "synod_members"), [2.0, 1.0, 1.0]);
            let mut left = [2.0, 1.0, 1.0];
            left[lost - 1] -= 1.0;
            assert_eq!(counts(&status, "synod_members_present"), left);
            let size = page_of(status.clone()).value("synod_cluster_size", &[]);
            assert_eq!(size, Some(left[0]));
        }
    }
}

/// A zero would be a value; alerts would take it for one.
#[test]
fn what_is_not_known_is_missing() {
    let page = page_of(Status::default());
    for name in [
        "synod_term",
        "synod_lag_seconds",
        "synod_commit_seconds_count",
        "synod_commit_step_seconds_bucket",
    ] {
        assert!(!page.names().contains(name), "{name}");
    }
    assert_eq!(page.value("synod_primary", &[]), Some(0.0));
    assert_eq!(page.value("synod_ready", &[]), Some(0.0));
    assert_eq!(page.value("synod_role", &[("role", "follower")]), Some(0.0));
}

/// Buckets of another number than bounds could be counted under wrong ones.
#[test]
fn times_that_do_not_fit_their_bounds_are_missing() {
    let mut status = complete();
    status.time_bounds_us.pop();
    let page = page_of(status);
    assert!(!page.names().contains("synod_commit_seconds_bucket"));
    assert!(!page.kinds.contains_key("synod_commit_step_seconds"));
    let mut status = complete();
    status.commits.counts.clear();
    let page = page_of(status);
    assert!(!page.kinds.contains_key("synod_commit_seconds"));
    assert!(page.names().contains("synod_commit_step_seconds_bucket"));
}

#[test]
fn state_and_role_of_a_newer_server_are_shown() {
    let mut status = complete();
    status.server.state = "Levitating".into();
    status.members[0].role = "witness".into();
    let page = page_of(status);
    assert_eq!(
        page.value("synod_state", &[("state", "Levitating")]),
        Some(1.0)
    );
    assert_eq!(page.value("synod_role", &[("role", "witness")]), Some(1.0));
}

#[test]
fn server_that_cannot_be_asked_is_down_and_nothing_else_is_said() {
    let page = metrics::page(&Err("gone".into()), None, None, Format::OpenMetrics).unwrap();
    let page = Page::parse(&page).unwrap();
    assert_eq!(page.value("synod_up", &[]), Some(0.0));
    assert_eq!(page.samples.len(), 1);
}

#[test]
fn pages_that_break_a_rule_are_noticed() {
    let good = metrics::page(&Ok(Arc::new(complete())), None, None, Format::OpenMetrics).unwrap();
    for (from, to) in [
        ("# EOF\n", ""),
        ("# TYPE synod_term gauge\n", ""),
        ("synod_log_syncs_total 11", "synod_log_syncs 11"),
        ("synod_log_syncs_total 11", "synod_log_syncs_total -11"),
        ("synod_term 7\n", "synod_term 7\nsynod_term 8\n"),
        ("synod_term 7\n", "synod_view 7\n"),
        ("synod_term 7\n", "synod_term seven\n"),
        ("{role=\"leader\"}", "{role=\"lead\"er\"}"),
        ("{role=\"leader\"}", "{Role=\"leader\"}"),
        (
            "synod_commit_seconds_count 8",
            "synod_commit_seconds_count 9",
        ),
        (
            "seconds_bucket{le=\"10.0\"} 7",
            "seconds_bucket{le=\"10.0\"} 2",
        ),
        ("synod_commit_seconds_sum 12.0025\n", ""),
    ] {
        assert!(good.contains(from), "{from}");
        assert!(
            Page::parse(&good.replacen(from, to, 1)).is_err(),
            "{from} -> {to}"
        );
    }
}

#[test]
fn relay_shows_what_its_status_says() {
    let page = page_of(complete());
    let expected: &[Expected] = &[
        (
            "synod_relay_upstream_info",
            &[("upstream", "primary:3306")],
            1.0,
        ),
        ("synod_relay_pull_state", &[("state", "connecting")], 1.0),
        ("synod_relay_pull_state", &[("state", "pulling")], 0.0),
        ("synod_relay_stuck_seconds", &[], 61.5),
        ("synod_relay_delay_seconds", &[], 0.012),
        ("synod_relay_quiet_seconds", &[], 62.0),
        ("synod_relay_rows_missing", &[], 1.0),
        ("synod_relay_readers", &[], 2.0),
        ("synod_relay_slowest_reader_behind_actions", &[], 70.0),
        (
            "synod_relay_registered_reader_held_actions",
            &[("server_id", "97")],
            900.0,
        ),
        (
            "synod_relay_registered_reader_unseen_seconds",
            &[("server_id", "99")],
            4.0,
        ),
        (
            "synod_relay_certificate_expiry_timestamp_seconds",
            &[],
            1.9e9,
        ),
    ];
    for (name, labels, value) in expected {
        assert_eq!(page.value(name, labels), Some(*value), "{name} {labels:?}");
    }
}

#[test]
fn what_a_server_is_not_it_shows_no_metric_of() {
    let of_relays = |page: Page| {
        let names = page.names().into_iter().map(str::to_owned);
        names
            .filter(|name| name.starts_with("synod_relay_"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of_relays(page_with(complete(), None)), [""; 0], "no relay");
    let mut of_group = relay();
    of_group.upstream = String::new();
    of_group.registered.clear();
    let names = of_relays(page_with(complete(), Some(&of_group)));
    assert!(
        names.iter().any(|name| name == "synod_relay_readers"),
        "{names:?}"
    );
    assert!(
        names.iter().all(|name| !name.contains("stuck")),
        "{names:?}"
    );
}

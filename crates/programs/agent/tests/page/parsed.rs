//! A page with all metrics, and what may stand on it by the rules of the format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_admin::relay::{RelayReader, RelayStatus};
use synod_admin::status::Status;
use synod_agent::Seen;
use synod_agent::metrics::{self, Format};

/// A server that knows everything of itself and its group. Its names need escapes.
pub(crate) fn complete() -> Status {
    let member = |name: &str, is_own: bool| {
        serde_json::json!({
            "id": format!("id of {name}"), "name": name, "address": "192.0.2.1:4567",
            "is_own": is_own, "is_voter": true, "is_present": true, "kind": "database",
            "silent_ms": 0,
            "role": if is_own { "leader" } else { "follower" }, "state": "Synced",
            "weight": 50, "region": "eu-1", "term": 7, "log_index": 110, "durable_index": 109,
            "applied_seqno": 100, "flushed_seqno": 90, "lag_actions": 2, "lag_ms": 1500,
            "apply_queue": 2, "round_trip_us": 250, "clock_ahead_us": -1_500_000,
            "clock_error_us": 125, "oldest_protocol": 1, "newest_protocol": 4, "program": "0.1.0",
        })
    };
    let document = serde_json::json!({
        "at_unix_ms": 1_700_000_000_500_u64,
        "server": {"program": "0.1.0", "pid": 1, "name": "db \"1\"\\\n", "state": "Synced",
            "committed_seqno": 100, "is_ready": true},
        "group": {"id": "g", "name": "c", "is_primary": true, "term": 7, "leader": "db1",
            "voters": 2, "voters_present": 2, "tolerates": 0, "can_commit": true,
            "outlook": "2 voters: none may fail", "protocol": 4, "view": 3, "commit_seqno": 102,
            "commit_index": 110},
        "members": [member("db \"1\"\\\n", true), member("db2", false)],
        "log": {"dir": "/d", "bytes": 4096, "syncs": 11, "last_index": 110, "durable_index": 109,
            "first_seqno": 1, "begins_unix_ms": 1_600_000_000_000_u64},
        "queues": {"pending_actions": 1, "apply_actions": 2, "open_transactions": 3,
            "certification_keys": 4},
        "flow_control": {"is_active": true, "rate_per_second": 12.5, "slowest": "db2",
            "slowest_lag_ms": 1500, "paused_ms": 2500, "pauses": 3, "caused": 1},
        "commit_wait": {"in_force": "applied", "excluded": ["db2"], "exclusions": 1},
        "time_bounds_us": [50, 1000, 10_000_000],
        "commits": {"counts": [0, 3, 4, 1], "sum_us": 12_002_500},
        "commit_steps": [
            {"step": "order", "p50_us": 250, "p95_us": 500, "p99_us": 2000, "samples": 8,
                "times": {"counts": [1, 5, 2, 0], "sum_us": 5500}},
            {"step": "applied", "p50_us": 0, "p95_us": 0, "p99_us": 0, "samples": 0,
                "times": {"counts": [0, 0, 0, 0], "sum_us": 0}},
        ],
        "counters": {"writes_refused": 6},
        "conflicts": {"refused": 1, "too_old": 2, "given_up": 3, "aborted": 4,
            "tables": [{"table": "a.`b\\\"`", "total": 2}],
            "winners": [{"name": "db2", "total": 1}]},
        "last_election": {"at_unix_ms": 1_700_000_000_000_u64, "term": 7, "leader": "db1",
            "why": "w"},
    });
    serde_json::from_value(document).unwrap()
}

/// End of the agent's certificate.
pub(crate) const CERTIFICATE_UNTIL: u64 = 1_800_000_000;

/// The page of such a server.
pub(crate) fn page_of(status: Status) -> Page {
    page_with(status, Some(&relay()))
}

/// The page of a server, which may be a relay.
pub(crate) fn page_with(status: Status, relay: Option<&RelayStatus>) -> Page {
    let seen: Seen = Ok(Arc::new(status));
    let until = Some(CERTIFICATE_UNTIL);
    let page = metrics::page(&seen, relay, until, Format::OpenMetrics).unwrap();
    Page::parse(&page).unwrap()
}

/// The status of a relay of an upstream that knows everything.
pub(crate) fn relay() -> RelayStatus {
    let reader = |server_id: u32, behind: u64| RelayReader {
        server_id,
        behind: Some(behind),
        ..RelayReader::default()
    };
    let document = serde_json::json!({
        "upstream": "primary:3306", "puller": "relay1", "pull": "connecting",
        "error": "the password is wrong", "stuck_ms": 61_500, "warning": "w",
        "delay_ms": 12, "quiet_ms": 62_000, "readers": [reader(99, 3), reader(98, 70)],
        "registered": [
            {"server_id": 99, "is_here": true, "unseen_ms": 4000, "holds": 5},
            {"server_id": 97, "is_here": false, "unseen_ms": null, "holds": 900},
        ],
        "certificate_until_unix": 1_900_000_000_u64,
    });
    serde_json::from_value(document).unwrap()
}

/// A page, parsed by the rules of OpenMetrics 1.0.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Kind of each family.
    pub(crate) kinds: BTreeMap<String, String>,
    /// Text of each family.
    pub(crate) helps: BTreeMap<String, String>,
    /// Values by name and labels.
    pub(crate) samples: BTreeMap<(String, Labels), f64>,
}

/// Names and texts.
pub(crate) type Labels = BTreeMap<String, String>;

impl Page {
    /// The names of the values.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|(name, _)| &**name).collect()
    }

    /// The value with these labels, and no others.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        self.samples
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    /// Parses a page.
    ///
    /// # Errors
    /// The line that breaks a rule, and which.
    pub(crate) fn parse(text: &str) -> Result<Page, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("the end is missing")?;
        let mut page = Page::default();
        let mut family = String::new();
        for line in body.lines() {
            page.line(line, &mut family)
                .map_err(|what| format!("{what}: {line}"))?;
        }
        page.check_histograms()?;
        Ok(page)
    }

    fn line(&mut self, line: &str, family: &mut String) -> Result<(), &'static str> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').ok_or("no text")?;
            *family = name.to_owned();
            let old = self.helps.insert(name.to_owned(), text.to_owned());
            return old.map_or(Ok(()), |_| Err("a second HELP, or a torn family"));
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            let kinds = ["gauge", "counter", "histogram"];
            let known = kinds.contains(&kind) && name == family && is_name(name);
            let old = self.kinds.insert(name.to_owned(), kind.to_owned());
            return if known && old.is_none() {
                Ok(())
            } else {
                Err("a bad TYPE")
            };
        }
        let ((name, labels), value) = sample(line)?;
        let kind = self.kinds.get(family).ok_or("no TYPE before it")?;
        let suffixes: &[&str] = match &**kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let suffix = name.strip_prefix(&**family);
        if !suffix.is_some_and(|suffix| suffixes.contains(&suffix)) {
            return Err("it does not belong to the family before it");
        }
        if kind != "gauge" && value < 0.0 {
            return Err("a negative count");
        }
        let old = self.samples.insert((name, labels), value);
        old.map_or(Ok(()), |_| Err("a second value"))
    }
}

impl Page {
    /// In each histogram counts grow with the bounds, and the last bucket has all.
    fn check_histograms(&self) -> Result<(), String> {
        let families = self.kinds.iter().filter(|(_, kind)| *kind == "histogram");
        for (family, _) in families {
            let counts = format!("{family}_count");
            for ((name, labels), total) in &self.samples {
                if *name == counts {
                    let buckets = self.buckets(family, labels)?;
                    let is_growing = buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
                    if !is_growing || buckets.last() != Some(&(f64::INFINITY, *total)) {
                        return Err(format!("buckets of {family} {labels:?}: {buckets:?}"));
                    }
                    let sum = (format!("{family}_sum"), labels.clone());
                    self.samples
                        .get(&sum)
                        .ok_or(format!("no sum of {family}"))?;
                }
            }
        }
        Ok(())
    }

    /// Bounds and counts of a histogram, by bounds.
    fn buckets(&self, family: &str, labels: &Labels) -> Result<Vec<(f64, f64)>, String> {
        let bucket = format!("{family}_bucket");
        let mut found = Vec::new();
        for ((name, own), count) in &self.samples {
            let mut rest = own.clone();
            let bound = rest.remove("le");
            if *name == bucket && rest == *labels {
                let bound = bound.ok_or(format!("a bucket of {family} without le"))?;
                let bound = bound.parse().map_err(|_| format!("le {bound}"))?;
                found.push((bound, *count));
            }
        }
        found.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
        Ok(found)
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn sample(line: &str) -> Result<((String, Labels), f64), &'static str> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (label, behind) = inside.split_once("=\"").ok_or("no label value")?;
            let (text, behind) = quoted(behind)?;
            if !is_name(label) || labels.insert(label.to_owned(), text).is_some() {
                return Err("a bad or second label");
            }
            inside = behind.strip_prefix(',').unwrap_or(behind);
        }
        rest = &inside[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no blank before the value")?;
    let value = value.parse().map_err(|_| "no number")?;
    Ok(((name.to_owned(), labels), value))
}

/// A text up to its closing quote, without escapes; and what follows it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut found = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((found, &text[at + 1..])),
            '\\' => found.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, escaped @ ('\\' | '"'))) => escaped,
                _ => return Err("a bad escape"),
            }),
            c => found.push(c),
        }
    }
    Err("no closing quote")
}

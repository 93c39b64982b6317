//! The runbook quotes log lines: each must still be one.
//!
//! A quote is the stable part of a line. Where it names an option, the code has a placeholder, so
//! the parts around the option are looked for.

use std::fs;

use synod_tidy::{assert_none, repository, source_files};

/// Pages whose tables have a column of log lines.
const PAGES: [&str; 1] = ["docs/operating/runbook.md"];

/// Parts shorter than this prove nothing.
const PART_MIN: usize = 8;

#[test]
fn every_quoted_log_line_is_in_the_code() {
    let code = texts_of_the_code();
    let mut findings = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(repository().join(page)).unwrap();
        let mut quotes = 0;
        for (at, line) in text.lines().enumerate() {
            for quote in quotes_of(line) {
                quotes += 1;
                let missing = parts_of(quote)
                    .into_iter()
                    .find(|part| !code.contains(part));
                findings.extend(missing.map(|part| {
                    format!("{page}:{}: no log line has '{part}' (of '{quote}')", at + 1)
                }));
            }
        }
        assert!(quotes > 20, "{page} has lost its tables: {quotes} quotes");
    }
    assert_none("the runbook quotes log lines as they are", &findings);
}

/// All string literals of what ships, line breaks within them undone.
fn texts_of_the_code() -> String {
    let mut texts = String::new();
    for file in source_files() {
        let ships = file.path.starts_with("crates/") && file.path.contains("/src/");
        if !file.is_rust() || !ships {
            continue;
        }
        let mut is_continued = false;
        for line in file.text.lines() {
            let line = if is_continued {
                line.trim_start()
            } else {
                line
            };
            is_continued = line.ends_with('\\');
            texts.push_str(line.strip_suffix('\\').unwrap_or(line));
            if !is_continued {
                texts.push('\n');
            }
        }
    }
    texts
}

/// Quotes in the first column of a table's row, or behind the number of an error, without those of
/// the server itself.
fn quotes_of(line: &str) -> Vec<&str> {
    let mut cells = line
        .strip_prefix("| ")
        .into_iter()
        .flat_map(|row| row.split(" | "));
    let is_error = |cell: &&str| cell.starts_with(|c: char| c.is_ascii_digit());
    let cell = cells.find(|cell| !is_error(cell)).unwrap_or_default();
    if !cell.starts_with('`') || cell.contains("(from the server)") {
        return Vec::new();
    }
    cell.split('`')
        .skip(1)
        .step_by(2)
        .filter(|quote| !quote.trim().is_empty())
        .collect()
}

/// The parts of a quote between names of options and numbers.
fn parts_of(quote: &str) -> Vec<&str> {
    let is_option = |word: &str| {
        let plain = word.trim_matches(|c: char| !c.is_alphanumeric());
        plain.contains('_') || plain.contains('.') && !plain.ends_with('.')
    };
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    for word in quote.split_inclusive(' ') {
        if is_option(word.trim()) {
            parts.push(quote[begin..at].trim());
            begin = at + word.len();
        }
        at += word.len();
    }
    parts.push(quote[begin..].trim());
    parts.retain(|part| part.len() >= PART_MIN);
    parts
}

#[test]
fn quotes_are_taken_apart_at_options() {
    let row = "| `in wsrep_cluster_address does not answer` / `too many` (leader) | why | do |";
    assert_eq!(
        quotes_of(row),
        ["in wsrep_cluster_address does not answer", "too many"]
    );
    assert_eq!(
        parts_of("in wsrep_cluster_address does not answer"),
        ["does not answer"]
    );
    assert_eq!(
        parts_of("the log has room again"),
        ["the log has room again"]
    );
    assert!(quotes_of("| `BF lock wait long` (from the server) | a | b |").is_empty());
    assert_eq!(
        quotes_of("| 1213, large | `was refused:` | b |"),
        ["was refused:"]
    );
    assert!(quotes_of("| 10 | words |").is_empty());
}

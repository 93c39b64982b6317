//! The rules of `deny.toml`, applied to everything that is linked into `libsynod.so` or the plugin
//! of MySQL, or runs while they are built; and `docs/dependencies.md`, held against what the crates
//! really name.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use sources::{read, workspace};

/// Packages whose libraries are loaded into servers, which are GPL-2.0-only.
const LIBRARIES: [&str; 2] = ["synod-provider", "synod-mysql-host"];

/// Metadata of all crates in the lock file: those that this machine has not built yet are fetched.
fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    serde_json::from_slice(&printed(command)).unwrap()
}

/// Output of a command that is run on the workspace, and must succeed.
fn printed(mut command: Command) -> Vec<u8> {
    let output = command.current_dir(workspace()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    output.stdout
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn libraries_link_only_what_the_rules_allow() {
    let allowed = allowed_licences(&read("deny.toml"));
    for library in LIBRARIES {
        let tree = tree_of(library);
        assert!(
            tree.len() > 10,
            "the tree of {library} is not complete: {tree:?}"
        );
        let refused: Vec<_> = tree
            .iter()
            .filter(|(_, licence)| !is_allowed(licence, &allowed))
            .collect();
        assert!(
            refused.is_empty(),
            "{library}: deny.toml does not allow: {refused:#?}"
        );
    }
}

#[test]
fn every_direct_dependency_has_a_line_in_the_document_and_no_line_is_stale() {
    let metadata = metadata();
    let members: BTreeSet<&str> = list(&metadata, "workspace_members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let used: BTreeSet<&str> = list(&metadata, "packages")
        .iter()
        .filter(|package| members.contains(text(package, "id")))
        .flat_map(|package| list(package, "dependencies"))
        .filter(|dependency| dependency["source"].is_string())
        .map(|dependency| text(dependency, "name"))
        .collect();
    let fuzz: toml::Table = read("testing/fuzz/Cargo.toml").parse().unwrap();
    let outside = fuzz["dependencies"].as_table().unwrap().iter();
    let fuzzing = outside.filter(|(_, how)| how.get("path").is_none());
    let used: BTreeSet<&str> = used
        .into_iter()
        .chain(fuzzing.map(|(name, _)| name.as_str()))
        .collect();
    let document = read("docs/dependencies.md");
    let documented: BTreeSet<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|name| *name != "crate")
        .collect();
    let missing: Vec<_> = used.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&used).collect();
    assert!(
        missing.is_empty(),
        "docs/dependencies.md has no line for {missing:?}"
    );
    assert!(
        stale.is_empty(),
        "docs/dependencies.md has lines for {stale:?}, used nowhere"
    );
}

/// The package and all it needs to be built and to run, with licences; not what its tests need.
///
/// By `cargo tree`, because `cargo metadata` also has crates that an optional feature which is off
/// would need (`ring` under `rustls-webpki`).
fn tree_of(package: &str) -> BTreeMap<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--package", package]);
    command.args(["--edges", "normal,build", "--prefix", "none"]);
    command.args(["--target", "x86_64-unknown-linux-gnu"]);
    command.args(["--format", "{p}|{l}"]);
    let text = String::from_utf8(printed(command)).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('|'));
    lines
        .map(|(name, licence)| {
            let seen_before = " (*)";
            let licence = licence.trim_end_matches(seen_before);
            (name.to_owned(), licence.to_owned())
        })
        .collect()
}

fn allowed_licences(deny: &str) -> BTreeSet<String> {
    let deny: toml::Table = deny.parse().unwrap();
    let allow = deny["licenses"]["allow"].as_array().unwrap();
    allow
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Whether the licence expression can be satisfied with allowed licences alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        tokens: &tokens,
        allowed,
    };
    parser.alternatives() == Some(true) && parser.tokens.is_empty()
}

/// Evaluates a licence expression (SPDX 2.3, annex D; "/" is the old way to write OR):
/// `alternatives = all { OR all }`, `all = one { AND one }`,
/// `one = "(" alternatives ")" | id [ WITH exception ]`. None: not understood.
struct Parser<'a> {
    tokens: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
}

impl<'a> Parser<'a> {
    fn alternatives(&mut self) -> Option<bool> {
        let mut result = self.all()?;
        while self.take("OR") {
            result |= self.all()?;
        }
        Some(result)
    }

    fn all(&mut self) -> Option<bool> {
        let mut result = self.one()?;
        while self.take("AND") {
            result &= self.one()?;
        }
        Some(result)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let result = self.alternatives()?;
            return self.take(")").then_some(result);
        }
        let licence = self
            .next()
            .filter(|name| !["OR", "AND", "WITH", ")"].contains(name))?;
        if !self.take("WITH") {
            return Some(self.allowed.contains(licence));
        }
        let exception = self.next()?;
        Some(
            self.allowed
                .contains(&format!("{licence} WITH {exception}")),
        )
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.first() == Some(&token);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }
}

#[test]
fn expressions_are_judged_as_a_whole() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Unicode-3.0".to_owned()]);
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "Apache-2.0 OR MIT",
        "MIT/Apache-2.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "Apache-2.0",
        "MIT AND Apache-2.0",
        "MIT WITH Something",
        "(MIT OR Apache-2.0) AND GPL-3.0",
        "MIT OR",
        "(MIT",
        "MIT MIT",
        "mit",
    ] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

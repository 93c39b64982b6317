//! The two levels of the tree: `crates/LEVEL/CRATE`, and who may know whom.

use std::collections::BTreeMap;
use std::fs;

use synod_tidy::{assert_none, repository};

/// Levels, with those that their crates may depend on. `testing` may depend on all.
const MAY_KNOW: [(&str, &[&str]); 5] = [
    ("core", &["core"]),
    ("runtime", &["core", "runtime"]),
    ("server", &["core", "runtime", "server"]),
    ("programs", &["core", "runtime", "programs"]),
    ("tools", &["core", "runtime", "programs", "tools"]),
];

/// A crate that ships links nothing that only tests, and no crate knows one of a level above it.
#[test]
fn crates_depend_on_their_own_level_and_those_below() {
    let manifests = manifests();
    let level_of: BTreeMap<&str, &str> = manifests
        .iter()
        .map(|manifest| (manifest.name.as_str(), manifest.level.as_str()))
        .collect();
    let mut findings = Vec::new();
    for manifest in &manifests {
        let Some((_, known)) = MAY_KNOW.iter().find(|(level, _)| *level == manifest.level) else {
            assert_eq!(
                manifest.level, "testing",
                "a level that is not in the table"
            );
            continue;
        };
        for (number, dependency) in manifest.dependencies() {
            let level = level_of.get(dependency);
            if let Some(level) = level.filter(|level| !known.contains(level)) {
                findings.push(format!(
                    "{}:{number}: {dependency} ({level})",
                    manifest.path
                ));
            }
        }
    }
    assert_none(
        "a crate depends on its own level and those below",
        &findings,
    );
}

/// A manifest of the workspace.
struct Manifest {
    path: String,
    level: String,
    name: String,
    text: String,
}

impl Manifest {
    /// Crates that it links into what it builds, with the numbers of their lines.
    fn dependencies(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_linked = false;
        self.text.lines().enumerate().filter_map(move |(at, line)| {
            if line.starts_with('[') {
                is_linked = line == "[dependencies]";
            }
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            is_linked.then_some((at + 1, name))
        })
    }
}

fn manifests() -> Vec<Manifest> {
    let levels = folder("crates").into_iter();
    let mut places: Vec<(String, String)> = levels
        .map(|level| (format!("crates/{level}"), level))
        .collect();
    places.push(("testing".to_owned(), "testing".to_owned()));
    let mut manifests = Vec::new();
    for (place, level) in places {
        for name in folder(&place) {
            let path = format!("{place}/{name}/Cargo.toml");
            let Ok(text) = fs::read_to_string(repository().join(&path)) else {
                continue;
            };
            let named = text.lines().find_map(|line| line.strip_prefix("name = \""));
            let name = named.and_then(|rest| rest.split('"').next());
            manifests.push(Manifest {
                name: name.expect("a manifest names its crate").to_owned(),
                level: level.clone(),
                path,
                text,
            });
        }
    }
    assert!(
        manifests.len() > 20,
        "the crates are below crates/ and testing/"
    );
    manifests
}

fn folder(path: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join(path)).expect("a folder of the repository");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

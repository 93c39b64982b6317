//! Contents of the Debian packages: 'scripts/build-packages' finds all of it, and the sample
//! configuration is that of the README.

mod sources;

use std::process::Command;

use toml::{Table, Value};

use sources::{read, workspace};

/// Crates with packages.
const PROVIDER: &str = "crates/server/provider";
const CLI: &str = "crates/programs/cli";

/// The packages of a crate: its own, and the variants.
fn packages(krate: &str) -> Vec<Value> {
    let manifest = read(&format!("{krate}/Cargo.toml"));
    let manifest = Value::Table(manifest.parse::<Table>().unwrap());
    let main = manifest["package"]["metadata"]["deb"].clone();
    let variants = main.get("variants").and_then(Value::as_table).cloned();
    let variants = variants.unwrap_or_default();
    let variants = variants.into_iter().map(|(_, variant)| variant);
    [main].into_iter().chain(variants).collect()
}

#[test]
fn files_of_the_packages_are_there_or_are_built() {
    let mut names = Vec::new();
    for krate in [PROVIDER, CLI] {
        for package in packages(krate) {
            names.push(package["name"].as_str().unwrap().to_owned());
            for asset in package["assets"].as_array().unwrap() {
                let source = asset[0].as_str().unwrap();
                if source.starts_with("target/release/") {
                    continue;
                }
                let named = source.split('*').next().unwrap();
                let path = workspace().join(krate).join(named);
                let is_there = match source == named {
                    true => path.is_file(),
                    false => path.is_dir(),
                };
                assert!(is_there, "{}", path.display());
            }
        }
    }
    let expected = [
        "synod-provider",
        "synod",
        "synod-agent",
        "synod-logger",
        "synod-relay",
    ];
    assert_eq!(names, expected);
}

#[test]
fn units_of_the_packages_are_those_in_the_folder_and_none_starts_before_it_is_enabled() {
    for package in packages(CLI).into_iter().skip(1) {
        let units = &package["systemd-units"];
        let unit = units["unit-name"].as_str().unwrap();
        read(&format!("packaging/systemd/{unit}.service"));
        assert_eq!(package["name"].as_str(), Some(unit));
        // What is not enabled is not started, either: deb-systemd-invoke leaves it out.
        for (setting, value) in [
            ("enable", false),
            ("start", true),
            ("stop-on-upgrade", false),
        ] {
            assert_eq!(units[setting].as_bool(), Some(value), "{unit}: {setting}");
        }
    }
}

/// Settings without comments, in order.
fn settings<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default());
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn sample_configuration_is_that_of_the_readme() {
    let readme = read("README.md");
    let block = readme
        .lines()
        .skip_while(|line| *line != "    [mariadbd]")
        .take_while(|line| line.starts_with("    "));
    let sample = read("packaging/synod.cnf");
    let (mut ours, mut theirs) = (settings(sample.lines()), settings(block));
    assert!(theirs.len() > 10, "{theirs:?}");
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

/// A voter with the sample's addresses would wait for a group without end.
#[test]
fn samples_of_members_without_a_database_are_refused_until_they_are_edited() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["logger", "relay"] {
        let sample = read(&format!("packaging/{kind}.toml"));
        let hash = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        let file = dir.path().join(format!("{kind}.toml"));
        std::fs::write(&file, sample.replace("*...", hash)).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_synod"));
        check.args([kind, "--check", "--config"]).arg(&file);
        let output = check.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{kind}: {text}");
        for key in ["'cluster_name'", "'address'", "'peers'"] {
            assert!(text.contains(key), "{kind}: {key}: {text}");
        }
    }
}

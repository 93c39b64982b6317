//! `synod doctor` on the machine of a logger or relay: their files, for the doctor.

use std::path::Path;

use synod_doctor::checks::{judge_member, judge_wrong_file};
use synod_doctor::{Finding, MemberFacts, WithoutDatabase};
use synod_logger::LoggerConfig;
use synod_relay::RelayConfig;

/// A member without a database, and what the doctor found.
#[derive(Debug)]
pub struct Examined {
    /// Name of the member; of a file that is refused, the file's.
    pub name: String,
    pub findings: Vec<Finding>,
}

pub fn look(dir: &Path) -> Vec<Examined> {
    let kinds = ["logger", "relay"].into_iter();
    kinds.filter_map(|kind| examine(kind, dir)).collect()
}

fn examine(kind: &'static str, dir: &Path) -> Option<Examined> {
    let file = dir.join(format!("{kind}.toml"));
    if !file.exists() {
        return None;
    }
    let read = match kind {
        "relay" => RelayConfig::read(&file)
            .map(|relay| relay.member)
            .map_err(|error| error.to_string()),
        _ => LoggerConfig::read(&file).map_err(|error| error.to_string()),
    };
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            return Some(Examined {
                name: file.display().to_string(),
                findings: vec![judge_wrong_file(kind, &error)],
            });
        }
    };
    let facts = MemberFacts::gather(WithoutDatabase {
        kind,
        file,
        name: config.name.clone(),
        cluster_name: config.cluster_name,
        address: config.address,
        peers: config.peers,
        options: config.options,
    });
    Some(Examined {
        name: config.name,
        findings: judge_member(&facts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_doctor::Severity;

    #[test]
    fn each_file_in_the_directory_is_a_member() {
        let dir = tempfile::tempdir().unwrap();
        assert!(look(dir.path()).is_empty());
        let text = format!(
            "cluster_name = \"payments\"\nname = \"witness\"\naddress = \"127.0.0.1\"\n\
             peers = [\"127.0.0.1:1\"]\nsynod.log_dir = {:?}\nsynod.insecure = true\n",
            dir.path()
        );
        std::fs::write(dir.path().join("logger.toml"), text).unwrap();
        std::fs::write(dir.path().join("relay.toml"), "cluster_name = 1").unwrap();
        let found = look(dir.path());
        let names: Vec<&str> = found.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names[0], "witness");
        assert!(names[1].ends_with("relay.toml"), "{names:?}");
        let worst = |at: usize| found[at].findings[0].clone();
        assert!(
            worst(0).what.contains("logger 'witness' does not run"),
            "{found:?}"
        );
        assert_eq!(worst(1).severity, Severity::Problem);
    }
}

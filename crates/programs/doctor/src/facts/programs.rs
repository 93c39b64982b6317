//! Programs on the server's machine.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether programs that full copies need are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// `mariabackup` or `mariadb-backup`.
    pub backup: bool,
    pub socat: bool,
    pub rsync: bool,
    /// The server's own scripts for full copies and for the first start of a group.
    pub scripts: bool,
}

impl Programs {
    pub(super) fn look() -> Programs {
        Programs {
            backup: find("mariabackup")
                .or_else(|| find("mariadb-backup"))
                .is_some(),
            socat: find("socat").is_some(),
            rsync: find("rsync").is_some(),
            scripts: ["wsrep_sst_common", "galera_new_cluster"]
                .into_iter()
                .all(|script| find(script).is_some()),
        }
    }
}

/// Whether a server is installed on this machine.
pub fn has_server() -> bool {
    ["mariadbd", "mysqld"]
        .into_iter()
        .any(|program| find(program).is_some())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let directories = env::split_paths(&path).chain(system);
    let mut files = directories.map(|directory| directory.join(program));
    files.find(|file| is_file(file))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// The variables that the configuration files of a server on this machine set; none: they cannot be
/// read.
pub(super) fn configured() -> Option<BTreeMap<String, String>> {
    let output = Command::new("my_print_defaults")
        .arg("--mysqld")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| last_of_each(&text))
}

/// The last mention counts, as for the server.
fn last_of_each(defaults: &str) -> BTreeMap<String, String> {
    let values = defaults.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim_start_matches('-').replace('-', "_");
        let name = name.strip_prefix("loose_").unwrap_or(&name).to_owned();
        Some((name, value.to_owned()))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_mention_in_the_configuration_counts() {
        let defaults =
            "--wsrep_on=ON\n--wsrep-provider-options=a=1\n--wsrep_provider_options=b=2;c=3\n";
        let found = last_of_each(defaults);
        assert_eq!(found["wsrep_provider_options"], "b=2;c=3");
        assert_eq!(found["wsrep_on"], "ON");
    }
}

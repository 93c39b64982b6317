//! Files that Galera's library has left in the data directory.

use std::path::Path;

use crate::bytes_text;
use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(server: &ServerFacts, data_dir: &Path, files: &[(&str, u64)]) -> Vec<Finding> {
    let is_in_use = server.variable("wsrep_provider").contains("galera");
    if is_in_use {
        return Vec::new();
    }
    let findings = files.iter().map(|(name, bytes)| {
        let path = data_dir.join(name);
        Finding::new(
            Subject::Leftovers,
            Severity::Note,
            format!(
                "{} ({}) is a file of Galera's library",
                path.display(),
                bytes_text(*bytes)
            ),
            "Synod does not read it. Galera would need it only for the way back",
            format!("rm {}", path.display()),
        )
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_a_leftover_only_if_galera_does_not_run() {
        let mut server = ServerFacts::default();
        let judged =
            |server: &ServerFacts| judge(server, Path::new("/data"), &[("galera.cache", 1 << 30)]);
        assert_eq!(judged(&server)[0].remedy, "rm /data/galera.cache");
        let galera = "/usr/lib/galera/libgalera_smm.so".to_owned();
        server.variables.insert("wsrep_provider".to_owned(), galera);
        assert_eq!(judged(&server), []);
    }
}

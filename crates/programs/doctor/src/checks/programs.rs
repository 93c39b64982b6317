//! The library that the server loads, and programs that full copies need.

use crate::facts::Programs;
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(sst_method: &str, programs: Programs) -> Finding {
    if !programs.scripts {
        return Finding::new(
            Subject::Programs,
            Severity::Problem,
            "MariaDB's scripts wsrep_sst_* or galera_new_cluster are missing",
            "without them a server can neither take nor give a full copy, nor begin a group",
            "apt-get install mariadb-server-galera, which is a package of its own since 12.3.2; \
             with an older server, install mariadb-server again",
        );
    }
    let needed = match sst_method {
        "rsync" => vec![("rsync", programs.rsync)],
        _ => vec![
            ("mariadb-backup", programs.backup),
            ("socat", programs.socat),
        ],
    };
    let missing = needed
        .iter()
        .filter(|(_, is_there)| !is_there)
        .map(|(name, _)| *name);
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        return Finding::good(Subject::Programs, "the programs for full copies are there");
    }
    Finding::new(
        Subject::Programs,
        Severity::Problem,
        format!("{} is missing", missing.join(" and ")),
        "without it a server can neither take nor give a full copy",
        format!("apt-get install {}", missing.join(" ")),
    )
}

/// `missing`: the file that the configuration names, and that is not there.
pub(super) fn judge_library(missing: Option<&str>) -> Option<Finding> {
    missing.map(|path| {
        Finding::new(
            Subject::Programs,
            Severity::Problem,
            format!("wsrep_provider is {path}, and there is no such file"),
            "the server ends when it starts: it cannot load its library",
            "wsrep_provider = /usr/lib/libsynod.so, where the package synod-provider has put it",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_that_is_not_there_is_named() {
        let found = judge_library(Some("/usr/lib/synod.so")).unwrap();
        assert!(found.what.contains("/usr/lib/synod.so"), "{found:?}");
        assert_eq!(found.severity, Severity::Problem);
        assert_eq!(judge_library(None), None);
    }

    #[test]
    fn what_the_method_needs_is_asked_for() {
        let programs = Programs {
            backup: false,
            socat: true,
            rsync: true,
            scripts: true,
        };
        assert_eq!(judge("rsync", programs).severity, Severity::Good);
        let missing = judge("mariabackup", programs);
        assert_eq!(missing.remedy, "apt-get install mariadb-backup");
        let without_scripts = Programs {
            scripts: false,
            ..programs
        };
        let missing = judge("rsync", without_scripts);
        assert_eq!(missing.severity, Severity::Problem);
        assert!(
            missing.remedy.contains("mariadb-server-galera"),
            "{missing:?}"
        );
    }
}

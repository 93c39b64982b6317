//! Programs that full copies need.

use crate::facts::Programs;
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(sst_method: &str, programs: Programs) -> Finding {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_method_needs_is_asked_for() {
        let programs = Programs {
            backup: false,
            socat: true,
            rsync: true,
        };
        assert_eq!(judge("rsync", programs).severity, Severity::Good);
        let missing = judge("mariabackup", programs);
        assert_eq!(missing.remedy, "apt-get install mariadb-backup");
    }
}

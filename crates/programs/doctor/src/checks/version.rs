//! The server's version.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// Series whose faults are known.
const SERIES: [(u64, u64); 5] = [(10, 6), (10, 11), (11, 4), (11, 8), (12, 3)];

/// A fault of servers that concerns members of a group.
struct Fault {
    /// The last number of the first version with the fix, in each of [`SERIES`].
    fixed: [u64; 5],
    what: &'static str,
}

const FAULTS: [Fault; 4] = [
    Fault {
        fixed: [26, 17, 11, 7, 0],
        what: "clients of several servers that write the same rows can keep a server from \
               applying for the time of a lock wait (MDEV-39263)",
    },
    Fault {
        fixed: [26, 17, 11, 7, 2],
        what: "who asks for a full copy can run programs on its donor (CVE-2026-44168)",
    },
    Fault {
        fixed: [27, 18, 12, 8, 2],
        what: "a member's name can run programs where wsrep_notify_cmd is set (CVE-2026-49261)",
    },
    Fault {
        fixed: [28, 19, 13, 9, 3],
        what: "an account with SUPER can run programs by wsrep_sst_auth and wsrep_node_address \
               (MDEV-40027, MDEV-40056), and a full copy may fall back from TLS to clear text \
               (MDEV-28233)",
    },
];

/// Series that Synod is developed and tested against.
const TESTED: [(u64, u64); 2] = [(10, 11), (11, 8)];

pub(super) fn judge(server: &ServerFacts) -> Finding {
    let version = &server.version;
    let finding = |severity, why: &str, remedy: &str| {
        Finding::new(
            Subject::Version,
            severity,
            format!("the server is {version}"),
            why,
            remedy,
        )
    };
    if !server.variables.contains_key("wsrep_provider") {
        return finding(
            Severity::Problem,
            "this server was built without wsrep, by which libraries such as Synod's are loaded",
            "use a MariaDB with wsrep: that of Debian, or of mariadb.org",
        );
    }
    let Some((major, minor, patch)) = numbers(version) else {
        return finding(
            Severity::Warning,
            "its version is not understood",
            "docs/compatibility.md",
        );
    };
    if !version.contains("MariaDB") {
        return finding(
            Severity::Problem,
            "Synod is for MariaDB: with MySQL and Percona XtraDB Cluster it was never tried",
            "copy the databases to a MariaDB 10.11 or 11.8, by mariadb-dump for instance",
        );
    }
    if (major, minor) < (10, 6) {
        return finding(
            Severity::Problem,
            "Synod is for MariaDB 10.6 and later",
            "upgrade the server to 10.11 or 11.8 first",
        );
    }
    let mut missing = Vec::new();
    let mut needed = patch;
    for fault in &FAULTS {
        let mut fixed = SERIES.iter().zip(fault.fixed);
        let of_series = fixed.find(|(series, _)| **series == (major, minor));
        if let Some((_, fixed)) = of_series.filter(|(_, fixed)| patch < *fixed) {
            missing.push(fault.what);
            needed = needed.max(fixed);
        }
    }
    if !missing.is_empty() {
        return finding(
            Severity::Warning,
            &format!("it has known faults: {}", missing.join("; ")),
            &format!("upgrade to {major}.{minor}.{needed} or later"),
        );
    }
    if TESTED.contains(&(major, minor)) {
        Finding::good(Subject::Version, format!("the server is {version}"))
    } else {
        finding(
            Severity::Note,
            "Synod is tested with 10.11 and 11.8",
            "try it on a copy first; docs/compatibility.md",
        )
    }
}

fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let end = version.find(|char: char| !char.is_ascii_digit() && char != '.');
    let mut parts = version[..end.unwrap_or(version.len())]
        .split('.')
        .map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str) -> Finding {
        let mut server = ServerFacts {
            version: version.to_owned(),
            ..ServerFacts::default()
        };
        server
            .variables
            .insert("wsrep_provider".to_owned(), "none".to_owned());
        judge(&server)
    }

    fn severity(version: &str) -> Severity {
        found(version).severity
    }

    #[test]
    fn known_faults_of_a_version_are_named_with_the_version_that_has_none() {
        for (version, names, upgrade) in [
            (
                "10.11.14",
                vec!["39263", "44168", "49261", "40056"],
                "10.11.19",
            ),
            ("10.11.17", vec!["49261", "40056"], "10.11.19"),
            ("11.8.8", vec!["40056"], "11.8.9"),
            ("12.3.1", vec!["44168", "49261", "40056"], "12.3.3"),
        ] {
            let found = found(&format!("{version}-MariaDB"));
            assert_eq!(found.severity, Severity::Warning, "{version}");
            for name in ["39263", "44168", "49261", "40056"] {
                let is_named = found.why.contains(name);
                assert_eq!(is_named, names.contains(&name), "{version}: {found:?}");
            }
            assert_eq!(found.remedy, format!("upgrade to {upgrade} or later"));
        }
    }

    #[test]
    fn versions_are_judged_by_series_and_fix() {
        assert_eq!(severity("10.11.19-MariaDB-0+deb12u1"), Severity::Good);
        assert_eq!(severity("10.11.14-MariaDB"), Severity::Warning);
        assert_eq!(severity("11.8.6-MariaDB-0+deb13u1"), Severity::Warning);
        assert_eq!(severity("11.8.9-MariaDB"), Severity::Good);
        assert_eq!(severity("12.0.2-MariaDB"), Severity::Note);
        assert_eq!(severity("10.5.29-MariaDB"), Severity::Problem);
        assert_eq!(severity("8.0.40"), Severity::Problem);
        assert_eq!(severity("MariaDB"), Severity::Warning);
        assert_eq!(
            judge(&ServerFacts::default()).severity,
            Severity::Problem,
            "no wsrep"
        );
    }
}

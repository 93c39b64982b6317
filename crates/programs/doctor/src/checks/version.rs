//! The server's version.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// Since when each series has the fix of MDEV-39263. Without it, a server may stop to apply for the
/// time of a lock wait when clients of several servers write the same rows.
const FIXED: [(u64, u64, u64); 5] = [
    (10, 6, 26),
    (10, 11, 17),
    (11, 4, 11),
    (11, 8, 7),
    (12, 3, 0),
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
    let fixed = FIXED.iter().find(|(a, b, _)| (*a, *b) == (major, minor));
    if fixed.is_some_and(|(_, _, needed)| patch < *needed) {
        let needed = fixed.map_or(0, |(_, _, needed)| *needed);
        return finding(
            Severity::Warning,
            "it lacks the fix of MDEV-39263: clients of several servers that write the same rows \
             can keep a server from applying for the time of a lock wait",
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

    fn severity(version: &str) -> Severity {
        let mut server = ServerFacts {
            version: version.to_owned(),
            ..ServerFacts::default()
        };
        server
            .variables
            .insert("wsrep_provider".to_owned(), "none".to_owned());
        judge(&server).severity
    }

    #[test]
    fn versions_are_judged_by_series_and_fix() {
        assert_eq!(severity("10.11.19-MariaDB-0+deb12u1"), Severity::Good);
        assert_eq!(severity("10.11.14-MariaDB"), Severity::Warning);
        assert_eq!(severity("11.8.6-MariaDB-0+deb13u1"), Severity::Warning);
        assert_eq!(severity("11.8.7-MariaDB"), Severity::Good);
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

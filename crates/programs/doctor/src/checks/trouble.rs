//! A server that is out of its group, or whose data lack something: in its library's own words.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// Finds nothing on a server without Synod.
pub(super) fn judge(server: &ServerFacts) -> Option<Finding> {
    let trouble = server.status.get("wsrep_synod_trouble")?;
    if trouble.is_empty() {
        return Some(Finding::good(
            Subject::Data,
            "the server has its place in the group, and nothing is known to be wrong with its data",
        ));
    }
    Some(Finding::new(
        Subject::Data,
        Severity::Problem,
        trouble.clone(),
        "the server takes no part in the group, or does not have what the others have",
        "the error log says more; docs/operating/runbook.md, \"A server has left the group by \
         itself\"",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_in_the_servers_words() {
        let mut server = ServerFacts::default();
        assert!(judge(&server).is_none(), "no Synod");
        let mut found = |trouble: &str| {
            let entry = ("wsrep_synod_trouble".to_owned(), trouble.to_owned());
            server.status.extend([entry]);
            judge(&server).unwrap()
        };
        assert_eq!(found("").severity, Severity::Good);
        let finding = found("The data have all actions up to 41");
        assert_eq!(finding.severity, Severity::Problem);
        assert!(finding.what.contains("up to 41"), "{finding:?}");
    }
}

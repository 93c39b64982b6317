//! Grants of the right to be another account (`GRANT PROXY`, `REVOKE PROXY`).
//!
//! Only an account that may be the other one itself grants that, and appliers are no account: the
//! statement fails on every server but its own (error 1698), which the group then takes for the one
//! whose data differ. So it is refused before it is ordered.

use synod_binlog::Events;
use synod_binlog::bodies::Query;
use synod_binlog::words::words;

/// The error for a client.
pub(super) const REFUSED: &str = "GRANT PROXY and REVOKE PROXY cannot be replicated: they \
     fail on every other server. On each server of the group: SET SESSION wsrep_on = OFF, this \
     statement, SET SESSION wsrep_on = ON";

/// Whether these events are of such a statement.
pub(super) fn is_proxy_grant(events: &[u8]) -> bool {
    let queries = Events::of(events).flatten();
    let mut queries = queries.filter(|event| event.header.event_type.is_query());
    queries.any(|event| {
        let query = Query::parse(event.body);
        query.is_ok_and(|query| is_about_proxies(query.statement))
    })
}

fn is_about_proxies(statement: &[u8]) -> bool {
    let mut words = words(statement).map(|(word, _)| word);
    let mut next = || words.next().unwrap_or_default();
    // A role may have that name: GRANT proxy TO ...
    matches!(next().as_str(), "GRANT" | "REVOKE") && next() == "PROXY" && next() == "ON"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grants_of_proxies_are_found() {
        for statement in [
            "GRANT PROXY ON a TO b",
            "revoke proxy on a@localhost from b",
            "-- by a tool\nGRANT /* */ PROXY ON ''@'' TO b WITH GRANT OPTION",
        ] {
            assert!(is_about_proxies(statement.as_bytes()), "{statement}");
        }
        for statement in [
            "GRANT proxy TO b",
            "GRANT SELECT ON proxy.* TO b",
            "GRANT ALL ON *.* TO proxy",
            "CREATE TABLE proxy (a INT)",
            "",
        ] {
            assert!(!is_about_proxies(statement.as_bytes()), "{statement}");
        }
    }

    #[test]
    fn statement_is_that_of_the_query_event() {
        const QUERY: u8 = 2;
        let statement = b"GRANT PROXY ON a TO b";
        let body = [&[0; 8][..], &[0; 5], b"\0", statement].concat();
        let size = u32::try_from(19 + body.len()).unwrap().to_le_bytes();
        let event = [&[0; 4][..], &[QUERY], &[0; 4], &size, &[0; 6], &body].concat();
        assert!(is_proxy_grant(&event));
        assert!(!is_proxy_grant(b"ALTER"), "no event");
        assert!(!is_proxy_grant(b""));
    }
}

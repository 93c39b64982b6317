//! Position of an upstream: the newest GTID of each of its domains.

use std::fmt;

use synod_binlog::gtid::UNKNOWN_SERVER;
use synod_binlog::{Gtid, GtidList};

/// The newest GTID of each domain. Two states are equal if they name the same GTIDs.
///
/// A list by ascending domain, since domains are few, and each entry of the log has a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GtidState(Vec<Gtid>);

impl GtidState {
    /// The state after these transactions, the newest of each domain.
    pub(crate) fn of(list: &GtidList) -> GtidState {
        let mut state = GtidState(Vec::with_capacity(list.0.len()));
        list.0.iter().for_each(|gtid| state.add(*gtid));
        state
    }

    /// The newest GTID of each domain, by ascending domain.
    pub(crate) fn list(&self) -> GtidList {
        GtidList(self.0.clone())
    }

    /// The newest GTIDs, by ascending domain.
    pub(crate) fn gtids(&self) -> impl Iterator<Item = Gtid> {
        self.0.iter().copied()
    }

    /// The newest GTID of a domain.
    pub(crate) fn of_domain(&self, domain: u32) -> Option<Gtid> {
        self.0.get(self.place(domain).ok()?).copied()
    }

    /// Whether the transaction is at or before this state in its domain.
    pub(crate) fn has(&self, gtid: Gtid) -> bool {
        let newest = self.of_domain(gtid.domain);
        newest.is_some_and(|newest| gtid.sequence <= newest.sequence)
    }

    /// Whether everything before `self` is before `other` as well.
    pub(crate) fn is_within(&self, other: &GtidState) -> bool {
        self.0.iter().all(|gtid| other.has(*gtid))
    }

    /// The first transaction at or before this state that is not before `other`.
    pub(crate) fn missing_in(&self, other: &GtidState) -> Option<Gtid> {
        self.0.iter().copied().find(|gtid| !other.has(*gtid))
    }

    /// The newest transaction of a domain, if this server has written it and `other` lacks it.
    pub(crate) fn of_server(&self, server_id: u32, other: &GtidState) -> Option<Gtid> {
        let is_of = |gtid: &&Gtid| gtid.server_id == server_id && server_id != UNKNOWN_SERVER;
        let mut written = self.0.iter().filter(is_of);
        written.find(|gtid| !other.has(**gtid)).copied()
    }

    /// A GTID of `other` that this state has not reached, or that is another transaction here, with
    /// the newest one here of its domain. Domains that are not known here do not count: a reader
    /// may have several sources.
    pub(crate) fn ahead(&self, other: &GtidState) -> Option<(Gtid, Gtid)> {
        let named = other.0.iter().filter_map(|theirs| {
            let here = self.of_domain(theirs.domain)?;
            let is_same = theirs.may_be(here) || theirs.sequence < here.sequence;
            (!is_same).then_some((*theirs, here))
        });
        named.into_iter().next()
    }

    /// The state after one more transaction.
    pub(crate) fn add(&mut self, gtid: Gtid) {
        match self.place(gtid.domain) {
            Ok(at) => self.0[at] = gtid,
            Err(at) => self.0.insert(at, gtid),
        }
    }

    /// Index of a domain in the list, or where to insert it.
    fn place(&self, domain: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&domain, |gtid| gtid.domain)
    }
}

impl fmt::Display for GtidState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> GtidState {
        GtidState::of(&text.parse().unwrap())
    }

    #[test]
    fn states_are_compared_by_domain_and_sequence() {
        let both = state("1-1-5,2-9-7");
        assert_eq!(both, state("2-9-7,1-1-5"));
        assert!(state("1-3-5").is_within(&both) && state("").is_within(&both));
        assert!(!state("1-1-6").is_within(&both) && !state("3-1-1").is_within(&both));
        let lost = both.missing_in(&state("1-1-5"));
        assert_eq!(lost.map(|gtid| gtid.to_string()).as_deref(), Some("2-9-7"));
        assert_eq!(both.to_string(), "1-1-5,2-9-7");
    }

    #[test]
    fn server_is_known_by_the_newest_transactions() {
        let here = state("1-1-5,2-9-7");
        assert_eq!(here.of_server(9, &state("1-1-5")), Some(here.0[1]));
        assert_eq!(here.of_server(9, &state("2-9-7")), None, "it has that");
        assert_eq!(here.of_server(7, &state("")), None, "another server");
        assert_eq!(
            state("1-0-5").of_server(0, &state("")),
            None,
            "none is known"
        );
    }

    #[test]
    fn reader_is_ahead_by_domains_that_are_known() {
        let here = state("1-1-5,2-9-7");
        assert_eq!(here.ahead(&state("1-1-5,3-1-9")), None);
        assert_eq!(
            here.ahead(&state("1-7-4")),
            None,
            "checked where it is given"
        );
        let (theirs, newest) = here.ahead(&state("2-9-8")).unwrap();
        assert_eq!((theirs.sequence, newest.sequence), (8, 7));
        assert!(here.ahead(&state("2-1-7")).is_some(), "another transaction");
        assert_eq!(here.ahead(&state("2-0-7")), None, "its server is not known");
    }

    #[test]
    fn transaction_moves_its_domain() {
        let mut now = state("1-1-5,2-9-7");
        now.add("2-8-8".parse().unwrap());
        assert_eq!(now, state("1-1-5,2-8-8"));
        assert!(now.has("2-1-8".parse().unwrap()));
    }
}

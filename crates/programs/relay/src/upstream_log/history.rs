//! Rule for which entries of the log are the upstream's transactions, in the order of the log.
//!
//! A transaction counts if it begins where the upstream was after everything that counted before,
//! and its parts are whole, of one pull, and in order. Where the upstream is MySQL, that is so by
//! the GTIDs that its transactions were given, and by its own. Everything else is what a change of
//! leader leaves: the beginning of a transaction that another relay has pulled again, or a
//! transaction that came twice. The rule depends on nothing but the log, so all relays give the
//! same answer, wherever in the log they begin.

use std::fmt;

use synod_binlog::gtid::UNKNOWN_SERVER;
use synod_binlog::{Gtid, GtidList, MysqlGtid, MysqlGtidSet};
use synod_node::{MemberId, Seqno, SessionId};

use crate::upstream_log::entry::Head;

type Origin = (MemberId, SessionId);

/// A transaction begins after others that the log does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "transactions between '{have}' and '{found}' are not in this relay's log. If other relays of the \
     group do not say this, move this relay's log away and start it again"
)]
pub(crate) struct Gap {
    /// Upstream's position after the transactions in the log.
    have: GtidState,
    found: GtidState,
}

/// A transaction, with what was given with each of its parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole<P> {
    pub(crate) gtid: Gtid,
    pub(crate) first: Seqno,
    /// Upstream's position before the transaction.
    pub(crate) before: GtidState,
    pub(crate) parts: Vec<P>,
}

/// A transaction whose last part has not come.
#[derive(Debug)]
struct Open<P> {
    origin: Origin,
    pull: u64,
    gtid: Gtid,
    mysql: Option<MysqlGtid>,
    first: Seqno,
    parts: Vec<P>,
}

/// The history of an upstream as far as the log was read. `P` is what is kept of a part.
#[derive(Debug)]
pub(crate) struct History<P> {
    /// None before the first entry that says it.
    state: Option<GtidState>,
    /// The same by MySQL's GTIDs.
    mysql: Option<MysqlGtidSet>,
    open: Option<Open<P>>,
}

impl<P> History<P> {
    /// A history that begins with the next entry that begins a transaction, or is an order.
    pub(crate) fn new() -> History<P> {
        History {
            state: None,
            mysql: None,
            open: None,
        }
    }

    /// Upstream's position after the transactions that count; none: no entry read so far states it.
    pub(crate) fn state(&self) -> Option<&GtidState> {
        self.state.as_ref()
    }

    /// The same by MySQL's GTIDs; none: the upstream is MariaDB, or that is not known.
    pub(crate) fn mysql(&self) -> Option<&MysqlGtidSet> {
        self.mysql.as_ref()
    }

    /// The last action that a reader does not need which has everything that has counted, when
    /// `last` is the last one read: a transaction that has begun is needed from its beginning.
    pub(crate) fn passed(&self, last: Seqno) -> Seqno {
        self.open_since().map_or(last, Seqno::prev)
    }

    /// The first entry of a transaction whose last part has not come.
    pub(crate) fn open_since(&self) -> Option<Seqno> {
        self.open.as_ref().map(|open| open.first)
    }

    /// Takes the next entry of the log; gives the transaction that is whole with it.
    pub(crate) fn take(
        &mut self,
        seqno: Seqno,
        origin: Origin,
        head: &Head,
        kept: P,
    ) -> Result<Option<Whole<P>>, Gap> {
        let Some(part) = &head.part else {
            self.begin_with(head);
            return Ok(None);
        };
        if part.number == 0 {
            if !self.follows(head)? {
                return Ok(None);
            }
            self.open = Some(Open {
                origin,
                pull: part.pull,
                gtid: part.gtid,
                mysql: part.mysql,
                first: seqno,
                parts: vec![kept],
            });
        } else {
            let continues = |open: &&mut Open<P>| {
                (open.origin, open.pull, open.gtid) == (origin, part.pull, part.gtid)
                    && open.parts.len() == part.number as usize
            };
            let Some(open) = self.open.as_mut().filter(continues) else {
                return Ok(None);
            };
            open.parts.push(kept);
        }
        if !part.is_last {
            return Ok(None);
        }
        Ok(self.close())
    }

    /// Whether a transaction that begins at this state is the next one; if not, the log has it
    /// already.
    fn follows(&mut self, head: &Head) -> Result<bool, Gap> {
        self.begin_with(head);
        let before = &head.before;
        let state = self.state.get_or_insert_with(|| before.clone());
        // Two servers of MySQL may have the same transactions in another order, which would be
        // given the same GTIDs.
        if state == before && self.mysql == head.mysql {
            return Ok(true);
        }
        if before != state && before.is_within(state) {
            return Ok(false);
        }
        Err(Gap {
            have: state.clone(),
            found: before.clone(),
        })
    }

    /// Takes what the first entry says, if none was read before.
    fn begin_with(&mut self, head: &Head) {
        if self.state.is_none() {
            self.state = Some(head.before.clone());
            self.mysql.clone_from(&head.mysql);
        }
    }

    fn close(&mut self) -> Option<Whole<P>> {
        let open = self.open.take()?;
        let state = self.state.as_mut()?;
        let before = state.clone();
        state.add(open.gtid);
        if let (Some(set), Some(gtid)) = (&mut self.mysql, open.mysql) {
            set.add(gtid);
        }
        Some(Whole {
            gtid: open.gtid,
            first: open.first,
            before,
            parts: open.parts,
        })
    }
}

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

    pub(crate) fn add(&mut self, gtid: Gtid) {
        match self.place(gtid.domain) {
            Ok(at) => self.0[at] = gtid,
            Err(at) => self.0.insert(at, gtid),
        }
    }

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
    use proptest::prelude::*;

    use super::*;
    use crate::upstream_log::entry::{Orders, PartHead};
    use crate::upstream_log::registry::Known;

    /// An entry of the log: who has submitted it, and what.
    type Logged = (Origin, Head);

    fn gtid(domain: u32, sequence: u64) -> Gtid {
        Gtid::new(domain, 1, sequence)
    }

    fn origin(member: u64) -> Origin {
        (MemberId(member), SessionId(1))
    }

    fn order(before: &GtidState) -> Head {
        Head {
            before: before.clone(),
            orders: Orders::default(),
            known: Known::default(),
            mysql: None,
            part: None,
        }
    }

    fn part(before: &GtidState, pull: u64, number: u32, of: u32, gtid: Gtid) -> Head {
        let end = synod_upstream::FilePosition::default();
        Head {
            part: Some(PartHead {
                pull,
                number,
                is_last: number + 1 == of,
                gtid,
                mysql: None,
                end,
            }),
            ..order(before)
        }
    }

    /// The transactions of an upstream: domain and number of parts of each.
    fn upstream(shape: &[(u32, u32)]) -> Vec<(Gtid, u32)> {
        let mut next = std::collections::BTreeMap::new();
        let named = shape.iter().map(|(domain, parts)| {
            let sequence = next.entry(*domain).or_insert(0_u64);
            *sequence += 1;
            (gtid(*domain, *sequence), *parts)
        });
        named.collect()
    }

    /// Parts that a relay submits for everything after `state`.
    fn pull(all: &[(Gtid, u32)], state: &GtidState, member: u64, pull: u64) -> Vec<Logged> {
        let mut state = state.clone();
        let mut submitted = Vec::new();
        for (gtid, parts) in all {
            if state.has(*gtid) {
                continue;
            }
            for number in 0..*parts {
                let head = part(&state, pull, number, *parts, *gtid);
                submitted.push((origin(member), head));
            }
            state.add(*gtid);
        }
        submitted
    }

    /// The transactions that count, and the state at the end.
    fn read(log: &[Logged]) -> Result<(Vec<(Gtid, usize)>, GtidState), Gap> {
        let mut history = History::new();
        let mut found = Vec::new();
        for (at, (origin, head)) in log.iter().enumerate() {
            let step = history.take(Seqno(at as i64 + 1), *origin, head, at)?;
            if let Some(Whole { gtid, parts, .. }) = step {
                found.push((gtid, parts.len()));
            }
        }
        Ok((found, history.state().cloned().unwrap_or_default()))
    }

    #[test]
    fn beginning_that_another_relay_repeats_does_not_count() {
        let none = GtidState::default();
        let one = gtid(0, 1);
        let log = [
            (origin(1), part(&none, 1, 0, 3, one)),
            (origin(1), part(&none, 1, 1, 3, one)),
            (origin(2), part(&none, 1, 0, 2, one)),
            (origin(1), part(&none, 1, 2, 3, one)),
            (origin(2), part(&none, 1, 1, 2, one)),
        ];
        let (found, state) = read(&log).unwrap();
        assert_eq!(found, [(one, 2)]);
        assert_eq!(state.to_string(), "0-1-1");
    }

    #[test]
    fn what_is_missing_is_an_error_and_never_skipped() {
        let none = GtidState::default();
        let mut later = none.clone();
        later.add(gtid(0, 2));
        let log = [
            (origin(1), part(&none, 1, 0, 1, gtid(0, 1))),
            (origin(1), part(&later, 1, 0, 1, gtid(0, 3))),
        ];
        let gap = read(&log).unwrap_err();
        assert_eq!(gap.have.to_string(), "0-1-1");
        assert_eq!(gap.found.to_string(), "0-1-2");
    }

    /// Two relays give the same GTID to different transactions of MySQL.
    #[test]
    fn transactions_of_mysql_count_by_their_own_gtids() {
        let named = |number| MysqlGtid {
            uuid: synod_binlog::mysql_gtid::Uuid([1; 16]),
            tag: synod_binlog::mysql_gtid::Tag::default(),
            number,
        };
        let mut set = MysqlGtidSet::default();
        let mut of_mysql = |before: &GtidState, sequence, number| {
            let mut head = part(before, 1, 0, 1, gtid(0, sequence));
            head.mysql = Some(set.clone());
            set.add(named(number));
            head.part.as_mut().unwrap().mysql = Some(named(number));
            head
        };
        let none = GtidState::default();
        let mut one = none.clone();
        one.add(gtid(0, 1));
        let mut log = vec![
            (origin(1), of_mysql(&none, 1, 7)),
            (origin(1), of_mysql(&one, 2, 8)),
        ];
        assert_eq!(read(&log).unwrap().0.len(), 2);
        // As if another one had been the first.
        log[1].1.mysql = Some(format!("{}:9", named(9).uuid).parse().unwrap());
        assert!(read(&log).is_err());
    }

    proptest! {
        /// Relays lead one after the other. What a leader has submitted gets into the log as far as
        /// it leads; the next one pulls from where the log is. Entries of earlier pulls may come
        /// again, late, in their order.
        #[test]
        fn what_counts_is_what_the_upstream_has(
            shape in proptest::collection::vec((0_u32..3, 1_u32..4), 1..30),
            terms in proptest::collection::vec(
                (1_u64..4, 0_usize..25, proptest::option::of((0_usize..40, 1_usize..12))),
                1..12,
            ),
        ) {
            let all = upstream(&shape);
            let mut log: Vec<Logged> = vec![(origin(1), order(&GtidState::default()))];
            for (number, (member, reach, late)) in terms.into_iter().enumerate() {
                let (_, state) = read(&log).unwrap();
                let submitted = pull(&all, &state, member, number as u64);
                log.extend(submitted.into_iter().take(reach));
                if let Some((from, count)) = late {
                    let again: Vec<Logged> = log.iter().skip(from).take(count).cloned().collect();
                    log.extend(again);
                }
            }
            let (_, state) = read(&log).unwrap();
            log.extend(pull(&all, &state, 9, 99));
            let (found, state) = read(&log).unwrap();
            let expected: Vec<(Gtid, usize)> =
                all.iter().map(|(gtid, parts)| (*gtid, *parts as usize)).collect();
            prop_assert_eq!(&found, &expected);
            // Wherever a relay begins to read, it finds the same, or an error.
            for begin in 0..log.len() {
                if let Ok((tail, at_end)) = read(&log[begin..]) {
                    let from = expected.len() - tail.len().min(expected.len());
                    if at_end == state {
                        prop_assert_eq!(&tail[..], &expected[from..]);
                    }
                }
            }
        }
    }

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

//! The transactions of the upstream for one reader, from its place in the log on.
//!
//! The place is found by binary search: every entry states the upstream's position. What the reader
//! lacks, wants and can be given is decided for each transaction when its turn comes, since only
//! then everything between the reader's place and the newest one is known.

use std::sync::Arc;

use bytes::Bytes;
use synod_binlog::event::whole_events;
use synod_binlog::{EventError, Events, Gtid, GtidList, Outgoing};
use synod_node::{CommittedLog, FollowError, Followed, FollowedAction, Follower, LogIndex, Seqno};

use crate::reader_connection::own_transaction;
use crate::source::{Sink, SourceError, Transactions};
use crate::upstream_log::entry::Entry;
use crate::upstream_log::history::{GtidState, History, Whole};
use crate::upstream_log::tail::Tail;
use crate::upstream_log::{KeptError, entry_after, entry_of, last_entry_between};

/// Location of a part's events, and those already read with its head.
struct Place {
    indexes: Vec<LogIndex>,
    /// The events, if the part is the last one and in one place.
    events: Option<Bytes>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptSourceError {
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error(transparent)]
    NoStart(#[from] NoStart),
    #[error(transparent)]
    NotGiven(#[from] NotGiven),
    #[error(
        "The binlog that begins after action {} begins amid a transaction. Ask by GTID: \
         MASTER_USE_GTID = slave_pos", .0.0
    )]
    Amid(Seqno),
    #[error("transaction {gtid} cannot be given to readers: {source}")]
    Damaged { gtid: Gtid, source: EventError },
}

impl KeptSourceError {
    /// Whether this relay cannot read its log, which other relays may be able to.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        matches!(
            self,
            KeptSourceError::Kept(error) | KeptSourceError::NoStart(NoStart::Kept(error))
                if error.is_of_the_disk()
        )
    }
}

pub(crate) struct KeptSource {
    log: CommittedLog,
    tail: Arc<Tail>,
    follower: Follower,
    history: History<Place>,
    lacks: Lacks,
    /// Upstream's position at the beginning, then after the transactions given.
    state: GtidState,
}

impl Transactions for KeptSource {
    /// Gives the next transaction to `sink`, if the next action completes one.
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, SourceError> {
        self.check_purge()?;
        let followed = match self.follower.advance() {
            Err(purged @ FollowError::Purged { first }) => {
                // Amid a transaction that it has not got, if it has lost no whole one.
                let amid = KeptSourceError::Kept(purged.into());
                return Err(self.lost(first.prev())?.unwrap_or(amid).into());
            }
            followed => followed.map_err(KeptError::from),
        };
        match followed.map_err(KeptSourceError::from)? {
            None => return Ok(false),
            Some(Followed::View(_)) => {}
            Some(Followed::Action(action)) => self.action(action, sink)?,
        }
        self.follower.hold_after(self.passed());
        Ok(true)
    }

    fn last(&self) -> Seqno {
        self.follower.last()
    }

    fn passed(&self) -> Seqno {
        self.history.passed(self.follower.last())
    }

    fn gtids(&self) -> GtidList {
        self.state.list()
    }

    fn are_given(&self) -> bool {
        self.lacks.are_given(&self.state)
    }

    fn is_between(&self) -> bool {
        self.history.open_since().is_none()
    }
}

impl KeptSource {
    pub(crate) fn after_gtids(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
    ) -> Result<KeptSource, KeptSourceError> {
        let start = start(log, lacks.has())?;
        KeptSource::open(log, tail, lacks, start)
    }

    pub(crate) fn after_action(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
        after: Seqno,
    ) -> Result<KeptSource, KeptSourceError> {
        let first = super::entry_after(log, after)?;
        let state = first.as_ref().map(|(_, head)| head.before.clone());
        let part = first.and_then(|(_, head)| head.part);
        if part.is_some_and(|part| part.number > 0) {
            return Err(KeptSourceError::Amid(after));
        }
        let start = Start { after, state };
        KeptSource::open(log, tail, lacks, start)
    }

    fn open(
        log: &CommittedLog,
        tail: &Arc<Tail>,
        lacks: Lacks,
        start: Start,
    ) -> Result<KeptSource, KeptSourceError> {
        let mut follower = log.follow(start.after).map_err(KeptError::from)?;
        follower.hold_after(start.after);
        Ok(KeptSource {
            log: log.clone(),
            tail: tail.clone(),
            follower,
            history: History::new(),
            state: start.state.unwrap_or_else(|| lacks.has().clone()),
            lacks,
        })
    }

    /// Ends a dump whose next transaction was purged by force, although its files are still there:
    /// a slow reader would hold them otherwise.
    fn check_purge(&self) -> Result<(), KeptSourceError> {
        let forced = self.tail.forced();
        if forced <= self.follower.last() {
            return Ok(());
        }
        self.lost(forced)?.map_or(Ok(()), Err)
    }

    /// Error for a reader if everything up to `purged` is gone; none: it has all of that.
    fn lost(&self, purged: Seqno) -> Result<Option<KeptSourceError>, KeptSourceError> {
        let next = super::entry_after(&self.log, purged)?;
        let newest = || self.tail.end().state.unwrap_or_default();
        let begins = next.map_or_else(newest, |(_, head)| head.before);
        let lost = begins.missing_in(&self.state);
        Ok(lost.map(|lost| NoStart::Purged { lost, begins }.into()))
    }

    fn action(&mut self, action: FollowedAction, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let Some(whole) = self.taken(action)? else {
            return Ok(());
        };
        let Whole { gtid, before, .. } = whole;
        if self
            .lacks
            .wants(gtid, &before)
            .map_err(KeptSourceError::from)?
        {
            for part in &whole.parts {
                self.give(gtid, part, sink)?;
            }
        }
        self.state = before;
        self.state.add(gtid);
        Ok(())
    }

    fn taken(&mut self, action: FollowedAction) -> Result<Option<Whole<Place>>, KeptSourceError> {
        let (entry, events) = entry_of(&self.follower, &action)?;
        let Entry::Head(head) = entry else {
            return Ok(None);
        };
        let is_last = head.part.as_ref().is_some_and(|part| part.is_last);
        let is_here = is_last && action.places.len() == 1;
        let place = Place {
            indexes: action.places,
            events: is_here.then_some(events),
        };
        let step = self.history.take(action.seqno, action.origin, &head, place);
        Ok(step.map_err(KeptError::from)?)
    }

    /// Gives the events of a part. An event may reach over several places.
    fn give(&self, gtid: Gtid, part: &Place, sink: &mut dyn Sink) -> Result<(), SourceError> {
        if let Some(events) = &part.events {
            return give_events(gtid, events, sink);
        }
        let mut rest = Vec::new();
        for (number, index) in part.indexes.iter().enumerate() {
            let mut piece = self.read(*index)?;
            if number == 0 {
                // It was understood before.
                let head = Entry::decode(&mut piece);
                let seqno = self.follower.last();
                head.map_err(|source| KeptError::Entry { seqno, source })
                    .map_err(KeptSourceError::from)?;
            }
            rest.extend_from_slice(&piece);
            let whole = whole_events(&rest);
            if whole > 0 {
                // What is not whole yet is moved, since it is the smaller part: the event before it
                // may be large.
                let left = rest.split_off(whole);
                give_events(gtid, &rest, sink)?;
                rest = left;
            }
        }
        give_events(gtid, &rest, sink)
    }

    fn read(&self, index: LogIndex) -> Result<Bytes, KeptSourceError> {
        let read = self.follower.data_at(index).map_err(KeptError::from);
        Ok(read?)
    }
}

fn give_events(gtid: Gtid, events: &[u8], sink: &mut dyn Sink) -> Result<(), SourceError> {
    for event in Events::of(events) {
        let event = event.map_err(|source| KeptSourceError::Damaged { gtid, source })?;
        sink.take(&Outgoing {
            server_id: Some(event.header.server_id),
            ..Outgoing::of(&event)
        })?;
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) after: Seqno,
    /// Upstream's position there; none: the log has no entry yet.
    state: Option<GtidState>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStart {
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error(
        "What the reader lacks has been purged: transaction {lost} is not in the log, which \
         begins after '{begins}'. Copy a server again and set gtid_slave_pos from the copy, or \
         use a relay whose log begins earlier; synod.log_retain_size and synod.log_retain_age say \
         how much is kept"
    )]
    Purged {
        /// The newest transaction of its domain that the reader lacks.
        lost: Gtid,
        /// Upstream's position before the log begins.
        begins: GtidState,
    },
}

pub(crate) fn start(log: &CommittedLog, has: &GtidState) -> Result<Start, NoStart> {
    let before_log = log.first_seqno().prev();
    let end = log.readable_seqno();
    // Everything up to `low` is before the reader's place, and what follows `high` is not.
    let (mut low, mut high) = (before_log, end);
    while low < high {
        let middle = Seqno(low.0 + (high.0 - low.0) / 2);
        match entry_after(log, middle)? {
            Some((seqno, head)) if head.after().is_within(has) => low = seqno.min(high),
            Some(_) | None => high = middle,
        }
    }
    let Some((seqno, head)) = entry_after(log, low)? else {
        let state = newest(log, before_log, end)?;
        return Ok(Start { after: end, state });
    };
    let is_amid = head.part.as_ref().is_some_and(|part| part.number > 0);
    let lost = head.before.missing_in(has);
    // A transaction whose beginning was purged is lost as a whole.
    let of_amid = head.part.as_ref().filter(|_| is_amid).map(|part| part.gtid);
    if let Some(lost) = lost.or(of_amid) {
        let begins = head.before;
        return Err(NoStart::Purged { lost, begins });
    }
    Ok(Start {
        after: seqno.prev(),
        state: Some(head.before),
    })
}

/// Upstream's position at the last entry, which the reader has.
fn newest(
    log: &CommittedLog,
    before_log: Seqno,
    end: Seqno,
) -> Result<Option<GtidState>, KeptError> {
    let mut back = 1;
    loop {
        // Many notes may follow it.
        let after = Seqno(end.0.saturating_sub(back)).max(before_log);
        let newest = last_entry_between(log, after, end)?;
        if newest.is_some() || after == before_log {
            return Ok(newest.map(|head| head.after()));
        }
        back = back.saturating_mul(2);
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotGiven {
    #[error(
        "The reader is at {reader}, which the upstream never had: in that domain {next} follows \
         {before}. The reader's data are of another server; copy the upstream again"
    )]
    NeverExisted {
        reader: Gtid,
        before: String,
        next: Gtid,
    },
    #[error(
        "The reader is to stop at {until}, and that transaction is {here} on the upstream of this \
         relay. Name it as the upstream does"
    )]
    OtherEnd {
        /// The place at which the reader wants to stop.
        until: Gtid,
        /// The transaction with that number.
        here: Gtid,
    },
    #[error("{}", own_transaction(*.0))]
    OwnNumber(Gtid),
}

/// The place from which one reader continues, by its own words.
#[derive(Debug)]
pub(crate) struct Lacks {
    /// The reader's `server_id`; zero: it has none.
    server_id: u32,
    has: GtidState,
    /// The newest GTID of each domain that the reader wants: of other domains nothing. None: all.
    until: Option<GtidState>,
    /// Domains in which what the reader has was found here.
    checked: Vec<u32>,
}

impl Lacks {
    /// A reader with this `server_id` that has everything up to `has`, and wants everything up to
    /// `until`.
    pub(crate) fn new(server_id: u32, has: GtidState, until: Option<GtidState>) -> Lacks {
        Lacks {
            server_id,
            has,
            until,
            checked: Vec::new(),
        }
    }

    /// The newest GTID of each domain that the reader had at its beginning.
    fn has(&self) -> &GtidState {
        &self.has
    }

    /// Whether the reader has all that it wants, when it was given everything up to `state`.
    fn are_given(&self, state: &GtidState) -> bool {
        let has = |gtid| state.has(gtid) || self.has.has(gtid);
        let until = self.until.as_ref();
        until.is_some_and(|until| until.gtids().all(has))
    }

    /// Whether the reader is to get the transaction that comes next, after `before`.
    fn wants(&mut self, next: Gtid, before: &GtidState) -> Result<bool, NotGiven> {
        let reader = self.has.of_domain(next.domain);
        if let Some(reader) = reader.filter(|reader| next.sequence <= reader.sequence) {
            let is_another = next.sequence == reader.sequence && !next.may_be(reader);
            let before = before.of_domain(next.domain);
            return match is_another {
                true => Err(never_existed(reader, before, next)),
                false => Ok(false),
            };
        }
        if !self.is_before_end(next)? {
            return Ok(false);
        }
        if self.server_id != 0 && next.server_id == self.server_id {
            return Err(NotGiven::OwnNumber(next));
        }
        if !self.checked.contains(&next.domain) {
            self.checked.push(next.domain);
            let before = before.of_domain(next.domain);
            let is_there = |reader| before.is_some_and(|before: Gtid| before.may_be(reader));
            if let Some(reader) = reader.filter(|reader| !is_there(*reader)) {
                return Err(never_existed(reader, before, next));
            }
        }
        Ok(true)
    }

    /// Whether a transaction is at or before the place where the reader wants to stop.
    fn is_before_end(&self, next: Gtid) -> Result<bool, NotGiven> {
        let Some(until) = &self.until else {
            return Ok(true);
        };
        match until.of_domain(next.domain) {
            Some(until) if until.sequence == next.sequence && !until.may_be(next) => {
                Err(NotGiven::OtherEnd { until, here: next })
            }
            _ => Ok(until.has(next)),
        }
    }
}

fn never_existed(reader: Gtid, before: Option<Gtid>, next: Gtid) -> NotGiven {
    NotGiven::NeverExisted {
        reader,
        before: before.map_or_else(|| "its beginning".to_owned(), |gtid| gtid.to_string()),
        next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a history of transactions to a reader: the GTIDs that it gets, and how it ends.
    fn given(server_id: u32, has: &str, history: &[&str]) -> (Vec<String>, Option<String>) {
        given_by(Lacks::new(server_id, state(has), None), history)
    }

    fn state(text: &str) -> GtidState {
        GtidState::of(&text.parse().unwrap())
    }

    fn given_by(mut lacks: Lacks, history: &[&str]) -> (Vec<String>, Option<String>) {
        let (mut state, mut gets) = (GtidState::default(), Vec::new());
        for gtid in history {
            if lacks.are_given(&state) {
                break;
            }
            let next = gtid.parse().unwrap();
            match lacks.wants(next, &state) {
                Ok(true) => gets.push((*gtid).to_owned()),
                Ok(false) => {}
                Err(error) => return (gets, Some(error.to_string())),
            }
            state.add(next);
        }
        (gets, None)
    }

    /// Server 1 has written, then server 2.
    const HANDED_OVER: [&str; 4] = ["0-1-1", "0-1-2", "0-2-3", "0-2-4"];

    #[test]
    fn server_that_lacks_an_older_transaction_of_its_own_does_not_pass_it_silently() {
        let (gets, told) = given(1, "0-1-1", &HANDED_OVER);
        assert_eq!(gets, [""; 0]);
        let told = told.unwrap();
        assert!(
            told.contains("server_id is 1") && told.contains("0-1-2"),
            "{told}"
        );
        assert_eq!(given(3, "0-1-1", &HANDED_OVER).0, HANDED_OVER[1..]);
        assert_eq!(given(0, "", &HANDED_OVER), (owned(&HANDED_OVER), None));
    }

    #[test]
    fn former_primary_that_has_all_of_its_own_goes_on() {
        let from = |has: &str| given(1, has, &HANDED_OVER);
        assert_eq!(from("0-1-2"), (owned(&HANDED_OVER[2..]), None));
        assert_eq!(from("0-2-3"), (owned(&HANDED_OVER[3..]), None));
        assert_eq!(from("0-2-4"), (vec![], None));
    }

    #[test]
    fn what_a_reader_names_is_compared_whole() {
        let told = |has: &str, history: &[&str]| given(9, has, history).1.unwrap();
        assert!(told("0-7-2", &HANDED_OVER).contains("0-7-2, which the upstream never had"));
        let newest = told("0-7-4", &HANDED_OVER);
        assert!(newest.contains("0-2-4 follows 0-2-3"), "{newest}");
        // The domain begins after the reader.
        let later = told("3-1-2", &["0-1-1", "3-5-1", "3-5-2"]);
        assert!(later.contains("3-5-2 follows 3-5-1"), "{later}");
        assert_eq!(given(9, "3-1-2,0-1-1", &HANDED_OVER).1, None);
        // It does not know where the transaction began.
        assert_eq!(
            given(9, "0-0-2", &HANDED_OVER),
            (owned(&HANDED_OVER[2..]), None)
        );
    }

    #[test]
    fn reader_gets_all_and_only_what_is_before_its_end() {
        const TWO_DOMAINS: [&str; 6] = ["0-1-1", "3-1-1", "0-1-2", "3-1-2", "0-1-4", "3-1-3"];
        let until = |end: &str| {
            let lacks = Lacks::new(9, state("0-1-1"), Some(state(end)));
            given_by(lacks, &TWO_DOMAINS)
        };
        assert_eq!(until("0-1-2,3-1-1").0, ["3-1-1", "0-1-2"]);
        assert_eq!(until("0-1-4,3-1-1").0, ["3-1-1", "0-1-2", "0-1-4"]);
        assert_eq!(
            until("0-1-3").0,
            ["0-1-2"],
            "no transaction has this number"
        );
        for (end, gets) in [
            ("3-1-2", vec!["3-1-1", "3-1-2"]),
            ("0-1-1", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(until(end), (owned(&gets), None), "{end}");
        }
        let (gets, told) = until("0-5-4");
        assert_eq!(gets, ["0-1-2"]);
        assert!(told.unwrap().contains("that transaction is 0-1-4 on"));
    }

    fn owned(gtids: &[&str]) -> Vec<String> {
        gtids.iter().map(|gtid| (*gtid).to_owned()).collect()
    }
}

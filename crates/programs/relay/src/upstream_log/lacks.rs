//! The part of a history that one reader lacks, wants and can be given: decided for each
//! transaction when its turn comes, since only then everything between the reader's place and the
//! newest one is known.

use synod_binlog::Gtid;

use super::state::GtidState;
use crate::duplicate_server_id;

/// Why the next transaction cannot be given to a reader.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotGiven {
    /// The reader names a transaction that the upstream never had.
    #[error(
        "The reader is at {reader}, which the upstream never had: in that domain {next} follows \
         {before}. The reader's data are of another server; copy the upstream again"
    )]
    NeverExisted {
        /// The place that the reader names.
        reader: Gtid,
        /// The transaction before that place.
        before: String,
        /// The one after it, or the one with the same number.
        next: Gtid,
    },
    /// The reader is to stop at a transaction that is another one here.
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
    /// The reader would leave out the next transaction, as if it had written that itself.
    #[error("{}", duplicate_server_id::own_transaction(*.0))]
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
    pub(super) fn has(&self) -> &GtidState {
        &self.has
    }

    /// Whether the reader has all that it wants, when it was given everything up to `state`.
    pub(super) fn are_given(&self, state: &GtidState) -> bool {
        let has = |gtid| state.has(gtid) || self.has.has(gtid);
        let until = self.until.as_ref();
        until.is_some_and(|until| until.gtids().all(has))
    }

    /// Whether the reader is to get the transaction that comes next, after `before`.
    ///
    /// # Errors
    /// The transaction cannot be given to this reader.
    pub(super) fn wants(&mut self, next: Gtid, before: &GtidState) -> Result<bool, NotGiven> {
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

//! Entries that this member's database needs and its own log lacks: what a reader wants, and what
//! the driver has fetched of it from other members. A reader (delivery, or a host's thread that
//! joins) states one [`FetchWish`] at a time and sends the driver [`crate::Event::Fetch`]. The
//! driver asks other members, one after the other, and puts the answer here, which moves the log
//! for the reader ([`crate::Shared::new`]). The entries are in memory, so an answer is bounded
//! ([`crate::Tuning::catch_up_bytes`]), and the reader takes it before it wants more.

use std::sync::Mutex;

use synod_consensus::LogIndex;
use synod_log::Entry;
use synod_wire::FetchFrom;

use crate::shared::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchWish {
    pub(crate) from: FetchFrom,
    /// The last entry, if the reader does not want all up to its own log.
    pub(crate) to: Option<LogIndex>,
    /// The reader will want no entry before this one; zero: it does not know yet.
    pub(crate) needed_from: LogIndex,
    /// Whether it wants payloads. Otherwise only those of views come, and the others are empty.
    pub(crate) with_payloads: bool,
}

impl FetchWish {
    pub(crate) fn all_from(from: FetchFrom, needed_from: LogIndex) -> FetchWish {
        FetchWish {
            from,
            to: None,
            needed_from,
            with_payloads: true,
        }
    }
}

/// No member that is present has the entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked}")]
pub struct NotFetched {
    pub asked: String,
}

/// Fetched entries: consecutive from the beginning of the wish, at least one.
pub(crate) type FetchResult = Result<Vec<Entry>, NotFetched>;

#[derive(Default)]
pub(crate) struct FetchBox(Mutex<Option<(FetchWish, Option<FetchResult>)>>);

impl FetchBox {
    /// Takes the answer to this wish. If there is none, this is what the reader wants from now on.
    pub(crate) fn take(&self, wish: FetchWish) -> Option<FetchResult> {
        let mut state = lock(&self.0);
        let answer = match state.take() {
            Some((of, answer)) if of == wish => answer,
            _ => None,
        };
        if answer.is_none() {
            *state = Some((wish, None));
        }
        answer
    }

    /// Like [`FetchBox::take`], but leaves the entries for a reader that wants the same.
    pub(crate) fn is_there(&self, wish: FetchWish) -> Option<Result<(), NotFetched>> {
        let answer = self.take(wish)?;
        let found = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        if found.is_ok() {
            *lock(&self.0) = Some((wish, Some(answer)));
        }
        Some(found)
    }

    pub(crate) fn wanted(&self) -> Option<FetchWish> {
        let state = lock(&self.0);
        state
            .as_ref()
            .filter(|(_, answer)| answer.is_none())
            .map(|(wish, _)| *wish)
    }

    /// The answer to this wish has come. Ignored if something else is wanted by now.
    pub(crate) fn put(&self, wish: FetchWish, answer: FetchResult) {
        let mut state = lock(&self.0);
        if let Some((of, slot @ None)) = state.as_mut()
            && *of == wish
        {
            *slot = Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::Seqno;

    fn after(seqno: i64) -> FetchWish {
        FetchWish::all_from(FetchFrom::After(Seqno(seqno)), LogIndex(0))
    }

    #[test]
    fn answer_is_taken_once_by_who_wants_it() {
        let fetched = FetchBox::default();
        assert_eq!(fetched.wanted(), None);
        assert_eq!(fetched.take(after(7)), None);
        assert_eq!(fetched.wanted(), Some(after(7)));
        fetched.put(after(3), Ok(Vec::new()));
        assert_eq!(fetched.take(after(7)), None, "not the answer to this");
        fetched.put(after(7), Ok(Vec::new()));
        assert_eq!(fetched.wanted(), None);
        assert_eq!(fetched.take(after(7)), Some(Ok(Vec::new())));
        assert_eq!(fetched.take(after(7)), None);
    }

    #[test]
    fn entries_that_were_looked_for_stay_for_their_reader() {
        let fetched = FetchBox::default();
        assert_eq!(fetched.is_there(after(7)), None);
        fetched.put(after(7), Ok(Vec::new()));
        assert_eq!(fetched.is_there(after(7)), Some(Ok(())));
        assert_eq!(fetched.take(after(7)), Some(Ok(Vec::new())));
        assert_eq!(fetched.take(after(8)), None);
        let nowhere = NotFetched {
            asked: "no member".to_owned(),
        };
        fetched.put(after(8), Err(nowhere.clone()));
        assert_eq!(fetched.is_there(after(8)), Some(Err(nowhere)));
        assert_eq!(fetched.is_there(after(8)), None, "it is asked again");
    }
}

//! Causal reads are never stale (promise P4), those with a bound not beyond it.
//!
//! The position of a read is at or after everything that was committed anywhere when the client
//! asked. A database lacks nothing that was committed before its age, as its member states it.

use std::collections::BTreeMap;

use synod_consensus::{EntryHeader, LogIndex, MemberId, Seqno};

use super::{Checked, Violation, require};

#[derive(Default)]
pub(crate) struct Reads {
    asked: BTreeMap<u64, (MemberId, LogIndex)>,
    next: u64,
    /// Positions that the core has given and the member has not passed on yet.
    answers: BTreeMap<u64, Seqno>,
}

impl Reads {
    /// A client at a member asks while everything up to `committed` is committed. Returns the id of
    /// the read.
    pub(crate) fn ask(&mut self, member: MemberId, committed: LogIndex) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, (member, committed));
        self.next
    }

    /// The core's answer; `committed` is the committed entry at its index, if one is known.
    pub(crate) fn answer(
        &mut self,
        member: MemberId,
        id: u64,
        index: LogIndex,
        seqno: Seqno,
        committed: Option<&EntryHeader>,
    ) -> Checked {
        let Some((asker, at_least)) = self.asked.remove(&id) else {
            return Err(Violation {
                rule: "reads are answered once",
                what: format!("{member} gets an answer to {id}, which no client asked"),
            });
        };
        self.answers.insert(id, seqno);
        require(asker == member, "reads are answered once", || {
            format!("{member} gets the answer to a read of {asker}")
        })?;
        require(index >= at_least, "no stale read", || {
            format!("{member} reads at {index}, but {at_least} was committed when it asked")
        })?;
        let right = committed.is_none_or(|header| header.seqno == seqno);
        require(right, "no stale read", || {
            format!("{member} reads at {index} as seqno {seqno}, committed is {committed:?}")
        })
    }

    /// The member passes a position on to the client: it must be that of the core's answer.
    pub(crate) fn passed_on(&mut self, member: MemberId, id: u64, seqno: Seqno) -> Checked {
        let answer = self.answers.remove(&id);
        require(answer == Some(seqno), "reads are answered once", || {
            format!("{member} answers {id} with {seqno}, the core's answer was {answer:?}")
        })
    }

    /// The database of `member`, which is said to be no older than `age_us`, has lacked an action
    /// for `lag_us`.
    pub(crate) fn is_as_young(member: MemberId, age_us: u64, lag_us: u64) -> Checked {
        require(
            lag_us <= age_us,
            "no database is older than its member says",
            || {
                format!(
                    "{member} says that its database is at most {age_us} us old, but it has lacked an \
                 action for {lag_us} us"
                )
            },
        )
    }

    /// The member's process has ended, and its clients with it.
    pub(crate) fn forget(&mut self, member: MemberId) {
        self.asked.retain(|_, (asker, _)| *asker != member);
    }

    pub(crate) fn is_open(&self, member: MemberId) -> bool {
        self.asked.values().any(|(asker, _)| *asker == member)
    }
}

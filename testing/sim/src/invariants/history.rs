//! One history: every database gets the committed actions, complete and in order, and the answers
//! to clients are true (promises P2, P3).
//!
//! A write that timed out is unknown, never absent.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId, MemberId, Seqno};
use synod_member::{Delivery, View};

use super::{Checked, Violation, require};
use crate::clients::content::Content;

/// Expected action of every database at a seqno.
enum What {
    Action(Bytes),
    View(View),
}

#[derive(Default)]
pub(crate) struct History {
    steps: BTreeMap<Seqno, (EntryHeader, What)>,
    ordered: BTreeMap<u64, Seqno>,
    refused: BTreeSet<u64>,
}

impl History {
    /// Forgets what is committed. If committed entries are lost, refusals are forgotten, too: the
    /// new leader's log may hold proposals that were refused because of lost entries.
    pub(crate) fn forget_committed(&mut self, is_lost: bool) {
        self.steps.clear();
        self.ordered.clear();
        if is_lost {
            self.refused.clear();
        }
    }

    /// An action is committed for the first time; `data` is all of it.
    pub(crate) fn action(
        &mut self,
        header: &EntryHeader,
        data: Bytes,
    ) -> Result<Content, Violation> {
        self.steps
            .insert(header.seqno, (*header, What::Action(data.clone())));
        let content = Content::decode(data).ok_or_else(|| Violation {
            rule: "committed payloads are what was proposed",
            what: format!("{header:?} carries something else"),
        })?;
        let transaction = content.transaction;
        let before = self.ordered.insert(transaction, header.seqno);
        require(before.is_none(), "a transaction is ordered once", || {
            format!(
                "{transaction} is committed at seqno {before:?} and {}",
                header.seqno
            )
        })?;
        let refused = self.refused.contains(&transaction);
        require(!refused, "refused means absent", || {
            format!("{transaction} was refused, and is committed by {header:?}")
        })?;
        Ok(content)
    }

    /// A view is committed for the first time.
    pub(crate) fn view(&mut self, header: &EntryHeader, payload: &Bytes) -> Checked {
        let view = View::decode(header.seqno, payload.clone()).map_err(|error| Violation {
            rule: "committed payloads are what was proposed",
            what: format!("{header:?}: {error}"),
        })?;
        self.steps.insert(header.seqno, (*header, What::View(view)));
        Ok(())
    }

    /// A client got the answer that its transaction was refused.
    pub(crate) fn refused(&mut self, transaction: u64) -> Checked {
        self.refused.insert(transaction);
        let ordered = self.ordered.get(&transaction);
        require(ordered.is_none(), "refused means absent", || {
            format!("{transaction} is refused, but it is committed at {ordered:?}")
        })
    }

    /// A client got the answer that its transaction is committed at a seqno. Returns the entry
    /// there.
    pub(crate) fn entry_of(&self, transaction: u64, seqno: Seqno) -> Result<EntryId, Violation> {
        let known = self.ordered.get(&transaction).copied();
        let entry = self.steps.get(&seqno).map(|(header, _)| header.id());
        match entry.filter(|_| known == Some(seqno)) {
            Some(entry) => Ok(entry),
            None => Err(Violation {
                rule: "acknowledged means committed",
                what: format!(
                    "{transaction} is acknowledged at seqno {seqno}, but committed at {known:?}"
                ),
            }),
        }
    }

    /// A member's database, which has applied everything up to `applied`, gets a delivery.
    pub(crate) fn delivered(
        &self,
        member: MemberId,
        applied: Seqno,
        delivery: &Delivery,
    ) -> Checked {
        let seqno = delivery.seqno();
        let next = seqno == applied.next();
        require(next, "databases get every action once, in order", || {
            format!("{member} gets seqno {seqno} after {applied}")
        })?;
        let same = match (self.steps.get(&seqno), delivery) {
            (Some((_, What::View(known))), Delivery::View(view)) => known == view,
            (
                Some((header, What::Action(known))),
                Delivery::Action {
                    depends_on,
                    origin,
                    data,
                    ..
                },
            ) => {
                *depends_on == header.depends_on
                    && *origin == header.origin
                    && data.as_ref().is_none_or(|data| data == known)
            }
            _ => false,
        };
        require(same, "the same actions everywhere", || {
            let known = self.steps.get(&seqno).map(|(header, _)| header);
            format!("{member} gets {delivery:?}, committed is {known:?}")
        })
    }
}

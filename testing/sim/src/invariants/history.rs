//! One history: every database is handed the committed actions, whole and in order, and clients are
//! told the truth about theirs (promises P2, P3). A write that timed out is unknown, never absent.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryId, MemberId, Seqno};
use synod_member::{Delivery, View};

use super::{Checked, Violation, require};
use crate::clients::content::Content;

/// What everybody has to be handed.
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
    /// To be told again what is committed. If some of it is lost, so are the grounds for refusals: the new
    /// leader's log may have what was refused after the lost ones had replaced it.
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

    /// A client was told that its transaction was refused.
    pub(crate) fn refused(&mut self, transaction: u64) -> Checked {
        self.refused.insert(transaction);
        let ordered = self.ordered.get(&transaction);
        require(ordered.is_none(), "refused means absent", || {
            format!("{transaction} is refused, but it is committed at {ordered:?}")
        })
    }

    /// A client was told that its transaction is committed at a position; the entry there.
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

    /// A member's database, which has everything up to `applied`, is handed something.
    pub(crate) fn delivered(
        &self,
        member: MemberId,
        applied: Seqno,
        delivery: &Delivery,
    ) -> Checked {
        let seqno = delivery.seqno();
        let next = seqno == applied.next();
        require(next, "databases get every action once, in order", || {
            format!("{member} is handed seqno {seqno} after {applied}")
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
            format!("{member} is handed {delivery:?}, committed is {known:?}")
        })
    }
}

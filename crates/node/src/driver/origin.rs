//! Proposals of this member: on their way to the leader, and back as committed entries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryKind, Origin, Term};
use synod_wire::{PeerMessage, Propose, RefusedWhy};

use super::{Driver, Submission};
use crate::host::Level;
use crate::pending::{Fate, Pending};

/// A proposal whose outcome is not known.
pub(super) struct Submitted {
    kind: EntryKind,
    payload: Bytes,
    pending: Arc<Pending>,
}

impl Driver {
    pub(super) fn submit(&mut self, submission: Submission) {
        let Submission { kind, payload, pending } = submission;
        let given_up = pending.fate().is_some();
        if given_up || !self.links.shared.is_primary() || self.leaving.is_some() {
            self.links.pending_budget.give_back(payload.len());
            pending.decide(Fate::Unknown);
            return;
        }
        let number = self.outbox.submit();
        self.submitted.insert(number, Submitted { kind, payload, pending });
    }

    /// Sends what is due to the leader; whether anything was due.
    pub(super) fn send_proposals(&mut self) -> bool {
        let mut sent = false;
        while let Some(send) = self.outbox.poll_send() {
            sent = true;
            let Some(submitted) = self.submitted.get(&send.number) else {
                self.outbox.forget(send.number);
                continue;
            };
            let propose = Propose {
                tag: send.tag,
                origin: Origin {
                    member: self.me.member,
                    session: self.me.session,
                    number: send.number,
                },
                kind: submitted.kind,
                oldest_outstanding: self.outbox.oldest_outstanding().unwrap_or(send.number),
                payload: submitted.payload.clone(),
            };
            if send.to == self.me.member {
                self.handle_propose(self.me.member, propose);
            } else {
                self.send(send.to, PeerMessage::Propose(propose));
            }
        }
        sent
    }

    /// The leader has refused a proposal.
    pub(super) fn proposal_refused(&mut self, term: Term, number: u64, reason: RefusedWhy) {
        let fate = match reason {
            // The proposal is still ours to send again, to whoever leads next.
            RefusedWhy::NotLeader => return,
            RefusedWhy::Conflict { .. } => Fate::Conflict,
            RefusedWhy::TooOld { .. } => Fate::TooOld,
            RefusedWhy::Malformed | RefusedWhy::TooLarge => {
                self.log(Level::Error, format!("the leader refused a proposal: {reason:?}"));
                Fate::Rejected
            }
        };
        if self.outbox.refused(term, number) {
            if let Some(submitted) = self.take_submitted(number) {
                submitted.pending.decide(fate);
            }
        }
    }

    /// An entry of this session was committed.
    pub(super) fn own_committed(&mut self, number: u64, header: &EntryHeader) {
        let Some(submitted) = self.take_submitted(number) else { return };
        if header.kind != EntryKind::Action {
            return;
        }
        let fate = Fate::Ordered { seqno: header.seqno, depends_on: header.depends_on };
        // Attached before the decision: the client may finish before this thread goes on, and the
        // delivery thread must find it either way.
        self.links.shared.attach_local(header.seqno, submitted.pending.clone());
        if !submitted.pending.decide(fate) {
            self.links.shared.take_local(header.seqno);
        }
    }

    fn take_submitted(&mut self, number: u64) -> Option<Submitted> {
        let submitted = self.submitted.remove(&number)?;
        self.links.pending_budget.give_back(submitted.payload.len());
        Some(submitted)
    }

    /// The group is lost: nobody waits any longer. What was proposed may still be ordered.
    pub(super) fn abandon_submissions(&mut self) {
        let mut numbers: Vec<u64> = self.submitted.keys().copied().collect();
        numbers.sort_unstable();
        if !numbers.is_empty() {
            self.links.shared.epoch.fetch_add(1, Ordering::AcqRel);
        }
        for number in numbers {
            self.outbox.forget(number);
            if let Some(submitted) = self.take_submitted(number) {
                submitted.pending.decide(Fate::Unknown);
            }
        }
    }
}

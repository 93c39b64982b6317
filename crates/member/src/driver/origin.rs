//! Proposals of this member: on their way to the leader, and back as committed entries.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryKind, MemberId, Origin, Term};
use synod_wire::{PeerMessage, ProposalRefusal, Propose};

use super::{Driver, Submission};
use crate::client::{ProposalResult, WaitPolicy, Waiter};
use crate::host::Level;
use crate::snapshots::Snapshot;

/// A proposal whose outcome is not known.
pub(super) struct Submitted {
    kind: EntryKind,
    payload: Bytes,
    waiter: Waiter,
    /// Held as long as the piece is on its way.
    _held: (Arc<Snapshot>, Option<Box<dyn Any + Send>>),
}

impl Driver {
    pub(super) fn submit(&mut self, submission: Submission) {
        let Submission {
            kind,
            payload,
            waiter,
            snapshot,
            held,
        } = submission;
        let given_up = waiter.is_decided();
        if given_up || !self.links.shared.is_primary() || self.membership.leave.is_under_way() {
            // Without its last piece an action is never ordered.
            waiter.decide(ProposalResult::NotProposed);
            return;
        }
        let number = self.outbox.submit();
        self.submitted.insert(
            number,
            Submitted {
                kind,
                payload,
                waiter,
                _held: (snapshot, held),
            },
        );
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
            } else if let Some(connection) = self.connections.to(send.to) {
                let message = PeerMessage::Propose(propose);
                self.links.peers.send_over(send.to, connection, message);
            }
        }
        sent
    }

    /// A connection to or from a member is new. If it leads, proposals or refusals may have got lost
    /// with the one before.
    pub(super) fn repeat_proposals(&mut self, member: MemberId) {
        if self.core.leader().is_none_or(|leader| leader == member) {
            self.outbox.reconnected();
        }
    }

    /// The log began anew, behind entries that this member has not seen: what it proposed may be
    /// among them, so it is not sent again.
    pub(super) fn forget_unseen(&mut self) {
        if synod_planted::is(synod_planted::Bug::ResendAfterReset) {
            return;
        }
        let numbers = self.outbox.log_reset(self.core.base().last.term);
        self.give_up(&numbers);
    }

    /// The leader has refused a proposal.
    pub(super) fn proposal_refused(&mut self, term: Term, number: u64, reason: ProposalRefusal) {
        let fate = match reason {
            ProposalRefusal::Conflict { with } => ProposalResult::Conflict { with },
            ProposalRefusal::TooOld => ProposalResult::TooOld,
            ProposalRefusal::GivenUp => ProposalResult::GivenUp,
            ProposalRefusal::Malformed => {
                self.log(
                    Level::Error,
                    format!("the leader refused a proposal: {reason:?}"),
                );
                ProposalResult::Rejected
            }
        };
        if self.outbox.refused(term, number)
            && let Some(submitted) = self.submitted.remove(&number)
        {
            submitted.waiter.decide(fate);
        }
    }

    /// An entry of this session was committed.
    pub(super) fn own_committed(&mut self, number: u64, header: &EntryHeader) {
        let Some(submitted) = self.submitted.remove(&number) else {
            return;
        };
        if header.kind != EntryKind::Action {
            // The last piece brings the decision.
            submitted.waiter.release();
            return;
        }
        let fate = ProposalResult::Ordered {
            seqno: header.seqno,
            depends_on: header.depends_on,
        };
        // Attached before the decision: the client may finish before this thread goes on, and the
        // delivery thread must find it either way.
        self.links.shared.attach_local(header.seqno);
        if !submitted.waiter.decide(fate) && !synod_planted::is(synod_planted::Bug::LeaveToTheDead)
        {
            self.links.shared.take_local(header.seqno);
        }
    }

    /// The group is lost: nobody waits any longer, but for those with more patience, whose
    /// proposals are sent again once there is a leader. What was proposed may still be ordered.
    pub(super) fn abandon_submissions(&mut self) {
        let hasty = |(number, submitted): (&u64, &Submitted)| {
            (submitted.waiter.patience() == WaitPolicy::UntilGroupLost).then_some(*number)
        };
        let numbers: Vec<u64> = self.submitted.iter().filter_map(hasty).collect();
        for number in &numbers {
            self.outbox.forget(*number);
        }
        self.give_up(&numbers);
    }

    fn give_up(&mut self, numbers: &[u64]) {
        if !numbers.is_empty() && !synod_planted::is(synod_planted::Bug::NoEpoch) {
            // Before the clients let go of their locks.
            self.links.shared.epoch().fetch_add(1, Ordering::AcqRel);
        }
        for number in numbers {
            let number = *number;
            if let Some(submitted) = self.submitted.remove(&number) {
                submitted.waiter.decide(ProposalResult::Unknown);
            }
        }
    }
}

//! The driver's dealings with proposals and reads: takes them from clients and members, appends
//! what the leader orders, and lets clients know how it ended.

use std::sync::atomic;

use bytes::Bytes;
use synod_consensus::{
    EntryHeader, EntryKind, MemberId, Origin, Proposal, ProposeError, Seqno, SessionId, Term,
};
use synod_log::PAYLOAD_BYTES_MAX;
use synod_wire::{PeerMessage, ProposalRefusal, Propose};

use super::local::Submitted;
use super::ordering::ProposalAnswer;
use crate::client::ProposalResult;
use crate::driver::writers::WriterRule;
use crate::driver::{Driver, ReadDone, Submission};
use crate::host::Level;
use crate::payload::discard::Discard;

impl Driver {
    // --- this member's own proposals ---------------------------------------------------------

    pub(in crate::driver) fn submit(&mut self, submission: Submission) {
        let is_abandoned = submission.waiter.is_decided();
        let is_leaving = self.membership.leave.is_under_way();
        if is_abandoned || !self.ctx.links.shared.is_primary() || is_leaving {
            // Without its last piece an action is never ordered.
            submission.waiter.decide(ProposalResult::NotProposed);
            return;
        }
        self.proposals.local.submit(submission);
    }

    /// Sends what is due to the leader; whether anything was due.
    pub(in crate::driver) fn send_proposals(&mut self) -> bool {
        let mut sent = false;
        while let Some(outgoing) = self.proposals.local.next_send() {
            sent = true;
            if outgoing.to == self.ctx.identity.me.member {
                self.handle_propose(outgoing.to, outgoing.propose);
            } else if let Some(connection) = outgoing.connection {
                let message = PeerMessage::Propose(outgoing.propose);
                self.ctx
                    .links
                    .peers
                    .send_over(outgoing.to, connection, message);
            }
        }
        sent
    }

    /// A connection to or from a member is new. If that member leads, proposals or refusals may be
    /// lost with the connection before.
    pub(in crate::driver) fn repeat_proposals(&mut self, member: MemberId) {
        if self.ctx.core.leader().is_none_or(|leader| leader == member) {
            self.proposals.local.repeat();
        }
    }

    /// The leader has refused a proposal.
    pub(in crate::driver) fn proposal_refused(
        &mut self,
        term: Term,
        number: u64,
        reason: ProposalRefusal,
    ) {
        let result = match reason {
            ProposalRefusal::Conflict { with } => ProposalResult::Conflict { with },
            ProposalRefusal::TooOld => ProposalResult::TooOld,
            ProposalRefusal::GivenUp => ProposalResult::GivenUp,
            ProposalRefusal::NotWriter => ProposalResult::NotWriter,
            ProposalRefusal::Malformed => {
                self.ctx.log(
                    Level::Error,
                    format!("the leader refused a proposal: {reason:?}"),
                );
                ProposalResult::Rejected
            }
        };
        if let Some(submitted) = self.proposals.local.refused(term, number) {
            submitted.waiter.decide(result);
        }
    }

    /// An entry is committed: it may be a proposal of this session.
    pub(in crate::driver) fn proposal_committed(&mut self, header: &EntryHeader) {
        let Some(submitted) = self.proposals.local.committed(header) else {
            return;
        };
        if submitted.kind != EntryKind::Action {
            // The last piece brings the decision.
            submitted.waiter.release();
            return;
        }
        let result = ProposalResult::Ordered {
            seqno: header.seqno,
            depends_on: header.depends_on,
        };
        // Attached before the decision: the client may finish before this thread continues, and the
        // delivery thread must find it either way.
        self.ctx.links.shared.attach_local(header.seqno);
        let is_taken = submitted.waiter.decide(result);
        if !synod_planted::planted!(LeaveToTheDead, is_taken, else true) {
            self.ctx.links.shared.take_local(header.seqno);
        }
    }

    /// The log was reset, beyond entries that this member has not seen.
    pub(in crate::driver) fn withdraw_after_reset(&mut self) {
        if synod_planted::is(synod_planted::Bug::ResendAfterReset) {
            return;
        }
        let withdrawn = self
            .proposals
            .local
            .log_reset(self.ctx.core.base().last.term);
        self.end_unknown(withdrawn);
    }

    /// The group is lost: most clients wait no longer.
    pub(in crate::driver) fn withdraw_proposals(&mut self) {
        let withdrawn = self.proposals.local.group_lost();
        self.end_unknown(withdrawn);
    }

    fn end_unknown(&mut self, withdrawn: Vec<Submitted>) {
        if !withdrawn.is_empty() && !synod_planted::is(synod_planted::Bug::NoEpoch) {
            // Before the clients let go of their locks.
            let epoch = self.ctx.links.shared.epoch();
            epoch.fetch_add(1, atomic::Ordering::AcqRel);
        }
        for submitted in withdrawn {
            submitted.waiter.decide(ProposalResult::Unknown);
        }
    }

    // --- ordering, as the leader -------------------------------------------------------------

    /// A proposal of this or another member.
    pub(in crate::driver) fn handle_propose(&mut self, from: MemberId, propose: Propose) {
        if !self.ctx.core.is_leader() {
            // The origin notices the change of leader by itself and sends again.
            return;
        }
        match self.proposals.ordering.arrived(from, propose) {
            Ok(Some(propose)) => {
                self.order(propose);
            }
            Ok(None) => {}
            Err(_) => self.ctx.log(
                Level::Warning,
                format!("ignoring a malformed proposal of member {from}"),
            ),
        }
    }

    /// Orders what waited for room; whether any of it was.
    pub(in crate::driver) fn order_waiting(&mut self) -> bool {
        let mut ordered = false;
        for _ in 0..self.proposals.ordering.waiting() {
            let Some(propose) = self.proposals.ordering.next_waiting() else {
                break;
            };
            if !self.order(propose) {
                break;
            }
            ordered = true;
        }
        ordered
    }

    /// Orders or refuses a proposal; false if there is no room, and it waits.
    fn order(&mut self, propose: Propose) -> bool {
        let is_disk_behind = self
            .ctx
            .own_log
            .is_disk_behind(self.ctx.core.durable_index());
        // Chunks cost the databases nothing before the last piece comes.
        let is_admitted = propose.kind == EntryKind::Chunk
            || self.flow_control.has_room_for_action(self.ctx.turns.now);
        let has_room = !is_disk_behind && !self.ctx.links.shared.is_log_full() && is_admitted;
        let writers = self.writer_rule();
        let depends_on = match self.rule_on(&propose, has_room, writers) {
            ProposalAnswer::Ignore => return true,
            ProposalAnswer::Wait => {
                self.proposals.ordering.put_back(propose);
                return false;
            }
            ProposalAnswer::Refuse(reason) => {
                self.refuse(&propose, reason);
                self.discard_refused(&propose);
                return true;
            }
            ProposalAnswer::TooMuch(why) => {
                let Origin { member, .. } = propose.origin;
                let text = format!(
                    "refusing a large action of member {member}: {why}; commit less at a time, or \
                     fewer large transactions at once"
                );
                self.ctx.log(Level::Warning, text);
                self.refuse(&propose, ProposalRefusal::GivenUp);
                self.discard_refused(&propose);
                return true;
            }
            ProposalAnswer::Malformed(error) => {
                let text = format!("proposal {:?}: {error}", propose.origin);
                self.ctx.log(Level::Error, text);
                self.refuse(&propose, ProposalRefusal::Malformed);
                return true;
            }
            ProposalAnswer::Append { depends_on } => depends_on,
        };
        let proposed = self.append(propose.kind, propose.origin, depends_on, &propose.payload);
        match proposed {
            Ok(_) => {
                if propose.kind == EntryKind::Action {
                    self.flow_control.action_appended();
                    self.leadership
                        .follow_writers
                        .ordered(propose.origin.member);
                }
                self.proposals.ordering.appended(propose.origin);
                true
            }
            Err(ProposeError::Busy | ProposeError::LeaderTransfer) => {
                self.proposals.ordering.put_back(propose);
                false
            }
            Err(ProposeError::NotLeader { .. }) => true,
        }
    }

    /// Like [`Ordering::answer`](super::Ordering), with the time it takes reported to the host if
    /// an action is certified.
    fn rule_on(
        &mut self,
        propose: &Propose,
        has_room: bool,
        writers: WriterRule,
    ) -> ProposalAnswer {
        let is_certified = has_room && propose.kind == EntryKind::Action;
        if is_certified {
            self.ctx.links.host.certification_begins();
        }
        let answer =
            self.proposals
                .ordering
                .answer(&self.ctx.certification, propose, has_room, writers);
        if is_certified {
            self.ctx.links.host.certification_ends();
        }
        answer
    }

    /// A piece was refused: what the log has of its action is of no use to any member.
    fn discard_refused(&mut self, propose: &Propose) {
        let Propose {
            origin,
            kind,
            payload,
            ..
        } = propose;
        if let Some(id) = self.ctx.certification.refused(origin, *kind, payload) {
            // If that fails, the action is discarded when it has not been continued for a while.
            if self.append_own(EntryKind::Discard, &Discard::Action(id).encode()) {
                let member = id.member;
                let text = format!(
                    "discarding a partial action of member {member}: it was refused or withdrawn"
                );
                self.ctx.log(Level::Debug, text);
            }
        }
    }

    fn refuse(&mut self, propose: &Propose, reason: ProposalRefusal) {
        let Origin {
            member,
            session,
            number,
        } = propose.origin;
        let (me, term) = (self.ctx.identity.me, propose.tag);
        if member == me.member {
            if session == me.session {
                self.proposal_refused(term, number, reason);
            }
            return;
        }
        self.ctx.send(
            member,
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason,
            },
        );
    }

    /// Appends an entry to the log and to what depends on it.
    fn append(
        &mut self,
        kind: EntryKind,
        origin: Origin,
        depends_on: Seqno,
        payload: &Bytes,
    ) -> Result<EntryHeader, ProposeError> {
        // Before it is sent: an entry that the logs refuse would stop every member.
        assert!(
            payload.len() <= PAYLOAD_BYTES_MAX as usize,
            "{kind:?} of {} bytes: no log takes it",
            payload.len()
        );
        let payload_len = payload.len() as u32; // bounded above
        let payload_crc = crc32c::crc32c(payload);
        let proposal = Proposal {
            kind,
            origin,
            depends_on,
            payload_len,
            payload_crc,
        };
        let header = self.ctx.core.propose(self.ctx.turns.now, proposal)?;
        self.ctx.own_log.put(header, payload);
        self.ingest_entry(&header, payload);
        Ok(header)
    }

    /// Appends an entry of the leader's own; false if that is refused, as during a leader transfer.
    pub(in crate::driver) fn append_own(&mut self, kind: EntryKind, payload: &Bytes) -> bool {
        let origin = Origin {
            member: self.ctx.identity.me.member,
            session: SessionId(0),
            number: 0,
        };
        let depends_on = if kind.is_ordered() {
            self.ctx.core.last_seqno()
        } else {
            Seqno::UNDEFINED
        };
        self.append(kind, origin, depends_on, payload).is_ok()
    }

    // --- reads -------------------------------------------------------------------------------

    pub(in crate::driver) fn read(&mut self, read: ReadDone) {
        let id = read.id;
        self.proposals.reads.begin(read);
        self.ctx.core.read(self.ctx.turns.now, id);
    }

    pub(in crate::driver) fn cancel_read(&mut self, id: u64) {
        self.proposals.reads.cancel(id);
        self.ctx.core.cancel_read(id);
    }
}

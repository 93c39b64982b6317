//! Proposals: this member's own on their way to the leader and back, and everybody's as the leader
//! orders them.
//!
//! - [`LocalProposals`]: the proposals of this session without a result, and what is to be sent;
//! - [`Ordering`]: the leader's answer: a proposal is appended, refused, or waits for room;
//! - [`Reads`]: the clients that wait for the group's position.

mod connections;
mod deferred;
mod local;
mod ordering;
mod reads;

pub(super) use connections::Link;
use std::sync::atomic;
use std::time::Duration;

use synod_consensus::{
    Body, EntryHeader, EntryKind, MemberId, Origin, ProposeError, SendEntries, Seqno, SessionId,
    Term,
};
use synod_planted::planted;
use synod_wire::{PeerMessage, ProposalRefusal, Propose};

use super::context::Context;
use super::flow_control::FlowControl;
use super::leadership::Leadership;
use super::membership::Membership;
use super::writers::{WritePermission, WriterRule, WritersSetting};
use super::{Me, ReadDone, Submission};
use crate::client::ProposalResult;
use crate::host::Level;
use crate::payload::discard::Discard;
use local::{LocalProposals, Submitted};
use ordering::{Ordering, ProposalAnswer};
use reads::Reads;

pub(super) struct Proposals {
    pub(super) local: LocalProposals,
    pub(super) ordering: Ordering,
    pub(super) reads: Reads,
    pub(super) writers: WritersSetting,
}

impl Proposals {
    /// `term`: that of the log's base. `timeout`: a partial action that was not continued for so
    /// long is discarded.
    pub(super) fn new(me: Me, term: Term, timeout: Duration) -> Proposals {
        Proposals {
            local: LocalProposals::new(me, term),
            ordering: Ordering::new(timeout),
            reads: Reads::default(),
            writers: WritersSetting::default(),
        }
    }

    /// Sends entries, without the payloads that the process at the other end has proposed itself:
    /// it has them, or asks for them ([`AppendOutcome::PayloadMissing`]).
    ///
    /// [`AppendOutcome::PayloadMissing`]: synod_consensus::AppendOutcome::PayloadMissing
    pub(super) fn send_append(&self, ctx: &Context, range: &SendEntries, mut message: PeerMessage) {
        let link = self.local.link_to(range.to);
        let link = link.filter(|_| range.is_first_time);
        match link {
            Some(link) if leave_out_payloads(&mut message, range.to, link.session) => {
                let peers = &ctx.links.peers;
                peers.send_over(range.to, link.connection, message);
            }
            _ => ctx.send(range.to, message),
        }
    }

    pub(super) fn submit(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        submission: Submission,
    ) {
        let is_abandoned = submission.waiter.is_decided();
        let is_leaving = membership.leave.is_under_way();
        if is_abandoned || !ctx.links.shared.is_primary() || is_leaving {
            submission.waiter.decide(ProposalResult::NotProposed);
            return;
        }
        self.local.submit(submission);
    }

    pub(super) fn send_proposals(
        &mut self,
        ctx: &mut Context,
        flow_control: &mut FlowControl,
        leadership: &mut Leadership,
    ) -> bool {
        let mut sent = false;
        while let Some(outgoing) = self.local.next_send() {
            sent = true;
            if outgoing.to == ctx.identity.me.member {
                self.handle_propose(ctx, flow_control, leadership, outgoing.to, outgoing.propose);
            } else if let Some(connection) = outgoing.connection {
                let message = PeerMessage::Propose(outgoing.propose);
                ctx.links.peers.send_over(outgoing.to, connection, message);
            }
        }
        sent
    }

    /// A connection to or from a member is new. If that member leads, proposals or refusals may be
    /// lost with the connection before.
    pub(super) fn repeat_proposals(&mut self, ctx: &Context, member: MemberId) {
        if ctx.core.leader().is_none_or(|leader| leader == member) {
            self.local.repeat();
        }
    }

    pub(super) fn proposal_refused(
        &mut self,
        ctx: &Context,
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
                ctx.log(
                    Level::Error,
                    format!("the leader refused a proposal: {reason:?}"),
                );
                ProposalResult::Rejected
            }
        };
        if let Some(submitted) = self.local.refused(term, number) {
            submitted.waiter.decide(result);
        }
    }

    pub(super) fn proposal_committed(&mut self, ctx: &Context, header: &EntryHeader) {
        let Some(submitted) = self.local.committed(header) else {
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
        ctx.links.shared.attach_local(header.seqno);
        let is_taken = submitted.waiter.decide(result);
        if !planted!(LeaveToTheDead, is_taken, else true) {
            ctx.links.shared.take_local(header.seqno);
        }
    }

    /// The log was reset, beyond entries that this member has not seen.
    pub(super) fn withdraw_after_reset(&mut self, ctx: &Context) {
        if synod_planted::is(synod_planted::Bug::ResendAfterReset) {
            return;
        }
        let withdrawn = self.local.log_reset(ctx.core.base().last.term);
        end_unknown(ctx, withdrawn);
    }

    pub(super) fn withdraw_proposals(&mut self, ctx: &Context) {
        let withdrawn = self.local.group_lost();
        end_unknown(ctx, withdrawn);
    }

    pub(super) fn handle_propose(
        &mut self,
        ctx: &mut Context,
        flow_control: &mut FlowControl,
        leadership: &mut Leadership,
        from: MemberId,
        propose: Propose,
    ) {
        if !ctx.core.is_leader() {
            // The origin notices the change of leader by itself and sends again.
            return;
        }
        match self.ordering.arrived(from, propose) {
            Ok(Some(propose)) => {
                self.order(ctx, flow_control, leadership, propose);
            }
            Ok(None) => {}
            Err(_) => ctx.log(
                Level::Warning,
                format!("ignoring a malformed proposal of member {from}"),
            ),
        }
    }

    /// Orders what waited for room; whether any of it was.
    pub(super) fn order_waiting(
        &mut self,
        ctx: &mut Context,
        flow_control: &mut FlowControl,
        leadership: &mut Leadership,
    ) -> bool {
        let mut ordered = false;
        for _ in 0..self.ordering.waiting() {
            let Some(propose) = self.ordering.next_waiting() else {
                break;
            };
            if !self.order(ctx, flow_control, leadership, propose) {
                break;
            }
            ordered = true;
        }
        ordered
    }

    /// Orders or refuses a proposal; false if there is no room, and it waits.
    fn order(
        &mut self,
        ctx: &mut Context,
        flow_control: &mut FlowControl,
        leadership: &mut Leadership,
        propose: Propose,
    ) -> bool {
        let is_disk_behind = ctx.own_log.is_disk_behind(ctx.core.durable_index());
        // Chunks cost the databases nothing before the last piece comes.
        let is_admitted =
            propose.kind == EntryKind::Chunk || flow_control.has_room_for_action(ctx.turns.now);
        let has_room = !is_disk_behind && !ctx.links.shared.is_log_full() && is_admitted;
        let writers = self.writer_rule(ctx);
        let depends_on = match self.rule_on(ctx, &propose, has_room, writers) {
            ProposalAnswer::Ignore => return true,
            ProposalAnswer::Wait => {
                self.ordering.put_back(propose);
                return false;
            }
            ProposalAnswer::Refuse(reason) => {
                self.refuse(ctx, &propose, reason);
                discard_refused(ctx, &propose);
                return true;
            }
            ProposalAnswer::TooMuch(why) => {
                let Origin { member, .. } = propose.origin;
                let text = format!(
                    "refusing a large action of member {member}: {why}; commit less at a time, or \
                     fewer large transactions at once"
                );
                ctx.log(Level::Warning, text);
                self.refuse(ctx, &propose, ProposalRefusal::GivenUp);
                discard_refused(ctx, &propose);
                return true;
            }
            ProposalAnswer::Malformed(error) => {
                let text = format!("proposal {:?}: {error}", propose.origin);
                ctx.log(Level::Error, text);
                self.refuse(ctx, &propose, ProposalRefusal::Malformed);
                return true;
            }
            ProposalAnswer::Append { depends_on } => depends_on,
        };
        let proposed = ctx.append(propose.kind, propose.origin, depends_on, &propose.payload);
        match proposed {
            Ok(_) => {
                if propose.kind == EntryKind::Action {
                    flow_control.action_appended();
                    leadership.writers.ordered(propose.origin.member);
                }
                self.ordering.appended(propose.origin);
                true
            }
            Err(ProposeError::Busy | ProposeError::LeaderTransfer) => {
                self.ordering.put_back(propose);
                false
            }
            Err(ProposeError::NotLeader { .. }) => true,
        }
    }

    /// Like [`Ordering::answer`](Ordering), with the time it takes reported to the host if
    /// an action is certified.
    fn rule_on(
        &mut self,
        ctx: &Context,
        propose: &Propose,
        has_room: bool,
        writers: WriterRule,
    ) -> ProposalAnswer {
        let is_certified = has_room && propose.kind == EntryKind::Action;
        if is_certified {
            ctx.links.host.certification_begins();
        }
        let answer = self
            .ordering
            .answer(&ctx.certification, propose, has_room, writers);
        if is_certified {
            ctx.links.host.certification_ends();
        }
        answer
    }

    fn refuse(&mut self, ctx: &Context, propose: &Propose, reason: ProposalRefusal) {
        let Origin {
            member,
            session,
            number,
        } = propose.origin;
        let (me, term) = (ctx.identity.me, propose.tag);
        if member == me.member {
            if session == me.session {
                self.proposal_refused(ctx, term, number, reason);
            }
            return;
        }
        ctx.send(
            member,
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason,
            },
        );
    }

    /// Leader only: discards partial actions that were not continued for a long time.
    pub(super) fn discard_stale(&self, ctx: &mut Context) {
        for id in self
            .ordering
            .stale_actions(&ctx.certification, ctx.turns.now)
        {
            let why = format!(
                "discarding a partial action of member {}: no more of it came",
                id.member
            );
            ctx.discard(&Discard::Action(id), Level::Info, why);
        }
    }

    pub(super) fn read(&mut self, ctx: &mut Context, read: ReadDone) {
        let id = read.id;
        self.reads.begin(read, ctx.turns.now);
        ctx.core.read(ctx.turns.now, id);
    }

    /// The answer to a read; ignored if the client has given up.
    pub(super) fn read_ready(&mut self, ctx: &Context, id: u64, seqno: Seqno) {
        if let Some(read) = self.reads.take(id) {
            let asked = planted!(AgeFromAnswer, read.asked, else ctx.turns.now);
            ctx.links.shared.freshness.answered(asked, seqno);
            (read.reply)(seqno);
        }
    }

    pub(super) fn cancel_read(&mut self, ctx: &mut Context, id: u64) {
        self.reads.cancel(id);
        ctx.core.cancel_read(id);
    }

    /// The rule by which this member, as the leader, orders proposals now. The configuration is in
    /// force from its entry on, committed or not: what is ordered now comes after it.
    fn writer_rule(&self, ctx: &Context) -> WriterRule {
        WriterRule::of(
            ctx.writers_in_force(),
            ctx.identity.me.member,
            self.ordering.term_after(),
        )
    }

    /// Tells the host, if it has changed, whether it may take writes. The host may look at the
    /// status for the writer's name.
    pub(super) fn tell_write_permission(&mut self, ctx: &Context) {
        let permission = WritePermission::of(
            ctx.writers_in_force(),
            ctx.identity.me.member,
            ctx.core.leader(),
            self.ordering.term_after(),
        );
        if self.writers.told != permission {
            self.writers.told = permission;
            self.publish_status(ctx);
            ctx.links.host.write_permission(permission);
        }
    }
}

fn end_unknown(ctx: &Context, withdrawn: Vec<Submitted>) {
    if !withdrawn.is_empty() && !synod_planted::is(synod_planted::Bug::NoEpoch) {
        // Before the clients let go of their locks.
        let epoch = ctx.links.shared.epoch();
        epoch.fetch_add(1, atomic::Ordering::AcqRel);
    }
    for submitted in withdrawn {
        submitted.waiter.decide(ProposalResult::Unknown);
    }
}

/// A piece was refused: what the log has of its action is of no use to any member.
fn discard_refused(ctx: &mut Context, propose: &Propose) {
    let Propose {
        origin,
        kind,
        payload,
        ..
    } = propose;
    if let Some(id) = ctx.certification.refused(origin, *kind, payload) {
        // If that fails, the action is discarded when it has not been continued for a while.
        if ctx.append_own(EntryKind::Discard, &Discard::Action(id).encode()) {
            let member = id.member;
            let text = format!(
                "discarding a partial action of member {member}: it was refused or withdrawn"
            );
            ctx.log(Level::Debug, text);
        }
    }
}

/// Leaves out the payloads of entries that this session has proposed; whether there were any.
fn leave_out_payloads(message: &mut PeerMessage, member: MemberId, session: SessionId) -> bool {
    let PeerMessage::Append { message, payloads } = message else {
        return false;
    };
    let Body::Append(append) = &message.body else {
        return false;
    };
    let mut left_out = false;
    for (header, payload) in append.entries.iter().zip(payloads) {
        let is_own = header.origin.member == member && header.origin.session == session;
        if is_own && header.payload_len > 0 {
            *payload = None;
            left_out = true;
        }
    }
    left_out
}

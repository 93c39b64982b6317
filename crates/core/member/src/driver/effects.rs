//! Hands messages of consensus to the core, and performs what it asks for, in the order in which it
//! asks. The components that
//! follow the log (certification, views, inconsistency, retention) see each entry when it is
//! appended, and are informed of truncations, resets and commits here and nowhere else.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{
    Append, Body, Effect, EntryHeader, EntryKind, GroupId, LogIndex, MemberId, Message,
    SendEntries, Seqno, WriteOp, WriteTicket,
};
use synod_log::Entry;
use synod_wire::PeerMessage;

use super::Driver;
use super::own_log::{Arrived, Missing, Replication};
use super::recovery::{may_obey, may_write};
use crate::host::Level;
use crate::read_for_peer::ReadForPeer;
use crate::storage::Job;

impl Driver {
    pub(super) fn handle_consensus(
        &mut self,
        from: MemberId,
        mut message: Message,
        payloads: Vec<Option<Bytes>>,
    ) {
        if message.from != from || message.to != self.ctx.identity.me.member {
            self.ctx.log(
                Level::Warning,
                format!("ignoring a message of member {from} that names other parties"),
            );
            return;
        }
        if self.ctx.identity.group == GroupId::NONE {
            // Nothing may be written before the log knows which group it is for.
            return;
        }
        self.leadership.elections.heard(&message);
        if self.is_answer_to_this_leader(&message) {
            // This turn performs what all such answers lead to: one commit, one message a follower.
            return self.ctx.core.handle_message(self.ctx.turns.now, message);
        }
        // The core wants its effects performed before it is given the next message. The payloads of
        // that message come to hand only then: none is written with an entry that was there before.
        self.perform_core_effects();
        if self.is_stopped() || !may_obey(&mut self.ctx, &message) {
            return;
        }
        let (core, proposals) = (&self.ctx.core, &self.proposals.local);
        let arrived = self
            .ctx
            .own_log
            .arrived(core, &mut message, payloads, |header| {
                proposals.payload_of(header)
            });
        let Arrived { configs, missing } = match arrived {
            Ok(arrived) => arrived,
            Err(text) => {
                self.ctx.own_log.forget_arrived();
                return self.ctx.log(Level::Error, text);
            }
        };
        let has_entries = matches!(message.body, Body::Append(_) | Body::InstallBase { .. });
        let before = self.ctx.core.counters().refused_entries();
        let term = message.term;
        self.ctx
            .core
            .handle_message_with(self.ctx.turns.now, message, &configs);
        if let Some(Missing { index, sent_at }) = missing {
            let now = self.ctx.turns.now;
            self.ctx
                .core
                .payload_missing(now, (from, term), index, sent_at);
        }
        if has_entries && self.ctx.core.leader() == Some(from) {
            self.catch_up.standstill.entries_came(
                &self.ctx,
                from,
                self.ctx.core.counters().refused_entries() == before,
            );
        }
        // The payloads' entries, if accepted, are in the effects now.
        self.perform_core_effects();
        self.ctx.own_log.forget_arrived();
        // Learners may wait for entries that have just come.
        self.catch_up.feeding.feed_waiting(&mut self.ctx);
    }

    fn is_answer_to_this_leader(&self, message: &Message) -> bool {
        let is_answer = matches!(
            message.body,
            Body::AppendReply(_) | Body::HeartbeatReply { .. }
        );
        is_answer && self.ctx.core.is_leader() && message.term == self.ctx.core.term()
    }

    pub(super) fn perform_core_effects(&mut self) {
        // A member that stops writes nothing more: it may rest on a write that was not made.
        while !self.ctx.turns.is_stopped()
            && let Some(effect) = self.ctx.core.poll_effect()
        {
            if let Effect::Write { op, .. } = &effect
                && !may_write(&mut self.ctx, &self.membership, op)
            {
                return;
            }
            if let Some(observer) = &mut self.ctx.links.observer {
                observer.effect(&self.ctx.core, &effect);
            }
            match effect {
                Effect::Write { ticket, op } => self.write(ticket, op),
                Effect::Send(message) => {
                    self.flow_control.tell_position_with(&self.ctx, &message);
                    self.ctx.send(message.to, PeerMessage::Consensus(message));
                }
                Effect::SendEntries(range) => self.send_entries(range),
                Effect::Committed { index } => self.committed(index),
                Effect::Role(change) => self.role_changed(change),
                Effect::Config(config) => self.config_changed(&config),
                Effect::ReadReady { id, seqno, .. } => {
                    self.proposals.read_ready(&self.ctx, id, seqno);
                }
            }
        }
    }

    fn write(&mut self, ticket: WriteTicket, op: WriteOp) {
        let job = match op {
            WriteOp::Append(headers) => Job::Append {
                ticket,
                era: self.ctx.own_log.era(),
                entries: headers
                    .iter()
                    .map(|header| self.ctx.entry(header))
                    .collect(),
            },
            WriteOp::Truncate { from } => {
                self.truncate(from);
                let era = self.ctx.own_log.era();
                Job::Truncate { ticket, era, from }
            }
            WriteOp::Vote(vote) => Job::Vote { ticket, vote },
            WriteOp::Reset(base) => {
                self.reset(base.last.index, base.seqno);
                let era = self.ctx.own_log.era();
                Job::Reset { ticket, era, base }
            }
        };
        self.leadership.disk_watch.wrote(self.ctx.turns.now, ticket);
        self.ctx.links.disk.write(job);
    }

    fn send_entries(&mut self, range: SendEntries) {
        if self.catch_up.feeding.order_feeding(&self.ctx, &range) {
            return;
        }
        let me = EntrySender::Leader(self.ctx.identity.me.member);
        let inflight_max = self.ctx.identity.config.limits.inflight_messages_max;
        match self.ctx.own_log.replicate(me, range, inflight_max) {
            Replication::Send(message) => self.proposals.send_append(&self.ctx, &range, message),
            Replication::Read(request) => {
                self.ctx.links.disk.read(ReadForPeer::OldEntries(request))
            }
            Replication::UnderWay => {}
        }
    }

    fn committed(&mut self, index: LogIndex) {
        let mut seqno = None;
        for at in self.ctx.own_log.committed().next().0..=index.0 {
            let Some(header) = self.ctx.own_log.header(LogIndex(at)) else {
                // Written before this start: none of this session's.
                self.written_before(LogIndex(at));
                continue;
            };
            seqno = Some(header.seqno);
            self.commit_wait.awaited_committed(&self.ctx, &header);
            self.proposals.proposal_committed(&self.ctx, &header);
            if let Some(first_chunk) = self.ctx.certification.committed(&header) {
                self.purge_policy
                    .chunks_committed(header.seqno, first_chunk);
            }
        }
        self.ctx.own_log.commit(index);
        self.ctx.note_committed(index);
        let seqno = seqno.or_else(|| self.ctx.links.reader.summary(index).map(|s| s.seqno));
        let seqno = seqno.unwrap_or(self.ctx.core.base().seqno);
        // Before the host gets what another writer has written.
        self.proposals.tell_write_permission(&self.ctx);
        self.ctx.links.shared.publish_commit(index, seqno);
        self.flow_control.pace_committed(&self.ctx, seqno);
        self.ctx.trim_cache();
        self.view_committed();
        self.membership.raise_log_format(&self.ctx);
        self.proposals.writers.look_at_orders(&self.ctx);
        self.failed_actions.decisions_committed(&mut self.ctx);
        self.commit_wait.tell_askers(&self.ctx, &self.flow_control);
    }

    /// An entry from before this start is committed. It may have ended an action in chunks, and the
    /// outbox has to know of every commit; only its term is known.
    fn written_before(&mut self, index: LogIndex) {
        if let Some(first_chunk) = self.ctx.certification.forget_ended(index) {
            // The action is at this seqno at the latest.
            let seqno = self.ctx.core.last_seqno();
            self.purge_policy.chunks_committed(seqno, first_chunk);
        }
        let Some(term) = self.ctx.core.term_at(index) else {
            return;
        };
        self.proposals.proposal_committed(
            &self.ctx,
            &EntryHeader::bare(term, index, Seqno(0), EntryKind::NoOp),
        );
    }

    fn truncate(&mut self, from: LogIndex) {
        self.ctx.own_log.times.truncated(from);
        self.ctx.certification.truncated(from);
        self.ctx.views.truncated(from);
        self.ctx.decisions.truncated(from);
        self.purge_policy.log_truncated(from.prev());
        let era = self.ctx.links.shared.log_truncated(from);
        self.ctx.own_log.truncated(from, era);
    }

    /// The log is reset: nothing that the components know from its entries holds.
    fn reset(&mut self, index: LogIndex, seqno: Seqno) {
        let era = self.ctx.links.shared.log_truncated(LogIndex(0));
        self.ctx
            .links
            .shared
            .base_seqno
            .store(seqno.0, Ordering::Release);
        self.ctx.own_log.times.truncated(LogIndex(0));
        self.proposals.withdraw_after_reset(&self.ctx);
        self.ctx.certification.log_reset(index, seqno);
        self.ctx.views.log_reset();
        self.ctx.decisions.truncated(LogIndex(0));
        self.purge_policy.log_reset();
        self.ctx.own_log.reset(index, era);
        self.flow_control.log_reset();
        self.commit_wait.log_reset();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntrySender {
    /// In its own: it leads.
    Leader(MemberId),
    /// In the name of this leader, which has ordered it.
    FeederOf(MemberId),
}

pub(crate) fn append_message(
    sender: EntrySender,
    range: &SendEntries,
    entries: &[&Entry],
) -> PeerMessage {
    let body = Body::Append(Append {
        prev: range.prev,
        entries: entries.iter().map(|entry| entry.header).collect(),
        commit: range.commit,
        sent_at: range.sent_at,
    });
    let message = |from| Message::new(from, range.to, range.term, body);
    let payloads = entries.iter().map(|entry| Some(entry.payload.clone()));
    let payloads = payloads.collect();
    match sender {
        EntrySender::Leader(me) => PeerMessage::Append {
            message: message(me),
            payloads,
        },
        EntrySender::FeederOf(leader) => PeerMessage::Fed {
            message: message(leader),
            payloads,
        },
    }
}

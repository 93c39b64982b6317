//! Performs what the consensus core asks for, in the order in which it asks.
//!
//! The components that follow the log (certification, views, inconsistency, retention) see each
//! entry when it is appended, and are informed of truncations, resets and commits here and nowhere
//! else.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{
    Append, Body, Effect, EntryHeader, EntryKind, LogIndex, MemberId, Message, Origin, SendEntries,
    Seqno, SessionId, Time, WriteOp, WriteTicket,
};
use synod_log::Entry;
use synod_wire::{PeerMessage, may_leave_out_payloads};

use super::Driver;
use super::own_log::Replication;
use crate::disk_read::DiskRead;
use crate::host::Level;
use crate::payload::decision::OutcomeDecision;
use crate::payload::view::View;
use crate::storage::Job;

impl Driver {
    pub(super) fn perform_core_effects(&mut self) {
        // A member that stops writes nothing more: the next write may rest on one that it did not
        // make.
        while !self.ctx.turns.is_stopped()
            && let Some(effect) = self.ctx.core.poll_effect()
        {
            if let Effect::Write { op, .. } = &effect
                && !self.may_write(op)
            {
                return;
            }
            if let Some(observer) = &mut self.ctx.links.observer {
                observer.effect(&self.ctx.core, &effect);
            }
            match effect {
                Effect::Write { ticket, op } => self.write(ticket, op),
                Effect::Send(message) => {
                    self.tell_position_with(&message);
                    self.ctx.send(message.to, PeerMessage::Consensus(message));
                }
                Effect::SendEntries(range) => self.send_entries(range),
                Effect::Committed { index } => self.committed(index),
                Effect::Role(change) => self.role_changed(change),
                Effect::Config(config) => self.config_changed(&config),
                Effect::ReadReady { id, seqno, .. } => self.proposals.reads.ready(id, seqno),
            }
        }
    }

    fn write(&mut self, ticket: WriteTicket, op: WriteOp) {
        let job = match op {
            WriteOp::Append(headers) => Job::Append {
                ticket,
                era: self.ctx.own_log.era(),
                entries: headers.iter().map(|header| self.entry(header)).collect(),
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

    /// The entry to write. Certification sees it if it has not.
    fn entry(&mut self, header: &EntryHeader) -> Entry {
        let core = &self.ctx.core;
        let config = || {
            let config = core.config_at(header.index);
            Bytes::from(config.expect("the core made this entry").config.encode())
        };
        let entry = self.ctx.own_log.entry(header, config);
        if self.is_own_action(header) {
            self.ctx
                .own_log
                .times
                .appended(header.index, self.ctx.turns.now);
        }
        self.ingest_entry(header, &entry.payload);
        entry
    }

    /// Whether it ends an action of this session.
    pub(super) fn is_own_action(&self, header: &EntryHeader) -> bool {
        let (origin, me) = (&header.origin, &self.ctx.identity.me);
        let is_own = origin.member == me.member && origin.session == me.session;
        is_own && header.kind == EntryKind::Action
    }

    /// More of the log may be durable, by a sync that began then: measures the own actions in it.
    pub(super) fn note_durable(&mut self, sync_began: Time) {
        let (durable, now) = (self.ctx.core.durable_index(), self.ctx.turns.now);
        while let Some(times) = self
            .ctx
            .own_log
            .times
            .next_durable(durable, sync_began, now)
        {
            self.ctx.links.host.own_action_durable(times);
        }
    }

    /// The same for what is committed.
    fn note_committed(&mut self, index: LogIndex) {
        let now = self.ctx.turns.now;
        while let Some(took) = self.ctx.own_log.times.next_committed(index, now) {
            self.ctx.links.host.own_action_committed(took);
        }
    }

    /// Shows an appended entry to the components that follow the log, once.
    pub(super) fn ingest_entry(&mut self, header: &EntryHeader, payload: &Bytes) {
        let certification = &mut self.ctx.certification;
        if header.index <= certification.last_index() {
            return;
        }
        if let Err(error) = certification.appended(self.ctx.turns.now, header, payload) {
            self.ctx
                .log(Level::Error, format!("entry {}: {error}", header.id()));
        }
        if header.kind == EntryKind::View {
            match View::decode(header.seqno, payload.clone()) {
                Ok(view) => self.ctx.views.appended(header.index, view),
                Err(error) => self
                    .ctx
                    .log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
        if header.kind == EntryKind::Decision {
            match OutcomeDecision::decode(payload.clone()) {
                Ok(decision) => self.ctx.decisions.appended(header.index, decision),
                Err(error) => self
                    .ctx
                    .log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
    }

    fn send_entries(&mut self, range: SendEntries) {
        if self.order_feeding(&range) {
            return;
        }
        let me = EntrySender::Leader(self.ctx.identity.me.member);
        let inflight_max = self.ctx.identity.config.limits.inflight_messages_max;
        match self.ctx.own_log.replicate(me, range, inflight_max) {
            Replication::Send(message) => self.send_append(&range, message),
            Replication::Read(request) => self.ctx.links.disk.read(DiskRead::CatchUp(request)),
            Replication::UnderWay => {}
        }
    }

    /// Sends entries, without the payloads that the process at the other end has proposed itself:
    /// it has them, or asks for them ([`AppendOutcome::PayloadMissing`]).
    ///
    /// [`AppendOutcome::PayloadMissing`]: synod_consensus::AppendOutcome::PayloadMissing
    fn send_append(&self, range: &SendEntries, mut message: PeerMessage) {
        let link = self.proposals.local.link_to(range.to);
        let link = link.filter(|link| range.is_first_time && may_leave_out_payloads(link.version));
        match link {
            Some(link) if leave_out_payloads(&mut message, range.to, link.session) => {
                let peers = &self.ctx.links.peers;
                peers.send_over(range.to, link.connection, message);
            }
            _ => self.ctx.send(range.to, message),
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
            self.awaited_committed(&header);
            self.proposal_committed(&header);
            if let Some(first_chunk) = self.ctx.certification.committed(&header) {
                self.retention.chunks_committed(header.seqno, first_chunk);
            }
        }
        self.ctx.own_log.commit(index);
        self.note_committed(index);
        let seqno = seqno.or_else(|| self.ctx.links.reader.summary(index).map(|s| s.seqno));
        let seqno = seqno.unwrap_or(self.ctx.core.base().seqno);
        // Before the host gets what another writer has written.
        self.tell_write_permission();
        self.ctx.links.shared.publish_commit(index, seqno);
        self.pace_committed(seqno);
        self.trim_cache();
        self.view_committed();
        self.raise_log_format();
        self.look_at_orders();
        self.decisions_committed();
        self.tell_askers();
    }

    /// An entry from before this start is committed. It may have ended an action in chunks, and the
    /// outbox has to know of every commit; only its term is known.
    fn written_before(&mut self, index: LogIndex) {
        if let Some(first_chunk) = self.ctx.certification.forget_ended(index) {
            // The action is at this seqno at the latest.
            let seqno = self.ctx.core.last_seqno();
            self.retention.chunks_committed(seqno, first_chunk);
        }
        let Some(term) = self.ctx.core.term_at(index) else {
            return;
        };
        self.proposal_committed(&EntryHeader {
            term,
            index,
            seqno: Seqno(0),
            kind: EntryKind::NoOp,
            origin: Origin::default(),
            depends_on: Seqno::UNDEFINED,
            payload_len: 0,
            payload_crc: 0,
        });
    }

    /// Forgets entries beyond the bound that are committed and durable.
    pub(super) fn trim_cache(&mut self) {
        self.ctx.own_log.trim(self.ctx.core.durable_index());
    }

    /// The log is truncated: the components forget what they know from its entries.
    fn truncate(&mut self, from: LogIndex) {
        self.ctx.own_log.times.truncated(from);
        self.ctx.certification.truncated(from);
        self.ctx.views.truncated(from);
        self.ctx.decisions.truncated(from);
        self.retention.log_truncated(from.prev());
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
        self.withdraw_after_reset();
        self.ctx.certification.log_reset(index, seqno);
        self.ctx.views.log_reset();
        self.ctx.decisions.truncated(LogIndex(0));
        self.retention.log_reset();
        self.ctx.own_log.reset(index, era);
        self.flow_control.log_reset();
        self.commit_wait.log_reset();
    }
}

/// In whose name a member sends entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntrySender {
    /// In its own: it leads.
    Leader(MemberId),
    /// In the name of this leader, which has ordered it.
    FeederOf(MemberId),
}

/// An append with these entries.
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
    let message = |from| Message {
        from,
        to: range.to,
        term: range.term,
        body,
    };
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

/// Leaves out the payloads of entries that this session of this member has proposed; whether there
/// were any.
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

//! Performing what the consensus core asks for.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_consensus::{
    Append, Body, Effect, EntryHeader, EntryKind, LogIndex, Message, Origin, RoleChange, RoleName,
    SendEntries, Seqno, Time, WriteOp, WriteTicket,
};
use synod_log::Entry;
use synod_wire::PeerMessage;

use super::Driver;
use crate::host::Level;
use crate::payload::decision::OutcomeDecision;
use crate::payload::view::View;
use crate::storage::Job;

impl Driver {
    pub(super) fn perform_core_effects(&mut self) {
        // A member that stops writes nothing more: what comes next may rest on what it did not write.
        while !self.stopped
            && let Some(effect) = self.core.poll_effect()
        {
            if let Effect::Write { op, .. } = &effect
                && !self.may_write(op)
            {
                return;
            }
            if let Some(observer) = &mut self.links.observer {
                observer.effect(&self.core, &effect);
            }
            match effect {
                Effect::Write { ticket, op } => self.write(ticket, op),
                Effect::Send(message) => {
                    self.send(message.to, PeerMessage::Consensus(message));
                }
                Effect::SendEntries(range) => self.send_entries(range),
                Effect::Committed { index } => self.committed(index),
                Effect::Role(change) => self.role_changed(change),
                Effect::Config(config) => self.config_changed(&config),
                Effect::ReadReady { id, seqno, .. } => self.reads.ready(id, seqno),
            }
        }
    }

    fn write(&mut self, ticket: WriteTicket, op: WriteOp) {
        let job = match op {
            WriteOp::Append(headers) => {
                let entries = headers.iter().map(|header| self.stage(header)).collect();
                let era = self.era;
                Job::Append {
                    ticket,
                    era,
                    entries,
                }
            }
            WriteOp::Truncate { from } => {
                self.entry_cache.truncate(from);
                self.ingest.truncated(from);
                self.membership.views.truncated(from);
                self.inconsistency.truncated(from);
                self.retention.log_truncated(from.prev());
                self.era = self.links.shared.log_truncated(from);
                let era = self.era;
                Job::Truncate { ticket, era, from }
            }
            WriteOp::Vote(vote) => Job::Vote { ticket, vote },
            WriteOp::Reset(base) => {
                self.reset(base.last.index, base.seqno);
                let era = self.era;
                Job::Reset { ticket, era, base }
            }
        };
        self.links.disk.write(job);
    }

    /// Finds an entry's payload, and has certification see the entry if it has not.
    fn stage(&mut self, header: &EntryHeader) -> Entry {
        let payload = self.payload_of(header);
        if self
            .entry_cache
            .get(header.index)
            .is_none_or(|entry| entry.header != *header)
        {
            self.entry_cache.put(*header, payload.clone());
        }
        self.ingest_entry(header, &payload);
        Entry {
            header: *header,
            payload,
        }
    }

    fn payload_of(&mut self, header: &EntryHeader) -> Bytes {
        if let Some(payload) = self.arriving.remove(&(header.term, header.index)) {
            return payload;
        }
        if let Some(entry) = self.entry_cache.get(header.index)
            && entry.header == *header
        {
            return entry.payload.clone();
        }
        match header.kind {
            EntryKind::NoOp => Bytes::new(),
            EntryKind::Config => {
                let config = self
                    .core
                    .config_at(header.index)
                    .expect("the core made this entry");
                Bytes::from(config.config.encode())
            }
            EntryKind::View
            | EntryKind::Action
            | EntryKind::Chunk
            | EntryKind::Discard
            | EntryKind::Decision => {
                panic!("entry {} has no payload at hand", header.id())
            }
        }
    }

    /// Shows an appended entry to certification and to the view bookkeeping, once.
    pub(super) fn ingest_entry(&mut self, header: &EntryHeader, payload: &Bytes) {
        if header.index <= self.ingest.last_index() {
            return;
        }
        if let Err(error) = self.ingest.appended(self.now, header, payload) {
            self.log(Level::Error, format!("entry {}: {error}", header.id()));
        }
        if header.kind == EntryKind::View {
            match View::decode(header.seqno, payload.clone()) {
                Ok(view) => self.membership.views.appended(header.index, view),
                Err(error) => self.log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
        if header.kind == EntryKind::Decision {
            match OutcomeDecision::decode(payload.clone()) {
                Ok(decision) => self.inconsistency.appended(header.index, decision),
                Err(error) => self.log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
    }

    fn send_entries(&mut self, range: SendEntries) {
        let bytes_max = match range.may_shorten {
            true => self.tuning.catch_up_bytes,
            false => usize::MAX,
        };
        let Some(entries) = self.entry_cache.range(range.first, range.last, bytes_max) else {
            // A window of them, and a probe and a long range beside it.
            let most = self.config.limits.inflight_messages_max.saturating_add(2);
            let request = self.reading.ask(self.me.member, range, bytes_max, most);
            if let Some(request) = request {
                self.links.disk.read(request);
            }
            return;
        };
        let message = append_message(self.me.member, &range, &entries);
        self.send(range.to, message);
    }

    fn committed(&mut self, index: LogIndex) {
        let mut seqno = None;
        for at in self.last_committed.next().0..=index.0 {
            let Some(header) = self.entry_cache.get(LogIndex(at)).map(|entry| entry.header) else {
                // Written before this start: none of this session's.
                self.written_before(LogIndex(at));
                continue;
            };
            seqno = Some(header.seqno);
            if let Some(number) = self.outbox.committed(&header) {
                self.own_committed(number, &header);
            }
            if let Some(first_chunk) = self.ingest.committed(&header) {
                self.retention.chunks_committed(header.seqno, first_chunk);
            }
        }
        self.last_committed = index;
        let seqno = seqno.or_else(|| self.links.reader.header(index).ok().map(|h| h.seqno));
        self.links
            .shared
            .publish_commit(index, seqno.unwrap_or(self.core.base().seqno));
        self.trim_staged();
        self.view_committed();
        self.decisions_committed();
    }

    /// An entry from before this start is committed: it may have ended an action in chunks, and the outbox wants to
    /// know of every commit; of this one only the term is known.
    fn written_before(&mut self, index: LogIndex) {
        if let Some(first_chunk) = self.ingest.forget_ended(index) {
            // At the latest.
            let seqno = self.core.last_seqno();
            self.retention.chunks_committed(seqno, first_chunk);
        }
        let Some(term) = self.core.term_at(index) else {
            return;
        };
        self.outbox.committed(&EntryHeader {
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

    /// Forgets entries beyond the bound that are committed and written.
    pub(super) fn trim_staged(&mut self) {
        let done = self.last_committed.min(self.core.durable_index());
        self.entry_cache.trim(done.next());
    }

    fn role_changed(&mut self, change: RoleChange) {
        let lost_quorum = self.led == Some(change.term) && change.role != RoleName::Leader;
        self.led = (change.role == RoleName::Leader).then_some(change.term);
        self.outbox.leader_changed(change.term, change.leader);
        let leads = change.role == RoleName::Leader;
        if leads {
            self.dedup.new_term(change.term);
            self.begin_leading();
            self.membership.leave.stay_for_others(self.now);
        } else {
            self.deferred.clear();
            self.retention.stop_leading();
        }
        if change.leader.is_some() {
            self.leaderless_since = None;
            self.watch_primary();
            self.send_join_if_needed();
            self.send_report();
            self.report_to_new_leader();
        } else if self.leaderless_since.is_none() {
            // A leader steps down in its own term when it has not heard a quorum for so long.
            let silence = match lost_quorum {
                true => self.config.timing.election_timeout_max_us,
                false => 0,
            };
            self.leaderless_since = Some(Time(self.now.0.saturating_sub(silence)));
        }
        if leads || (change.role == RoleName::Follower && change.leader.is_some()) {
            let name = change.leader.map_or(String::new(), |id| self.name_of(id));
            self.log(
                Level::Info,
                format!("term {}: the leader is {name}", change.term),
            );
        }
    }

    /// The log starts anew: what was known of the old one is void.
    fn reset(&mut self, index: LogIndex, seqno: Seqno) {
        self.era = self.links.shared.log_truncated(LogIndex(0));
        self.links
            .shared
            .base_seqno
            .store(seqno.0, Ordering::Release);
        self.forget_unseen();
        self.entry_cache.clear();
        self.ingest = self.new_ingestor(index, seqno);
        self.membership.views.log_reset();
        self.inconsistency.truncated(LogIndex(0));
        self.retention.log_reset();
        self.last_committed = index;
    }
}

/// An append with these entries.
pub(crate) fn append_message(
    from: synod_consensus::MemberId,
    range: &SendEntries,
    entries: &[&Entry],
) -> PeerMessage {
    let body = Body::Append(Append {
        prev: range.prev,
        entries: entries.iter().map(|entry| entry.header).collect(),
        commit: range.commit,
        sent_at: range.sent_at,
    });
    PeerMessage::Append {
        message: Message {
            from,
            to: range.to,
            term: range.term,
            body,
        },
        payloads: entries.iter().map(|entry| entry.payload.clone()).collect(),
    }
}

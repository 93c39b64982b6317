//! What a leader does beyond the protocol, and an origin's way to it: the calls of the node's
//! `driver/leader.rs` and `driver/origin.rs`.

use bytes::Bytes;
use synod_certify::Verdict;
use synod_consensus::{
    EntryHeader, EntryKind, IntakeVerdict, MemberId, Origin, Proposal, ProposeError, Seqno,
    SessionId, Term,
};

use crate::member::{Propose, Wire};
use crate::planted::Planted;
use crate::world::World;

impl World {
    /// A proposal of this or another member.
    pub(crate) fn handle_propose(&mut self, id: MemberId, from: MemberId, mut propose: Propose) {
        if !self.core(id).is_leader() || propose.origin.member != from {
            return;
        }
        if self.planted(Planted::AcceptStaleProposal) {
            propose.tag = self.core(id).term();
        }
        let process = self.process(id);
        let origin = propose.origin;
        process
            .intake
            .acknowledged(origin.member, origin.session, propose.oldest);
        if process.deferred.is_empty() {
            self.order(id, propose);
        } else {
            self.defer(id, propose);
        }
    }

    fn defer(&mut self, id: MemberId, propose: Propose) {
        let deferred = &mut self.process(id).deferred;
        match deferred
            .iter_mut()
            .find(|known| known.origin == propose.origin)
        {
            Some(known) if known.tag < propose.tag => *known = propose,
            Some(_) => {}
            None => deferred.push_back(propose),
        }
    }

    /// Orders what waited for room; whether any of it was.
    pub(crate) fn retry_deferred(&mut self, id: MemberId) -> bool {
        let mut ordered = false;
        for _ in 0..self.process(id).deferred.len() {
            let Some(propose) = self.process(id).deferred.pop_front() else {
                break;
            };
            if !self.order(id, propose) {
                break;
            }
            ordered = true;
        }
        ordered
    }

    /// Judges and appends a proposal; false if there is no room, and it was put back.
    fn order(&mut self, id: MemberId, propose: Propose) -> bool {
        let no_dedup = self.planted(Planted::ResendWithoutDedup);
        match self.process(id).intake.check(propose.tag, propose.origin) {
            IntakeVerdict::New => {}
            IntakeVerdict::AlreadyAppended if no_dedup => {}
            IntakeVerdict::WrongTerm => {
                self.coverage.count("proposal of another term");
                return true;
            }
            IntakeVerdict::AlreadyAppended => {
                self.coverage.count("proposal seen before");
                return true;
            }
            IntakeVerdict::AlreadyRefused => {
                self.refuse(id, &propose);
                return true;
            }
        }
        if self.is_disk_behind(id) {
            self.process(id).deferred.push_front(propose);
            return false;
        }
        let Some(depends_on) = self.certify(id, &propose) else {
            self.process(id).intake.refused(propose.origin);
            self.refuse(id, &propose);
            return true;
        };
        match self.append(
            id,
            propose.kind,
            propose.origin,
            depends_on,
            &propose.payload,
        ) {
            Ok(_) => {
                self.process(id).intake.appended(propose.origin);
                true
            }
            Err(ProposeError::Busy | ProposeError::Transferring) => {
                self.coverage.count("proposal deferred");
                self.process(id).deferred.push_front(propose);
                false
            }
            Err(ProposeError::NotLeader { .. }) => true,
        }
    }

    fn is_disk_behind(&mut self, id: MemberId) -> bool {
        let bound = self.options.limits.uncommitted_bytes_max as usize + self.options.staged_bytes;
        let process = self.process(id);
        process.staged.bytes > bound && process.core.durable_index() < process.last_committed
    }

    /// What the action depends on; none: it is refused.
    fn certify(&mut self, id: MemberId, propose: &Propose) -> Option<Seqno> {
        let ingest = &self.process(id).ingest;
        if propose.kind == EntryKind::Chunk {
            let fits = ingest.check_chunk(&propose.origin, &propose.payload);
            return fits.then_some(Seqno::UNDEFINED);
        }
        let verdict = ingest.certify(&propose.origin, &propose.payload);
        match verdict {
            Some(Verdict::Pass { depends_on }) => Some(Seqno(depends_on)),
            Some(Verdict::Conflict { .. }) => {
                self.coverage.count("conflict");
                None
            }
            Some(Verdict::TooOld { .. }) => {
                self.coverage.count("snapshot too old");
                None
            }
            None => {
                self.coverage.count("chunks missing");
                None
            }
        }
    }

    fn refuse(&mut self, id: MemberId, propose: &Propose) {
        let Origin {
            member,
            session,
            number,
        } = propose.origin;
        let term = propose.tag;
        if member != id {
            return self.send(
                id,
                member,
                Wire::Refused {
                    term,
                    session,
                    number,
                },
            );
        }
        if session == self.process(id).session {
            self.proposal_refused(id, term, number);
        }
    }

    /// Appends an entry to the log and to what depends on it.
    pub(crate) fn append(
        &mut self,
        id: MemberId,
        kind: EntryKind,
        origin: Origin,
        depends_on: Seqno,
        payload: &Bytes,
    ) -> Result<EntryHeader, ProposeError> {
        let local = self.local(id);
        let proposal = Proposal {
            kind,
            origin,
            depends_on,
            payload_len: payload.len() as u32, // far below 4 GiB
            payload_crc: crc32c::crc32c(payload),
        };
        let process = self.process(id);
        let judged = (process.ingest.window_start(), process.ingest.blind);
        let header = process.core.propose(local, proposal)?;
        process.staged.put(header, payload.clone());
        self.ingest_entry(id, &header, payload);
        self.checks.certified.judged(header.id(), judged);
        Ok(header)
    }

    /// Appends an entry of the leader's own.
    pub(crate) fn append_own(&mut self, id: MemberId, kind: EntryKind, payload: &Bytes) {
        let origin = Origin {
            member: id,
            session: SessionId(0),
            number: 0,
        };
        let depends_on = match kind.is_ordered() {
            true => self.core(id).last_seqno(),
            false => Seqno::UNDEFINED,
        };
        // Refused when full or handing over: the next tick tries again.
        let _ = self.append(id, kind, origin, depends_on, payload);
    }

    // --- the origin's side ------------------------------------------------------------------

    /// Sends what is due to the leader; whether anything was due.
    pub(crate) fn send_proposals(&mut self, id: MemberId) -> bool {
        let mut sent = false;
        while let Some(send) = self.process(id).outbox.poll_send() {
            sent = true;
            let process = self.process(id);
            let Some(submitted) = process.submitted.get(&send.number) else {
                process.outbox.forget(send.number);
                continue;
            };
            let propose = Propose {
                tag: send.tag,
                origin: Origin {
                    member: id,
                    session: process.session,
                    number: send.number,
                },
                kind: submitted.kind,
                oldest: process.outbox.oldest_outstanding().unwrap_or(send.number),
                payload: submitted.payload.clone(),
            };
            if send.to == id {
                self.handle_propose(id, id, propose);
            } else {
                self.send(id, send.to, Wire::Propose(propose));
            }
        }
        sent
    }

    /// A connection is new. If it leads to the leader, proposals or refusals may have got lost.
    pub(crate) fn repeat_proposals(&mut self, id: MemberId, member: MemberId) {
        let process = self.process(id);
        if process.core.leader().is_none_or(|leader| leader == member) {
            process.outbox.reconnected();
        }
    }

    /// The log began anew, behind entries that this member has not seen: what it proposed may be
    /// among them, so it is not sent again.
    pub(crate) fn forget_unseen(&mut self, id: MemberId) {
        if self.planted(Planted::ResendAfterReset) {
            return;
        }
        let process = self.process(id);
        let numbers = process.outbox.log_reset(process.core.base().last.term);
        if !numbers.is_empty() {
            process.lock_epoch += 1;
        }
        for number in numbers {
            if let Some(submitted) = self.process(id).submitted.remove(&number) {
                self.unknown(submitted.transaction);
            }
        }
    }

    /// The leader has refused a proposal.
    pub(crate) fn proposal_refused(&mut self, id: MemberId, term: Term, number: u64) {
        let term = match self.planted(Planted::BelieveOldRefusal) {
            true => self.core(id).term(),
            false => term,
        };
        let process = self.process(id);
        if !process.outbox.refused(term, number) {
            return;
        }
        let origin = Origin {
            member: id,
            session: process.session,
            number,
        };
        let submitted = process.submitted.remove(&number);
        let checked = self.checks.once.refused(&origin);
        self.judge(checked);
        if let Some(submitted) = submitted {
            self.client_refused(id, number, &submitted);
        }
    }
}

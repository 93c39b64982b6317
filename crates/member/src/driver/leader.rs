//! What a leader does beyond the protocol: it judges proposals, announces views, and keeps an eye on
//! the members.

use bytes::Bytes;
use synod_certify::Verdict;
use synod_consensus::{
    DedupVerdict, EntryHeader, EntryKind, MemberId, Origin, Proposal, ProposeError, Seqno,
    SessionId,
};
use synod_wire::{PeerMessage, ProposalRefusal, Propose, Report, StatusBroadcast};

use super::Driver;
use crate::certification::CertifyError;
use crate::host::Level;

impl Driver {
    /// A proposal of this or another member.
    pub(super) fn handle_propose(&mut self, from: MemberId, propose: Propose) {
        if !self.core.is_leader() {
            // The origin learns of the change of leader by itself and sends again.
            return;
        }
        let origin = propose.origin;
        let is_proposal = matches!(propose.kind, EntryKind::Action | EntryKind::Chunk);
        if origin.member != from || !is_proposal {
            self.log(
                Level::Warning,
                format!("dropping a malformed proposal of member {from}"),
            );
            return;
        }
        self.dedup
            .acknowledged(origin.member, origin.session, propose.oldest_outstanding);
        if self.deferred.is_empty() {
            self.order(propose);
        } else {
            self.deferred.push(propose);
        }
    }

    /// Orders what waited for room; whether any of it was.
    pub(super) fn retry_deferred(&mut self) -> bool {
        let mut ordered = false;
        for _ in 0..self.deferred.len() {
            let Some(propose) = self.deferred.pop() else {
                break;
            };
            if !self.order(propose) {
                break;
            }
            ordered = true;
        }
        ordered
    }

    /// Whether this member's own disk is so far behind the group's that memory fills up.
    fn is_disk_behind(&self) -> bool {
        let uncommitted_max = usize::try_from(self.config.limits.uncommitted_bytes_max);
        let bound = uncommitted_max
            .unwrap_or(usize::MAX)
            .saturating_add(self.tuning.entry_cache_bytes);
        self.entry_cache.bytes() > bound && self.core.durable_index() < self.last_committed
    }

    /// Judges and appends a proposal; false if there is no room, and it was put back.
    fn order(&mut self, propose: Propose) -> bool {
        match self.dedup.check(propose.tag, propose.origin) {
            DedupVerdict::New => {}
            DedupVerdict::WrongTerm | DedupVerdict::AlreadyAppended => return true,
            DedupVerdict::AlreadyRefused => {
                self.refuse(
                    &propose,
                    ProposalRefusal::Conflict {
                        with: Seqno::UNDEFINED,
                    },
                );
                return true;
            }
        }
        if self.is_disk_behind() || self.links.shared.is_log_full() {
            self.deferred.put_back(propose);
            return false;
        }
        let depends_on = match self.judge(&propose) {
            Ok(depends_on) => depends_on,
            Err(why) => {
                self.dedup.refused(propose.origin);
                self.refuse(&propose, why);
                return true;
            }
        };
        let proposed = self.append(propose.kind, propose.origin, depends_on, &propose.payload);
        match proposed {
            Ok(_) => {
                self.dedup.appended(propose.origin);
                true
            }
            Err(ProposeError::Busy | ProposeError::LeaderTransfer) => {
                self.deferred.put_back(propose);
                false
            }
            Err(ProposeError::NotLeader { .. }) => true,
        }
    }

    fn judge(&self, propose: &Propose) -> Result<Seqno, ProposalRefusal> {
        let unfit = |unfit| match unfit {
            CertifyError::ChunksUnknown => ProposalRefusal::GivenUp,
            CertifyError::Malformed(error) => {
                self.log(
                    Level::Error,
                    format!("proposal {:?}: {error}", propose.origin),
                );
                ProposalRefusal::Malformed
            }
        };
        let (origin, payload) = (&propose.origin, &propose.payload);
        if propose.kind == EntryKind::Chunk {
            let checked = self.ingest.check_chunk(origin, payload);
            return checked.map_err(unfit).map(|()| Seqno::UNDEFINED);
        }
        match self.ingest.certify(origin, payload).map_err(unfit)? {
            Verdict::Pass { depends_on } => Ok(Seqno(depends_on)),
            Verdict::Conflict { with } => Err(ProposalRefusal::Conflict { with: Seqno(with) }),
            Verdict::TooOld { .. } => Err(ProposalRefusal::TooOld),
        }
    }

    fn refuse(&mut self, propose: &Propose, reason: ProposalRefusal) {
        let Origin {
            member,
            session,
            number,
        } = propose.origin;
        if member == self.me.member {
            if session == self.me.session {
                self.proposal_refused(propose.tag, number, reason);
            }
            return;
        }
        let term = propose.tag;
        self.send(
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
        let payload_len = u32::try_from(payload.len()).expect("bounded by the frame size");
        let payload_crc = crc32c::crc32c(payload);
        let proposal = Proposal {
            kind,
            origin,
            depends_on,
            payload_len,
            payload_crc,
        };
        let header = self.core.propose(self.now(), proposal)?;
        self.entry_cache.put(header, payload.clone());
        self.ingest_entry(&header, payload);
        Ok(header)
    }

    /// Appends an entry of the leader's own; false if that is refused, as when it is handing over.
    pub(super) fn append_own(&mut self, kind: EntryKind, payload: &Bytes) -> bool {
        let origin = Origin {
            member: self.me.member,
            session: SessionId(0),
            number: 0,
        };
        let depends_on = match kind.is_ordered() {
            true => self.core.last_seqno(),
            false => Seqno::UNDEFINED,
        };
        self.append(kind, origin, depends_on, payload).is_ok()
    }

    pub(super) fn begin_leading(&mut self) {
        let (view, me) = (self.membership.views.latest(), self.as_view_member());
        match std::mem::take(&mut self.forced) {
            false => self.membership.presence.begin(self.now, view, me),
            // The others were waited for before, or the operator knows better.
            true => {
                let limit = self.config.suspect;
                self.membership
                    .presence
                    .begin_with_live_members(self.now, view, me, limit);
            }
        }
    }

    pub(super) fn lead_slow_tick(&mut self) {
        if !self.core.is_ready_leader() {
            return;
        }
        self.update_view();
        self.correct_own_record();
        self.raise_protocol();
        self.continue_leaves();
        self.discard_unknown();
        self.discard_stale();
        self.discard_action_in_the_way();
        self.weigh_reports();
        self.broadcast_status();
        self.announce_full_log();
    }

    pub(super) fn handle_report(&mut self, from: MemberId, report: Report) {
        let current = self.membership.presence.session_of(from) == Some(report.session);
        if !self.core.is_leader() || report.member != from || !current {
            return;
        }
        self.core
            .set_eligible(from, report.state.is_whole() && report.wants_vote);
        self.membership.presence.report(report);
    }

    /// Tells the leader of this member's database.
    pub(super) fn send_report(&mut self) {
        let Some(leader) = self.core.leader() else {
            return;
        };
        let report = self.own_report();
        if leader == self.me.member {
            self.membership.presence.report(report);
        } else {
            self.send(leader, PeerMessage::Report(report));
        }
    }

    fn broadcast_status(&mut self) {
        if !self.membership.presence.all_reported() {
            // Whoever has just come may be far behind: its write sets need the history.
            return;
        }
        self.advance_window(self.membership.presence.reports().map(|r| r.seen).min());
        let members: Vec<Report> = self.membership.presence.reports().cloned().collect();
        let config = &self.core.config().config;
        self.retention.note_reports(config, &members);
        let (term, purge_limit) = (self.core.term(), self.purge_limit());
        let others: Vec<MemberId> = self.core.config().config.members.keys().copied().collect();
        for member in others.into_iter().filter(|id| *id != self.me.member) {
            let status = StatusBroadcast {
                term,
                members: members.clone(),
                purge_limit,
            };
            self.send(member, PeerMessage::Status(status));
        }
    }

    pub(super) fn handle_status(&mut self, from: MemberId, status: StatusBroadcast) {
        if status.term == self.core.term() && self.core.leader() == Some(from) {
            self.advance_window(status.members.iter().map(|r| r.seen).min());
            let config = &self.core.config().config;
            let last = self.core.last_id().index;
            let (reports, limit) = (&status.members, status.purge_limit);
            self.retention.note_status(config, reports, limit, last);
            self.weigh_status(&status.members);
        }
    }

    /// History that every present member has applied can no longer conflict with anything.
    fn advance_window(&mut self, low_water: Option<Seqno>) {
        if let Some(low_water) = low_water {
            self.ingest.advance_window(low_water);
        }
    }
}

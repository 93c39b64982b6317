//! Full copies: the joiner asks the leader, the leader picks a donor, the donor answers the joiner.

use synod_consensus::{MemberId, SessionId};
use synod_wire::{DataState, PeerMessage, StateOffer, StateRequest, StateResult};

use super::Driver;
use crate::host::{DonorRequest, Level, StateTransferEvent};

impl Driver {
    /// The host of this member needs a copy.
    pub(super) fn request_state(&mut self, mut request: StateRequest) {
        request.joiner = self.me.member;
        request.session = self.me.session;
        self.unanswered.asked(request.clone());
        match self.core.leader() {
            Some(leader) if leader == self.me.member => self.choose_donor(request),
            Some(leader) => self.send(leader, PeerMessage::StateRequest(request)),
            None => {
                let text = "no leader is known".to_owned();
                self.links
                    .host
                    .state_transfer_event(request.id, StateTransferEvent::NoDonor { text });
            }
        }
    }

    /// From a joiner, to the leader; or from the leader, which may be the joiner itself, to a donor.
    pub(super) fn handle_state_request(&mut self, from: MemberId, request: StateRequest) {
        let is_from_leader = self.core.leader() == Some(from);
        if from == request.joiner && !is_from_leader {
            self.choose_donor(request);
        } else {
            self.donate(request);
        }
    }

    /// Passes a request on to the donor that hurts least.
    fn choose_donor(&mut self, request: StateRequest) {
        let joiner = request.joiner;
        let chosen = self.unanswered.donor_of(&request);
        match chosen.or_else(|| self.best_donor(&request)) {
            Some(donor) if donor == self.me.member => self.donate(request),
            Some(donor) => {
                let session = self.session_of(donor);
                self.unanswered
                    .passed_on(donor, session, request.clone(), self.now);
                self.send(donor, PeerMessage::StateRequest(request));
            }
            None => {
                let text = match self.core.is_leader() {
                    true => "no synced member is free to give a copy".to_owned(),
                    false => "the member asked does not lead".to_owned(),
                };
                let offer = StateOffer {
                    id: request.id,
                    donor: MemberId::NONE,
                    accepted: false,
                    text,
                };
                self.answer_offer(joiner, offer);
            }
        }
    }

    /// Named donors first, in the order given; then followers before the leader, and among those the
    /// one with the least left to apply.
    fn best_donor(&self, request: &StateRequest) -> Option<MemberId> {
        if !self.core.is_leader() {
            return None;
        }
        let fit = |id: MemberId| {
            id != request.joiner
                && self.presence.get(id).is_some()
                && self
                    .presence
                    .reports()
                    .any(|r| r.member == id && r.state == DataState::Synced)
        };
        for name in &request.preferred {
            let named = self
                .presence
                .members()
                .into_iter()
                .find(|m| m.name == *name);
            if let Some(member) = named.filter(|m| fit(m.member)) {
                return Some(member.member);
            }
        }
        if !request.preferred.is_empty() && !request.any_donor {
            return None;
        }
        self.presence
            .reports()
            .filter(|r| fit(r.member))
            .min_by_key(|r| (r.member == self.me.member, r.queue, r.member))
            .map(|r| r.member)
    }

    /// The session in which a member is present.
    fn session_of(&self, member: MemberId) -> Option<SessionId> {
        let members = self.committed_view.members.iter();
        members
            .filter(|m| m.member == member)
            .map(|m| m.session)
            .next()
    }

    /// A connection to this member is new: what was sent over the last one may be lost.
    pub(super) fn repeat_transfer_messages(&mut self, member: MemberId) {
        let leads = self.core.leader() == Some(member);
        let session = self.session_of(member);
        let messages = self.unanswered.to_repeat(member, session, leads, self.now);
        for message in messages {
            self.send(member, message);
        }
    }

    fn donate(&mut self, request: StateRequest) {
        if let Some(answers) = self.unanswered.received(&request) {
            for answer in answers {
                self.send(request.joiner, answer);
            }
            return;
        }
        self.log(
            Level::Info,
            format!(
                "{} asks this member for a full copy",
                self.name_of(request.joiner)
            ),
        );
        self.links.host.donate(DonorRequest {
            id: request.id,
            joiner: request.joiner,
            after: request.after,
            request: request.request,
        });
    }

    pub(super) fn answer_offer(&mut self, joiner: MemberId, offer: StateOffer) {
        self.unanswered.offered(joiner, &offer);
        if joiner == self.me.member {
            self.handle_state_offer(offer);
        } else {
            self.send(joiner, PeerMessage::StateOffer(offer));
        }
    }

    pub(super) fn answer_result(&mut self, joiner: MemberId, result: StateResult) {
        self.unanswered.finished(joiner, &result);
        self.send(joiner, PeerMessage::StateResult(result));
    }

    pub(super) fn handle_state_offer(&mut self, offer: StateOffer) {
        let StateOffer {
            id,
            donor,
            accepted,
            text,
        } = offer;
        self.unanswered.answered(id);
        let news = match accepted {
            true => {
                self.log(
                    Level::Info,
                    format!("{} gives this member a copy", self.name_of(donor)),
                );
                StateTransferEvent::Accepted { donor }
            }
            false => StateTransferEvent::NoDonor { text },
        };
        self.links.host.state_transfer_event(id, news);
    }

    pub(super) fn handle_state_result(&mut self, result: StateResult) {
        let StateResult {
            id,
            ok,
            code,
            seqno,
            text,
        } = result;
        let news = match ok {
            true => StateTransferEvent::Done { seqno },
            false => StateTransferEvent::Failed { code, text },
        };
        self.links.host.state_transfer_event(id, news);
    }
}

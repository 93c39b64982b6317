//! The driver's dealings with [`super::StateTransfers`]: sends requests and answers, and informs
//! the host.

use synod_consensus::{MemberId, SessionId};
use synod_wire::{PeerMessage, StateOffer, StateRequest, StateResult};

use super::best_donor;
use crate::driver::Driver;
use crate::host::{DonorRequest, Level, StateTransferEvent};

impl Driver {
    /// The host of this member needs a copy.
    pub(in crate::driver) fn request_state(&mut self, mut request: StateRequest) {
        request.joiner = self.ctx.identity.me.member;
        request.session = self.ctx.identity.me.session;
        self.catch_up.state_transfers.asked(request.clone());
        match self.ctx.core.leader() {
            Some(leader) if leader == self.ctx.identity.me.member => self.choose_donor(request),
            Some(leader) => self.ctx.send(leader, PeerMessage::StateRequest(request)),
            None => {
                let text = "no leader is known".to_owned();
                self.ctx
                    .links
                    .host
                    .state_transfer_event(request.id, StateTransferEvent::NoDonor { text });
            }
        }
    }

    /// From a joiner, to the leader; or from the leader, which may be the joiner itself, to a
    /// donor.
    pub(in crate::driver) fn handle_state_request(
        &mut self,
        from: MemberId,
        request: StateRequest,
    ) {
        let is_from_leader = self.ctx.core.leader() == Some(from);
        if is_from_leader {
            self.donate(request);
        } else if from == request.joiner {
            self.choose_donor(request);
        }
    }

    /// Leader only: sends a request on to the donor that costs the group least.
    fn choose_donor(&mut self, request: StateRequest) {
        let joiner = request.joiner;
        let chosen = self.catch_up.state_transfers.donor_of(&request);
        match chosen.or_else(|| self.best_donor(&request)) {
            Some(donor) if donor == self.ctx.identity.me.member => self.donate(request),
            Some(donor) => {
                let session = self.session_in_view(donor);
                self.catch_up.state_transfers.forwarded(
                    donor,
                    session,
                    request.clone(),
                    self.ctx.turns.now,
                );
                self.ctx.send(donor, PeerMessage::StateRequest(request));
            }
            None => {
                let text = if self.ctx.core.is_leader() {
                    "no synced member is free to give a copy"
                } else {
                    "the member asked does not lead"
                };
                let offer = StateOffer {
                    id: request.id,
                    donor: MemberId::NONE,
                    accepted: false,
                    text: text.to_owned(),
                };
                self.answer_offer(joiner, offer);
            }
        }
    }

    /// Leader only: the member that should give the copy.
    fn best_donor(&self, request: &StateRequest) -> Option<MemberId> {
        let present_in = self.membership.presence.session_of(request.joiner);
        if !self.ctx.core.is_leader() || present_in != Some(request.session) {
            return None;
        }
        let (me, present) = (
            self.ctx.identity.me.member,
            self.membership.presence.members(),
        );
        best_donor(request, me, &present, self.membership.presence.reports())
    }

    /// The session in which a member is in the committed view.
    fn session_in_view(&self, member: MemberId) -> Option<SessionId> {
        let members = self.ctx.views.committed().members.iter();
        members
            .filter(|m| m.member == member)
            .map(|m| m.session)
            .next()
    }

    /// A connection to this member is new: messages sent over the last one may be lost.
    pub(in crate::driver) fn repeat_state_transfer_messages(&mut self, member: MemberId) {
        let leads = self.ctx.core.leader() == Some(member);
        let session = self.session_in_view(member);
        let messages =
            self.catch_up
                .state_transfers
                .to_repeat(member, session, leads, self.ctx.turns.now);
        for message in messages {
            self.ctx.send(member, message);
        }
    }

    /// Donor only: has the host make the copy, unless it was asked for already.
    fn donate(&mut self, request: StateRequest) {
        if let Some(answers) = self.catch_up.state_transfers.received(&request) {
            for answer in answers {
                self.ctx.send(request.joiner, answer);
            }
            return;
        }
        self.ctx.log(
            Level::Info,
            format!(
                "{} asks this member for a full copy",
                self.ctx.name_of(request.joiner)
            ),
        );
        self.ctx.links.host.donate(DonorRequest {
            id: request.id,
            joiner: request.joiner,
            after: request.after,
            request: request.request,
        });
    }

    /// Donor, or leader that has none: answers the joiner.
    pub(in crate::driver) fn answer_offer(&mut self, joiner: MemberId, offer: StateOffer) {
        self.catch_up.state_transfers.offered(joiner, &offer);
        if joiner == self.ctx.identity.me.member {
            self.offered(offer);
        } else {
            self.ctx.send(joiner, PeerMessage::StateOffer(offer));
        }
    }

    /// Donor only: informs the joiner that the copy is made, or failed.
    pub(in crate::driver) fn answer_result(&mut self, joiner: MemberId, result: StateResult) {
        self.catch_up.state_transfers.finished(joiner, &result);
        self.ctx.send(joiner, PeerMessage::StateResult(result));
    }

    /// Joiner only: an answer to this member's request. A donor accepts for itself.
    pub(in crate::driver) fn handle_state_offer(&mut self, from: MemberId, offer: StateOffer) {
        if offer.donor == from || !offer.accepted {
            self.offered(offer);
        }
    }

    /// Joiner only: a donor has accepted, or there is none.
    fn offered(&mut self, offer: StateOffer) {
        let StateOffer {
            id,
            donor,
            accepted,
            text,
        } = offer;
        if !self
            .catch_up
            .state_transfers
            .answered(id, accepted.then_some(donor))
        {
            return;
        }
        let event = if accepted {
            let donor_name = self.ctx.name_of(donor);
            self.ctx.log(
                Level::Info,
                format!("{donor_name} gives this member a copy"),
            );
            StateTransferEvent::Accepted { donor }
        } else {
            StateTransferEvent::NoDonor { text }
        };
        self.ctx.links.host.state_transfer_event(id, event);
    }

    /// Joiner only: the copy is made, or failed.
    pub(in crate::driver) fn handle_state_result(&mut self, from: MemberId, result: StateResult) {
        if !self
            .catch_up
            .state_transfers
            .expects_result(result.id, from)
        {
            return;
        }
        let StateResult {
            id,
            ok,
            code,
            seqno,
            text,
        } = result;
        let event = if ok {
            StateTransferEvent::Done { seqno }
        } else {
            StateTransferEvent::Failed { code, text }
        };
        self.ctx.links.host.state_transfer_event(id, event);
    }
}

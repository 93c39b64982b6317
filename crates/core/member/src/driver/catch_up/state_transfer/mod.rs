//! Full copies (SST): the joiner asks the leader, the leader picks a donor, the donor answers the
//! joiner.
//!
//! ```text
//!  joiner             leader             donor
//!    |-- StateRequest -->|-- StateRequest -->|
//!    |<------------- StateOffer -------------|  accepted, or not
//!    |<------------- StateResult ------------|  once the copy is made
//! ```
//!
//! A message may be lost with a connection; it is sent again over the next one. [`StateTransfers`]
//! keeps what each of the three roles would have to repeat, the newest per joiner. It recognises
//! repetitions by joiner, session and number. [`best_donor`] is the leader's choice. The copy
//! itself is made by the hosts.

mod donor;

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, SessionId, Time};
use synod_wire::{PeerMessage, StateOffer, StateRequest, StateResult};

use crate::driver::context::Context;
use crate::driver::membership::Membership;
use crate::host::{DonorRequest, Level, StateTransferEvent};
use donor::best_donor;

/// A request that was forwarded so long ago is not repeated: the joiner has asked again, or will.
const STALE: Duration = Duration::from_secs(15);
/// Joiners remembered; a group has no more members.
const JOINERS_MAX: usize = 64;

/// The component that knows the state transfers under way. Invariant: at most one request per
/// joiner and role, the newest.
#[derive(Default)]
pub(in crate::driver) struct StateTransfers {
    /// Joiner only: the request that has no answer yet.
    asked: Option<StateRequest>,
    /// Joiner only: the newest request, and the donor that has accepted it.
    newest: Option<(u64, Option<MemberId>)>,
    /// Leader only: requests sent on to a donor, by joiner.
    forwarded: BTreeMap<MemberId, Forwarded>,
    /// Donor only: requests taken, by joiner.
    donations: BTreeMap<MemberId, Donation>,
}

struct Forwarded {
    donor: MemberId,
    /// The donor's session; another process knows nothing of the request.
    donor_session: Option<SessionId>,
    request: StateRequest,
    at: Time,
}

/// A request that this member has taken as a donor, and what it has answered so far.
struct Donation {
    session: SessionId,
    id: u64,
    offer: Option<StateOffer>,
    result: Option<StateResult>,
}

impl Donation {
    fn answers(&self) -> Vec<PeerMessage> {
        let offer = self.offer.clone().map(PeerMessage::StateOffer);
        let result = self.result.clone().map(PeerMessage::StateResult);
        offer.into_iter().chain(result).collect()
    }
}

impl StateTransfers {
    fn asked(&mut self, request: StateRequest) {
        self.newest = Some((request.id, None));
        self.asked = Some(request);
    }

    /// An answer to a request of this member came, from a donor if one has accepted. False if it is
    /// not about the newest request.
    fn answered(&mut self, id: u64, donor: Option<MemberId>) -> bool {
        match &mut self.newest {
            Some((newest, accepted)) if *newest == id => *accepted = donor.or(*accepted),
            _ => return false,
        }
        self.asked = None;
        true
    }

    /// Whether this member may answer how the copy for this request ended: the donor that has
    /// accepted it. Its acceptance may come later than that.
    fn expects_result(&self, id: u64, from: MemberId) -> bool {
        let newest = self.newest.filter(|(newest, _)| *newest == id);
        newest.is_some_and(|(_, donor)| donor.is_none_or(|donor| donor == from))
    }

    fn forwarded(
        &mut self,
        donor: MemberId,
        donor_session: Option<SessionId>,
        request: StateRequest,
        at: Time,
    ) {
        make_room(&mut self.forwarded, request.joiner);
        let joiner = request.joiner;
        let forwarded = Forwarded {
            donor,
            donor_session,
            request,
            at,
        };
        self.forwarded.insert(joiner, forwarded);
    }

    /// The donor to which this very request was sent on already.
    fn donor_of(&self, request: &StateRequest) -> Option<MemberId> {
        let known = self.forwarded.get(&request.joiner)?;
        (known.request == *request).then_some(known.donor)
    }

    /// Donor only: this member gets a request. `Some`, if again: the answers so far.
    fn received(&mut self, request: &StateRequest) -> Option<Vec<PeerMessage>> {
        let known = self.donations.get(&request.joiner);
        let same = known.filter(|known| (known.session, known.id) == (request.session, request.id));
        if let Some(donation) = same {
            return Some(donation.answers());
        }
        make_room(&mut self.donations, request.joiner);
        let donation = Donation {
            session: request.session,
            id: request.id,
            offer: None,
            result: None,
        };
        self.donations.insert(request.joiner, donation);
        None
    }

    fn donation(&mut self, joiner: MemberId, id: u64) -> Option<&mut Donation> {
        self.donations.get_mut(&joiner).filter(|d| d.id == id)
    }

    fn note_offer(&mut self, joiner: MemberId, offer: &StateOffer) {
        if let Some(donation) = self.donation(joiner, offer.id) {
            donation.offer = Some(offer.clone());
        }
    }

    fn finished(&mut self, joiner: MemberId, result: &StateResult) {
        if let Some(donation) = self.donation(joiner, result.id) {
            donation.result = Some(result.clone());
        }
    }

    /// Messages to send again over a new connection to this member, which is present in `session`.
    /// `leads`: it is the leader.
    fn to_repeat(
        &self,
        member: MemberId,
        session: Option<SessionId>,
        leads: bool,
        now: Time,
    ) -> Vec<PeerMessage> {
        let asked = self.asked.iter().filter(|_| leads);
        let forwarded = self.forwarded.values().filter(|p| {
            let fresh = now.since(p.at) < STALE;
            p.donor == member && p.donor_session == session && fresh
        });
        let requests = asked.chain(forwarded.map(|p| &p.request));
        let mut messages: Vec<PeerMessage> =
            requests.cloned().map(PeerMessage::StateRequest).collect();
        if let Some(donation) = self.donations.get(&member)
            && session == Some(donation.session)
        {
            messages.extend(donation.answers());
        }
        messages
    }
}

fn make_room<T>(known: &mut BTreeMap<MemberId, T>, joiner: MemberId) {
    if known.len() >= JOINERS_MAX && !known.contains_key(&joiner) {
        known.pop_first();
    }
}

impl StateTransfers {
    pub(in crate::driver) fn request_state(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        mut request: StateRequest,
    ) {
        request.joiner = ctx.identity.me.member;
        request.session = ctx.identity.me.session;
        self.asked(request.clone());
        match ctx.core.leader() {
            Some(leader) if leader == ctx.identity.me.member => {
                self.choose_donor(ctx, membership, request)
            }
            Some(leader) => ctx.send(leader, PeerMessage::StateRequest(request)),
            None => {
                let text = "no leader is known".to_owned();
                ctx.links
                    .host
                    .state_transfer_event(request.id, StateTransferEvent::NoDonor { text });
            }
        }
    }

    /// From a joiner to the leader; or from the leader, perhaps the joiner itself, to a donor.
    pub(in crate::driver) fn handle_state_request(
        &mut self,
        ctx: &Context,
        membership: &Membership,
        from: MemberId,
        request: StateRequest,
    ) {
        let is_from_leader = ctx.core.leader() == Some(from);
        if is_from_leader {
            self.donate(ctx, request);
        } else if from == request.joiner {
            self.choose_donor(ctx, membership, request);
        }
    }

    /// Leader only: sends a request on to the donor that costs the group least.
    fn choose_donor(&mut self, ctx: &Context, membership: &Membership, request: StateRequest) {
        let joiner = request.joiner;
        let chosen = self.donor_of(&request);
        match chosen.or_else(|| donor_for(ctx, membership, &request)) {
            Some(donor) if donor == ctx.identity.me.member => self.donate(ctx, request),
            Some(donor) => {
                let session = ctx.session_in_view(donor);
                self.forwarded(donor, session, request.clone(), ctx.turns.now);
                ctx.send(donor, PeerMessage::StateRequest(request));
            }
            None => {
                let text = if ctx.core.is_leader() {
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
                self.answer_offer(ctx, joiner, offer);
            }
        }
    }

    /// A connection to this member is new: messages sent over the last one may be lost.
    pub(in crate::driver) fn repeat_state_transfer_messages(
        &self,
        ctx: &Context,
        member: MemberId,
    ) {
        let leads = ctx.core.leader() == Some(member);
        let session = ctx.session_in_view(member);
        let messages = self.to_repeat(member, session, leads, ctx.turns.now);
        for message in messages {
            ctx.send(member, message);
        }
    }

    /// Donor only: has the host make the copy, unless it was asked for already.
    fn donate(&mut self, ctx: &Context, request: StateRequest) {
        if let Some(answers) = self.received(&request) {
            for answer in answers {
                ctx.send(request.joiner, answer);
            }
            return;
        }
        ctx.log(
            Level::Info,
            format!(
                "{} asks this member for a full copy",
                ctx.name_of(request.joiner)
            ),
        );
        ctx.links.host.donate(DonorRequest {
            id: request.id,
            joiner: request.joiner,
            after: request.after,
            request: request.request,
        });
    }

    pub(in crate::driver) fn answer_offer(
        &mut self,
        ctx: &Context,
        joiner: MemberId,
        offer: StateOffer,
    ) {
        self.note_offer(joiner, &offer);
        if joiner == ctx.identity.me.member {
            self.offered(ctx, offer);
        } else {
            ctx.send(joiner, PeerMessage::StateOffer(offer));
        }
    }

    pub(in crate::driver) fn answer_result(
        &mut self,
        ctx: &Context,
        joiner: MemberId,
        result: StateResult,
    ) {
        self.finished(joiner, &result);
        ctx.send(joiner, PeerMessage::StateResult(result));
    }

    /// Joiner only: an answer to this member's request. A donor accepts for itself.
    pub(in crate::driver) fn handle_state_offer(
        &mut self,
        ctx: &Context,
        from: MemberId,
        offer: StateOffer,
    ) {
        if offer.donor == from || !offer.accepted {
            self.offered(ctx, offer);
        }
    }

    fn offered(&mut self, ctx: &Context, offer: StateOffer) {
        let StateOffer {
            id,
            donor,
            accepted,
            text,
        } = offer;
        if !self.answered(id, accepted.then_some(donor)) {
            return;
        }
        let event = if accepted {
            let donor_name = ctx.name_of(donor);
            ctx.log(
                Level::Info,
                format!("{donor_name} gives this member a copy"),
            );
            StateTransferEvent::Accepted { donor }
        } else {
            StateTransferEvent::NoDonor { text }
        };
        ctx.links.host.state_transfer_event(id, event);
    }

    pub(in crate::driver) fn handle_state_result(
        &self,
        ctx: &Context,
        from: MemberId,
        result: StateResult,
    ) {
        if !self.expects_result(result.id, from) {
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
        ctx.links.host.state_transfer_event(id, event);
    }
}

fn donor_for(ctx: &Context, membership: &Membership, request: &StateRequest) -> Option<MemberId> {
    let present_in = membership.presence.session_of(request.joiner);
    if !ctx.core.is_leader() || present_in != Some(request.session) {
        return None;
    }
    let (me, present) = (ctx.identity.me.member, membership.presence.members());
    best_donor(request, me, &present, membership.presence.reports())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::Seqno;

    const JOINER: MemberId = MemberId(3);
    const DONOR: MemberId = MemberId(2);

    fn request(id: u64) -> StateRequest {
        StateRequest {
            id,
            joiner: JOINER,
            session: SessionId(30),
            after: Seqno(5),
            preferred: Vec::new(),
            any_donor: true,
            request: Bytes::new(),
        }
    }

    fn offer(id: u64) -> StateOffer {
        StateOffer {
            id,
            donor: DONOR,
            accepted: true,
            text: String::new(),
        }
    }

    fn result(id: u64) -> StateResult {
        StateResult {
            id,
            ok: true,
            code: 0,
            seqno: Seqno(9),
            text: String::new(),
        }
    }

    #[test]
    fn request_is_repeated_to_the_leader_until_it_is_answered_or_superseded() {
        let (mut state, now) = (StateTransfers::default(), Time(7));
        state.asked(request(1));
        state.asked(request(2));
        let repeated = state.to_repeat(MemberId(1), None, true, now);
        assert_eq!(repeated, [PeerMessage::StateRequest(request(2))]);
        assert!(state.to_repeat(MemberId(1), None, false, now).is_empty());
        assert!(!state.answered(1, None));
        assert_eq!(state.to_repeat(MemberId(1), None, true, now).len(), 1);
        assert!(state.answered(2, None));
        assert!(state.to_repeat(MemberId(1), None, true, now).is_empty());
    }

    #[test]
    fn result_comes_from_the_donor_that_has_accepted() {
        let mut state = StateTransfers::default();
        assert!(!state.expects_result(1, DONOR), "nothing was asked");
        state.asked(request(1));
        assert!(state.expects_result(1, DONOR), "it may overtake the offer");
        assert!(state.answered(1, Some(DONOR)));
        assert!(state.expects_result(1, DONOR));
        assert!(!state.expects_result(1, MemberId(9)), "another member");
        state.asked(request(2));
        assert!(!state.expects_result(1, DONOR), "superseded");
    }

    #[test]
    fn leader_repeats_to_the_same_process_only_and_not_for_long() {
        let (mut state, now) = (StateTransfers::default(), Time(7));
        let session = Some(SessionId(20));
        state.forwarded(DONOR, session, request(1), now);
        assert_eq!(state.donor_of(&request(1)), Some(DONOR));
        assert_eq!(state.donor_of(&request(2)), None);
        assert_eq!(state.to_repeat(DONOR, session, false, now).len(), 1);
        assert!(
            state
                .to_repeat(DONOR, Some(SessionId(21)), false, now)
                .is_empty()
        );
        assert!(
            state
                .to_repeat(DONOR, session, false, now.plus(STALE))
                .is_empty()
        );
    }

    #[test]
    fn donor_does_not_begin_twice_and_repeats_its_answers_to_the_same_process() {
        let (mut state, now) = (StateTransfers::default(), Time(7));
        assert_eq!(state.received(&request(1)), None);
        assert_eq!(
            state.received(&request(1)),
            Some(Vec::new()),
            "not answered yet"
        );
        state.note_offer(JOINER, &offer(1));
        state.finished(JOINER, &result(1));
        state.finished(JOINER, &result(7));
        let answers = vec![
            PeerMessage::StateOffer(offer(1)),
            PeerMessage::StateResult(result(1)),
        ];
        assert_eq!(state.received(&request(1)), Some(answers.clone()));
        let session = Some(SessionId(30));
        assert_eq!(state.to_repeat(JOINER, session, false, now), answers);
        assert!(
            state
                .to_repeat(JOINER, Some(SessionId(31)), false, now)
                .is_empty()
        );
        assert_eq!(state.received(&request(2)), None, "a new request");
        assert!(state.to_repeat(JOINER, session, false, now).is_empty());
    }
}

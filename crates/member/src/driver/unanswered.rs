//! Messages about full copies that may have got lost with a connection: they are sent again when there is
//! a new one. Each of the three involved keeps the newest per joiner. Repetitions are recognised
//! by joiner, session and number.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, SessionId, Time};
use synod_wire::{PeerMessage, StateOffer, StateRequest, StateResult};

/// A request passed on so long ago is not repeated: the joiner has asked again meanwhile, or will.
const STALE: Duration = Duration::from_secs(15);
/// Joiners remembered; a group has no more members.
const JOINERS_MAX: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Unanswered {
    /// This member's own request.
    asked: Option<StateRequest>,
    /// As the leader.
    passed_on: BTreeMap<MemberId, PassedOn>,
    /// As a donor.
    given: BTreeMap<MemberId, Given>,
}

struct PassedOn {
    donor: MemberId,
    /// The donor's; another process knows nothing of the request.
    donor_session: Option<SessionId>,
    request: StateRequest,
    at: Time,
}

/// What this member has answered.
struct Given {
    session: SessionId,
    id: u64,
    offer: Option<StateOffer>,
    result: Option<StateResult>,
}

impl Given {
    fn answers(&self) -> Vec<PeerMessage> {
        let offer = self.offer.clone().map(PeerMessage::StateOffer);
        let result = self.result.clone().map(PeerMessage::StateResult);
        offer.into_iter().chain(result).collect()
    }
}

impl Unanswered {
    /// This member asks the leader.
    pub(super) fn asked(&mut self, request: StateRequest) {
        self.asked = Some(request);
    }

    /// An answer to this member's request came.
    pub(super) fn answered(&mut self, id: u64) {
        self.asked = self.asked.take().filter(|request| request.id != id);
    }

    /// As the leader, this member passes a request on.
    pub(super) fn passed_on(
        &mut self,
        donor: MemberId,
        donor_session: Option<SessionId>,
        request: StateRequest,
        at: Time,
    ) {
        make_room(&mut self.passed_on, request.joiner);
        let joiner = request.joiner;
        let passed_on = PassedOn {
            donor,
            donor_session,
            request,
            at,
        };
        self.passed_on.insert(joiner, passed_on);
    }

    /// To whom this very request was passed on already.
    pub(super) fn donor_of(&self, request: &StateRequest) -> Option<MemberId> {
        let known = self.passed_on.get(&request.joiner)?;
        (known.request == *request).then_some(known.donor)
    }

    /// As a donor, this member gets a request. `Some`: not for the first time; what it has answered.
    pub(super) fn received(&mut self, request: &StateRequest) -> Option<Vec<PeerMessage>> {
        let known = self.given.get(&request.joiner);
        let same = known.filter(|given| (given.session, given.id) == (request.session, request.id));
        if let Some(given) = same {
            return Some(given.answers());
        }
        make_room(&mut self.given, request.joiner);
        let given = Given {
            session: request.session,
            id: request.id,
            offer: None,
            result: None,
        };
        self.given.insert(request.joiner, given);
        None
    }

    /// As a donor, this member has answered.
    pub(super) fn offered(&mut self, joiner: MemberId, offer: &StateOffer) {
        if let Some(given) = self.given.get_mut(&joiner).filter(|g| g.id == offer.id) {
            given.offer = Some(offer.clone());
        }
    }

    /// As a donor, this member has finished.
    pub(super) fn finished(&mut self, joiner: MemberId, result: &StateResult) {
        if let Some(given) = self.given.get_mut(&joiner).filter(|g| g.id == result.id) {
            given.result = Some(result.clone());
        }
    }

    /// There is a new connection to this member, whose session is `session`: what to send again. `leads`:
    /// it is the leader.
    pub(super) fn to_repeat(
        &self,
        member: MemberId,
        session: Option<SessionId>,
        leads: bool,
        now: Time,
    ) -> Vec<PeerMessage> {
        let asked = self.asked.iter().filter(|_| leads);
        let passed_on = self.passed_on.values().filter(|p| {
            let fresh = now.since(p.at) < STALE;
            p.donor == member && p.donor_session == session && fresh
        });
        let requests = asked.chain(passed_on.map(|p| &p.request));
        let mut messages: Vec<PeerMessage> =
            requests.cloned().map(PeerMessage::StateRequest).collect();
        if let Some(given) = self.given.get(&member)
            && session == Some(given.session)
        {
            messages.extend(given.answers());
        }
        messages
    }
}

fn make_room<T>(known: &mut BTreeMap<MemberId, T>, joiner: MemberId) {
    if known.len() >= JOINERS_MAX && !known.contains_key(&joiner) {
        known.pop_first();
    }
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
        let (mut known, now) = (Unanswered::default(), Time(7));
        known.asked(request(1));
        known.asked(request(2));
        let repeated = known.to_repeat(MemberId(1), None, true, now);
        assert_eq!(repeated, [PeerMessage::StateRequest(request(2))]);
        assert!(known.to_repeat(MemberId(1), None, false, now).is_empty());
        known.answered(1);
        assert_eq!(known.to_repeat(MemberId(1), None, true, now).len(), 1);
        known.answered(2);
        assert!(known.to_repeat(MemberId(1), None, true, now).is_empty());
    }

    #[test]
    fn leader_repeats_to_the_same_process_only_and_not_for_long() {
        let (mut known, now) = (Unanswered::default(), Time(7));
        let session = Some(SessionId(20));
        known.passed_on(DONOR, session, request(1), now);
        assert_eq!(known.donor_of(&request(1)), Some(DONOR));
        assert_eq!(known.donor_of(&request(2)), None);
        assert_eq!(known.to_repeat(DONOR, session, false, now).len(), 1);
        assert!(
            known
                .to_repeat(DONOR, Some(SessionId(21)), false, now)
                .is_empty()
        );
        assert!(
            known
                .to_repeat(DONOR, session, false, now.plus(STALE))
                .is_empty()
        );
    }

    #[test]
    fn donor_does_not_begin_twice_and_repeats_its_answers_to_the_same_process() {
        let (mut known, now) = (Unanswered::default(), Time(7));
        assert_eq!(known.received(&request(1)), None);
        assert_eq!(
            known.received(&request(1)),
            Some(Vec::new()),
            "not answered yet"
        );
        known.offered(JOINER, &offer(1));
        known.finished(JOINER, &result(1));
        known.finished(JOINER, &result(7));
        let answers = vec![
            PeerMessage::StateOffer(offer(1)),
            PeerMessage::StateResult(result(1)),
        ];
        assert_eq!(known.received(&request(1)), Some(answers.clone()));
        let session = Some(SessionId(30));
        assert_eq!(known.to_repeat(JOINER, session, false, now), answers);
        assert!(
            known
                .to_repeat(JOINER, Some(SessionId(31)), false, now)
                .is_empty()
        );
        assert_eq!(known.received(&request(2)), None, "a new request");
        assert!(known.to_repeat(JOINER, session, false, now).is_empty());
    }
}

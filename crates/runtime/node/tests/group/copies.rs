//! Asking for a full copy, and hearing of it, over connections that break.

use bytes::Bytes;
use synod_node::{Seqno, StateTransferEvent};

use crate::support::{Group, Member, PATIENCE, eventually};

fn accepted(member: &Member, id: u64) -> bool {
    let record = member.host.lock();
    let mut news = record.news.iter();
    news.any(|(of, news)| *of == id && matches!(news, StateTransferEvent::Accepted { .. }))
}

fn failed(member: &Member, id: u64) -> bool {
    let record = member.host.lock();
    let mut news = record.news.iter();
    news.any(|(of, news)| *of == id && matches!(news, StateTransferEvent::Failed { code: 5, .. }))
}

#[test]
fn answers_that_got_lost_are_repeated_and_no_member_donates_twice() {
    // No member is counted as dead meanwhile: a member that leaves the view asks again when it is
    // back.
    let mut group = Group::prepared_by(3, "copies", |config| config.suspect = PATIENCE);
    let gate = group.gate(2);
    let group = group.begin();
    let (donor, joiner) = (&group.members[1], &group.members[2]);
    let preferred = vec!["node2".to_owned()];
    let ask = |text: &'static str| {
        let request = Bytes::from_static(text.as_bytes());
        joiner
            .node()
            .request_state(Seqno(1), preferred.clone(), false, request)
    };
    eventually("the leader to know the donor's state", || {
        let id = ask("copy");
        eventually("an answer", || {
            !donor.host.lock().donations.is_empty()
                || joiner.host.lock().news.iter().any(|(of, _)| *of == id)
        });
        !donor.host.lock().donations.is_empty()
    });
    let asked = donor.host.lock().donations[0].clone();
    let me = joiner.node().identity().0;
    assert_eq!(asked.joiner, me);
    gate.shut();
    donor
        .node()
        .answer_state_request(asked.id, me, true, String::new());
    donor
        .node()
        .finish_donation(asked.id, me, Seqno(-1), 5, "disk full".to_owned());
    // Answered by the same thread, after both messages were lost in the gate.
    assert!(donor.node().read_position(PATIENCE).is_some());
    assert!(!accepted(joiner, asked.id));
    gate.open();
    eventually("the offer", || accepted(joiner, asked.id));
    eventually("the result", || failed(joiner, asked.id));
    let donations = donor.host.lock().donations.len();
    assert_eq!(donations, 1, "one request, one donation");
}

//! The leader's choice of a donor.

use synod_consensus::MemberId;
use synod_wire::{DataState, Report, StateRequest};

use crate::payload::view::ViewMember;

/// The donor for a joiner, by what the leader `me` knows of the members present: named donors
/// first, in the order given; then followers before the leader, and among those the one with the
/// least left to apply. A donor has to be synced, and is never the joiner itself. None if no member
/// will do.
pub(super) fn best_donor<'a>(
    request: &StateRequest,
    me: MemberId,
    present: &[ViewMember],
    reports: impl Iterator<Item = &'a Report> + Clone,
) -> Option<MemberId> {
    let is_present = |id: MemberId| present.iter().any(|m| m.member == id);
    let is_fit = |report: &&Report| {
        let id = report.member;
        id != request.joiner && is_present(id) && report.state == DataState::Synced
    };
    let fit = reports.filter(is_fit);
    for name in &request.preferred {
        let named = present.iter().find(|m| m.name == *name);
        if let Some(named) = named
            && fit.clone().any(|report| report.member == named.member)
        {
            return Some(named.member);
        }
    }
    if !request.preferred.is_empty() && !request.any_donor {
        return None;
    }
    fit.min_by_key(|report| (report.member == me, report.queue, report.member))
        .map(|report| report.member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::{Seqno, SessionId};

    fn present() -> Vec<ViewMember> {
        let member = |id| ViewMember {
            member: MemberId(id),
            session: SessionId(1),
            name: format!("node{id}"),
            incoming: String::new(),
        };
        (1..=4).map(member).collect()
    }

    fn reports() -> Vec<Report> {
        let report = |(id, queue)| Report {
            member: MemberId(id),
            state: DataState::Synced,
            queue,
            ..Report::default()
        };
        [(1, 0), (2, 9), (3, 5), (4, 0)].map(report).into()
    }

    /// Member 4 joins, member 1 leads.
    fn choose(reports: &[Report], preferred: &[&str], any_donor: bool) -> Option<u64> {
        let request = StateRequest {
            id: 1,
            joiner: MemberId(4),
            session: SessionId(1),
            after: Seqno(0),
            preferred: preferred.iter().map(ToString::to_string).collect(),
            any_donor,
            request: Bytes::new(),
        };
        let donor = best_donor(&request, MemberId(1), &present(), reports.iter());
        donor.map(|id| id.0)
    }

    #[test]
    fn follower_with_the_least_to_apply_is_the_donor_and_the_leader_the_last_choice() {
        let mut all = reports();
        assert_eq!(choose(&all, &[], true), Some(3));
        all[2].state = DataState::Donor;
        assert_eq!(choose(&all, &[], true), Some(2));
        all[1].state = DataState::Joined;
        assert_eq!(choose(&all, &[], true), Some(1));
        all[0].state = DataState::Joined;
        assert_eq!(choose(&all, &[], true), None);
    }

    #[test]
    fn named_donors_come_first_and_are_the_only_ones_unless_any_will_do() {
        assert_eq!(choose(&reports(), &["node9", "node2"], false), Some(2));
        assert_eq!(choose(&reports(), &["node4", "node1"], false), Some(1));
        assert_eq!(choose(&reports(), &["node9"], false), None);
        assert_eq!(choose(&reports(), &["node9"], true), Some(3));
    }

    #[test]
    fn member_that_is_not_present_is_no_donor() {
        let mut all = reports();
        all[2].member = MemberId(7);
        assert_eq!(choose(&all, &[], true), Some(2));
    }
}

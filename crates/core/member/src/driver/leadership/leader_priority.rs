//! Weights of members for leadership: each reports its own to the leader, whose status has them
//! all.

use std::collections::BTreeMap;

use synod_consensus::{Config, LeaderWeight, MemberId};
use synod_wire::{DataState, Report};

/// The component that collects the weights, and announces leader transfers.
#[derive(Default)]
pub(in crate::driver) struct LeaderPriority {
    /// The target of the leader transfer that was announced, if one is under way.
    announced: Option<MemberId>,
}

impl LeaderPriority {
    /// The weights of the members that are fit to lead. A member whose database is not in step is
    /// busy, with its disk among other things; a member without a database never is.
    pub(super) fn weights<'a>(
        config: &Config,
        reports: impl Iterator<Item = &'a Report>,
    ) -> BTreeMap<MemberId, LeaderWeight> {
        let is_fit = |report: &&Report| {
            let has_data = config.members.get(&report.member).map(|m| m.has_data);
            report.state == DataState::Synced || has_data == Some(false)
        };
        let fit = reports.filter(is_fit);
        fit.map(|report| (report.member, report.weight)).collect()
    }

    /// A leader transfer to this member is under way, or none is. Answers the target if it is a new
    /// one.
    pub(super) fn transfer_to_announce(&mut self, to: Option<MemberId>) -> Option<MemberId> {
        let known = std::mem::replace(&mut self.announced, to);
        to.filter(|_| to != known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{Member, Role, VersionRange};

    #[test]
    fn only_members_in_step_or_without_a_database_have_a_weight() {
        let member = |id: u64| {
            let member = Member {
                role: Role::Voter,
                has_data: id != 3,
                name: String::new(),
                address: String::new(),
                versions: VersionRange { min: 1, max: 1 },
                certificate: None,
            };
            (MemberId(id), member)
        };
        let config = Config {
            protocol: 1,
            members: (1..=3).map(member).collect(),
            ..Config::default()
        };
        let report = |(id, state)| Report {
            member: MemberId(id),
            state,
            ..Report::default()
        };
        let reports = [
            (1, DataState::Synced),
            (2, DataState::Joined),
            (3, DataState::Disconnected),
        ];
        let reports = reports.map(report);
        let weights = LeaderPriority::weights(&config, reports.iter());
        let fit: Vec<u64> = weights.keys().map(|id| id.0).collect();
        assert_eq!(fit, [1, 3]);
    }

    #[test]
    fn transfer_is_announced_once() {
        let mut priority = LeaderPriority::default();
        let two = Some(MemberId(2));
        assert_eq!(priority.transfer_to_announce(None), None);
        assert_eq!(priority.transfer_to_announce(two), two);
        assert_eq!(priority.transfer_to_announce(two), None);
        assert_eq!(priority.transfer_to_announce(None), None);
        assert_eq!(priority.transfer_to_announce(two), two);
    }
}

//! Identity of this member: its ids, its group, its settings.

use synod_consensus::{EntryId, GroupId, Member};
use synod_wire::Join;

use super::Me;
use crate::config::{DatabasePosition, MemberConfig};
use crate::payload::view::ViewMember;

/// The names under which a member is known: by its disk and process, its group, and its settings.
/// Invariant: the group changes once, from none to the one that the log belongs to from then on.
pub(super) struct Identity {
    pub(super) me: Me,
    /// `NONE` until the member has found its group.
    pub(super) group: GroupId,
    pub(super) config: MemberConfig,
}

impl Identity {
    /// Whether a message of a process in this group is not meant for this member. Before either
    /// side had a group when it connected, it may be.
    pub(super) fn is_foreign(&self, group: GroupId) -> bool {
        let none = GroupId::NONE;
        group != none && self.group != none && group != self.group
    }

    pub(super) fn view_member(&self) -> ViewMember {
        ViewMember {
            member: self.me.member,
            session: self.me.session,
            name: self.config.name.clone(),
            incoming: self.config.incoming.clone(),
        }
    }

    pub(super) fn is_recorded_as(&self, known: &Member) -> bool {
        known.name == self.config.name
            && known.address == self.config.address
            && known.versions == self.config.versions
    }

    /// The request to be present, of a member whose log ends with `last`; `has_joined`: its process
    /// has taken part before.
    pub(super) fn join_request(
        &self,
        database: DatabasePosition,
        last: EntryId,
        has_joined: bool,
    ) -> Join {
        Join {
            session: self.me.session,
            name: self.config.name.clone(),
            address: self.config.address.clone(),
            incoming: self.config.incoming.clone(),
            has_data: self.config.has_data,
            group: self.group,
            db_group: database.group,
            db_seqno: database.seqno,
            last,
            versions: self.config.versions,
            has_joined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::VoterPolicy;
    use std::time::Duration;
    use synod_consensus::{Limits, MemberId, SessionId, Timing, VersionRange};

    fn identity(group: GroupId) -> Identity {
        Identity {
            me: Me {
                member: MemberId(1),
                session: SessionId(2),
            },
            group,
            config: MemberConfig {
                name: "node1".to_owned(),
                cluster_name: "cluster".to_owned(),
                address: "host:1".to_owned(),
                incoming: String::new(),
                has_data: true,
                certificate: None,
                region: None,
                wants_vote: true,
                voter_policy: VoterPolicy::default(),
                timing: Timing::default(),
                limits: Limits::default(),
                suspect: Duration::from_secs(5),
                keeps_log_only: false,
                apply_lag_max: Duration::ZERO,
                certification_span: 1000,
                database: DatabasePosition::NONE,
                versions: VersionRange { min: 1, max: 1 },
            },
        }
    }

    #[test]
    fn only_two_different_groups_are_foreign_to_each_other() {
        let (one, two) = (GroupId([1; 16]), GroupId([2; 16]));
        assert!(identity(one).is_foreign(two));
        assert!(!identity(one).is_foreign(one));
        assert!(!identity(one).is_foreign(GroupId::NONE));
        assert!(!identity(GroupId::NONE).is_foreign(two));
    }

    #[test]
    fn record_is_outdated_when_the_address_has_changed() {
        let identity = identity(GroupId::NONE);
        let mut known = identity.config.first_voter();
        assert!(identity.is_recorded_as(&known));
        known.address = "host:2".to_owned();
        assert!(!identity.is_recorded_as(&known));
    }
}

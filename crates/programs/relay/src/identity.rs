//! Domain and server of a group's GTIDs: the same on every relay of the group.
//!
//! Both are made from the group's id, so that relays agree without being told, and the GTIDs of two
//! groups do not meet. An operator may choose the domain. The server always follows from the group:
//! a group that is founded again is another one to its readers.

use synod_binlog::Gtid;
use synod_node::{GroupId, Seqno};

/// Domain and server of all GTIDs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The domain that the group's seqnos count in.
    pub(crate) domain: u32,
    /// The server that readers take the group for. Not zero.
    pub(crate) server_id: u32,
}

impl Identity {
    /// The identity of this group, with the domain that an operator has chosen instead.
    pub(crate) fn of(group: GroupId, domain: Option<u32>) -> Identity {
        let [a, b, c, d, e, f, g, h, ..] = group.0;
        Identity {
            domain: domain.unwrap_or(u32::from_le_bytes([a, b, c, d])),
            server_id: u32::from_le_bytes([e, f, g, h]).max(1),
        }
    }

    /// Whether a GTID is one of this group, or may be.
    pub(crate) fn is_of(self, gtid: Gtid) -> bool {
        let of_group = Gtid {
            domain: self.domain,
            server_id: self.server_id,
            ..gtid
        };
        gtid.may_be(of_group)
    }

    /// The GTID of the action with this seqno.
    pub(crate) fn gtid(self, seqno: Seqno) -> Gtid {
        Gtid {
            domain: self.domain,
            server_id: self.server_id,
            // Actions have positive numbers.
            sequence: seqno.0.unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_gtids_of_their_own_unless_told() {
        let one = Identity::of(GroupId([1; 16]), None);
        let other = Identity::of(GroupId([2; 16]), None);
        assert_ne!(one.domain, other.domain);
        assert_eq!(one, Identity::of(GroupId([1; 16]), None));
        assert_eq!(Identity::of(GroupId::NONE, None).server_id, 1);
        let told = Identity::of(GroupId([1; 16]), Some(7));
        assert_eq!(told.gtid(Seqno(4)).to_string(), "7-16843009-4");
        let again = Identity::of(GroupId([2; 16]), Some(7));
        assert_ne!(again.gtid(Seqno(4)), told.gtid(Seqno(4)));
    }
}

//! Permission of a host to take writes of its clients, before it has them ordered.

use synod_consensus::{MemberId, Seqno, Writers};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePermission {
    #[default]
    Everywhere,
    Here {
        /// The host waits until its database has everything up to here: what earlier leaders
        /// ordered.
        after: Seqno,
    },
    Elsewhere {
        /// The member that leads, and so is the writer; none: no leader is known.
        writer: Option<MemberId>,
    },
}

impl WritePermission {
    /// The permission of member `me`, in a group with this setting and this leader. If `me` leads,
    /// its term begins after the action `term_after`.
    pub(in crate::driver) fn of(
        writers: Writers,
        me: MemberId,
        leader: Option<MemberId>,
        term_after: Seqno,
    ) -> WritePermission {
        match writers {
            Writers::Any => WritePermission::Everywhere,
            Writers::Leader if leader == Some(me) => WritePermission::Here { after: term_after },
            Writers::Leader => WritePermission::Elsewhere { writer: leader },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_takes_writes_after_what_preceded_its_term() {
        let (me, other) = (MemberId(1), MemberId(2));
        let of = |writers, leader| WritePermission::of(writers, me, leader, Seqno(7));
        assert_eq!(of(Writers::Any, Some(other)), WritePermission::Everywhere);
        let here = WritePermission::Here { after: Seqno(7) };
        assert_eq!(of(Writers::Leader, Some(me)), here);
        for leader in [Some(other), None] {
            let elsewhere = WritePermission::Elsewhere { writer: leader };
            assert_eq!(of(Writers::Leader, leader), elsewhere);
        }
    }
}

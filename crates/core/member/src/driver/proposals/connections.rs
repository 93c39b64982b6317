//! The connections over which proposals go, and entries to their origin without their payloads; one
//! per member. Such a message goes over one connection only. A proposal that was meant for it must
//! not overtake what was lost with it. An entry without its payload is meant for the process at its
//! other end.

use std::collections::BTreeMap;

use synod_consensus::{MemberId, SessionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Link {
    pub(in crate::driver) connection: u64,
    pub(in crate::driver) session: SessionId,
}

/// The newest connection to each member. Connections are numbered as they are opened. The news that
/// they are up may come out of order: a connection has two lanes, and each reports.
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<MemberId, Link>);

impl Connections {
    /// A connection is up. Late news of an older one changes nothing.
    pub(super) fn up(&mut self, member: MemberId, link: Link) {
        let newest = self.0.entry(member).or_insert(link);
        if link.connection > newest.connection {
            *newest = link;
        }
    }

    pub(super) fn to(&self, member: MemberId) -> Option<Link> {
        self.0.get(&member).copied()
    }

    pub(super) fn retain(&mut self, keep: impl Fn(MemberId) -> bool) {
        self.0.retain(|member, _| keep(*member));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_news_of_an_older_connection_changes_nothing() {
        let (mut connections, member) = (Connections::default(), MemberId(2));
        let link = |connection| Link {
            connection,
            session: SessionId(connection),
        };
        assert_eq!(connections.to(member), None);
        connections.up(member, link(4));
        connections.up(member, link(9));
        connections.up(member, link(4));
        assert_eq!(connections.to(member), Some(link(9)));
        connections.retain(|_| false);
        assert_eq!(connections.to(member), None);
    }
}

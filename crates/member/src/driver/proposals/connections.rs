//! The connections over which proposals go, one per member.
//!
//! A proposal goes over one connection only: what was meant for it must not overtake what was lost
//! with it.

use std::collections::BTreeMap;

use synod_consensus::MemberId;

/// The newest connection to each member. Connections are numbered as they are opened. The news that
/// they are up may come out of order: a connection has two lanes, and each reports.
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<MemberId, u64>);

impl Connections {
    /// A connection is up. Late news of an older one changes nothing.
    pub(super) fn up(&mut self, member: MemberId, connection: u64) {
        let newest = self.0.entry(member).or_insert(connection);
        *newest = connection.max(*newest);
    }

    /// The connection to this member, if there ever was one.
    pub(super) fn to(&self, member: MemberId) -> Option<u64> {
        self.0.get(&member).copied()
    }

    /// Forgets the others.
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
        assert_eq!(connections.to(member), None);
        connections.up(member, 4);
        connections.up(member, 9);
        connections.up(member, 4);
        assert_eq!(connections.to(member), Some(9));
        connections.retain(|_| false);
        assert_eq!(connections.to(member), None);
    }
}

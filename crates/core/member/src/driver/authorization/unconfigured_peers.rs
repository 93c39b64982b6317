//! Members that are in no configuration of this member, and still may speak to it.
//!
//! *Asked*: this member is looking for its group, and has asked them to join. It found them by its
//! own calls, or one that it asked has named them.
//!
//! *Introduced*: a configured member's configuration names them. Entry 7 of a log adds D and makes
//! it a voter; B lacks that entry, and D is the only candidate that can win. B does not know D. But
//! D became a learner by a committed entry, so of every majority one member knows D, and introduces
//! it to B. An introduction counts as long as its configuration is beyond the commit index of this
//! member: from then on this member's own log says who the members are, who was removed, and whose
//! configuration was truncated.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{LogIndex, MemberId};
use synod_wire::{IntroducedMember, Introduction};

/// Most members that are asked, and most that one member may introduce: a group has no more.
const MEMBERS_MAX: usize = 64;

/// The component that knows these members. Invariant: at most one introduction per introducer, its
/// last one, and each beyond the commit index of the last [`UnconfiguredPeers::forget`].
#[derive(Default)]
pub(in crate::driver) struct UnconfiguredPeers {
    asked: BTreeSet<MemberId>,
    introductions: BTreeMap<MemberId, Introduction>,
}

impl UnconfiguredPeers {
    pub(in crate::driver) fn ask(&mut self, member: MemberId) {
        if self.asked.len() < MEMBERS_MAX {
            self.asked.insert(member);
        }
    }

    pub(super) fn found_group(&mut self) {
        self.asked.clear();
    }

    pub(super) fn is_asked(&self, member: MemberId) -> bool {
        self.asked.contains(&member)
    }

    pub(super) fn asked(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.asked.iter().copied()
    }

    /// A member introduces others, in place of those that it introduced before: it may have
    /// truncated the configuration that named them. False if there are too many, which changes
    /// nothing, or this member knows as much.
    pub(super) fn introduced_by(
        &mut self,
        by: MemberId,
        introduction: Introduction,
        committed: LogIndex,
    ) -> bool {
        if introduction.members.len() > MEMBERS_MAX {
            return false;
        }
        self.introductions.remove(&by);
        let is_news = introduction.index > committed;
        if is_news {
            self.introductions.insert(by, introduction);
        }
        is_news
    }

    /// How a member was introduced, by the newest configuration that names it and is beyond the
    /// commit index.
    pub(super) fn introduced(
        &self,
        member: MemberId,
        committed: LogIndex,
    ) -> Option<&IntroducedMember> {
        let introductions = self.introductions.values();
        let newer = introductions.filter(|introduction| introduction.index > committed);
        let named = newer.filter_map(|introduction| {
            let mut members = introduction.members.iter();
            let named = members.find(|introduced| introduced.member == member)?;
            Some((introduction.index, named))
        });
        named
            .max_by_key(|(index, _)| *index)
            .map(|(_, named)| named)
    }

    pub(super) fn all_introduced(&self) -> BTreeSet<MemberId> {
        let introductions = self.introductions.values();
        let members = introductions.flat_map(|introduction| &introduction.members);
        members.map(|introduced| introduced.member).collect()
    }

    /// Forgets introductions by members that may not introduce any more, and those that are not
    /// beyond the commit index.
    pub(super) fn forget(&mut self, may_introduce: impl Fn(MemberId) -> bool, committed: LogIndex) {
        self.introductions
            .retain(|by, introduction| introduction.index > committed && may_introduce(*by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(index: u64, members: &[u64]) -> Introduction {
        let named = |id: &u64| IntroducedMember {
            member: MemberId(*id),
            address: format!("n{id}:{index}"),
            certificate: None,
        };
        Introduction {
            index: LogIndex(index),
            members: members.iter().map(named).collect(),
        }
    }

    fn address_of(known: &UnconfiguredPeers, id: u64, committed: u64) -> Option<&str> {
        let introduced = known.introduced(MemberId(id), LogIndex(committed));
        introduced.map(|introduced| introduced.address.as_str())
    }

    #[test]
    fn newest_introduction_counts_until_its_configuration_is_committed_here() {
        let mut known = UnconfiguredPeers::default();
        let committed = LogIndex(5);
        assert!(!known.introduced_by(MemberId(1), introduction(5, &[9]), committed));
        assert!(known.introduced_by(MemberId(1), introduction(7, &[4, 9]), committed));
        assert!(known.introduced_by(MemberId(2), introduction(8, &[4]), committed));
        assert_eq!(address_of(&known, 4, 5), Some("n4:8"));
        assert_eq!(address_of(&known, 9, 5), Some("n9:7"));
        assert_eq!(address_of(&known, 9, 7), None, "this member's own log says");
        known.forget(|_| true, LogIndex(7));
        assert_eq!(known.all_introduced(), BTreeSet::from([MemberId(4)]));
        known.forget(|by| by != MemberId(2), LogIndex(7));
        assert_eq!(address_of(&known, 4, 7), None, "its introducer was removed");
    }

    #[test]
    fn introductions_replace_each_other_and_are_bounded() {
        let mut known = UnconfiguredPeers::default();
        known.introduced_by(MemberId(1), introduction(7, &[4]), LogIndex(5));
        known.introduced_by(MemberId(1), introduction(9, &[6]), LogIndex(5));
        assert_eq!(known.all_introduced(), BTreeSet::from([MemberId(6)]));
        let many: Vec<u64> = (1..=65).collect();
        assert!(!known.introduced_by(MemberId(1), introduction(11, &many), LogIndex(5)));
        assert_eq!(known.all_introduced().len(), 1);
    }

    #[test]
    fn member_that_truncated_its_configuration_withdraws_its_introduction() {
        let mut known = UnconfiguredPeers::default();
        let committed = LogIndex(5);
        known.introduced_by(MemberId(1), introduction(9, &[4, 6]), committed);
        assert!(known.introduced_by(MemberId(1), introduction(7, &[4]), committed));
        assert_eq!(known.all_introduced(), BTreeSet::from([MemberId(4)]));
        assert!(!known.introduced_by(MemberId(1), introduction(5, &[4]), committed));
        assert!(known.all_introduced().is_empty());
    }

    #[test]
    fn asked_members_are_bounded_and_forgotten_with_the_search() {
        let mut known = UnconfiguredPeers::default();
        for id in 1..=65 {
            known.ask(MemberId(id));
        }
        assert!(known.is_asked(MemberId(64)) && !known.is_asked(MemberId(65)));
        known.found_group();
        assert_eq!(known.asked().count(), 0);
    }
}

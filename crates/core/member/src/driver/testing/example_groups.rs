//! Groups for the tests of rules about configurations.

use synod_consensus::{Config, Member, MemberId, Role, VersionRange};

/// Members named a, b, c and so on with the ids 1, 2, 3: `voters` of them vote, the rest are
/// learners.
pub(super) fn voters_and_learners(voters: u64, learners: u64) -> Config {
    let configured = |id: u64| {
        let letter = char::from(b'a' + u8::try_from(id - 1).expect("few members"));
        let mut member = voter(&letter.to_string(), &format!("{letter}:1"));
        if id > voters {
            member.role = Role::Learner;
        }
        (id, member)
    };
    of((1..=voters + learners).map(configured))
}

pub(super) fn voter(name: &str, address: &str) -> Member {
    Member {
        role: Role::Voter,
        has_data: true,
        name: name.to_owned(),
        address: address.to_owned(),
        versions: VersionRange { min: 1, max: 5 },
        certificate: None,
    }
}

pub(super) fn of(members: impl IntoIterator<Item = (u64, Member)>) -> Config {
    let members = members.into_iter();
    Config {
        protocol: 5,
        members: members.map(|(id, member)| (MemberId(id), member)).collect(),
        ..Config::default()
    }
}

/// Voters with these ids, of which the last has no database.
pub(super) fn with_logger(ids: std::ops::RangeInclusive<u64>) -> Config {
    let last = *ids.end();
    of(ids.map(|id| {
        let has_data = id != last;
        let name = format!("node{id}");
        (
            id,
            Member {
                has_data,
                ..voter(&name, "")
            },
        )
    }))
}

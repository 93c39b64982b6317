//! Groups for the tests of rules about configurations.

use synod_consensus::{Config, Member, MemberId, Role, VersionRange};

/// Members named a, b, c and so on with the ids 1, 2, 3: `voters` of them vote, the rest are
/// learners.
pub(super) fn voters_and_learners(voters: u64, learners: u64) -> Config {
    let member = |id: u64| {
        let letter = char::from(b'a' + u8::try_from(id - 1).expect("few members"));
        let role = if id <= voters {
            Role::Voter
        } else {
            Role::Learner
        };
        let member = Member {
            role,
            has_data: true,
            name: letter.to_string(),
            address: format!("{letter}:1"),
            versions: VersionRange { min: 1, max: 5 },
            certificate: None,
        };
        (MemberId(id), member)
    };
    Config {
        protocol: 5,
        members: (1..=voters + learners).map(member).collect(),
        ..Config::default()
    }
}

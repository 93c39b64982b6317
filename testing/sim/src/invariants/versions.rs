//! The group's protocol version: every member speaks it, and it is never lowered.
//!
//! A member that does not speak it stays out of the group.

use synod_consensus::{Config, EntryId, MemberId, VersionRange};

use super::{Checked, require};

/// A leader made a configuration; `before` is the version of the one before it, `None` for the
/// first.
pub(crate) fn made(entry: EntryId, config: &Config, before: Option<u16>) -> Checked {
    let protocol = config.protocol;
    let mut members = config.members.iter();
    let silent = members.find(|(_, member)| !member.versions.contains(protocol));
    require(
        silent.is_none(),
        "every member speaks the group's version",
        || format!("{entry} has the group speak version {protocol}, but configures {silent:?}"),
    )?;
    require(
        before.is_none_or(|before| before <= protocol),
        "the group's version is never lowered",
        || format!("{entry} lowers the group's version from {before:?} to {protocol}"),
    )
}

/// A member runs with this configuration in force.
pub(crate) fn runs(member: MemberId, config: &Config, spoken: VersionRange) -> Checked {
    let speaks = config.members.is_empty() || spoken.contains(config.protocol);
    require(
        speaks,
        "a member that does not speak the version stays out",
        || {
            let protocol = config.protocol;
            format!("{member} speaks {spoken} and runs in a group that speaks version {protocol}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{LogIndex, Member, Role, Term};

    fn range(min: u16, max: u16) -> VersionRange {
        VersionRange { min, max }
    }

    fn config(protocol: u16, spoken: &[VersionRange]) -> Config {
        let member = |versions: &VersionRange| Member {
            role: Role::Voter,
            has_data: true,
            name: String::new(),
            address: String::new(),
            versions: *versions,
            certificate: None,
        };
        let ids = (1..).map(MemberId);
        let members = ids.zip(spoken.iter().map(member)).collect();
        Config { protocol, members }
    }

    #[test]
    fn version_that_a_member_does_not_speak_or_that_is_older_breaks_the_rule() {
        let entry = EntryId {
            term: Term(1),
            index: LogIndex(1),
        };
        let mixed = [range(1, 2), range(1, 1)];
        assert!(made(entry, &config(1, &mixed), Some(1)).is_ok());
        assert!(made(entry, &config(2, &mixed), Some(1)).is_err());
        let new = [range(1, 2), range(1, 2)];
        assert!(made(entry, &config(2, &new), Some(1)).is_ok());
        assert!(made(entry, &config(1, &new), Some(2)).is_err());
        assert!(runs(MemberId(1), &config(2, &new), range(1, 2)).is_ok());
        assert!(runs(MemberId(1), &config(2, &new), range(1, 1)).is_err());
        assert!(runs(MemberId(1), &Config::default(), range(1, 1)).is_ok());
    }
}

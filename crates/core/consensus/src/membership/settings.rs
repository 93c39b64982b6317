//! Settings that all members have in common, in the configuration. Each is in force from its entry
//! on, and changed alone ([`GroupSetting`]).

use std::fmt;

/// The core only keeps the setting, in force from its entry on; who orders proposals obeys it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Writers {
    #[default]
    Any = 0,
    Leader = 1,
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Writers::Any => "any",
            Writers::Leader => "leader",
        })
    }
}

/// Number of regions, 1 to [`CommitRegions::MAX`], in which an entry has to be on a voter's disk
/// before it is committed; see `replication/regions.rs`. One: a majority is enough, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitRegions(u8);

impl CommitRegions {
    pub const MAX: u8 = 8;

    /// `None` if there is no such number.
    pub fn new(regions: u8) -> Option<CommitRegions> {
        (1..=CommitRegions::MAX)
            .contains(&regions)
            .then_some(CommitRegions(regions))
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for CommitRegions {
    fn default() -> CommitRegions {
        CommitRegions(1)
    }
}

impl fmt::Display for CommitRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    pub writers: Writers,
    pub commit_regions: CommitRegions,
}

impl GroupSettings {
    /// The byte of a configuration: bit 0 the writers, bits 1 to 3 the regions less one.
    pub fn code(self) -> u8 {
        self.writers as u8 | (self.commit_regions.get() - 1) << 1
    }

    pub fn from_code(code: u8) -> Option<GroupSettings> {
        Some(GroupSettings {
            writers: if code & 1 == 0 {
                Writers::Any
            } else {
                Writers::Leader
            },
            commit_regions: CommitRegions::new((code >> 1) + 1)?,
        })
    }

    pub fn has(self, setting: GroupSetting) -> bool {
        self.with(setting) == self
    }

    pub fn with(self, setting: GroupSetting) -> GroupSettings {
        match setting {
            GroupSetting::Writers(writers) => GroupSettings { writers, ..self },
            GroupSetting::CommitRegions(commit_regions) => GroupSettings {
                commit_regions,
                ..self
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupSetting {
    Writers(Writers),
    CommitRegions(CommitRegions),
}

impl GroupSetting {
    /// The byte of an order: 0 and 1 the writers, from 2 on the regions plus one.
    pub fn code(self) -> u8 {
        match self {
            GroupSetting::Writers(writers) => writers as u8,
            GroupSetting::CommitRegions(regions) => regions.get() + 1,
        }
    }

    pub fn from_code(code: u8) -> Option<GroupSetting> {
        match code {
            0 => Some(GroupSetting::Writers(Writers::Any)),
            1 => Some(GroupSetting::Writers(Writers::Leader)),
            _ => CommitRegions::new(code - 1).map(GroupSetting::CommitRegions),
        }
    }
}

/// Ends a sentence that begins with "the group".
impl fmt::Display for GroupSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupSetting::Writers(Writers::Any) => f.write_str("takes the writes of all members"),
            GroupSetting::Writers(Writers::Leader) => {
                f.write_str("takes the writes of the leader only")
            }
            GroupSetting::CommitRegions(regions) if regions.get() == 1 => {
                f.write_str("commits what a majority has, in whatever regions")
            }
            GroupSetting::CommitRegions(regions) => {
                write!(f, "commits what a majority has, in {regions} regions")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_means_one_value() {
        let settings = (0..=u8::MAX).filter_map(GroupSettings::from_code);
        assert!(settings.map(GroupSettings::code).eq(0..16));
        let orders = (0..=u8::MAX).filter_map(GroupSetting::from_code);
        assert!(orders.map(GroupSetting::code).eq(0..10));
        let two = GroupSetting::from_code(3).unwrap();
        assert_eq!(two.to_string(), "commits what a majority has, in 2 regions");
    }

    #[test]
    fn setting_changes_alone() {
        let two = GroupSetting::CommitRegions(CommitRegions(2));
        let leader = GroupSetting::Writers(Writers::Leader);
        let both = GroupSettings::default().with(two).with(leader);
        assert_eq!(both.code(), 0b11);
        assert!(both.has(two) && both.has(leader));
        assert!(!GroupSettings::default().has(two));
    }
}

//! The group's configuration: its members, who votes, and the encoding of a config entry. A
//! configuration is an entry of the log. It is in force from the moment it is *appended* (Raft
//! dissertation, section 4.1), at most one may be uncommitted, and one change alters the voter set
//! by at most one member, so that the majorities of neighbouring configurations overlap. The rules
//! for changing it are in `change.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use synod_planted::{Bug, is, planted};

use crate::membership::settings::GroupSettings;
use crate::types::{LogIndex, MemberId};

const ENCODING: u8 = 3;

pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// Most bytes of an encoded configuration that a leader makes: a log has to hold it in one record.
pub const CONFIG_BYTES_MAX: usize = 40 << 10;

pub(crate) const MEMBERS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Counts for quorums.
    Voter = 0,
    /// Receives the log and does not count.
    Learner = 1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub role: Role,
    /// Whether it has a database (a logger has none).
    pub has_data: bool,
    /// The member's name for operators. Name and address together are unique in the group.
    pub name: String,
    pub address: String,
    pub versions: VersionRange,
    /// Subject of the certificate that the member is bound to; none if it is bound to none.
    pub certificate: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Protocol version of the group; every member speaks it. Zero: there is no group.
    pub protocol: u16,
    /// The version stays until an operator raises it.
    pub protocol_is_held: bool,
    pub settings: GroupSettings,
    /// The members by id; the order of iteration is the same on all members.
    pub members: BTreeMap<MemberId, Member>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigAt {
    /// Index of the config entry; zero for the initial one of an empty log.
    pub index: LogIndex,
    pub config: Config,
}

impl Config {
    pub fn voters(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.members
            .iter()
            .filter(|(_, m)| m.role == Role::Voter)
            .map(|(id, _)| *id)
    }

    pub fn is_voter(&self, id: MemberId) -> bool {
        self.members
            .get(&id)
            .is_some_and(|member| member.role == Role::Voter)
    }

    pub fn is_sole_voter(&self, id: MemberId) -> bool {
        self.voters().eq([id])
    }

    /// The payload of a config entry. All numbers little-endian:
    ///
    /// ```text
    /// u8  version of this encoding (3)
    /// u16 protocol version of the group
    /// u8  bit 0: whose writes the group takes (0 any member's, 1 the leader's); bits 1 to 3:
    ///     regions in which a commit is on a voter's disk, less one
    /// u8  whether the protocol version is held (0, 1)
    /// u16 number of members, then for each, ascending by id:
    ///     u64 id (not zero)
    ///     u8  role (0 voter, 1 learner)
    ///     u8  has data (0, 1)
    ///     u16 length of the name, name (UTF-8)
    ///     u16 length of the address, address (UTF-8); with the name, unique
    ///     u16 oldest, u16 newest protocol version it speaks
    ///     u8  bound to a certificate (0, 1); if so, u16 length of its subject, subject
    /// ```
    ///
    /// # Panics
    ///
    /// If there are more than 1024 members or a text is longer than 1024 bytes; the core never
    /// makes such a configuration.
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.members.len() <= MEMBERS_MAX,
            "{} members",
            self.members.len()
        );
        let mut out = vec![ENCODING];
        out.extend_from_slice(&self.protocol.to_le_bytes());
        out.push(self.settings.code());
        out.push(u8::from(self.protocol_is_held));
        // Cannot truncate: at most 1024.
        out.extend_from_slice(&(self.members.len() as u16).to_le_bytes());
        for (id, member) in &self.members {
            out.extend_from_slice(&id.0.to_le_bytes());
            out.push(member.role as u8);
            out.push(u8::from(member.has_data));
            for text in [&member.name, &member.address] {
                put_text(&mut out, text);
            }
            for version in [member.versions.min, member.versions.max] {
                out.extend_from_slice(&version.to_le_bytes());
            }
            out.push(u8::from(member.certificate.is_some()));
            member
                .certificate
                .iter()
                .for_each(|subject| put_text(&mut out, subject));
        }
        out
    }

    /// Reads what [`Config::encode`] wrote. Accepts exactly one encoding per configuration.
    pub fn decode(bytes: &[u8]) -> Result<Config, DecodeConfigError> {
        let mut reader = Reader { rest: bytes };
        let version = reader.u8()?;
        if version != ENCODING {
            return Err(DecodeConfigError::Version { found: version });
        }
        let mut config = Config {
            protocol: reader.u16()?,
            settings: reader.settings()?,
            protocol_is_held: reader.flag("held")?,
            ..Config::default()
        };
        let count = usize::from(reader.u16()?);
        if count > MEMBERS_MAX {
            return Err(DecodeConfigError::TooMany { found: count });
        }
        let mut seats = BTreeSet::new();
        for _ in 0..count {
            let (id, member) = reader.member()?;
            let highest = config
                .members
                .last_key_value()
                .map_or(MemberId::NONE, |(id, _)| *id);
            if id <= highest {
                return Err(DecodeConfigError::MemberOrder { id });
            }
            if !seats.insert((member.name.clone(), member.address.clone())) {
                let Member { name, address, .. } = member;
                return Err(DecodeConfigError::DuplicateSeat { name, address });
            }
            config.members.insert(id, member);
        }
        if !reader.rest.is_empty() {
            return Err(DecodeConfigError::TrailingBytes {
                count: reader.rest.len(),
            });
        }
        Ok(config)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= TEXT_BYTES_MAX, "text of {} bytes", text.len());
    // Cannot truncate: at most 1024.
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeConfigError {
    #[error(
        "configuration encoded in version {found}, this program reads version {ENCODING}: run the \
         program that wrote it"
    )]
    Version { found: u8 },
    #[error("encoded configuration ends too early")]
    Incomplete,
    #[error("{count} bytes after the end of an encoded configuration")]
    TrailingBytes { count: usize },
    #[error("encoded configuration with {found} members")]
    TooMany { found: usize },
    #[error("member {id} is out of order or twice in an encoded configuration")]
    MemberOrder { id: MemberId },
    #[error("member '{name}' at {address} is twice in an encoded configuration")]
    DuplicateSeat { name: String, address: String },
    #[error("unknown value {found} for {field} in an encoded configuration")]
    BadValue { field: &'static str, found: u8 },
    #[error("protocol versions {min} to {max} in an encoded configuration")]
    BadVersions { min: u16, max: u16 },
    #[error("bad text in an encoded configuration")]
    BadText,
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeConfigError> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeConfigError::Incomplete)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeConfigError> {
        self.take(N)?
            .try_into()
            .map_err(|_| DecodeConfigError::Incomplete)
    }

    fn u8(&mut self) -> Result<u8, DecodeConfigError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, DecodeConfigError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, DecodeConfigError> {
        let length = usize::from(self.u16()?);
        if length > TEXT_BYTES_MAX {
            return Err(DecodeConfigError::BadText);
        }
        let text = std::str::from_utf8(self.take(length)?);
        text.map(str::to_owned)
            .map_err(|_| DecodeConfigError::BadText)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, DecodeConfigError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeConfigError::BadValue { field, found }),
        }
    }

    fn settings(&mut self) -> Result<GroupSettings, DecodeConfigError> {
        let found = self.u8()?;
        GroupSettings::from_code(found).ok_or(DecodeConfigError::BadValue {
            field: "settings",
            found,
        })
    }

    fn member(&mut self) -> Result<(MemberId, Member), DecodeConfigError> {
        let id = MemberId(u64::from_le_bytes(self.array()?));
        let role = match self.u8()? {
            0 => Role::Voter,
            1 => Role::Learner,
            found => {
                return Err(DecodeConfigError::BadValue {
                    field: "role",
                    found,
                });
            }
        };
        let has_data = self.flag("has_data")?;
        let (name, address) = (self.text()?, self.text()?);
        let (min, max) = (self.u16()?, self.u16()?);
        let versions = VersionRange { min, max };
        if !versions.is_valid() {
            return Err(DecodeConfigError::BadVersions { min, max });
        }
        let is_bound = self.flag("certificate")?;
        let certificate = is_bound.then(|| self.text()).transpose()?;
        Ok((
            id,
            Member {
                role,
                has_data,
                name,
                address,
                versions,
                certificate,
            },
        ))
    }
}

/// The versions of the group's protocol that a member speaks, both ends included. The group's
/// version is part of the configuration, so an entry of the log brings it. It decides what entries
/// may contain and what members may rely on. It only ever rises, and only to a version that every
/// configured member speaks: by itself, or, while it is *held*, when an operator orders it. A
/// member that does not speak it cannot be added. (Two members agree on the encoding of their
/// connection in the handshake, apart from this.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    pub min: u16,
    /// Newest version; at or above `min`.
    pub max: u16,
}

impl VersionRange {
    pub fn contains(self, version: u16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Whether the range has a version at all; versions count from 1.
    pub fn is_valid(self) -> bool {
        0 < self.min && self.min <= self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "version {}", self.min)
        } else {
            write!(f, "versions {} to {}", self.min, self.max)
        }
    }
}

impl Config {
    /// The version that the group is to rise to by itself: an upgrade ends when the last member
    /// runs the new program. None while the version is held.
    pub fn due_protocol(&self) -> Option<u16> {
        let is_held = planted!(RiseThoughHeld, self.protocol_is_held, else false);
        self.newer_protocol().filter(|_| !is_held)
    }

    /// The newest version that every member speaks, if it is newer than the group's.
    pub fn newer_protocol(&self) -> Option<u16> {
        let members = self.members.values();
        if is(Bug::RiseTooHigh) {
            let highest = members.map(|member| member.versions.max).max();
            return highest.filter(|highest| *highest > self.protocol);
        }
        let newest = members.clone().map(|member| member.versions.max).min()?;
        let spoken = members
            .into_iter()
            .all(|member| member.versions.contains(newest));
        (spoken && newest > self.protocol).then_some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::settings::{CommitRegions, Writers};
    use proptest::prelude::*;

    fn two_members() -> Config {
        let member = |role, name: &str| Member {
            role,
            has_data: true,
            name: name.to_owned(),
            address: format!("{name}.example:4567"),
            versions: VersionRange { min: 1, max: 2 },
            certificate: None,
        };
        let mut config = Config {
            protocol: 1,
            ..Config::default()
        };
        config.members.insert(MemberId(7), member(Role::Voter, "a"));
        config
            .members
            .insert(MemberId(9), member(Role::Learner, "b"));
        config
    }

    #[test]
    fn bytes_of_a_configuration_never_change() {
        let mut config = two_members();
        config.protocol = 5;
        config.settings.writers = Writers::Leader;
        config.protocol_is_held = true;
        config.members.remove(&MemberId(9));
        let bound = config.members.get_mut(&MemberId(7)).expect("member 7");
        bound.certificate = Some("CN=a".to_owned());
        let mut expected =
            b"\x03\x05\x00\x01\x01\x01\x00\x07\0\0\0\0\0\0\0\x00\x01\x01\x00a\x0e\x00a.example:4567\
            \x01\x00\x02\x00\x01\x04\x00CN=a"
                .to_vec();
        assert_eq!(config.encode(), expected);
        assert_eq!(Config::decode(&expected).as_ref(), Ok(&config));
        config.settings.commit_regions = CommitRegions::new(2).expect("a number of regions");
        expected[3] = 3;
        assert_eq!(config.encode(), expected);
        assert_eq!(Config::decode(&expected), Ok(config));
        expected[3] = 16;
        let unknown = DecodeConfigError::BadValue {
            field: "settings",
            found: 16,
        };
        assert_eq!(Config::decode(&expected), Err(unknown));
        (expected[3], expected[4]) = (1, 2);
        let unknown = DecodeConfigError::BadValue {
            field: "held",
            found: 2,
        };
        assert_eq!(Config::decode(&expected), Err(unknown));
    }

    #[test]
    fn other_encoding_is_named() {
        let mut bytes = two_members().encode();
        for found in [2, 4] {
            bytes[0] = found;
            let error = Config::decode(&bytes).expect_err("another version");
            assert_eq!(error, DecodeConfigError::Version { found });
            assert!(error.to_string().contains("reads version 3"), "{error}");
        }
    }

    #[test]
    fn every_shorter_and_every_longer_text_is_refused() {
        let bytes = two_members().encode();
        for length in 0..bytes.len() {
            assert_eq!(
                Config::decode(&bytes[..length]),
                Err(DecodeConfigError::Incomplete)
            );
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(
            Config::decode(&longer),
            Err(DecodeConfigError::TrailingBytes { count: 1 })
        );
    }

    #[test]
    fn duplicates_are_refused() {
        let mut config = two_members();
        let second = config.members.get_mut(&MemberId(9)).expect("member 9");
        second.name = "a".to_owned();
        assert_eq!(Config::decode(&config.encode()).as_ref(), Ok(&config));
        let second = config.members.get_mut(&MemberId(9)).expect("member 9");
        second.address = "a.example:4567".to_owned();
        let duplicate = DecodeConfigError::DuplicateSeat {
            name: "a".to_owned(),
            address: "a.example:4567".to_owned(),
        };
        assert_eq!(Config::decode(&config.encode()), Err(duplicate));

        let mut bytes = two_members().encode();
        let second = bytes.iter().position(|b| *b == 9).expect("member 9");
        bytes[second] = 7;
        let order = DecodeConfigError::MemberOrder { id: MemberId(7) };
        assert_eq!(Config::decode(&bytes), Err(order));
    }

    proptest! {
        #[test]
        fn decode_never_panics_and_accepts_one_encoding_only(
            flips in prop::collection::vec((0usize..60, any::<u8>()), 0..4)
        ) {
            let mut bytes = two_members().encode();
            for (at, value) in flips {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if let Ok(config) = Config::decode(&bytes) {
                prop_assert_eq!(config.encode(), bytes);
            }
        }
    }
}

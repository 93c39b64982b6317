//! Protocol versions: which ones a member speaks, and which one its group has agreed on.
//!
//! The group's version is part of the configuration, so an entry of the log brings it. It decides
//! what entries may contain and what members may rely on. It only ever rises, and only to a version
//! that every configured member speaks: by itself, or, while it is *held*, when an operator orders
//! it. A member that does not speak it cannot be added. (Two members agree on the encoding of their
//! connection in the handshake, apart from this.)

use crate::membership::config::Config;

/// The versions that a member speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    /// Oldest version.
    pub min: u16,
    /// Newest version; at or above `min`.
    pub max: u16,
}

impl VersionRange {
    /// Whether this version is among them.
    pub fn contains(self, version: u16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Whether the range has a version at all; versions count from 1.
    pub fn is_valid(self) -> bool {
        0 < self.min && self.min <= self.max
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        let is_held = synod_planted::planted!(RiseThoughHeld, self.protocol_is_held, else false);
        self.newer_protocol().filter(|_| !is_held)
    }

    /// The newest version that every member speaks, if it is newer than the group's.
    pub fn newer_protocol(&self) -> Option<u16> {
        let members = self.members.values();
        if synod_planted::is(synod_planted::Bug::RiseTooHigh) {
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

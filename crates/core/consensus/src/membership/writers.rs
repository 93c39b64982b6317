//! The writers of a group: a setting, in its configuration, of whose writes the group takes.
//!
//! The setting is in force from the moment its entry is appended, like the rest of the
//! configuration. The core only keeps it; the code that orders proposals obeys it.

/// First protocol version whose configurations say who writes.
pub const WRITERS_SINCE: u16 = 5;

/// Members whose writes the group takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Writers {
    /// All members.
    #[default]
    Any = 0,
    /// The leader only. Used only in groups that speak [`WRITERS_SINCE`].
    Leader = 1,
}

impl Writers {
    /// The setting with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Writers> {
        [Writers::Any, Writers::Leader]
            .into_iter()
            .find(|writers| *writers as u8 == code)
    }
}

impl std::fmt::Display for Writers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Writers::Any => "any",
            Writers::Leader => "leader",
        })
    }
}

//! Bounds of a check.
//!
//! Bounds make the space of states finite: so many members, terms, actions, changes and crashes.
//! `docs/protocol.md` lists the bounds within which every state was visited.

use crate::log::LOG_MAX;
use crate::voters::Voters;

pub(crate) const MEMBERS_MAX: usize = 5;
const TERMS_MAX: u8 = 6;

/// Bounds of a check. Everything within them is tried, in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub servers: usize,
    /// Members that vote in the beginning; the others are learners.
    pub voters: usize,
    pub terms: u8,
    /// Actions that clients propose.
    pub entries: u8,
    /// Configurations that leaders append.
    pub changes: u8,
    /// Crashes, each followed by a restart from the disk.
    pub crashes: u8,
    /// Whether origins count acknowledgements, and leaders answer reads by the end of their logs.
    /// Otherwise only leaders count, and answer reads by their commit index.
    pub origin_counts: bool,
    /// Whether every write waits for a sync of its own. Otherwise only what leaders append does.
    /// What other members have not synced is neither sent nor seen, so to write and sync it in one
    /// step leaves nothing out.
    pub every_sync: bool,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            servers: 3,
            voters: 3,
            terms: 2,
            entries: 1,
            changes: 0,
            crashes: 0,
            origin_counts: true,
            every_sync: false,
        }
    }
}

/// Bounds that make no sense, or more than the model can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// Too few or too many members.
    #[error("{0} servers: give 1 to {MEMBERS_MAX}")]
    Servers(usize),
    /// None, or more than there are members.
    #[error("{voters} voters among {servers} servers: give 1 to {servers}")]
    Voters {
        /// Number of voters given.
        voters: usize,
        /// Number of servers given.
        servers: usize,
    },
    /// Too few terms to elect a leader, or too many.
    #[error("{0} terms: give 1 to {TERMS_MAX}")]
    Terms(u8),
    /// Every term may add an entry of its own to the entries and changes.
    #[error("terms + entries + changes = {0}, the longest possible log: give at most {LOG_MAX}")]
    LogTooLong(u16),
    /// A change needs a member to add or remove.
    #[error("a group of one server has no configuration to change: leave out the changes")]
    NothingToChange,
}

impl Bounds {
    /// Whether a check within these bounds is possible and makes sense.
    pub fn validate(self) -> Result<Bounds, BoundsError> {
        let Bounds {
            servers,
            voters,
            terms,
            entries,
            changes,
            ..
        } = self;
        if servers == 0 || servers > MEMBERS_MAX {
            return Err(BoundsError::Servers(servers));
        }
        if voters == 0 || voters > servers {
            return Err(BoundsError::Voters { voters, servers });
        }
        if terms == 0 || terms > TERMS_MAX {
            return Err(BoundsError::Terms(terms));
        }
        let longest = u16::from(terms) + u16::from(entries) + u16::from(changes);
        if usize::from(longest) > LOG_MAX {
            return Err(BoundsError::LogTooLong(longest));
        }
        if changes > 0 && servers == 1 {
            return Err(BoundsError::NothingToChange);
        }
        Ok(self)
    }

    /// The configuration before any change.
    pub(crate) fn initial(&self) -> Voters {
        Voters::first(self.voters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let good = Bounds::default();
        assert_eq!(good.validate(), Ok(good));
        let table = [
            (Bounds { servers: 0, ..good }, BoundsError::Servers(0)),
            (Bounds { servers: 6, ..good }, BoundsError::Servers(6)),
            (
                Bounds { voters: 0, ..good },
                BoundsError::Voters {
                    voters: 0,
                    servers: 3,
                },
            ),
            (
                Bounds { voters: 4, ..good },
                BoundsError::Voters {
                    voters: 4,
                    servers: 3,
                },
            ),
            (Bounds { terms: 0, ..good }, BoundsError::Terms(0)),
            (
                Bounds {
                    entries: 255,
                    ..good
                },
                BoundsError::LogTooLong(257),
            ),
            (
                Bounds {
                    servers: 1,
                    voters: 1,
                    changes: 1,
                    ..good
                },
                BoundsError::NothingToChange,
            ),
        ];
        for (bounds, error) in table {
            assert_eq!(bounds.validate(), Err(error), "{bounds:?}");
        }
    }
}

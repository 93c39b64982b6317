//! Policy for logs that are full of actions that too few databases have.

/// Policy of a leader whose log has reached its disk bound while the actions to be purged are
/// flushed in so few databases that the loss of a minority of the disks could lose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullLogPolicy {
    /// Takes no new actions until enough databases have flushed those to purge (P1 before P5).
    #[default]
    Wait,
    /// Purges the actions that one database has flushed (P5 before P1). If the disk of that
    /// database is lost before others have caught up, acknowledged commits are lost with it.
    Drop,
}

//! What is done when logs are full of what too few databases have.

/// What a leader does when its log has reached its disk bound, and too few databases have flushed
/// what would have to be purged for any minority of the disks to be lost without loss of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullLogPolicy {
    /// It takes no new actions until enough databases have flushed it (P1 before P5).
    #[default]
    Wait,
    /// It purges what one database has flushed (P5 before P1). If the disk of that database is lost
    /// before others have caught up, acknowledged commits are lost with it.
    Drop,
}

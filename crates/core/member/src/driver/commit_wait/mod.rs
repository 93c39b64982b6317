//! Applied everywhere: one component, [`CommitWaits`], answers up to which action every present
//! database that follows the group has applied what is ordered.
//!
//! A member whose clients wait for that ([`CommitWait::Applied`]) asks the others, again with each
//! slow tick. A member that was asked tells its position at once, and for a while whenever an
//! action of the asking session is finished on its database. So a commit costs one small message
//! of each other member, and nothing while no member asks.
//!
//! ```text
//! the asking member   others    positions of the other databases, and which are waited for
//! every member        askers    members that want to know, and their actions
//! ```
//!
//! A database that lacks an action of this member for the suspect timeout is excluded: it is not
//! waited for until it has what was committed by then, and keeps up again.

mod askers;
mod coordinate;
mod others;

use synod_consensus::{MemberId, Seqno};

use askers::Askers;
use others::Others;

/// State that the host waits for before it tells its client that an action is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitWait {
    /// A majority of the voters has it on disk.
    #[default]
    Durable,
    /// All present databases that follow the group have applied it, too.
    Applied,
}

/// Nothing has to be waited for.
const NO_WAIT: Seqno = Seqno(i64::MAX);

/// The component that knows where the databases of others are, and who wants to know it of this
/// one.
pub(super) struct CommitWaits {
    wanted: CommitWait,
    /// Whether the group can do what is wanted; none: not logged yet.
    is_in_force: Option<bool>,
    others: Others,
    askers: Askers,
    /// Seqno that the host was told last.
    told: Seqno,
}

impl Default for CommitWaits {
    fn default() -> CommitWaits {
        CommitWaits {
            wanted: CommitWait::default(),
            is_in_force: None,
            others: Others::default(),
            askers: Askers::default(),
            told: NO_WAIT,
        }
    }
}

impl CommitWaits {
    /// The log was reset: positions in the one before mean nothing.
    pub(super) fn log_reset(&mut self) {
        self.others.forget();
        self.askers.forget_targets();
    }

    /// Members that are not waited for because they were too slow.
    pub(super) fn excluded(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.others.excluded()
    }

    fn is_on(&self) -> bool {
        self.wanted == CommitWait::Applied && self.is_in_force == Some(true)
    }
}

//! Bugs put in on purpose: if the simulator does not find them, it would not find real ones either.
//!
//! `tests/planted.rs` tells which are found, and how soon; the others need rarer coincidences than the
//! seeds tried so far had. All of them are in the simulated driver, where a real driver could have them too. The code of the
//! crates under test stays as it is.

/// A bug in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// A write is reported durable when it begins.
    AckBeforeSync,
    /// A leader counts its own disk as soon as it has handed over the write.
    CountOwnDiskEarly,
    /// Votes are not written.
    SkipVote,
    /// A restarted member has forgotten whom it voted for.
    ForgetVote,
    /// A restarted voter does not wait before it votes again.
    NoPromiseAfterRestart,
    /// A failed sync is taken for a good one.
    IgnoreFailedSync,
    /// A leader orders what it has ordered already when it is sent again.
    ResendWithoutDedup,
    /// A leader accepts proposals meant for another term's leader.
    AcceptStaleProposal,
    /// An origin believes refusals of any term.
    BelieveOldRefusal,
    /// An origin sends again what it proposed before its log began anew.
    ResendAfterReset,
    /// The lease counts from when an answer is received.
    LeaseFromReceiveTime,
    /// The certification window is off by one.
    WindowOffByOne,
    /// Certification is not told of truncations.
    NoCertificationRollback,
    /// After a restart, certification starts without history but claims to have it.
    ColdCertification,
    /// Locks that were given up are still taken for granted.
    NoEpoch,
    /// Actions are handed to the database before they are committed.
    DeliverUncommitted,
    /// Log truncations are not written.
    LoseTruncate,
    /// A wiped member comes back with its old identity.
    KeepIdentity,
    /// A follower's read is answered with its own commit index.
    LocalRead,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 19] = [
        Planted::AckBeforeSync,
        Planted::CountOwnDiskEarly,
        Planted::SkipVote,
        Planted::ForgetVote,
        Planted::NoPromiseAfterRestart,
        Planted::IgnoreFailedSync,
        Planted::ResendWithoutDedup,
        Planted::AcceptStaleProposal,
        Planted::BelieveOldRefusal,
        Planted::ResendAfterReset,
        Planted::LeaseFromReceiveTime,
        Planted::WindowOffByOne,
        Planted::NoCertificationRollback,
        Planted::ColdCertification,
        Planted::NoEpoch,
        Planted::DeliverUncommitted,
        Planted::LoseTruncate,
        Planted::KeepIdentity,
        Planted::LocalRead,
    ];

    /// The name used on the command line.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The bug with this name.
    pub fn from_name(name: &str) -> Option<Planted> {
        Planted::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

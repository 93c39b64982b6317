//! What a member is told at start.

use std::time::Duration;

use synod_certify::CertLimits;
use synod_consensus::{GroupId, Limits, Seqno, Timing, VersionRange};

/// Settings of a member. Validated by whoever parses them.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Unique in the group.
    pub name: String,
    /// All members must agree on it.
    pub cluster_name: String,
    /// `host:port` at which peers reach this member.
    pub address: String,
    /// `host:port` for clients, shown to operators.
    pub incoming: String,
    /// Whether it has a database.
    pub has_data: bool,
    /// Whether it shall vote, once it has caught up. If not, it stays a learner; who votes already goes on
    /// voting.
    pub wants_vote: bool,
    /// Protocol timing.
    pub timing: Timing,
    /// Protocol bounds.
    pub limits: Limits,
    /// A member not heard from for so long leaves the view; a member that hears no leader for so
    /// long is not primary.
    pub suspect: Duration,
    /// Bound on the entries of certification history.
    pub certification_span: u64,
    /// Where the database is.
    pub database: DatabasePosition,
    /// Versions of the group's protocol that this member takes part in.
    pub versions: VersionRange,
}

impl MemberConfig {
    pub(crate) fn cert_limits(&self) -> CertLimits {
        CertLimits {
            span_max: i64::try_from(self.certification_span).unwrap_or(i64::MAX),
            ..CertLimits::default()
        }
    }
}

/// Which history a database holds, and up to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabasePosition {
    /// The history; `NONE` if it has none.
    pub group: GroupId,
    /// The last action it holds; undefined if unknown.
    pub seqno: Seqno,
}

impl DatabasePosition {
    /// No history is known.
    pub const NONE: DatabasePosition = DatabasePosition {
        group: GroupId::NONE,
        seqno: Seqno::UNDEFINED,
    };
}

/// How to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// Begin a new group, unless the log already belongs to one.
    Bootstrap,
    /// Find the group.
    Join,
}

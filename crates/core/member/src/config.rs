//! The settings of a member, which its host passes at start. Durations are real time. The host has
//! validated them: nothing here checks a value.

use std::time::Duration;

use synod_certify::CertLimits;
use synod_consensus::{GroupId, Limits, Member, Role, Seqno, Timing, VersionRange};
use synod_wire::Region;

use crate::driver::VoterPolicy;
use crate::tuning::Tuning;

#[derive(Clone, Debug)]
pub struct MemberConfig {
    pub name: String,
    /// Name of the group for operators. All members must have the same.
    pub cluster_name: String,
    /// `host:port` at which peers reach this member.
    pub address: String,
    /// `host:port` for clients, shown to operators.
    pub incoming: String,
    /// The region that it is in, for operators and for the choice of a leader; none: not named.
    pub region: Option<Region>,
    /// Subject of its certificate; none if it has none.
    pub certificate: Option<String>,
    /// Whether it has a database. If not, it is a logger.
    pub has_data: bool,
    /// Whether the log is all that the group keeps: no member has a database, and members with one
    /// are refused. Such a group may begin with a member without a database, takes the leader's
    /// actions only, gives new members all of its log, and a full log waits for readers in the
    /// place of databases. All members must have the same.
    pub keeps_log_only: bool,
    /// Whether it becomes a voter once it has caught up. If not, it stays a learner; a member that
    /// is a voter already stays one.
    pub wants_vote: bool,
    /// How many voters the group keeps while this member leads.
    pub voter_policy: VoterPolicy,
    pub timing: Timing,
    pub limits: Limits,
    /// A member that has sent nothing for this long leaves the view. A member that has heard no
    /// leader for this long is not primary; if voters have different leader weights, not before the
    /// longest ordinary election is over.
    pub suspect: Duration,
    /// The leader admits actions so that the databases of the majority that keeps up best lag at
    /// most this much; zero: however much they lag.
    pub apply_lag_max: Duration,
    pub certification_span: u64,
    pub database: DatabasePosition,
    pub versions: VersionRange,
}

impl MemberConfig {
    pub(crate) fn first_voter(&self) -> Member {
        Member {
            role: Role::Voter,
            has_data: self.has_data,
            name: self.name.clone(),
            address: self.address.clone(),
            versions: self.versions,
            certificate: self.certificate.clone(),
        }
    }

    pub(crate) fn cert_limits(&self, tuning: &Tuning) -> CertLimits {
        CertLimits {
            run_above: tuning.run_above,
            span_max: i64::try_from(self.certification_span).unwrap_or(i64::MAX),
            ..CertLimits::default()
        }
    }
}

/// The position of a database: which history it holds, and up to which action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabasePosition {
    /// The group whose history it holds; `NONE` if it holds none.
    pub group: GroupId,
    /// The last action that it holds; undefined if unknown.
    pub seqno: Seqno,
}

impl DatabasePosition {
    pub const fn new(group: GroupId, seqno: Seqno) -> DatabasePosition {
        DatabasePosition { group, seqno }
    }

    /// The position of a database that holds no known history.
    pub const NONE: DatabasePosition = DatabasePosition::new(GroupId::NONE, Seqno::UNDEFINED);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// Begin a new group, unless the log already belongs to one. A database that belonged to
    /// another group is what the new one begins with: it may be a copy of the past, which the
    /// databases and logs of that group are ahead of.
    Bootstrap,
    /// Like [`StartMode::Bootstrap`], but the group is the one that the database belongs to, from
    /// its position on: it is taken over from another library, whose servers have all stopped.
    TakeOver,
    Join,
}

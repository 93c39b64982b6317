//! The settings of a node, and why it did not start with them.
//!
//! The host parses and validates its own options, and fills a [`NodeConfig`]. Nothing here has a
//! default, and nothing here knows how operators write a setting.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::{BootstrapError, GroupId, Limits, Timing, VersionRange};
use synod_log::{Files, LogOptions, Opened};
use synod_member::{
    DatabasePosition, Host, MemberConfig, OpenError, StartError, VoterPolicy, open_log,
};
use synod_tls::{Credentials, TlsError};
use synod_wire::Region;

use crate::transport::CompressionChoice;

/// Settings of a node. The host validates them when it parses its options.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of this member, unique in the group.
    pub name: String,
    /// The operator's name for the group, the same on all members.
    pub cluster_name: String,
    /// `host:port` that this member listens on.
    pub listen: String,
    /// `host:port` at which peers reach this member.
    pub address: String,
    /// `host:port` for clients, shown to operators.
    pub incoming: String,
    /// Addresses of members, `host:port`, at which this member looks for its group.
    pub seeds: Vec<String>,
    pub log_dir: PathBuf,
    pub log: LogOptions,
    pub timing: Timing,
    /// Bounds of the protocol on what is under way.
    pub limits: Limits,
    /// An action with more bytes than this is ordered in chunks of this size.
    pub chunk_bytes: usize,
    /// A member that has sent nothing for this time leaves the view. A member that has heard no
    /// leader for this time is not primary.
    pub suspect: Duration,
    /// Bound on the bytes of this member's actions that have no proposal result yet.
    pub pending_bytes: usize,
    /// The leader admits actions so that the databases of the majority that keeps up best lag at
    /// most this much; zero: however much they lag.
    pub apply_lag_max: Duration,
    /// Bound on the length of the certification window, in actions.
    pub certification_span: u64,
    /// How connections between members are encrypted; `None`: they are in clear.
    pub tls: Option<TlsConfig>,
    /// When what is sent to other members is compressed.
    pub compression: CompressionChoice,
    /// Whether this member has a database. A member without one (a logger) keeps the log and votes.
    ///
    /// Its host must not call [`Node::deliver_after`](crate::Node::deliver_after) or
    /// [`Node::submit`](crate::Node::submit), and need not call
    /// [`Node::set_applied`](crate::Node::set_applied): the node counts everything committed as
    /// applied. The node also states the member's data state by itself, and ignores
    /// [`Node::set_data_state`](crate::Node::set_data_state), so the member is never asked for a
    /// state transfer. [`Host::joined`] and [`Host::deliver`] are never called, because views list
    /// members with data only; [`Host::primary_changed`] says whether the member serves its group.
    /// A logger cannot begin a group.
    ///
    /// In a group that keeps its log only ([`NodeConfig::keeps_log_only`]) the member that leads
    /// may submit actions, and a member without a database begins the group.
    pub has_data: bool,
    /// Whether the log is all that the group keeps, and no member has a database; see
    /// [`MemberConfig::keeps_log_only`]. All members must have the same.
    pub keeps_log_only: bool,
    /// Group of the database, and its last action. Ignored for a member without one.
    pub database: DatabasePosition,
    /// How often the database flushes what it has applied. Ignored for a member without one.
    pub flush_period: Duration,
    /// The region that this member is in; none: not named.
    pub region: Option<Region>,
    /// Whether this member becomes a voter, once it has caught up.
    pub wants_vote: bool,
    /// How many voters the group keeps while this member leads.
    pub voter_policy: VoterPolicy,
    /// Versions of the group's protocol that this member takes part in: [`crate::OUR_VERSIONS`],
    /// unless a test acts as another version.
    pub versions: VersionRange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Credentials that members show to each other. Read at start and by
    /// [`crate::Node::reload_tls`].
    pub credentials: Credentials,
    /// Also accept members that do not encrypt, during a change from one to the other. Anyone who
    /// can alter traffic can then keep members from encrypting.
    pub accept_plain: bool,
}

impl NodeConfig {
    /// The settings of the member, without those of files and sockets.
    pub(crate) fn member(&self, certificate: Option<String>) -> MemberConfig {
        MemberConfig {
            certificate,
            name: self.name.clone(),
            cluster_name: self.cluster_name.clone(),
            address: self.address.clone(),
            incoming: self.incoming.clone(),
            has_data: self.has_data,
            region: self.region.clone(),
            wants_vote: self.wants_vote,
            voter_policy: self.voter_policy,
            timing: self.timing.clone(),
            limits: self.limits.clone(),
            suspect: self.suspect,
            keeps_log_only: self.keeps_log_only,
            apply_lag_max: self.apply_lag_max,
            certification_span: self.certification_span,
            database: if self.has_data {
                self.database
            } else {
                DatabasePosition::NONE
            },
            versions: self.versions,
        }
    }

    /// Opens the log. A damaged log is repaired if there may be other members to repair it from.
    pub(crate) fn open_log(
        &self,
        files: Arc<dyn Files>,
        host: &Arc<dyn Host>,
    ) -> Result<Opened, OpenError> {
        let own = [&self.address, &self.listen];
        let knows_others = self.seeds.iter().any(|seed| !own.contains(&seed));
        open_log(files, &self.log_dir, self.log.clone(), knows_others, host)
    }

    pub(crate) fn explain(&self, error: StartError) -> NodeError {
        match error {
            StartError::Log(error) => NodeError::Log(error),
            StartError::OtherHistory { log, database } => NodeError::OtherHistory {
                log_dir: self.log_dir.clone(),
                log_group: log,
                database_group: database,
            },
            StartError::Begin(error) => NodeError::Begin(error),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Log(#[from] synod_log::LogError),
    /// The log lacks entries, and no member has them.
    #[error(transparent)]
    SessionHistory(#[from] synod_member::SessionHistoryError),
    #[error(
        "cannot listen on {address}: {source}. Is another server using this port? Choose another \
         port with {setting}"
    )]
    Listen {
        address: String,
        /// The setting with the address, as the host spells it.
        setting: &'static str,
        source: std::io::Error,
    },
    /// Connections cannot be encrypted as they should be.
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot start thread {name}: {source}")]
    Thread {
        name: String,
        source: std::io::Error,
    },
    /// The log and the database belong to different histories.
    #[error(
        "the log in {log_dir} belongs to group {log_group}, the database to {database_group}. To \
         start a new group with this database, move the synod-*.log files away; to rejoin \
         {log_group}, start without bootstrap"
    )]
    OtherHistory {
        log_dir: PathBuf,
        log_group: GroupId,
        database_group: GroupId,
    },
    /// No group can begin with this member.
    #[error("cannot begin a new group: {0}")]
    Begin(#[from] BootstrapError),
    /// The log was copied from another machine, and the original member runs.
    #[error("{text} (it answers at {address})")]
    DuplicateIdentity {
        /// Address at which the other process answers.
        address: String,
        /// Advice to the operator.
        text: String,
    },
    /// This member states the address of another one.
    #[error(
        "{setting} of this member is {address}, and {other} answers there: two members cannot have \
         one address. Set {setting} to this machine's own address, and, if the configuration was \
         copied, {name_setting} ('{name}' now) to a name of its own, and start it again"
    )]
    AddressOfOther {
        address: String,
        setting: &'static str,
        name: String,
        name_setting: &'static str,
        /// The one that answers, as a part of a sentence.
        other: String,
    },
    /// The log is that of a member with a database, and this one has none; or the reverse.
    #[error(
        "the log in {} is that of '{name}', which {}: this member {}, so it must not continue \
         that log. Give it a directory of its own with {dir_setting}",
        log_dir.display(),
        if *has_data { "has a database" } else { "is a logger without a database" },
        if *has_data { "is a logger without one" } else { "has one" },
    )]
    OtherKind {
        log_dir: PathBuf,
        name: String,
        has_data: bool,
        dir_setting: &'static str,
    },
    /// The log is that of another member without a database.
    #[error(
        "the log in {} is that of '{name}', and this member is '{own_name}': two members must not \
         continue one log. Give this one a directory of its own with {dir_setting}; if it is \
         '{name}', set {name_setting} to that",
        log_dir.display(),
    )]
    OtherMember {
        log_dir: PathBuf,
        name: String,
        own_name: String,
        name_setting: &'static str,
        dir_setting: &'static str,
    },
    /// The certificate is not that of the member that the log makes this process.
    #[error(
        "this member joined its group with the certificate of '{bound}', and its certificate is \
         that of '{shown}' now: the other members would refuse it. Give it a certificate with the \
         subject '{bound}'; or, to join as a new member, give it another {name_setting} too and \
         move its synod-*.log files away"
    )]
    OtherSubject {
        /// The subject that the member is bound to.
        bound: String,
        shown: String,
        name_setting: &'static str,
    },
    #[error("the system gave no random numbers: {0}")]
    Random(String),
    /// A bootstrap was asked of a member without a database, in a group that is not one of relays.
    #[error(
        "a member without a database cannot begin a group: start it without bootstrap, and begin \
         the group with a member that has one"
    )]
    BeginWithoutData,
}

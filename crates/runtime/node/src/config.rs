//! The settings of a node, and why it did not start with them.
//!
//! The host parses and validates its own options, and fills a [`NodeConfig`]. Nothing here has a
//! default, and nothing here knows how operators write a setting.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::{BootstrapError, GroupId};
use synod_log::{Files, LogOptions, Opened};
use synod_member::{DatabasePosition, Host, MemberConfig, OpenError, StartError, open_log};
use synod_tls::{Credentials, TlsError};

use crate::transport::CompressionChoice;

/// Settings of a node. The host validates them when it parses its options.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Settings of the member. Its certificate is read from the credentials at start. Versions are
    /// [`crate::OUR_VERSIONS`], unless a test acts as another version. The position of the database
    /// is ignored for a member without one.
    ///
    /// The host of a member without a database (a logger) must not call
    /// [`Node::deliver_after`](crate::Node::deliver_after) or
    /// [`Node::submit`](crate::Node::submit), and need not call
    /// [`Node::set_applied`](crate::Node::set_applied): the node counts everything committed as
    /// applied. The node also states the member's data state by itself, and ignores
    /// [`Node::set_data_state`](crate::Node::set_data_state), so the member is never asked for a
    /// state transfer. [`Host::joined`] and [`Host::deliver`] are never called, because views list
    /// members with data only; [`Host::primary_changed`] says whether the member serves its group.
    /// A logger cannot begin a group. In a group that keeps its log only the member that leads may
    /// submit actions, and a member without a database begins the group.
    pub member: MemberConfig,
    /// `host:port` that this member listens on.
    pub listen: String,
    /// Addresses of members, `host:port`, at which this member looks for its group.
    pub seeds: Vec<String>,
    pub log_dir: PathBuf,
    pub log: LogOptions,
    /// An action with more bytes than this is ordered in chunks of this size.
    pub chunk_bytes: usize,
    /// Bound on the bytes of this member's actions that have no proposal result yet.
    pub pending_bytes: usize,
    /// How connections between members are encrypted; `None`: they are in clear.
    pub tls: Option<TlsConfig>,
    /// When what is sent to other members is compressed.
    pub compression: CompressionChoice,
    /// How often the database flushes what it has applied. Ignored for a member without one.
    pub flush_period: Duration,
}

impl Deref for NodeConfig {
    type Target = MemberConfig;

    fn deref(&self) -> &MemberConfig {
        &self.member
    }
}

impl DerefMut for NodeConfig {
    fn deref_mut(&mut self) -> &mut MemberConfig {
        &mut self.member
    }
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
    pub(crate) fn member(&self, certificate: Option<String>) -> MemberConfig {
        let mut member = self.member.clone();
        member.certificate = certificate;
        if !member.has_data {
            member.database = DatabasePosition::NONE;
        }
        member
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
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot start thread {name}: {source}")]
    Thread {
        name: String,
        source: std::io::Error,
    },
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
    #[error("cannot begin a new group: {0}")]
    Begin(#[from] BootstrapError),
    /// The log was copied from another machine, and the original member runs.
    #[error("{text} (it answers at {address})")]
    DuplicateIdentity {
        /// Address at which the other process answers.
        address: String,
        text: String,
    },
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
    #[error(
        "no group is begun here: {name} at {address} is in group {group}, which has the same \
         cluster name and takes this member's credentials. Both groups would serve clients, each \
         without what is written in the other. To join that group, start this member without \
         bootstrap: its own data are replaced by the group's. If that group is over, as after a \
         restore, or was begun by mistake, stop its members first. To have two groups, give this \
         one a cluster name of its own, or take {address} out of {setting}, and begin it again"
    )]
    GroupRuns {
        address: String,
        name: String,
        group: GroupId,
        setting: &'static str,
    },
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
    #[error(
        "a member without a database cannot begin a group: start it without bootstrap, and begin \
         the group with a member that has one"
    )]
    BeginWithoutData,
}

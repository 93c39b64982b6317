//! What a node is told at start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::{GroupId, Limits, Timing, VersionRange};
use synod_log::{Files, LogOptions, Opened};
use synod_member::{DatabasePosition, Host, MemberConfig, OpenError, StartError, open_log};
use synod_tls::{TlsError, TlsFiles};

/// Settings of a node. Validated by whoever parses them; see `docs/options.md` for the operator's
/// view.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Unique in the group.
    pub name: String,
    /// All members must agree on it.
    pub cluster_name: String,
    /// `host:port` to listen on.
    pub listen: String,
    /// `host:port` at which peers reach this member.
    pub address: String,
    /// `host:port` for clients, shown to operators.
    pub incoming: String,
    /// Addresses of members, to find the group by.
    pub seeds: Vec<String>,
    /// Where the log lives.
    pub log_dir: PathBuf,
    /// The log's bounds.
    pub log: LogOptions,
    /// Protocol timing.
    pub timing: Timing,
    /// Protocol bounds.
    pub limits: Limits,
    /// Larger actions travel in chunks of this many bytes.
    pub chunk_bytes: usize,
    /// A member not heard from for so long leaves the view; a member that hears no leader for so
    /// long is not primary.
    pub suspect: Duration,
    /// Bound on the bytes of this member's actions whose outcome is not known yet.
    pub pending_bytes: usize,
    /// Bound on the entries of certification history.
    pub certification_span: u64,
    /// How connections between members are encrypted; `None`: they are not.
    pub tls: Option<TlsConfig>,
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
    pub has_data: bool,
    /// Where the database is. Ignored for a member without one.
    pub database: DatabasePosition,
    /// Whether this member shall vote, once it has caught up.
    pub wants_vote: bool,
    /// Versions of the group's protocol that this member takes part in: [`crate::OUR_VERSIONS`],
    /// unless a test plays another program.
    pub versions: VersionRange,
}

/// Encryption of connections between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificates. Read at start and by [`crate::Node::reload_tls`].
    pub files: TlsFiles,
    /// Also take part with members that do not encrypt: for the time of going from one to the other.
    /// Who can change traffic can then keep members from encrypting.
    pub accept_plain: bool,
}

impl NodeConfig {
    /// The part that does not concern files and sockets.
    pub(crate) fn member(&self) -> MemberConfig {
        MemberConfig {
            name: self.name.clone(),
            cluster_name: self.cluster_name.clone(),
            address: self.address.clone(),
            incoming: self.incoming.clone(),
            has_data: self.has_data,
            wants_vote: self.wants_vote,
            timing: self.timing.clone(),
            limits: self.limits.clone(),
            suspect: self.suspect,
            certification_span: self.certification_span,
            database: match self.has_data {
                true => self.database,
                false => DatabasePosition::NONE,
            },
            versions: self.versions,
        }
    }

    /// Opens the log, or repairs it if somebody else may be there to repair it from.
    pub(crate) fn open_log(
        &self,
        files: Arc<dyn Files>,
        host: &Arc<dyn Host>,
    ) -> Result<Opened, OpenError> {
        let own = [&self.address, &self.listen];
        let knows_others = self.seeds.iter().any(|seed| !own.contains(&seed));
        open_log(files, &self.log_dir, self.log.clone(), knows_others, host)
    }

    /// What stood in the way of a start with these settings.
    pub(crate) fn explain(&self, error: StartError) -> NodeError {
        match error {
            StartError::Log(error) => NodeError::Log(error),
            StartError::OtherHistory { log, database } => NodeError::OtherHistory {
                log_dir: self.log_dir.clone(),
                log_group: log,
                database_group: database,
            },
        }
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The log was not opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The log failed.
    #[error("{0}")]
    Log(#[from] synod_log::LogError),
    /// The listening socket could not be opened.
    #[error(
        "cannot listen on {address}: {source}. Is another server using this port? Set another with the provider option 'base_port' or 'gmcast.listen_addr'"
    )]
    Listen {
        /// What was asked for.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Connections cannot be encrypted as they should be.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// A thread could not be started.
    #[error("cannot start thread {name}: {source}")]
    Thread {
        /// Which.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The log and the database belong to different histories.
    #[error(
        "the log in {log_dir} belongs to group {log_group}, the database to {database_group}. To start a new group with this database, move the synod-*.log files away; to rejoin {log_group}, start without bootstrap"
    )]
    OtherHistory {
        /// Where the log is.
        log_dir: PathBuf,
        /// Its group.
        log_group: GroupId,
        /// The database's.
        database_group: GroupId,
    },
    /// The log was copied, and the original runs.
    #[error("{text} (it answers at {address})")]
    DuplicateIdentity {
        /// Where the other process answers.
        address: String,
        /// What to do.
        text: String,
    },
    /// No randomness from the system.
    #[error("the system gave no random numbers: {0}")]
    Random(String),
    /// A bootstrap was asked of a member without a database.
    #[error(
        "a member without a database cannot begin a group: start it without bootstrap, and begin the group \
         with a member that has one"
    )]
    BeginWithoutData,
}

//! Why an upstream cannot be followed, in words for its operator.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use synod_binlog::{EventError, GtidList, MysqlGtid};
use synod_tls::TlsError;

use crate::config::UpstreamAddress;
use crate::position::FilePosition;

/// Why there is no connection to an upstream, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error(
        "cannot connect to the upstream {address}: {source}. Check that the server runs and \
         listens there"
    )]
    Connect {
        address: UpstreamAddress,
        source: io::Error,
    },
    /// The connection has ended without a word.
    #[error(
        "the connection to the upstream is lost: {0}. If this comes again, look at the upstream's \
         error log and at the network"
    )]
    Lost(io::Error),
    /// The upstream sent nothing, not even a heartbeat.
    #[error(
        "the upstream has sent nothing for {} seconds, not even a heartbeat: it hangs, or the \
         network to it is cut. Look at both",
        .0.as_secs()
    )]
    Silent(Duration),
    /// The upstream has ended the dump: it is shutting down.
    #[error("the upstream has ended the dump: it is shutting down, or its connection was killed")]
    Ended,
    /// This side has stopped it.
    #[error("the connection to the upstream was stopped")]
    Stopped,
    /// The file with the password cannot be used.
    #[error("cannot use the password of the upstream's account, in {}: {reason}", path.display())]
    PasswordFile { path: PathBuf, reason: String },
    /// The authorities cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Encryption is wanted, and the upstream has none.
    #[error(
        "the upstream does not offer encryption, and an authority for its certificate is \
         configured here. Give the upstream ssl_cert and ssl_key, or name no authority"
    )]
    NoEncryption,
    #[error("the upstream's encryption fails: {0}")]
    Handshake(String),
    /// Another program, or an old one.
    #[error(
        "the upstream is '{version}': the events of its binlog are not known here. Only MariaDB, \
         and MySQL 8.0 and later, can be an upstream"
    )]
    OtherServer {
        /// Version that the upstream states.
        version: String,
    },
    /// MySQL wants the password itself, and the connection is not encrypted.
    #[error(
        "the upstream wants the password of the account itself (caching_sha2_password), which is \
         not sent in clear. Encrypt: copy server-cert.pem from MySQL's data directory, and name \
         the copy by relay.upstream_tls_ca, with relay.upstream_tls_verify_name = false"
    )]
    PasswordInClear,
    /// The place to begin at is one of the other kind of server.
    #[error(
        "the upstream is {found}, and this group's log is at {position}, which {found} cannot \
         continue. Pull from a server of the same kind, or begin a new group from a new copy"
    )]
    OtherKind {
        /// Kind of the upstream.
        found: &'static str,
        /// Position of the log.
        position: String,
    },
    /// The relays' files name another domain than the log has.
    #[error(
        "this group's log is at {given}, and relay.upstream_mysql_domain is {domain} in this \
         relay's file: write there what the log has, on all relays. Another domain takes a new \
         group"
    )]
    OtherDomain {
        /// Position of the log.
        given: GtidList,
        /// Domain in the file.
        domain: u32,
    },
    /// MySQL cannot say which transactions are before a place in a file.
    #[error(
        "the upstream is MySQL, which does not say which transactions are before {0}. Begin at a \
         set of its GTIDs (relay.upstream_start = \"uuid:1-4711\", as in gtid_executed or in a \
         backup), or at \"now\""
    )]
    PlaceOfMysql(FilePosition),
    /// MySQL gives its transactions no GTIDs.
    #[error(
        "the upstream has gtid_mode = {found}. Its transactions must have GTIDs: set \
         enforce_gtid_consistency = ON and gtid_mode = ON there, as its manual shows for running \
         servers"
    )]
    NoGtids { found: String },
    /// MySQL leaves out parts of JSON values.
    #[error(
        "the upstream has binlog_row_value_options = {found}. Readers need whole values: SET \
         GLOBAL binlog_row_value_options = '' there and in its file, and connect its clients again"
    )]
    PartialValues { found: String },
    #[error(
        "the upstream has binlog_transaction_compression = ON, which MariaDB's readers do not \
         know: SET GLOBAL binlog_transaction_compression = OFF there and in its file, and connect \
         its clients again"
    )]
    CompressedTransactions,
    /// The upstream lacks transactions of this reader.
    #[error(
        "the upstream does not have the transactions '{missing}', which are here. It is another \
         server, or it has lost transactions. Pull from a server that has them, or begin again \
         from a new copy"
    )]
    Lacks {
        /// Missing GTIDs, as MySQL writes them.
        missing: String,
    },
    /// The account or its password is wrong.
    #[error(
        "the upstream refuses the account: {text} (error {code}). Check user and password, and \
         that the account may connect from this machine"
    )]
    Access {
        /// Number of the upstream's error.
        code: u16,
        text: String,
    },
    /// The account proves its password in a way that is not known here.
    #[error(
        "the upstream's account wants its password proven by '{plugin}', which is not known here. \
         On the upstream: ALTER USER ... IDENTIFIED VIA mysql_native_password USING \
         PASSWORD('...'); on MySQL: IDENTIFIED WITH caching_sha2_password BY '...'"
    )]
    Proof {
        /// The upstream's name for the way.
        plugin: String,
    },
    /// The upstream does not take a step that comes before the dump.
    #[error("the upstream refuses '{step}': {text} (error {code}){}", remedy(*code))]
    Step {
        /// Statement or command that was refused.
        step: String,
        /// Number of the upstream's error.
        code: u16,
        text: String,
    },
    /// The upstream has no binlog.
    #[error(
        "the upstream has no binlog: set log_bin, server_id and binlog_format = ROW there, and \
         restart it"
    )]
    NoBinlog,
    #[error(
        "the upstream has binlog_format = {found}. Readers need rows: SET GLOBAL binlog_format = \
         'ROW' there and in its file, and connect its clients again"
    )]
    Format { found: String },
    /// Its rows are not complete.
    #[error(
        "the upstream has binlog_row_image = {found}. Readers need whole rows: SET GLOBAL \
         binlog_row_image = 'FULL' there and in its file, and connect its clients again"
    )]
    RowImage { found: String },
    /// Upstream and reader have the same number.
    #[error(
        "the upstream has server_id {server_id}, and it is configured here for its reader, too. \
         Configure a number that no server has"
    )]
    OwnServerId { server_id: u32 },
    /// Another reader has connected with the same number.
    #[error(
        "another reader of the upstream has connected with server_id {server_id}, which is \
         configured here, so the upstream has ended this dump. Give each reader a number of its \
         own ({text})"
    )]
    ServerIdTaken {
        server_id: u32,
        /// Error text of the upstream.
        text: String,
    },
    /// The upstream no longer has what follows.
    #[error(
        "the upstream has purged what follows {position} ({text}). What is missing must come from \
         a new copy, or from another server that still has it"
    )]
    Purged {
        /// Position of this reader.
        position: String,
        /// Error text of the upstream.
        text: String,
    },
    /// The upstream never had what this reader has.
    #[error(
        "the upstream does not have {position}, which is the last transaction here ({text}). It is \
         another server, or it has lost transactions. Pull from a server that has it, or begin \
         again from a new copy"
    )]
    UnknownGtid {
        /// Position of this reader.
        position: String,
        /// Error text of the upstream.
        text: String,
    },
    /// A place in a file that the upstream does not have.
    #[error(
        "the upstream has no place {0} between two events: SHOW BINARY LOGS there names its files"
    )]
    NoSuchPlace(FilePosition),
    /// The upstream has not said in time which GTIDs come before a place in a file.
    #[error(
        "the upstream has not found out within {} seconds which GTIDs come before {place}: it \
         reads that file up to there. Begin with what SELECT BINLOG_GTID_POS('FILE', OFFSET) says \
         there",
        limit.as_secs()
    )]
    SlowPlace {
        place: FilePosition,
        limit: Duration,
    },
    /// The dump has ended with another error.
    #[error(
        "the upstream has ended the dump: {text} (error {code}). Look at the upstream's error log"
    )]
    Dump {
        /// Number of the upstream's error.
        code: u16,
        text: String,
    },
    /// The stream is no valid binlog.
    #[error(
        "the upstream's binlog is damaged after {place}: {why}. Look at it there: mariadb-binlog \
         --verify-binlog-checksum. If it is damaged, begin again from another server or a new copy"
    )]
    Corrupt {
        /// End of the last good event.
        place: FilePosition,
        why: Corruption,
    },
    /// The stream cannot be judged by the filter, or not followed at all.
    #[error("the upstream's binlog cannot be followed after {place}: {why}")]
    NotFollowed {
        /// End of the last good event.
        place: FilePosition,
        /// Why, and what to do.
        why: Obstacle,
    },
    /// The upstream violates the protocol.
    #[error(
        "the upstream does not keep to the protocol of MariaDB and MySQL: {0}. See that its \
         address is that of a server, and no proxy's"
    )]
    Protocol(String),
}

impl UpstreamError {
    /// Whether it may pass without an operator: trying again is worth it soon.
    pub fn may_pass(&self) -> bool {
        /// Too many connections, in several ways, and a shutdown.
        const BUSY: [u16; 4] = [1040, 1053, 1203, 1226];
        match self {
            UpstreamError::Step { code, .. } | UpstreamError::Dump { code, .. } => {
                BUSY.contains(code)
            }
            other => matches!(
                other,
                UpstreamError::Connect { .. }
                    | UpstreamError::Lost(_)
                    | UpstreamError::Silent(_)
                    | UpstreamError::SlowPlace { .. }
                    | UpstreamError::Ended
                    | UpstreamError::Stopped
            ),
        }
    }
}

/// Damage of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    #[error(transparent)]
    Event(#[from] EventError),
    /// Its size is not that of the packet it came in.
    #[error("an event of {event_bytes} bytes came in {found}")]
    Size { event_bytes: u32, found: usize },
    /// An event of a transaction, outside of one.
    #[error("an event of type {0} is outside a transaction")]
    Outside(u8),
    /// A transaction begins before the one before it has ended.
    #[error("transaction {next} begins before {open} has ended")]
    Open {
        /// The transaction that has not ended.
        open: String,
        /// The one that begins.
        next: String,
    },
    /// Rows of a table that no event has named.
    #[error("there are rows of table number {0}, which no event before them names")]
    UnknownTable(u64),
    /// A statement names more tables than one can.
    #[error("a statement names more than {0} tables")]
    TooManyTables(usize),
}

/// Reasons why a whole event cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// An event of a kind that is not known.
    #[error(
        "an event of type {0} is not known here. Run a version of synod that is not older than \
         the upstream"
    )]
    UnknownEvent(u8),
    /// The upstream says that events are missing.
    #[error(
        "the upstream has noted that its binlog lacks changes ({0}). Make a new copy, and begin \
         after it"
    )]
    Incident(String),
    /// The event is too large, in bytes.
    #[error("an event is larger than {0} bytes, the limit for events here")]
    TooLarge(usize),
    /// A transaction of MySQL without a GTID.
    #[error(
        "there is a transaction without a GTID, which was written with gtid_mode other than ON. \
         Begin after it, from a new copy"
    )]
    NoGtid,
    /// A compressed transaction of MySQL.
    #[error(
        "transaction {0} is compressed: a connection of the upstream has set \
         binlog_transaction_compression. {leave_out}",
        leave_out = .0.leave_out()
    )]
    Compressed(Stopped),
    /// Changes of MySQL to parts of JSON values.
    #[error(
        "transaction {0} lacks whole values: a connection of the upstream has set \
         binlog_row_value_options = PARTIAL_JSON. {leave_out}",
        leave_out = .0.leave_out()
    )]
    PartialValues(Stopped),
    /// A transaction of XA of MySQL.
    #[error(
        "transaction {0} is one of XA, which is not translated from MySQL. {leave_out}",
        leave_out = .0.leave_out()
    )]
    Xa(Stopped),
    /// Rows changed by a statement, which a filter of tables cannot judge.
    #[error(
        "a connection of the upstream has written a statement instead of rows (SET binlog_format), \
         which cannot be filtered by table: {0}. Begin after it, or without filter"
    )]
    Statement(String),
}

impl Obstacle {
    /// The transaction of MySQL that cannot be followed, and can be left out.
    pub fn stopped(&self) -> Option<Stopped> {
        match self {
            Obstacle::Compressed(stopped)
            | Obstacle::PartialValues(stopped)
            | Obstacle::Xa(stopped) => Some(*stopped),
            Obstacle::UnknownEvent(_)
            | Obstacle::Incident(_)
            | Obstacle::TooLarge(_)
            | Obstacle::NoGtid
            | Obstacle::Statement(_) => None,
        }
    }
}

/// A transaction of MySQL that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub gtid: MysqlGtid,
    /// The server where it began.
    pub server_id: u32,
}

impl Stopped {
    /// Remedies, in sentences.
    fn leave_out(self) -> String {
        format!(
            "See that clients there do so no more. Then either leave it out, 'synod relay skip \
             {self}': every replica stops at its place, and says so, until you have made its \
             changes there; or begin a new group after it, with a new copy for each replica"
        )
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.gtid)
    }
}

/// Remedy for some error codes.
fn remedy(code: u16) -> &'static str {
    /// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_ACCESS_DENIED_ERROR`.
    const ACCESS: [u16; 2] = [1227, 1045];
    if ACCESS.contains(&code) {
        return ". On the upstream: GRANT REPLICATION SLAVE ON *.* TO the account";
    }
    ""
}

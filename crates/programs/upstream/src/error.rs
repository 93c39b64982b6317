//! Why an upstream cannot be followed, in words for its operator.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use synod_binlog::{EventError, GtidList, MysqlGtid};
use synod_tls::TlsError;

use crate::config::UpstreamAddress;
use crate::position::FilePosition;

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
    #[error(
        "the connection to the upstream is lost: {0}. If this comes again, look at the upstream's \
         error log and at the network"
    )]
    Lost(io::Error),
    #[error(
        "the upstream has sent nothing for {} seconds, not even a heartbeat: it hangs, or the \
         network to it is cut. Look at both",
        .0.as_secs()
    )]
    Silent(Duration),
    #[error("the upstream has ended the dump: it is shutting down, or its connection was killed")]
    Ended,
    #[error("the connection to the upstream was stopped")]
    Stopped,
    #[error("cannot use the password of the upstream's account, in {}: {reason}", path.display())]
    PasswordFile { path: PathBuf, reason: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(
        "the upstream does not offer encryption, and an authority for its certificate is \
         configured here. Give the upstream ssl_cert and ssl_key, or name no authority"
    )]
    NoEncryption,
    #[error("the upstream's encryption fails: {0}")]
    Handshake(String),
    #[error(
        "the upstream is '{version}': the events of its binlog are not known here. Only MariaDB, \
         and MySQL 8.0 and later, can be an upstream"
    )]
    OtherServer { version: String },
    #[error(
        "the upstream wants the password of the account itself (caching_sha2_password), which is \
         not sent in clear. Encrypt: copy server-cert.pem from MySQL's data directory, and name \
         the copy by relay.upstream_tls_ca, with relay.upstream_tls_verify_name = false"
    )]
    PasswordInClear,
    #[error(
        "the upstream is {found}, and this group's log is at {position}, which {found} cannot \
         continue. Pull from a server of the same kind, or begin a new group from a new copy"
    )]
    OtherKind {
        found: &'static str,
        position: String,
    },
    #[error(
        "this group's log is at {given}, and relay.upstream_mysql_domain is {domain} in this \
         relay's file: write there what the log has, on all relays. Another domain takes a new \
         group"
    )]
    OtherDomain { given: GtidList, domain: u32 },
    #[error(
        "the upstream is MySQL, which does not say which transactions are before {0}. Begin at a \
         set of its GTIDs (relay.upstream_start = \"uuid:1-4711\", as in gtid_executed or in a \
         backup), or at \"now\""
    )]
    PlaceOfMysql(FilePosition),
    #[error(
        "the upstream has gtid_mode = {found}. Its transactions must have GTIDs: set \
         enforce_gtid_consistency = ON and gtid_mode = ON there, as its manual shows for running \
         servers"
    )]
    NoGtids { found: String },
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
    #[error(
        "the upstream does not have the transactions '{missing}', which are here. It is another \
         server, or it has lost transactions. Pull from a server that has them, or begin again \
         from a new copy"
    )]
    Lacks { missing: String },
    #[error(
        "the upstream refuses the account: {text} (error {code}). Check user and password, and \
         that the account may connect from this machine"
    )]
    Access { code: u16, text: String },
    #[error(
        "the upstream's account wants its password proven by '{plugin}', which is not known here. \
         On the upstream: ALTER USER ... IDENTIFIED VIA mysql_native_password USING \
         PASSWORD('...'); on MySQL: IDENTIFIED WITH caching_sha2_password BY '...'"
    )]
    Proof { plugin: String },
    #[error("the upstream refuses '{step}': {text} (error {code}){}", remedy(*code))]
    Step {
        step: String,
        code: u16,
        text: String,
    },
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
    #[error(
        "the upstream has binlog_row_image = {found}. Readers need whole rows: SET GLOBAL \
         binlog_row_image = 'FULL' there and in its file, and connect its clients again"
    )]
    RowImage { found: String },
    #[error(
        "the upstream has server_id {server_id}, and it is configured here for its reader, too. \
         Configure a number that no server has"
    )]
    OwnServerId { server_id: u32 },
    #[error(
        "another reader of the upstream has connected with server_id {server_id}, which is \
         configured here, so the upstream has ended this dump. Give each reader a number of its \
         own ({text})"
    )]
    ServerIdTaken { server_id: u32, text: String },
    #[error(
        "the upstream has purged what follows {position} ({text}). What is missing must come from \
         a new copy, or from another server that still has it"
    )]
    Purged { position: String, text: String },
    #[error(
        "the upstream does not have {position}, which is the last transaction here ({text}). It is \
         another server, or it has lost transactions. Pull from a server that has it, or begin \
         again from a new copy"
    )]
    UnknownGtid { position: String, text: String },
    #[error(
        "the upstream has no place {0} between two events: SHOW BINARY LOGS there names its files"
    )]
    NoSuchPlace(FilePosition),
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
    #[error(
        "the upstream has ended the dump: {text} (error {code}). Look at the upstream's error log"
    )]
    Dump { code: u16, text: String },
    #[error(
        "the upstream's binlog is damaged after {place}: {why}. Look at it there: mariadb-binlog \
         --verify-binlog-checksum. If it is damaged, begin again from another server or a new copy"
    )]
    Corrupt {
        /// End of the last good event.
        place: FilePosition,
        why: Corruption,
    },
    #[error("the upstream's binlog cannot be followed after {place}: {why}")]
    NotFollowed {
        /// End of the last good event.
        place: FilePosition,
        why: Obstacle,
    },
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    #[error(transparent)]
    Event(#[from] EventError),
    #[error("an event of {event_bytes} bytes came in {found}")]
    Size { event_bytes: u32, found: usize },
    #[error("an event of type {0} is outside a transaction")]
    Outside(u8),
    #[error("transaction {next} begins before {open} has ended")]
    Open { open: String, next: String },
    #[error("there are rows of table number {0}, which no event before them names")]
    UnknownTable(u64),
    #[error("a statement names more than {0} tables")]
    TooManyTables(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error(
        "an event of type {0} is not known here. Run a version of synod that is not older than \
         the upstream"
    )]
    UnknownEvent(u8),
    #[error(
        "the upstream has noted that its binlog lacks changes ({0}). Make a new copy, and begin \
         after it"
    )]
    Incident(String),
    #[error("an event is larger than {0} bytes, the limit for events here")]
    TooLarge(usize),
    #[error(
        "there is a transaction without a GTID, which was written with gtid_mode other than ON. \
         Begin after it, from a new copy"
    )]
    NoGtid,
    #[error(
        "transaction {0} is compressed: a connection of the upstream has set \
         binlog_transaction_compression. {leave_out}",
        leave_out = .0.leave_out()
    )]
    Compressed(Stopped),
    #[error(
        "transaction {0} lacks whole values: a connection of the upstream has set \
         binlog_row_value_options = PARTIAL_JSON. {leave_out}",
        leave_out = .0.leave_out()
    )]
    PartialValues(Stopped),
    #[error(
        "transaction {0} is one of XA, which is not translated from MySQL. {leave_out}",
        leave_out = .0.leave_out()
    )]
    Xa(Stopped),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub gtid: MysqlGtid,
    pub server_id: u32,
}

impl Stopped {
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

fn remedy(code: u16) -> &'static str {
    /// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_ACCESS_DENIED_ERROR`.
    const ACCESS: [u16; 2] = [1227, 1045];
    if ACCESS.contains(&code) {
        return ". On the upstream: GRANT REPLICATION SLAVE ON *.* TO the account";
    }
    ""
}

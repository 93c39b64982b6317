//! Configuration of a connection to an upstream.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use synod_binlog::mysql_gtid::Uuid;

use crate::filter::Filter;

/// Largest part that a transaction comes in, unless one event is larger, in bytes.
pub const PART_BYTES: usize = 4 << 20;
/// Largest event that is taken, in bytes.
pub const EVENT_BYTES_MAX: usize = 256 << 20;
/// Default heartbeat period of a quiet upstream.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// Everything that a connection to an upstream needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    pub address: UpstreamAddress,
    /// The account there. It needs the privilege `REPLICATION SLAVE`.
    pub user: String,
    /// File whose first line is the account's password; read again for each connection. None: the
    /// account has no password.
    pub password_file: Option<PathBuf>,
    /// Encryption; none: in clear.
    pub encryption: Option<UpstreamEncryption>,
    /// The `server_id` that the upstream knows this reader by. No other reader of the upstream,
    /// and no server around it, may have it. Not zero.
    pub server_id: u32,
    /// Heartbeat period of a quiet upstream. Silence of several times that ends the connection. Not
    /// zero.
    pub heartbeat: Duration,
    /// A transaction comes in parts of at most so many bytes; one larger event is a part.
    pub part_bytes: usize,
    /// A larger event is an error, in bytes: an event is in memory as a whole.
    pub event_bytes_max: usize,
    /// Tables and schemas to replicate.
    pub filter: Filter,
    /// The upstream is told that this reader acknowledges (semi-synchronous replication). Then
    /// commits there wait for [`Upstream::acknowledge`](crate::Upstream::acknowledge), if the
    /// upstream has `rpl_semi_sync_master_enabled`.
    pub semi_sync: bool,
    /// The domain of the GTIDs that transactions of MySQL are given.
    pub mysql_domain: u32,
    /// Identity of this reader for MySQL, beside its `server_id`: a new dump with it ends an older
    /// one. None: not sent.
    pub uuid: Option<Uuid>,
}

impl UpstreamConfig {
    /// With defaults for all that has one: no password, no encryption, no filter, no
    /// acknowledgements.
    pub fn new(address: UpstreamAddress, user: &str, server_id: u32) -> UpstreamConfig {
        UpstreamConfig {
            address,
            user: user.to_owned(),
            password_file: None,
            encryption: None,
            server_id,
            heartbeat: HEARTBEAT,
            part_bytes: PART_BYTES,
            event_bytes_max: EVENT_BYTES_MAX,
            filter: Filter::default(),
            semi_sync: false,
            mysql_domain: 0,
            uuid: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// A name or an IP address, without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Encryption of connections to an upstream: TLS 1.3, or no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamEncryption {
    /// PEM file with the authorities that may have signed the upstream's certificate.
    pub authorities: PathBuf,
    /// The certificate must have the host of the address among its names. Certificates that
    /// MariaDB's manual shows how to make have none.
    pub checks_name: bool,
}

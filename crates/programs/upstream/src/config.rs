//! Configuration of a connection to an upstream, with the tables and schemas to replicate.
//!
//! Rows are judged by their table. A statement that changes a schema is judged by the schema that
//! its connection used, as MariaDB's own filters do: the statement's text is not read.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use synod_binlog::mysql_gtid::Uuid;
use synod_binlog::words::is_like;

/// Largest part that a transaction comes in, unless one event is larger, in bytes.
pub const PART_BYTES: usize = 4 << 20;
pub const HEARTBEAT: Duration = Duration::from_secs(2);

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

/// Tables to replicate. The default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these; empty: all.
    pub keep: Vec<TablePattern>,
    /// Not these, even if they are among the former.
    pub ignore: Vec<TablePattern>,
}

impl Filter {
    pub fn keeps_all(&self) -> bool {
        self.keep.is_empty() && self.ignore.is_empty()
    }

    pub fn keeps_table(&self, schema: &[u8], table: &[u8]) -> bool {
        let fits = |pattern: &TablePattern| {
            is_like(schema, pattern.schema.as_bytes(), b'*')
                && is_like(table, pattern.table.as_bytes(), b'*')
        };
        (self.keep.is_empty() || self.keep.iter().any(fits)) && !self.ignore.iter().any(fits)
    }

    /// Whether statements come whose connection used this schema. Those of connections without one
    /// come.
    pub fn keeps_schema(&self, schema: &[u8]) -> bool {
        if schema.is_empty() {
            return true;
        }
        let fits = |pattern: &TablePattern| is_like(schema, pattern.schema.as_bytes(), b'*');
        let has_all = |pattern: &&TablePattern| pattern.table == "*";
        (self.keep.is_empty() || self.keep.iter().any(fits))
            && !self.ignore.iter().filter(has_all).any(fits)
    }
}

/// Names of tables: `schema.table`, in which `*` stands for any characters. Upper and lower case
/// differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    schema: String,
    table: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no tables: write schema.table or schema.*")]
pub struct TablePatternError(String);

impl FromStr for TablePattern {
    type Err = TablePatternError;

    fn from_str(text: &str) -> Result<TablePattern, TablePatternError> {
        let parts = text.split_once('.');
        let parts = parts.filter(|(schema, table)| !schema.is_empty() && !table.is_empty());
        let (schema, table) = parts.ok_or_else(|| TablePatternError(text.to_owned()))?;
        Ok(TablePattern {
            schema: schema.to_owned(),
            table: table.to_owned(),
        })
    }
}

impl fmt::Display for TablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<TablePattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn tables_are_kept_unless_ignored() {
        let filter = Filter {
            keep: patterns(&["shop.*", "logs_*.access"]),
            ignore: patterns(&["shop.tmp_*", "logs_test.*"]),
        };
        let keeps =
            |schema: &str, table: &str| filter.keeps_table(schema.as_bytes(), table.as_bytes());
        assert!(keeps("shop", "orders") && keeps("logs_2024", "access"));
        assert!(!keeps("shop", "tmp_1") && !keeps("logs_test", "access"));
        assert!(!keeps("Shop", "orders") && !keeps("logs_2024", "errors"));
        assert!(Filter::default().keeps_table(b"any", b"table"));
    }

    #[test]
    fn statements_are_judged_by_the_schema_in_use() {
        let filter = Filter {
            keep: patterns(&["shop.orders"]),
            ignore: patterns(&["shop.tmp_*", "other.*"]),
        };
        assert!(filter.keeps_schema(b"shop") && filter.keeps_schema(b""));
        assert!(!filter.keeps_schema(b"other") && !filter.keeps_schema(b"else"));
        let without = Filter {
            keep: Vec::new(),
            ignore: patterns(&["a*.*"]),
        };
        assert!(without.keeps_schema(b"b") && !without.keeps_schema(b"abc"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["shop", ".t", "shop.", ""] {
            assert!(text.parse::<TablePattern>().is_err(), "{text}");
        }
        let pattern: TablePattern = "a.b.c".parse().unwrap();
        assert_eq!(pattern.to_string(), "a.b.c");
    }
}

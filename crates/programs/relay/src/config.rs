//! The file of a relay: that of a logger, with a table `[relay]`, whose keys also say whose binlog
//! a relay keeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use synod_logger::LoggerConfig;
use synod_logger::config::{ConfigError, parse_table, read_text};
use synod_options::Address;
use synod_upstream::{
    FilePosition, Filter, MysqlPosition, Position, TablePattern, UpstreamAddress, UpstreamConfig,
    UpstreamEncryption,
};
use toml::{Table, Value};

use crate::accounts::Accounts;
use crate::encryption::Encryption;
use crate::sql::SqlServers;

/// Readers that a relay serves at a time, unless its file says otherwise.
const READERS_MAX: u32 = 64;
/// For how long a reader may take nothing, unless the file says otherwise.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Size of the log cache, unless the file says otherwise: less than a server's, since readers that
/// are behind are served from the disk.
const CACHE_SIZE: &str = "16M";
const KEYS: [&str; 23] = [
    "listen",
    "tls_cert",
    "tls_key",
    "tls_key_password_file",
    "tls_required",
    "accounts",
    "server_ids",
    "domain",
    "readers_max",
    "stalled_after",
    "sql_servers",
    "sql_tls_ca",
    "sql_tls_verify_name",
    "upstream",
    "upstream_password_file",
    "upstream_server_id",
    "upstream_start",
    "upstream_mysql_domain",
    "upstream_semi_sync",
    "upstream_keep",
    "upstream_ignore",
    "upstream_tls_ca",
    "upstream_tls_verify_name",
];

#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The member: a logger, a learner unless the file says otherwise.
    pub member: LoggerConfig,
    pub listen: Address,
    /// Encryption of readers' connections; none: in clear.
    pub encryption: Option<Encryption>,
    pub accounts: Accounts,
    /// Domain of the GTIDs; none: made from the group's id.
    pub domain: Option<u32>,
    pub readers_max: usize,
    /// A reader that takes nothing for so long is disconnected.
    pub stalled_after: Duration,
    /// Servers of the group that take the statements which a relay does not answer itself.
    pub sql: Option<SqlServers>,
    /// Upstream whose binlog a group of relays keeps; none: the relay serves the group that it is
    /// in.
    pub upstream: Option<UpstreamSettings>,
}

#[derive(Debug, thiserror::Error)]
pub enum RelayConfigError {
    #[error(transparent)]
    Member(#[from] ConfigError),
    #[error("{}: 'relay.{key}' is missing. Add a line such as: {example}", path.display())]
    Missing {
        path: PathBuf,
        key: &'static str,
        example: &'static str,
    },
    #[error(
        "{}: there is no key 'relay.{key}'. There are: {}",
        path.display(),
        KEYS.join(", ")
    )]
    UnknownKey { path: PathBuf, key: String },
    #[error("{}: the value of 'relay.{key}' does not fit: {reason}", path.display())]
    BadValue {
        path: PathBuf,
        key: String,
        reason: String,
    },
}

impl RelayConfig {
    pub fn read(path: &Path) -> Result<RelayConfig, RelayConfigError> {
        RelayConfig::parse(path, &read_text(path)?)
    }

    pub fn parse(path: &Path, text: &str) -> Result<RelayConfig, RelayConfigError> {
        let mut table = parse_table(path, text)?;
        let own = match table.remove("relay") {
            Some(Value::Table(own)) => own,
            Some(_) | None => Table::new(),
        };
        let keys = Keys { path, own };
        keys.refuse_unknown()?;
        let upstream = keys.upstream()?;
        assume(&mut table, "log_cache_size", CACHE_SIZE.into());
        let mut member = match &upstream {
            Some(_) => LoggerConfig::of_relay_group(path, table)?,
            None => {
                // It comes and leaves with the readers' needs.
                assume(&mut table, "voter", Value::Boolean(false));
                LoggerConfig::from_table(path, table)?
            }
        };
        let sql = keys.sql(upstream.is_some())?;
        let listen = keys.listen()?;
        member.readers_at = readers_at(&listen, &member.address);
        Ok(RelayConfig {
            upstream,
            sql,
            listen,
            encryption: keys.encryption()?,
            accounts: keys.accounts()?,
            domain: keys.number("domain", 0..=u32::MAX)?,
            readers_max: keys.number("readers_max", 1..=1000)?.unwrap_or(READERS_MAX) as usize,
            stalled_after: keys
                .number("stalled_after", 1..=3600)?
                .map_or(STALLED_AFTER, |seconds| Duration::from_secs(seconds.into())),
            member,
        })
    }
}

/// The address for readers of a relay that listens there. One that listens on all of its machine
/// has one of them in common with the members.
fn readers_at(listen: &Address, own: &Address) -> String {
    let host = match listen.host.as_str() {
        "0.0.0.0" | "::" => own.host_text(),
        _ => listen.host_text(),
    };
    listen
        .port
        .map_or(String::new(), |port| format!("{host}:{port}"))
}

/// Gives the option `synod.{key}` a value, unless the file does.
fn assume(table: &mut Table, key: &str, value: Value) {
    if table.contains_key(&format!("synod.{key}")) {
        return;
    }
    let options = table.entry("synod").or_insert(Value::Table(Table::new()));
    if let Some(options) = options.as_table_mut() {
        options.entry(key).or_insert(value);
    }
}

struct Keys<'a> {
    path: &'a Path,
    own: Table,
}

impl Keys<'_> {
    fn refuse_unknown(&self) -> Result<(), RelayConfigError> {
        match self.own.keys().find(|key| !KEYS.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(RelayConfigError::UnknownKey {
                path: self.path.to_owned(),
                key: key.clone(),
            }),
        }
    }

    fn bad(&self, key: &str, reason: impl Into<String>) -> RelayConfigError {
        RelayConfigError::BadValue {
            path: self.path.to_owned(),
            key: key.to_owned(),
            reason: reason.into(),
        }
    }

    fn missing(&self, key: &'static str, example: &'static str) -> RelayConfigError {
        let path = self.path.to_owned();
        RelayConfigError::Missing { path, key, example }
    }

    fn listen(&self) -> Result<Address, RelayConfigError> {
        const EXAMPLE: &str = "relay.listen = \"0.0.0.0:3310\"";
        let text = match self.own.get("listen") {
            None => return Err(self.missing("listen", EXAMPLE)),
            Some(value) => value.as_str().unwrap_or_default(),
        };
        let address = Address::parse(text).map_err(|reason| self.bad("listen", reason))?;
        if address.tls {
            let reason = "relay.tls_cert and relay.tls_key encrypt connections, not ssl:// here";
            return Err(self.bad("listen", reason.to_owned()));
        }
        match address.port {
            Some(_) => Ok(address),
            None => Err(self.bad("listen", format!("it needs a port: {EXAMPLE}"))),
        }
    }

    /// Encrypted means encrypted only, unless the file says otherwise.
    fn encryption(&self) -> Result<Option<Encryption>, RelayConfigError> {
        let is_required = self.flag("tls_required")?.unwrap_or(true);
        let password = self.path("tls_key_password_file")?;
        match (self.path("tls_cert")?, self.path("tls_key")?) {
            (Some(certificate), Some(key)) => {
                let encryption = Encryption::new([certificate, key], password, is_required);
                Ok(Some(encryption))
            }
            (Some(_), None) => {
                Err(self.missing("tls_key", "relay.tls_key = \"/etc/synod/relay.key\""))
            }
            (None, key) => {
                let is_there = key.is_some() || password.is_some();
                if is_there || self.own.contains_key("tls_required") {
                    let example = "relay.tls_cert = \"/etc/synod/relay.pem\"";
                    return Err(self.missing("tls_cert", example));
                }
                Ok(None)
            }
        }
    }

    fn path(&self, key: &'static str) -> Result<Option<PathBuf>, RelayConfigError> {
        match self.own.get(key) {
            None => Ok(None),
            Some(Value::String(path)) if !path.is_empty() => Ok(Some(PathBuf::from(path))),
            Some(_) => Err(self.bad(key, "write the path of a file, in quotes")),
        }
    }

    fn accounts(&self) -> Result<Accounts, RelayConfigError> {
        const EXAMPLE: &str =
            "relay.accounts.repl = \"*0123...\", with what SELECT PASSWORD('...') gives";
        let listed = match self.own.get("accounts") {
            Some(Value::Table(listed)) if !listed.is_empty() => listed,
            Some(_) | None => return Err(self.missing("accounts", EXAMPLE)),
        };
        let mut accounts = Accounts::default();
        for (name, hash) in listed {
            if !accounts.add(name, hash.as_str().unwrap_or_default()) {
                let reason = "write what SELECT PASSWORD('...') gives: a star and 40 digits";
                return Err(self.bad(&format!("accounts.{name}"), reason));
            }
        }
        self.bind_accounts(&mut accounts)?;
        Ok(accounts)
    }

    fn bind_accounts(&self, accounts: &mut Accounts) -> Result<(), RelayConfigError> {
        let Some(listed) = self.own.get("server_ids") else {
            return Ok(());
        };
        let reason = "write relay.server_ids.repl = [99], with the name of one of relay.accounts \
                      and the server_id of each of its readers";
        let listed = listed
            .as_table()
            .ok_or_else(|| self.bad("server_ids", reason))?;
        for (name, numbers) in listed {
            let numbers = numbers.as_array().and_then(|numbers| {
                let number = |number: &Value| u32::try_from(number.as_integer()?).ok();
                numbers.iter().map(number).collect()
            });
            if !numbers.is_some_and(|numbers| accounts.bind(name, numbers)) {
                return Err(self.bad(&format!("server_ids.{name}"), reason));
            }
        }
        Ok(())
    }

    fn sql(&self, has_upstream: bool) -> Result<Option<SqlServers>, RelayConfigError> {
        const KEY: &str = "sql_servers";
        const EXAMPLE: &str = "relay.sql_servers = [\"db1\", \"db2\"]";
        let keys = ["sql_tls_ca", "sql_tls_verify_name"];
        let encryption =
            self.authority(keys, "relay.sql_tls_ca = \"/etc/synod/servers-ca.pem\"")?;
        let listed = match self.own.get(KEY) {
            None if encryption.is_some() => return Err(self.missing(KEY, EXAMPLE)),
            None => return Ok(None),
            Some(_) if has_upstream => {
                let reason =
                    "the servers of an upstream are no members of this group. Leave it out";
                return Err(self.bad(KEY, reason));
            }
            Some(Value::Array(listed)) if !listed.is_empty() => listed,
            Some(_) => return Err(self.bad(KEY, format!("write a list, such as: {EXAMPLE}"))),
        };
        let address = |value: &Value| address_of(value.as_str().unwrap_or_default());
        let servers = listed.iter().map(address).collect::<Result<_, _>>();
        let servers = servers.map_err(|reason| self.bad(KEY, reason))?;
        Ok(Some(SqlServers {
            servers,
            encryption,
        }))
    }

    fn number(
        &self,
        key: &'static str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, RelayConfigError> {
        let Some(value) = self.own.get(key) else {
            return Ok(None);
        };
        let number = value
            .as_integer()
            .and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let reason = format!("write a number from {} to {}", bounds.start(), bounds.end());
                Err(self.bad(key, reason))
            }
        }
    }
}

/// Largest part of a transaction that is one action of the group, unless an event is larger.
const PART_BYTES: usize = 2 << 20;
/// The port of a server, if the address names none.
const SERVER_PORT: u16 = 3306;
/// The key that must be there, for examples.
const EXAMPLE: &str = "relay.upstream = \"mysql://repl@db1.example.com:3306\"";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    pub config: UpstreamConfig,
    pub start: Position,
}

impl Keys<'_> {
    /// The upstream; none if the file names none.
    fn upstream(&self) -> Result<Option<UpstreamSettings>, RelayConfigError> {
        let Some(value) = self.own.get("upstream") else {
            let stray = self.own.keys().find(|key| key.starts_with("upstream_"));
            return match stray {
                None => Ok(None),
                Some(_) => Err(self.missing("upstream", EXAMPLE)),
            };
        };
        let text = value.as_str().unwrap_or_default();
        let (user, address) = upstream_of(text).map_err(|why| self.bad("upstream", why))?;
        let server_id = self.number("upstream_server_id", 1..=u32::MAX)?;
        let server_id = server_id
            .ok_or_else(|| self.missing("upstream_server_id", "relay.upstream_server_id = 4711"))?;
        let mut config = UpstreamConfig::new(address, &user, server_id);
        config.part_bytes = PART_BYTES;
        config.password_file = self.path("upstream_password_file")?;
        let example = "relay.upstream_tls_ca = \"/etc/synod/upstream-ca.pem\"";
        let keys = ["upstream_tls_ca", "upstream_tls_verify_name"];
        config.encryption = self.authority(keys, example)?;
        config.semi_sync = self.flag("upstream_semi_sync")?.unwrap_or(false);
        let domain = self.number("upstream_mysql_domain", 0..=u32::MAX)?;
        config.mysql_domain = domain.unwrap_or(0);
        config.filter = Filter {
            keep: self.patterns("upstream_keep")?,
            ignore: self.patterns("upstream_ignore")?,
        };
        Ok(Some(UpstreamSettings {
            config,
            start: self.start()?,
        }))
    }

    /// Encryption of connections to servers, by the keys that name an authority and say whether
    /// names are checked.
    fn authority(
        &self,
        [authority, checks_name]: [&'static str; 2],
        example: &'static str,
    ) -> Result<Option<UpstreamEncryption>, RelayConfigError> {
        let checks_name = self.flag(checks_name)?;
        match self.path(authority)? {
            Some(authorities) => Ok(Some(UpstreamEncryption {
                authorities,
                checks_name: checks_name.unwrap_or(true),
            })),
            None if checks_name.is_some() => Err(self.missing(authority, example)),
            None => Ok(None),
        }
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, RelayConfigError> {
        match self.own.get(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.bad(key, "write true or false")),
        }
    }

    fn patterns(&self, key: &'static str) -> Result<Vec<TablePattern>, RelayConfigError> {
        let listed = match self.own.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err(self.bad(key, "write a list, such as: [\"shop.*\"]")),
        };
        let pattern = |value: &Value| {
            let parsed = value.as_str().unwrap_or_default().parse::<TablePattern>();
            parsed.map_err(|error| self.bad(key, error.to_string()))
        };
        listed.iter().map(pattern).collect()
    }

    /// By default the beginning of all: what the upstream has purged is then an error, not a gap.
    fn start(&self) -> Result<Position, RelayConfigError> {
        const KEY: &str = "upstream_start";
        let text = match self.own.get(KEY) {
            None => return Ok(Position::Gtids(synod_binlog::GtidList::default())),
            Some(value) => value.as_str(),
        };
        let position = text.and_then(|text| start_of(text.trim()));
        position.ok_or_else(|| {
            let reason = "write \"now\"; or GTIDs, such as \"0-1-4711\"; or a file of the \
                          upstream's binlog and a place in it, such as \"mysql-bin.000042:1234\"; \
                          or a set of MySQL's GTIDs, such as \
                          \"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4711\"";
            self.bad(KEY, reason)
        })
    }
}

fn upstream_of(text: &str) -> Result<(String, UpstreamAddress), String> {
    let form = || format!("write a user and an address, such as: {EXAMPLE}");
    let rest = text.strip_prefix("mysql://").ok_or_else(form)?;
    let (user, address) = rest.rsplit_once('@').ok_or_else(form)?;
    if user.is_empty() || user.contains(':') {
        return Err(format!(
            "{}. The password is in a file: relay.upstream_password_file",
            form()
        ));
    }
    Ok((user.to_owned(), address_of(address)?))
}

/// The address of an upstream, as operators write it: `host` or `host:port`.
pub(crate) fn address_of(text: &str) -> Result<UpstreamAddress, String> {
    let address = Address::parse(text)?;
    if address.tls {
        return Err(format!(
            "'{text}': an authority (relay.upstream_tls_ca, relay.sql_tls_ca) encrypts the \
             connection, not ssl:// before the address"
        ));
    }
    Ok(UpstreamAddress {
        host: address.host,
        port: address.port.unwrap_or(SERVER_PORT),
    })
}

fn start_of(text: &str) -> Option<Position> {
    if text.eq_ignore_ascii_case("now") {
        return Some(Position::Now);
    }
    if let Ok(list) = text.parse() {
        return Some(Position::Gtids(list));
    }
    if let Ok(has) = text.parse() {
        let given = synod_binlog::GtidList::default();
        return Some(Position::Mysql(MysqlPosition { has, given }));
    }
    let (file, offset) = text.rsplit_once(':')?;
    let offset = offset.parse().ok()?;
    // Else it is a set of MySQL's GTIDs, and none that can be.
    let is_name = !file.is_empty() && !file.contains(':');
    let file = file.to_owned();
    is_name.then_some(Position::File(FilePosition { file, offset }))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upstream_tests;

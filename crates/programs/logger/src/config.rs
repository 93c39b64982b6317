//! The file of a logger: TOML, with four keys of its own and options by the names that they have in
//! `wsrep_provider_options`.
//!
//! Every key that is not known, and every value that does not fit, is an error that names it and
//! says what to write. Nothing is guessed: a voter with half a configuration is worse than none.

use std::path::{Path, PathBuf};

use synod_node::{DatabasePosition, LeaderPreference, LeaderWeight, NodeConfig};
use synod_options::whereabouts::{self, is_here};
use synod_options::{Address, DEFAULT_PORT, Defaults, HostFacts, Options, OptionsError, key};
use toml::{Table, Value};

use crate::keys::{self, KeyKind};

/// Size of the newest part of the log that a logger keeps in memory, unless its file says
/// otherwise: less than a server, because others read little of it.
const CACHE_SIZE: &str = "8M";
/// The sample's name of a group, which is no group's.
const SAMPLE_CLUSTER: &str = "name-of-the-group";
/// Limit for own actions, which a logger does not have.
const NO_ACTIONS_BYTES: usize = 1 << 20;
/// In a group of relays: a larger part of a transaction is split, and may be overtaken by the next.
const RELAYED_PIECE_BYTES: usize = 8 << 20;
/// In a group of relays: what is pulled and not ordered yet.
const RELAYED_PENDING_BYTES: usize = 48 << 20;

#[derive(Clone, Debug)]
pub struct LoggerConfig {
    /// The operator's name for the group: `wsrep_cluster_name` of the servers.
    pub cluster_name: String,
    pub name: String,
    pub address: Address,
    pub peers: Vec<Address>,
    /// The rest, by the names of the servers' options.
    pub options: Options,
    pub notices: Vec<String>,
    /// Its group is one of relays, without any server.
    pub in_relay_group: bool,
    /// `host:port` at which readers reach it, if it is a relay; otherwise empty.
    pub readers_at: String,
}

/// Errors in a logger's file. The text names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "cannot read {}: {source}. Name the configuration file of this member with --config",
        path.display()
    )]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{}, line {line}: {message}. A line is: name = \"text\", or synod.option = \"value\"",
        path.display()
    )]
    Syntax {
        path: PathBuf,
        line: usize,
        message: String,
    },
    #[error("{}: there is no key '{key}'. Did you mean '{nearest}'?", path.display())]
    UnknownKey {
        path: PathBuf,
        key: String,
        nearest: &'static str,
    },
    #[error(
        "{}: '{key}' is an option of servers and means nothing to a member without a database, \
         which leads only while no server can. Remove the line",
        path.display()
    )]
    OfServers { path: PathBuf, key: String },
    #[error("{}: '{key}' is missing. Add a line such as: {example}", path.display())]
    Missing {
        path: PathBuf,
        key: &'static str,
        example: &'static str,
    },
    #[error("{}: {removed}", path.display())]
    Removed {
        path: PathBuf,
        removed: synod_options::OptionsError,
    },
    #[error("{}: '{key}' cannot be {value}: {reason}", path.display())]
    BadValue {
        path: PathBuf,
        key: String,
        value: String,
        reason: String,
    },
    #[error("{}: {source}", path.display())]
    Option { path: PathBuf, source: OptionsError },
    #[error("{}: {}", path.display(), faults.join("; "))]
    NotOfThisMachine { path: PathBuf, faults: Vec<String> },
    #[error(
        "{}: this member does not start without credentials: every process that reaches {listen} \
         could read and change what the group commits. Copy the group secret of the servers here \
         (owner: the logger's user, mode 600), and add the line: synod.secret_file = \
         \"/etc/synod/group.secret\". Instead of a secret, certificates do (socket.ssl_cert, \
         socket.ssl_key, socket.ssl_ca); to run without any protection, synod.insecure = true",
        path.display()
    )]
    Exposed { path: PathBuf, listen: Address },
}

impl LoggerConfig {
    pub fn read(path: &Path) -> Result<LoggerConfig, ConfigError> {
        let text = read_text(path)?;
        LoggerConfig::parse(path, &text)
    }

    pub fn parse(path: &Path, text: &str) -> Result<LoggerConfig, ConfigError> {
        LoggerConfig::from_table(path, parse_table(path, text)?)
    }

    pub fn from_table(path: &Path, table: Table) -> Result<LoggerConfig, ConfigError> {
        LoggerConfig::understand(path, table, false)
    }

    /// A member of a group of relays may be alone, without peers.
    pub fn of_relay_group(path: &Path, table: Table) -> Result<LoggerConfig, ConfigError> {
        LoggerConfig::understand(path, table, true)
    }

    fn understand(
        path: &Path,
        table: Table,
        in_relay_group: bool,
    ) -> Result<LoggerConfig, ConfigError> {
        let mut keys = Keys {
            path,
            found: Vec::new(),
        };
        keys.flatten("", table)?;
        let config = LoggerConfig {
            cluster_name: keys.text("cluster_name", "cluster_name = \"payments\"")?,
            name: keys.text("name", "name = \"witness\"")?,
            address: keys.own_address()?,
            peers: keys.peers(in_relay_group)?,
            options: Options::from_pairs(Defaults::default(), &[])
                .map_err(|source| keys.option_error(source))?
                .0,
            notices: Vec::new(),
            in_relay_group,
            readers_at: String::new(),
        };
        keys.with_options(config)
    }

    /// Checks what the machine of this member tells about its file: nothing is left as in the
    /// sample or in the file of another member, names of machines are known, and the credentials
    /// are there. `path` is for errors. One error has all that is wrong.
    pub fn check_place(&self, path: &Path) -> Result<(), ConfigError> {
        let mut faults = Vec::new();
        if self.cluster_name == SAMPLE_CLUSTER {
            let text = format!(
                "'cluster_name' is \"{SAMPLE_CLUSTER}\", as in the sample: write what the servers \
                 have as wsrep_cluster_name"
            );
            faults.push(text);
        }
        let own = &self.address.host;
        if let Some(fault) = whereabouts::fault_of_own(is_here(own)) {
            faults.push(format!(
                "'address' is {own}, {fault}: write the name or address at which the servers reach \
                 this machine. Only where a router translates addresses, one that is not of this \
                 machine is right"
            ));
        }
        let unknown = self
            .peers
            .iter()
            .filter(|peer| is_here(&peer.host).is_none());
        faults.extend(unknown.map(|peer| {
            let (host, fault) = (&peer.host, whereabouts::UNKNOWN);
            format!("'peers' has {host}, {fault}: write where the other members are reached")
        }));
        if let Some(tls) = self.options.tls()
            && let Err(error) = tls.credentials.load()
        {
            faults.push(error.to_string());
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(ConfigError::NotOfThisMachine {
                path: path.to_owned(),
                faults,
            }),
        }
    }

    pub fn log_dir(&self) -> PathBuf {
        PathBuf::from(self.options.text(key::LOG_DIR))
    }

    pub fn node(&self) -> NodeConfig {
        let (action_bytes, pending_bytes) = match self.in_relay_group {
            true => (RELAYED_PIECE_BYTES, RELAYED_PENDING_BYTES),
            false => (NO_ACTIONS_BYTES, NO_ACTIONS_BYTES),
        };
        let host = HostFacts {
            name: self.name.clone(),
            cluster_name: self.cluster_name.clone(),
            address: self.address.to_string(),
            incoming: self.readers_at.clone(),
            seeds: self.peers.iter().map(ToString::to_string).collect(),
            log_dir: self.log_dir(),
            has_data: false,
            database: DatabasePosition::NONE,
            flush_period: std::time::Duration::ZERO,
        };
        let mut node = self.options.node_config(host);
        node.member.keeps_log_only = self.in_relay_group;
        (node.chunk_bytes, node.pending_bytes) = (action_bytes, pending_bytes);
        node
    }

    /// A logger leads only while no server can.
    pub fn leader_preference(&self) -> LeaderPreference {
        LeaderPreference {
            weight: LeaderWeight::new(0).unwrap_or_default(),
            hands_over: true,
        }
    }
}

pub fn parse_table(path: &Path, text: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        ConfigError::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            message: error.message().replace('\n', ", "),
        }
    })
}

pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

struct Keys<'a> {
    path: &'a Path,
    found: Vec<(String, Value)>,
}

impl Keys<'_> {
    /// Takes `[synod]` and `log_dir` for `synod.log_dir`, as TOML does.
    fn flatten(&mut self, prefix: &str, table: Table) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = match prefix {
                "" => name,
                prefix => format!("{prefix}.{name}"),
            };
            match value {
                Value::Table(table) => self.flatten(&key, table)?,
                value => self.add(key, value)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, key: String, value: Value) -> Result<(), ConfigError> {
        let path = self.path.to_owned();
        if let Some(removed) = synod_options::removed(&key) {
            return Err(ConfigError::Removed { path, removed });
        }
        match keys::kind_of(&key) {
            KeyKind::Own | KeyKind::Shared => {
                self.found.push((key, value));
                Ok(())
            }
            KeyKind::OfServers => Err(ConfigError::OfServers { path, key }),
            KeyKind::Unknown(nearest) => Err(ConfigError::UnknownKey { path, key, nearest }),
        }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        let found = self.found.iter().find(|(found, _)| found == key);
        found.map(|(_, value)| value)
    }

    fn missing(&self, key: &'static str, example: &'static str) -> ConfigError {
        let path = self.path.to_owned();
        ConfigError::Missing { path, key, example }
    }

    fn bad(&self, key: &str, value: &Value, reason: impl Into<String>) -> ConfigError {
        ConfigError::BadValue {
            path: self.path.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            reason: reason.into(),
        }
    }

    fn option_error(&self, source: OptionsError) -> ConfigError {
        let path = self.path.to_owned();
        ConfigError::Option { path, source }
    }

    fn text(&self, key: &'static str, example: &'static str) -> Result<String, ConfigError> {
        match self.get(key) {
            None => Err(self.missing(key, example)),
            Some(Value::String(text)) if text.is_empty() => Err(self.missing(key, example)),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => {
                let reason = format!("write a text in quotes, such as: {example}");
                Err(self.bad(key, other, reason))
            }
        }
    }

    fn address(&self, key: &str, text: &str) -> Result<Address, ConfigError> {
        Address::parse(text).map_err(|reason| {
            let value = Value::String(text.to_owned());
            self.bad(key, &value, reason)
        })
    }

    /// Without a port until the options say which this member listens on.
    fn own_address(&self) -> Result<Address, ConfigError> {
        let text = self.text("address", "address = \"witness.example.com:4567\"")?;
        self.address("address", &text)
    }

    fn peers(&self, may_be_none: bool) -> Result<Vec<Address>, ConfigError> {
        const EXAMPLE: &str = "peers = [\"db1.example.com\", \"db2.example.com\"]";
        let listed = match self.get("peers") {
            None if may_be_none => return Ok(Vec::new()),
            None => return Err(self.missing("peers", EXAMPLE)),
            Some(Value::Array(listed)) if listed.is_empty() && !may_be_none => {
                return Err(self.missing("peers", EXAMPLE));
            }
            Some(Value::Array(listed)) => listed,
            Some(other) => {
                let reason = format!("write a list of addresses, such as: {EXAMPLE}");
                return Err(self.bad("peers", other, reason));
            }
        };
        let peer = |value: &Value| match value.as_str() {
            Some(text) => self.address("peers", text).map(|address| Address {
                port: Some(address.port.unwrap_or(DEFAULT_PORT)),
                ..address
            }),
            None => Err(self.bad("peers", value, "write host or host:port in quotes")),
        };
        listed.iter().map(peer).collect()
    }

    fn with_options(&self, config: LoggerConfig) -> Result<LoggerConfig, ConfigError> {
        const DIR: &str = "synod.log_dir = \"/var/lib/synod-logger\"";
        let mut pairs = vec![("synod.log_cache_size".to_owned(), CACHE_SIZE.to_owned())];
        for (key, value) in &self.found {
            if keys::kind_of(key) == KeyKind::Shared {
                pairs.push((key.clone(), self.option_text(key, value)?));
            }
        }
        let (options, update) = Options::from_pairs(Defaults::default(), &pairs)
            .map_err(|source| self.option_error(source))?;
        if options.text(key::LOG_DIR).is_empty() {
            return Err(self.missing("synod.log_dir", DIR));
        }
        let listen = options.listen_address();
        let exposure = options.exposure().map_err(|_| ConfigError::Exposed {
            path: self.path.to_owned(),
            listen: listen.clone(),
        })?;
        let notices = update.notices.iter().map(ToString::to_string);
        Ok(LoggerConfig {
            address: Address {
                port: config.address.port.or(listen.port),
                ..config.address
            },
            notices: notices.chain(exposure.warning()).collect(),
            options,
            ..config
        })
    }

    /// The value as it would be written in `wsrep_provider_options`.
    fn option_text(&self, key: &str, value: &Value) -> Result<String, ConfigError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Float(number) => Ok(number.to_string()),
            Value::Boolean(yes) => Ok(if *yes { "yes" } else { "no" }.to_owned()),
            other => Err(self.bad(key, other, "write one value, in quotes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        cluster_name = "g"
        name = "w"
        address = "w.example"
        peers = ["a.example", "b.example:5000"]
        synod.log_dir = "/log"
        synod.secret_file = "/secret"
    "#;

    fn parse(text: &str) -> Result<LoggerConfig, ConfigError> {
        LoggerConfig::parse(Path::new("logger.toml"), text)
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        let text = parse(text).unwrap_err().to_string();
        assert!(text.starts_with("logger.toml"), "{text}");
        text
    }

    #[test]
    fn file_of_a_logger_makes_a_member_without_a_database() {
        let config = parse(&format!("{WHOLE}\nsynod.log_retain_size = \"1G\"")).unwrap();
        let node = config.node();
        assert!(!node.has_data && node.wants_vote);
        assert_eq!((&*node.cluster_name, &*node.name), ("g", "w"));
        assert_eq!(node.seeds, ["a.example:4567", "b.example:5000"]);
        assert_eq!(
            (&*node.address, &*node.listen),
            ("w.example:4567", "0.0.0.0:4567")
        );
        assert_eq!(node.log_dir, Path::new("/log"));
        assert_eq!(
            (node.log.retain_bytes, node.log.cache_bytes),
            (1 << 30, 8 << 20)
        );
        assert!(node.tls.is_some());
        assert_eq!(config.leader_preference().weight.get(), 0);
    }

    #[test]
    fn file_in_the_package_is_right() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/logger.toml");
        let node = LoggerConfig::read(&file).unwrap().node();
        assert_eq!(node.address, "witness.example.com:4567");
        assert!(node.tls.is_some());
    }

    #[test]
    fn unedited_sample_is_refused_by_the_names_of_its_keys() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/logger.toml");
        let error = LoggerConfig::read(&file).unwrap().check_place(&file);
        let text = error.unwrap_err().to_string();
        for part in [
            "'cluster_name' is \"name-of-the-group\", as in the sample",
            "'address' is witness.example.com, ",
            "'peers' has db1.example.com, a name that is not known here",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Reserved for documentation: no machine has it.
        let copied = WHOLE.replace("w.example", "198.51.100.1");
        let error = parse(&copied)
            .unwrap()
            .check_place(Path::new("logger.toml"));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("'address' is 198.51.100.1, which is no address of this machine"),
            "{text}"
        );
        assert!(
            text.contains("cannot read the group secret in /secret"),
            "{text}"
        );
    }

    #[test]
    fn file_of_this_machine_is_right() {
        let here = WHOLE.replace("w.example", "localhost");
        let here = here
            .replace("secret_file = \"/secret\"", "insecure = true")
            .replace("a.example", "198.51.100.1")
            .replace("b.example", "198.51.100.2");
        parse(&here)
            .unwrap()
            .check_place(Path::new("logger.toml"))
            .unwrap();
    }

    #[test]
    fn options_may_stand_in_a_table_and_have_numbers_and_booleans() {
        let text = "synod.insecure = true\nsynod.log_cache_size = 1048576\n\
                    gmcast.listen_addr = \"127.0.0.1:4000\"\n[evs]\nsuspect_timeout = \"PT9S\"";
        let config = parse(&WHOLE.replace("synod.secret_file = \"/secret\"", text)).unwrap();
        let node = config.node();
        assert_eq!(node.log.cache_bytes, 1 << 20);
        assert_eq!(node.suspect.as_secs(), 9);
        assert_eq!(
            (&*node.address, &*node.listen),
            ("w.example:4000", "127.0.0.1:4000")
        );
    }

    #[test]
    fn every_key_that_is_missing_is_named_with_an_example() {
        let lines: Vec<&str> = WHOLE.trim().lines().collect();
        for missing in &lines[..5] {
            let key = missing.trim().split(' ').next().unwrap();
            let text = refused(&WHOLE.replace(missing.trim(), ""));
            assert!(
                text.contains(&format!("'{key}' is missing. Add a line")),
                "{text}"
            );
            assert!(text.contains(&format!(": {key} = ")), "{text}");
        }
    }

    #[test]
    fn unknown_keys_and_options_of_servers_are_refused() {
        let with = |line: &str| refused(&format!("{WHOLE}\n{line}"));
        let text = with("peer = []");
        assert!(
            text.contains("no key 'peer'. Did you mean 'peers'?"),
            "{text}"
        );
        let text = with("synod.log_dri = \"/x\"");
        assert!(
            text.contains("'synod.log_dri'. Did you mean 'synod.log_dir'?"),
            "{text}"
        );
        let text = with("synod.leader_weight = 3");
        assert!(
            text.contains("'synod.leader_weight' is an option of servers"),
            "{text}"
        );
    }

    #[test]
    fn values_that_do_not_fit_are_refused_with_what_to_write() {
        let instead = |from: &str, to: &str| refused(&WHOLE.replace(from, to));
        let text = instead("\"w\"", "7");
        assert!(
            text.contains("'name' cannot be 7: write a text in quotes"),
            "{text}"
        );
        let text = instead("[\"a.example\", \"b.example:5000\"]", "\"a.example\"");
        assert!(
            text.contains("'peers' cannot be \"a.example\": write a list"),
            "{text}"
        );
        let text = instead("b.example:5000", "b.example:port");
        assert!(
            text.contains("'peers' cannot be") && text.contains("'port'"),
            "{text}"
        );
        let text = refused(&format!("{WHOLE}\nsynod.log_retain_size = \"much\""));
        assert!(
            text.contains("'synod.log_retain_size' cannot be 'much'"),
            "{text}"
        );
        let text = refused(&format!("{WHOLE}\nsynod.log_full = [1]"));
        assert!(text.contains("write one value"), "{text}");
    }

    #[test]
    fn what_is_not_toml_is_refused_with_its_line() {
        let text = refused(&format!("{WHOLE}\nname: w"));
        assert!(text.contains(", line 9: "), "{text}");
        let text = refused(&format!("{WHOLE}\nname = \"other\""));
        assert!(text.contains("duplicate key"), "{text}");
    }

    #[test]
    fn logger_without_credentials_is_refused_unless_its_operator_says_so() {
        let text = refused(&WHOLE.replace("synod.secret_file = \"/secret\"", ""));
        assert!(
            text.contains("does not start without credentials"),
            "{text}"
        );
        assert!(text.contains("synod.secret_file = "), "{text}");
        let insecure = WHOLE.replace("secret_file = \"/secret\"", "insecure = true");
        assert!(!parse(&insecure).unwrap().notices.is_empty());
    }
}

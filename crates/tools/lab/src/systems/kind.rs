//! The systems that can be measured.

use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemKind {
    /// Synod: durable on a majority.
    Synod,
    Galera {
        /// `innodb_flush_log_at_trx_commit`: 0 and 2 sync nothing at commit, 1 each server by
        /// itself.
        flush: u8,
    },
    /// MySQL by the plugin: one writer, durable on a majority.
    SynodMysql,
    /// MySQL's Group Replication with one primary.
    Mgr(MgrSettings),
    /// MySQL's semi-synchronous replication.
    MysqlSemiSync,
    /// MariaDB's semi-synchronous replication: one replica has stored it.
    SemiSync,
    Async,
    Standalone,
}

/// The settings of Group Replication that its own manual weighs against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MgrSettings {
    /// Acknowledges what a majority has in memory.
    Default,
    /// `consistency=AFTER`: acknowledges what all members have applied.
    After,
    /// `paxos_single_leader=ON`: the primary alone proposes.
    SingleLeader,
}

/// The names that the command line takes; all but `standalone` also with [`ENCRYPTED`], and `synod`
/// with [`LOGGER`].
pub const NAMES: &str = "synod, galera, galera-flush1, galera-flush2, semisync, async, synod-mysql, \
    mgr, mgr-after, mgr-single-leader, mysql-semisync, standalone";
/// Ends the name of a system whose servers encrypt what they send each other.
pub const ENCRYPTED: &str = "-tls";
/// Ends the name of a system that has a logger in the place of its last server.
pub const LOGGER: &str = "-logger";

impl SystemKind {
    /// Whether its servers are members of a group: any of them can be written to.
    pub fn is_group(self) -> bool {
        match self {
            SystemKind::Synod | SystemKind::Galera { .. } => true,
            SystemKind::Standalone => false,
            SystemKind::SemiSync | SystemKind::Async => false,
            SystemKind::SynodMysql | SystemKind::Mgr(_) | SystemKind::MysqlSemiSync => false,
        }
    }

    pub fn has_replicas(self) -> bool {
        match self {
            SystemKind::SemiSync | SystemKind::Async => true,
            SystemKind::SynodMysql | SystemKind::Mgr(_) | SystemKind::MysqlSemiSync => true,
            SystemKind::Synod | SystemKind::Galera { .. } | SystemKind::Standalone => false,
        }
    }

    pub fn is_mysql(self) -> bool {
        matches!(
            self,
            SystemKind::SynodMysql | SystemKind::Mgr(_) | SystemKind::MysqlSemiSync
        )
    }

    pub fn replicates(self) -> bool {
        self.is_group() || self.has_replicas()
    }
}

impl fmt::Display for SystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SystemKind::Synod => f.write_str("synod"),
            SystemKind::Galera { flush: 0 } => f.write_str("galera"),
            SystemKind::Galera { flush } => write!(f, "galera-flush{flush}"),
            SystemKind::SynodMysql => f.write_str("synod-mysql"),
            SystemKind::Mgr(MgrSettings::Default) => f.write_str("mgr"),
            SystemKind::Mgr(MgrSettings::After) => f.write_str("mgr-after"),
            SystemKind::Mgr(MgrSettings::SingleLeader) => f.write_str("mgr-single-leader"),
            SystemKind::MysqlSemiSync => f.write_str("mysql-semisync"),
            SystemKind::SemiSync => f.write_str("semisync"),
            SystemKind::Async => f.write_str("async"),
            SystemKind::Standalone => f.write_str("standalone"),
        }
    }
}

impl FromStr for SystemKind {
    type Err = String;

    fn from_str(text: &str) -> Result<SystemKind, String> {
        Ok(match text {
            "synod" => SystemKind::Synod,
            "galera" | "galera-flush0" => SystemKind::Galera { flush: 0 },
            "galera-flush1" => SystemKind::Galera { flush: 1 },
            "galera-flush2" => SystemKind::Galera { flush: 2 },
            "synod-mysql" => SystemKind::SynodMysql,
            "mgr" => SystemKind::Mgr(MgrSettings::Default),
            "mgr-after" => SystemKind::Mgr(MgrSettings::After),
            "mgr-single-leader" => SystemKind::Mgr(MgrSettings::SingleLeader),
            "mysql-semisync" => SystemKind::MysqlSemiSync,
            "semisync" => SystemKind::SemiSync,
            "async" => SystemKind::Async,
            "standalone" => SystemKind::Standalone,
            _ => return Err(format!("'{text}' is none of {NAMES}")),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredSystem {
    pub kind: SystemKind,
    pub has_logger: bool,
    pub encrypted: bool,
}

impl fmt::Display for MeasuredSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = |is_so: bool, name| if is_so { name } else { "" };
        let logger = suffix(self.has_logger, LOGGER);
        write!(
            f,
            "{}{logger}{}",
            self.kind,
            suffix(self.encrypted, ENCRYPTED)
        )
    }
}

impl FromStr for MeasuredSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<MeasuredSystem, String> {
        let without = |text: &'_ str, suffix| match text.strip_suffix(suffix) {
            Some(name) => (name.to_owned(), true),
            None => (text.to_owned(), false),
        };
        let (name, encrypted) = without(text, ENCRYPTED);
        let (name, has_logger) = without(&name, LOGGER);
        let kind: SystemKind = name.parse()?;
        if has_logger && kind != SystemKind::Synod {
            return Err(format!("{kind} has no loggers here"));
        }
        if encrypted && !kind.replicates() {
            return Err(format!("{kind} sends nothing that could be encrypted"));
        }
        Ok(MeasuredSystem {
            kind,
            has_logger,
            encrypted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_the_system_that_is_shown_by_it() {
        for name in NAMES.split(", ") {
            assert_eq!(name.parse::<SystemKind>().unwrap().to_string(), name);
        }
        assert!("mysql".parse::<SystemKind>().is_err());
    }

    #[test]
    fn every_system_that_replicates_has_an_encrypted_form() {
        for name in NAMES.split(", ") {
            let encrypted = format!("{name}{ENCRYPTED}");
            match encrypted.parse::<MeasuredSystem>() {
                Ok(system) => assert_eq!(system.to_string(), encrypted),
                Err(error) => assert_eq!((name, error.is_empty()), ("standalone", false)),
            }
        }
        assert!("-tls".parse::<MeasuredSystem>().is_err());
    }

    #[test]
    fn logger_is_part_of_the_name_of_the_only_system_that_has_any() {
        for name in ["synod-logger", "synod-logger-tls"] {
            let system: MeasuredSystem = name.parse().unwrap();
            assert!(system.has_logger && system.to_string() == name);
        }
        for name in ["galera-logger", "synod-tls-logger", "-logger"] {
            assert!(name.parse::<MeasuredSystem>().is_err(), "{name}");
        }
    }
}

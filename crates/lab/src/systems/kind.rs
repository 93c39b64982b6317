//! Which systems can be measured.

use std::fmt;
use std::str::FromStr;

/// A system to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemKind {
    /// Synod: durable on a majority.
    Synod,
    /// Galera's library.
    Galera {
        /// `innodb_flush_log_at_trx_commit`: 0 and 2 sync nothing at commit, 1 each server by
        /// itself.
        flush: u8,
    },
    /// MariaDB's semi-synchronous replication: one replica has stored it.
    SemiSync,
    /// MariaDB's asynchronous replication.
    Async,
    /// One server without replication.
    Standalone,
}

/// The names that the command line takes.
pub const NAMES: &str = "synod, galera, galera-flush1, galera-flush2, semisync, async, standalone";

impl SystemKind {
    /// Whether its servers are members of a group: any of them can be written to.
    pub fn is_group(self) -> bool {
        match self {
            SystemKind::Synod | SystemKind::Galera { .. } => true,
            SystemKind::SemiSync | SystemKind::Async | SystemKind::Standalone => false,
        }
    }

    /// Whether one server is the primary of the others.
    pub fn has_replicas(self) -> bool {
        match self {
            SystemKind::SemiSync | SystemKind::Async => true,
            SystemKind::Synod | SystemKind::Galera { .. } | SystemKind::Standalone => false,
        }
    }

    /// Whether it has more than one server.
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
            "semisync" => SystemKind::SemiSync,
            "async" => SystemKind::Async,
            "standalone" => SystemKind::Standalone,
            _ => return Err(format!("'{text}' is none of {NAMES}")),
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
}

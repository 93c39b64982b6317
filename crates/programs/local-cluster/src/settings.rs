//! The settings of a cluster, and the file that keeps them (`cluster.json`).
//!
//! Every later command needs only the directory. What is not stored concerns the process that runs
//! the cluster, not the cluster.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, IoContext, Result};
use crate::ownership;

const SETTINGS_FILE: &str = "cluster.json";

/// The most nodes one cluster may have; the port ranges leave room for this many and more.
pub const NODES_MAX: u8 = 9;

/// Method of a joiner's first full copy (SST).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SstMethod {
    /// The donor's files by `rsync`; the donor's tables are flushed and locked meanwhile.
    Rsync,
    /// `mariadb-backup` streamed by `socat`; the donor keeps serving.
    Mariabackup,
}

impl SstMethod {
    pub fn name(self) -> &'static str {
        match self {
            SstMethod::Rsync => "rsync",
            SstMethod::Mariabackup => "mariabackup",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replication {
    /// A group, replicated by the wsrep provider.
    #[default]
    Group,
    /// Each server has a database of its own and no provider. The maker of the cluster connects
    /// them, or not.
    Own,
}

/// Host of a node outside of this machine's loopback address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHost {
    pub address: IpAddr,
    /// The command that enters the host and then runs what is appended, as root.
    pub enter: Vec<String>,
}

/// Deviations of one node from what is generated for all; tests of bad input use them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOverrides {
    /// Absolute path of this node's provider library, in place of the cluster's.
    #[serde(default)]
    pub provider: Option<PathBuf>,
    /// Appended to `wsrep_provider_options`, after a semicolon.
    pub provider_options: Option<String>,
    pub cluster_address: Option<String>,
    /// Lines added at the end of the `[mariadbd]` group.
    pub extra_lines: Vec<String>,
    /// Variables of the server's environment, beside those that it inherits.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Absolute path of the cluster's directory. Not stored: the file lies in it.
    #[serde(skip)]
    pub dir: PathBuf,
    pub cluster_name: String,
    /// SQL port of node 1; see [`crate::ports`] for the others.
    pub base_port: u16,
    /// Number of nodes, 1 to [`NODES_MAX`].
    pub nodes: u8,
    pub provider: PathBuf,
    pub sst_method: SstMethod,
    /// Password of the user that copies with `mariabackup`; generated.
    pub sst_password: String,
    /// The line of the group secret that connections between members are encrypted by; `None`:
    /// they are in clear, on loopback addresses, or the options name other credentials.
    #[serde(default)]
    pub group_secret: Option<String>,
    /// Whether full copies by `mariabackup` are encrypted, with the files of
    /// [`crate::SstFiles`], which the maker of the cluster writes.
    #[serde(default)]
    pub encrypts_copies: bool,
    /// Appended to `wsrep_provider_options` of every node.
    #[serde(default)]
    pub provider_options: String,
    /// Longest wait for a node to become synced, full copy included. Not stored.
    #[serde(skip, default = "default_start_timeout")]
    pub start_timeout: Duration,
    /// Kill the servers when this process dies. For tests, never for the demo. Not stored.
    #[serde(skip)]
    pub die_with_parent: bool,
    /// Ask a database for its position before its server starts, as Debian's service unit does.
    /// Otherwise the server is started as in a container. Not stored.
    #[serde(skip, default = "default_recovers")]
    pub recovers: bool,
    #[serde(default)]
    pub replication: Replication,
    /// Hosts by node number; the others run here, on the loopback address.
    #[serde(default)]
    pub hosts: BTreeMap<u8, NodeHost>,
    #[serde(default)]
    pub overrides: BTreeMap<u8, NodeOverrides>,
}

/// A full copy of a small database takes seconds; a busy machine with two cores needs patience.
fn default_start_timeout() -> Duration {
    Duration::from_secs(240)
}

fn default_recovers() -> bool {
    true
}

impl Settings {
    /// Settings with the demo's defaults. `dir` must be absolute.
    pub fn new(dir: PathBuf, provider: PathBuf) -> Result<Settings> {
        Ok(Settings {
            dir,
            cluster_name: "synod-demo".into(),
            base_port: 13306,
            nodes: 3,
            provider,
            sst_method: SstMethod::Rsync,
            sst_password: random_hex(12)?,
            group_secret: None,
            encrypts_copies: false,
            provider_options: String::new(),
            start_timeout: default_start_timeout(),
            die_with_parent: false,
            recovers: default_recovers(),
            replication: Replication::Group,
            hosts: BTreeMap::new(),
            overrides: BTreeMap::new(),
        })
    }

    pub fn load(dir: &Path) -> Result<Settings> {
        let path = dir.join(SETTINGS_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(ClusterError::NoCluster {
                    dir: dir.to_owned(),
                });
            }
            Err(e) => return Err(e).context("read", path),
        };
        let dir = fs::canonicalize(dir).context("find", dir)?;
        ownership::check(&dir)?;
        ownership::check(&dir.join(SETTINGS_FILE))?;
        let mut settings: Settings =
            serde_json::from_str(&text).map_err(|e| ClusterError::BadSettings {
                path,
                reason: e.to_string(),
            })?;
        settings.dir = dir;
        settings.check()?;
        Ok(settings)
    }

    pub fn save(&self) -> Result<()> {
        let path = self.dir.join(SETTINGS_FILE);
        let new = self.dir.join("cluster.json.new");
        let text = serde_json::to_string_pretty(self).map_err(|e| ClusterError::BadSettings {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        crate::files::write_private(&new, text + "\n", None)?;
        fs::rename(&new, &path).context("replace", path)
    }

    pub fn check(&self) -> Result<()> {
        if self.nodes == 0 || self.nodes > NODES_MAX {
            return Err(ClusterError::SettingOutOfRange {
                name: "--nodes",
                value: self.nodes.to_string(),
                reason: "a cluster on one machine has 1 to 9 nodes",
            });
        }
        if self.base_port < 1024 || self.base_port > u16::MAX - crate::ports::RANGE {
            return Err(ClusterError::SettingOutOfRange {
                name: "--base-port",
                value: self.base_port.to_string(),
                reason: "it must be 1024 or more, and at most 65135, because 400 ports are used \
                from \
                         it on",
            });
        }
        Ok(())
    }

    pub fn address(&self, node: u8) -> IpAddr {
        let host = self.hosts.get(&node);
        host.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |host| host.address)
    }

    pub fn is_group(&self) -> bool {
        self.replication == Replication::Group
    }

    /// Whether the provider is Galera's library: other address scheme, and a bootstrap after
    /// every full stop.
    pub fn is_galera(&self) -> bool {
        self.is_group()
            && self
                .provider
                .file_name()
                .is_some_and(|name| name.to_string_lossy().contains("galera"))
    }
}

/// `bytes` random bytes as lower-case hexadecimal digits.
pub fn random_hex(bytes: usize) -> Result<String> {
    use std::io::Read;
    let source = Path::new("/dev/urandom");
    let mut buffer = vec![0u8; bytes];
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut buffer))
        .context("read", source)?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("/nowhere".into(), "/lib/libsynod.so".into()).unwrap()
    }

    #[test]
    fn node_count_and_ports_are_bounded() {
        assert!(settings().check().is_ok());
        for nodes in [0, NODES_MAX + 1] {
            assert!(
                Settings {
                    nodes,
                    ..settings()
                }
                .check()
                .is_err()
            );
        }
        for base_port in [1023, 65136] {
            assert!(
                Settings {
                    base_port,
                    ..settings()
                }
                .check()
                .is_err()
            );
        }
        assert!(
            Settings {
                base_port: 65135,
                ..settings()
            }
            .check()
            .is_ok()
        );
    }

    #[test]
    fn galera_is_recognised_by_file_name_only() {
        let galera = Settings {
            provider: "/usr/lib/galera/libgalera_smm.so".into(),
            ..settings()
        };
        let synod = Settings {
            provider: "/src/galera/libsynod.so".into(),
            ..settings()
        };
        assert!(galera.is_galera());
        assert!(!synod.is_galera());
    }
}

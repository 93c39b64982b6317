//! Facts about the server and its machine.

mod client;
mod clock;
mod disk;
mod machine;
mod peers;
mod ports;
mod programs;
mod server;
mod tables;

use std::path::{Path, PathBuf};

use synod_options::{ClusterUrl, DEFAULT_PORT, Defaults, Options, Peer, Update, key};

pub use client::{ClientError, SqlClient};
pub use disk::{DiskError, DiskFacts};
pub use machine::MachineFacts;
pub use peers::{PeerFacts, Reached};
pub use programs::Programs;
pub use server::{ServerFacts, SourceFacts};
pub(crate) use tables::quoted;
pub use tables::{SequenceFacts, TableFacts, UniqueKey};

/// The server to examine, and how to connect.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Arguments of the program `mariadb`, by which it reaches the server.
    pub client: Vec<String>,
}

/// The server cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Everything that the checks judge.
#[derive(Debug)]
pub struct Facts {
    /// Facts that the server reports.
    pub server: ServerFacts,
    /// The provider options that its configuration files set.
    pub options: ConfiguredOptions,
    /// Facts seen on its machine only; none: the server runs on another one.
    pub local: Option<LocalFacts>,
    /// The other servers that the configuration names.
    pub peers: Vec<PeerFacts>,
}

/// Facts seen on the server's machine only.
#[derive(Debug)]
pub struct LocalFacts {
    /// The server's data directory.
    pub data_dir: PathBuf,
    /// The disk of the log.
    pub disk: Result<DiskFacts, DiskError>,
    pub machine: MachineFacts,
    /// Whether the clock is set by others; none: it cannot be told.
    pub is_clock_synchronised: Option<bool>,
    /// Programs that full copies need.
    pub programs: Programs,
    /// Ports that a group needs, and at which a program listens.
    pub busy_ports: Vec<u16>,
    /// Files of Galera's in the data directory, with their sizes in bytes.
    pub leftovers: Vec<(&'static str, u64)>,
}

/// Provider options as a configuration file has them.
#[derive(Debug)]
pub struct ConfiguredOptions {
    /// The text; empty: there is none.
    pub text: String,
    /// Options as this library reads them, or why it refuses them.
    pub read: Result<(Options, Update), String>,
}

/// Files that Galera's library keeps in the data directory.
const GALERAS_FILES: [&str; 2] = ["galera.cache", "gvwstate.dat"];

impl Facts {
    /// Asks the server, and looks at its machine if it is this one.
    pub fn gather(place: &Place) -> Result<Facts, GatherError> {
        let client = SqlClient::new(place.client.clone());
        let mut server = ServerFacts::gather(&client)?;
        let configured = programs::configured();
        let of_options = configured
            .as_ref()
            .and_then(|all| all.get("wsrep_provider_options"));
        let options = configured_options(&server, of_options.cloned());
        let data_dir = Path::new(server.variable("datadir")).to_owned();
        let is_here = machine::is_this(server.variable("hostname")) && data_dir.is_dir();
        if is_here {
            server.take_files(configured.unwrap_or_default());
        }
        let local = is_here.then(|| LocalFacts::gather(&server, &options, data_dir));
        let peers = peers::look(
            peers_of(&server, &options),
            copy_port(&server),
            server.is_in_group(),
        );
        Ok(Facts {
            server,
            options,
            local,
            peers,
        })
    }
}

/// A server that uses Synod shows its options; of another one only the configuration files tell.
fn configured_options(server: &ServerFacts, in_files: Option<String>) -> ConfiguredOptions {
    let text = in_files.unwrap_or_else(|| {
        if server.variable("wsrep_provider").contains("libsynod") {
            server.variable("wsrep_provider_options").to_owned()
        } else {
            String::new()
        }
    });
    let defaults = Defaults {
        data_dir: server.variable("datadir").to_owned(),
        node_address: server.variable("wsrep_node_address").to_owned(),
    };
    let read = Options::new(defaults, &text).map_err(|error| error.to_string());
    ConfiguredOptions { text, read }
}

fn peers_of(server: &ServerFacts, options: &ConfiguredOptions) -> Vec<Peer> {
    let url = server.variable("wsrep_cluster_address");
    let parsed = ClusterUrl::parse(url, group_port(options));
    parsed.map(|url| url.peers).unwrap_or_default()
}

/// Port of members with this configuration.
fn group_port(options: &ConfiguredOptions) -> u16 {
    let read = options.read.as_ref().ok();
    let listen = read.and_then(|(options, _)| options.listen_address().port);
    listen.unwrap_or(DEFAULT_PORT)
}

/// Port for full copies: the same on all servers, if they are configured alike.
fn copy_port(server: &ServerFacts) -> u16 {
    ports::of_copies(server.variable("wsrep_sst_receive_address"))
}

impl LocalFacts {
    fn gather(server: &ServerFacts, options: &ConfiguredOptions, data_dir: PathBuf) -> LocalFacts {
        let log_dir = match &options.read {
            Ok((options, _)) => PathBuf::from(options.text(key::LOG_DIR)),
            Err(_) => data_dir.clone(),
        };
        // The log's directory is made at the first start.
        let log_dir = if log_dir.is_dir() {
            log_dir
        } else {
            data_dir.clone()
        };
        let leftovers = GALERAS_FILES.iter().filter_map(|name| {
            let metadata = std::fs::metadata(data_dir.join(name)).ok()?;
            Some((*name, metadata.len()))
        });
        LocalFacts {
            disk: disk::measure(&log_dir),
            machine: MachineFacts::gather(server.variable("pid_file")),
            is_clock_synchronised: clock::is_synchronised(),
            programs: Programs::look(),
            busy_ports: ports::busy(&[group_port(options), copy_port(server)]),
            leftovers: leftovers.collect(),
            data_dir,
        }
    }
}

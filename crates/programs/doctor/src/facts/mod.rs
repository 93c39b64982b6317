//! Facts about the server and its machine.

mod client;
mod clock;
mod disk;
mod machine;
mod option_files;
mod peers;
mod ports;
mod programs;
mod server;
mod tables;
mod without_database;

use std::path::{Path, PathBuf};

use synod_admin::Client;
use synod_admin::status::Status;
use synod_node::Credentials;
use synod_options::{
    Address, ClusterUrl, DEFAULT_PORT, Defaults, Options, Peer, Update, key, whereabouts,
};

pub use client::{ClientError, SqlClient};
pub use disk::{DiskError, DiskFacts};
pub use machine::MachineFacts;
pub use option_files::ChangedFile;
use peers::Asker;
pub use peers::{PeerFacts, Reached};
pub use programs::Programs;
pub use programs::has_server;
pub(crate) use server::is_on;
pub use server::{ServerFacts, SourceFacts};
pub(crate) use tables::quoted;
pub use tables::{SequenceFacts, TableFacts, UniqueKey};
pub use without_database::{MemberFacts, WithoutDatabase};

#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Arguments of the program `mariadb`, by which it reaches the server.
    pub client: Vec<String>,
    /// Whether the arguments name a server: its files are not looked at in its place.
    pub is_named: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error(transparent)]
    Client(#[from] ClientError),
}

#[derive(Debug)]
pub struct Facts {
    pub server: ServerFacts,
    pub options: ConfiguredOptions,
    /// Facts seen on its machine only; none: the server runs on another one.
    pub local: Option<LocalFacts>,
    pub peers: Vec<PeerFacts>,
    /// The group as the server's library knows it; none: it does not run, or does not tell the
    /// doctor's user.
    pub own: Option<Box<Status>>,
}

/// Facts seen on the server's machine only.
#[derive(Debug)]
pub struct LocalFacts {
    pub data_dir: PathBuf,
    pub disk: Result<DiskFacts, DiskError>,
    pub machine: MachineFacts,
    pub is_clock_synchronised: Option<bool>,
    pub programs: Programs,
    /// The library that the server's files name, if there is no such file.
    pub missing_library: Option<String>,
    /// Ports that a group needs, and at which a program listens.
    pub busy_ports: Vec<u16>,
    /// Files of Galera's in the data directory, with their sizes in bytes.
    pub leftovers: Vec<(&'static str, u64)>,
    /// Whether the address at which others are to reach the server is one of this machine; none:
    /// its name is not known.
    pub has_own_address: Option<bool>,
    pub changed_file: Option<ChangedFile>,
}

#[derive(Debug)]
pub struct ConfiguredOptions {
    pub text: String,
    /// Options as this library reads them, or why it refuses them.
    pub read: Result<(Options, Update), String>,
}

/// Files that Galera's library keeps in the data directory.
const GALERAS_FILES: [&str; 2] = ["galera.cache", "gvwstate.dat"];

impl Facts {
    /// Asks the server, and looks at its machine if it is this one. Of a server that does not
    /// answer, its files tell.
    pub fn gather(place: &Place) -> Result<Facts, GatherError> {
        let client = SqlClient::new(place.client.clone());
        let configured = programs::configured();
        let asked = ServerFacts::gather(&client);
        let mut server = match (asked, &configured) {
            (Err(error), Some(_)) if error.is_without_server() && !place.is_named => {
                ServerFacts::silent(error.to_string())
            }
            (asked, _) => asked?,
        };
        let of_options = configured
            .as_ref()
            .and_then(|all| all.get("wsrep_provider_options"))
            .cloned();
        let is_here = server.is_silent() || machine::is_this(server.variable("hostname"));
        if is_here {
            server.take_files(configured.unwrap_or_default());
        }
        let options = configured_options(&server, of_options);
        let data_dir = Path::new(server.data_dir()).to_owned();
        let is_here = is_here && data_dir.is_dir();
        let local = is_here.then(|| LocalFacts::gather(&server, &options, data_dir));
        let own = local.as_ref().and_then(|local| own_status(&options, local));
        let asker = asker(&server, &options, is_here);
        let peers = peers::look(
            &asker,
            &peers_of(&server, &options),
            Some(copy_port(&server)),
        );
        Ok(Facts {
            server,
            options,
            local,
            peers,
            own,
        })
    }
}

/// By the socket in the log's directory: a server that waits for its group listens there, too.
fn own_status(options: &ConfiguredOptions, local: &LocalFacts) -> Option<Box<Status>> {
    let log_dir = log_dir(options, &local.data_dir);
    peers::status_of(Client::connect(&log_dir)).ok()
}

fn asker(server: &ServerFacts, options: &ConfiguredOptions, is_here: bool) -> Asker {
    let read = options.read.as_ref().ok().filter(|_| is_here);
    let tls = read.and_then(|(options, _)| options.tls());
    let usable = |credentials: &Credentials| credentials.load().is_ok();
    Asker {
        address: own_address(server, options),
        cluster_name: server.planned("wsrep_cluster_name").to_owned(),
        credentials: tls.map(|tls| tls.credentials).filter(usable),
        is_in_group: server.is_in_group(),
    }
}

fn own_address(server: &ServerFacts, options: &ConfiguredOptions) -> Address {
    let configured = server.planned("wsrep_node_address");
    match &options.read {
        Ok((options, _)) => options.own_address(configured),
        Err(_) => Address::parse(configured).unwrap_or_else(|_| Address::any(DEFAULT_PORT)),
    }
}

/// A server that uses Synod shows its options; of another one only the configuration files tell.
fn configured_options(server: &ServerFacts, in_files: Option<String>) -> ConfiguredOptions {
    let text = in_files.unwrap_or_else(|| {
        if server.is_mysql() {
            server.variable("synod_options").to_owned()
        } else if server.variable("wsrep_provider").contains("libsynod") {
            server.variable("wsrep_provider_options").to_owned()
        } else {
            String::new()
        }
    });
    let defaults = Defaults {
        data_dir: server.data_dir().to_owned(),
        node_address: server.planned("wsrep_node_address").to_owned(),
    };
    let read = Options::new(defaults, &text).map_err(|error| error.to_string());
    ConfiguredOptions { text, read }
}

fn peers_of(server: &ServerFacts, options: &ConfiguredOptions) -> Vec<Peer> {
    let url = server.planned("wsrep_cluster_address");
    let parsed = ClusterUrl::parse(url, group_port(options));
    parsed.map(|url| url.peers).unwrap_or_default()
}

fn group_port(options: &ConfiguredOptions) -> u16 {
    let read = options.read.as_ref().ok();
    let listen = read.and_then(|(options, _)| options.listen_address().port);
    listen.unwrap_or(DEFAULT_PORT)
}

/// Port for full copies: the same on all servers, if they are configured alike.
fn copy_port(server: &ServerFacts) -> u16 {
    ports::of_copies(server.planned("wsrep_sst_receive_address"))
}

impl LocalFacts {
    fn gather(server: &ServerFacts, options: &ConfiguredOptions, data_dir: PathBuf) -> LocalFacts {
        let log_dir = log_dir(options, &data_dir);
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
            missing_library: missing_library(server),
            busy_ports: ports::busy(&[group_port(options), copy_port(server)]),
            leftovers: leftovers.collect(),
            has_own_address: whereabouts::is_here(&own_address(server, options).host),
            changed_file: option_files::changed_last(),
            data_dir,
        }
    }
}

/// A path that is not absolute is the linker's to search.
fn missing_library(server: &ServerFacts) -> Option<String> {
    let named = server.in_files.get("wsrep_provider")?;
    let path = Path::new(named);
    (path.is_absolute() && !path.exists()).then(|| named.clone())
}

/// The data directory, unless an option names another.
fn log_dir(options: &ConfiguredOptions, data_dir: &Path) -> PathBuf {
    let read = options.read.as_ref().ok();
    match read.map_or("", |(options, _)| options.text(key::LOG_DIR)) {
        "" => data_dir.to_owned(),
        named => PathBuf::from(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library's socket is in it.
    #[test]
    fn log_is_in_the_data_directory_unless_an_option_says_otherwise() {
        let dir_of = |text: &str| {
            let options = configured_options(&ServerFacts::default(), Some(text.to_owned()));
            log_dir(&options, Path::new("/data"))
        };
        assert_eq!(dir_of(""), Path::new("/data"));
        assert_eq!(dir_of("synod.log_dir=/log"), Path::new("/log"));
        assert_eq!(dir_of("no option"), Path::new("/data"), "refused");
    }

    #[test]
    fn library_in_the_files_is_looked_for() {
        let missing = |value: &str| {
            let in_files = [("wsrep_provider".to_owned(), value.to_owned())].into();
            missing_library(&ServerFacts {
                in_files,
                ..ServerFacts::default()
            })
        };
        assert_eq!(
            missing("/nowhere/synod.so").as_deref(),
            Some("/nowhere/synod.so")
        );
        assert_eq!(missing(env!("CARGO_MANIFEST_DIR")), None, "it is there");
        assert_eq!(missing("none"), None);
        assert_eq!(missing_library(&ServerFacts::default()), None);
    }
}

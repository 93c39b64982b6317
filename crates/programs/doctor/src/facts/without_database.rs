//! Facts about a logger or a relay: there is no server to ask, so its file and its machine tell.

use std::path::{Path, PathBuf};

use synod_admin::Client;
use synod_admin::status::Status;
use synod_options::{Address, DEFAULT_PORT, Options, Peer, Update, key, whereabouts};

use super::disk::{self, DiskError, DiskFacts};
use super::peers::{self, Asker, PeerFacts};
use super::{ConfiguredOptions, clock};

#[derive(Clone, Debug)]
pub struct WithoutDatabase {
    /// `logger` or `relay`: the command that runs it.
    pub kind: &'static str,
    pub file: PathBuf,
    pub name: String,
    pub cluster_name: String,
    pub address: Address,
    pub peers: Vec<Address>,
    pub options: Options,
}

/// Everything that the checks of a logger or relay judge.
#[derive(Debug)]
pub struct MemberFacts {
    pub(crate) member: WithoutDatabase,
    pub(crate) options: ConfiguredOptions,
    pub(crate) log_dir: PathBuf,
    pub(crate) disk: Result<DiskFacts, DiskError>,
    /// Whether the clock is set by others; none: it cannot be told.
    pub(crate) is_clock_synchronised: Option<bool>,
    /// Whether its address is one of this machine; none: the name is not known.
    pub(crate) has_own_address: Option<bool>,
    pub(crate) peers: Vec<PeerFacts>,
    /// The group as the member knows it, or why it cannot be asked.
    pub(crate) own: Result<Box<Status>, String>,
}

impl MemberFacts {
    pub fn gather(member: WithoutDatabase) -> MemberFacts {
        let log_dir = PathBuf::from(member.options.text(key::LOG_DIR));
        let own = peers::status_of(Client::connect(&log_dir));
        let tls = member.options.tls();
        let asker = Asker {
            address: member.address.clone(),
            cluster_name: member.cluster_name.clone(),
            credentials: tls
                .map(|tls| tls.credentials)
                .filter(|credentials| credentials.load().is_ok()),
            is_in_group: true,
        };
        let peers: Vec<Peer> = member.peers.iter().map(peer).collect();
        MemberFacts {
            options: ConfiguredOptions {
                text: String::new(),
                read: Ok((member.options.clone(), Update::default())),
            },
            disk: disk::measure(made_or_above(&log_dir)),
            is_clock_synchronised: clock::is_synchronised(),
            has_own_address: whereabouts::is_here(&member.address.host),
            peers: peers::look(&asker, &peers, None),
            own: own.map_err(|error| error.to_string()),
            log_dir,
            member,
        }
    }
}

/// The directory, or the one in which the unit makes it at the first start.
fn made_or_above(log_dir: &Path) -> &Path {
    let mut directories = log_dir.ancestors();
    directories.find(|dir| dir.is_dir()).unwrap_or(log_dir)
}

fn peer(address: &Address) -> Peer {
    Peer {
        host: address.host.clone(),
        port: address.port.unwrap_or(DEFAULT_PORT),
    }
}

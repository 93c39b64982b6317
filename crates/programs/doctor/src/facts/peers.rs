//! The servers that the configuration names: whether they are reached, how long that takes, and to
//! which group each belongs by its own answer.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Request};
use synod_admin::status::Status;
use synod_admin::{Client, ClientError, RemoteMember};
use synod_node::{Credentials, galera};
use synod_options::whereabouts::is_here;
use synod_options::{Address, Peer};

const CONNECT_LIMIT: Duration = Duration::from_secs(2);

const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Connections that are timed; the fastest counts.
const TRIES: usize = 3;

#[derive(Clone, Debug)]
pub struct PeerFacts {
    pub address: String,
    pub host: String,
    /// Whether an address of that name is one of the doctor's machine; none: the name is not known.
    pub is_here: Option<bool>,
    /// The member whose configuration this is.
    pub is_own: bool,
    pub seen: Result<Reached, String>,
    /// The port there at which full copies arrive, and why it is not reached; none: it is let
    /// through, or was not tried. Only that of a server which says that it is synced is.
    pub blocked_copies: Option<(u16, String)>,
    /// A node of Galera answers there. Asked only for a server that runs Synod; one that encrypts
    /// its connections is not recognised.
    pub is_galera: bool,
    /// Its status as a member, or why it does not give it; none: it was not asked.
    pub answer: Option<Result<Box<Status>, String>>,
}

#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) address: Address,
    pub(super) cluster_name: String,
    /// Usable credentials; none: no member would answer.
    pub(super) credentials: Option<Credentials>,
    pub(super) is_in_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// From the connection's request to its acceptance: a round trip.
    pub round_trip: Duration,
    /// Bytes that fit a packet on the way there; none: the kernel does not say.
    pub path_mtu: Option<u32>,
}

/// Reaches each peer, and asks it for its status. `copy_port`: none for a member that gives and
/// takes no full copies.
pub(super) fn look(asker: &Asker, peers: &[Peer], copy_port: Option<u16>) -> Vec<PeerFacts> {
    peers
        .iter()
        .map(|peer| asker.look(peer, copy_port))
        .collect()
}

impl Asker {
    fn look(&self, peer: &Peer, copy_port: Option<u16>) -> PeerFacts {
        let is_here = is_here(&peer.host);
        let is_own = is_here == Some(true) && self.is_at(peer);
        let seen = reach(peer);
        let is_reached = seen.is_ok();
        let answer = is_reached.then(|| self.ask(peer)).flatten();
        let copy_port = copy_port.filter(|_| !is_own && awaits_no_copy(answer.as_ref()));
        let blocked_copies = copy_port.and_then(|port| Some((port, blocked(peer, port)?)));
        // Costs a second for each that is none.
        let may_be_galera = self.is_in_group && is_reached && !matches!(answer, Some(Ok(_)));
        PeerFacts {
            address: peer.to_string(),
            host: peer.host.clone(),
            is_here,
            is_own,
            blocked_copies,
            is_galera: may_be_galera && is_galera(peer),
            seen,
            answer,
        }
    }

    /// A server whose own address is wrong is the one on its machine, at its port.
    fn is_at(&self, peer: &Peer) -> bool {
        let own = Peer {
            host: self.address.host.clone(),
            port: self.address.port.unwrap_or(peer.port),
        };
        let is_same = own == *peer || address_of(&own).is_ok_and(|own| address_of(peer) == Ok(own));
        is_same || is_here(&own.host) != Some(true) && own.port == peer.port
    }

    fn ask(&self, peer: &Peer) -> Option<Result<Box<Status>, String>> {
        let member = RemoteMember {
            address: peer.to_string(),
            cluster_name: self.cluster_name.clone(),
            credentials: self.credentials.clone()?,
        };
        Some(status_of(Client::connect_to(&member)).map_err(|error| error.to_string()))
    }
}

pub(super) fn status_of(client: Result<Client, ClientError>) -> Result<Box<Status>, ClientError> {
    let mut client = client?;
    match client.ask(Request::Status, ANSWER_LIMIT)? {
        Answer::Status(status) => Ok(status),
        _ => Err(client.unexpected()),
    }
}

fn address_of(peer: &Peer) -> Result<SocketAddr, String> {
    let addresses = (peer.host.as_str(), peer.port).to_socket_addrs();
    let mut addresses = addresses.map_err(|error| format!("its name is not known: {error}"))?;
    let address = addresses.next();
    address.ok_or_else(|| "its name has no address".to_owned())
}

/// Whether its port for full copies may be tried: the script of a server that waits for a copy
/// takes the first connection for its donor's.
fn awaits_no_copy(answer: Option<&Result<Box<Status>, String>>) -> bool {
    let status = answer.and_then(|answer| answer.as_ref().ok());
    status.is_some_and(|status| status.server.state == "Synced")
}

/// Why the port is not reached. Nothing listens there until a copy arrives: a machine that refuses
/// the connection was reached.
fn blocked(peer: &Peer, port: u16) -> Option<String> {
    let address = address_of(peer).ok()?;
    let address = SocketAddr::new(address.ip(), port);
    let error = TcpStream::connect_timeout(&address, CONNECT_LIMIT).err()?;
    is_blocked(&error).then(|| error.to_string())
}

fn is_blocked(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::ConnectionRefused
}

/// Whether it greets as a node of Galera does.
fn is_galera(peer: &Peer) -> bool {
    let Ok(address) = address_of(peer) else {
        return false;
    };
    let Ok(socket) = TcpStream::connect_timeout(&address, CONNECT_LIMIT) else {
        return false;
    };
    let is_limited = socket
        .set_read_timeout(Some(galera::GREETING_LIMIT))
        .is_ok();
    is_limited && galera::greets(socket)
}

fn reach(peer: &Peer) -> Result<Reached, String> {
    let address = address_of(peer)?;
    let first = connect(address)?;
    let more = (1..TRIES).filter_map(|_| connect(address).ok());
    let best = more.fold(first, |best, one| {
        if one.round_trip < best.round_trip {
            one
        } else {
            best
        }
    });
    Ok(best)
}

fn connect(address: SocketAddr) -> Result<Reached, String> {
    let begun = Instant::now();
    let socket = TcpStream::connect_timeout(&address, CONNECT_LIMIT);
    let socket = socket.map_err(|error| error.to_string())?;
    Ok(Reached {
        round_trip: begun.elapsed(),
        path_mtu: rustix::net::sockopt::ip_mtu(&socket).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// A port at which nothing listens: not that of a listener that was closed, for a process that
    /// another test is starting may hold a copy of it.
    const CLOSED: u16 = 1;

    /// A listener that says something to its first callers, or nothing.
    fn peer_that_says(greeting: &'static [u8]) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for caller in listener.incoming().take(TRIES + 1) {
                // A caller that only measures has gone.
                let _ = caller.unwrap().write_all(greeting);
            }
        });
        Peer {
            host: "127.0.0.1".to_owned(),
            port,
        }
    }

    #[test]
    fn node_of_galera_is_recognised_by_its_greeting() {
        let greeting = b"\x24\0\0\x02\x16\x13\x91\x48\0\x01\x10\0\xd6\x08\xb0\x5c";
        let peers = vec![
            peer_that_says(greeting),
            peer_that_says(b"SSH-2.0-OpenSSH\r\n"),
        ];
        let asker = Asker {
            address: Address::any(1),
            cluster_name: String::new(),
            credentials: None,
            is_in_group: true,
        };
        let is_galera = look(&asker, &peers, Some(1))
            .iter()
            .map(|peer| peer.is_galera)
            .collect::<Vec<_>>();
        assert_eq!(is_galera, [true, false]);
    }

    #[test]
    fn port_of_a_server_that_may_wait_for_its_donor_is_not_tried() {
        let copies = TcpListener::bind("127.0.0.1:0").unwrap();
        copies.set_nonblocking(true).unwrap();
        let peers = [peer_that_says(b"")];
        let asker = Asker {
            address: Address::any(1),
            cluster_name: String::new(),
            credentials: None,
            is_in_group: false,
        };
        let seen = look(&asker, &peers, Some(copies.local_addr().unwrap().port()));
        assert!(seen[0].seen.is_ok());
        assert!(copies.accept().is_err(), "the donor's place was taken");
        let says = |state: &str| {
            let mut status = Status::default();
            status.server.state = state.to_owned();
            awaits_no_copy(Some(&Ok(Box::new(status))))
        };
        assert!(says("Synced") && !says("Joining") && !says("Donor/Desynced"));
        assert!(!awaits_no_copy(Some(&Err("refused".to_owned()))));
    }

    #[test]
    fn port_at_which_nothing_listens_is_not_blocked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = Peer {
            host: "127.0.0.1".to_owned(),
            port,
        };
        assert_eq!(blocked(&peer, port), None);
        assert_eq!(blocked(&peer, CLOSED), None);
        let lost = [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable];
        assert!(lost.into_iter().all(|kind| is_blocked(&kind.into())));
    }

    #[test]
    fn listening_peer_is_reached_and_others_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = |host: &str, port| Peer {
            host: host.to_owned(),
            port,
        };
        let reached = reach(&peer("127.0.0.1", port)).unwrap();
        assert!(reached.path_mtu.is_none_or(|mtu| mtu >= 576));
        assert!(reach(&peer("127.0.0.1", CLOSED)).is_err());
        let unknown = reach(&peer("no-such-host.invalid", 1)).unwrap_err();
        assert!(unknown.starts_with("its name is not known"), "{unknown}");
    }
}

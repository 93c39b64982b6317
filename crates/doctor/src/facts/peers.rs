//! The other servers: whether they are reached, and how long that takes.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use synod_options::Peer;

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Connections that are timed; the fastest counts.
const TRIES: usize = 3;

/// Another server.
#[derive(Clone, Debug)]
pub struct PeerFacts {
    /// Name or address, and port.
    pub address: String,
    /// What was seen, or why nothing was.
    pub seen: Result<Reached, String>,
}

/// A server that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// From the connection's request to its acceptance: a round trip.
    pub round_trip: Duration,
    /// Bytes that fit a packet on the way there; none: the kernel does not say.
    pub path_mtu: Option<u32>,
}

pub(super) fn look(peers: Vec<Peer>) -> Vec<PeerFacts> {
    let looked = peers.iter().map(|peer| PeerFacts {
        address: format!("{}:{}", peer.host, peer.port),
        seen: reach(peer),
    });
    looked.collect()
}

fn reach(peer: &Peer) -> Result<Reached, String> {
    let addresses = (peer.host.as_str(), peer.port).to_socket_addrs();
    let address = addresses.map_err(|error| format!("its name is not known: {error}"))?;
    let address = address.into_iter().next();
    let address = address.ok_or_else(|| "its name has no address".to_owned())?;
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
    use std::net::TcpListener;

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
        drop(listener);
        assert!(reach(&peer("127.0.0.1", port)).is_err());
        let unknown = reach(&peer("no-such-host.invalid", 1)).unwrap_err();
        assert!(unknown.starts_with("its name is not known"), "{unknown}");
    }
}

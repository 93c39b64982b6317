//! The ports of the server's machine that a group needs.

use std::io::ErrorKind;
use std::net::TcpListener;

/// Port of full copies, unless `wsrep_sst_receive_address` has another.
const COPIES: u16 = 4444;

/// The port of full copies: that of the setting, which may be empty, `AUTO`, or without a port.
pub(super) fn of_copies(receive_address: &str) -> u16 {
    let (_, port) = receive_address.rsplit_once(':').unwrap_or_default();
    port.parse().unwrap_or(COPIES)
}

pub(super) fn busy(ports: &[u16]) -> Vec<u16> {
    let is_busy = |port: &&u16| {
        let error = TcpListener::bind(("0.0.0.0", **port)).err();
        error.is_some_and(|error| error.kind() == ErrorKind::AddrInUse)
    };
    ports.iter().filter(is_busy).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_copies_is_that_of_the_setting() {
        let settings = [
            "",
            "AUTO",
            "192.0.2.1",
            "192.0.2.1:5555",
            "[2001:db8::1]:5556",
        ];
        let ports = settings.map(of_copies);
        assert_eq!(ports, [COPIES, COPIES, COPIES, 5555, 5556]);
    }

    #[test]
    fn port_of_a_listener_on_one_address_is_busy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(busy(&[port, 1]), [port]);
    }
}

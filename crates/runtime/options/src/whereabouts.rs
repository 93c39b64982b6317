//! Addresses of members, seen from this machine: `synod doctor` asks it about a server's, and
//! `--check` about those in the file of a logger or relay.

use std::io;
use std::net::{TcpListener, ToSocketAddrs};

/// Whether an address of this name is one of this machine; none: the name is not known.
pub fn is_here(host: &str) -> Option<bool> {
    let mut addresses = (host, 0).to_socket_addrs().ok()?.peekable();
    addresses.peek()?;
    let is_foreign = |error: &io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
    Some(
        addresses.any(|address| !TcpListener::bind(address).is_err_and(|error| is_foreign(&error))),
    )
}

/// The fault of an address at which others are to reach a member of this machine, if it has one.
/// `is_here`: as [`is_here`] gives it.
pub fn fault_of_own(is_here: Option<bool>) -> Option<&'static str> {
    match is_here {
        Some(true) => None,
        None => Some(UNKNOWN),
        Some(false) => Some("which is no address of this machine"),
    }
}

/// The fault of an address whose name no resolver of this machine knows.
pub const UNKNOWN: &str = "a name that is not known here";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_address_is_known_and_of_this_machine() {
        assert_eq!(fault_of_own(is_here("127.0.0.1")), None);
        assert_eq!(fault_of_own(is_here("no-such-host.invalid")), Some(UNKNOWN));
        // Reserved for documentation: no machine has it.
        let foreign = fault_of_own(is_here("198.51.100.1"));
        assert_eq!(foreign, Some("which is no address of this machine"));
    }
}

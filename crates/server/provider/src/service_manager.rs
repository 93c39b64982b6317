//! Tells systemd that a long start is no failure, and why it waits.
//!
//! systemd ends a service whose start takes longer than `TimeoutStartSec`, unless the service asks
//! for more time. The protocol is that of `sd_notify(3)`: a datagram with lines `NAME=value`, to
//! the socket named by `$NOTIFY_SOCKET`. A name that begins with `@` is in the abstract namespace.
//! Nothing here fails: a server without systemd, or with a silent one, starts as well.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The manager that has started this process.
pub(crate) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// The manager that the environment names, if there is one.
    pub(crate) fn from_environment() -> Option<ServiceManager> {
        ServiceManager::at(&std::env::var_os("NOTIFY_SOCKET")?)
    }

    fn at(name: &OsStr) -> Option<ServiceManager> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(name),
        };
        let socket = UnixDatagram::unbound().ok()?;
        // A manager that does not read must not keep the server from starting.
        socket.set_nonblocking(true).ok()?;
        Some(ServiceManager {
            socket,
            address: address.ok()?,
        })
    }

    /// The start may take so long again from now on, because of `status`.
    pub(crate) fn extend_start(&self, by: Duration, status: &str) {
        let status = status.replace('\n', " ");
        let text = format!("EXTEND_TIMEOUT_USEC={}\nSTATUS={status}\n", by.as_micros());
        // Lost: the next one is sent long before the time is over.
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(listener: &UnixDatagram, name: &OsStr) -> String {
        let manager = ServiceManager::at(name).unwrap();
        manager.extend_start(Duration::from_secs(60), "waiting\nfor b");
        let mut text = [0; 200];
        let length = listener.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    const EXPECTED: &str = "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for b\n";

    #[test]
    fn manager_at_a_path_is_told() {
        let name = format!("synod-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixDatagram::bind(&path).unwrap();
        assert_eq!(received(&listener, path.as_os_str()), EXPECTED);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn manager_at_an_abstract_name_is_told() {
        let name = format!("synod-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        let name = format!("@{name}");
        assert_eq!(received(&listener, OsStr::new(&name)), EXPECTED);
    }
}

//! Messages to the service manager that started this process, such as systemd: sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// The manager that the environment names; none: it names none. Fails when its name is no
    /// address of a socket.
    pub fn from_environment() -> io::Result<Option<ServiceManager>> {
        let name = std::env::var_os("NOTIFY_SOCKET");
        name.map(|name| ServiceManager::at(&name)).transpose()
    }

    fn at(name: &OsStr) -> io::Result<ServiceManager> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(name),
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not keep the process from starting.
        socket.set_nonblocking(true)?;
        Ok(ServiceManager {
            socket,
            address: address?,
        })
    }

    /// The start is over (`Type=notify`).
    pub fn ready(&self) -> io::Result<()> {
        self.tell("READY=1\n")
    }

    /// The start may take so long again from now on, because of `status`.
    pub fn extend_start(&self, by: Duration, status: &str) -> io::Result<()> {
        let status = status.replace('\n', " ");
        let microseconds = by.as_micros();
        self.tell(&format!(
            "EXTEND_TIMEOUT_USEC={microseconds}\nSTATUS={status}\n"
        ))
    }

    fn tell(&self, text: &str) -> io::Result<()> {
        self.socket.send_to_addr(text.as_bytes(), &self.address)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(listener: &UnixDatagram, name: &OsStr) -> String {
        let manager = ServiceManager::at(name).unwrap();
        manager
            .extend_start(Duration::from_secs(60), "waiting\nfor b")
            .unwrap();
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

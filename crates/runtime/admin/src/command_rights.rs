//! Rights of a process at the socket for commands, by the user that it runs as.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;
use rustix::process::geteuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRights {
    /// To ask and to order: it runs as this process's user, or as root.
    Orders,
    /// To ask for the status. The mode of the socket has let this process in.
    Status,
}

pub fn rights_of(peer: &impl AsFd) -> io::Result<CommandRights> {
    let credentials = sockopt::socket_peercred(peer)?;
    Ok(rights(credentials.uid.as_raw(), geteuid().as_raw()))
}

fn rights(peer: u32, own: u32) -> CommandRights {
    if peer == own || peer == 0 {
        CommandRights::Orders
    } else {
        CommandRights::Status
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn own_user_and_root_may_order_and_others_ask() {
        let (peer, _other) = UnixStream::pair().unwrap();
        assert_eq!(rights_of(&peer).unwrap(), CommandRights::Orders);
        assert_eq!(rights(7, 7), CommandRights::Orders);
        assert_eq!(rights(0, 7), CommandRights::Orders);
        assert_eq!(rights(8, 7), CommandRights::Status);
    }
}

//! Processes that a client takes for a member.
//!
//! Every user of a machine can listen on a socket called `synod.sock` in a directory of theirs. So
//! a client asks the system who listens, as a member asks who calls.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::sockopt;
use rustix::process::geteuid;

use crate::socket;

/// Users whose processes are taken for members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted(BTreeSet<u32>);

impl Trusted {
    /// Root, the user of this process, and the owners of those of these directories that are there.
    /// Each must have been named by a person who decides what runs on this machine.
    pub fn owners_of<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Trusted {
        let owners = dirs
            .into_iter()
            .filter_map(|dir| std::fs::metadata(dir).ok());
        let owners = owners.map(|dir| dir.uid());
        Trusted(owners.chain([0, geteuid().as_raw()]).collect())
    }

    /// One user, and neither root nor this process's.
    #[cfg(test)]
    pub(crate) fn only(user: u32) -> Trusted {
        Trusted([user].into())
    }

    /// Whether the process at the other end is one of theirs: the user if it is not.
    pub(crate) fn check(&self, stream: &UnixStream) -> io::Result<Result<(), u32>> {
        let user = sockopt::socket_peercred(stream)?.uid.as_raw();
        Ok(if self.0.contains(&user) {
            Ok(())
        } else {
            Err(user)
        })
    }

    /// Maker of the socket in a directory: none if that cannot be seen from here.
    pub fn maker(&self, dir: &Path) -> Option<Maker> {
        match std::fs::symlink_metadata(socket::path(dir)) {
            Ok(file) if self.0.contains(&file.uid()) => Some(Maker::Trusted),
            Ok(file) => Some(Maker::Foreign(file.uid())),
            // The directory is closed to this user: a member's own may be.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(Maker::Hidden),
            Err(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Trusted,
    Foreign(u32),
    /// This user may not see the socket.
    Hidden,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_of_a_named_directory_is_trusted_and_no_other_user() {
        let dir = tempfile::tempdir().unwrap();
        let own = geteuid().as_raw();
        let trusted = Trusted::owners_of([dir.path(), Path::new("/nonexistent")]);
        assert_eq!(trusted, Trusted([0, own].into()));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(trusted.check(&ours).unwrap(), Ok(()));
        let others = Trusted::only(own + 1);
        assert_eq!(others.check(&ours).unwrap(), Err(own));
    }

    #[test]
    fn maker_of_a_socket_is_the_owner_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let own = geteuid().as_raw();
        let (ours, others) = (Trusted::only(own), Trusted::only(own + 1));
        assert_eq!(ours.maker(dir.path()), None, "there is none");
        let _listening = socket::Listening::begin(dir.path()).unwrap();
        assert_eq!(ours.maker(dir.path()), Some(Maker::Trusted));
        assert_eq!(others.maker(dir.path()), Some(Maker::Foreign(own)));
    }
}

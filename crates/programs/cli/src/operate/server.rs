//! Connects to the server to ask: the one named, or the only one that runs on this machine.
//!
//! Every user can listen on a socket with the right name. So one that was found, and not named, is
//! asked only if root, this user, or the owner of a package's directory has made it and listens.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use synod_admin::{Client, Maker, Trusted, find, socket, visible};

use super::{OperateError, PlaceArgs};

/// Directories where packages keep the data of a server. Only root makes directories beside these.
const USUAL_DIRS: [&str; 2] = ["/var/lib/mysql", "/var/lib/mariadb"];

/// Directories where packages keep the log of a member without a database.
const LOG_DIRS: [&str; 2] = ["/var/lib/synod-relay", "/var/lib/synod-logger"];

const WARNINGS_MAX: usize = 16;

/// Connects to the member that is named, by an address or a log directory; to the only one that
/// runs here, if none is.
pub(crate) fn connect(place: &PlaceArgs) -> Result<Client, OperateError> {
    Finder::new(place.clone()).connect()
}

/// Connects again and again, and warns of each foreign socket once.
pub(crate) struct Finder {
    place: PlaceArgs,
    told: BTreeSet<PathBuf>,
}

impl Finder {
    pub(crate) fn new(place: PlaceArgs) -> Finder {
        let told = BTreeSet::new();
        Finder { place, told }
    }

    pub(crate) fn connect(&mut self) -> Result<Client, OperateError> {
        if let Some(member) = self.place.member.remote() {
            return Ok(Client::connect_to(&member)?);
        }
        if let Some(dir) = &self.place.dir {
            return Ok(Client::connect(dir)?);
        }
        let of_packages = USUAL_DIRS.iter().chain(&LOG_DIRS);
        let trusted = Trusted::owners_of(of_packages.map(Path::new));
        let dir = self.only_server(&trusted)?;
        Ok(Client::connect_to_one_of(&trusted, &dir)?)
    }

    fn only_server(&mut self, trusted: &Trusted) -> Result<PathBuf, OperateError> {
        let listening = find::listening();
        let usual = USUAL_DIRS.into_iter().map(PathBuf::from);
        // Listed in another network namespace, for instance a container's.
        let usual = usual.filter(|dir| socket::path(dir).exists());
        let mut own = Vec::new();
        for dir in listening.as_deref().unwrap_or_default() {
            match trusted.maker(dir) {
                Some(Maker::Trusted | Maker::Hidden) => own.push(dir.clone()),
                Some(Maker::Foreign(user)) => self.warn(dir, user),
                None => {}
            }
        }
        let own = usable(&own, |dir| {
            access(socket::path(dir), Access::WRITE_OK).is_ok()
        });
        choose(&own, usual.collect(), listening.as_ref().err())
    }

    fn warn(&mut self, dir: &Path, user: u32) {
        if self.told.len() >= WARNINGS_MAX || !self.told.insert(dir.to_owned()) {
            return;
        }
        let text = foreign(dir, user);
        // A warning that goes nowhere is no reason not to ask the server.
        let _ = writeln!(io::stderr(), "synod: {}", visible(&text));
    }
}

fn foreign(dir: &Path, user: u32) -> String {
    format!(
        "{} is left aside: user {user} has made it, who is neither root nor this user nor the owner \
         of a package's directory. If it is a server of yours, name it: --dir {}",
        socket::path(dir).display(),
        dir.display()
    )
}

/// Directories of the members that take commands from this user; all, if none does. A relay or a
/// logger beside a server has a user of its own, so the server's user means the server.
fn usable(listening: &[PathBuf], may_use: impl Fn(&PathBuf) -> bool) -> Vec<PathBuf> {
    let usable: Vec<PathBuf> = listening
        .iter()
        .filter(|dir| may_use(dir))
        .cloned()
        .collect();
    if usable.is_empty() {
        listening.to_vec()
    } else {
        usable
    }
}

/// The server that is meant, of those that listen and of those with a socket in a usual place.
fn choose(
    listening: &[PathBuf],
    usual: Vec<PathBuf>,
    error: Option<&std::io::Error>,
) -> Result<PathBuf, OperateError> {
    let found = if listening.is_empty() {
        &usual[..]
    } else {
        listening
    };
    match found {
        [only] => Ok(only.clone()),
        [] => {
            let list = match error {
                Some(error) => format!("{} (which cannot be read: {error})", find::LIST),
                None => find::LIST.to_owned(),
            };
            Err(OperateError::NoServer(format!(
                "no server with Synod was found on this machine. Looked for sockets called {} in \
                 {list}, and in {}. One that has just begun to start has none yet. Name the log \
                 directory of any other member: --dir /var/lib/synod-logger, --dir \
                 /var/lib/synod-relay",
                socket::NAME,
                USUAL_DIRS.join(" and "),
            )))
        }
        several => {
            let dirs: Vec<String> = several.iter().map(|d| d.display().to_string()).collect();
            Err(OperateError::NoServer(format!(
                "{} servers run on this machine: name the one that you mean by --dir\n  {}",
                dirs.len(),
                dirs.join("\n  ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn chosen(listening: &[&str], usual: &[&str]) -> Result<PathBuf, OperateError> {
        let dirs = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        choose(&dirs(listening), dirs(usual), None)
    }

    #[test]
    fn only_server_is_taken() {
        assert_eq!(chosen(&["/a"], &["/b"]).unwrap(), Path::new("/a"));
        assert_eq!(chosen(&[], &["/b"]).unwrap(), Path::new("/b"));
    }

    #[test]
    fn member_of_another_user_is_not_meant() {
        let dirs = ["/var/lib/mysql", "/var/lib/synod-relay"].map(PathBuf::from);
        assert_eq!(usable(&dirs, |dir| dir.ends_with("mysql")), dirs[..1]);
        assert_eq!(
            usable(&dirs, |_| true),
            dirs,
            "root is asked which one it means"
        );
        assert_eq!(usable(&dirs, |_| false), dirs, "the error names them");
    }

    #[test]
    fn foreign_socket_is_named_with_its_user() {
        let text = foreign(Path::new("/dev/shm/a"), 65_534);
        assert!(
            text.starts_with("/dev/shm/a/synod.sock is left aside: user 65534"),
            "{text}"
        );
        assert!(text.ends_with("--dir /dev/shm/a"), "{text}");
    }

    #[test]
    fn what_was_tried_is_told() {
        let none = chosen(&[], &[]).unwrap_err();
        assert_eq!(none.exit_code(), 3);
        for place in [find::LIST, USUAL_DIRS[0], socket::NAME] {
            assert!(none.to_string().contains(place), "{none}");
        }
        let several = chosen(&["/a", "/b"], &[]).unwrap_err().to_string();
        assert!(several.contains("2 servers") && several.contains("/a") && several.contains("/b"));
    }
}

//! The unprivileged user that servers run as.
//!
//! Started by root, servers run as `mysql`, or as `nobody` where that does not exist (the rsync
//! daemon of a full copy gives up root anyhow, and then cannot read what root wrote). Started by
//! any other user, they run as that user.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{ClusterError, IoContext, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    pub name: String,
    /// Name of the user that runs this program, who is the administrator of the servers.
    pub admin: String,
    /// User and group to change to; none when no change is needed.
    change_to: Option<(u32, u32)>,
}

impl ServerUser {
    /// An error when root runs this, and there is no other user to run servers as.
    pub fn find() -> Result<ServerUser> {
        let admin =
            id(&["-un"]).unwrap_or_else(|| format!("#{}", rustix::process::geteuid().as_raw()));
        if !rustix::process::geteuid().is_root() {
            return Ok(ServerUser {
                name: admin.clone(),
                admin,
                change_to: None,
            });
        }
        for name in ["mysql", "nobody"] {
            let number = |flag| id(&[flag, name]).and_then(|text| text.parse().ok());
            if let (Some(uid), Some(gid)) = (number("-u"), number("-g")) {
                return Ok(ServerUser {
                    name: name.into(),
                    admin,
                    change_to: Some((uid, gid)),
                });
            }
        }
        Err(ClusterError::NoUnprivilegedUser)
    }

    pub fn apply(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.change_to {
            command.uid(uid).gid(gid);
        }
    }

    pub fn setpriv_arguments(&self) -> Vec<String> {
        match self.change_to {
            Some((uid, gid)) => vec![
                format!("--reuid={uid}"),
                format!("--regid={gid}"),
                "--clear-groups".into(),
            ],
            None => Vec::new(),
        }
    }

    pub fn give(&self, path: &Path) -> Result<()> {
        match self.change_to {
            Some((uid, gid)) => {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).context("give away", path)
            }
            None => Ok(()),
        }
    }

    /// Checks that the user can enter `dir`, by trying it as that user: only that respects modes,
    /// access lists and mount options alike. The error names the outermost directory that is
    /// closed.
    pub fn check_reach(&self, dir: &Path) -> Result<()> {
        let blocking = dir.ancestors().filter(|path| !self.may("-x", path)).last();
        match blocking {
            None => Ok(()),
            Some(blocking) => Err(ClusterError::Unreachable {
                dir: dir.to_owned(),
                user: self.name.clone(),
                blocking: PathBuf::from(blocking),
            }),
        }
    }

    pub fn can_read(&self, file: &Path) -> bool {
        self.may("-r", file)
    }

    fn may(&self, flag: &str, path: &Path) -> bool {
        if self.change_to.is_none() && flag == "-x" && !path.exists() {
            return true; // it is created next, and that shows whether it can be reached
        }
        let mut command = Command::new("test");
        command.arg(flag).arg(path).current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.apply(&mut command);
        command.status().is_ok_and(|status| status.success())
    }
}

/// Output of the program `id`, which knows users from everywhere (files, LDAP, …).
fn id(args: &[&str]) -> Option<String> {
    let output = Command::new("id")
        .args(args)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

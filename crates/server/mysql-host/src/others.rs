//! The record of what this server has executed of others than its group: GTIDs from before the
//! group, and none later, because all that is written in a group is the group's. A server that has
//! more when it comes back has been written to outside, and has other data than the others.
//!
//! A line in a file beside the group's log: the UUID of the group, and the set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use synod_binlog::mysql_gtid::{MysqlGtidSet, Uuid};
use synod_node::{RealFiles, replace_file};

use crate::apply::ApplyError;
use crate::host::Member;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OthersError {
    #[error(
        "{} {problem}: so whether this server was written to outside of its group is not known. \
         If it was not, remove the file, and start this server again. Otherwise its data differ \
         from the others': copy the data of another server with the clone plugin first",
        path.display()
    )]
    Unreadable { path: PathBuf, problem: String },
    #[error(
        "cannot write {} ({source}), by which is noticed what is written to this server outside of \
         its group. Make room on its disk, give its directory to the server's user, \
         and start this server again",
        path.display()
    )]
    Unwritten { path: PathBuf, source: io::Error },
}

fn path(log_dir: &Path) -> PathBuf {
    log_dir.join("synod-others")
}

/// The set that is on record for this group; none: this server did not follow it yet.
fn recorded(log_dir: &Path, group: Uuid) -> Result<Option<MysqlGtidSet>, OthersError> {
    let path = path(log_dir);
    let problem = match fs::read(&path) {
        Ok(bytes) => match parse(&bytes) {
            Some((of, set)) => return Ok(Some(set).filter(|_| of.0 == group.0)),
            None => "is damaged".to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => format!("cannot be read ({error})"),
    };
    Err(OthersError::Unreadable { path, problem })
}

/// A line without its end may lack a part of the set.
fn parse(bytes: &[u8]) -> Option<(Uuid, MysqlGtidSet)> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (of, set) = line.split_once(' ')?;
    Some((of.parse().ok()?, set.parse().ok()?))
}

fn record(log_dir: &Path, group: Uuid, set: &MysqlGtidSet) -> Result<(), OthersError> {
    let (path, line) = (path(log_dir), format!("{group} {set}\n"));
    replace_file(
        &RealFiles,
        &path.with_extension("new"),
        &path,
        line.as_bytes(),
    )
    .map_err(|source| OthersError::Unwritten { path, source })
}

impl Member {
    /// Notes what this server has executed of others, which is as the group has it.
    pub(crate) fn record_others(&self, others: &MysqlGtidSet) -> Result<(), OthersError> {
        record(&self.settings.log_dir(), self.settings.group, others)
    }

    /// Compares what this server has executed of others with what it had when it followed the
    /// group.
    pub(crate) fn check_others(&self) -> Result<(), ApplyError> {
        let here = self.server.executed()?.of_others(self.settings.group);
        // A founder's data are those with which the group begins.
        if !self.lock().founds {
            match recorded(&self.settings.log_dir(), self.settings.group)? {
                Some(had) if had == here => return Ok(()),
                Some(had) => {
                    return Err(ApplyError::WrittenOutside {
                        had: had.to_string(),
                        here: here.to_string(),
                    });
                }
                // The group's first entry is compared when it comes.
                None if self.applied().0 == 0 => return Ok(()),
                None => {}
            }
        }
        Ok(self.record_others(&here)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Uuid = Uuid([7; 16]);
    const OTHER: &str = "5e0dc0de-0000-4000-8000-000000000002:1-3";

    #[test]
    fn set_of_the_same_group_is_on_record_until_another_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(recorded(dir, GROUP).unwrap(), None);
        for text in ["", OTHER] {
            let set: MysqlGtidSet = text.parse().unwrap();
            record(dir, GROUP, &set).unwrap();
            assert_eq!(recorded(dir, GROUP).unwrap(), Some(set));
            assert_eq!(recorded(dir, Uuid([8; 16])).unwrap(), None);
        }
    }
}

//! The record of what this server has executed of others than its group: GTIDs from before the
//! group, and none later, because all that is written in a group is the group's. A server that has
//! more when it comes back has been written to outside, and has other data than the others.
//!
//! A line in a file beside the group's log: the UUID of the group, and the set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use synod_binlog::mysql_gtid::{MysqlGtidSet, Uuid};
use synod_node::Level;

use crate::apply::ApplyError;
use crate::host::Member;

fn path(log_dir: &Path) -> PathBuf {
    log_dir.join("synod-others")
}

/// The set that is on record for this group; none: this server did not follow it yet.
fn recorded(log_dir: &Path, group: Uuid) -> Option<MysqlGtidSet> {
    let text = fs::read_to_string(path(log_dir)).ok()?;
    let (of, set) = text.split_once(' ')?;
    let of: Uuid = of.parse().ok()?;
    set.trim_end().parse().ok().filter(|_| of.0 == group.0)
}

fn record(log_dir: &Path, group: Uuid, set: &MysqlGtidSet) -> io::Result<()> {
    let (path, temporary) = (path(log_dir), log_dir.join("synod-others.new"));
    fs::write(&temporary, format!("{group} {set}\n"))?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(temporary, path)
}

impl Member {
    /// Notes what this server has executed of others, which is as the group has it.
    pub(crate) fn record_others(&self, others: &MysqlGtidSet) {
        if let Err(error) = record(&self.settings.log_dir(), self.settings.group, others) {
            let text = format!(
                "cannot note which GTIDs of others this server has executed ({error}): what is \
                 written to it outside of its group will not be noticed at its next start"
            );
            self.log(Level::Warning, text);
        }
    }

    /// Compares what this server has executed of others with what it had when it followed the
    /// group.
    pub(crate) fn check_others(&self) -> Result<(), ApplyError> {
        let here = self.server.executed()?.of_others(self.settings.group);
        let had = recorded(&self.settings.log_dir(), self.settings.group);
        match had {
            // Its data are those with which the group begins.
            _ if self.lock().founds => {}
            Some(had) if had != here => {
                return Err(ApplyError::WrittenOutside {
                    had: had.to_string(),
                    here: here.to_string(),
                });
            }
            // The group's first entry is compared when it comes.
            None if self.applied().0 == 0 => return Ok(()),
            Some(_) | None => {}
        }
        self.record_others(&here);
        Ok(())
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
        assert_eq!(recorded(dir, GROUP), None);
        for text in ["", OTHER] {
            let set: MysqlGtidSet = text.parse().unwrap();
            record(dir, GROUP, &set).unwrap();
            assert_eq!(recorded(dir, GROUP), Some(set));
            assert_eq!(recorded(dir, Uuid([8; 16])), None);
        }
        fs::write(path(dir), "damaged").unwrap();
        assert_eq!(recorded(dir, GROUP), None);
    }
}

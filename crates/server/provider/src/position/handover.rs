//! Databases that Galera's library has served before.
//!
//! Both libraries keep the position in `grastate.dat`, and in the engine, in one form, so a
//! database goes from one to the other as it is. What does not is the log: it knows nothing of what
//! Galera did. So a log from before Galera must never be used again. Its group is the one of the
//! database by its id, and the seqnos of both continue the same number, for different actions.
//!
//! This library marks each `grastate.dat` that it writes; Galera drops the mark. A file without it,
//! beside files that only Galera makes, is Galera's.

use std::path::{Path, PathBuf};

use super::grastate::{self, GrastateError, SavedPosition};

/// Made by Galera at each start; stays.
const CACHE: &str = "galera.cache";
/// Made by Galera while it is in a group; removed at an orderly stop.
const VIEW: &str = "gvwstate.dat";
/// There is a log where this is.
const CONTROL_FILE: &str = "synod-control.log";

#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    #[error(
        "{} has a log (synod-*.log) from before Galera's library served this database: \
         grastate.dat was last written by Galera. The log lacks what Galera did, so it must not be \
         used again. Move the files synod-*.log away, and start again: the server takes part with \
         what its database holds. (If Galera never ran here, remove {CACHE} and {VIEW} instead.)",
        log_dir.display()
    )]
    LogFromBefore { log_dir: PathBuf },
    #[error(
        "Galera's library says in grastate.dat that the data of this server must not be used (a \
         full copy was interrupted, or they differed from the others'): no group is begun with \
         them. Begin it on another server, and start this one without --wsrep-new-cluster: it \
         takes a full copy (SST). If you know that the data are whole: \
         remove grastate.dat, and start this server with --wsrep-start-position= and what \
         'mariadbd --wsrep-recover' prints (Debian's unit does that)"
    )]
    UnusableData,
    #[error(transparent)]
    File(#[from] GrastateError),
}

/// A database that Galera has served last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    was_interrupted: bool,
}

impl Handover {
    /// Looks whether Galera has served the database last. Changes nothing.
    pub(super) fn look(data_dir: &Path, log_dir: &Path) -> Result<Option<Handover>, HandoverError> {
        let [has_cache, has_view] = [CACHE, VIEW].map(|name| data_dir.join(name).exists());
        if !(has_cache || has_view) || grastate::is_own(data_dir)?.unwrap_or(true) {
            return Ok(None);
        }
        if log_dir.join(CONTROL_FILE).exists() {
            let log_dir = log_dir.to_owned();
            return Err(HandoverError::LogFromBefore { log_dir });
        }
        Ok(Some(Handover {
            was_interrupted: has_view,
        }))
    }

    pub(super) fn notice(self, saved: SavedPosition) -> String {
        let mut text = format!(
            "Galera's library served this database last: its grastate.dat says group {}, seqno {}. \
             It is taken over as it is; {CACHE} is not read",
            saved.group, saved.seqno
        );
        if self.was_interrupted || saved.seqno < 0 {
            text += ". Galera was not stopped in order here. Begin the group (--wsrep-new-cluster) \
                     on the server with the highest position that 'mariadbd --wsrep-recover' \
                     shows: what only others have would be lost";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GALERAS: &str = "# GALERA saved state\nversion: 2.1\n\
                           uuid:    6b1a2c3d-0102-11ef-8a3b-0242ac120002\nseqno:   42\n\
                           safe_to_bootstrap: 0\n";

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str, files: &[(&str, &str)]) -> Dir {
            let dir = format!("synod-handover-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            fs::create_dir_all(&dir).unwrap();
            for (file, text) in files {
                fs::write(dir.join(file), text).unwrap();
            }
            Dir(dir)
        }

        fn look(&self) -> Result<Option<Handover>, HandoverError> {
            Handover::look(&self.0, &self.0)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn log_from_before_galera_is_refused_with_the_remedy() {
        let dir = Dir::new(
            "before",
            &[
                (grastate::FILE_NAME, GALERAS),
                (CACHE, ""),
                (CONTROL_FILE, ""),
            ],
        );
        let error = dir.look().unwrap_err().to_string();
        assert!(error.contains("Move the files synod-*.log away"), "{error}");
        // Written by this library since: the log is that of the database.
        let saved = grastate::read(&dir.0).unwrap().unwrap();
        grastate::write(&dir.0, &saved).unwrap();
        assert_eq!(dir.look().unwrap(), None);
    }

    #[test]
    fn log_of_a_database_that_galera_never_served_is_used() {
        let unmarked = Dir::new(
            "unmarked",
            &[(grastate::FILE_NAME, GALERAS), (CONTROL_FILE, "")],
        );
        assert_eq!(unmarked.look().unwrap(), None, "a person wrote the file");
        let without = Dir::new("without", &[(CACHE, ""), (CONTROL_FILE, "")]);
        assert_eq!(without.look().unwrap(), None);
    }

    #[test]
    fn notice_says_when_galera_was_not_stopped_in_order() {
        let saved = grastate::parse(GALERAS, Path::new("grastate.dat")).unwrap();
        let orderly = Dir::new("orderly", &[(grastate::FILE_NAME, GALERAS), (CACHE, "")]);
        let text = orderly.look().unwrap().unwrap().notice(saved);
        assert!(
            text.contains("seqno 42") && !text.contains("in order"),
            "{text}"
        );
        let crashed = Dir::new("crashed", &[(grastate::FILE_NAME, GALERAS), (VIEW, "")]);
        let text = crashed.look().unwrap().unwrap().notice(saved);
        assert!(text.contains("not stopped in order"), "{text}");
    }
}

//! Where the database is: what the next connection starts from, and what `grastate.dat` says.
//!
//! | the database                                     | the file              |
//! |--------------------------------------------------|-----------------------|
//! | closed after a clean stop                        | group, position       |
//! | changing, not closed yet, or the server was killed | group, -1           |
//! | being replaced by a copy, or not trusted         | no group, -1          |
//!
//! In the second case the engine knows its position, and is asked for it at the next start
//! (`--wsrep-recover`). In the third it must not be believed: half a copy, or a database that
//! differs from the others', has a position too.
//!
//! The server takes its leave from the provider before it closes its engines, which may still hold
//! commits in memory then. So the position of a clean stop is written when the process exits.

mod engine_files;
pub(crate) mod engine_flushes;
pub mod grastate;
pub mod handover;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_node::{DatabasePosition, GroupId, Seqno};

use crate::api::{Callbacks, Gtid, LogLevel};
use crate::server_program::ServerProgram;
use grastate::SavedPosition;
use handover::{Handover, HandoverError};

const UNKNOWN: Seqno = Seqno(-1);

/// What the file is to say.
#[derive(Clone, Copy)]
struct Known {
    position: DatabasePosition,
    /// This is the only member of the present view.
    is_last_member: bool,
}

impl Known {
    fn at(position: DatabasePosition) -> Known {
        Known {
            position,
            is_last_member: false,
        }
    }

    fn saved(self, seqno: Seqno) -> SavedPosition {
        SavedPosition {
            group: self.position.group,
            seqno: seqno.0,
            safe_to_bootstrap: self.is_last_member,
            last_member: self.is_last_member,
        }
    }
}

/// Knows where the database is, and keeps `grastate.dat` up to date.
pub(crate) struct PositionKeeper {
    data_dir: PathBuf,
    callbacks: Callbacks,
    current: Mutex<Known>,
    /// `safe_to_bootstrap: 1` in the file at start, written by an operator.
    may_bootstrap: bool,
    /// Galera's library said in the file that the data must not be used.
    must_not_begin: bool,
}

impl PositionKeeper {
    /// Decides where the database is at start. `start` is `wsrep_start_position`: what the engine
    /// itself says is better than what was saved at a clean stop. If neither says anything,
    /// `recover` asks the engine, or logs why it cannot.
    ///
    /// # Errors
    /// An unreadable file, or a log from before Galera served the database.
    pub(crate) fn load(
        data_dir: PathBuf,
        log_dir: &Path,
        start: Gtid,
        callbacks: Callbacks,
        recover: impl FnOnce() -> Option<Gtid>,
    ) -> Result<PositionKeeper, HandoverError> {
        let saved = grastate::read(&data_dir)?;
        let handover = Handover::look(&data_dir, log_dir)?;
        if let (Some(handover), Some(saved)) = (handover, saved) {
            callbacks.log(LogLevel::Info, &handover.notice(saved));
            // From here on the log that this library makes is that of the database.
            grastate::write(&data_dir, &saved)?;
        }
        let start = if must_recover(start, saved) {
            recover().unwrap_or(start)
        } else {
            start
        };
        let may_bootstrap =
            saved.is_some_and(|saved| saved.safe_to_bootstrap && !saved.last_member);
        let (position, notice) = start_position(start, saved);
        if let Some(notice) = notice {
            callbacks.log(LogLevel::Info, notice);
        }
        let current = Mutex::new(Known::at(position));
        Ok(PositionKeeper {
            data_dir,
            callbacks,
            current,
            may_bootstrap,
            must_not_begin: handover.is_some() && is_unusable(saved) && !may_bootstrap,
        })
    }

    /// Whether the database may be what a new group begins with.
    ///
    /// # Errors
    /// Galera's library has said that the data must not be used.
    pub(crate) fn check_begin(&self) -> Result<(), HandoverError> {
        if self.must_not_begin {
            return Err(HandoverError::UnusableData);
        }
        Ok(())
    }

    /// Whether an operator has written into `grastate.dat`, as Galera's handbook says for the loss
    /// of all servers, that this server may bootstrap a group.
    pub(crate) fn may_bootstrap(&self) -> bool {
        self.may_bootstrap
    }

    /// Where the database is, as far as that is known now.
    pub(crate) fn current(&self) -> DatabasePosition {
        self.lock().position
    }

    /// The database begins to change.
    pub(crate) fn changing(&self, group: GroupId) {
        let position = DatabasePosition {
            group,
            seqno: UNKNOWN,
        };
        self.set(&mut self.lock(), Known::at(position));
    }

    /// The database is at rest, where another connection of this process may begin. Not if it must
    /// not be used: that may have turned out on another thread while the caller found it at rest.
    ///
    /// The file does not say so before [`PositionKeeper::process_exits`].
    pub(crate) fn settled(&self, group: GroupId, seqno: i64) {
        let mut current = self.lock();
        if current.position.group == group {
            let seqno = Seqno(seqno);
            let position = DatabasePosition { group, seqno };
            let is_last_member = current.is_last_member;
            let known = Known {
                position,
                is_last_member,
            };
            self.set(&mut current, known);
        }
    }

    /// The process ends in order. If the database is at rest, and its engine has closed and with
    /// that flushed it, the file says where it is. The server is gone: nothing is logged.
    pub(crate) fn process_exits(&self) {
        let known = *self.lock();
        let is_at_rest = known.position.seqno != UNKNOWN;
        if is_at_rest && !engine_files::are_open() {
            // If it fails, the file still says that the position is unknown, which is safe.
            let _ = grastate::write(&self.data_dir, &known.saved(known.position.seqno));
        }
    }

    /// Has what the scripts of a full copy have written reach the disk. They do not sync it, and
    /// the logs need not have the actions that it holds.
    ///
    /// # Errors
    /// What could not be synced.
    pub(crate) fn sync_copy(&self) -> Result<(), String> {
        let synced = engine_files::sync_file_systems(&self.data_dir);
        synced.map_err(|(place, error)| format!("cannot sync {}: {error}", place.display()))
    }

    /// The database is being replaced, or must be: only a full copy (SST) helps.
    pub(crate) fn unusable(&self) {
        self.changing(GroupId::NONE);
    }

    /// Whether a view has this member only. For Galera's tools, which look for the server to
    /// bootstrap after a full stop; here the group re-forms without them.
    pub(crate) fn set_last_member(&self, is_last_member: bool) {
        let mut current = self.lock();
        if current.is_last_member != is_last_member {
            let position = current.position;
            let known = Known {
                position,
                is_last_member,
            };
            self.set(&mut current, known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the lock, so that the file ends as the position does.
    fn set(&self, current: &mut Known, known: Known) {
        *current = known;
        if let Err(error) = grastate::write(&self.data_dir, &known.saved(UNKNOWN)) {
            self.callbacks.log(LogLevel::Error, &error.to_string());
        }
    }
}

/// Whether only the engine knows where the database is: the last stop was not clean.
fn must_recover(start: Gtid, saved: Option<SavedPosition>) -> bool {
    let crashed = |saved: SavedPosition| saved.group != GroupId::NONE && saved.seqno < 0;
    !start.is_defined() && saved.is_some_and(crashed)
}

/// The position of an engine whose server was started without one: it is asked by a run of the
/// server's own program. `None`, with a line in the log, if it gives none.
pub(crate) fn recover(program: &ServerProgram, callbacks: &Callbacks) -> Option<Gtid> {
    // It would wait for the engine of this process.
    if engine_files::are_open() {
        return None;
    }
    let text = "the last stop was not clean, and no wsrep_start_position was given: asking the \
                database where it is (--wsrep-recover)";
    callbacks.log(LogLevel::Info, text);
    match program.recovered_position() {
        Ok(position) => {
            callbacks.log(LogLevel::Info, &format!("the database is at {position}"));
            Some(position)
        }
        Err(error) => {
            callbacks.log(LogLevel::Info, &error.to_string());
            None
        }
    }
}

fn is_unusable(saved: Option<SavedPosition>) -> bool {
    saved.is_some_and(|saved| saved.group == GroupId::NONE)
}

/// Where the database is, and what to say about it.
fn start_position(
    start: Gtid,
    saved: Option<SavedPosition>,
) -> (DatabasePosition, Option<&'static str>) {
    let unusable = is_unusable(saved);
    if start.is_defined() && !unusable {
        return (
            DatabasePosition {
                group: start.group,
                seqno: Seqno(start.seqno),
            },
            None,
        );
    }
    let saved = saved.unwrap_or(SavedPosition::UNDEFINED);
    let position = DatabasePosition {
        group: saved.group,
        seqno: Seqno(saved.seqno),
    };
    let notice = if start.is_defined() {
        Some(
            "grastate.dat says that the data of this server must not be used (a full copy (SST) \
             was interrupted, or the data differed from the others'): a full copy will be asked \
             for, whatever wsrep_start_position says",
        )
    } else if saved.group != GroupId::NONE && saved.seqno < 0 {
        Some(
            "the last stop was not clean and no wsrep_start_position was given, and the database \
             did not say where it is: a full copy (SST) will be asked for. To avoid that, run \
             mariadbd --wsrep-recover first and pass what it prints, as galera_recovery does",
        )
    } else {
        None
    };
    (position, notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId([7; 16]);

    fn saved(group: GroupId, seqno: i64) -> Option<SavedPosition> {
        Some(SavedPosition {
            group,
            seqno,
            safe_to_bootstrap: false,
            last_member: false,
        })
    }

    fn at(group: GroupId, seqno: i64) -> DatabasePosition {
        DatabasePosition {
            group,
            seqno: Seqno(seqno),
        }
    }

    /// A keeper with a directory of its own.
    fn keeper(name: &str) -> (PositionKeeper, PathBuf) {
        let dir = format!("synod-position-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let callbacks = Callbacks::none();
        let keeper = PositionKeeper::load(dir.clone(), &dir, Gtid::UNDEFINED, callbacks, || None);
        (keeper.unwrap(), dir)
    }

    #[test]
    fn database_that_must_not_be_used_is_never_at_rest() {
        let (keeper, dir) = keeper("unusable");
        keeper.changing(GROUP);
        keeper.unusable();
        keeper.settled(GROUP, 9);
        assert_eq!(keeper.current(), at(GroupId::NONE, -1));
        assert_eq!(grastate::read(&dir).unwrap(), saved(GroupId::NONE, -1));
        keeper.process_exits();
        assert_eq!(grastate::read(&dir).unwrap(), saved(GroupId::NONE, -1));
        // Until it is replaced.
        keeper.changing(GROUP);
        keeper.settled(GROUP, 9);
        keeper.process_exits();
        assert_eq!(grastate::read(&dir).unwrap(), saved(GROUP, 9));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn file_says_where_the_database_is_once_its_engine_has_closed() {
        let (keeper, dir) = keeper("closed");
        keeper.changing(GROUP);
        keeper.settled(GROUP, 9);
        assert_eq!(keeper.current(), at(GROUP, 9), "for another connection");
        assert_eq!(grastate::read(&dir).unwrap(), saved(GROUP, -1));
        keeper.process_exits();
        assert_eq!(grastate::read(&dir).unwrap(), saved(GROUP, 9));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn file_of_a_process_that_ends_amid_changes_says_so() {
        let (keeper, dir) = keeper("amid");
        keeper.changing(GROUP);
        keeper.process_exits();
        assert_eq!(grastate::read(&dir).unwrap(), saved(GROUP, -1));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn engine_is_asked_after_a_crash_without_start_position_only() {
        let start = Gtid {
            group: GROUP,
            seqno: 40,
        };
        assert!(must_recover(Gtid::UNDEFINED, saved(GROUP, -1)));
        assert!(!must_recover(start, saved(GROUP, -1)), "it was asked");
        assert!(!must_recover(Gtid::UNDEFINED, saved(GROUP, 9)));
        assert!(!must_recover(Gtid::UNDEFINED, saved(GroupId::NONE, -1)));
        assert!(!must_recover(Gtid::UNDEFINED, None));
    }

    #[test]
    fn file_says_what_the_last_of_several_threads_said() {
        let (keeper, dir) = keeper("threads");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        keeper.changing(GROUP);
                        keeper.unusable();
                    }
                });
            }
        });
        let DatabasePosition { group, seqno } = keeper.current();
        assert_eq!(grastate::read(&dir).unwrap(), saved(group, seqno.0));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn engine_is_believed_before_the_file() {
        let start = Gtid {
            group: GROUP,
            seqno: 40,
        };
        for file in [None, saved(GROUP, -1), saved(GROUP, 50)] {
            assert_eq!(start_position(start, file), (at(GROUP, 40), None));
        }
    }

    #[test]
    fn engine_is_not_believed_about_data_that_must_not_be_used() {
        let start = Gtid {
            group: GROUP,
            seqno: 40,
        };
        let (position, notice) = start_position(start, saved(GroupId::NONE, -1));
        assert_eq!(position, at(GroupId::NONE, -1));
        assert!(notice.unwrap().contains("full copy"));
    }

    #[test]
    fn clean_stop_needs_no_start_position() {
        assert_eq!(
            start_position(Gtid::UNDEFINED, saved(GROUP, 9)),
            (at(GROUP, 9), None)
        );
    }

    #[test]
    fn nothing_is_guessed_after_a_crash() {
        let (position, notice) = start_position(Gtid::UNDEFINED, saved(GROUP, -1));
        assert_eq!(position, at(GROUP, -1));
        assert!(notice.unwrap().contains("--wsrep-recover"));
        assert_eq!(
            start_position(Gtid::UNDEFINED, None),
            (at(GroupId::NONE, -1), None)
        );
    }
}

//! Position of the database: where the next connection starts, and how it is recorded.
//!
//! Two files say it. `grastate.dat` is for Galera's tools and operators' habits:
//!
//! | the database                                     | `grastate.dat`        |
//! |--------------------------------------------------|-----------------------|
//! | closed after a clean stop                        | group, position       |
//! | changing, not closed yet, or the server was killed | group, -1           |
//! | being replaced by a copy, or not trusted         | no group, -1          |
//!
//! In the second case the engine knows its position, and is asked for it at the next start
//! (`--wsrep-recover`). That the engine is wrong, or must not be asked, is in the member's own
//! record beside its log ([`DatabaseRecord`], see `recorded.rs`), which can be written where a new
//! file cannot. `grastate.dat` is believed about the third case only if a person, or Galera's
//! library, has written it there.
//!
//! The server takes its leave from the provider before it closes its engines, which may still hold
//! commits in memory then. So the position of a clean stop is written when the process exits.

pub(crate) mod engine;
pub mod grastate;
pub mod handover;
mod recorded;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_node::{
    DatabasePosition, DatabaseRecord, DatabaseRecordError, DatabaseRecordFile, GroupId, RealFiles,
    Seqno,
};

use crate::api::{Callbacks, Gtid, LogLevel};
use crate::server_program::{NoAnswer, ServerProgram};
use grastate::{GrastateError, SavedPosition};
use handover::{Handover, HandoverError};
use recorded::Healing;

const UNKNOWN: Seqno = Seqno(-1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum PositionError {
    #[error(transparent)]
    Grastate(#[from] GrastateError),
    #[error(transparent)]
    Handover(#[from] HandoverError),
    #[error(
        "{0}. This server does not start without its record of what its database lacks: make sure \
         that it can write there, and start it again"
    )]
    Record(#[from] DatabaseRecordError),
    #[error(
        "the last stop was not clean, and the database cannot be asked where it is: {0}. This \
         server does not start: without a position it would throw its data away and take a full \
         copy (SST). Nothing was changed. Remove the cause and start it again; or run 'mariadbd \
         --wsrep-recover' with the same options and start with --wsrep_start_position= and what it \
         prints, as Debian's service does. If the data are lost anyway, 'synod copy --force' has \
         the \
         next start take a full copy"
    )]
    NotAsked(String),
}

struct Known {
    position: DatabasePosition,
    /// This is the only member of the present view.
    is_last_member: bool,
    record: DatabaseRecord,
    healing: Healing,
}

impl Known {
    fn saved(&self, seqno: Seqno) -> SavedPosition {
        SavedPosition {
            group: self.position.group,
            seqno: seqno.0,
            safe_to_bootstrap: self.is_last_member,
            last_member: self.is_last_member,
            is_taken_over: false,
        }
    }
}

/// Knows where the database is, and keeps `grastate.dat` and the member's record up to date.
pub(crate) struct PositionKeeper {
    data_dir: PathBuf,
    callbacks: Callbacks,
    record_file: DatabaseRecordFile,
    current: Mutex<Known>,
    /// The first action that the database lacks although its engine may not know; `i64::MAX`: none.
    /// Read without a lock by each action that leaves the order.
    first_lacking: AtomicI64,
    /// The statement in total order that is being executed; `i64::MAX`: none. Read likewise.
    executing: AtomicI64,
    /// The last statement before the start, if its end is unknown; `i64::MAX`: none.
    unknown_end: AtomicI64,
    /// `safe_to_bootstrap: 1` in the file at start, written by an operator.
    may_bootstrap: bool,
    /// Galera's library said in the file that the data must not be used.
    must_not_begin: bool,
    /// The file had a position: the last process with this database has ended in order.
    was_stopped_in_order: bool,
    /// The file names the group that Galera's library served.
    is_taken_over: bool,
}

impl PositionKeeper {
    /// Decides where the database is at start. `start` is `wsrep_start_position`: what the engine
    /// itself says is better than what was saved at a clean stop. If neither says anything,
    /// `recover` asks the engine. The member's record corrects what the engine says.
    pub(crate) fn load(
        data_dir: PathBuf,
        log_dir: &Path,
        start: Gtid,
        callbacks: Callbacks,
        recover: impl FnOnce() -> Result<Gtid, String>,
    ) -> Result<PositionKeeper, PositionError> {
        let saved = grastate::read(&data_dir)?;
        let handover = Handover::look(&data_dir, log_dir)?;
        if let (Some(handover), Some(saved)) = (handover, saved) {
            callbacks.log(LogLevel::Info, &handover.notice(saved));
            // From here on the log that this library makes is that of the database.
            grastate::write(&data_dir, &saved)?;
        }
        let (record_file, mut record) = DatabaseRecordFile::open(&RealFiles, log_dir)?;
        let saved = match std::mem::take(&mut record.is_accepted) {
            true => {
                // First: the order holds until the file is without its mark.
                let saved = accepted(saved, record.group);
                grastate::write(&data_dir, &saved)?;
                record_file.write(&record)?;
                callbacks.log(
                    LogLevel::Warn,
                    "the data are used as they are: synod copy --accept",
                );
                Some(saved)
            }
            false => saved,
        };
        let start = if !record.needs_copy() && must_recover(start, saved) {
            recover().map_err(PositionError::NotAsked)?
        } else {
            start
        };
        let may_bootstrap =
            saved.is_some_and(|saved| saved.safe_to_bootstrap && !saved.last_member);
        let found = record.clone();
        recorded::compare(&mut record, start, saved);
        if record != found {
            record_file.write(&record)?;
        }
        let (position, notice) = start_position(start, saved, &record);
        if let Some(notice) = notice {
            callbacks.log(LogLevel::Info, &notice);
        }
        let first_lacking = AtomicI64::new(recorded::first_lacking(&record));
        let executing = recorded::executing(&record);
        let current = Mutex::new(Known {
            position,
            is_last_member: false,
            record,
            healing: Healing::default(),
        });
        Ok(PositionKeeper {
            data_dir,
            callbacks,
            record_file,
            current,
            first_lacking,
            executing: AtomicI64::new(executing),
            unknown_end: AtomicI64::new(executing),
            may_bootstrap,
            must_not_begin: handover.is_some() && is_unusable(saved) && !may_bootstrap,
            was_stopped_in_order: saved.is_some_and(|saved| saved.seqno >= 0),
            is_taken_over: saved
                .is_some_and(|saved| saved.is_taken_over && saved.group != GroupId::NONE),
        })
    }

    /// Whether the database may be what a new group begins with: not if Galera's library has said
    /// that the data must not be used.
    pub(crate) fn check_begin(&self) -> Result<(), HandoverError> {
        if self.must_not_begin {
            return Err(HandoverError::UnusableData);
        }
        Ok(())
    }

    /// Whether a group that begins with the database is the one that it belongs to: Galera's
    /// library served that, and its other servers were stopped with this one. Any other database
    /// with a position and without a log may be a copy of the past. What databases and logs of its
    /// group hold after that position has the same numbers as what the new group will do.
    pub(crate) fn takes_group_over(&self) -> bool {
        self.is_taken_over
    }

    /// Whether an operator has written into `grastate.dat`, as Galera's handbook says for the loss
    /// of all servers, that this server may bootstrap a group.
    pub(crate) fn may_bootstrap(&self) -> bool {
        self.may_bootstrap
    }

    pub(crate) fn current(&self) -> DatabasePosition {
        self.lock().position
    }

    pub(crate) fn changing(&self, group: GroupId) {
        let mut current = self.lock();
        current.position = DatabasePosition::new(group, UNKNOWN);
        current.is_last_member = false;
        self.save(&current);
    }

    /// The database is at rest, where another connection of this process may begin. Not if it must
    /// not be used: that may have turned out on another thread while the caller found it at rest.
    ///
    /// The file does not say so before [`PositionKeeper::process_exits`].
    pub(crate) fn settled(&self, group: GroupId, seqno: i64) {
        let mut current = self.lock();
        if current.position.group == group {
            current.position.seqno = Seqno(seqno);
            self.save(&current);
        }
    }

    /// The process ends in order. If the database is at rest, and its engine has closed and with
    /// that flushed it, the file says where it is. The server is gone: nothing is logged.
    pub(crate) fn process_exits(&self) {
        let mut known = self.lock();
        let is_at_rest = known.position.seqno != UNKNOWN && !known.record.needs_copy();
        if is_at_rest && !engine::are_open() {
            self.engine_has_closed(&mut known);
            // If it fails, the file still says that the position is unknown, which is safe.
            let _ = grastate::write(&self.data_dir, &known.saved(known.position.seqno));
        }
    }

    /// Has what the scripts of a full copy have written reach the disk. They do not sync it, and
    /// the logs need not have the actions that it holds.
    pub(crate) fn sync_copy(&self) -> Result<(), String> {
        let synced = engine::sync_file_systems(&self.data_dir);
        synced.map_err(|(place, error)| format!("cannot sync {}: {error}", place.display()))
    }

    /// Whether a view has this member only. For Galera's tools, which look for the server to
    /// bootstrap after a full stop; here the group re-forms without them.
    pub(crate) fn set_last_member(&self, is_last_member: bool) {
        let mut current = self.lock();
        if current.is_last_member != is_last_member {
            current.is_last_member = is_last_member;
            self.save(&current);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `grastate.dat` for a database that is not closed; a failure is a line in the log.
    /// Under the lock, so that the file ends as the position does.
    fn save(&self, current: &Known) -> bool {
        let written = grastate::write(&self.data_dir, &current.saved(UNKNOWN));
        if let Err(error) = &written {
            self.callbacks.log(LogLevel::Error, &error.to_string());
        }
        written.is_ok()
    }
}

/// Whether only the engine knows where the database is: the last stop was not clean.
fn must_recover(start: Gtid, saved: Option<SavedPosition>) -> bool {
    let crashed = |saved: SavedPosition| saved.group != GroupId::NONE && saved.seqno < 0;
    !start.is_defined() && saved.is_some_and(crashed)
}

/// The position of an engine whose server was started without one: it is asked by a run of the
/// server's own program.
pub(crate) fn recover(
    program: &ServerProgram,
    data_dir: &Path,
    callbacks: &Callbacks,
) -> Result<Gtid, String> {
    // It would wait for the engine of this process.
    if engine::are_open() {
        return Err("its engine runs already, without a group: restart this server".to_owned());
    }
    let text = "the last stop was not clean, and no wsrep_start_position was given: asking the \
                database where it is (--wsrep-recover)";
    callbacks.log(LogLevel::Info, text);
    let position = ask(program, data_dir).map_err(|error| error.to_string())?;
    callbacks.log(LogLevel::Info, &format!("the database is at {position}"));
    Ok(position)
}

fn ask(program: &ServerProgram, data_dir: &Path) -> Result<Gtid, NoAnswer> {
    program.check_data_dir(data_dir)?;
    program.recovered_position()
}

/// Saved position after an operator has accepted the data: the engine has the seqno.
fn accepted(saved: Option<SavedPosition>, group: GroupId) -> SavedPosition {
    let saved = saved.unwrap_or(SavedPosition::UNDEFINED);
    match saved.group == GroupId::NONE {
        true => SavedPosition { group, ..saved },
        false => saved,
    }
}

fn is_unusable(saved: Option<SavedPosition>) -> bool {
    saved.is_some_and(|saved| saved.group == GroupId::NONE)
}

fn start_position(
    start: Gtid,
    saved: Option<SavedPosition>,
    record: &DatabaseRecord,
) -> (DatabasePosition, Option<String>) {
    if record.needs_copy() {
        let position = DatabasePosition::new(GroupId::NONE, UNKNOWN);
        return (position, Some(recorded::why_not_used(record)));
    }
    let unusable = is_unusable(saved);
    if start.is_defined() && !unusable {
        let position = DatabasePosition::new(start.group, Seqno(start.seqno));
        return recorded::corrected(position, record);
    }
    let saved = saved.unwrap_or(SavedPosition::UNDEFINED);
    let position = DatabasePosition::new(saved.group, Seqno(saved.seqno));
    if start.is_defined() {
        let notice = "grastate.dat says that the data of this server must not be used: a full copy \
                      (SST) will be asked for, whatever wsrep_start_position says";
        return (position, Some(notice.to_owned()));
    }
    if saved.group != GroupId::NONE && saved.seqno < 0 {
        let notice = "the last stop was not clean, and the database says that it has never been in \
                      a group: a full copy (SST) will be asked for";
        return (position, Some(notice.to_owned()));
    }
    recorded::corrected(position, record)
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
            is_taken_over: false,
        })
    }

    fn at(group: GroupId, seqno: i64) -> DatabasePosition {
        DatabasePosition::new(group, Seqno(seqno))
    }

    /// A keeper with a directory of its own.
    fn keeper(name: &str) -> (PositionKeeper, PathBuf) {
        let dir = format!("synod-position-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let callbacks = Callbacks::none();
        let recover = || Err("it was not asked".to_owned());
        let keeper = PositionKeeper::load(dir.clone(), &dir, Gtid::UNDEFINED, callbacks, recover);
        (keeper.unwrap(), dir)
    }

    #[test]
    fn group_is_taken_over_from_galera_until_this_library_has_had_the_server() {
        let (_, dir) = keeper("taken-over");
        let load = || {
            let none = Callbacks::none();
            PositionKeeper::load(dir.clone(), &dir, Gtid::UNDEFINED, none, || {
                Ok(Gtid::new(GROUP, 42))
            })
            .unwrap()
        };
        assert!(!load().takes_group_over(), "a copy has no file");
        let galeras = format!("version: 2.1\nuuid: {GROUP}\nseqno: 42\n");
        std::fs::write(dir.join(grastate::FILE_NAME), galeras).unwrap();
        std::fs::write(dir.join("galera.cache"), "").unwrap();
        assert!(load().takes_group_over());
        let again = load();
        assert!(
            again.takes_group_over(),
            "a start that failed changes nothing"
        );
        again.changing(GROUP);
        assert!(!load().takes_group_over());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn database_that_must_not_be_used_is_never_at_rest() {
        let (keeper, dir) = keeper("unusable");
        keeper.changing(GROUP);
        keeper.unusable(GROUP, "it differs");
        keeper.settled(GROUP, 9);
        assert_eq!(keeper.current(), at(GroupId::NONE, -1));
        assert_eq!(grastate::read(&dir).unwrap(), saved(GroupId::NONE, -1));
        keeper.process_exits();
        assert_eq!(grastate::read(&dir).unwrap(), saved(GroupId::NONE, -1));
        // Until it is replaced.
        keeper.copied(GROUP);
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
        let start = Gtid::new(GROUP, 40);
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
                        keeper.unusable(GROUP, "it differs");
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
        let start = Gtid::new(GROUP, 40);
        for file in [None, saved(GROUP, -1), saved(GROUP, 50)] {
            let nothing = DatabaseRecord::default();
            assert_eq!(start_position(start, file, &nothing), (at(GROUP, 40), None));
        }
    }

    #[test]
    fn engine_is_not_believed_about_data_that_must_not_be_used() {
        let start = Gtid::new(GROUP, 40);
        let nothing = DatabaseRecord::default();
        let (position, notice) = start_position(start, saved(GroupId::NONE, -1), &nothing);
        assert_eq!(position, at(GroupId::NONE, -1));
        assert!(notice.unwrap().contains("full copy"));
    }

    #[test]
    fn clean_stop_needs_no_start_position() {
        assert_eq!(
            start_position(Gtid::UNDEFINED, saved(GROUP, 9), &DatabaseRecord::default()),
            (at(GROUP, 9), None)
        );
    }

    #[test]
    fn server_whose_engine_cannot_be_asked_does_not_start() {
        let (keeper, dir) = keeper("silent");
        keeper.changing(GROUP);
        let recover = || Err("Fatal error in defaults handling".to_owned());
        let callbacks = Callbacks::none();
        let error = PositionKeeper::load(dir.clone(), &dir, Gtid::UNDEFINED, callbacks, recover);
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("Fatal error in defaults"), "{error}");
        assert!(error.contains("--wsrep_start_position"), "{error}");
        assert_eq!(grastate::read(&dir).unwrap(), saved(GROUP, -1), "as it was");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn engine_that_was_never_in_a_group_has_no_position() {
        let nothing = DatabaseRecord::default();
        let (position, notice) = start_position(Gtid::UNDEFINED, saved(GROUP, -1), &nothing);
        assert_eq!(position, at(GROUP, -1));
        assert!(notice.unwrap().contains("full copy"));
        assert_eq!(
            start_position(Gtid::UNDEFINED, None, &nothing),
            (at(GroupId::NONE, -1), None)
        );
    }
}

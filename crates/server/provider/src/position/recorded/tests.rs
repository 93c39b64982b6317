//! Starts by records of the database.

use super::*;
use crate::api::Callbacks;
use std::path::PathBuf;

const GROUP: GroupId = GroupId([7; 16]);
const ERROR: u32 = 1114;

/// A data directory, and the starts of a server in it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = format!("synod-recorded-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    /// A start, after which the engine says that it is at `seqno`.
    fn start(&self, seqno: i64) -> PositionKeeper {
        let start = Gtid::new(GROUP, seqno);
        let recover = || Err("it was given".to_owned());
        let callbacks = Callbacks::none();
        PositionKeeper::load(self.0.clone(), &self.0, start, callbacks, recover).unwrap()
    }

    fn position(&self, engine: i64) -> i64 {
        self.start(engine).current().seqno.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn failed_action_is_not_in_the_database_whatever_the_engine_says() {
    let dir = Dir::new("failed");
    assert_eq!(dir.start(41).falls_behind(GROUP, 41, 42, ERROR), 1);
    assert_eq!(dir.position(42), 41);
    assert_eq!(dir.position(40), 40, "it lost what it had not flushed");
    assert_eq!(dir.position(43), 43, "it cannot have got there without");
    let start = Gtid::new(GroupId([8; 16]), 42);
    let other = PositionKeeper::load(dir.0.clone(), &dir.0, start, Callbacks::none(), || {
        Err(String::new())
    });
    assert_eq!(other.unwrap().current().seqno, Seqno(42), "another history");
}

#[test]
fn record_that_the_engine_has_outlived_leads_no_later_failure_back_before_it() {
    let dir = Dir::new("outlived");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(43);
    assert_eq!(keeper.falls_behind(GROUP, 43, 44, ERROR), 1);
    assert_eq!(dir.position(44), 43, "42 and 43 are not applied twice");
}

#[test]
fn failures_are_counted_once_a_start() {
    let dir = Dir::new("counted");
    for life in 1..4 {
        let keeper = dir.start(42);
        assert_eq!(keeper.falls_behind(GROUP, 41, 42, ERROR), life);
        assert_eq!(keeper.falls_behind(GROUP, 41, 42, ERROR), life);
    }
}

#[test]
fn failure_that_others_had_too_is_forgotten() {
    let dir = Dir::new("alike");
    let keeper = dir.start(41);
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    assert!(!keeper.was_lacking(41));
    assert!(keeper.was_lacking(42) && !keeper.heals(42, true));
    assert!(!keeper.was_lacking(43));
    assert_eq!(dir.position(42), 42);
}

#[test]
fn error_that_the_server_ignored_is_forgotten() {
    let dir = Dir::new("ignored");
    let keeper = dir.start(41);
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    assert!(!keeper.heals(42, false));
    assert_eq!(keeper.record().behind, None);
}

#[test]
fn record_stays_until_the_engine_has_flushed_what_the_database_lacked() {
    let dir = Dir::new("healed");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    assert!(keeper.was_lacking(42) && keeper.heals(42, false));
    assert!(!keeper.heals(43, false), "one thread waits");
    assert_eq!(dir.position(42), 41, "power is lost before the flush");
    let (step, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
    keeper.count_run(step, hour);
    assert!(keeper.awaits_flush());
    keeper.count_run(step, Duration::ZERO);
    assert!(!keeper.awaits_flush());
    assert_eq!(dir.position(42), 42);
}

#[test]
fn time_in_which_the_process_stood_still_does_not_count_as_a_flush() {
    let dir = Dir::new("still");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.heals(42, false);
    std::thread::sleep(Duration::from_millis(20));
    keeper.count_run(Duration::from_millis(1), Duration::from_millis(5));
    assert!(keeper.awaits_flush(), "one step of one millisecond");
}

#[test]
fn start_after_a_kill_trusts_no_data_to_which_an_action_was_applied_again() {
    let dir = Dir::new("again");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.begins(42);
    let text = dir.start(42).record().defects().concat();
    assert!(
        text.contains("flushed action 42, which had failed"),
        "{text}"
    );
    assert_eq!(dir.position(42), -1, "until a full copy");
}

#[test]
fn server_that_has_lost_the_second_application_applies_it_again() {
    let dir = Dir::new("again-lost");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    dir.start(42).begins(42);
    assert_eq!(dir.position(41), 41);
    assert_eq!(dir.position(41), 41);
}

#[test]
fn action_that_fails_again_is_not_in_the_database() {
    let dir = Dir::new("again-fails");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.begins(42);
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    keeper.gives_up();
    assert_eq!(dir.position(42), 41);
}

#[test]
fn action_that_was_applied_again_is_in_doubt_though_a_later_one_was_not_let_in() {
    let dir = Dir::new("again-shut");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.begins(42);
    assert!(keeper.heals(42, false));
    keeper.falls_behind(GROUP, 42, 43, 0);
    let record = keeper.record();
    assert!(record.is_in_doubt(Seqno(42)) && record.is_in_doubt(Seqno(43)));
    keeper.count_run(Duration::ZERO, Duration::ZERO);
    assert_eq!(dir.position(43), 42, "43 is lacking still");
}

#[test]
fn end_of_a_statement_is_unknown_if_the_server_was_killed_before_it_noted_that() {
    let dir = Dir::new("statement");
    let ends_unknown = |engine: i64, seqno: i64| dir.start(engine).is_end_unknown(seqno);
    dir.start(41).executes(GROUP, 42);
    assert!(!ends_unknown(41, 42), "killed amid the statement");
    let keeper = dir.start(41);
    keeper.executes(GROUP, 42);
    assert!(!keeper.is_end_unknown(42), "it is being executed");
    assert!(ends_unknown(42, 42) && ends_unknown(42, 42));
    let keeper = dir.start(42);
    assert_eq!(keeper.current().seqno.0, 42);
    keeper.copied(GROUP);
    assert!(!keeper.is_end_unknown(42), "a copy");
    keeper.executes(GROUP, 43);
    keeper.executed(43);
    assert!(!ends_unknown(43, 43), "it was noted");
}

#[test]
fn statement_that_failed_and_was_executed_again_is_in_doubt_after_a_kill() {
    let dir = Dir::new("statement-again");
    let keeper = dir.start(41);
    keeper.executes(GROUP, 42);
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    keeper.executes(GROUP, 42);
    assert_eq!(dir.position(42), -1, "until a full copy");
}

#[test]
fn statement_that_has_failed_is_applied_again() {
    let dir = Dir::new("statement-failed");
    let keeper = dir.start(41);
    keeper.executes(GROUP, 42);
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    assert_eq!(dir.position(42), 41);
}

#[test]
fn orderly_stop_leaves_no_doubt() {
    let dir = Dir::new("again-stopped");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.changing(GROUP);
    keeper.begins(42);
    keeper.settled(GROUP, 41);
    keeper.process_exits();
    assert_eq!(dir.position(42), 41);
}

#[test]
fn orderly_stop_flushes_what_the_database_lacked() {
    let dir = Dir::new("stopped");
    dir.start(41).falls_behind(GROUP, 41, 42, ERROR);
    let keeper = dir.start(42);
    keeper.changing(GROUP);
    keeper.heals(42, false);
    keeper.settled(GROUP, 42);
    keeper.process_exits();
    assert_eq!(dir.position(42), 42);
    assert!(dir.start(42).has_settled(42), "for decisions about it");
}

#[test]
fn engine_is_not_believed_about_what_was_not_let_in() {
    let dir = Dir::new("aborted");
    let keeper = dir.start(40);
    assert_eq!(keeper.falls_behind(GROUP, 41, 45, 0), 0);
    assert_eq!(dir.position(45), 41);
    // What was inside has finished since.
    assert!(!keeper.heals(42, false));
    assert_eq!((dir.position(45), dir.position(42)), (42, 42));
    // An earlier one has failed.
    keeper.falls_behind(GROUP, 41, 42, ERROR);
    assert_eq!(dir.position(45), 41);
}

#[test]
fn operator_has_data_used_that_are_marked() {
    let dir = Dir::new("accepted");
    let keeper = dir.start(40);
    keeper.changing(GROUP);
    keeper.unusable(GROUP, "they differ");
    assert_eq!(dir.start(40).current().group, GroupId::NONE);
    let record = DatabaseRecord {
        unusable: None,
        is_accepted: true,
        ..keeper.record()
    };
    keeper.record_file.write(&record).unwrap();
    assert_eq!(dir.position(40), 40);
    assert_eq!(dir.position(40), 40, "and at each start from then on");
}

#[test]
fn refused_copy_leaves_the_data_and_half_a_copy_does_not() {
    let dir = Dir::new("copy");
    let keeper = dir.start(40);
    keeper.copy_is_asked_for(GROUP);
    assert_eq!(dir.start(40).current().group, GroupId::NONE);
    keeper.copy_is_refused();
    assert_eq!(dir.position(40), 40);
    keeper.copy_is_asked_for(GROUP);
    keeper.copy_is_given();
    assert_eq!(dir.start(40).current().group, GroupId::NONE);
    keeper.copied(GROUP);
    assert_eq!(dir.position(50), 50);
}

#[test]
fn doubtful_streams_are_bounded_and_of_one_session() {
    let dir = Dir::new("streams");
    let keeper = dir.start(40);
    let session = (MemberId(1), SessionId(2));
    for transaction in 0..STREAMS_MAX as u64 {
        assert!(keeper.stream_is_doubtful(GROUP, session, transaction));
    }
    assert!(!keeper.stream_is_doubtful(GROUP, session, 99));
    keeper.no_stream_is_doubtful_before(SessionId(2));
    let streams = dir.start(40).record().doubtful.unwrap();
    assert_eq!(streams.transactions.len(), STREAMS_MAX);
    keeper.no_stream_is_doubtful_before(SessionId(3));
    assert_eq!(dir.start(40).record().doubtful, None);
}

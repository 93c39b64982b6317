//! Bounds of a purge, of logs with room and full ones.

use super::*;
use crate::driver::example_groups::voters_and_learners;
use synod_consensus::{MemberId, SessionId};

const NOW: Time = Time(1_000);

fn policy() -> PurgePolicy {
    PurgePolicy::new(&Tuning::default(), NOW, false)
}

/// Ticks until `to`, as of a process that runs all the time.
fn run(policy: &mut PurgePolicy, to: Time) {
    while policy.awake.now() < to {
        let next = policy.awake.now().plus(Tuning::default().slow_tick);
        policy.awake.observe(next.min(to), Duration::ZERO);
    }
}

pub(super) fn log() -> CertifiedLog {
    CertifiedLog {
        start: LogIndex(0),
        start_seqno: Seqno(0),
        discard: None,
        first_partial_chunk: None,
        committed: LogIndex(100),
        written: LogIndex(100),
    }
}

fn needs(delivered: u64, applied: i64) -> Needs {
    Needs {
        delivered: LogIndex(delivered),
        committed_seqno: Seqno(delivered as i64),
        applied: Seqno(applied),
        least_match: None,
        fetched_from: None,
    }
}

fn flushed(seqno: i64) -> Vec<Report> {
    let report = Report {
        member: MemberId(1),
        session: SessionId(1),
        state: DataState::Synced,
        applied: Seqno(seqno + 3),
        db_flushed: Seqno(seqno),
        ..Report::default()
    };
    vec![report]
}

#[test]
fn log_is_looked_at_once_a_period_and_always_while_it_is_full() {
    let mut policy = policy();
    assert!(policy.is_due(NOW, false));
    assert!(!policy.is_due(NOW, false));
    assert!(policy.is_due(NOW, true));
    assert!(policy.is_due(NOW.plus(Tuning::default().retention_period), false));
}

#[test]
fn log_is_kept_for_the_own_database_the_followers_and_the_chunks() {
    let mut policy = policy();
    let later = NOW.plus(Tuning::default().local_flush_margin);
    assert_eq!(policy.keep_from(&log(), &needs(50, 50)), LogIndex(0));
    run(&mut policy, later);
    assert_eq!(policy.keep_from(&log(), &needs(60, 60)), LogIndex(50));
    let slow_follower = Needs {
        least_match: Some(LogIndex(20)),
        ..needs(60, 60)
    };
    assert_eq!(policy.keep_from(&log(), &slow_follower), LogIndex(20));
    let with_chunk = CertifiedLog {
        first_partial_chunk: Some(LogIndex(11)),
        ..log()
    };
    assert_eq!(policy.keep_from(&with_chunk, &needs(60, 60)), LogIndex(10));
}

#[test]
fn chunks_of_actions_that_the_database_has_flushed_are_not_kept_for_it() {
    let mut policy = policy();
    let later = NOW.plus(Tuning::default().local_flush_margin);
    policy.chunks_committed(Seqno(40), LogIndex(15));
    policy.database_is_at(NOW, Duration::ZERO, DataState::Synced, Seqno(39));
    policy.keep_from(&log(), &needs(50, 50));
    run(&mut policy, later);
    policy.database_is_at(later, Duration::ZERO, DataState::Synced, Seqno(60));
    assert_eq!(policy.db_flushed(), Seqno(39));
    assert_eq!(policy.keep_from(&log(), &needs(60, 60)), LogIndex(14));
    let end = later.plus(Duration::from_secs(20));
    run(&mut policy, end);
    policy.database_is_at(end, Duration::ZERO, DataState::Synced, Seqno(60));
    assert_eq!(policy.db_flushed(), Seqno(60));
    assert_eq!(policy.keep_from(&log(), &needs(60, 60)), LogIndex(50));
}

#[test]
fn full_log_is_purged_of_what_one_database_has_if_the_operator_says_so() {
    let three = voters_and_learners(3, 0);
    let mut policy = policy();
    policy.note_reports(&three, &flushed(60));
    let limit = |policy: &mut PurgePolicy, is_full| {
        let search = |seqno: Seqno| Ok(LogIndex(seqno.0.unsigned_abs()));
        let computed = policy.compute_purge_limit(&three, &log(), is_full, search);
        computed.unwrap();
        let announces = policy.drop_to_announce(&three, is_full);
        (policy.known_purge_limit(), announces)
    };
    assert_eq!(limit(&mut policy, true), (LogIndex(0), false));
    policy.set_full_log_policy(FullLogPolicy::Drop);
    assert_eq!(limit(&mut policy, false), (LogIndex(0), false), "room");
    assert_eq!(limit(&mut policy, true), (LogIndex(60), true));
    assert_eq!(limit(&mut policy, true), (LogIndex(60), false), "said");
}

#[test]
fn nothing_is_reported_of_a_database_that_a_copy_replaces() {
    let mut policy = policy();
    let mut note = |seconds: u64, state| {
        let now = NOW.plus(Duration::from_secs(seconds));
        run(&mut policy, now);
        policy.database_is_at(now, Duration::ZERO, state, Seqno(7));
        policy.db_flushed()
    };
    assert_eq!(note(0, DataState::Synced), Seqno(0));
    assert_eq!(note(10, DataState::Donor), Seqno(7));
    assert_eq!(note(11, DataState::Joining), Seqno(0));
    assert_eq!(note(12, DataState::Joined), Seqno(0));
    assert_eq!(note(21, DataState::Synced), Seqno(0));
    assert_eq!(note(22, DataState::Synced), Seqno(7));
}

#[test]
fn full_log_is_announced_once_and_then_names_the_action_in_the_way() {
    let (mut policy, config) = (policy(), voters_and_learners(1, 0));
    let action = PartialActionId {
        member: MemberId(1),
        session: SessionId(1),
        action_no: 9,
    };
    let oldest = Some((action, Seqno(30)));
    assert_eq!(
        policy.action_in_the_way(&config, true, oldest),
        None,
        "not for a tick"
    );
    assert_eq!(policy.fullness_to_announce(true), Some(true));
    assert_eq!(policy.fullness_to_announce(true), None);
    policy.note_reports(&config, &flushed(29));
    assert_eq!(
        policy.action_in_the_way(&config, true, oldest),
        None,
        "29 is not 30"
    );
    policy.note_reports(&config, &flushed(30));
    assert_eq!(
        policy.action_in_the_way(&config, true, oldest),
        Some(action)
    );
    assert_eq!(policy.fullness_to_announce(false), Some(false));
    assert_eq!(policy.action_in_the_way(&config, false, oldest), None);
}

#[test]
fn log_is_kept_for_held_readers_on_every_member() {
    let mut policy = policy();
    assert_eq!(policy.keep_after(true), None);
    policy.readers_are_at(Some(Seqno(7)));
    assert_eq!(policy.keep_after(true), Some(Seqno(7)));
    policy.note_status(
        &voters_and_learners(1, 0),
        &flushed(2),
        LogIndex(70),
        LogIndex(60),
    );
    assert_eq!(policy.keep_after(false), Some(Seqno(5)), "another member");
    policy.readers_are_at(None);
    assert_eq!(policy.keep_after(true), None);
}

#[test]
fn follower_keeps_what_the_slowest_member_needs_and_obeys_the_announced_limit() {
    let (mut policy, config) = (policy(), voters_and_learners(1, 0));
    policy.note_status(&config, &flushed(5), LogIndex(70), LogIndex(60));
    assert_eq!(policy.keep_after(false), Some(Seqno(8)));
    assert_eq!(policy.keep_after(true), None);
    assert_eq!(policy.known_purge_limit(), LogIndex(60));
    policy.log_reset();
    assert_eq!(policy.known_purge_limit(), LogIndex(0));
}

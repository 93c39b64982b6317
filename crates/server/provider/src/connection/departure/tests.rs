//! Leaves, and returns by a restart.

use super::*;
use crate::connection::lifecycle::Lifecycle;
use crate::transaction::tests::connection;

#[test]
fn one_applier_joins_and_one_thread_shows_the_final_view() {
    let session = &connection().session;
    assert!(session.begins_join());
    assert!(!session.begins_join());
    let ctx = RecvContext::for_tests(1);
    session.show_end(ctx);
    assert!(session.state().lifecycle.has_ended());
    session.update(|state| state.lifecycle = Lifecycle::default());
    session.show_end(ctx);
    assert!(!session.state().lifecycle.has_ended(), "shown already");
}

#[test]
fn end_waits_for_the_threads_that_were_started() {
    let session = &connection().session;
    let wait = |session: &Session| {
        session.wait_for(None, |state| state.lifecycle.is_released().then_some(()));
        session.update(|state| state.lifecycle.end());
    };
    session.start_thread("synod-test", wait).unwrap();
    session.join_threads();
    assert!(session.state().lifecycle.has_ended());
}

#[test]
fn pauses_grow_to_a_minute() {
    assert_eq!(pause(0), Duration::from_secs(1));
    assert_eq!(pause(3), Duration::from_secs(8));
    assert_eq!(pause(6), PAUSE_MAX);
    assert_eq!(pause(u32::MAX), PAUSE_MAX);
}

#[test]
fn obstacle_is_said_each_minute_and_when_it_changes() {
    let (mut said, begun) = (Said::default(), Instant::now());
    assert!(said.is_due("full", begun));
    assert!(!said.is_due("full", begun + PAUSE_MAX / 2));
    assert!(said.is_due("broken", begun + PAUSE_MAX / 2));
    assert!(said.is_due("broken", begun + PAUSE_MAX * 2));
}

#[test]
fn probe_finds_out_whether_the_disk_works_and_leaves_nothing() {
    let dir = std::env::temp_dir().join(format!("synod-probe-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    probe_disk(&dir, 3 << 20).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir_all(&dir).unwrap();
    assert!(probe_disk(&dir, 1).is_err());
    let full = write_zeroes(Path::new("/dev/full"), 1).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
}

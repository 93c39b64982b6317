//! Streamed transactions: their fragments, their end, and what aborts them.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use wsrep_sys::*;

use crate::server::*;
use crate::two_members::pair;

/// Flags of a first fragment, of one in the middle, and of the commit.
const FIRST: u32 = 0x40;
const MIDDLE: u32 = 0x00;
const COMMIT: u32 = 0x09;

fn rolled_back(data: Option<&str>) -> impl Fn(&[Seen]) -> bool {
    let wanted = data.map(str::to_owned);
    move |seen| {
        seen.iter()
            .any(|s| matches!(s, Seen::RolledBack { data, .. } if *data == wanted))
    }
}

fn fragment(row: &'static str) -> impl Fn(&[Seen]) -> bool {
    move |seen| {
        seen.iter()
            .any(|s| matches!(s, Seen::Fragment { data, .. } if data == row))
    }
}

#[test]
fn fragments_are_ordered_one_by_one_and_commit_together() {
    let (one, two) = pair(3);
    let mut trx = one.begin("a");
    let first = trx.stream(FIRST);
    two.inner.until("first fragment", fragment("a"));
    trx.add("b");
    let second = trx.stream(MIDDLE);
    assert!(
        second > first && trx.meta.depends_on >= first,
        "{:?}",
        trx.meta
    );
    let other = one.write("meanwhile");
    trx.add("c");
    assert_eq!(trx.certify_as(COMMIT), WSREP_OK);
    assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
    trx.release();
    two.wait_applied("abc");
    assert_eq!(two.applied(), ["meanwhile", "abc"]);
    assert!(trx.seqno() > other);
    assert!(two.inner.open_streams().is_empty());
    assert_eq!(one.status("open_transactions"), "0");
}

#[test]
fn rollback_reaches_every_member_and_the_origin() {
    let (one, two) = pair(2);
    let mut trx = one.begin("a");
    trx.stream(FIRST);
    trx.add("b");
    assert_eq!(one.inner.rollback(trx.id()), WSREP_OK);
    trx.release();
    two.inner.until("rollback", rolled_back(Some("a")));
    one.inner.until("its own rollback", rolled_back(None));
    one.write("later");
    two.wait_applied("later");
}

/// The server's next client has the rows as soon as `rollback` has returned.
#[test]
fn rollbacks_are_ordered_before_what_is_written_next() {
    let (one, two) = pair(1);
    let given_up: Vec<_> = (0..20)
        .map(|number| {
            let mut trx = one.begin(&format!("row {number}"));
            trx.stream(FIRST);
            trx
        })
        .collect();
    for trx in &given_up {
        assert_eq!(one.inner.rollback(trx.id()), WSREP_OK);
    }
    let next = one.write("next");
    two.wait_applied("next");
    let of_rollback = |seen| match seen {
        Seen::RolledBack { seqno, .. } => Some(seqno),
        _ => None,
    };
    let rollbacks: Vec<i64> = two
        .inner
        .seen()
        .into_iter()
        .filter_map(of_rollback)
        .collect();
    assert_eq!(rollbacks.len(), given_up.len(), "{rollbacks:?}");
    assert!(
        rollbacks.iter().all(|seqno| *seqno < next),
        "{rollbacks:?}, {next}"
    );
    given_up.into_iter().for_each(|mut trx| trx.release());
}

#[test]
fn key_of_an_earlier_fragment_still_conflicts() {
    let (one, two) = pair(1);
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let (begun, may_go) = (Mutex::new(begun), Mutex::new(may_go));
    two.on_apply(move |action| {
        if action.data == "contended" {
            begun.lock().unwrap().send(()).unwrap();
            let _ = may_go.lock().unwrap().recv_timeout(LIMIT);
        }
        Verdict::Commit
    });
    let mut trx = one.begin("contended");
    trx.stream(FIRST);
    has_begun.recv_timeout(LIMIT).unwrap();
    // It has not seen the fragment.
    let mut loser = two.begin("contended");
    assert_eq!(loser.certify(), WSREP_TRX_FAIL);
    loser.release();
    go.send(()).unwrap();
    trx.add("more");
    trx.stream(MIDDLE);
    assert_eq!(trx.certify_as(COMMIT), WSREP_OK);
    assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
    trx.release();
    two.wait_applied("contendedmore");
}

#[test]
fn abort_between_fragments_fails_the_next_one() {
    let (one, two) = pair(1);
    let mut trx = one.begin("a");
    trx.stream(FIRST);
    assert_eq!(one.inner.abort(99, trx.id()), (WSREP_OK, -1));
    trx.add("b");
    assert_eq!(trx.certify_as(MIDDLE), WSREP_TRX_FAIL);
    assert_eq!(one.inner.rollback(trx.id()), WSREP_OK);
    trx.release();
    two.inner.until("rollback", rolled_back(Some("a")));
    assert_eq!(one.status("open_transactions"), "0");
}

#[test]
fn abort_of_a_fragment_in_its_turn_is_told_at_its_release() {
    let (one, two) = pair(1);
    let mut trx = one.begin("a");
    assert_eq!(trx.certify_as(FIRST), WSREP_OK);
    assert_eq!(trx.enter(), WSREP_OK);
    assert_eq!(one.inner.abort(99, trx.id()), (WSREP_OK, trx.seqno()));
    assert_eq!(trx.leave(), WSREP_OK);
    assert_eq!(trx.end_fragment(), WSREP_BF_ABORT);
    assert_eq!(one.inner.rollback(trx.id()), WSREP_OK);
    trx.release();
    two.inner.until("rollback", rolled_back(Some("a")));
    one.write("continues");
}

#[test]
fn fragment_aborted_before_its_turn_passes_the_order_by_itself() {
    let (one, two) = pair(2);
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    one.on_apply(move |action| {
        if action.data == "before" {
            let _ = may_go.lock().unwrap().recv_timeout(LIMIT);
        }
        Verdict::Commit
    });
    let before = two.write("before");
    let mut trx = one.begin("a");
    assert_eq!(trx.certify_as(FIRST), WSREP_OK);
    assert_eq!(trx.seqno(), before + 1);
    // By the action that holds up the order: it comes before the fragment, and needs the rows.
    assert_eq!(one.inner.abort(before, trx.id()), (WSREP_OK, before + 1));
    assert_eq!(trx.enter(), WSREP_TRX_FAIL);
    trx.release();
    go.send(()).unwrap();
    two.inner.until("rollback", rolled_back(Some("a")));
    one.inner.until("its own rollback", rolled_back(None));
    assert_eq!(one.write("continues"), before + 3);
}

#[test]
fn commit_aborted_before_its_turn_is_replayed_with_its_last_fragment_only() {
    let (one, two) = pair(2);
    let mut trx = one.begin("a");
    trx.stream(FIRST);
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    one.on_apply(move |action| {
        if action.data == "before" {
            let _ = may_go.lock().unwrap().recv_timeout(LIMIT);
        }
        Verdict::Commit
    });
    let before = two.write("before");
    trx.add("z");
    assert_eq!(trx.certify_as(COMMIT), WSREP_OK);
    assert_eq!(one.inner.abort(before, trx.id()), (WSREP_OK, trx.seqno()));
    assert_eq!(trx.enter(), WSREP_BF_ABORT);
    go.send(()).unwrap();
    // This host keeps no fragments of its own clients, so it finds nothing to add to.
    assert_eq!(trx.replay(), WSREP_OK);
    let seqno = trx.seqno();
    one.inner
        .until("the replay", |seen| seen.contains(&Seen::Unknown { seqno }));
    trx.release();
    two.wait_applied("az");
}

#[test]
fn members_give_up_what_a_member_that_left_had_open() {
    let (one, two) = pair(1);
    let mut trx = two.begin("a");
    trx.stream(FIRST);
    one.inner.until("fragment", fragment("a"));
    assert_eq!(one.inner.open_streams(), ["a"]);
    two.disconnect();
    one.inner
        .until("nothing open", |_| one.inner.open_streams().is_empty());
    trx.add("b");
    assert_eq!(trx.certify_as(MIDDLE), WSREP_CONN_FAIL);
    assert_eq!(two.inner.rollback(trx.id()), WSREP_CONN_FAIL);
    trx.release();
}

#[test]
fn restarted_member_keeps_what_is_open_until_the_history_says_otherwise() {
    let (one, two) = pair(1);
    let mut trx = one.begin("a");
    let first = trx.stream(FIRST);
    two.inner.until("fragment", fragment("a"));
    let start = wsrep_gtid_t {
        uuid: one.inner.last_committed().uuid,
        seqno: first,
    };
    one.write("seen by two");
    two.wait_applied("seen by two");
    let held = two.inner.held_streams();
    let (dir, port) = two.stop();
    trx.add("b");
    trx.stream(MIDDLE);
    // Its engine comes back where the first fragment was, with that in its table.
    let two = Server::with("n2", &dir, port, start, "");
    two.inner.hold_streams(held);
    assert_eq!(two.connect(&one.address(), false), WSREP_OK);
    two.add_applier();
    two.wait_synced(1);
    two.inner.until("second fragment", fragment("b"));
    assert_eq!(trx.certify_as(COMMIT), WSREP_OK);
    assert_eq!((trx.enter(), trx.leave()), (WSREP_OK, WSREP_OK));
    trx.release();
    two.wait_applied("ab");
}

//! Aborts of a transaction that is with the group.
//!
//! In a group that works this phase takes no time, so no server can be made to test it. The other
//! phases are tested with a real node, in `tests/live_group`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use synod_node::{GroupId, Pending, ProposalResult, Remedy};

use crate::api::{AbortOutcome, Callbacks, Gtid, ReplayContext, Status, TrxHandle};
use crate::apply::sequencer::Entered;
use crate::connection::Connection;
use crate::connection::departure::Restart;
use crate::connection::joiner::DonorPreference;
use crate::connection::session::{Server, State};
use crate::live_options::LiveOptions;
use crate::position::PositionKeeper;
use crate::server_program::ServerProgram;
use crate::status::LocalState;
use crate::transaction::abort::abort;
use crate::transaction::commit_order::watch_replay;
use crate::transaction::{Phase, Transaction, Transactions};

const TRX: u64 = 17;
/// Longer than anything takes here, unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn connection() -> Arc<Connection> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = format!("synod-transaction-{}-{number}", std::process::id());
    let nowhere = std::env::temp_dir().join(dir);
    let start = Gtid::new(GroupId([1; 16]), 5);
    let callbacks = Callbacks::none();
    let program = ServerProgram::of_this_process().unwrap();
    let server = Server {
        callbacks: callbacks.clone(),
        counters: Arc::default(),
        transactions: Arc::new(Transactions::default()),
        options: Arc::new(LiveOptions::default()),
        events: Arc::default(),
        restart: Arc::new(Restart::new(
            program,
            [nowhere.clone(), nowhere.clone()],
            0,
            Duration::ZERO,
        )),
        other_replication: Arc::default(),
        position: Arc::new(
            PositionKeeper::load(nowhere.clone(), &nowhere, start, callbacks, || {
                Err("it was given".to_owned())
            })
            .unwrap(),
        ),
    };
    // What is open stays open.
    std::fs::remove_dir_all(nowhere).unwrap();
    Connection::new(server, 1, DonorPreference::parse(""), 1 << 20)
}

/// A transaction whose result is not known.
fn certifying(connection: &Connection) -> (TrxHandle, Arc<Transaction>, Arc<Pending>) {
    let (handle, transaction, pending) = being_sent(connection);
    assert!(pending.begin_last_piece());
    (handle, transaction, pending)
}

/// A transaction of which the last piece is not sent yet.
fn being_sent(connection: &Connection) -> (TrxHandle, Arc<Transaction>, Arc<Pending>) {
    let mut handle = TrxHandle {
        trx_id: TRX,
        opaque: None,
    };
    let transaction = connection.session.server.transactions.open(&mut handle);
    let pending = Arc::new(Pending::default());
    {
        let mut gathered = transaction.lock();
        gathered.serial = Some(connection.session.serial);
        gathered.phase = Phase::Certifying(pending.clone());
    }
    (handle, transaction, pending)
}

fn answer(outcome: AbortOutcome) -> (Status, i64) {
    (outcome.status, outcome.victim_seqno)
}

fn ordered(seqno: i64) -> ProposalResult {
    ProposalResult::Ordered {
        seqno: synod_node::Seqno(seqno),
        depends_on: synod_node::Seqno(5),
    }
}

#[test]
fn aborter_waits_until_the_fate_of_its_victim_is_known() {
    let connection = connection();
    let (_, transaction, pending) = certifying(&connection);
    assert_eq!(
        answer(abort(&connection.session, 9, TRX)),
        (Status::NotAllowed, -1)
    );
    assert_eq!(pending.result(), None);
    let outcome = connection.certified(&transaction, ordered(10));
    assert_eq!(outcome.status, Status::BfAbort);
    assert_eq!(outcome.meta.unwrap().gtid.seqno, 10);
    assert_eq!(
        answer(abort(&connection.session, 9, TRX)),
        (Status::NotAllowed, 10),
        "aborted already"
    );
}

/// The server answers 1213 to the client of a transaction that it knows to be aborted.
#[test]
fn victim_with_an_unknown_fate_is_not_told_to_try_again() {
    for fate in [ProposalResult::Unknown, ProposalResult::NotProposed] {
        let connection = connection();
        let (_, transaction, _) = certifying(&connection);
        let answered = abort(&connection.session, -1, TRX);
        assert_eq!(answer(answered), (Status::NotAllowed, -1));
        let outcome = connection.certified(&transaction, fate);
        assert_eq!((outcome.status, outcome.meta), (Status::ConnFail, None));
    }
}

#[test]
fn victim_that_is_being_sent_is_withdrawn() {
    let connection = connection();
    let (_, transaction, pending) = being_sent(&connection);
    assert_eq!(
        answer(abort(&connection.session, 9, TRX)),
        (Status::NotAllowed, -1)
    );
    assert_eq!(pending.wait_for_result(), ProposalResult::Withdrawn);
    let outcome = connection.certified(&transaction, ProposalResult::Withdrawn);
    assert_eq!((outcome.status, outcome.meta), (Status::TrxFail, None));
}

#[test]
fn victim_that_was_refused_is_told_so() {
    let connection = connection();
    let (_, transaction, _) = certifying(&connection);
    abort(&connection.session, 9, TRX);
    let outcome = connection.certified(&transaction, ProposalResult::TooOld);
    assert_eq!(outcome.status, Status::TrxFail);
}

#[test]
fn verdict_that_comes_together_with_an_abort_still_leads_to_a_replay() {
    let connection = connection();
    let (_, transaction, pending) = certifying(&connection);
    synod_member::Client::decide(&*pending, ordered(8));
    assert_eq!(
        answer(abort(&connection.session, -1, TRX)),
        (Status::NotAllowed, 8)
    );
    let outcome = connection.certified(&transaction, ordered(8));
    assert_eq!(outcome.status, Status::BfAbort);
}

#[test]
fn victim_that_is_ordered_before_its_aborter_stays() {
    let connection = connection();
    let (_, transaction, pending) = certifying(&connection);
    synod_member::Client::decide(&*pending, ordered(8));
    assert_eq!(
        answer(abort(&connection.session, 9, TRX)),
        (Status::NotAllowed, 8)
    );
    let outcome = connection.certified(&transaction, ordered(8));
    assert_eq!(outcome.status, Status::Ok);
}

/// The client of a transaction that lost to the action at `with`, in its release.
fn releasing_loser(
    connection: &Arc<Connection>,
    result: ProposalResult,
) -> (Arc<Transaction>, std::thread::JoinHandle<i64>) {
    let (mut handle, transaction, _) = certifying(connection);
    assert_eq!(
        connection.certified(&transaction, result).status,
        Status::TrxFail
    );
    let client = connection.clone();
    let released = std::thread::spawn(move || {
        client.release_transaction(&mut handle);
        client.session.sequencer.left()
    });
    while connection.session.sequencer.position_waiters() == 0 {
        std::thread::yield_now();
    }
    (transaction, released)
}

fn conflict(with: i64) -> ProposalResult {
    ProposalResult::Conflict {
        with: synod_node::Seqno(with),
    }
}

#[test]
fn refused_transaction_waits_in_its_release_until_the_winner_has_left_the_order() {
    let connection = Arc::new(connection());
    let (_, released) = releasing_loser(&connection, conflict(6));
    connection.session.sequencer.enter(6, None);
    connection.session.sequencer.leave(6);
    assert_eq!(released.join().unwrap(), 6);
}

#[test]
fn wait_for_the_winner_ends_with_an_abort_or_with_the_order() {
    let connection = Arc::new(connection());
    let (transaction, released) = releasing_loser(&connection, conflict(i64::MAX));
    assert_eq!(
        answer(abort(&connection.session, 9, TRX)),
        (Status::NotAllowed, -1)
    );
    assert_eq!(released.join().unwrap(), 5);
    let interrupted = &transaction.interrupted;
    assert!(interrupted.load(std::sync::atomic::Ordering::Acquire));

    let (_, released) = releasing_loser(&connection, conflict(i64::MAX));
    connection.session.sequencer.abort();
    assert_eq!(released.join().unwrap(), 5);
}

#[test]
fn refused_victim_does_not_wait_for_its_aborter() {
    let connection = Arc::new(connection());
    let (mut handle, transaction, _) = certifying(&connection);
    abort(&connection.session, 9, TRX);
    let outcome = connection.certified(&transaction, conflict(i64::MAX));
    assert_eq!(outcome.status, Status::TrxFail);
    assert_eq!(transaction.lock().lost_to, None);
    connection.release_transaction(&mut handle);
}

#[test]
fn statement_that_executes_is_waited_for_until_it_wants_the_fragment_gone() {
    let connection = Arc::new(connection());
    let (_, transaction, _) = certifying(&connection);
    {
        let mut gathered = transaction.lock();
        gathered.phase = Phase::Executing;
        gathered.stream = Some(crate::transaction::Stream {
            serial: connection.session.serial,
            first: Some(4),
        });
    }
    connection.session.sequencer.begin_alone(6);
    let waits = {
        let (connection, transaction) = (connection.clone(), transaction.clone());
        std::thread::spawn(move || {
            let alone = connection.session.sequencer.alone();
            let interrupted = &transaction.interrupted;
            connection
                .session
                .sequencer
                .wait_released_unless(alone, None, interrupted)
        })
    };
    assert_eq!(answer(abort(&connection.session, 6, TRX)), (Status::Ok, -1));
    assert!(!waits.join().unwrap());
    assert!(transaction.lock().must_abort);
}

#[test]
fn replay_of_what_never_got_a_place_fails() {
    let connection = connection();
    let (handle, transaction, _) = certifying(&connection);
    connection.certified(&transaction, ProposalResult::TooOld);
    let status = connection.replay(&handle, ReplayContext::for_tests(1));
    assert_eq!(status, Status::TrxFail);
}

/// This server leaves the group before the turn of a transaction that the group has committed.
#[test]
fn what_was_ordered_is_committed_by_the_group_when_its_server_leaves() {
    let connection = Arc::new(connection());
    let (mut handle, transaction, _) = certifying(&connection);
    let outcome = connection.certified(&transaction, ordered(8));
    connection.session.sequencer.abort();
    let entered = connection.commit_order_enter(&handle, &outcome.meta.unwrap());
    assert_eq!(entered, Status::BfAbort);
    let replayed = {
        let connection = connection.clone();
        std::thread::spawn(move || connection.replay(&handle, ReplayContext::for_tests(1)))
    };
    while !matches!(transaction.lock().phase, Phase::Failed) {
        std::thread::yield_now();
    }
    assert!(!replayed.is_finished(), "statements are not refused yet");
    connection.session.update(|state| state.lifecycle.end());
    assert_eq!(replayed.join().unwrap(), Status::Ok);
    assert_eq!(connection.release_transaction(&mut handle), Status::Ok);
}

/// Once a server hung in a replay for twelve minutes while it called itself synced.
#[test]
fn server_that_hangs_in_a_replay_leaves_and_comes_back_by_a_restart() {
    let connection = connection();
    assert!(connection.session.sequencer.begin_local(6));
    watch_replay(&connection.session, 6, Duration::ZERO);
    let failed = |state: &mut State| state.lifecycle.remedy();
    let remedy = connection
        .session
        .wait_for(Some(Instant::now() + LIMIT), failed);
    assert_eq!(remedy, Some(Remedy::Restart));
    let (why, _) = connection.session.departure().unwrap();
    assert!(why.contains("hangs in transaction 6"), "{why}");
    connection.session.shut_down();
}

/// The engine says what its database has, as after a crash: nothing marks that.
#[test]
fn server_whose_library_has_panicked_lets_nothing_in_and_comes_back_by_a_restart() {
    let connection = connection();
    assert!(connection.session.sequencer.begin_local(6));
    connection.session.fence("certify broke", None);
    assert_eq!(
        connection.session.sequencer.enter(6, None),
        Entered::Stopped
    );
    assert!(!connection.session.sequencer.begin_local(7));
    {
        let state = connection.session.state();
        assert_eq!(state.lifecycle.remedy(), Some(Remedy::Restart));
        assert_eq!(state.lifecycle.local(), LocalState::Initialized);
    }
    let (why, _) = connection.session.departure().unwrap();
    assert_eq!(why, "certify broke");
    assert_eq!(
        connection.session.server.position.defects(),
        Vec::<String>::new()
    );
    connection.session.shut_down();
}

#[test]
fn replay_that_ends_in_time_changes_nothing() {
    let connection = connection();
    for seqno in [6, 7] {
        assert!(connection.session.sequencer.begin_local(seqno));
        watch_replay(&connection.session, seqno, LIMIT);
        assert_eq!(
            connection.session.sequencer.enter(seqno, None),
            Entered::Yes
        );
        assert!(connection.session.sequencer.leave(seqno));
        connection.session.release(seqno);
    }
    let begun = Instant::now();
    connection.session.shut_down();
    assert!(begun.elapsed() < LIMIT, "no watch is left");
    assert!(connection.session.departure().is_none());
}

#[test]
fn place_in_an_earlier_connections_order_means_nothing() {
    let connection = connection();
    let (mut handle, transaction, _) = certifying(&connection);
    {
        let mut gathered = transaction.lock();
        gathered.serial = Some(connection.session.serial + 1);
        gathered.phase = Phase::Ordered(6);
    }
    let meta = connection
        .session
        .local_meta(&transaction, &transaction.lock(), 6);
    assert_eq!(
        connection.commit_order_enter(&handle, &meta),
        Status::BfAbort
    );
    assert_eq!(
        connection.replay(&handle, ReplayContext::for_tests(1)),
        Status::Ok,
        "the group has it"
    );
    transaction.lock().phase = Phase::Left(6);
    assert_eq!(connection.release_transaction(&mut handle), Status::Ok);
    assert_eq!(connection.session.sequencer.released(), 5);
}

//! Clients that wait for databases: a read for this server's, a commit for those of the others.
//!
//! # Reads
//!
//! A read may have to see everything acknowledged before it began. The server calls this with
//! `wsrep_sync_wait`, and scripts that copy a database call it, too. The leader answers the group's
//! position; the read waits until everything up to it is released here.
//!
//! With `synod.max_staleness`, reads do not wait while answers to earlier ones prove that what is
//! released here is recent enough. A read that finds the last question older than half of the bound
//! has the next one asked meanwhile, so that reads that come often enough do not wait at all.
//!
//! # Commits
//!
//! With `synod.commit_wait=applied`, clients are told OK when the databases of all other servers
//! have their commit. The node says up to where that is so, and which servers count. Nothing here
//! can fail: the commit is durable, and the wait ends with the connection at the latest.
//!
//! The server's call that ends a commit holds a lock of the client's session, which a `KILL` needs,
//! and a statement that meets the session's locks. So the thread does not wait there: the server
//! holds back its reply. Only the thread of a server that cannot do so waits itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use synod_node::Seqno;
use synod_planted::planted;

use crate::api::{Gtid, Status};
use crate::boundary::HeldReply;
use crate::connection::session::Session;
use crate::sync::atomic::{AtomicI64, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::transaction::streamed_transactions::wait_streams_rolled_back;
use crate::waiting::Gate;

/// Time after which the group's position is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Waits until this server has everything up to `upto`, or up to the group's present position.
pub(crate) fn sync_wait(
    session: &Session,
    upto: Option<Gtid>,
    timeout: Duration,
) -> (Status, Gtid) {
    if !session.state().lifecycle.is_tracked() {
        // The database is being replaced, and the client is most likely the script that does
        // it: a wait for its end would never return.
        return (Status::TrxFail, Gtid::UNDEFINED);
    }
    // A time-out may be as long as the server can express.
    let deadline = Instant::now().checked_add(timeout);
    let target = match upto {
        Some(gtid) if gtid.group != session.group() => {
            return (Status::TrxMissing, Gtid::UNDEFINED);
        }
        Some(gtid) => Some(gtid.seqno),
        None if is_recent(session) => return (Status::Ok, last_committed(session)),
        None => {
            session.server.counters.causal_reads.one();
            // What this server has asked the group to do came before the read, too.
            match wait_streams_rolled_back(session, deadline) {
                true => group_position(session, deadline),
                false => None,
            }
        }
    };
    let reached = target.is_some_and(|seqno| session.sequencer.wait_released(seqno, deadline));
    match reached {
        true => (Status::Ok, last_committed(session)),
        false => (Status::TrxFail, Gtid::UNDEFINED),
    }
}

/// Whether what is released here is known to be as recent as `synod.max_staleness` wants it.
fn is_recent(session: &Session) -> bool {
    let bound = session.server.options.staleness_max();
    let Some(node) = session.node().filter(|_| !bound.is_zero()) else {
        return false;
    };
    let age = node.staleness(Seqno(session.sequencer.released()));
    let is_recent = age.is_some_and(|age| age <= bound);
    if is_recent {
        node.keep_fresh(bound / 2);
    }
    is_recent
}

/// `None` by the deadline, or without a quorum.
fn group_position(session: &Session, deadline: Option<Instant>) -> Option<i64> {
    let node = session.node()?;
    // A question may be lost with the leader it was put to.
    while session.is_primary() {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let limit = left.map_or(ASK_AGAIN, |left| left.min(ASK_AGAIN));
        if let Some(seqno) = node.read_position(limit) {
            return Some(seqno.0);
        }
        if left.is_some_and(|left| left <= ASK_AGAIN) {
            return None;
        }
    }
    None
}

/// The highest position with everything up to it finished here.
pub(crate) fn last_committed(session: &Session) -> Gtid {
    let (group, seqno) = (session.group(), session.sequencer.released());
    if group == synod_node::GroupId::NONE || seqno < 0 {
        return Gtid::UNDEFINED;
    }
    Gtid { group, seqno }
}

/// Up to where the others have applied, and who waits for it.
pub(crate) struct HeldCommits {
    /// Everything up to here is applied on all servers that are waited for.
    reached: AtomicI64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the seqno waited for, and a number of their own.
    waits: BTreeMap<(i64, u64), Wait>,
    tickets: u64,
    /// The connection ends: there is nothing to wait for any more.
    is_over: bool,
}

/// The wait of a client: until this is dropped.
pub(crate) struct Wait {
    pub(crate) since: Instant,
    /// Start of the commit that is waited for; none: it is a statement.
    pub(crate) commit_began: Option<Instant>,
    _hold: Hold,
}

/// The means that holds a client up.
enum Hold {
    Reply(#[expect(dead_code, reason = "its end is what counts")] HeldReply),
    Thread(Gate),
}

impl Hold {
    /// Holds up the calling thread's client; and where the thread has to wait, if it has to.
    fn begin() -> (Hold, Option<Gate>) {
        match HeldReply::hold() {
            Some(reply) => (Hold::Reply(reply), None),
            None => {
                let gate = Gate::default();
                (Hold::Thread(gate.clone()), Some(gate))
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Hold::Thread(gate) = self {
            gate.wake();
        }
    }
}

impl Default for HeldCommits {
    fn default() -> HeldCommits {
        HeldCommits {
            reached: AtomicI64::new(i64::MAX),
            state: Mutex::default(),
        }
    }
}

impl HeldCommits {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Everything up to `seqno` is applied on all servers that are waited for: the waits that end.
    #[must_use = "clients wait as long as these live"]
    pub(crate) fn reach(&self, seqno: i64) -> Vec<Wait> {
        let mut state = self.lock();
        self.reached.store(seqno, Ordering::Release);
        let later = state.waits.split_off(&(seqno.saturating_add(1), 0));
        let ended = std::mem::replace(&mut state.waits, later);
        ended.into_values().collect()
    }

    /// Ends all waits, and those that begin later.
    #[must_use = "clients wait as long as these live"]
    pub(crate) fn end(&self) -> Vec<Wait> {
        let mut state = self.lock();
        state.is_over = true;
        std::mem::take(&mut state.waits).into_values().collect()
    }

    /// Holds the calling thread's client up until the action at `seqno` is applied everywhere.
    /// False: it is.
    pub(crate) fn hold_up(&self, seqno: i64, commit_began: Option<Instant>) -> bool {
        if self.reached.load(Ordering::Acquire) >= seqno {
            return false;
        }
        let (hold, gate) = Hold::begin();
        let mut state = self.lock();
        let is_due = state.is_over || self.reached.load(Ordering::Acquire) >= seqno;
        if planted!(WaitUnchecked, is_due, else false) {
            return false;
        }
        state.tickets += 1;
        let key = (seqno, state.tickets);
        let wait = Wait {
            since: Instant::now(),
            commit_began,
            _hold: hold,
        };
        state.waits.insert(key, wait);
        drop(state);
        if let Some(gate) = gate {
            // Only the end of this wait wakes it.
            gate.wait_until(None);
        }
        true
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waits.len()
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod model {
    use std::sync::Arc;

    use synod_planted::Bug;

    use super::*;
    use crate::sync::{model, thread};

    /// Three commits wait while the others apply two of them, and then the connection ends.
    fn every_client_is_told() {
        let waits = Arc::new(HeldCommits::default());
        drop(waits.reach(3));
        let clients = [4, 5, 9].map(|seqno| {
            let waits = waits.clone();
            thread::spawn(move || waits.hold_up(seqno, None))
        });
        for seqno in [4, 5] {
            drop(waits.reach(seqno));
        }
        drop(waits.end());
        for client in clients {
            client.join().unwrap();
        }
        assert_eq!(waits.waiting(), 0);
    }

    #[test]
    fn no_client_waits_for_ever_in_every_schedule() {
        model::holds(every_client_is_told);
    }

    #[test]
    fn planted_bugs_are_found() {
        for bug in [Bug::WaitUnchecked, Bug::ForgetWake] {
            model::finds(bug, every_client_is_told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn client_waits_for_its_own_action_and_for_no_longer() {
        let elsewhere = HeldCommits::default();
        assert!(!elsewhere.hold_up(5, None));
        drop(elsewhere.reach(3));
        assert!(!elsewhere.hold_up(3, None));
        let (done, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            for seqno in [4, 5, 5, 9] {
                let (elsewhere, done) = (&elsewhere, done.clone());
                scope.spawn(move || {
                    assert!(elsewhere.hold_up(seqno, None));
                    done.send(seqno).expect("received below");
                });
            }
            while elsewhere.waiting() < 4 {
                std::thread::yield_now();
            }
            drop(elsewhere.reach(5));
            let mut woken: Vec<i64> = (0..3).map(|_| ended.recv().unwrap()).collect();
            woken.sort_unstable();
            assert_eq!(woken, [4, 5, 5]);
            assert_eq!(elsewhere.waiting(), 1);
            assert!(elsewhere.reach(2).is_empty());
            assert_eq!(elsewhere.waiting(), 1, "another server lags further");
            drop(elsewhere.end());
            assert_eq!(ended.recv(), Ok(9));
        });
        assert!(!elsewhere.hold_up(10, None));
    }
}

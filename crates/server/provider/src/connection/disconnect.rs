//! End of a connection: the server disconnects, or leaves by itself.
//!
//! ```text
//!  disconnect ┬─► nothing new begins ─► what has begun is finished ─► the last applier shows the
//!  leave ─────┘       (closing)          (not if the data differ)     final view ─► the node ends
//!    └─► a restart, or a line each minute for a person (`returning.rs`)
//! ```
//! Only the final view lets the server finish. It is shown exactly once, by the last applier, even
//! if that applier arrives after everything else is over.
//!
//! A streamed transaction that is open when its server dies is not rolled back here: the next view
//! is without the server, and every other server rolls it back
//! (`transaction/stream_rollbacks.rs`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_node::{DataState, Node, Remedy};

use crate::api::{CAPABILITIES, LogLevel, RecvContext, Status, View};
use crate::boundary;
use crate::connection::Connection;
use crate::status::LocalState;

/// Longest wait of a disconnect for local transactions that are with the group.
pub(crate) const LANDING_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for a transaction that has begun when the order ends.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait of `disconnect` for the appliers; the server waits for the final view by itself.
const GOING_LIMIT: Duration = Duration::from_secs(5);

/// Trust in the data of a server that leaves its group by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// They are what the group had, up to some action.
    Good,
    /// They are good, but what follows them is in no log: the next start takes a full copy.
    Outdated,
    /// They may differ from the other servers': the next start takes a full copy.
    Differ,
}

impl Data {
    /// Consequence for the operator, for the error log.
    fn consequence(self) -> &'static str {
        match self {
            Data::Good | Data::Outdated => "",
            Data::Differ => {
                ". This server leaves the group, since its data may differ from the other \
                 servers'. Find out why before you start it again: the next start replaces its \
                 data \
                 by a full copy (SST)"
            }
        }
    }
}

/// The threads of a connection, and what happens once in its life.
#[derive(Default)]
pub(crate) struct Shutdown {
    /// The first applier has begun to join.
    join_begun: AtomicBool,
    /// The final view is being shown, or was.
    final_view: AtomicBool,
    /// Stops the node once the other members can do without it.
    closer: Mutex<Option<JoinHandle<()>>>,
    /// Has the group roll back streamed transactions.
    rollbacks: Mutex<Option<JoinHandle<()>>>,
    /// Notes in the log how statements have ended.
    outcome_notes: Mutex<Option<JoinHandle<()>>>,
    /// Watches the start of the server.
    start_watch: Mutex<Option<JoinHandle<()>>>,
    /// Watches the last transaction that was applied again.
    replay_watch: Mutex<Option<JoinHandle<()>>>,
    /// Brings the server back after it has left by itself.
    returning: Mutex<Option<JoinHandle<()>>>,
    /// Waits until the engine has flushed what the database lacked.
    healing: Mutex<Option<JoinHandle<()>>>,
    /// Held while the node is being stopped.
    stopping: Arc<Mutex<()>>,
}

impl Shutdown {
    /// True for the first applier, which joins the group for all.
    pub(crate) fn begin_join(&self) -> bool {
        !self.join_begun.swap(true, Ordering::AcqRel)
    }

    fn has_join_begun(&self) -> bool {
        self.join_begun.load(Ordering::Acquire)
    }

    /// True for the thread that shall show the final view.
    fn begin_final_view(&self) -> bool {
        !self.final_view.swap(true, Ordering::AcqRel)
    }

    /// The thread that orders rollbacks of streamed transactions has started.
    pub(crate) fn keep_rollbacks(&self, thread: JoinHandle<()>) {
        *lock(&self.rollbacks) = Some(thread);
    }

    /// The thread that notes outcomes has started.
    fn keep_outcome_notes(&self, thread: JoinHandle<()>) {
        *lock(&self.outcome_notes) = Some(thread);
    }

    fn keep_start_watch(&self, thread: JoinHandle<()>) {
        *lock(&self.start_watch) = Some(thread);
    }

    fn keep_closer(&self, thread: JoinHandle<()>) {
        *lock(&self.closer) = Some(thread);
    }

    /// Stops the node's threads, after leaving the group if that has this member. A second caller
    /// waits for the first.
    pub(crate) fn stop_node(&self, node: &Node, is_in_group: bool) {
        stop_node(&self.stopping, node, is_in_group);
    }

    /// Waits for the threads, once the node is stopped or being stopped.
    fn join_threads(&self) {
        for thread in [
            &self.closer,
            &self.rollbacks,
            &self.outcome_notes,
            &self.start_watch,
            &self.replay_watch,
            &self.returning,
            &self.healing,
        ] {
            let thread = lock(thread).take();
            if let Some(thread) = thread {
                // A thread that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stop_node(stopping: &Mutex<()>, node: &Node, is_in_group: bool) {
    let _one = lock(stopping);
    // Without a view of this session there is nothing to leave, and often no leader to ask.
    if is_in_group {
        node.leave();
    }
    node.stop();
}

impl Connection {
    /// The server leaves the group. Returns when the appliers are gone; if one is still busy (a
    /// long DDL statement, say), it shows the final view when it is done.
    pub(crate) fn disconnect(&self) {
        // If it is just about to come back by itself, it need not any more.
        self.update(|state| state.lifecycle.release());
        self.begin_closing();
        self.wait_landed(Instant::now() + LANDING_LIMIT);
        self.sequencer.stop(Instant::now() + DRAIN_LIMIT);
        self.close_node();
        self.sequencer.finish();
        // Not if no applier has come yet: one that comes later shows the final view to the server,
        // which waits for it.
        if self.shutdown.has_join_begun() {
            let ended = Instant::now() + GOING_LIMIT;
            self.wait_for(Some(ended), |state| {
                state.lifecycle.has_ended().then_some(())
            });
        }
        self.join_threads();
    }

    /// This server leaves the group by itself: the one way out that no client has asked for.
    /// Nothing
    /// new begins, and `remedy` brings the server back. The first reason counts, unless a later one
    /// says that the data differ. True if this one counts.
    ///
    /// What is inside the order may finish; who can't have that aborts the order next.
    pub(crate) fn leave(&self, why: &str, data: Data, remedy: Remedy) -> bool {
        self.leave_saying(LogLevel::Error, why, data, remedy)
    }

    /// [`Connection::leave`], for a reason that has been logged already.
    pub(crate) fn leave_saying(
        &self,
        level: LogLevel,
        why: &str,
        data: Data,
        remedy: Remedy,
    ) -> bool {
        let is_asked_to = self.is_leaving_by_request();
        let counts = self.update(|state| match data {
            Data::Differ => state.lifecycle.fail_as_inconsistent(why, remedy),
            Data::Good | Data::Outdated => state.lifecycle.fail(why, remedy),
        });
        // After the reason: a connection that closes without one closes by request.
        self.begin_closing();
        if counts {
            if data != Data::Good {
                // Before the appliers go: the last one saves the position of a database that is
                // good, and shows the server its last view.
                self.shared.position.unusable(self.group(), why);
            }
            if data == Data::Differ {
                self.report(DataState::Error);
            }
            if !is_asked_to {
                self.begin_return();
            }
            self.log(level, format!("{why}{}", data.consequence()));
        }
        match data {
            Data::Differ => self.sequencer.abort(),
            Data::Good | Data::Outdated => self.sequencer.stop(Instant::now() + DRAIN_LIMIT),
        }
        counts
    }

    /// A panic, which has been logged: acknowledge nothing more, let every thread go. Does not
    /// wait.
    /// What the database has is what its engine says, as after a crash.
    pub(crate) fn fence(&self, reason: &str, ctx: Option<RecvContext>) {
        self.leave_saying(LogLevel::Info, reason, Data::Good, Remedy::Restart);
        self.set_local(LocalState::Initialized);
        self.sequencer.abort();
        // An applier that panicked is not counted any more.
        if let Some(ctx) = ctx.filter(|_| self.sequencer.appliers() == 0) {
            self.show_end(ctx);
            self.close_in_background();
        }
    }

    /// An applier goes because the order has ended.
    pub(crate) fn end(&self, ctx: RecvContext, last: bool) -> Status {
        if !last {
            return Status::ConnFail;
        }
        self.save_position();
        self.show_end(ctx);
        self.close_in_background();
        Status::Ok
    }

    /// Before the final view, since the server may be gone soon after.
    fn save_position(&self) {
        let trusted = self.state().lifecycle.may_save_position();
        // A client may still be inside the order; then the engine alone knows.
        if trusted && self.sequencer.is_settled() {
            self.shared
                .position
                .settled(self.group(), self.sequencer.released());
        }
    }

    /// An inconsistent server is first shown that it has no group any more, as by Galera.
    fn show_inconsistent(&self, ctx: RecvContext) {
        let view = {
            let state = self.state();
            let evicted = state.lifecycle.is_inconsistent() && state.views.is_primary();
            state.views.latest().cloned().filter(|_| evicted)
        };
        let Some(view) = view else { return };
        let lost = self.view_frame(self.sequencer.released()).lost_view(&view);
        if let Err(error) = self.shared.callbacks.view(ctx, &lost) {
            self.log(LogLevel::Error, format!("last view but one: {error}"));
        }
        self.update(|state| state.views.lose());
    }

    /// The final view, without which the server waits for ever. Once.
    fn show_end(&self, ctx: RecvContext) {
        if !self.shutdown.begin_final_view() {
            return;
        }
        self.show_inconsistent(ctx);
        // The server may end as soon as it has the view.
        self.shared.callbacks.flush_log();
        let position = self.gtid(self.sequencer.released());
        let view = View::last(position, CAPABILITIES);
        if let Err(error) = self.shared.callbacks.view(ctx, &view) {
            self.log(LogLevel::Error, format!("final view: {error}"));
        }
        self.update(|state| {
            state.lifecycle.end();
            state.views.lose();
        });
    }

    /// Leaves the group and stops the node's threads. A second caller waits for the first.
    pub(crate) fn close_node(&self) {
        if let Some(node) = self.node() {
            let is_in_group = self.state().joined.is_some();
            self.shutdown.stop_node(node, is_in_group);
        }
    }

    /// Runs [`Connection::close_node`] on its own thread: the caller is the server's.
    fn close_in_background(&self) {
        let Some(node) = self.node().cloned() else {
            return;
        };
        let stopping = self.shutdown.stopping.clone();
        let (keeps_vote, is_in_group) = {
            let state = self.state();
            (state.lifecycle.keeps_vote(), state.joined.is_some())
        };
        let close = move || {
            // The database is out, the log is not: this member votes until the others have a
            // quorum without it. Closing the node meanwhile ends the wait.
            if keeps_vote {
                node.leave_when_not_needed();
            }
            stop_node(&stopping, &node, is_in_group);
        };
        match boundary::spawn("synod-close", close) {
            Ok(thread) => self.shutdown.keep_closer(thread),
            Err(error) => {
                self.log(
                    LogLevel::Warn,
                    format!("cannot start thread synod-close: {error}"),
                );
                self.close_node();
            }
        }
    }

    /// True for the first applier, which joins the group for all.
    pub(crate) fn begins_join(&self) -> bool {
        self.shutdown.begin_join()
    }

    /// Keeps the thread that orders rollbacks of streamed transactions, to be joined at the end.
    pub(crate) fn keep_rollbacks(&self, thread: JoinHandle<()>) {
        self.shutdown.keep_rollbacks(thread);
    }

    /// The thread that notes outcomes of statements has started.
    pub(crate) fn keep_outcome_notes(&self, thread: JoinHandle<()>) {
        self.shutdown.keep_outcome_notes(thread);
    }

    /// Keeps the thread that watches the start of the server, to be joined at the end.
    pub(crate) fn keep_start_watch(&self, thread: JoinHandle<()>) {
        self.shutdown.keep_start_watch(thread);
    }

    /// Keeps the thread that watches a replay, to be joined at the end. The one before ends now:
    /// replays have their turns one after the other.
    pub(crate) fn keep_replay_watch(&self, thread: JoinHandle<()>) {
        let before = lock(&self.shutdown.replay_watch).replace(thread);
        if let Some(before) = before {
            // A thread that panicked has said so.
            let _ = before.join();
        }
    }

    /// Starts the thread that brings the server back, unless it runs, and keeps it, to be joined at
    /// the end.
    pub(super) fn start_return(
        &self,
        start: impl FnOnce() -> io::Result<JoinHandle<()>>,
    ) -> io::Result<()> {
        let mut returning = lock(&self.shutdown.returning);
        if returning.is_none() {
            *returning = Some(start()?);
        }
        Ok(())
    }

    /// Keeps the thread that waits for the engine, to be joined at the end.
    pub(crate) fn keep_healing(&self, thread: JoinHandle<()>) {
        *lock(&self.shutdown.healing) = Some(thread);
    }

    /// Waits for this connection's threads, once the node is stopped or being stopped.
    pub(crate) fn join_threads(&self) {
        self.update(|state| state.lifecycle.release());
        self.shutdown.join_threads();
    }

    /// The library may be unloaded when this returns.
    pub(crate) fn shut_down(&self) {
        self.begin_closing();
        self.sequencer.abort();
        self.close_node();
        self.join_threads();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_applier_joins_and_one_thread_shows_the_final_view() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.has_join_begun());
        assert!(shutdown.begin_join());
        assert!(!shutdown.begin_join());
        assert!(shutdown.has_join_begun());
        assert!(shutdown.begin_final_view());
        assert!(!shutdown.begin_final_view());
    }
}

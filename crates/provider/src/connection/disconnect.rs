//! How a connection ends: because the server wants it, because the node failed, or because this
//! server's data differ from the others'.
//!
//! ```text
//!  disconnect ─┐
//!  fail ───────┼─► nothing new begins ─► what has begun is finished ─► the last applier shows the
//!  inconsistent┘        (closing)          (not when inconsistent)     final view ─► the node ends
//! ```
//! The final view alone lets the server finish: it is shown exactly once, by whichever applier is the
//! last, even if that one arrives after everything else is over.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::DataState;

use crate::api::CAPABILITIES;
use crate::api::{Gtid, LogLevel, RecvContext, Status, View};
use crate::boundary;
use crate::connection::Connection;
use crate::status::LocalState;

/// Local transactions in the group's hands are waited for so long before leaving.
const LANDING_LIMIT: Duration = Duration::from_secs(3);
/// What has begun when the order ends may take so long to finish.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// `disconnect` waits so long for the appliers to go; the server waits for the final view by itself.
const GOING_LIMIT: Duration = Duration::from_secs(5);

impl Connection {
    /// The server leaves the group. Returns when the appliers are gone; if one is still busy (a long
    /// DDL statement, say), it shows the final view when it is done.
    pub(crate) fn disconnect(&self) {
        self.begin_closing();
        self.wait_landed(Instant::now() + LANDING_LIMIT);
        self.sequencer.stop(Instant::now() + DRAIN_LIMIT);
        self.close_node();
        self.sequencer.finish();
        // Not if no applier has come yet: who comes later shows the final view to a server that waits.
        if self.joining.load(Ordering::Acquire) {
            let ended = Instant::now() + GOING_LIMIT;
            self.wait_for(Some(ended), |state| state.ended.then_some(()));
        }
        self.join_closer();
    }

    /// The connection cannot go on, but the data are good.
    pub(crate) fn fail(&self, why: &str) {
        self.fail_saying(LogLevel::Error, why);
    }

    /// As [`Connection::fail`]; how loudly, depends on who has said it already.
    pub(crate) fn fail_saying(&self, level: LogLevel, why: &str) {
        self.begin_closing();
        let first = self.update(|state| {
            let first = state.failure.is_none();
            state.failure.get_or_insert_with(|| why.to_owned());
            first
        });
        if first {
            self.log(level, why);
        }
        self.sequencer.stop(Instant::now() + DRAIN_LIMIT);
    }

    /// This server cannot apply what the others applied: it leaves, and says so. Nothing after the
    /// failed action gets into the database.
    pub(crate) fn inconsistent(&self, why: &str) {
        // In words that operators' tools know from Galera.
        self.leave_as_inconsistent(&format!("Inconsistency detected: {why}"));
    }

    /// As [`Connection::inconsistent`], in other words.
    pub(crate) fn leave_as_inconsistent(&self, why: &str) {
        self.begin_closing();
        let first = self.update(|state| {
            state.failure.get_or_insert_with(|| why.to_owned());
            std::mem::replace(&mut state.local, LocalState::Inconsistent)
                != LocalState::Inconsistent
        });
        if first {
            // Before the appliers go: the last one saves the position of a database that is good, and
            // shows the server its last view.
            self.position.unusable();
            self.report(DataState::Error);
            self.log(
                LogLevel::Error,
                format!(
                    "{why}. This server leaves the group, since its data may differ from the \
                     others'. Find out why before you go on; its data are kept as they are until \
                     the next start, which takes a full copy"
                ),
            );
        }
        self.sequencer.cut();
    }

    /// A panic: acknowledge nothing more, let every thread go. Does not wait.
    pub(crate) fn fence(&self, ctx: Option<RecvContext>) {
        self.begin_closing();
        self.update(|state| state.local = LocalState::Inconsistent);
        self.sequencer.cut();
        // Whoever panicked on an applier's thread is not counted any more.
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
        let trusted = {
            let state = self.state();
            state.tracked && state.local != LocalState::Inconsistent && !state.ended
        };
        // A client may still be inside the order; then the engine alone knows.
        if trusted && self.sequencer.is_settled() {
            self.position
                .settled(self.group(), self.sequencer.released());
        }
    }

    /// A server that is thrown out is first shown that it has no group any more, as by Galera.
    fn show_inconsistent(&self, ctx: RecvContext) {
        let view = {
            let state = self.state();
            let thrown_out = state.local == LocalState::Inconsistent && state.shown_primary;
            state.view.clone().filter(|_| thrown_out)
        };
        let Some(view) = view else { return };
        if let Err(error) = self.callbacks.view(ctx, &self.lost_view(&view)) {
            self.log(LogLevel::Error, format!("last view but one: {error}"));
        }
        self.update(|state| state.shown_primary = false);
    }

    /// The final view, without which the server waits for ever. Once.
    fn show_end(&self, ctx: RecvContext) {
        if self.final_view.swap(true, Ordering::AcqRel) {
            return;
        }
        self.show_inconsistent(ctx);
        let position = Gtid {
            group: self.group(),
            seqno: self.sequencer.released(),
        };
        let view = View::last(position, CAPABILITIES);
        if let Err(error) = self.callbacks.view(ctx, &view) {
            self.log(LogLevel::Error, format!("final view: {error}"));
        }
        self.update(|state| {
            state.ended = true;
            state.shown_primary = false;
            if state.local != LocalState::Inconsistent {
                state.local = LocalState::Initialized;
            }
        });
    }

    /// Leaves the group and stops the node's threads. Who comes second waits for the first.
    pub(crate) fn close_node(&self) {
        let _one = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = self.node() {
            node.leave();
            node.stop();
        }
    }

    /// As [`Connection::close_node`], on a thread of its own: the caller is the server's.
    fn close_in_background(&self) {
        let Some(node) = self.node().cloned() else {
            return;
        };
        let stopping = self.stopping.clone();
        let keeps_vote = self.state().local == LocalState::Inconsistent;
        let close = move || {
            // The database differs from the others', the log does not: the vote that goes with it is
            // kept until they can do without. Whoever closes the node meanwhile ends this.
            if keeps_vote {
                node.leave_when_not_needed();
            }
            let _one = stopping.lock().unwrap_or_else(PoisonError::into_inner);
            node.leave();
            node.stop();
        };
        match boundary::spawn("synod-close", close) {
            Ok(thread) => {
                let mut closer = self.closer.lock().unwrap_or_else(PoisonError::into_inner);
                *closer = Some(thread);
            }
            Err(error) => {
                self.log(
                    LogLevel::Warn,
                    format!("cannot start thread synod-close: {error}"),
                );
                self.close_node();
            }
        }
    }

    /// Waits for this connection's threads, once the node is stopped or being stopped.
    pub(crate) fn join_closer(&self) {
        for thread in [&self.closer, &self.stream_ender] {
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                // A thread that panicked has said so.
                let _ = thread.join();
            }
        }
    }

    /// The library may be unloaded when this returns.
    pub(crate) fn shut_down(&self) {
        self.begin_closing();
        self.sequencer.cut();
        self.close_node();
        self.join_closer();
    }
}

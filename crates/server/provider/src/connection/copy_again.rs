//! A starting server whose full copy (SST) has failed takes another one.
//!
//! ```text
//!   the copy fails ─► its programs are ended ─► pause ─► the server's program is started again,
//!                                                 │      in this process
//!                                                 └────► an order to end: the server ends
//! ```
//! A server cannot ask for a second copy in one life, and ends if it hears that its copy has
//! failed. A donor that dies is no reason for that: other members may be donors. So the server
//! hears of the failure only if it is to end (`sst_joiner.rs`), and otherwise its program takes the
//! place of this process, as after a failure in service (`returning.rs`). What it has of the copy
//! is marked as unusable. It is the same when this member's node has failed during the copy: the
//! log's disk is full, say.
//!
//! The programs that receive the copy are ended in any case, and the server's thread that waits for
//! them reports their end. They hold the port of the next copy, and a server that ends waits for
//! them, and they for a donor; one that ends before that thread was seen to crash (10.11.19).

use std::time::{Duration, Instant};

use synod_node::Remedy;

use crate::api::LogLevel;
use crate::boundary;
use crate::connection::returning::pause;
use crate::connection::start_watch::LOOK;
use crate::connection::{Connection, State};
use crate::status::LocalState;

/// Time limit for the server to notice that its scripts have ended.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

impl Connection {
    /// Starts the server again if it was taking a full copy. Returns only if it was not, or is to
    /// end instead: by an order, by its operator's setting, or because only a person helps.
    pub(crate) fn take_copy_again(&self, why: &str) {
        let was_copying = {
            let state = self.state();
            state.lifecycle.local() == LocalState::ReceivingStateTransfer
        };
        if !was_copying {
            return;
        }
        self.log(
            LogLevel::Warn,
            format!("the full copy (SST) has failed: {why}"),
        );
        self.end_scripts();
        if self.is_to_end() || !self.shared.options.restarts_on_failure() {
            return;
        }
        for tries in self.shared.restart.restarts().. {
            let pause = pause(tries);
            let text = format!(
                "this server takes another full copy by itself, after a pause of {pause:?}"
            );
            self.log(LogLevel::Info, text);
            if self.ends_within(pause) {
                return;
            }
            let line = "starting this server again, for a full copy";
            let obstacle = self.try_restart(LogLevel::Info, line);
            let text = format!("this server cannot start itself again: {obstacle}");
            self.log(LogLevel::Error, text);
        }
    }

    fn end_scripts(&self) {
        boundary::end_children();
        let ended = |state: &mut State| (!state.sst.has_scripts()).then_some(());
        self.wait_for(Some(Instant::now() + REPORT_LIMIT), ended);
    }

    /// Whether the server is ordered to end within this time. A signal stays pending while the
    /// server starts, and no other thread looks for it once the node has failed.
    fn ends_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.is_to_end() {
            let now = Instant::now();
            if now >= end {
                return false;
            }
            let ends = |state: &mut State| is_ended(state).then_some(());
            self.wait_for(Some(end.min(now + LOOK)), ends);
        }
        true
    }

    fn is_to_end(&self) -> bool {
        boundary::pending_order_to_end().is_some() || is_ended(&self.state())
    }
}

/// Whether the server has ended the connection, or what has happened to it needs a person.
fn is_ended(state: &State) -> bool {
    let lifecycle = &state.lifecycle;
    lifecycle.is_released() || lifecycle.remedy() == Some(Remedy::Operator)
}

//! Watches a server that starts, until it has its place in the group.
//!
//! The server's main thread waits in `connect` for the group, then in the server for the first view
//! or a full copy (SST). Neither wait hears a signal, and the first has no end by default. So a
//! thread looks for an order to end, and then ends the wait that is under way; and it tells the
//! service manager that the start is alive. Lines about what is missing are the member's
//! (`crates/core/member/src/driver/membership/join_watch.rs`).
//!
//! Only the connection that the server makes at its start is watched: a running server takes its
//! signals itself.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_node::Remedy;

use crate::api::LogLevel;
use crate::boundary;
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::service_manager::ServiceManager;
use crate::status::LocalState;

/// Time between two looks for an order to end.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Time between two messages to the service manager.
const TELL: Duration = Duration::from_secs(10);
/// Extension of the start's time limit by each of them.
const EXTENSION: Duration = Duration::from_secs(60);

/// The last warning since the connection was made, for the service manager.
#[derive(Default)]
pub(crate) struct StartWarning(Mutex<Option<String>>);

impl StartWarning {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Starts the thread that watches the server's start.
    pub(crate) fn watch_start(self: &Arc<Connection>) -> io::Result<()> {
        let connection = self.clone();
        let manager = ServiceManager::from_environment();
        let thread = boundary::spawn("synod-start", move || {
            connection.look_after_start(manager.as_ref());
        })?;
        self.keep_start_watch(thread);
        Ok(())
    }

    fn look_after_start(&self, manager: Option<&ServiceManager>) {
        let mut tell_at = Instant::now();
        while !self.is_start_over() {
            if let Some(signal) = boundary::pending_order_to_end() {
                return self.end_start(signal);
            }
            let now = Instant::now();
            if let Some(manager) = manager.filter(|_| now >= tell_at) {
                manager.extend_start(EXTENSION, &self.start_status());
                tell_at = now + TELL;
            }
            let over = |state: &mut super::State| self.is_over_in(state).then_some(());
            self.wait_for(Some(now + LOOK), over);
        }
    }

    /// Has the server end its start. A server that takes a full copy (SST) ends when its copy
    /// script does, and not before.
    fn end_start(&self, signal: &str) {
        let why = format!("{signal} came while the server was starting: it ends");
        let is_copying = self.state().lifecycle.local() == LocalState::ReceivingStateTransfer;
        if is_copying && boundary::end_children() > 0 {
            return self.log(LogLevel::Info, why);
        }
        self.leave_saying(LogLevel::Info, &why, Data::Good, Remedy::Operator);
    }

    fn is_start_over(&self) -> bool {
        self.is_over_in(&self.state())
    }

    fn is_over_in(&self, state: &super::State) -> bool {
        self.is_closing() || state.lifecycle.has_place()
    }

    /// The text that `systemctl status` shows: what the start waits for. `systemctl start`
    /// itself shows nothing while it waits: so the last warning is told there, too.
    fn start_status(&self) -> String {
        let state = self.state();
        let waits_for = match (&state.joined, state.lifecycle.local()) {
            (None, _) => "Waiting for the cluster: a majority of its members must run",
            (Some(_), LocalState::ReceivingStateTransfer) => "Receiving a full copy (SST)",
            (Some(_), _) => "Joining the cluster",
        };
        drop(state);
        match self.last_start_warning() {
            Some(warning) => format!("{waits_for}. Last warning: {warning}"),
            None => waits_for.to_owned(),
        }
    }

    /// The last warning of a server that has no place in the group yet: the likely cause.
    pub(crate) fn last_start_warning(&self) -> Option<String> {
        self.start_warning.lock().clone()
    }

    /// Keeps a warning of a server that has no place in the group yet.
    pub(crate) fn warned_at_start(&self, text: &str) {
        *self.start_warning.lock() = Some(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::transaction::tests::connection;

    #[test]
    fn service_manager_is_told_of_the_last_warning() {
        let connection = connection();
        let waits = "Waiting for the cluster: a majority of its members must run";
        assert_eq!(connection.start_status(), waits);
        connection.warned_at_start("db2 refuses: its group secret differs");
        let warned = format!("{waits}. Last warning: db2 refuses: its group secret differs");
        assert_eq!(connection.start_status(), warned);
    }
}

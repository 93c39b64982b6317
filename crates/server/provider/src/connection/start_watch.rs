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

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_admin::service_manager::ServiceManager;
use synod_node::Remedy;

use crate::api::LogLevel;
use crate::boundary;
use crate::connection::departure::Data;
use crate::connection::session::{Session, State};
use crate::status::LocalState;

/// Time between two looks for an order to end.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Time between two messages to the service manager.
const TELL: Duration = Duration::from_secs(10);
/// Extension of the start's time limit by each of them.
const EXTENSION: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct StartWatch {
    /// The last warning since the connection was made.
    last_warning: Mutex<Option<String>>,
}

impl StartWatch {
    fn last_warning(&self) -> MutexGuard<'_, Option<String>> {
        self.last_warning
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches until the server has its place in the group.
    pub(super) fn look_after_start(&self, session: &Session, manager: Option<&ServiceManager>) {
        let mut tell_at = Instant::now();
        while !is_over(session, &session.state()) {
            if let Some(signal) = boundary::pending_order_to_end() {
                return end_start(session, signal);
            }
            let now = Instant::now();
            if let Some(manager) = manager.filter(|_| now >= tell_at) {
                // Lost: the next one is sent long before the time is over.
                let _ = manager.extend_start(EXTENSION, &self.start_status(session));
                tell_at = now + TELL;
            }
            session.wait_for(Some(now + LOOK), |state| {
                is_over(session, state).then_some(())
            });
        }
    }

    /// The text that `systemctl status` shows: what the start waits for. `systemctl start`
    /// itself shows nothing while it waits: so the last warning is told there, too.
    fn start_status(&self, session: &Session) -> String {
        let state = session.state();
        let waits_for = match (&state.joined, state.lifecycle.local()) {
            (None, _) => "Waiting for the cluster: a majority of its members must run",
            (Some(_), LocalState::ReceivingStateTransfer) => "Receiving a full copy (SST)",
            (Some(_), _) => "Joining the cluster",
        };
        let is_waiting = state.joined.is_none();
        drop(state);
        let unheard = session.unheard();
        if is_waiting && !unheard.is_empty() {
            return format!("Waiting for the cluster. {}", unheard.join(". "));
        }
        match self.last_start_warning() {
            Some(warning) => format!("{waits_for}. Last warning: {warning}"),
            None => waits_for.to_owned(),
        }
    }

    /// The last warning of a server that has no place in the group yet: the likely cause.
    pub(crate) fn last_start_warning(&self) -> Option<String> {
        self.last_warning().clone()
    }

    pub(crate) fn warned_at_start(&self, text: &str) {
        *self.last_warning() = Some(text.to_owned());
    }
}

/// Has the server end its start. A server that takes a full copy (SST) ends when its copy
/// script does, and not before.
fn end_start(session: &Session, signal: &str) {
    let why = format!("{signal} came while the server was starting: it ends");
    let is_copying = session.state().lifecycle.local() == LocalState::ReceivingStateTransfer;
    if is_copying && boundary::end_children() > 0 {
        return session.log(LogLevel::Info, why);
    }
    session.leave_saying(LogLevel::Info, &why, Data::Good, Remedy::Operator);
}

fn is_over(session: &Session, state: &State) -> bool {
    session.is_closing() || state.lifecycle.has_place()
}

#[cfg(test)]
mod tests {
    use crate::transaction::tests::connection;

    #[test]
    fn service_manager_is_told_of_the_last_warning() {
        let connection = connection();
        let waits = "Waiting for the cluster: a majority of its members must run";
        assert_eq!(
            connection.start_watch.start_status(&connection.session),
            waits
        );
        connection
            .start_watch
            .warned_at_start("db2 refuses: its group secret differs");
        let warned = format!("{waits}. Last warning: db2 refuses: its group secret differs");
        assert_eq!(
            connection.start_watch.start_status(&connection.session),
            warned
        );
    }
}

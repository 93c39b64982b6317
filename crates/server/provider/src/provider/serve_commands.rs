//! The provider's interface for commands.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use synod_admin::event::Event;
use synod_admin::protocol::{Reason, Reply};
use synod_admin::status::Election;
use synod_commands::{Answerer, Surroundings, remote_handler};
use synod_node::Node;

use super::Provider;
use crate::api::LogLevel;
use crate::commands::{self, ServerProcess};
use crate::connection::Connection;
use crate::status::counters::Counters;

impl Provider {
    /// Serves commands from now on, about this connection: of this machine by the socket, of others
    /// by the node. Without the socket the server works, so a failure is only logged.
    pub(super) fn serve_commands(&self, connection: &Arc<Connection>, node: &Node) {
        *lock(&self.newest) = Arc::downgrade(connection);
        let itself = self.itself.clone();
        let answer: Answerer = Arc::new(move |request| match itself.upgrade() {
            Some(provider) => commands::answer(&provider, request),
            None => Reply::refused(Reason::NotConnected, "this server is ending"),
        });
        let process: Arc<dyn Surroundings> = Arc::new(ServerProcess(self.callbacks.clone()));
        node.serve_commands(remote_handler(answer.clone(), process.clone()));
        let begun = self.commands.begin(&self.log_dir(), answer, &process);
        if let Err(error) = begun {
            let text = format!("{error}. The program synod cannot reach this server");
            self.callbacks.log(LogLevel::Warn, &text);
        }
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.options().log_dir(Path::new(&self.args.data_dir))
    }

    /// The newest connection, whether it is joined yet or not.
    pub(crate) fn newest_connection(&self) -> Option<Arc<Connection>> {
        lock(&self.newest).upgrade()
    }

    pub(crate) fn running_node(&self) -> Option<Arc<Node>> {
        let connection = self
            .newest_connection()
            .filter(|c| !c.session.is_closing())?;
        connection.session.node().cloned()
    }

    pub(crate) fn server_name(&self) -> &str {
        &self.args.node_name
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.events()
    }

    pub(crate) fn last_election(&self) -> Option<Election> {
        self.events.last_election()
    }

    pub(crate) fn stats_period(&self) -> Duration {
        self.live.stats_period()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn lock(newest: &Mutex<Weak<Connection>>) -> MutexGuard<'_, Weak<Connection>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}

//! `synod.writers`: a setting of the group, which this server asks the group to change.

use std::time::Duration;

use synod_node::{Node, SetWritersError, Writers};

use super::Provider;
use crate::api::{LogLevel, Status};
use crate::boundary;
use crate::options::{Options, Update, key};

/// Time limit for the group's answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest wait of `SET GLOBAL` for the group. Meanwhile the server lets no client connect, and
/// shows no variables: it holds its lock of global variables.
const PATIENCE: Duration = Duration::from_millis(900);

impl Provider {
    /// Has the group make the setting, if an operator asks for it. OK means that the group has
    /// committed it. The client gets the reason if it does not, or has not yet.
    pub(super) fn set_writers(&self, update: &Update) -> Status {
        let Some(writers) = update.writers() else {
            return Status::Ok;
        };
        let connection = self.connection();
        let set = match connection.as_ref().and_then(|connection| connection.node()) {
            Some(node) => node.set_writers(writers, LIMIT, PATIENCE).map_err(why_not),
            None => Err("this server is in no group: connect it first".to_owned()),
        };
        match set {
            Ok(()) => Status::Ok,
            Err(why) => {
                let text = format!("synod.writers={writers}: {why}");
                boundary::refuse_statement(&text);
                self.log_error(text)
            }
        }
    }

    /// This server has come to its group. A new group gets the setting of its first server; any
    /// other keeps its own.
    pub(super) fn found_writers(&self, node: &Node, bootstrap: bool) {
        let status = node.status();
        let configured = self.options().writers();
        if !self.options().is_set(key::WRITERS) || configured == status.writers {
            return;
        }
        if bootstrap && status.members.len() == 1 {
            if let Err(error) = node.set_writers(configured, LIMIT, LIMIT) {
                let text = format!("synod.writers={configured}: {error}");
                self.callbacks.log(LogLevel::Warn, &text);
            }
            return;
        }
        let text = format!(
            "synod.writers={configured} in the configuration of this server is ignored: the group \
             has synod.writers={}. To change it on all servers: SET GLOBAL \
             wsrep_provider_options='synod.writers={configured}'",
            status.writers
        );
        self.callbacks.log(LogLevel::Info, &text);
    }

    /// The options, with what the group has agreed on.
    pub(super) fn options_in_force(&self) -> Options {
        let writers = self.writers_in_force();
        let mut options = self.options().clone();
        if let Some(writers) = writers {
            options.follow_writers(writers);
        }
        options
    }

    /// Writers that the group has agreed on; `None` without a group.
    fn writers_in_force(&self) -> Option<Writers> {
        let connection = self.connection()?;
        let status = connection.node()?.status();
        (status.protocol > 0).then_some(status.writers)
    }

    /// Tells the operator whose saved list it was what has stayed as it is.
    pub(super) fn say_what_is_not_restored(&self, update: &Update) {
        for option in &update.not_restored {
            let text = option.to_string();
            boundary::warn_of_statement(&text);
            self.callbacks.log(LogLevel::Warn, &text);
        }
    }
}

/// Why the client of `SET GLOBAL` is not told OK.
fn why_not(error: SetWritersError) -> String {
    match error {
        SetWritersError::NotInTime { .. } => format!(
            "the group has not agreed yet, because it has no majority or is being changed \
             otherwise. It is asked again for {} s. When it has a majority, look at \
             wsrep_synod_writers, and repeat the statement if need be. No other option of the \
             statement was changed",
            LIMIT.as_secs()
        ),
        refused @ (SetWritersError::Refused(_) | SetWritersError::Stopped) => refused.to_string(),
    }
}

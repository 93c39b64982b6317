//! `socket.ssl_reload`: reads the certificates, or the group secret, again. If they are refused,
//! those read before stay in use: a mistake in a file never costs a running member its connections.

use super::Provider;
use crate::api::Status;
use crate::options::{Update, Value, key};

impl Provider {
    /// Obeys `socket.ssl_reload`, if it was set. Without a connection there is nothing to do: the
    /// next one reads the files.
    pub(super) fn reload_certificates(&self, update: &Update) -> Status {
        let wanted = update.value(key::SOCKET_SSL_RELOAD) == Some(&Value::Bool(true));
        let connection = self.connection().filter(|_| wanted);
        match connection.as_ref().and_then(|connection| connection.node()) {
            None => Status::Ok,
            Some(node) => match node.reload_tls() {
                Ok(()) => Status::Ok,
                Err(error) => self.log_error(format!(
                    "socket.ssl_reload: {error}. The credentials read before stay in use"
                )),
            },
        }
    }
}

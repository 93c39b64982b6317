//! Clients from other machines. They have proven to hold the group's credentials before anything
//! here is called, so they may ask and order what the member's own machine may.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use synod_admin::command_rights::CommandRights;
use synod_admin::protocol::Request;
use synod_admin::{Connection, LineError, ServeLimits, serve};
use synod_node::{CommandConnection, CommandHandler, Level};

use crate::orders::is_order;
use crate::server::{Answerer, PROGRAM_VERSION};
use crate::surroundings::Surroundings;

const ORDER_CHARS_MAX: usize = 300;

/// Serves clients of a node, for [`Node::serve_commands`](synod_node::Node::serve_commands). Each
/// order is logged with the client that gave it.
pub fn remote_handler(
    answer: Answerer,
    surroundings: Arc<dyn Surroundings>,
) -> Arc<CommandHandler> {
    Arc::new(move |connection| {
        let client = connection.client().to_owned();
        let noting = |request: Request| {
            if is_order(&request) {
                surroundings.log(Level::Info, &order_text(&client, &request));
            }
            answer(request)
        };
        let limits = ServeLimits::default();
        let mut remote = Remote(connection);
        match serve(
            &mut remote,
            CommandRights::Orders,
            PROGRAM_VERSION,
            limits,
            &noting,
        ) {
            // Clients go as they like, and may be cut off.
            Ok(()) | Err(LineError::Io(_)) => Ok(()),
            Err(error) => Err(format!("a client's command: {error}")),
        }
    })
}

fn order_text(client: &str, request: &Request) -> String {
    // It was read as JSON, so it can be written.
    let order = serde_json::to_string(request).unwrap_or_default();
    format!("order from {client}: {order:.ORDER_CHARS_MAX$}")
}

struct Remote<'a, 'b>(&'a mut CommandConnection<'b>);

impl Read for Remote<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Remote<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Connection for Remote<'_, '_> {
    fn limit_read(&mut self, limit: Duration) -> io::Result<()> {
        self.0.limit_read(limit);
        Ok(())
    }

    fn limit_write(&mut self, limit: Duration) -> io::Result<()> {
        self.0.limit_write(limit);
        Ok(())
    }
}

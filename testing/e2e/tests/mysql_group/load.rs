//! Clients that write while a test does something to the servers.

use synod_e2e::Outcome;
use synod_e2e::mysql_clients::Clients;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE};

const CLIENTS: u64 = 8;
/// Rows that are acknowledged before and after each fault.
pub(crate) const ROWS: u64 = 300;

/// Waits for the whole group, and starts clients; the writer, and clients that have written.
pub(crate) fn under_load(group: &MysqlGroup) -> Outcome<(usize, Clients)> {
    let writer = group.await_whole()?;
    let clients = Clients::start(group, writer, CLIENTS)?;
    clients.await_more(ROWS, PATIENCE)?;
    Ok((writer, clients))
}

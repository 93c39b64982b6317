//! The socket of a member for its clients and for the parent: one thread per connection.
//!
//! A write is certified and committed by the group before it is answered.

use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use synod_node::{Action, Class, KeySet, KeyType, Node, ProposalResult, RoleName};

use super::host::{StoreHost, encode, fail};
use super::{CONTROL_SOCKET, Options, Planted};
use crate::protocol::{Command, Reply, Status, receive, send};

/// Longest time of a causal read.
const READ_LIMIT: Duration = Duration::from_secs(3);

struct Server {
    node: Arc<Node>,
    host: Arc<StoreHost>,
    planted: Option<Planted>,
}

pub(crate) fn start(options: &Options, node: Arc<Node>, host: Arc<StoreHost>) -> io::Result<()> {
    let path = options.dir.join(CONTROL_SOCKET);
    // A process that was killed may have left its socket.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(path)?;
    let server = Arc::new(Server {
        node,
        host,
        planted: options.planted,
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            // An error means that the client has gone.
            std::thread::spawn(move || server.serve(stream));
        }
    });
    Ok(())
}

impl Server {
    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut commands = BufReader::new(stream.try_clone()?);
        while let Some(command) = receive(&mut commands)? {
            let leaves = matches!(command, Command::Leave);
            send(&mut stream, &self.answer(command))?;
            if leaves {
                std::process::exit(0);
            }
        }
        Ok(())
    }

    fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Write {
                id,
                rows,
                padding,
                total_order,
            } => self.write(id, &rows, padding, total_order),
            Command::Read { row } => self.read(row),
            Command::Status => Reply::Status(self.status()),
            Command::Flush => Reply::Flushed {
                position: self.host.flush(),
            },
            Command::Leave => {
                self.node.leave();
                self.node.stop();
                self.host.flush();
                Reply::Left
            }
        }
    }

    fn write(&self, id: u64, rows: &[u32], padding: usize, total_order: bool) -> Reply {
        let refused = |why: &str| Reply::Refused {
            why: why.to_owned(),
        };
        if !self.host.lock().synced {
            return refused("not synced");
        }
        let Some(transaction) = self.host.begin(id, rows, !total_order) else {
            return refused("a row is held by another client");
        };
        let class = if total_order {
            Class::TotalOrder
        } else {
            Class::WriteSet { pa_unsafe: false }
        };
        let data = encode(&transaction, padding)
            .unwrap_or_else(|error| fail(&format!("cannot encode {transaction:?}: {error}")));
        let action = Action {
            class,
            keys: keys(rows),
            last_seen: transaction.last_seen,
            data,
        };
        let pending = self.node.submit(&action);
        let reply = match pending.wait_for_result() {
            ProposalResult::Ordered { seqno, .. } => {
                self.host.finish(seqno, transaction);
                Reply::Committed { position: seqno.0 }
            }
            ProposalResult::Conflict { .. } => refused("conflict"),
            ProposalResult::TooOld => refused("snapshot too old"),
            ProposalResult::GivenUp => refused("given up"),
            ProposalResult::NotWriter => refused("not the writer"),
            ProposalResult::Rejected => refused("rejected"),
            ProposalResult::Withdrawn => refused("withdrawn"),
            ProposalResult::Unknown | ProposalResult::NotProposed => Reply::Unknown,
        };
        self.host.release(rows);
        reply
    }

    fn read(&self, row: u32) -> Reply {
        if !self.host.lock().synced {
            return Reply::NoRead;
        }
        let floor = match self.planted {
            Some(Planted::LocalRead) => Some(0),
            _ => self.node.read_position(READ_LIMIT).map(|seqno| seqno.0),
        };
        if !floor.is_some_and(|floor| self.host.wait_applied(floor, READ_LIMIT)) {
            return Reply::NoRead;
        }
        let state = self.host.lock();
        Reply::Row {
            version: state.database.version(row),
            position: state.database.position(),
        }
    }

    fn status(&self) -> Status {
        let status = self.node.status();
        let state = self.host.lock();
        Status {
            synced: state.synced,
            voter: status.voter,
            leader: status.role == Some(RoleName::Leader),
            applied: state.database.position(),
        }
    }
}

fn keys(rows: &[u32]) -> KeySet {
    let mut keys = KeySet::new();
    for row in rows {
        keys.append(&[b"chaos", b"rows", &row.to_le_bytes()], KeyType::Exclusive);
    }
    keys
}

//! Whether this server takes writes of its clients, where the group takes one server's only.
//!
//! The leader of the group refuses what another server sends, so nothing depends on this. It lets a
//! client know at its first row, or its statement (DDL), and tells it where to go.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_node::{NodeStatus, WritePermission};

use crate::api::LogLevel;
use crate::boundary;
use crate::connection::Connection;

/// The order is always there: writes are taken.
const OPEN: i64 = i64::MIN;
/// The order is never there: none is.
const CLOSED: i64 = i64::MAX;

/// What the group has said about writes of this server.
#[derive(Debug)]
pub(crate) struct WriteGate {
    /// The order has to have come this far. Asked for each row that a client changes.
    opens_at: AtomicI64,
    permission: Mutex<WritePermission>,
}

impl Default for WriteGate {
    fn default() -> WriteGate {
        WriteGate {
            opens_at: AtomicI64::new(OPEN),
            permission: Mutex::default(),
        }
    }
}

impl WriteGate {
    fn set(&self, permission: WritePermission) {
        let mut known = self.permission();
        *known = permission;
        let opens_at = match permission {
            WritePermission::Everywhere => OPEN,
            WritePermission::Here { after } => after.0,
            WritePermission::Elsewhere { .. } => CLOSED,
        };
        self.opens_at.store(opens_at, Ordering::Release);
    }

    /// Whether a write is taken now that everything up to `left` has left the order.
    fn is_open(&self, left: i64) -> bool {
        left >= self.opens_at.load(Ordering::Acquire)
    }

    fn permission(&self) -> MutexGuard<'_, WritePermission> {
        self.permission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// The permission has changed.
    pub(crate) fn set_write_permission(&self, permission: WritePermission) {
        self.write_gate.set(permission);
        let status = self.node().map(|node| node.status());
        let text = match permission {
            WritePermission::Everywhere => "all servers take writes (synod.writers=any)".to_owned(),
            WritePermission::Here { after } => format!(
                "this server is the writer (synod.writers=leader): it takes writes once it has \
                 applied what precedes, up to {after}"
            ),
            WritePermission::Elsewhere { writer: None } => {
                "no server takes writes (synod.writers=leader) until there is a leader".to_owned()
            }
            WritePermission::Elsewhere { .. } => format!(
                "this server takes no writes (synod.writers=leader): the writer is {}",
                status.as_ref().and_then(Writer::of).map_or_else(
                    || "in wsrep_synod_writer".to_owned(),
                    |writer| writer.to_string()
                )
            ),
        };
        self.log(LogLevel::Info, text);
    }

    /// Whether this server takes writes of its clients now.
    pub(crate) fn takes_writes(&self) -> bool {
        self.write_gate.is_open(self.sequencer.left())
    }

    /// Whether this server takes statements in total order now: they see what is released.
    pub(crate) fn takes_statements(&self) -> bool {
        self.write_gate.is_open(self.sequencer.released())
    }

    /// A write of the client whose thread this is will be refused: tells it why.
    pub(crate) fn tell_who_writes(&self) {
        self.shared.counters.writes_refused.one();
        boundary::refuse_statement(&self.why_no_writes());
    }

    fn why_no_writes(&self) -> String {
        let permission = *self.write_gate.permission();
        let instead = match permission {
            WritePermission::Here { after } => format!(
                "It is the new writer, and has {} transactions of the one before to apply. Repeat \
                 the transaction in a moment",
                after.0.saturating_sub(self.sequencer.left()).max(0)
            ),
            WritePermission::Everywhere | WritePermission::Elsewhere { .. } => {
                let status = self.node().map(|node| node.status());
                match status.as_ref().and_then(Writer::of) {
                    Some(writer) => format!("Write to {writer}"),
                    None => "The group has no leader now. Repeat the transaction in a few seconds"
                        .to_owned(),
                }
            }
        };
        format!("This server takes no writes (synod.writers=leader). {instead}")
    }
}

/// The server that leads, and so is the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    /// Its `wsrep_node_name`.
    pub(crate) name: String,
    /// Where its clients connect; empty if that is not known.
    pub(crate) incoming: String,
}

impl Writer {
    /// The leader; `None` if none is known.
    pub(crate) fn of(status: &NodeStatus) -> Option<Writer> {
        let leader = status.leader?;
        let mut present = status.view.members.iter();
        let incoming = present.find(|member| member.member == leader);
        Some(Writer {
            name: status.leader_name.clone(),
            incoming: incoming.map_or_else(String::new, |member| member.incoming.clone()),
        })
    }
}

impl std::fmt::Display for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", self.name)?;
        if self.incoming.is_empty() {
            return Ok(());
        }
        write!(f, " at {}", self.incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::{MemberId, Seqno};

    #[test]
    fn gate_opens_when_what_precedes_is_applied_and_closes_again() {
        let gate = WriteGate::default();
        let is_open = |left| gate.is_open(left);
        assert!(is_open(-1));
        let writer = Some(MemberId(2));
        gate.set(WritePermission::Elsewhere { writer });
        assert!(!is_open(1_000_000));
        gate.set(WritePermission::Here { after: Seqno(7) });
        assert!(!is_open(6));
        assert!(is_open(7));
        gate.set(WritePermission::Elsewhere { writer: None });
        assert!(!is_open(8), "it was open before");
        gate.set(WritePermission::Everywhere);
        assert!(is_open(8));
    }

    #[test]
    fn writer_is_named_with_the_address_of_its_clients() {
        let mut writer = Writer {
            name: "db1".to_owned(),
            incoming: "10.0.0.1:3306".to_owned(),
        };
        assert_eq!(writer.to_string(), "'db1' at 10.0.0.1:3306");
        writer.incoming.clear();
        assert_eq!(writer.to_string(), "'db1'");
    }
}

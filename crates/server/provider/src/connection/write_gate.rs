//! Whether this server takes writes of its clients, where the group takes one server's only.
//!
//! The leader of the group refuses what another server sends, so nothing depends on this. It lets a
//! client know at its first row, or its statement (DDL), and tells it where to go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_node::{NodeStatus, WritePermission};

use crate::api::LogLevel;
use crate::apply::sequencer::Task;
use crate::boundary;
use crate::connection::session::Session;

/// All transactions may write, whatever their numbers.
const OPEN: u64 = 0;
/// None may. (It is the number of no transaction.)
const CLOSED: u64 = u64::MAX;

/// The group's permission for writes of this server.
///
/// A transaction that began before this server was the writer, and had applied everything of the
/// one before, may have read what was old by then: it must not write what follows from that. The
/// server numbers its transactions by their first statements; see `boundary::next_statement`.
#[derive(Debug)]
pub(crate) struct WriteGate {
    /// The first transaction that may write. Asked for each row that a client changes.
    opens_for: AtomicU64,
    permission: Mutex<WritePermission>,
}

impl Default for WriteGate {
    fn default() -> WriteGate {
        WriteGate {
            opens_for: AtomicU64::new(OPEN),
            permission: Mutex::default(),
        }
    }
}

impl WriteGate {
    /// Whether the transaction with this number may write.
    pub(crate) fn admits(&self, trx: u64) -> bool {
        let first = self.opens_for.load(Ordering::Acquire);
        first != CLOSED && trx >= first
    }

    /// Whether a transaction that begins now may write, and a statement in total order.
    pub(crate) fn is_open(&self) -> bool {
        self.opens_for.load(Ordering::Acquire) != CLOSED
    }

    fn set(&self, permission: WritePermission) {
        let mut known = self.permission();
        *known = permission;
        let opens_for = match permission {
            WritePermission::Everywhere => OPEN,
            WritePermission::Here { .. } | WritePermission::Elsewhere { .. } => CLOSED,
        };
        self.opens_for.store(opens_for, Ordering::Release);
    }

    /// Opens the gate for transactions from `next` on, if it waits for what `released` has reached.
    /// `next` is asked after that, so what begins then reads all of it.
    fn open(&self, released: i64, next: impl FnOnce() -> u64) {
        let known = self.permission();
        let WritePermission::Here { after } = *known else {
            return;
        };
        if released >= after.0 && !self.is_open() {
            self.opens_for.store(next(), Ordering::Release);
        }
    }

    fn permission(&self) -> MutexGuard<'_, WritePermission> {
        self.permission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_permission(&self, session: &Session, permission: WritePermission) {
        self.set(permission);
        self.open_when_applied(session);
        if let WritePermission::Here { after } = permission
            && !self.is_open()
        {
            session.sequencer.add_task(after.0, Task::OpenWriteGate);
        }
        if let WritePermission::Here { .. } = permission
            && boundary::next_statement().is_none()
        {
            let text = "this server does not tell when transactions began: one that read here \
                        before this server was the writer can write. Set wsrep_sync_wait=1 in \
                        sessions that write";
            session.log(LogLevel::Warn, text);
        }
        session.log(LogLevel::Info, says(session, permission));
    }

    /// Lets clients write, if this server is the writer and has everything of the one before.
    pub(crate) fn open_when_applied(&self, session: &Session) {
        let next = || boundary::next_statement().unwrap_or(OPEN);
        self.open(session.sequencer.released(), next);
    }

    /// A write of the client whose thread this is will be refused: tells it why.
    pub(crate) fn refuse(&self, session: &Session) {
        session.server.counters.writes_refused.one();
        boundary::refuse_statement(&self.why_no_writes(session));
    }

    fn why_no_writes(&self, session: &Session) -> String {
        let permission = *self.permission();
        let instead = match permission {
            WritePermission::Here { .. } if self.is_open() => {
                return "This transaction began before this server was the writer \
                        (synod.writers=leader), and may have read what is old now. Roll it back, \
                        and repeat it"
                    .to_owned();
            }
            WritePermission::Here { after } => format!(
                "It is the new writer, and has {} transactions of the one before to apply. Repeat \
                 the transaction in a moment",
                after.0.saturating_sub(session.sequencer.released()).max(0)
            ),
            WritePermission::Everywhere | WritePermission::Elsewhere { .. } => {
                let status = session.node().map(|node| node.status());
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

fn says(session: &Session, permission: WritePermission) -> String {
    let status = session.node().map(|node| node.status());
    match permission {
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
    }
}

/// The server that leads, and so is the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) name: String,
    /// Client address; empty if unknown.
    pub(crate) incoming: String,
}

impl Writer {
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
    fn gate_opens_when_what_precedes_is_applied_for_what_begins_then() {
        let gate = WriteGate::default();
        assert!(gate.admits(1) && gate.is_open());
        let writer = Some(MemberId(2));
        gate.set(WritePermission::Elsewhere { writer });
        gate.open(1_000_000, || 5);
        assert!(!gate.admits(1_000_000) && !gate.is_open());
        gate.set(WritePermission::Here { after: Seqno(7) });
        gate.open(6, || 20);
        assert!(!gate.admits(21), "what precedes is not there");
        gate.open(7, || 30);
        assert!(!gate.admits(29), "it may have read the past");
        assert!(gate.admits(30) && gate.is_open());
        gate.open(8, || 40);
        assert!(gate.admits(30), "it is open already");
        gate.set(WritePermission::Here { after: Seqno(9) });
        assert!(!gate.admits(41), "others may have written in between");
        gate.open(8, || 50);
        assert!(!gate.is_open());
        gate.set(WritePermission::Everywhere);
        assert!(gate.admits(1));
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

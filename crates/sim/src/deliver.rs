//! The simulated delivery thread and database: reads committed entries from the log, in order, and
//! applies them. The database is only a position; what it would hold follows from the history.

use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno};
use synod_log::LogError;

use crate::invariants::{Violation, seqno};
use crate::options::Fault;
use crate::planted::Planted;
use crate::trace::What;
use crate::world::{Event, MS, SECOND, World};

/// Entries applied at one time, at most.
const AT_ONCE: u64 = 8;

impl World {
    /// Goes on applying if there is something to apply.
    pub(crate) fn pump_delivery(&mut self, id: MemberId) {
        let node = self.node(id);
        if !node.has_data
            || node.database.copying
            || node.process.as_ref().is_none_or(|p| p.applying)
        {
            return;
        }
        if self.process(id).deliver_next.is_none() && !self.find_start(id) {
            return;
        }
        let limit = self.deliverable(id);
        let process = self.process(id);
        if process.deliver_next.is_none_or(|next| next > limit) {
            return;
        }
        process.applying = true;
        let slow = self.has(Fault::SlowApply) && !self.calm;
        let after_us = self.draw(if slow { (MS, 200 * MS) } else { (50, 2 * MS) });
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(after_us, Event::Apply { node, epoch });
    }

    fn deliverable(&mut self, id: MemberId) -> LogIndex {
        let early = self.planted(Planted::DeliverUncommitted);
        let readable = self.process(id).readable;
        match early {
            true => readable.written,
            false => readable.up_to(),
        }
    }

    /// Index of the first entry the database needs; asks for a full copy if the log lacks it.
    fn find_start(&mut self, id: MemberId) -> bool {
        let applied = self.node(id).database.applied;
        let process = self.process(id);
        let first = process.reader.first_seqno_available();
        if applied.next() < first {
            self.ask_for_copy(id);
            return false;
        }
        // A full copy may be ahead of what this member's own log holds yet.
        let known = process.readable.up_to() == process.readable.committed
            && process.commit_seqno >= applied;
        if !known {
            return false;
        }
        let next = match applied.next() == first {
            true => Ok(process.reader.first_index()),
            false => process.reader.seek_seqno(applied).map(LogIndex::next),
        };
        match next {
            Ok(next) => {
                process.deliver_next = Some(next);
                true
            }
            Err(error) => {
                self.broken(id, &error);
                false
            }
        }
    }

    fn broken(&mut self, id: MemberId, error: &LogError) {
        self.judge(Err(Violation {
            rule: "committed entries can be read",
            what: format!("{id}: {error}"),
        }));
    }

    /// Applies what is committed and written here.
    pub(crate) fn apply(&mut self, id: MemberId) {
        let limit = self.deliverable(id);
        let process = self.process(id);
        process.applying = false;
        let Some(next) = process.deliver_next.filter(|next| *next <= limit) else {
            return self.settle(id);
        };
        let to = LogIndex(limit.0.min(next.0 + AT_ONCE - 1));
        let entries = match process.reader.read(next, to, 4 << 10) {
            Ok(entries) => entries,
            Err(LogError::Purged { .. }) => {
                process.deliver_next = None;
                return self.settle(id);
            }
            Err(error) => return self.broken(id, &error),
        };
        for entry in &entries {
            self.deliver(id, entry);
            if self.violation.is_some() {
                return;
            }
        }
        let applied = self.node(id).database.applied;
        self.note(id, What::Applied { seqno: applied });
        self.settle(id);
    }

    fn deliver(&mut self, id: MemberId, entry: &synod_log::Entry) {
        let header = &entry.header;
        let process = self.process(id);
        process.deliver_next = Some(header.index.next());
        process.delivered = header.index;
        let applied = self.node(id).database.applied;
        let ordered = matches!(header.kind, EntryKind::View | EntryKind::Action);
        // Before where the database was at start.
        if !ordered || header.seqno <= applied {
            return;
        }
        let known = self.checks.committed.get(header.index);
        let checked = seqno::delivered(id, applied, header, known);
        self.judge(checked);
        self.node_mut(id).database.applied = header.seqno;
        let attached = self.process(id).attached.remove(&header.seqno);
        if let Some(transaction) = attached {
            self.finish(transaction);
        }
        if self.chance(0.1) {
            self.flush_database(id);
        }
    }

    /// The database's own flush.
    pub(crate) fn flush_database(&mut self, id: MemberId) {
        let database = &mut self.node_mut(id).database;
        database.durable = database.applied;
        let process = self.process(id);
        process.flushed = process.delivered;
    }

    // --- full copies ------------------------------------------------------------------------

    /// What the database lacks is in no log that this member can read: another database is copied.
    fn ask_for_copy(&mut self, id: MemberId) {
        let needed = self.process(id).core.base().seqno;
        let ahead = |donor: &MemberId| {
            let node = self.node(*donor);
            node.has_data
                && node.is_up()
                && !node.database.copying
                && node.database.applied >= needed
        };
        let donors: Vec<MemberId> = self
            .nodes
            .keys()
            .copied()
            .filter(|d| *d != id)
            .filter(ahead)
            .collect();
        let Some(donor) = self.pick(&donors) else {
            // Nobody yet; asked again at the next tick.
            return;
        };
        self.node_mut(id).database.copying = true;
        let (node, epoch) = (id, self.node(id).epoch);
        let after_us = self.draw((20 * MS, SECOND));
        self.schedule(after_us, Event::Copied { node, epoch, donor });
    }

    /// The copy is here, if its donor still is.
    pub(crate) fn copied(&mut self, id: MemberId, donor: MemberId) {
        self.node_mut(id).database.copying = false;
        if self.is_up(donor) {
            let seqno = self.node(donor).database.applied;
            let database = &mut self.node_mut(id).database;
            (database.applied, database.durable) = (seqno, seqno);
            self.coverage.count("full copy");
            self.note(id, What::Copied { seqno });
            let process = self.process(id);
            process.deliver_next = None;
            process.flushed = process.core.base().last.index;
            let later = process.attached.split_off(&seqno.next());
            let done = std::mem::replace(&mut process.attached, later);
            for transaction in done.into_values() {
                self.finish(transaction);
            }
        }
        self.settle(id);
    }

    /// The machine lost its power: the database comes back somewhere between what it had flushed
    /// and what it had applied.
    pub(crate) fn database_after_crash(&mut self, id: MemberId, power_cut: bool) {
        let database = self.node(id).database;
        let (durable, applied) = (database.durable.0, database.applied.0);
        let back = match power_cut {
            true => self.draw((durable.max(0) as u64, applied.max(durable).max(0) as u64)) as i64,
            false => applied,
        };
        let database = &mut self.node_mut(id).database;
        database.applied = Seqno(back);
        database.durable = database.durable.min(Seqno(back));
        database.copying = false;
    }
}

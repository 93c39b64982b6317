//! Clients, and the oracle of what they were told: transactions on rows with local locks, and causal
//! reads. A transaction whose client gave up, or whose member died, is unknown, never absent.

use bytes::Bytes;
use rand::Rng;
use synod_certify::{Class, KeyType};
use synod_consensus::{EntryHeader, EntryId, EntryKind, MemberId, Seqno, SessionId};

use crate::action::{Piece, Row, TABLES, cut, row_keys, table_keys};
use crate::invariants::quorum::durable_on_quorum;
use crate::member::Submitted;
use crate::planted::Planted;
use crate::trace::What;
use crate::world::{Event, World};

/// Transactions of one member at a time, at most.
const IN_FLIGHT_MAX: usize = 48;

/// What a client waits for.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
    pub(crate) rows: Vec<Row>,
}

impl World {
    /// Somebody does something, and so on.
    pub(crate) fn work(&mut self) {
        if self.calm {
            return;
        }
        let period_us = self.options.workload.period_us;
        let after_us = self.draw((1, 2 * period_us));
        self.schedule(after_us, Event::Work);
        let up: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| self.node(*id).has_data)
            .collect();
        let Some(id) = self.pick(&up) else { return };
        if self.chance(self.options.workload.reads) {
            self.read(id);
        } else {
            // Several at a time now and then.
            for _ in 0..self.rng.random_range(1..4) {
                self.submit(id);
            }
        }
    }

    pub(crate) fn read(&mut self, id: MemberId) {
        if self.node(id).paused_until_us > self.now_us {
            return;
        }
        let committed = self.commit_index();
        let read = self.checks.reads.ask(id, committed);
        if self.planted(Planted::LocalRead) {
            let (index, seqno) = (self.core(id).commit_index(), self.process(id).commit_seqno);
            let known = self.checks.committed.get(index);
            let checked = self.checks.reads.answer(id, read, index, seqno, known);
            return self.judge(checked);
        }
        self.with_core(id, |core, now| core.read(now, read));
    }

    /// A client at a member commits a transaction.
    pub(crate) fn submit(&mut self, id: MemberId) -> bool {
        let node = self.node(id);
        let busy = node
            .process
            .as_ref()
            .is_none_or(|p| p.submitted.len() >= IN_FLIGHT_MAX);
        // Servers without a database of the group take no clients.
        let ready = node
            .process
            .as_ref()
            .is_some_and(|p| p.deliver_next.is_some());
        if busy || !ready || node.database.copying || node.paused_until_us > self.now_us {
            return false;
        }
        let Some((rows, class)) = self.draw_transaction(id) else {
            return false;
        };
        let last_seen = self.node(id).database.applied.0;
        let kind = match self.chance(0.8) {
            true => KeyType::Exclusive,
            false => KeyType::Update,
        };
        let mut keys = match class {
            Class::TotalOrder => table_keys(self.rng.random_range(0..TABLES)),
            Class::WriteSet { .. } | Class::Barrier => row_keys(&rows, kind),
        };
        if self.chance(0.2) {
            // Refers to a row of somebody's, as a foreign key does.
            let row = self.rng.random_range(0..self.options.workload.rows);
            let table = (row % TABLES).to_le_bytes();
            let how = match self.chance(0.5) {
                true => KeyType::Reference,
                false => KeyType::Shared,
            };
            keys.append(&[b"db", &table, &row.to_le_bytes()], how);
        }
        let process = self.process(id);
        let (epoch, chunked) = (process.lock_epoch, process.next_chunked);
        process.next_chunked += 1;
        let piece = Piece {
            class,
            epoch,
            last_seen,
            chunked: 0,
            chunks: 0,
            keys: Bytes::from(keys.encode()),
            rows: rows.clone(),
        };
        let (chunks, last) = cut(piece, chunked, self.options.chunk_bytes);
        self.hand_over(id, rows, chunks, last);
        true
    }

    /// Rows that nobody else at this member holds, and what is done to them.
    fn draw_transaction(&mut self, id: MemberId) -> Option<(Vec<Row>, Class)> {
        let workload = self.options.workload.clone();
        if self.chance(workload.total_order) {
            return Some((Vec::new(), Class::TotalOrder));
        }
        let count = self.rng.random_range(1..=workload.rows_per_action);
        let mut rows: Vec<Row> = (0..count)
            .map(|_| self.rng.random_range(0..workload.rows))
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let locks = &self.process(id).locks;
        if rows.iter().any(|row| locks.contains(row)) {
            return None;
        }
        let pa_unsafe = self.chance(workload.pa_unsafe);
        Some((rows, Class::WriteSet { pa_unsafe }))
    }

    fn hand_over(&mut self, id: MemberId, rows: Vec<Row>, chunks: Vec<Bytes>, last: Bytes) {
        self.next_transaction += 1;
        let transaction = self.next_transaction;
        if !chunks.is_empty() {
            self.coverage.count("action in chunks");
        }
        let process = self.process(id);
        process.locks.extend(rows.iter().copied());
        let session = process.session;
        let pieces = chunks
            .into_iter()
            .map(|payload| (EntryKind::Chunk, payload));
        let mut number = 0;
        for (kind, payload) in pieces.chain([(EntryKind::Action, last)]) {
            number = process.outbox.submit();
            process.submitted.insert(
                number,
                Submitted {
                    kind,
                    payload,
                    transaction,
                },
            );
        }
        self.transactions.insert(
            transaction,
            Transaction {
                member: id,
                session,
                rows,
            },
        );
        self.coverage.count("transaction");
        self.note(id, What::Proposed { number });
        let timeout_us = self.options.workload.timeout_us;
        self.schedule(timeout_us, Event::GiveUp { transaction });
        self.settle(id);
    }

    // --- what clients are told --------------------------------------------------------------

    /// An entry of this session was committed.
    pub(crate) fn own_committed(&mut self, id: MemberId, number: u64, header: &EntryHeader) {
        let Some(submitted) = self.process(id).submitted.remove(&number) else {
            return;
        };
        if header.kind != EntryKind::Action {
            return;
        }
        let seqno = header.seqno;
        self.note(id, What::Ordered { number, seqno });
        let checked = self.checks.once.acknowledged(&header.origin, seqno);
        self.judge(checked);
        self.check_acknowledged(header.id());
        if self.transactions.contains_key(&submitted.transaction) {
            self.coverage.count("transaction acknowledged");
            self.process(id)
                .attached
                .insert(seqno, submitted.transaction);
        }
    }

    /// The client hears "committed": a majority must have it on disk now.
    fn check_acknowledged(&mut self, entry: EntryId) {
        let voters = self.checks.quorums.voters_of(entry.index);
        let checked = durable_on_quorum(entry, voters, |member| self.holds(member, entry));
        self.judge(checked);
    }

    /// The leader refused a piece of a transaction.
    pub(crate) fn client_refused(&mut self, id: MemberId, number: u64, submitted: &Submitted) {
        self.coverage.count("transaction refused");
        self.note(id, What::RefusedWrite { number });
        if submitted.kind == EntryKind::Action {
            self.finish(submitted.transaction);
            return;
        }
        // Without one of its chunks the action cannot be ordered; its last piece will be refused.
        self.unknown(submitted.transaction);
    }

    /// Nobody waits any longer: locks go, and later transactions are no longer its siblings.
    pub(crate) fn give_up(&mut self, transaction: u64) {
        let Some(known) = self.transactions.get(&transaction) else {
            return;
        };
        let (id, session) = (known.member, known.session);
        let same = self
            .node(id)
            .process
            .as_ref()
            .is_some_and(|p| p.session == session);
        if same
            && self
                .node(id)
                .process
                .as_ref()
                .is_some_and(|p| p.attached.values().any(|t| *t == transaction))
        {
            // It knows its fate, and only waits for the database.
            return;
        }
        self.coverage.count("transaction timed out");
        self.note(
            id,
            What::GivenUp {
                number: transaction,
            },
        );
        self.unknown(transaction);
    }

    /// The fate of a transaction stays unknown to its client.
    pub(crate) fn unknown(&mut self, transaction: u64) {
        let Some(known) = self.transactions.get(&transaction) else {
            return;
        };
        let (id, session) = (known.member, known.session);
        let keep_epoch = self.planted(Planted::NoEpoch);
        if let Some(process) = self
            .node_mut(id)
            .process
            .as_mut()
            .filter(|p| p.session == session)
        {
            // Before the locks go.
            if !keep_epoch {
                process.lock_epoch += 1;
            }
        }
        self.finish(transaction);
    }

    /// A transaction is over: its locks go.
    pub(crate) fn finish(&mut self, transaction: u64) {
        let Some(done) = self.transactions.remove(&transaction) else {
            return;
        };
        let node = self.node_mut(done.member);
        if let Some(process) = node.process.as_mut().filter(|p| p.session == done.session) {
            for row in &done.rows {
                process.locks.remove(row);
            }
        }
    }

    /// Whether any proposal of this member is without an outcome.
    pub(crate) fn has_open_proposals(&self, id: MemberId) -> bool {
        self.node(id)
            .process
            .as_ref()
            .is_some_and(|p| p.outbox.oldest_outstanding().is_some())
    }

    /// Seqno of the last committed action.
    pub(crate) fn last_seqno(&self) -> Seqno {
        self.checks.committed.last_seqno()
    }
}

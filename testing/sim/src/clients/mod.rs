//! Clients: transactions on rows with local locks, and causal reads, at members with a database.
//!
//! The answers that clients get are checked against what is committed (`invariants/history.rs`). A
//! transaction whose client gave up, or whose member died, is unknown, never absent.

pub(crate) mod content;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use rand::Rng;
use synod_certify::{Class, KeyType};
use synod_consensus::{EntryId, MemberId, Seqno, SessionId, Time};
use synod_member::{
    Action, Client, Event as Input, Piece, ProposalResult, ReadDone, ResultSlot, Snapshot,
    Submission, Waiter, lock, split_into_chunks,
};

use crate::clients::content::{Content, Row, TABLES, row_keys, table_keys};
use crate::expected::results;
use crate::invariants::Checked;
use crate::invariants::quorum::durable_on_quorum;
use crate::invariants::reads::Reads;
use crate::member::recorded_effects::WaitingClient;
use crate::trace::What;
use crate::world::{Event, World};

/// Most transactions under way at one member.
const IN_FLIGHT_MAX: usize = 48;

/// A transaction that a client waits for.
pub(crate) struct Transaction {
    pub(crate) member: MemberId,
    pub(crate) session: SessionId,
    pub(crate) rows: Vec<Row>,
    pub(crate) caller: Arc<WaitingClient>,
    /// Pieces of the action that the client has not handed over yet.
    rest: VecDeque<Piece>,
    /// Whether the client pauses before each further piece.
    is_hesitant: bool,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl World {
    /// A client at some member reads or writes; then the next one is planned.
    pub(crate) fn work(&mut self) {
        if self.is_liveness_phase {
            return;
        }
        let period_us = self.options.workload.period_us;
        let after_us = self.draw((1, 2 * period_us));
        self.schedule(after_us, Event::ClientWork);
        let writing = self.options.writing_region(self.now_us);
        let writes = |id: &MemberId| writing.is_none() || self.options.region(*id) == writing;
        let up: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| self.node(*id).has_data && writes(id))
            .collect();
        let Some(id) = self.pick(&up) else { return };
        if self.chance(self.options.workload.reads) || self.now_us < self.quiet_until_us {
            self.read(id);
        } else {
            // Sometimes several at the same moment.
            for _ in 0..self.rng.random_range(1..4) {
                self.submit(id);
            }
        }
    }

    /// A client at a member asks for a causal read.
    pub(crate) fn read(&mut self, id: MemberId) {
        if self.node(id).paused_until_us > self.now_us {
            return;
        }
        self.check_age(id);
        let committed = self.commit_index();
        let read = self.checks.reads.ask(id, committed);
        let reply = self.process(id).effects.reply_to(read);
        self.feed(id, Input::Read(ReadDone { id: read, reply }));
    }

    /// Checks how old the database of a member is said to be.
    pub(crate) fn check_age(&mut self, id: MemberId) {
        let (node, now) = (self.node(id), self.local(id));
        let process = node.process.as_ref().filter(|_| node.has_data);
        let applied = node.database.applied;
        let age = process.and_then(|process| process.shared.staleness(now, applied));
        let Some(age) = age else { return };
        let since = Time(now.0.saturating_sub(age.as_micros() as u64));
        let Some(since_us) = node.clock.past(since) else {
            return;
        };
        self.coverage.count("database of a known age");
        let lag_us = self.checks.lags.lag_us(self.now_us, applied);
        let checked = Reads::is_as_young(id, self.now_us - since_us, lag_us);
        self.judge(checked);
    }

    /// A client at a member commits a transaction.
    pub(crate) fn submit(&mut self, id: MemberId) -> bool {
        let node = self.node(id);
        let is_paused = node.paused_until_us > self.now_us;
        let waiting = node.process.as_ref().map(|p| p.driver.load().submitted);
        let busy = waiting.is_none_or(|count| count >= IN_FLIGHT_MAX);
        // Servers whose database does not follow the group take no clients.
        let ready = node.process.as_ref().is_some_and(|p| p.deliverer.is_some());
        if busy || !ready || is_paused {
            return false;
        }
        let Some((rows, class)) = self.draw_transaction(id) else {
            return false;
        };
        let last_seen = self.node(id).database.applied.0;
        let kind = if self.chance(0.8) {
            KeyType::Exclusive
        } else {
            KeyType::Update
        };
        let mut keys = match class {
            Class::TotalOrder => table_keys(self.rng.random_range(0..TABLES)),
            Class::WriteSet { .. } | Class::Barrier => row_keys(&rows, kind),
        };
        if self.chance(0.2) {
            // Refers to any row, as a foreign key does.
            let row = self.rng.random_range(0..self.options.workload.rows);
            let table = (row % TABLES).to_le_bytes();
            let kind = if self.chance(0.5) {
                KeyType::Reference
            } else {
                KeyType::Shared
            };
            keys.append(&[b"db", &table, &row.to_le_bytes()], kind);
        }
        self.next_transaction += 1;
        let (share, bytes_max) = self.options.workload.filler;
        let filler = if self.chance(share) {
            self.rng.random_range(0..bytes_max)
        } else {
            0
        };
        let content = Content {
            transaction: self.next_transaction,
            rows,
            filler,
        };
        let action = Action {
            class,
            keys,
            last_seen,
            data: content.encode(),
        };
        self.hand_over(id, content, &action);
        true
    }

    /// Rows that no other client at this member holds, and the class of the action. `None` if one
    /// of the rows is held.
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

    fn hand_over(&mut self, id: MemberId, content: Content, action: &Action) {
        let Content {
            transaction, rows, ..
        } = content;
        let chunk_bytes = self.options.chunk_bytes;
        let process = self.process(id);
        let session = process.session;
        process.locks.extend(rows.iter().copied());
        let epoch = process.shared.epoch().clone();
        let caller = Arc::new(WaitingClient {
            transaction,
            effects: process.effects.clone(),
            outcome: Mutex::new(ResultSlot::new(epoch.clone())),
        });
        let snapshot = process.shared.hold_snapshot(Seqno(action.last_seen));
        let number = process.number();
        let epoch = epoch.load(std::sync::atomic::Ordering::Acquire);
        let rest: VecDeque<Piece> = split_into_chunks(action, epoch, chunk_bytes, number).collect();
        let pieces = rest.len();
        let share = self.options.workload.hesitant.0;
        let known = Transaction {
            member: id,
            session,
            rows,
            caller,
            rest,
            is_hesitant: pieces > 1 && share > 0.0 && self.chance(share),
            snapshot,
        };
        self.transactions.insert(transaction, known);
        self.coverage.count("transaction");
        self.coverage.count_if(pieces > 1, "action in chunks");
        self.note(
            id,
            What::Proposed {
                number: transaction,
            },
        );
        let timeout_us = self.options.workload.timeout_us;
        self.schedule(timeout_us, Event::ClientTimeout { transaction });
        self.hand_over_rest(id, transaction);
    }

    /// Hands over the remaining pieces: all of them, or one now and the next after a pause.
    pub(crate) fn hand_over_rest(&mut self, id: MemberId, transaction: u64) {
        while let Some(known) = self.transactions.get_mut(&transaction) {
            let Some(piece) = known
                .rest
                .pop_front()
                .filter(|_| !known.caller.is_decided())
            else {
                break;
            };
            let (kind, payload) = piece.into_proposal();
            let submission = Submission {
                kind,
                payload,
                waiter: Waiter::new(known.caller.clone()),
                snapshot: Some(known.snapshot.clone()),
                held: None,
            };
            let waits = known.is_hesitant && !known.rest.is_empty();
            self.feed_without_turn(id, Input::Submit(submission));
            if waits {
                self.coverage.count("client hesitates");
                let longest_us = self.options.workload.hesitant.1;
                let (node, epoch) = (id, self.node(id).epoch);
                let after_us = self.draw((0, longest_us));
                let next = Event::NextPiece {
                    node,
                    epoch,
                    transaction,
                };
                self.schedule(after_us, next);
                break;
            }
        }
        if self.is_up(id) {
            self.settle(id);
        }
    }

    // --- answers to clients -----------------------------------------------------------------

    /// A client's transaction has a result.
    pub(crate) fn transaction_ended(
        &mut self,
        id: MemberId,
        transaction: u64,
        result: ProposalResult,
    ) {
        results::count(&mut self.coverage, &result);
        match result {
            ProposalResult::Ordered { seqno, .. } => {
                let number = transaction;
                self.note(id, What::Ordered { number, seqno });
                self.coverage.count("transaction acknowledged");
                match self.checks.history.entry_of(transaction, seqno) {
                    Ok(entry) => self.check_acknowledged(entry),
                    Err(violation) => self.judge(Err(violation)),
                }
                self.process(id).attached.insert(seqno, transaction);
            }
            ProposalResult::Conflict { .. }
            | ProposalResult::TooOld
            | ProposalResult::GivenUp
            | ProposalResult::NotWriter
            | ProposalResult::Rejected
            | ProposalResult::Withdrawn
            | ProposalResult::NotProposed => {
                let name = match result {
                    ProposalResult::Conflict { .. } => "conflict",
                    ProposalResult::TooOld => "snapshot too old",
                    ProposalResult::GivenUp => "proposal given up",
                    ProposalResult::NotWriter => "not the writer",
                    ProposalResult::NotProposed => "no group to propose to",
                    _ => "proposal malformed",
                };
                self.coverage.count(name);
                self.note(
                    id,
                    What::RefusedWrite {
                        number: transaction,
                    },
                );
                let checked = self.checks.history.refused(transaction);
                self.judge(checked);
                self.finish(transaction);
            }
            ProposalResult::Unknown => {
                self.coverage.count("transaction unknown");
                self.finish(transaction);
            }
        }
    }

    /// A client is answered "committed": a majority must have the entry on disk now.
    fn check_acknowledged(&mut self, entry: EntryId) {
        self.acknowledged.push((self.now_us, entry));
        let checked = self.check_held(entry);
        self.judge(checked);
    }

    /// Checks that the disks of a majority have a committed entry.
    pub(crate) fn check_held(&self, entry: EntryId) -> Checked {
        let voters = self.checks.quorums.voters_of(entry.index);
        durable_on_quorum(entry, voters, |member| self.holds(member, entry))
    }

    /// The client stops waiting: its locks are released, and later transactions of this member no
    /// longer count as protected by them.
    pub(crate) fn give_up(&mut self, transaction: u64) {
        let Some(known) = self.transactions.get(&transaction) else {
            return;
        };
        let (id, caller) = (known.member, known.caller.clone());
        if lock(&caller.outcome).give_up() != ProposalResult::Unknown {
            // The result is known; the client only waits for the database.
            return;
        }
        self.coverage.count("transaction timed out");
        self.note(
            id,
            What::GivenUp {
                number: transaction,
            },
        );
        self.finish(transaction);
    }

    /// The process of these clients has ended.
    pub(crate) fn forget_clients(&mut self, id: MemberId, session: SessionId) {
        let theirs = |known: &Transaction| (known.member, known.session) == (id, session);
        self.transactions.retain(|_, known| !theirs(known));
    }

    /// A transaction is over: its locks are released.
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

    /// Whether any proposal of this member has no result yet.
    pub(crate) fn has_pending_proposals(&self, id: MemberId) -> bool {
        let process = self.node(id).process.as_ref();
        process.is_some_and(|p| p.driver.load().submitted > 0)
    }

    /// Seqno of the last committed action.
    pub(crate) fn last_seqno(&self) -> Seqno {
        self.checks.committed.last_seqno()
    }
}

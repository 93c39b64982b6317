//! The program in which a simulated member runs: a database that is only a position, and a host.
//!
//! The host does what production's provider does, in the same order: it joins, delivers after the
//! database's position, fetches where the log does not reach back, asks for a full copy where no
//! log does, and donates copies.

use synod_consensus::{MemberId, Seqno};
use synod_log::LogError;
use synod_member::{
    DeliverError, Delivered, Deliverer, Delivery, DonorRequest, Event as Input, Me,
    StateTransferEvent, View, ViewMember,
};
use synod_wire::{DataState, StateOffer, StateRequest, StateResult};

use crate::expected::copies;
use crate::invariants::{Violation, everywhere, same_data};
use crate::member::ApplierPace;
use crate::options::Fault;
use crate::trace::{Text, What};
use crate::world::{Event, MS, SECOND, World};

/// Most entries that are applied at one time.
const AT_ONCE: u64 = 8;
/// A database that stands still is looked at so often.
const STILL_US: u64 = 10 * MS;
/// After this time without a full copy, the joiner asks again, in microseconds.
const COPY_PATIENCE_US: u64 = 3 * SECOND;
/// Duration of a full copy, in microseconds.
const COPY_US: (u64, u64) = (20 * MS, SECOND);
/// Duration of a long one.
const LONG_COPY_US: (u64, u64) = (SECOND, 2 * SECOND);

impl World {
    // --- joining ----------------------------------------------------------------------------

    /// The process has started. A logger has no database to wait for.
    pub(crate) fn start_logger(&mut self, id: MemberId) {
        if self.is_up(id) && !self.node(id).has_data {
            self.feed(id, Input::DataState(DataState::Joined));
        }
    }

    /// The group has this member. Its database follows the log, or is replaced by a full copy.
    pub(crate) fn joined(&mut self, id: MemberId, view: &View) {
        self.coverage.count("joined");
        let applied = self.node(id).database.starts_at;
        let process = self.process(id);
        let first = process.shared.first_seqno(&process.reader);
        // What is missing of the history of a database is fetched, if there still is one.
        let has_history = applied > Seqno(0) || applied.next() >= first;
        if has_history && !process.shared.is_database_diverged() {
            self.coverage
                .count_if(applied.next() < first, "database before the log");
            return self.deliver_after(id, applied);
        }
        self.ask_for_copy(id, view.seqno);
    }

    fn deliver_after(&mut self, id: MemberId, after: Seqno) {
        let checked = same_data::follows(id, after, self.node(id).database.applied);
        self.judge(checked);
        let process = self.process(id);
        let me = Me {
            member: id,
            session: process.session,
        };
        let (reader, shared) = (process.reader.clone(), process.shared.clone());
        let host = process.effects.clone();
        process.deliverer = Some(Deliverer::new(reader, shared, host, me, after));
        process.shared.set_applied(after);
        self.process(id).synced_since_us = Some(self.now_us);
        self.feed(id, Input::DataState(DataState::Synced));
    }

    // --- delivery ---------------------------------------------------------------------------

    /// Plans the next application of entries, if there may be any.
    pub(crate) fn schedule_apply(&mut self, id: MemberId) {
        let node = self.node(id);
        if !node.has_data {
            // A logger counts as having applied everything.
            let process = self.process(id);
            let committed = process.shared.commit_seqno();
            process.shared.set_applied(committed);
            return;
        }
        let moved = self.has_moved(id);
        let process = self.process(id);
        let is_waiting = process.is_applying || process.failed.is_some();
        if is_waiting || process.deliverer.is_none() || !moved {
            return;
        }
        process.is_applying = true;
        let slow = self.has(Fault::SlowApply) && !self.is_liveness_phase;
        let after_us = match self.node(id).applies {
            ApplierPace::Usual => self.draw(if slow { (MS, 200 * MS) } else { (50, 2 * MS) }),
            ApplierPace::Slow { us } => us,
            ApplierPace::StandsStill => STILL_US,
        };
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(after_us, Event::Apply { node, epoch });
    }

    /// Applies entries that are committed and written at this member.
    pub(crate) fn apply(&mut self, id: MemberId) {
        let process = self.process(id);
        process.is_applying = false;
        if self.node(id).applies == ApplierPace::StandsStill {
            return self.schedule_apply(id);
        }
        let process = self.process(id);
        let moved = std::sync::atomic::Ordering::Relaxed;
        process.effects.moved.store(false, moved);
        // A member may die between any two.
        let at_once = if process.recorder.is_some() {
            1
        } else {
            AT_ONCE
        };
        let Some(deliverer) = process.deliverer.as_mut() else {
            return self.settle(id);
        };
        match deliverer.step(at_once) {
            Ok(Delivered::Some) => process.effects.moved.store(true, moved),
            Ok(Delivered::Nothing | Delivered::Stopped) => {}
            Ok(Delivered::Fetching) => {
                self.coverage.count("entries wanted from other members");
                self.feed(id, Input::Fetch);
            }
            Err(DeliverError::Log(error @ LogError::Damaged { .. })) => {
                return self.log_failed(id, error);
            }
            Err(error) => return self.delivery_failed(id, &error),
        }
        self.perform_effects(id);
        if self.is_up(id) && self.violation.is_none() {
            let applied = self.node(id).database.applied;
            self.note(id, What::Applied { seqno: applied });
            self.settle(id);
        }
    }

    /// The database's next entry is not in the log.
    fn delivery_failed(&mut self, id: MemberId, error: &DeliverError) {
        let why = error.to_string();
        let is_purged = matches!(
            error,
            DeliverError::Purged { .. }
                | DeliverError::MissingChunks { .. }
                | DeliverError::Log(LogError::SeqnoPurged { .. } | LogError::Purged { .. })
        );
        if !is_purged {
            return self.judge(Err(Violation {
                rule: "committed entries can be read",
                what: format!("{id}: {why}"),
            }));
        }
        if let DeliverError::Purged { after, first, .. } = error
            && *first <= after.next()
        {
            return self.judge(Err(Violation {
                rule: "a database that has all that the log lacks keeps applying",
                what: format!("{id}: {why}"),
            }));
        }
        // The log was reset after the database's position, and no member has what is between. The
        // operator follows the logged advice.
        self.coverage.count("database before the log's beginning");
        self.note(id, What::Refused { why: Text(why) });
        self.end_process(id);
        self.node_mut(id).database.replace(Seqno(0));
        self.restart_later(id);
    }

    /// The host gets an action or a view.
    pub(crate) fn delivered(&mut self, id: MemberId, delivery: &Delivery) {
        if self.waits_behind_failure(id, delivery) || self.fails_to_apply(id, delivery) {
            return;
        }
        self.check_not_lost(id);
        let applied = self.node(id).database.applied;
        let checked = self.checks.history.delivered(id, applied, delivery);
        self.judge(checked);
        let seqno = delivery.seqno();
        let now_us = self.now_us;
        self.node_mut(id).database.apply(now_us, seqno);
        let is_awaited = self.process(id).shared.set_applied(seqno);
        let waiting = self.process(id).attached.remove(&seqno);
        let own = matches!(delivery, Delivery::Action { data: None, .. });
        if own != waiting.is_some() {
            self.judge(Err(Violation {
                rule: "an action is finished once: by its client, or by an applier",
                what: format!("{id} at {seqno}: left to the client: {own}, waits: {waiting:?}"),
            }));
        }
        if let Some(transaction) = waiting {
            self.finish(transaction);
        }
        if is_awaited {
            self.feed(id, Input::Applied);
        }
        if self.is_up(id) {
            self.applied_after_all(id, seqno);
        }
    }

    /// A member says that all databases have applied everything up to `told`.
    pub(crate) fn check_everywhere(&mut self, id: MemberId, told: Seqno) {
        if told == Seqno(i64::MAX) {
            return;
        }
        self.coverage.count("applied everywhere");
        let process = self.process(id);
        let view = process.shared.status().view;
        let excluded: Vec<MemberId> = process.driver.excluded_databases().collect();
        self.coverage
            .count_if(!excluded.is_empty(), "database not waited for");
        // A member may not have heard yet that a database follows the group again. Its clock may be
        // slow.
        let known_by_us = self
            .now_us
            .saturating_sub(3 * self.options.suspect().as_micros() as u64);
        let has = |member: &ViewMember| {
            let node = self.nodes.get(&member.member)?;
            let process = node.process.as_ref()?;
            let is_synced = process.synced_since_us.is_some_and(|us| us < known_by_us);
            let is_waited_for = member.member != id && !excluded.contains(&member.member);
            let counts = is_synced && is_waited_for && process.session == member.session;
            counts.then_some((member.member, node.database.applied))
        };
        let waited_for: Vec<(MemberId, Seqno)> = view.members.iter().filter_map(has).collect();
        self.coverage
            .count_if(!waited_for.is_empty(), "applied everywhere, checked");
        let checked = everywhere::told(id, told, waited_for.into_iter());
        self.judge(checked);
    }

    // --- full copies ------------------------------------------------------------------------

    /// The member's log lacks actions that its database needs: it asks for a full copy.
    fn ask_for_copy(&mut self, id: MemberId, after: Seqno) {
        let database = &mut self.node_mut(id).database;
        (database.copying, database.copies) = (true, database.copies + 1);
        let now_us = self.now_us;
        let process = self.process(id);
        let number = process.number();
        process.asked = Some((number, now_us));
        process.synced_since_us = None;
        let session = process.session;
        self.coverage.count("full copy asked for");
        self.feed(id, Input::DataState(DataState::Joining));
        let request = StateRequest {
            id: number,
            joiner: id,
            session,
            after,
            preferred: Vec::new(),
            any_donor: true,
            request: Vec::new().into(),
        };
        self.feed(id, Input::RequestState(request));
        if self.is_up(id) {
            let (node, epoch) = (id, self.node(id).epoch);
            self.schedule(
                COPY_PATIENCE_US,
                Event::AskAgain {
                    node,
                    epoch,
                    number,
                    after,
                },
            );
        }
    }

    /// No copy has arrived in time: the member asks again.
    pub(crate) fn ask_again(&mut self, id: MemberId, number: u64, after: Seqno) {
        if self
            .process(id)
            .asked
            .is_some_and(|(asked, _)| asked == number)
        {
            self.ask_for_copy(id, after);
        }
    }

    /// A joiner asks this member for a full copy.
    pub(crate) fn donate(&mut self, id: MemberId, request: &DonorRequest) {
        let node = self.node(id);
        let fit = node.has_data && !node.database.copying && node.database.applied >= request.after;
        let (joiner, number) = (request.joiner, request.id);
        let offer = StateOffer {
            id: number,
            donor: id,
            accepted: fit,
            text: String::new(),
        };
        self.feed(id, Input::StateOffer { joiner, offer });
        if fit && self.is_up(id) {
            let (node, epoch) = (id, self.node(id).epoch);
            let is_long = self.options.long_copies;
            let takes = if is_long { LONG_COPY_US } else { COPY_US };
            let after_us = self.draw(takes);
            // The joiner prepares a long copy for most of that time.
            let seqno = is_long.then_some(self.node(id).database.applied);
            self.schedule(
                after_us,
                Event::Copied {
                    node,
                    epoch,
                    joiner,
                    number,
                    seqno,
                },
            );
        }
    }

    /// This member has sent a full copy, at its present position or at an earlier one.
    pub(crate) fn copied(
        &mut self,
        id: MemberId,
        joiner: MemberId,
        number: u64,
        seqno: Option<Seqno>,
    ) {
        let seqno = seqno.unwrap_or(self.node(id).database.applied);
        let result = StateResult {
            id: number,
            ok: true,
            code: 0,
            seqno,
            text: String::new(),
        };
        self.feed(id, Input::StateResult { joiner, result });
    }

    /// An event of the state transfer that this member asked for.
    pub(crate) fn copy_event(&mut self, id: MemberId, number: u64, event: StateTransferEvent) {
        let current = self
            .process(id)
            .asked
            .is_some_and(|(asked, _)| asked == number);
        if !current {
            return;
        }
        copies::count(&mut self.coverage, &event);
        match event {
            StateTransferEvent::Accepted { .. } => {}
            // The member asks again after a while.
            StateTransferEvent::NoDonor { .. } | StateTransferEvent::Failed { .. } => {
                self.coverage.count("no full copy yet");
            }
            StateTransferEvent::Done { seqno } => {
                self.process(id).asked = None;
                let database = &mut self.node_mut(id).database;
                database.copying = false;
                database.replace(seqno);
                self.coverage.count("full copy");
                self.note(id, What::Copied { seqno });
                self.record_copy(id);
                if !self.is_up(id) {
                    return;
                }
                self.deliver_after(id, seqno);
            }
        }
    }

    /// After a crash, the database comes back between what it had flushed and what it had applied.
    pub(crate) fn database_after_crash(&mut self, id: MemberId) {
        self.flush_databases();
        let database = &self.node(id).database;
        if database.copying {
            // An incomplete copy is useless.
            return self.node_mut(id).database.replace(Seqno(0));
        }
        let durable = database.durable.0.max(0) as u64;
        let changes = database.unflushed.len() as u64;
        let left = self.draw((durable, durable + changes)) - durable;
        self.node_mut(id).database.lose_all_but(left as usize);
    }
}

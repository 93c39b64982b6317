//! Runs a member: inputs go into its driver, and the effects come out, are checked and performed.
//!
//! `feed` and `turn` are called by the event queue (`world/mod.rs`), by faults and by clients. The
//! checks of single effects are in `effect_checks.rs`, those after every turn in `turn_checks.rs`.

use std::time::Duration;

use synod_consensus::{MemberId, Reason};
use synod_member::{Driver, Event as Input, Job, Level, ReadForPeer};
use synod_wire::{DataState, PeerMessage};

use crate::expected::remedies;
use crate::invariants::durable_first::may_leave;
use crate::invariants::require;
use crate::member::recorded_effects::RecordedEffect;
use crate::trace::{Text, What};
use crate::world::messages::protocol;
use crate::world::{Event, World};

impl World {
    // --- inputs -----------------------------------------------------------------------------

    /// Gives a member an input. Its next turn comes at once, or after some more inputs.
    pub(crate) fn feed(&mut self, id: MemberId, input: Input) {
        if !self.is_up(id) {
            return;
        }
        self.drive(id, |driver, now| driver.handle(now, input));
        self.settle(id);
    }

    /// Gives a member an input without a turn: more inputs follow, or the caller ends the turn.
    pub(crate) fn feed_without_turn(&mut self, id: MemberId, input: Input) {
        if self.is_up(id) {
            self.drive(id, |driver, now| driver.handle(now, input));
        }
    }

    /// Calls the driver, and checks and performs the effects of the call.
    pub(crate) fn drive(
        &mut self,
        id: MemberId,
        call: impl FnOnce(&mut Driver, synod_consensus::Time),
    ) {
        let now = self.local(id);
        self.note_window(id);
        let reads = self.node(id).faulty.reads();
        call(&mut self.process(id).driver, now);
        let reads = self.node(id).faulty.reads() - reads;
        self.judge(require(reads == 0, "the driver never reads a disk", || {
            format!("{id}: {reads} reads in one call")
        }));
        self.note_window(id);
        self.perform_effects(id);
    }

    fn note_window(&mut self, id: MemberId) {
        let process = self.process(id);
        let start = process.driver.certified_from();
        if process.windows.last() != Some(&start) {
            process.windows.push(start);
        }
    }

    /// Ends a turn now, or lets more inputs come first.
    pub(crate) fn settle(&mut self, id: MemberId) {
        if !self.is_up(id) || self.process(id).turn_planned {
            return;
        }
        let gather = self.options.gather;
        if gather > 0.0 && self.chance(gather) {
            self.process(id).turn_planned = true;
            let (node, epoch) = (id, self.node(id).epoch);
            let after_us = self.draw((0, 300));
            self.schedule(after_us, Event::Turn { node, epoch });
        } else {
            self.turn(id);
        }
    }

    /// One turn of the driver; then the disk and the appliers get work, and the checkers look.
    pub(crate) fn turn(&mut self, id: MemberId) {
        let core = self.core(id);
        let (ranked, moves) = (
            core.handovers(Reason::Rank),
            core.handovers(Reason::Writers),
        );
        let term = core.term();
        self.drive(id, Driver::turn);
        if !self.is_up(id) || self.violation.is_some() {
            return;
        }
        if self.core(id).handovers(Reason::Rank) > ranked {
            self.coverage.count("leader transfer for a weight");
        }
        if self.core(id).handovers(Reason::Writers) > moves {
            self.coverage.count("leader moved to the writers");
            let (now_us, pause_us) = (self.now_us, self.options.leader_pause_us());
            let moves = &mut self.checks.leader_moves;
            let checked = moves.moved(now_us, id, term, pause_us);
            self.judge(checked);
        }
        self.write_queued_jobs(id);
        if !self.is_up(id) {
            return;
        }
        self.schedule_apply(id);
        self.check_member(id);
        let now_us = self.now_us;
        let node = self.node_mut(id);
        let Some(process) = node.process.as_mut() else {
            return;
        };
        let kept = process.voters.len().saturating_sub(1);
        process.voters.drain(..kept);
        let kept = process.windows.len().saturating_sub(1);
        process.windows.drain(..kept);
        let wake = process.driver.wake_at();
        process.tick_at_us = Some(node.clock.global(wake).max(now_us + 1));
    }

    // --- effects ----------------------------------------------------------------------------

    /// Takes the effects of the process since the last call, for a check that there are none.
    pub(crate) fn take_effects(&mut self, id: MemberId) -> Vec<RecordedEffect> {
        let process = self.process(id);
        std::iter::from_fn(|| process.effects.next()).collect()
    }

    /// Checks and performs, in order, the effects of the process since the last call.
    pub(crate) fn perform_effects(&mut self, id: MemberId) {
        let mut failed = None;
        while self.violation.is_none() && self.is_up(id) {
            let Some(effect) = self.process(id).effects.next() else {
                break;
            };
            match effect {
                RecordedEffect::Core(core) => self.core_effect(id, core),
                RecordedEffect::Send { to, over, message } => self.sends(id, to, over, message),
                RecordedEffect::Connect(other) => self.reconnect_later(id, other),
                RecordedEffect::SetGroup => self.introduce(id),
                RecordedEffect::StopSeeking => self.process(id).is_seeking = false,
                RecordedEffect::Write(job) => self.queue_job(id, job),
                RecordedEffect::Read(request) => {
                    self.coverage.count(match &request {
                        ReadForPeer::OldEntries(_) => "catch-up from disk",
                        ReadForPeer::Fetch(_) => "entries read for a member that fetches",
                    });
                    self.process(id).catch_ups.push_back(request);
                    if self.process(id).catch_ups.len() == 1 {
                        self.read_next(id);
                    }
                }
                RecordedEffect::Decided {
                    transaction,
                    result,
                } => self.transaction_ended(id, transaction, result),
                RecordedEffect::ReadAnswered { read, seqno } => {
                    let checked = self.checks.reads.passed_on(id, read, seqno);
                    self.judge(checked);
                    self.check_age(id);
                }
                RecordedEffect::Joined(view) => self.joined(id, &view),
                RecordedEffect::AppliedEverywhere(seqno) => self.check_everywhere(id, seqno),
                RecordedEffect::Donate(request) => self.donate(id, &request),
                RecordedEffect::StateTransfer { id: number, event } => {
                    self.copy_event(id, number, event)
                }
                RecordedEffect::Failed(why, remedy) => {
                    remedies::count(&mut self.coverage, &remedy);
                    failed = Some(why);
                }
                RecordedEffect::Forced(result) => self.forced_primary_answered(id, result),
                RecordedEffect::EntriesSkipped => {
                    self.coverage.count("entries skipped at delivery")
                }
                RecordedEffect::Left => failed = Some("left".to_owned()),
                RecordedEffect::OutcomeDecided(decision) => self.outcome_decided(id, &decision),
                RecordedEffect::Delivered(delivery) => self.delivered(id, &delivery),
                RecordedEffect::Logged(level, text) => {
                    if level > Level::Debug {
                        self.note(id, What::Logged { text: Text(text) });
                    }
                }
            }
        }
        if self.is_up(id)
            && self.violation.is_none()
            && (failed.is_some() || self.process(id).driver.is_stopped())
        {
            self.stopped(id, failed.unwrap_or_default());
        }
    }

    /// Sends a message, after the check that it may leave.
    fn sends(&mut self, id: MemberId, to: MemberId, over: Option<u64>, message: PeerMessage) {
        if let Some(message) = protocol(&message) {
            let disk = &self.node(id).disk;
            let unrepaired_mark = disk.unrepaired_mark();
            let checked = may_leave(message, &disk.written, &disk.durable);
            self.judge(checked);
            let checked = self.checks.repairs.may_leave(message, unrepaired_mark);
            self.judge(checked);
        }
        let is_stale = over.is_some_and(|over| over != self.net.connection(id, to));
        if !is_stale {
            self.send(id, to, &message);
        }
    }

    fn queue_job(&mut self, id: MemberId, job: Job) {
        if let Job::Append { entries, .. } = &job {
            for entry in entries {
                let checked = self.checks.payloads.put(entry);
                self.judge(checked);
            }
        }
        self.process(id).jobs.push_back(job);
    }

    /// The process has stopped. It is started again after a while, unless an operator does that.
    fn stopped(&mut self, id: MemberId, why: String) {
        if let Some(damage) = self.node_mut(id).damage_met.take() {
            let checked = require(why.contains(&damage), "damage is named", || {
                format!("{id} stops because of {damage} and says: {why}")
            });
            self.judge(checked);
        }
        self.coverage
            .count_if(why.contains("protocol version"), "program version refused");
        // The text advises the operator to delete the database, or to have it copied again.
        if why.contains("without a majority") || why.contains("forced primary") {
            self.give_up_database(id);
        }
        match why.as_str() {
            "left" => self.coverage.count("orderly shutdown"),
            _ => self.coverage.count("member stopped"),
        }
        self.note(id, What::Refused { why: Text(why) });
        self.check_stopped(id);
        self.end_process(id);
        if !self.node(id).stays_down {
            self.restart_later(id);
        }
    }

    /// Checks that a stopped driver has no effects: delivers one more event and one more turn, as a
    /// real thread would before it sees that the driver has stopped. The group may have removed
    /// the member already.
    fn check_stopped(&mut self, id: MemberId) {
        let now = self.local(id);
        let process = self.process(id);
        process
            .driver
            .handle(now, Input::DataState(DataState::Synced));
        // Everything that is due periodically is due now.
        process.driver.turn(now.plus(Duration::from_secs(1)));
        let effects = std::iter::from_fn(|| process.effects.next());
        let count = effects
            .filter(|effect| !matches!(effect, RecordedEffect::Logged(..)))
            .count();
        let rule = "a stopped driver has no effects";
        let checked = require(count == 0, rule, || {
            format!("{id} has stopped, and has {count} effects in one more turn")
        });
        self.judge(checked);
    }
}

//! The world: members, network, clocks, clients and checkers in one thread, on one virtual clock.
//!
//! All random numbers come from one seeded generator, and events happen in one order (time, then
//! number). The same seed therefore gives the same run. `World` holds the state; other files add
//! methods for their part of it.

pub(crate) mod clock;
pub(crate) mod messages;
pub(crate) mod net;
pub(crate) mod peers;
pub(crate) mod wanted_links;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{Core, EntryId, GroupId, LogIndex, MemberId, Seqno, Time};
use synod_member::Event as Input;
use synod_wire::{CommandRefusal, Done};

use crate::clients::Transaction;
use crate::expected::signs_of_life;
use crate::faults::scenes::{LateCandidate, SceneStep};
use crate::faults::strangers::Strangers;
use crate::invariants::voters::VoterBounds;
use crate::invariants::{Checked, Invariants, Violation};
use crate::member::{Node, Process};
use crate::options::{Fault, Options};
use crate::report::Coverage;
use crate::trace::{Note, Trace, What};
use crate::world::net::Network;
use crate::world::wanted_links::WantedLinks;

/// A millisecond, in microseconds.
pub(crate) const MS: u64 = 1_000;
/// A second, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;
/// The one group there is.
pub(crate) const GROUP: GroupId = GroupId(*b"synod simulation");

/// An event that is due at some time. `epoch` is that of the process: the event is void if the
/// process has ended since.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Arrives {
        from: MemberId,
        to: MemberId,
        connection: u64,
        group: GroupId,
        frame: Bytes,
    },
    /// A process that stands still has answered a ping.
    Pong {
        of: MemberId,
        to: MemberId,
    },
    Turn {
        node: MemberId,
        epoch: u64,
    },
    Synced {
        node: MemberId,
        epoch: u64,
    },
    Apply {
        node: MemberId,
        epoch: u64,
    },
    /// A while after this batch; the log is idle if nothing was written since.
    Idle {
        node: MemberId,
        epoch: u64,
        batch: u64,
    },
    CatchUp {
        node: MemberId,
        epoch: u64,
    },
    /// A donor has sent the whole copy.
    Copied {
        node: MemberId,
        epoch: u64,
        joiner: MemberId,
        number: u64,
        /// Its position, if that is not the one of the end.
        seqno: Option<Seqno>,
    },
    /// A joiner asks for a copy again, unless one has arrived.
    AskAgain {
        node: MemberId,
        epoch: u64,
        number: u64,
        after: Seqno,
    },
    Seek {
        node: MemberId,
        epoch: u64,
    },
    Start {
        node: MemberId,
        epoch: u64,
    },
    /// A member continues with an action that has failed.
    FailureStep {
        node: MemberId,
        epoch: u64,
    },
    /// The engine has flushed what the database had lacked.
    EngineFlushed {
        node: MemberId,
        epoch: u64,
    },
    Reconnect {
        a: MemberId,
        b: MemberId,
    },
    ClientTimeout {
        transaction: u64,
    },
    /// A hesitant client hands over the next piece of its action.
    NextPiece {
        node: MemberId,
        epoch: u64,
        transaction: u64,
    },
    ClientWork,
    InjectFault,
    /// A step of a scene.
    SceneStep(SceneStep),
}

/// One simulated group and everything around it.
pub(crate) struct World {
    pub(crate) now_us: u64,
    pub(crate) rng: SmallRng,
    pub(crate) options: Options,
    /// Operators hold the group's protocol version. In a few runs only: see `sets_writers`.
    pub(crate) holds_version: bool,
    /// Commits wait until all databases have applied them. In a few runs only: the questions and
    /// answers alter what happens.
    pub(crate) waits_for_all: bool,
    /// Operators change whose writes the group takes. In a few runs only, for the same reason.
    pub(crate) sets_writers: bool,
    /// The group has agreed on commits in two regions, and keeps to that in the safety phase.
    pub(crate) regions_are_asked_for: bool,
    pub(crate) nodes: BTreeMap<MemberId, Node>,
    pub(crate) net: Network,
    pub(crate) checks: Invariants,
    pub(crate) trace: Trace,
    pub(crate) coverage: Coverage,
    /// Answers to operators' commands.
    pub(crate) answers: Arc<Mutex<Vec<Result<Done, CommandRefusal>>>>,
    pub(crate) transactions: BTreeMap<u64, Transaction>,
    pub(crate) next_transaction: u64,
    /// Answers "committed": when, in microseconds, and the entry.
    pub(crate) acknowledged: Vec<(u64, EntryId)>,
    pub(crate) next_session: u64,
    pub(crate) violation: Option<Violation>,
    /// A member with the order to become a forced primary that has not changed the configuration.
    pub(crate) forced: Option<MemberId>,
    /// Since when a leader has stated a purge limit, in microseconds of the world's time.
    pub(crate) purge_limit_since_us: Option<u64>,
    /// Faults and clients have ended; the healed core has to come to rest.
    pub(crate) is_liveness_phase: bool,
    /// Between which numbers the group has to keep its voters by itself, if operators change none.
    pub(crate) voter_bounds: Option<VoterBounds>,
    /// The connections that drivers want.
    pub(crate) wanted_links: Arc<WantedLinks>,
    /// Pairs of members that will connect again soon.
    pub(crate) reconnecting: BTreeSet<(MemberId, MemberId)>,
    /// The late candidate of a scene that waits for the next leader.
    pub(crate) late_candidate: Option<LateCandidate>,
    /// Shortest and longest sync of every disk while all are slow, in microseconds.
    pub(crate) slow_syncs_us: Option<(u64, u64)>,
    /// Until then clients only read.
    pub(crate) quiet_until_us: u64,
    /// Processes outside the group.
    pub(crate) strangers: Strangers,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options, print: bool) -> World {
        let holds_version = options.holds_version(seed);
        World {
            now_us: 0,
            // A different stream from the one that drew the options.
            rng: SmallRng::seed_from_u64(seed ^ 0x5eed_0f5e_ed00),
            sets_writers: options.sets_writers(seed),
            regions_are_asked_for: false,
            holds_version,
            options,
            waits_for_all: seed % 16 == 11,
            nodes: BTreeMap::new(),
            net: Network::default(),
            checks: Invariants::default(),
            trace: Trace::new(print),
            coverage: Coverage::default(),
            answers: Arc::default(),
            transactions: BTreeMap::new(),
            next_transaction: 0,
            acknowledged: Vec::new(),
            next_session: 0,
            violation: None,
            forced: None,
            purge_limit_since_us: None,
            is_liveness_phase: false,
            voter_bounds: None,
            wanted_links: Arc::default(),
            reconnecting: BTreeSet::new(),
            late_candidate: None,
            slow_syncs_us: None,
            quiet_until_us: 0,
            strangers: Strangers::new(seed),
            queue: BTreeMap::new(),
            events: 0,
        }
    }

    // --- bookkeeping ------------------------------------------------------------------------

    /// Adds an event to the trace.
    pub(crate) fn note(&mut self, member: MemberId, what: What) {
        let at_us = self.now_us;
        self.trace.note(Note {
            at_us,
            member,
            what,
        });
    }

    /// Remembers the first broken rule.
    pub(crate) fn judge(&mut self, checked: Checked) {
        if let Err(violation) = checked {
            self.violation.get_or_insert(violation);
        }
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    /// A random number in the range, both ends included.
    pub(crate) fn draw(&mut self, (min, max): (u64, u64)) -> u64 {
        self.rng.random_range(min..=max)
    }

    /// One of these at random; `None` of none.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        Some(from[self.rng.random_range(0..from.len())])
    }

    // --- members ----------------------------------------------------------------------------

    pub(crate) fn node(&self, id: MemberId) -> &Node {
        &self.nodes[&id]
    }

    pub(crate) fn node_mut(&mut self, id: MemberId) -> &mut Node {
        self.nodes
            .get_mut(&id)
            .expect("members are never forgotten")
    }

    pub(crate) fn process(&mut self, id: MemberId) -> &mut Process {
        self.node_mut(id)
            .process
            .as_mut()
            .expect("the member is up")
    }

    pub(crate) fn core(&self, id: MemberId) -> &Core {
        let process = self.node(id).process.as_ref();
        process.expect("the member is up").driver.core()
    }

    pub(crate) fn is_up(&self, id: MemberId) -> bool {
        self.nodes.get(&id).is_some_and(Node::is_up)
    }

    pub(crate) fn up(&self) -> Vec<MemberId> {
        let up = self.nodes.iter().filter(|(_, node)| node.is_up());
        up.map(|(id, _)| *id).collect()
    }

    /// Reading of a member's clock now.
    pub(crate) fn local(&self, id: MemberId) -> Time {
        self.node(id).clock.local(self.now_us)
    }

    /// The leader with the highest term.
    pub(crate) fn leader(&self) -> Option<MemberId> {
        let leaders = self
            .up()
            .into_iter()
            .filter(|id| self.core(*id).is_leader());
        leaders.max_by_key(|id| self.core(*id).term())
    }

    /// The leader, if it has committed an entry of its term.
    pub(crate) fn ready_leader(&self) -> Option<MemberId> {
        self.leader().filter(|id| self.core(*id).is_ready_leader())
    }

    /// The highest index that any member has committed.
    pub(crate) fn commit_index(&self) -> LogIndex {
        self.checks.committed.index()
    }

    /// Whether a disk certainly holds an entry, or held it before damage for which its member still
    /// answers.
    pub(crate) fn holds(&self, id: MemberId, entry: EntryId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| node.disk.vouches_for(entry))
    }

    /// Frames that are under way to a member.
    pub(crate) fn frames_to(&self, id: MemberId) -> impl Iterator<Item = &Bytes> {
        self.planned().filter_map(move |(_, event)| match event {
            Event::Arrives { to, frame, .. } if *to == id => Some(frame),
            _ => None,
        })
    }

    /// Events to come, by time, in microseconds, and number.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (&(u64, u64), &Event)> {
        self.queue.iter()
    }

    // --- time -------------------------------------------------------------------------------

    pub(crate) fn schedule(&mut self, after_us: u64, event: Event) {
        self.schedule_at(self.now_us + after_us, event);
    }

    pub(crate) fn schedule_at(&mut self, at_us: u64, event: Event) {
        self.events += 1;
        self.queue
            .insert((at_us.max(self.now_us), self.events), event);
    }

    /// Handles the next event or tick; false if none is due up to `end_us`.
    pub(crate) fn step(&mut self, end_us: u64) -> bool {
        let ticks = self.nodes.iter().filter_map(|(id, node)| {
            let at = node.process.as_ref()?.tick_at_us?;
            Some((at.max(node.paused_until_us), *id))
        });
        let tick = ticks.min();
        let event = self.queue.first_key_value().map(|((at, _), _)| *at);
        let at = [tick.map(|(at, _)| at), event].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= end_us) else {
            self.now_us = end_us;
            return false;
        };
        self.now_us = self.now_us.max(at);
        if event == Some(at) {
            if let Some((_, event)) = self.queue.pop_first() {
                self.handle_event(event);
            }
        } else if let Some((_, id)) = tick {
            self.turn(id);
        }
        true
    }

    /// Runs for a while, or until a rule is broken.
    pub(crate) fn run_for(&mut self, us: u64) {
        let end_us = self.now_us + us;
        while self.violation.is_none() && self.step(end_us) {}
    }

    /// Runs until the condition holds; false if it does not within the time.
    pub(crate) fn run_until(&mut self, limit_us: u64, condition: impl Fn(&World) -> bool) -> bool {
        let end_us = self.now_us + limit_us;
        while !condition(self) {
            if self.violation.is_some() || !self.step(end_us) {
                return false;
            }
        }
        true
    }

    /// Whether the process that an event is for takes it now. A paused process gets it later.
    fn is_addressee_ready(&mut self, id: MemberId, epoch: Option<u64>, event: &Event) -> bool {
        let Some(node) = self.nodes.get(&id) else {
            return false;
        };
        if !node.is_up() || epoch.is_some_and(|epoch| epoch != node.epoch) {
            return false;
        }
        let until_us = node.paused_until_us;
        if until_us > self.now_us {
            self.schedule_at(until_us, event.clone());
            return false;
        }
        true
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Start { node, epoch } => {
                if !self.is_up(node) && self.node(node).epoch == epoch {
                    self.start(node);
                }
            }
            Event::Reconnect { a, b } => {
                self.reconnecting.remove(&(a, b));
                self.reconnect(a, b);
            }
            Event::ClientTimeout { transaction } => self.give_up(transaction),
            Event::ClientWork => self.work(),
            Event::InjectFault => self.inject_fault(),
            Event::SceneStep(step) => self.perform_step(step),
            Event::Arrives { to, .. } => self.handle_member_event(to, None, event),
            Event::Pong { of, to } => {
                let is_cut = self.net.is_blocked(of, to) || self.net.is_blocked(to, of);
                if self.is_up(of) && self.net.is_connected(of, to) && !is_cut {
                    self.handle_member_event(to, None, event);
                }
            }
            Event::Turn { node, epoch }
            | Event::Synced { node, epoch }
            | Event::Apply { node, epoch }
            | Event::Idle { node, epoch, .. }
            | Event::CatchUp { node, epoch }
            | Event::Copied { node, epoch, .. }
            | Event::AskAgain { node, epoch, .. }
            | Event::NextPiece { node, epoch, .. }
            | Event::FailureStep { node, epoch }
            | Event::EngineFlushed { node, epoch }
            | Event::Seek { node, epoch } => self.handle_member_event(node, Some(epoch), event),
        }
    }

    /// An event for a process, in one of its epochs or in any.
    fn handle_member_event(&mut self, id: MemberId, epoch: Option<u64>, event: Event) {
        if !self.is_addressee_ready(id, epoch, &event) {
            return;
        }
        match event {
            Event::Arrives {
                from,
                to,
                connection,
                group,
                frame,
            } => {
                if self.net.connection(from, to) == connection {
                    self.arrives(from, to, group, &frame);
                }
            }
            Event::Pong { of, .. } => {
                let is_leader = self.process(id).driver.core().leader() == Some(of);
                signs_of_life::count(&mut self.coverage, &is_leader);
                self.feed(id, Input::Alive { member: of });
            }
            Event::Turn { .. } => {
                self.process(id).turn_planned = false;
                self.turn(id);
            }
            Event::Synced { .. } => self.synced(id),
            Event::Apply { .. } => self.apply(id),
            Event::Idle { batch, .. } => self.idle(id, batch),
            Event::CatchUp { .. } => self.catch_up(id),
            Event::Copied {
                joiner,
                number,
                seqno,
                ..
            } => self.copied(id, joiner, number, seqno),
            Event::AskAgain { number, after, .. } => self.ask_again(id, number, after),
            Event::NextPiece { transaction, .. } => self.hand_over_rest(id, transaction),
            Event::Seek { .. } => self.seek(id),
            Event::FailureStep { .. } => self.next_failure_step(id),
            Event::EngineFlushed { .. } => self.engine_flushed(id),
            Event::Start { .. }
            | Event::Reconnect { .. }
            | Event::ClientTimeout { .. }
            | Event::ClientWork
            | Event::InjectFault
            | Event::SceneStep(_) => {}
        }
    }

    /// Whether a fault is on in this run.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.options.has(fault)
    }

    /// Counts and notes a fault.
    pub(crate) fn hit(&mut self, member: MemberId, fault: Fault) {
        let name = fault.name();
        self.coverage.count(name);
        self.note(member, What::Fault { name });
    }
}

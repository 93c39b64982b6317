//! The world: members, network, clocks, clients and checkers in one thread, on one virtual clock.
//! Whatever is drawn comes from one seeded generator, and events happen in one order, so that the
//! same seed gives the same run.

pub(crate) mod clock;
pub(crate) mod messages;
pub(crate) mod net;
pub(crate) mod peers;
pub(crate) mod wanted_links;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{Core, GroupId, LogIndex, MemberId, Seqno, Time};

use crate::clients::Transaction;
use crate::faults::scenes::{LateCandidate, SceneStep};
use crate::invariants::{Checked, Invariants, Violation};
use crate::member::{Node, Process};
use crate::options::{Fault, Options};
use crate::report::Coverage;
use crate::trace::{Note, Trace, What};
use crate::world::net::Network;
use crate::world::wanted_links::WantedLinks;

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;
/// The one group there is.
pub(crate) const GROUP: GroupId = GroupId(*b"synod simulation");

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Arrives {
        from: MemberId,
        to: MemberId,
        connection: u64,
        group: GroupId,
        frame: Bytes,
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
    /// Nothing was written since this batch.
    Idle {
        node: MemberId,
        epoch: u64,
        batch: u64,
    },
    CatchUp {
        node: MemberId,
        epoch: u64,
    },
    /// A donor has sent all.
    Copied {
        node: MemberId,
        epoch: u64,
        joiner: MemberId,
        number: u64,
    },
    /// A joiner's patience is over.
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
    Reconnect {
        a: MemberId,
        b: MemberId,
    },
    ClientTimeout {
        transaction: u64,
    },
    /// A client that takes its time goes on.
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

/// See the module.
pub(crate) struct World {
    pub(crate) now_us: u64,
    pub(crate) rng: SmallRng,
    pub(crate) options: Options,
    pub(crate) nodes: BTreeMap<MemberId, Node>,
    pub(crate) net: Network,
    pub(crate) checks: Invariants,
    pub(crate) trace: Trace,
    pub(crate) coverage: Coverage,
    pub(crate) transactions: BTreeMap<u64, Transaction>,
    pub(crate) next_transaction: u64,
    pub(crate) next_session: u64,
    pub(crate) violation: Option<Violation>,
    /// Told to go on without a majority, and has not changed the configuration yet.
    pub(crate) forced: Option<MemberId>,
    /// Since when a leader has told what logs may drop.
    pub(crate) purge_limit_since_us: Option<u64>,
    /// No more troubles and clients.
    pub(crate) is_liveness_phase: bool,
    /// Who keeps connections to whom.
    pub(crate) wanted_links: Arc<WantedLinks>,
    /// Connections that are about to be made again.
    pub(crate) reconnecting: BTreeSet<(MemberId, MemberId)>,
    /// Waits for the next leader.
    pub(crate) late_candidate: Option<LateCandidate>,
    /// Until then clients only read.
    pub(crate) quiet_until_us: u64,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options, print: bool) -> World {
        World {
            now_us: 0,
            // Another stream than the one that drew the options.
            rng: SmallRng::seed_from_u64(seed ^ 0x5eed_0f5e_ed00),
            options,
            nodes: BTreeMap::new(),
            net: Network::default(),
            checks: Invariants::default(),
            trace: Trace::new(print),
            coverage: Coverage::default(),
            transactions: BTreeMap::new(),
            next_transaction: 0,
            next_session: 0,
            violation: None,
            forced: None,
            purge_limit_since_us: None,
            is_liveness_phase: false,
            wanted_links: Arc::default(),
            reconnecting: BTreeSet::new(),
            late_candidate: None,
            quiet_until_us: 0,
            queue: BTreeMap::new(),
            events: 0,
        }
    }

    // --- bookkeeping ------------------------------------------------------------------------

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

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    /// A number between both, inclusive.
    pub(crate) fn draw(&mut self, (min, max): (u64, u64)) -> u64 {
        self.rng.random_range(min..=max)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        match from.is_empty() {
            true => None,
            false => Some(from[self.rng.random_range(0..from.len())]),
        }
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

    pub(crate) fn ready_leader(&self) -> Option<MemberId> {
        self.leader().filter(|id| self.core(*id).is_ready_leader())
    }

    pub(crate) fn commit_index(&self) -> LogIndex {
        self.checks.committed.index()
    }

    /// Whether a disk holds an entry for sure, or did before it was damaged and its member answers for it.
    pub(crate) fn holds(&self, id: MemberId, entry: synod_consensus::EntryId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| node.disk.vouches_for(entry))
    }

    /// What is on its way to a member.
    pub(crate) fn frames_to(&self, id: MemberId) -> impl Iterator<Item = &Bytes> {
        self.queue.values().filter_map(move |event| match event {
            Event::Arrives { to, frame, .. } if *to == id => Some(frame),
            _ => None,
        })
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

    /// The next thing happens, unless nothing does before `end_us`.
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

    /// The process that an event is for, if it still runs; a paused one gets it later.
    fn addressee(&mut self, id: MemberId, epoch: Option<u64>, event: &Event) -> bool {
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
        let (id, epoch) = match &event {
            Event::Arrives { to, .. } => (*to, None),
            Event::Turn { node, epoch }
            | Event::Synced { node, epoch }
            | Event::Apply { node, epoch }
            | Event::Idle { node, epoch, .. }
            | Event::CatchUp { node, epoch }
            | Event::Copied { node, epoch, .. }
            | Event::AskAgain { node, epoch, .. }
            | Event::NextPiece { node, epoch, .. }
            | Event::Seek { node, epoch } => (*node, Some(*epoch)),
            Event::Start { node, epoch } => {
                let (node, epoch) = (*node, *epoch);
                if !self.is_up(node) && self.node(node).epoch == epoch {
                    self.start(node);
                }
                return;
            }
            Event::Reconnect { a, b } => {
                self.reconnecting.remove(&(*a, *b));
                return self.reconnect(*a, *b);
            }
            Event::ClientTimeout { transaction } => return self.give_up(*transaction),
            Event::ClientWork => return self.work(),
            Event::InjectFault => return self.inject_fault(),
            Event::SceneStep(step) => return self.make(*step),
        };
        if !self.addressee(id, epoch, &event) {
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
            Event::Turn { node, .. } => {
                self.process(node).turn_planned = false;
                self.turn(node);
            }
            Event::Synced { node, .. } => self.synced(node),
            Event::Apply { node, .. } => self.apply(node),
            Event::Idle { node, batch, .. } => self.idle(node, batch),
            Event::CatchUp { node, .. } => self.catch_up(node),
            Event::Copied {
                node,
                joiner,
                number,
                ..
            } => self.copied(node, joiner, number),
            Event::AskAgain {
                node,
                number,
                after,
                ..
            } => self.ask_again(node, number, after),
            Event::NextPiece {
                node, transaction, ..
            } => self.hand_over_rest(node, transaction),
            Event::Seek { node, .. } => self.seek(node),
            Event::Start { .. }
            | Event::Reconnect { .. }
            | Event::ClientTimeout { .. }
            | Event::ClientWork
            | Event::InjectFault
            | Event::SceneStep(_) => {}
        }
    }

    /// Whether a kind of trouble is on.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.options.has(fault)
    }

    /// Counts and notes a trouble.
    pub(crate) fn hit(&mut self, member: MemberId, fault: Fault) {
        let name = fault.name();
        self.coverage.count(name);
        self.note(member, What::Fault { name });
    }
}

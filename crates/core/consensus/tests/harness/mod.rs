//! The group that scripts run in: cores in one thread, in virtual time, with a network and disks.
//!
//! The harness performs every effect, and checks with each one that the core keeps its rules (see
//! also `oracle`). One seed decides everything. Random faults are the simulator's (`testing/sim`),
//! which runs the whole member. Here a script, or a test about damaged logs, weights or protocol
//! versions, decides which event comes next.
// Each test file uses a part of it.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod disk;
pub mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{
    Append, AppendOutcome, Body, Config, ConfigChange, Core, CoreParams, DedupVerdict, Effect,
    EntryKind, HardState, LeaderPreference, Limits, LogBase, LogIndex, Member, MemberId, Message,
    Origin, Outbox, Proposal, ProposalDedup, ProposeError, Role, RoleName, SendEntries, Seqno,
    SessionId, Term, Time, Timing, VersionRange, WriteOp, WriteTicket,
};

use disk::{Disk, Op};
use oracle::Oracle;

pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;
/// Size of every proposal.
const PAYLOAD_BYTES: u32 = 1000;

/// How the outside world behaves.
#[derive(Clone, Debug)]
pub struct Options {
    pub duplicates: f64,
    pub delay_us: (u64, u64),
    pub sync_us: (u64, u64),
    pub refusals: f64,
    /// Whether broken connections are reported.
    pub hints: bool,
    /// These members have no database.
    pub loggers: &'static [u64],
    pub limits: Limits,
    pub timing: Timing,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            duplicates: 0.0,
            delay_us: (300, 600),
            sync_us: (MS, 2 * MS),
            refusals: 0.0,
            hints: true,
            loggers: &[],
            limits: Limits::default(),
            timing: Timing::default(),
        }
    }
}

pub struct Node {
    pub core: Option<Core>,
    pub disk: Disk,
    pub outbox: Outbox,
    pub dedup: ProposalDedup,
    session: SessionId,
    epoch: u64,
    offset_us: u64,
    pub tick_at: Option<u64>,
    /// Delivered up to here.
    delivered: LogIndex,
    /// Whether its disk is lost, so that it never restarts.
    pub gone: bool,
    /// In force before the input that is being performed: commits are counted before what they
    /// lead to.
    config_before: Config,
}

/// A message, or the end of a sync, that will happen.
#[derive(Clone, Debug)]
pub enum Event {
    Message {
        message: Message,
        configs: Vec<(LogIndex, Config)>,
    },
    Propose {
        to: MemberId,
        tag: Term,
        origin: Origin,
        oldest: u64,
    },
    Refused {
        from: MemberId,
        to: MemberId,
        term: Term,
        origin: Origin,
    },
    Synced {
        node: MemberId,
        epoch: u64,
        ticket: WriteTicket,
    },
}

/// Observation of a step, which a script shows.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A message left; lost if the link is blocked.
    Sent { event: Event, lost: bool },
    /// A member's core asked for this (anything but sending).
    Effect(MemberId, Effect),
    /// The leader's verdict on a proposal.
    ProposalDedup(MemberId, Origin, DedupVerdict),
    /// An origin knows the result of its proposal.
    Resolved { origin: Origin, committed: bool },
}

pub struct Sim {
    pub now: u64,
    pub rng: SmallRng,
    pub options: Options,
    pub nodes: BTreeMap<MemberId, Node>,
    pub oracle: Oracle,
    /// By time and order of sending.
    pub queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    pub blocked: BTreeSet<(MemberId, MemberId)>,
    sessions: u64,
    reads: BTreeMap<u64, (MemberId, LogIndex)>,
    next_read: u64,
    pub resets: u64,
    /// All members know all weights, once there is one.
    pub preferences: BTreeMap<MemberId, LeaderPreference>,
    /// Observations since it was emptied last; `None`: not recorded.
    pub seen: Option<Vec<Seen>>,
}

pub fn id(n: u64) -> MemberId {
    MemberId(n)
}

pub fn member(n: u64) -> Member {
    let (name, address) = (format!("node{n}"), format!("node{n}:4567"));
    Member {
        role: Role::Voter,
        has_data: true,
        name,
        address,
        versions: VersionRange { min: 1, max: 1 },
        certificate: None,
    }
}

impl Sim {
    pub fn new(seed: u64, options: Options) -> Sim {
        Sim {
            now: 0,
            rng: SmallRng::seed_from_u64(seed),
            options,
            nodes: BTreeMap::new(),
            oracle: Oracle::default(),
            queue: BTreeMap::new(),
            events: 0,
            blocked: BTreeSet::new(),
            sessions: 0,
            reads: BTreeMap::new(),
            next_read: 0,
            resets: 0,
            preferences: BTreeMap::new(),
            seen: None,
        }
    }

    /// A group of `voters` members, 1 to n, formed the ordinary way: one bootstraps, the others
    /// join as learners and are promoted.
    pub fn group(seed: u64, voters: u64, options: Options) -> Sim {
        let mut sim = Sim::new(seed, options);
        (1..=voters).for_each(|n| sim.add_node(id(n)));
        sim.with(id(1), |core, now| core.bootstrap(now, member(1)))
            .expect("empty log");
        sim.expect("a leader", 5 * SECOND, |sim| {
            sim.core(id(1)).is_ready_leader()
        });
        for n in 2..=voters {
            sim.join(id(1), id(n));
        }
        sim
    }

    /// Adds a member as a learner through `leader` and waits for its promotion.
    pub fn join(&mut self, leader: MemberId, joiner: MemberId) {
        self.add_learner(leader, joiner);
        self.with(leader, |core, _| core.set_eligible(joiner, true));
        self.expect("promotion", 5 * SECOND, |sim| {
            let core = sim.core(leader);
            core.config().config.is_voter(joiner) && core.config().index <= core.commit_index()
        });
    }

    pub fn add_learner(&mut self, leader: MemberId, joiner: MemberId) {
        let change = ConfigChange::AddLearner {
            id: joiner,
            member: Member {
                has_data: !self.options.loggers.contains(&joiner.0),
                ..member(joiner.0)
            },
        };
        self.change(leader, change);
    }

    /// Makes a change of the configuration as soon as possible.
    pub fn change(&mut self, leader: MemberId, change: ConfigChange) {
        let mut done = false;
        for _ in 0..100 {
            if self
                .with(leader, |core, now| core.change_config(now, change.clone()))
                .is_ok()
            {
                done = true;
                break;
            }
            self.run_for(10 * MS);
        }
        assert!(done, "no chance to make {change:?}");
    }

    // --- members ----------------------------------------------------------------------------

    pub fn add_node(&mut self, node: MemberId) {
        self.place_node(node);
        self.start(node);
    }

    /// A member that is not started yet.
    pub fn place_node(&mut self, node: MemberId) {
        self.nodes.insert(
            node,
            Node {
                core: None,
                disk: Disk::default(),
                outbox: Outbox::new(node, SessionId(0)),
                dedup: ProposalDedup::new(),
                session: SessionId(0),
                epoch: 0,
                offset_us: self.rng.random_range(0..SECOND),
                tick_at: None,
                delivered: LogIndex(0),
                gone: false,
                config_before: Config::default(),
            },
        );
    }

    pub fn start(&mut self, node: MemberId) {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        let seed = self.rng.random();
        let Options { limits, timing, .. } = self.options.clone();
        let params = CoreParams {
            id: node,
            timing,
            limits,
            seed,
        };
        let local = self.local(node);
        let state = self.node_mut(node);
        assert!(state.core.is_none() && !state.gone);
        let recovered = state.disk.durable.recovered();
        let base = recovered.base.last;
        state.delivered = base.index;
        state.core = Some(Core::new(params, recovered, local));
        state.outbox = Outbox::new(node, session);
        state.outbox.log_starts_after(base.term);
        state.dedup = ProposalDedup::new();
        state.session = session;
        self.drain(node);
        if self.options.hints {
            self.hint_all(node, true);
        }
    }

    /// Gives this member that preference; all members learn of its weight.
    pub fn prefer(&mut self, node: MemberId, preference: LeaderPreference) {
        self.preferences.insert(node, preference);
        self.spread_weights();
    }

    /// Sets the weights at all members, as drivers do from time to time.
    pub fn spread_weights(&mut self) {
        if self.preferences.is_empty() {
            return;
        }
        let preferences = self.preferences.clone();
        let of = |id: &MemberId| preferences.get(id).copied().unwrap_or_default();
        let up = self.up();
        let weights: BTreeMap<_, _> = up.iter().map(|id| (*id, of(id).weight)).collect();
        for id in up {
            self.with(id, |core, _| {
                core.set_leader_preference(of(&id));
                core.set_leader_weights(weights.clone());
            });
        }
    }

    pub fn crash(&mut self, node: MemberId) {
        let mut rng = self.rng.clone();
        self.crash_keeping(node, |n| rng.random_range(0..=n));
        self.rng = rng;
    }

    /// Crashes a member; `keep` gives how many of the unsynced writes survive.
    pub fn crash_keeping(&mut self, node: MemberId, keep: impl FnMut(usize) -> usize) {
        let state = self.node_mut(node);
        assert!(state.core.take().is_some(), "{node} is down already");
        state.epoch += 1;
        state.tick_at = None;
        state.disk.crash(keep);
        self.reads.retain(|_, (asker, _)| *asker != node);
        if self.options.hints {
            self.hint_all(node, false);
        }
    }

    /// Damages the log of a member that is down after entry `keep`.
    pub fn damage(&mut self, node: MemberId, keep: LogIndex, promises_readable: bool) {
        let disk = &mut self.node_mut(node).disk;
        disk.durable.damage(keep, promises_readable);
        disk.written = disk.durable.clone();
    }

    /// The disk is lost for ever.
    pub fn burn(&mut self, node: MemberId) {
        if self.node(node).core.is_some() {
            self.crash(node);
        }
        // Its image stays for the oracle: what it acknowledged before still counts as stored then.
        self.node_mut(node).gone = true;
    }

    fn hint_all(&mut self, about: MemberId, connected: bool) {
        let others: Vec<MemberId> = self.up().into_iter().filter(|n| *n != about).collect();
        for other in others {
            if self.blocked.contains(&(about, other)) {
                continue;
            }
            self.with(other, |core, now| {
                if connected {
                    core.peer_connected(now, about);
                } else {
                    core.peer_disconnected(now, about);
                }
            });
            if connected {
                self.node_mut(other).outbox.reconnected();
            }
        }
    }

    pub fn up(&self) -> Vec<MemberId> {
        self.nodes
            .iter()
            .filter(|(_, node)| node.core.is_some())
            .map(|(id, _)| *id)
            .collect()
    }

    pub fn node(&self, node: MemberId) -> &Node {
        &self.nodes[&node]
    }

    pub fn node_mut(&mut self, node: MemberId) -> &mut Node {
        self.nodes.get_mut(&node).expect("exists")
    }

    pub fn core(&self, node: MemberId) -> &Core {
        self.node(node).core.as_ref().expect("is up")
    }

    /// The leader with the highest term.
    pub fn leader(&self) -> Option<MemberId> {
        let leaders = self.up().into_iter().filter(|n| self.core(*n).is_leader());
        leaders.max_by_key(|n| self.core(*n).term())
    }

    pub fn ready_leader(&self) -> Option<MemberId> {
        self.leader().filter(|n| self.core(*n).is_ready_leader())
    }

    // --- clocks -----------------------------------------------------------------------------

    pub fn local(&self, node: MemberId) -> Time {
        Time(self.node(node).offset_us + self.now)
    }

    fn global(&self, node: MemberId, local: Time) -> u64 {
        local.0.saturating_sub(self.node(node).offset_us) + 1
    }

    // --- the world --------------------------------------------------------------------------

    /// Calls a method of a core and performs what follows.
    pub fn with<T>(&mut self, node: MemberId, call: impl FnOnce(&mut Core, Time) -> T) -> T {
        let local = self.local(node);
        let state = self.node_mut(node);
        let core = state.core.as_mut().expect("is up");
        state.config_before = core.config().config.clone();
        let result = call(core, local);
        self.drain(node);
        result
    }

    pub fn run_for(&mut self, us: u64) {
        let end = self.now + us;
        while self.step(end) {}
    }

    /// Runs until the condition holds; false if it does not within the time.
    pub fn run_until(&mut self, limit_us: u64, condition: impl Fn(&Sim) -> bool) -> bool {
        let end = self.now + limit_us;
        while !condition(self) {
            if !self.step(end) {
                return false;
            }
        }
        true
    }

    pub fn expect(&mut self, what: &str, limit_us: u64, condition: impl Fn(&Sim) -> bool) {
        let since = self.now;
        assert!(
            self.run_until(limit_us, condition),
            "no {what} from {since} to {}; leader {:?}\n{}",
            self.now,
            self.leader(),
            self.describe()
        );
    }

    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (id, node) in &self.nodes {
            let Some(core) = &node.core else {
                text += &format!("{id} down, gone: {}\n", node.gone);
                continue;
            };
            let voters: Vec<_> = core.config().config.voters().collect();
            text += &format!(
                "{id} {:?} term {} leader {:?} commit {} last {} base {} durable {} \
                 config {} {voters:?} \
                 oldest {:?} {:?}\n",
                core.role(),
                core.term(),
                core.leader(),
                core.commit_index(),
                core.last_id(),
                core.base().last,
                core.durable_index(),
                core.config().index,
                node.outbox.oldest_outstanding(),
                core.counters(),
            );
            for progress in core.progress() {
                text += &format!("    {progress:?}\n");
            }
        }
        text
    }

    /// The next thing happens, unless nothing does before `end`.
    pub fn step(&mut self, end: u64) -> bool {
        let ticks = self
            .nodes
            .iter()
            .filter_map(|(id, node)| Some((node.tick_at?, *id)));
        let tick = ticks.min();
        let event = self.queue.first_key_value().map(|((at, _), _)| *at);
        let at = [tick.map(|(at, _)| at), event].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(at);
        if event == Some(at) {
            let (_, event) = self.queue.pop_first().expect("there");
            self.happen(event);
        } else if let Some((_, node)) = tick {
            self.with(node, |core, now| core.handle_tick(now));
        }
        true
    }

    pub fn happen(&mut self, event: Event) {
        match event {
            Event::Message { message, configs } => {
                if self.is_up(message.to) {
                    self.with(message.to, |core, now| {
                        core.handle_message_with(now, message, &configs);
                    });
                }
            }
            Event::Propose {
                to,
                tag,
                origin,
                oldest,
            } => {
                if self.is_up(to) {
                    self.proposal_came(to, tag, origin, oldest);
                }
            }
            Event::Refused {
                to, term, origin, ..
            } => {
                let node = self.node_mut(to);
                let mine = node.core.is_some() && node.session == origin.session;
                if mine && node.outbox.refused(term, origin.number) {
                    self.oracle.refused(origin);
                    self.note(|| Seen::Resolved {
                        origin,
                        committed: false,
                    });
                }
            }
            Event::Synced {
                node,
                epoch,
                ticket,
            } => self.synced(node, epoch, ticket),
        }
    }

    fn is_up(&self, node: MemberId) -> bool {
        self.nodes
            .get(&node)
            .is_some_and(|node| node.core.is_some())
    }

    pub fn schedule(&mut self, after_us: u64, event: Event) {
        self.events += 1;
        self.queue.insert((self.now + after_us, self.events), event);
    }

    fn note(&mut self, seen: impl FnOnce() -> Seen) {
        if let Some(all) = &mut self.seen {
            all.push(seen());
        }
    }

    fn transmit(&mut self, from: MemberId, to: MemberId, event: Event) {
        let lost = self.blocked.contains(&(from, to));
        self.note(|| Seen::Sent {
            event: event.clone(),
            lost,
        });
        if lost {
            return;
        }
        let (min, max) = self.options.delay_us;
        if self.rng.random_bool(self.options.duplicates) {
            let after = self.rng.random_range(min..=4 * max);
            self.schedule(after, event.clone());
        }
        let after = self.rng.random_range(min..=max);
        self.schedule(after, event);
    }

    // --- disk -------------------------------------------------------------------------------

    pub fn hold_disk(&mut self, node: MemberId, held: bool) {
        self.node_mut(node).disk.held = held;
        if !held {
            self.start_sync(node);
        }
    }

    fn start_sync(&mut self, node: MemberId) {
        let (min, max) = self.options.sync_us;
        let after = self.rng.random_range(min..=max);
        let state = self.node_mut(node);
        if state.disk.syncing || state.disk.held {
            return;
        }
        let Some((ticket, _)) = state.disk.pending.back() else {
            return;
        };
        let (ticket, epoch) = (*ticket, state.epoch);
        state.disk.syncing = true;
        self.schedule(
            after,
            Event::Synced {
                node,
                epoch,
                ticket,
            },
        );
    }

    fn synced(&mut self, node: MemberId, epoch: u64, ticket: WriteTicket) {
        let state = self.node_mut(node);
        if state.epoch != epoch || state.gone {
            return;
        }
        state.disk.syncing = false;
        if state.disk.held {
            return;
        }
        state.disk.sync_done(ticket);
        self.with(node, |core, now| core.persisted(now, ticket));
        self.start_sync(node);
    }

    // --- effects ----------------------------------------------------------------------------

    fn drain(&mut self, node: MemberId) {
        loop {
            let core = self.node_mut(node).core.as_mut().expect("is up");
            let Some(effect) = core.poll_effect() else {
                break;
            };
            self.perform(node, effect);
        }
        self.send_proposals(node);
        self.check_image(node);
        let wake = self.core(node).poll_timeout();
        let at = wake.map(|at| self.global(node, at).max(self.now + 1));
        self.node_mut(node).tick_at = at;
    }

    fn perform(&mut self, node: MemberId, effect: Effect) {
        if !matches!(effect, Effect::Send(_) | Effect::SendEntries(_)) {
            self.note(|| Seen::Effect(node, effect.clone()));
        }
        match effect {
            Effect::Write { ticket, op } => self.perform_write(node, ticket, op),
            Effect::Send(message) => self.perform_send(node, message, Vec::new()),
            Effect::SendEntries(send) => self.perform_send_entries(node, send),
            Effect::Committed { index } => self.perform_committed(node, index),
            Effect::Role(change) => {
                assert_eq!(change.term, self.core(node).term());
                let state = self.node_mut(node);
                state.outbox.leader_changed(change.term, change.leader);
                if let Some(leader) = change.leader {
                    self.oracle.leader(change.term, leader);
                }
                if change.role == RoleName::Leader {
                    assert_eq!(change.leader, Some(node));
                    self.node_mut(node).dedup.new_term(change.term);
                    let image = &self.node(node).disk.written;
                    self.oracle.new_leader(change.term, |id| image.has(id));
                }
            }
            Effect::Config(config) => {
                let last = self.core(node).last_id().index;
                assert!(config.index <= last);
                assert_eq!(
                    Config::decode(&config.config.encode()).as_ref(),
                    Ok(&config.config)
                );
            }
            Effect::ReadReady { id, index, seqno } => {
                let (asker, at_least) = self.reads.remove(&id).expect("asked once");
                assert_eq!(asker, node);
                assert!(index >= at_least, "stale read {id}: {index} < {at_least}");
                if let Some((header, _)) = self.oracle.committed.get(index.0 as usize - 1) {
                    assert_eq!(header.seqno, seqno);
                }
            }
        }
    }

    fn perform_write(&mut self, node: MemberId, ticket: WriteTicket, op: WriteOp) {
        let op = match op {
            WriteOp::Append(headers) => {
                assert!(!headers.is_empty());
                let mut before = self.node(node).disk.written.last();
                for header in &headers {
                    self.oracle.written(header, before);
                    before = header.id();
                }
                let core = self.core(node);
                let payload = |index| core.config_at(index).expect("in the log").config.clone();
                let entries = headers.into_iter().map(|header| {
                    let is_config = header.kind == EntryKind::Config;
                    (header, is_config.then(|| payload(header.index)))
                });
                Op::Append(entries.collect())
            }
            WriteOp::Truncate { from } => Op::Truncate(from),
            WriteOp::Vote(vote) => Op::Vote(vote),
            WriteOp::Reset(base) => Op::Reset(base),
        };
        let state = self.node_mut(node);
        let reset = matches!(op, Op::Reset(_));
        state.disk.write(ticket, op);
        if reset {
            state.delivered = state.disk.written.base.last.index;
            let base = state.disk.written.base.last.term;
            state.outbox.log_reset(base);
            self.resets += 1;
        }
        self.start_sync(node);
    }

    fn perform_send_entries(&mut self, node: MemberId, send: SendEntries) {
        let image = &self.node(node).disk.written;
        assert!(send.first <= send.last && send.first == send.prev.index.next());
        assert_eq!(
            image.id_at(send.prev.index),
            Some(send.prev),
            "prev is in the log"
        );
        let range = (send.first.0..=send.last.0).map(LogIndex);
        let mut stored: Vec<_> = range
            .map(|index| image.entry(index).expect("in the log").clone())
            .collect();
        if send.may_shorten {
            let keep = self.rng.random_range(1..=stored.len());
            stored.truncate(keep);
        }
        let configs = stored
            .iter()
            .filter_map(|(header, config)| Some((header.index, config.clone()?)))
            .collect();
        let SendEntries {
            to,
            term,
            prev,
            commit,
            sent_at,
            ..
        } = send;
        let entries = stored.into_iter().map(|(header, _)| header).collect();
        let append = Append {
            prev,
            entries,
            commit,
            sent_at,
        };
        let message = Message::new(node, to, term, Body::Append(append));
        self.perform_send(node, message, configs);
    }

    /// Nothing leaves that is not true of the *durable* state.
    fn perform_send(&mut self, node: MemberId, message: Message, configs: Vec<(LogIndex, Config)>) {
        assert_eq!(message.from, node);
        let disk = &self.node(node).disk;
        let HardState {
            term: durable_term,
            voted_for,
        } = disk.durable.vote;
        let term = message.term;
        match &message.body {
            Body::Vote { .. } => {
                let own_vote = (durable_term, voted_for);
                assert_eq!(own_vote, (term, Some(node)), "own vote first");
            }
            Body::VoteReply { granted } => {
                let on_disk = (durable_term, voted_for) == (term, Some(message.to));
                assert!(!granted || on_disk, "vote sent before it is durable");
            }
            Body::AppendReply(reply) => {
                assert_eq!(durable_term, term, "term sent before it is durable");
                if let AppendOutcome::Durable { index } = reply.outcome {
                    self.check_acknowledged(node, index);
                }
            }
            Body::HeartbeatReply { .. } => {
                assert_eq!(durable_term, term, "term sent before it is durable");
            }
            Body::PreVote { .. }
            | Body::PreVoteReply { .. }
            | Body::Append(_)
            | Body::Heartbeat { .. }
            | Body::CommitNotice { .. }
            | Body::InstallBase { .. }
            | Body::TimeoutNow
            | Body::Read { .. }
            | Body::ReadReply { .. } => {}
        }
        let to = message.to;
        self.transmit(node, to, Event::Message { message, configs });
    }

    /// Ack only after durable: the durable image has the very entries that were acknowledged.
    fn check_acknowledged(&self, node: MemberId, index: LogIndex) {
        let disk = &self.node(node).disk;
        assert!(
            disk.durable.last().index >= index,
            "{node} acknowledges {index} too early"
        );
        if index >= disk.written.base.last.index {
            assert_eq!(
                disk.durable.id_at(index),
                disk.written.id_at(index),
                "{node} at {index}"
            );
        }
        assert!(self.core(node).durable_index() >= index);
    }

    fn perform_committed(&mut self, node: MemberId, index: LogIndex) {
        let term = self.core(node).term();
        let (from, image) = (self.node(node).delivered, &self.node(node).disk.written);
        let headers: Vec<_> = (from.0 + 1..=index.0)
            .map(|i| {
                image
                    .entry(LogIndex(i))
                    .expect("committed entries are in the log")
                    .0
            })
            .collect();
        assert!(!headers.is_empty(), "commit index goes back");
        let mut new_commits = false;
        for header in headers {
            new_commits |= self.oracle.committed(&header, term);
            let session = self.node(node).session;
            let state = self.node_mut(node);
            if let Some(number) = state.outbox.committed(&header) {
                assert_eq!(
                    (header.origin.member, header.origin.session),
                    (node, session)
                );
                assert_eq!(number, header.origin.number);
                self.note(|| Seen::Resolved {
                    origin: header.origin,
                    committed: true,
                });
            }
        }
        self.node_mut(node).delivered = index;
        if new_commits {
            self.check_quorum(node, index);
        }
    }

    /// Durable (P1): whatever is committed is on the disks of a majority of the configuration.
    fn check_quorum(&self, node: MemberId, index: LogIndex) {
        let core = self.core(node);
        // A leader that commits its own removal has stepped down when this effect is polled.
        let removed = core.leader().is_none() && !self.node(node).config_before.is_voter(node);
        assert!(
            core.is_leader() || removed,
            "{node} commits {index} first, but does not lead"
        );
        assert_eq!(
            core.term_at(index),
            Some(core.term()),
            "only own entries commit by counting"
        );
        let entry = self
            .node(node)
            .disk
            .written
            .id_at(index)
            .expect("in the log");
        let voters: Vec<MemberId> = self.node(node).config_before.voters().collect();
        let holds = |id: &&MemberId| self.nodes[*id].disk.durable.answers_for(entry);
        let copies = voters.iter().filter(holds).count();
        assert!(
            copies > voters.len() / 2,
            "{entry} committed with {copies} of {voters:?}"
        );
    }

    /// The core's view and the disk agree.
    fn check_image(&self, node: MemberId) {
        let (core, image) = (self.core(node), &self.node(node).disk.written);
        assert_eq!(core.last_id(), image.last());
        assert_eq!(core.base(), &image.base);
        assert_eq!(core.term(), image.vote.term);
        assert_eq!(*core.config(), image.config());
        assert!(core.commit_index() <= core.last_id().index);
        assert_eq!(self.node(node).delivered, core.commit_index());
    }

    // --- clients ----------------------------------------------------------------------------

    /// A client's transaction at this member.
    pub fn submit(&mut self, node: MemberId) -> Origin {
        let state = self.node_mut(node);
        let number = state.outbox.submit();
        let origin = Origin::new(node, state.session, number);
        self.send_proposals(node);
        origin
    }

    fn send_proposals(&mut self, node: MemberId) {
        loop {
            let state = self.node_mut(node);
            let Some(send) = state.outbox.poll_send() else {
                break;
            };
            let oldest = state.outbox.oldest_outstanding().expect("this one");
            let origin = Origin::new(node, state.session, send.number);
            let event = Event::Propose {
                to: send.to,
                tag: send.tag,
                origin,
                oldest,
            };
            if send.to == node {
                self.schedule(1, event);
            } else {
                self.transmit(node, send.to, event);
            }
        }
    }

    fn proposal_came(&mut self, to: MemberId, tag: Term, origin: Origin, oldest: u64) {
        let refuse = self.rng.random_bool(self.options.refusals);
        let state = self.node_mut(to);
        state
            .dedup
            .acknowledged(origin.member, origin.session, oldest);
        let verdict = state.dedup.check(tag, origin);
        self.note(|| Seen::ProposalDedup(to, origin, verdict));
        let state = self.node_mut(to);
        match verdict {
            DedupVerdict::WrongTerm | DedupVerdict::AlreadyAppended => {}
            DedupVerdict::AlreadyRefused => self.send_refusal(to, tag, origin),
            DedupVerdict::New if refuse && state.core.as_ref().is_some_and(Core::is_leader) => {
                state.dedup.refused(origin);
                self.send_refusal(to, tag, origin);
            }
            DedupVerdict::New => {
                let depends_on = self.core(to).last_seqno();
                let (payload_len, payload_crc) = (PAYLOAD_BYTES, 0);
                let proposal = Proposal {
                    kind: EntryKind::Action,
                    origin,
                    depends_on,
                    payload_len,
                    payload_crc,
                };
                let local = self.local(to);
                let core = self.node_mut(to).core.as_mut().expect("is up");
                match core.propose(local, proposal) {
                    Ok(header) => {
                        assert_eq!(header.origin, origin);
                        self.node_mut(to).dedup.appended(origin);
                        self.drain(to);
                    }
                    Err(ProposeError::NotLeader { .. }) => {}
                    Err(ProposeError::LeaderTransfer | ProposeError::Busy) => {
                        self.schedule(
                            20 * MS,
                            Event::Propose {
                                to,
                                tag,
                                origin,
                                oldest,
                            },
                        );
                    }
                }
            }
        }
    }

    fn send_refusal(&mut self, from: MemberId, term: Term, origin: Origin) {
        let to = origin.member;
        self.transmit(
            from,
            to,
            Event::Refused {
                from,
                to,
                term,
                origin,
            },
        );
    }

    pub fn read(&mut self, node: MemberId) -> u64 {
        self.next_read += 1;
        let read = self.next_read;
        self.reads.insert(read, (node, self.oracle.commit_index()));
        self.with(node, |core, now| core.read(now, read));
        read
    }

    pub fn is_read_done(&self, read: u64) -> bool {
        !self.reads.contains_key(&read)
    }

    /// Purges the member's log up to `index`, if that is allowed.
    pub fn purge(&mut self, node: MemberId, index: LogIndex) {
        let core = self.core(node);
        let limit = core.commit_index().min(core.durable_index());
        let disk = &self.node(node).disk;
        if index > limit || index <= disk.written.base.last.index || !disk.pending.is_empty() {
            return;
        }
        let Some(base) = disk.written.base_at(index) else {
            return;
        };
        let disk = &mut self.node_mut(node).disk;
        disk.written.purge(&base);
        disk.durable.purge(&base);
        self.with(node, |core, _| core.purged(base));
    }

    pub fn base_at(&self, node: MemberId, index: LogIndex) -> Option<LogBase> {
        self.node(node).disk.written.base_at(index)
    }

    // --- network ----------------------------------------------------------------------------

    /// Blocks both directions between the members in `part` and all others.
    pub fn isolate(&mut self, part: &[MemberId]) {
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for a in &all {
            for b in all.iter().filter(|b| part.contains(a) != part.contains(b)) {
                self.blocked.insert((*a, *b));
            }
        }
    }

    pub fn heal_network(&mut self) {
        self.blocked.clear();
        for node in self.up() {
            self.node_mut(node).outbox.reconnected();
            self.send_proposals(node);
        }
    }

    /// All members of the newest configuration that are up hold and have committed the same.
    pub fn is_level(&self) -> bool {
        let Some(leader) = self.ready_leader() else {
            return false;
        };
        let last = self.core(leader).last_id().index;
        let members = self.core(leader).config().config.members.keys();
        members.into_iter().all(|id| {
            let node = &self.nodes[id];
            node.gone
                || node
                    .core
                    .as_ref()
                    .is_some_and(|core| core.commit_index() == last && core.durable_index() == last)
        })
    }

    /// Seqno at the end of what is committed.
    pub fn seqno(&self) -> Seqno {
        self.oracle
            .committed
            .last()
            .map_or(Seqno(0), |(header, _)| header.seqno)
    }
}

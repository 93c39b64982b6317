//! Performs the commands of a script on a group of the harness.

use std::collections::BTreeMap;

use synod_consensus::{
    Config, ConfigChange, Core, EntryHeader, EntryId, EntryKind, HardState, LogIndex, MemberId,
    Origin, RoleName, Seqno, SessionId,
};

use super::command::{Change, Command, DiskSpeed, Handling, Link, Selector, Stored};
use super::show::{self, Names};
use crate::harness::{self, Event, Options, Seen, Sim};

/// A group that is still busy after so many messages will never be quiet.
const STEPS_MAX: usize = 10_000;
/// A member's own timers all fire within this many steps.
const TIMEOUTS_MAX: usize = 20;

pub struct World {
    sim: Sim,
    names: Names,
    fates: BTreeMap<String, Fate>,
    held: Vec<Link>,
    output: Vec<String>,
}

#[derive(Clone, Copy)]
enum Fate {
    Proposal(&'static str),
    Read(u64),
}

type Done = Result<(), String>;
/// Place of a message in the network.
type Key = (u64, u64);

impl World {
    pub fn new() -> World {
        let options = Options {
            delay_us: (0, 0),
            sync_us: (0, 0),
            hints: false,
            polled_at_once: 1.0,
            chunks: false,
            ..Options::default()
        };
        let mut sim = Sim::new(1, options);
        sim.seen = Some(Vec::new());
        World {
            sim,
            names: Names::default(),
            fates: BTreeMap::new(),
            held: Vec::new(),
            output: Vec::new(),
        }
    }

    pub fn take_output(&mut self) -> Vec<String> {
        std::mem::take(&mut self.output)
    }

    pub fn perform(&mut self, command: Command) -> Done {
        match command {
            Command::Group { members, down } => self.group(members, down)?,
            Command::AppendBytes(bytes) => {
                if !self.sim.up().is_empty() {
                    return Err("members are up already".to_owned());
                }
                self.sim.options.limits.append_bytes_max = bytes;
            }
            Command::Disk(node, stored) => self.store(node, stored)?,
            Command::DiskSpeed(node, speed) => self.disk_speed(node, speed)?,
            Command::New(node) => self.new_member(node)?,
            Command::Start(node) => self.start(node)?,
            Command::Crash(node) => {
                self.up(node)?;
                self.sim.crash_keeping(node, |_| 0);
            }
            Command::Submit(node, name) => self.submit(node, name)?,
            Command::Refuse(refuse) => self.sim.options.refusals = f64::from(u8::from(refuse)),
            Command::Read(node, name) => self.read(node, name)?,
            Command::Campaign(node) => self.campaign(node)?,
            Command::Lead(node) => return self.lead(node),
            Command::Tick(node, us) => {
                self.up(node)?;
                self.sim.now += us;
                self.sim.with(node, |core, now| core.handle_tick(now));
            }
            Command::Wait(us) => self.sim.now += us,
            Command::Run(us) => return self.run(us),
            Command::DeliverAll => return self.deliver_all(true),
            Command::Settle => return self.deliver_all(false),
            Command::Network => self.show_network(),
            Command::Messages(handling, selector) => return self.handle(handling, &selector),
            Command::Hold(link) => self.held.push(link),
            Command::Release(link) => self.release(link)?,
            Command::Partition(sides) => self.partition(&sides)?,
            Command::Cut(link) => self.cut(link),
            Command::Heal => self.sim.heal_network(),
            Command::Connection(node, to, there) => self.connection(node, to, there)?,
            Command::Transfer(node, to) => {
                let result = self.call(node, |core, now| {
                    core.transfer_leadership(now, Some(to)).map(|_| ())
                })?;
                self.say_refused(result);
            }
            Command::Change(node, change) => self.change(node, change)?,
            Command::Eligible(node, learner) => {
                self.call(node, |core, _| core.set_eligible(learner, true))?;
            }
            Command::Purge(node, index) => self.purge(node, LogIndex(index))?,
            Command::Base(node, to, index) => self.base(node, to, LogIndex(index))?,
            Command::Status => self.show_status(),
            Command::Log(node) => self.show_logs(node)?,
            Command::AssertMember(node, what, value) => self.assert_member(node, &what, &value)?,
            Command::AssertFate(name, fate) => self.assert_fate(&name, &fate)?,
        }
        self.finish_local();
        self.show_seen(true);
        Ok(())
    }

    // --- members ----------------------------------------------------------------------------

    fn group(&mut self, members: u64, down: bool) -> Done {
        if !self.sim.nodes.is_empty() {
            return Err("there is a group already".to_owned());
        }
        if !(1..=9).contains(&members) {
            return Err("a group has 1 to 9 members".to_owned());
        }
        let mut config = Config {
            protocol: 1,
            ..Config::default()
        };
        let ids = || (1..=members).map(MemberId);
        config.members = ids().map(|id| (id, harness::member(id.0))).collect();
        for id in ids() {
            self.sim.place_node(id);
            let disk = &mut self.sim.node_mut(id).disk;
            disk.durable.base.config.config = config.clone();
            disk.written = disk.durable.clone();
        }
        if !down {
            ids().for_each(|id| self.sim.start(id));
            self.forget_promises();
        }
        Ok(())
    }

    /// What members promise at a start is of no interest when all start together.
    fn forget_promises(&mut self) {
        self.sim.now += self.sim.options.timing.promise_us;
    }

    /// Entries of earlier days, all of them actions. They are made up, so equal ids are equal.
    fn store(&mut self, node: MemberId, stored: Stored) -> Done {
        self.down(node)?;
        let Stored { log, term, vote } = stored;
        let mut before = EntryId::default();
        for (index, entry_term) in (1..).zip(log) {
            let header = EntryHeader {
                term: entry_term,
                index: LogIndex(index),
                seqno: Seqno(index as i64),
                kind: EntryKind::Action,
                origin: Origin {
                    member: MemberId(100),
                    session: SessionId(entry_term.0),
                    number: index,
                },
                depends_on: Seqno(0),
                payload_len: 0,
                payload_crc: 0,
            };
            self.sim.oracle.written(&header, before);
            before = header.id();
            self.sim
                .node_mut(node)
                .disk
                .durable
                .entries
                .push((header, None));
        }
        let disk = &mut self.sim.node_mut(node).disk;
        disk.durable.vote = HardState {
            term,
            voted_for: vote,
        };
        disk.written = disk.durable.clone();
        Ok(())
    }

    fn new_member(&mut self, node: MemberId) -> Done {
        if self.sim.nodes.contains_key(&node) {
            return Err(format!("{} is there already", show::member(node)));
        }
        self.sim.add_node(node);
        Ok(())
    }

    fn start(&mut self, node: MemberId) -> Done {
        self.down(node)?;
        self.sim.start(node);
        Ok(())
    }

    fn known(&self, node: MemberId) -> Done {
        if self.sim.nodes.contains_key(&node) {
            Ok(())
        } else {
            Err(format!("no member {}", show::member(node)))
        }
    }

    fn up(&self, node: MemberId) -> Done {
        self.known(node)?;
        match self.sim.node(node).core {
            Some(_) => Ok(()),
            None => Err(format!("{} is down", show::member(node))),
        }
    }

    fn down(&self, node: MemberId) -> Done {
        self.known(node)?;
        match self.sim.node(node).core {
            Some(_) => Err(format!("{} is up already", show::member(node))),
            None => Ok(()),
        }
    }

    fn call<T>(
        &mut self,
        node: MemberId,
        call: impl FnOnce(&mut Core, synod_consensus::Time) -> T,
    ) -> Result<T, String> {
        self.up(node)?;
        Ok(self.sim.with(node, call))
    }

    fn say_refused<E: std::fmt::Display>(&mut self, result: Result<(), E>) {
        if let Err(reason) = result {
            let mut reason = reason.to_string();
            for id in self.sim.nodes.keys() {
                reason = reason.replace(&id.to_string(), &show::member(*id));
            }
            self.output.push(format!("not done: {reason}"));
        }
    }

    fn change(&mut self, node: MemberId, change: Change) -> Done {
        let change = match change {
            Change::Add(id) => ConfigChange::AddLearner {
                id,
                member: harness::member(id.0),
            },
            Change::Promote(id) => ConfigChange::Promote(id),
            Change::Demote(id) => ConfigChange::Demote(id),
            Change::Remove(id) => ConfigChange::Remove(id),
            // With the name of its former self.
            Change::Replace(old, id) => ConfigChange::Replace {
                old,
                id,
                member: harness::member(old.0),
            },
        };
        let result = self.call(node, |core, now| core.change_config(now, change))?;
        self.say_refused(result.map(|_| ()));
        Ok(())
    }

    // --- disks ------------------------------------------------------------------------------

    fn disk_speed(&mut self, node: MemberId, speed: DiskSpeed) -> Done {
        self.up(node)?;
        self.sim.hold_disk(node, matches!(speed, DiskSpeed::Held));
        self.finish_local();
        if matches!(speed, DiskSpeed::Sync) {
            self.sim.hold_disk(node, true);
        }
        Ok(())
    }

    fn purge(&mut self, node: MemberId, index: LogIndex) -> Done {
        self.up(node)?;
        self.sim.purge(node, index);
        if self.sim.core(node).base().last.index != index {
            let node = show::member(node);
            return Err(format!("{node} cannot drop its log up to {index}"));
        }
        Ok(())
    }

    fn base(&mut self, node: MemberId, to: MemberId, index: LogIndex) -> Done {
        self.up(node)?;
        let base = self.sim.base_at(node, index);
        let base = base.ok_or_else(|| format!("{} has no entry {index}", show::member(node)))?;
        self.call(node, |core, _| core.set_install_base(to, base))
    }

    // --- clients ----------------------------------------------------------------------------

    fn name(&self, name: &str) -> Done {
        if self.fates.contains_key(name) {
            return Err(format!("there is a '{name}' already"));
        }
        Ok(())
    }

    fn submit(&mut self, node: MemberId, name: String) -> Done {
        self.up(node)?;
        self.name(&name)?;
        let origin = self.sim.submit(node);
        self.fates.insert(name.clone(), Fate::Proposal("open"));
        self.names.proposals.insert(origin, name);
        Ok(())
    }

    fn read(&mut self, node: MemberId, name: String) -> Done {
        self.up(node)?;
        self.name(&name)?;
        let read = self.sim.read(node);
        self.fates.insert(name.clone(), Fate::Read(read));
        self.names.reads.insert(read, name);
        Ok(())
    }

    fn note_fate(&mut self, seen: &Seen) {
        let Seen::Resolved { origin, committed } = seen else {
            return;
        };
        if let Some(name) = self.names.proposals.get(origin) {
            let fate = if *committed { "committed" } else { "refused" };
            self.fates.insert(name.clone(), Fate::Proposal(fate));
        }
    }

    // --- time -------------------------------------------------------------------------------

    /// Time passes for all, but only this member looks at its clock.
    fn campaign(&mut self, node: MemberId) -> Done {
        self.up(node)?;
        if self.sim.core(node).is_leader() {
            return Err(format!("{} leads", show::member(node)));
        }
        let before = (self.sim.core(node).term(), self.sim.core(node).role());
        for _ in 0..TIMEOUTS_MAX {
            let Some(at) = self.sim.node(node).tick_at else {
                break;
            };
            self.sim.now = self.sim.now.max(at);
            self.sim.with(node, |core, now| core.handle_tick(now));
            let core = self.sim.core(node);
            if core.role() != RoleName::Follower && self.asked(node) {
                return Ok(());
            }
        }
        let core = self.sim.core(node);
        if (core.term(), core.role()) == before {
            self.output
                .push(format!("{} does not stand", show::member(node)));
        }
        Ok(())
    }

    /// Two candidacies suffice: the first may only have learned of a higher term.
    fn lead(&mut self, node: MemberId) -> Done {
        for _ in 0..2 {
            self.campaign(node)?;
            self.deliver_all(false)?;
            if self.sim.core(node).is_ready_leader() {
                let (term, commit) = (
                    self.sim.core(node).term(),
                    self.sim.core(node).commit_index(),
                );
                let name = show::member(node);
                self.output = vec![format!("{name} leads term {term}, commit {commit}")];
                return Ok(());
            }
        }
        Err(format!("{} does not win", show::member(node)))
    }

    /// Whether it asked for votes since the last output, or had nobody to ask.
    fn asked(&self, node: MemberId) -> bool {
        let seen = self.sim.seen.as_deref().unwrap_or_default();
        self.sim.core(node).is_leader()
            || seen.iter().any(|seen| match seen {
                Seen::Sent { event, .. } => matches!(
                    show::route(event),
                    Some((from, _, "pre-vote" | "vote")) if from == node
                ),
                Seen::Effect(..) | Seen::Intake(..) | Seen::Resolved { .. } => false,
            })
    }

    fn run(&mut self, us: u64) -> Done {
        let end = self.sim.now + us;
        for _ in 0..STEPS_MAX {
            self.deliver_all(false)?;
            let ticks = self.sim.nodes.iter();
            let tick = ticks
                .filter_map(|(id, node)| Some((node.tick_at?, *id)))
                .min();
            let later = self.deliverable().filter(|(at, _)| *at > self.sim.now);
            let later = later.map(|(at, _)| at).min();
            let at = tick.map(|(at, _)| at).into_iter().chain(later).min();
            let Some(at) = at.filter(|at| *at <= end) else {
                self.sim.now = end;
                return Ok(());
            };
            self.sim.now = self.sim.now.max(at);
            if let Some((_, node)) = tick.filter(|(due, _)| *due <= at) {
                self.sim.with(node, |core, now| core.handle_tick(now));
            }
        }
        Err(format!("more than {STEPS_MAX} steps"))
    }

    // --- network ----------------------------------------------------------------------------

    /// Disks that are not held answer, and members that lead get their own proposals: neither takes
    /// the network.
    fn finish_local(&mut self) {
        loop {
            let local = self.sim.queue.iter().find(|((at, _), event)| {
                let own = show::route(event).is_none_or(|(from, to, _)| from == to);
                // A member's proposal takes a microsecond to itself.
                own && *at <= self.sim.now + 1
            });
            let Some(key) = local.map(|(key, _)| *key) else {
                return;
            };
            let event = self.sim.queue.remove(&key).expect("just seen");
            self.sim.happen(event);
        }
    }

    fn matching(&self, selector: &Selector) -> Vec<Key> {
        let wanted = |event: &Event| {
            show::route(event).is_some_and(|(from, to, kind)| {
                let kind_fits = selector.kind.as_ref().is_none_or(|wanted| wanted == kind);
                from != to && selector.link.covers(from, to) && kind_fits
            })
        };
        let all = self.sim.queue.iter();
        all.filter(|(_, event)| wanted(event))
            .map(|(key, _)| *key)
            .collect()
    }

    fn deliverable(&self) -> impl Iterator<Item = Key> + '_ {
        let held = |event: &Event| {
            show::route(event)
                .is_some_and(|(from, to, _)| self.held.iter().any(|link| link.covers(from, to)))
        };
        let all = self.sim.queue.iter();
        all.filter(move |(_, event)| !held(event))
            .map(|(key, _)| *key)
    }

    fn deliver_all(&mut self, messages_shown: bool) -> Done {
        for _ in 0..STEPS_MAX {
            self.finish_local();
            self.show_seen(messages_shown);
            let now = self.sim.now;
            let next = self.deliverable().find(|(at, _)| *at <= now);
            let Some(key) = next else {
                return Ok(());
            };
            let event = self.sim.queue.remove(&key).expect("just seen");
            self.sim.happen(event);
        }
        Err(format!("more than {STEPS_MAX} messages"))
    }

    fn handle(&mut self, handling: Handling, selector: &Selector) -> Done {
        let keys = self.matching(selector);
        if keys.is_empty() {
            return Err("no such message is on its way".to_owned());
        }
        match handling {
            Handling::Deliver => keys.iter().for_each(|key| self.deliver(*key)),
            Handling::Drop => {
                for key in keys {
                    self.lose(key);
                }
            }
            Handling::Duplicate => {
                for key in keys {
                    let event = self.sim.queue[&key].clone();
                    self.sim.schedule(0, event);
                }
            }
            Handling::Reverse => {
                let events = keys.iter().map(|key| self.sim.queue[key].clone());
                let events: Vec<Event> = events.collect();
                let keys = keys.into_iter().rev();
                self.sim.queue.extend(keys.zip(events));
            }
        }
        Ok(())
    }

    /// Tells what follows at once, so that it is clear what came of which message.
    fn deliver(&mut self, key: Key) {
        let event = self.sim.queue.remove(&key).expect("just seen");
        let text = self.names.event(&event);
        let to = show::route(&event).map(|(_, to, _)| to);
        self.sim.happen(event);
        self.finish_local();
        let before = self.output.len();
        self.output.push(format!("[{text}]"));
        self.show_seen(true);
        if self.output.len() == before + 1 {
            let down = to.is_some_and(|to| self.up(to).is_err());
            self.output[before] += if down {
                " nobody there"
            } else {
                " changes nothing"
            };
        }
    }

    fn lose(&mut self, key: Key) {
        let event = self.sim.queue.remove(&key).expect("just seen");
        self.output
            .push(format!("{} (lost)", self.names.event(&event)));
    }

    fn release(&mut self, link: Link) -> Done {
        let before = self.held.len();
        self.held.retain(|held| *held != link);
        if self.held.len() == before {
            return Err("this link is not held".to_owned());
        }
        Ok(())
    }

    /// Whatever is on its way across is lost, too.
    fn partition(&mut self, sides: &[Vec<MemberId>]) -> Done {
        for node in sides.iter().flatten() {
            self.known(*node)?;
        }
        let nodes: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        let mut side_of = BTreeMap::new();
        for node in nodes {
            let of: Vec<usize> = (0..sides.len())
                .filter(|side| sides[*side].contains(&node))
                .collect();
            match of[..] {
                [side] => side_of.insert(node, side),
                [] => return Err(format!("{} is on no side", show::member(node))),
                _ => return Err(format!("{} is on two sides", show::member(node))),
            };
        }
        for (a, side) in &side_of {
            for (b, _) in side_of.iter().filter(|(_, other)| *other != side) {
                let (from, to) = (Some(*a), Some(*b));
                self.cut(Link { from, to });
            }
        }
        Ok(())
    }

    fn cut(&mut self, link: Link) {
        for from in self.sim.nodes.keys() {
            let others = self.sim.nodes.keys().filter(|to| *to != from);
            for to in others.filter(|to| link.covers(*from, **to)) {
                self.sim.blocked.insert((*from, *to));
            }
        }
        for key in self.matching(&Selector { link, kind: None }) {
            self.lose(key);
        }
    }

    fn connection(&mut self, node: MemberId, to: MemberId, there: bool) -> Done {
        self.known(to)?;
        self.up(node)?;
        if there {
            self.sim.node_mut(node).outbox.reconnected();
        }
        self.call(node, |core, now| {
            if there {
                core.peer_connected(now, to);
            } else {
                core.peer_disconnected(now, to);
            }
        })
    }

    // --- output -----------------------------------------------------------------------------

    fn show_seen(&mut self, messages: bool) {
        let all = self.sim.seen.as_mut().map(std::mem::take);
        for seen in all.unwrap_or_default() {
            self.note_fate(&seen);
            let held = |node| self.sim.node(node).disk.held;
            let shown = self.names.seen(&seen, held);
            let line = shown.filter(|(is_message, _)| messages || !is_message);
            self.output.extend(line.map(|(_, text)| text));
        }
    }

    fn show_network(&mut self) {
        let all = self.sim.queue.values();
        let lines: Vec<String> = all.map(|event| self.names.event(event)).collect();
        let nothing = lines.is_empty().then(|| "nothing is on its way".to_owned());
        self.output.extend(lines.into_iter().chain(nothing));
    }

    fn show_status(&mut self) {
        let nodes: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        for node in nodes {
            let name = show::member(node);
            let line = if self.sim.node(node).core.is_none() {
                format!("{name} down")
            } else {
                let field = |what| self.field(node, what).expect("a known field");
                let lease = match field("lease").as_str() {
                    "yes" => ", lease",
                    _ => "",
                };
                format!(
                    "{name} {} term {}, commit {}, last {}, durable {}, voters {}{lease}",
                    field("role"),
                    field("term"),
                    field("commit"),
                    field("last"),
                    field("durable"),
                    field("voters"),
                )
            };
            self.output.push(line);
        }
    }

    fn show_logs(&mut self, node: Option<MemberId>) -> Done {
        if let Some(node) = node {
            self.known(node)?;
        }
        let nodes = node.map_or(self.sim.nodes.keys().copied().collect(), |node| vec![node]);
        for node in nodes {
            let image = &self.sim.node(node).disk.written;
            let entries = self
                .names
                .entries(image.entries.iter().map(|(header, _)| header));
            let base = match image.base.last {
                none if none == EntryId::default() => String::new(),
                last => format!("...{last} | "),
            };
            let name = show::member(node);
            self.output
                .push(format!("{name} {base}{entries}").trim_end().to_owned());
        }
        Ok(())
    }

    /// What can be asserted of a member, as text.
    fn field(&self, node: MemberId, what: &str) -> Option<String> {
        let core = self.sim.core(node);
        let nobody = || "nobody".to_owned();
        let image = &self.sim.node(node).disk.written;
        Some(match what {
            "role" => show::role(core.role()).to_owned(),
            "term" => core.term().to_string(),
            "leader" => core.leader().map_or_else(nobody, show::member),
            "commit" => core.commit_index().to_string(),
            "last" => core.last_id().to_string(),
            "durable" => core.durable_index().to_string(),
            "voters" => show::members(core.config().config.voters()),
            "lease" => {
                let valid = core.lease_valid(self.sim.local(node));
                if valid { "yes" } else { "no" }.to_owned()
            }
            "log" => {
                let terms = image.entries.iter();
                let terms: Vec<String> = terms.map(|(header, _)| header.term.to_string()).collect();
                terms.join(" ")
            }
            "vote" => image.vote.voted_for.map_or_else(nobody, show::member),
            _ => return None,
        })
    }

    fn assert_member(&mut self, node: MemberId, what: &str, value: &str) -> Done {
        self.up(node)?;
        let found = self.field(node, what);
        let found = found.ok_or_else(|| format!("'{what}' is nothing to assert"))?;
        if found == value {
            return Ok(());
        }
        let name = show::member(node);
        Err(format!("{name} {what} is '{found}', not '{value}'"))
    }

    fn assert_fate(&mut self, name: &str, fate: &str) -> Done {
        let known = self.fates.get(name);
        let found = match known.ok_or_else(|| format!("nothing is called '{name}'"))? {
            Fate::Proposal(fate) => fate,
            Fate::Read(read) if self.sim.is_read_done(*read) => "answered",
            Fate::Read(_) => "open",
        };
        if found == fate {
            return Ok(());
        }
        Err(format!("{name} is '{found}', not '{fate}'"))
    }
}

impl Link {
    fn covers(self, from: MemberId, to: MemberId) -> bool {
        self.from.is_none_or(|end| end == from) && self.to.is_none_or(|end| end == to)
    }
}

//! Performs the commands of a script on a group of the harness.

use std::collections::BTreeMap;

use synod_consensus::{
    Config, ConfigChange, Core, EntryHeader, EntryId, EntryKind, HardState, LeaderPreference,
    LogIndex, MemberId, Origin, Seqno, SessionId,
};

use super::command::{Change, Command, DiskSpeed, Link, Stored};
use super::show::{self, Names};
use crate::harness::{self, Options, Sim};

pub struct World {
    pub(super) sim: Sim,
    pub(super) names: Names,
    pub(super) results: BTreeMap<String, ProposalResult>,
    pub(super) held: Vec<Link>,
    pub(super) output: Vec<String>,
}

#[derive(Clone, Copy)]
pub(super) enum ProposalResult {
    Proposal(&'static str),
    Read(u64),
}

pub(super) type Done = Result<(), String>;

impl World {
    pub fn new() -> World {
        let options = Options {
            delay_us: (0, 0),
            sync_us: (0, 0),
            hints: false,
            ..Options::default()
        };
        let mut sim = Sim::new(1, options);
        sim.seen = Some(Vec::new());
        World {
            sim,
            names: Names::default(),
            results: BTreeMap::new(),
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
            Command::Hold(link) => self.hold(link)?,
            Command::Release(link) => self.release(link)?,
            Command::Partition(sides) => self.partition(&sides)?,
            Command::Cut(link) => self.cut(link)?,
            Command::Heal => self.sim.heal_network(),
            Command::Connection(node, to, there) => self.connection(node, to, there)?,
            Command::Transfer(node, to) => {
                self.known(to)?;
                let result = self.call(node, |core, now| {
                    core.transfer_leadership(now, Some(to)).map(|_| ())
                })?;
                self.say_refused(result);
            }
            Command::Force(node) => {
                let result = self.call(node, |core, now| core.force(now))?;
                self.say_refused(result);
            }
            Command::Change(node, change) => self.change(node, change)?,
            Command::Eligible(node, learner) => {
                self.known(learner)?;
                self.call(node, |core, _| core.set_eligible(learner, true))?;
            }
            Command::Weight(node, weight) => {
                self.prefer(node, |preference| preference.weight = weight)?;
            }
            Command::HandsOver(node, hands_over) => {
                self.prefer(node, |preference| preference.hands_over = hands_over)?;
            }
            Command::Purge(node, index) => self.purge(node, LogIndex(index))?,
            Command::Base(node, to, index) => self.base(node, to, LogIndex(index))?,
            Command::Status => self.show_status(),
            Command::Log(node) => self.show_logs(node)?,
            Command::AssertMember(node, what, value) => self.assert_member(node, &what, &value)?,
            Command::AssertResult(name, result) => self.assert_result(&name, &result)?,
        }
        self.finish_local();
        self.show_seen(true);
        Ok(())
    }

    // --- members -------------------------------------------------------------------------------

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
            self.let_promises_expire();
        }
        Ok(())
    }

    /// Members keep a promise after their start, which would only delay the first election here.
    fn let_promises_expire(&mut self) {
        self.sim.now += self.sim.options.timing.promise_us;
    }

    /// Entries of earlier days, all of them actions. They are made up, so equal ids are equal.
    fn store(&mut self, node: MemberId, stored: Stored) -> Done {
        self.down(node)?;
        let Stored { log, term, vote } = stored;
        vote.map_or(Ok(()), |vote| self.known(vote))?;
        let mut before = EntryId::default();
        for (index, entry_term) in (1..).zip(log) {
            let header = EntryHeader {
                origin: Origin::new(MemberId(100), SessionId(entry_term.0), index),
                depends_on: Seqno(0),
                ..EntryHeader::bare(
                    entry_term,
                    LogIndex(index),
                    Seqno(index as i64),
                    EntryKind::Action,
                )
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
        disk.durable.vote = HardState::new(term, vote);
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

    pub(super) fn known(&self, node: MemberId) -> Done {
        if self.sim.nodes.contains_key(&node) {
            Ok(())
        } else {
            Err(format!("no member {}", show::member(node)))
        }
    }

    pub(super) fn up(&self, node: MemberId) -> Done {
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
        change.members().try_for_each(|id| self.known(id))?;
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

    fn prefer(&mut self, node: MemberId, change: impl FnOnce(&mut LeaderPreference)) -> Done {
        self.up(node)?;
        let mut preference = self.sim.preferences.get(&node).copied().unwrap_or_default();
        change(&mut preference);
        self.sim.prefer(node, preference);
        Ok(())
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

    // --- disks ---------------------------------------------------------------------------------

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
            return Err(format!("{node} cannot purge its log up to {index}"));
        }
        Ok(())
    }

    fn base(&mut self, node: MemberId, to: MemberId, index: LogIndex) -> Done {
        self.up(node)?;
        self.known(to)?;
        let base = self.sim.base_at(node, index);
        let base = base.ok_or_else(|| format!("{} has no entry {index}", show::member(node)))?;
        self.call(node, |core, _| core.set_install_base(to, base))
    }

    // --- clients -------------------------------------------------------------------------------

    fn name(&self, name: &str) -> Done {
        if self.results.contains_key(name) {
            return Err(format!("there is a '{name}' already"));
        }
        Ok(())
    }

    fn submit(&mut self, node: MemberId, name: String) -> Done {
        self.up(node)?;
        self.name(&name)?;
        let origin = self.sim.submit(node);
        self.results
            .insert(name.clone(), ProposalResult::Proposal("open"));
        self.names.proposals.insert(origin, name);
        Ok(())
    }

    fn read(&mut self, node: MemberId, name: String) -> Done {
        self.up(node)?;
        self.name(&name)?;
        let read = self.sim.read(node);
        self.results
            .insert(name.clone(), ProposalResult::Read(read));
        self.names.reads.insert(read, name);
        Ok(())
    }
}

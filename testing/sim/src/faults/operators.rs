//! Operators' actions during faults: add, remove, promote and demote members, shut members down,
//! move leadership, give weights, set the writers, ask for commits in two regions, and purge logs.
//!
//! Operators change voters only as the atlas allows (`fault_atlas.rs`, rule 4). A refusal by the
//! group is no fault.

use std::time::Duration;

use rand::Rng;
use synod_consensus::{
    CommitRegions, GroupSetting, LeaderPreference, LeaderWeight, MemberId, Role, Writers,
};
use synod_member::{CommandRequest, Event as Input, LiveSetting, SettingRequest, lock};
use synod_wire::Command;

use crate::expected::commands;
use crate::options::Fault;
use crate::trace::What;
use crate::world::{SECOND, World};

/// Operators wait so long for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

impl World {
    /// Any member that leads, or that has not noticed yet that another one does.
    fn any_leader(&mut self) -> Option<MemberId> {
        let leaders: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| self.core(*id).is_leader())
            .collect();
        self.pick(&leaders)
    }

    /// An operator adds, demotes, removes or promotes a member.
    pub(super) fn change_members(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        let config = self.core(leader).config().config.clone();
        let members: Vec<MemberId> = config.members.keys().copied().collect();
        let Some(some) = self.pick(&members) else {
            return;
        };
        let choice = self.rng.random_range(0..5);
        // Names are not unique here: a member comes back with a new disk under its old one.
        let member = some.to_string();
        let force = true;
        let change = match choice {
            0 if self.nodes.values().filter(|n| !n.gone).count() < 9 => {
                let name = format!("added{}", self.nodes.len());
                let (has_data, wants_vote) = (self.chance(0.7), self.chance(0.6));
                self.hit(leader, Fault::Members);
                self.note(leader, What::Operator { name: "add" });
                return self.add_member(name, has_data, wants_vote);
            }
            1 if self.fault_atlas().survives_without(&config, some) => {
                Command::Demote { member, force }
            }
            2 if self.fault_atlas().survives_without(&config, some) && members.len() > 3 => {
                Command::Remove { member, force }
            }
            3 if config
                .members
                .get(&some)
                .is_some_and(|m| m.role == Role::Learner)
                && !self.node(some).gone
                && self.fault_atlas().survives_with(&config, some) =>
            {
                Command::Promote { member }
            }
            _ => return,
        };
        self.hit(leader, Fault::Members);
        let removes = matches!(change, Command::Remove { .. });
        self.note(
            leader,
            What::Operator {
                name: if removes { "remove" } else { "change" },
            },
        );
        self.command(leader, change);
        let gone = |world: &World| {
            let config = &world.core(leader).config().config;
            !config.members.contains_key(&some)
        };
        if removes && self.is_up(leader) && self.is_up(some) && gone(self) && self.chance(0.5) {
            // The operator stops it; otherwise it has to stop by itself. When it starts again, it
            // asks to join.
            self.end_process(some);
            self.restart_later(some);
        }
    }

    /// An operator shuts a member down in an orderly way.
    pub(super) fn leave(&mut self, id: MemberId) {
        let config = match self.ready_leader() {
            Some(leader) => self.core(leader).config().config.clone(),
            None => return,
        };
        if !self.fault_atlas().survives_without(&config, id) {
            return;
        }
        self.hit(id, Fault::Leave);
        self.process(id).is_leaving = true;
        let done = self.process(id).effects.left();
        self.feed(id, Input::Leave(done));
    }

    /// An operator moves leadership to any other member.
    pub(super) fn transfer_leadership(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        self.hit(leader, Fault::LeaderTransfer);
        self.transfer_from(leader);
    }

    /// An operator orders a leader transfer, to the voter with the most complete log.
    pub(crate) fn transfer_from(&mut self, leader: MemberId) {
        self.command(leader, Command::TransferLeadership { to: None });
    }

    /// An operator gives some order to some member, about any member or none. Most are refused, and
    /// what is done must leave a group that can lose no acknowledged action.
    pub(super) fn order_anything(&mut self) {
        let up = self.up();
        let Some(asked) = self.pick(&up) else { return };
        let (member, other) = (self.any_name(), self.any_name());
        let force = false;
        let present = self.core(asked).config().config.protocol;
        let command = match self.rng.random_range(0..8) {
            0 => Command::Remove { member, force },
            1 => Command::Promote { member },
            2 => Command::Demote { member, force },
            3 => Command::Replace {
                old: member,
                new: other,
                force,
            },
            4 => Command::Unbind { member },
            5 => Command::TransferLeadership { to: Some(member) },
            6 => Command::SetWeight {
                member,
                weight: self.draw_preference().weight,
            },
            _ => {
                let version = self.pick(&[None, Some(present - 1), Some(present), Some(99)]);
                let version = version.flatten();
                self.checks.ordered_versions.extend(version);
                Command::SetProtocol { version, force }
            }
        };
        self.note(asked, What::Operator { name: "any order" });
        self.command(asked, command);
    }

    /// Names a member by its id or by its name, which others may have, too; or names none.
    fn any_name(&mut self) -> String {
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        match self.pick(&all) {
            Some(id) if self.chance(0.7) => id.to_string(),
            Some(id) if self.chance(0.8) => self.node(id).name.clone(),
            _ => "nobody".to_owned(),
        }
    }

    /// An operator gives an order to this member. A refusal is no fault.
    pub(super) fn command(&mut self, to: MemberId, command: Command) {
        commands::count(&mut self.coverage, &command);
        let answers = self.answers.clone();
        let request = CommandRequest {
            command,
            limit: PATIENCE,
            reply: Box::new(move |answer| lock(&answers).push(answer)),
        };
        self.feed(to, Input::Command(request));
    }

    /// An operator gives a member another leader weight, which it keeps over restarts.
    pub(super) fn weigh(&mut self, id: MemberId) {
        let preference = self.draw_preference();
        self.hit(id, Fault::Weights);
        self.node_mut(id).preference = preference;
        self.feed(id, Input::Set(LiveSetting::LeaderPreference(preference)));
    }

    /// Members begin with leader weights, if these may change at all.
    pub(crate) fn weigh_all(&mut self) {
        if self.options.has(Fault::Weights) {
            for id in self.up() {
                self.weigh(id);
            }
        }
    }

    fn draw_preference(&mut self) -> LeaderPreference {
        let weight = self.pick(&[0, 1, 50, 51, 100]).and_then(LeaderWeight::new);
        LeaderPreference {
            weight: weight.unwrap_or_default(),
            hands_over: self.chance(0.6),
        }
    }

    /// An operator of some member says whose writes the group takes: mostly the leader's.
    pub(crate) fn set_writers(&mut self) {
        let writers = match self.chance(0.7) {
            true => Writers::Leader,
            false => Writers::Any,
        };
        let up = self.up();
        let Some(id) = self.pick(&up) else { return };
        let name = match writers {
            Writers::Any => "all write",
            Writers::Leader => "the leader writes",
        };
        self.note(id, What::Operator { name });
        let request = SettingRequest {
            setting: GroupSetting::Writers(writers),
            limit: Duration::from_secs(1),
            // A refusal is no fault.
            reply: Box::new(drop),
        };
        self.feed(id, Input::OrderSetting(request));
    }

    /// From now on what is committed outlives each region. Whether the group has agreed.
    pub(crate) fn ask_for_regions(&mut self, founder: MemberId) -> bool {
        let setting = CommitRegions::new(2).map(GroupSetting::CommitRegions);
        let Some(setting) = setting else { return false };
        let request = SettingRequest {
            setting,
            limit: Duration::from_secs(60),
            reply: Box::new(drop),
        };
        self.feed(founder, Input::OrderSetting(request));
        let agreed = self.run_until(60 * SECOND, |world| {
            let core = world.core(founder);
            core.config().config.settings.has(setting) && core.config().index <= core.commit_index()
        });
        self.regions_are_asked_for = agreed;
        agreed
    }

    /// The members that are healed may all be in one region. Commits wait for another one for a
    /// while.
    pub(crate) fn give_regions_up(&mut self, id: MemberId) {
        if self.options.commits_in_regions {
            let patience = LiveSetting::RegionPatience(Some(Duration::from_secs(1)));
            self.feed(id, Input::Set(patience));
        }
    }

    /// The wall clock jumps ahead, so that all of the log is old: at the next chance the member
    /// purges everything that is not needed.
    pub(super) fn purge(&mut self, id: MemberId) {
        self.hit(id, Fault::Purge);
        self.node_mut(id).wall_ahead = true;
    }
}

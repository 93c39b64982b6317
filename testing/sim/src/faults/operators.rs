//! What operators do while faults happen: they add, remove, promote and demote members, shut
//! members down, move leadership, give weights, and purge logs.
//!
//! Operators change voters only as the atlas allows (`fault_atlas.rs`, rule 4). A refusal by the
//! group is no fault.

use rand::Rng;
use synod_consensus::{ConfigChange, LeaderPreference, LeaderWeight, MemberId, Role};
use synod_member::{ConfigRequest, Event as Input, LeaderTransferRequest};

use crate::options::Fault;
use crate::trace::What;
use crate::world::World;

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
        let change = match choice {
            0 if self.nodes.values().filter(|n| !n.gone).count() < 9 => {
                let name = format!("added{}", self.nodes.len());
                let (has_data, wants_vote) = (self.chance(0.7), self.chance(0.6));
                self.hit(leader, Fault::Members);
                self.note(leader, What::Operator { name: "add" });
                return self.add_member(name, has_data, wants_vote);
            }
            1 if self.fault_atlas().survives_without(&config, some) => ConfigChange::Demote(some),
            2 if self.fault_atlas().survives_without(&config, some) && members.len() > 3 => {
                ConfigChange::Remove(some)
            }
            3 if config
                .members
                .get(&some)
                .is_some_and(|m| m.role == Role::Learner)
                && !self.node(some).gone
                && self.fault_atlas().survives_with(&config, some) =>
            {
                ConfigChange::Promote(some)
            }
            _ => return,
        };
        self.hit(leader, Fault::Members);
        let removes = matches!(change, ConfigChange::Remove(_));
        self.note(
            leader,
            What::Operator {
                name: if removes { "remove" } else { "change" },
            },
        );
        // A refusal is no fault.
        let reply = Box::new(drop);
        self.feed(leader, Input::ChangeConfig(ConfigRequest { change, reply }));
        let gone = |world: &World| {
            let config = &world.core(leader).config().config;
            !config.members.contains_key(&some)
        };
        if removes && self.is_up(leader) && self.is_up(some) && gone(self) {
            // The operator stops it. When it starts again, it asks to join.
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
        // A refusal is no fault.
        let (to, reply) = (None, Box::new(drop));
        let request = LeaderTransferRequest { to, reply };
        self.feed(leader, Input::TransferLeadership(request));
    }

    /// An operator gives a member another leader weight, which it keeps over restarts.
    pub(super) fn weigh(&mut self, id: MemberId) {
        let preference = self.draw_preference();
        self.hit(id, Fault::Weights);
        self.node_mut(id).preference = preference;
        self.feed(id, Input::LeaderPreference(preference));
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

    /// The wall clock jumps ahead, so that all of the log is old: at the next chance the member
    /// purges everything that is not needed.
    pub(super) fn purge(&mut self, id: MemberId) {
        self.hit(id, Fault::Purge);
        self.node_mut(id).wall_ahead = true;
    }
}

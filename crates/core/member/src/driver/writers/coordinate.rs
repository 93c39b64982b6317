//! The driver's dealings with [`super::WritersSetting`]: it pursues orders of operators, changes
//! the setting as the leader, and tells the host whether it may take writes.

use synod_consensus::{Config, ConfigChange, ConfigError, MemberId, WRITERS_SINCE, Writers};
use synod_wire::PeerMessage;

use super::permission::WritePermission;
use super::{WriterRule, WritersRequest};
use crate::driver::Driver;
use crate::host::Level;

impl Driver {
    // --- the setting -------------------------------------------------------------------------

    /// An operator of this member wants the setting to be changed.
    pub(in crate::driver) fn order_writers(&mut self, request: WritersRequest) {
        self.proposals
            .writers
            .orders
            .add(self.ctx.turns.now, request);
        self.look_at_orders();
        self.pursue_orders();
    }

    /// Pursues what operators of this member want, with each slow tick.
    pub(in crate::driver) fn writers_tick(&mut self) {
        self.proposals.writers.orders.expire(self.ctx.turns.now);
        self.look_at_orders();
        self.pursue_orders();
    }

    /// Ends orders that are obeyed.
    pub(in crate::driver) fn look_at_orders(&mut self) {
        let at = self.ctx.core.config();
        let is_committed = at.index <= self.ctx.core.commit_index();
        if is_committed && !at.config.members.is_empty() {
            self.proposals.writers.orders.committed(at.config.writers);
        }
    }

    fn pursue_orders(&mut self) {
        let Some(writers) = self.proposals.writers.orders.wanted() else {
            return;
        };
        // A leader of an older version would not understand the order.
        if let Some(why) = cannot_obey(&self.ctx.core.config().config) {
            return self.proposals.writers.orders.refused(writers, &why);
        }
        match self.ctx.core.leader() {
            Some(leader) if leader == self.ctx.identity.me.member => {
                self.handle_writers_order(leader, writers);
            }
            Some(leader) => self.ctx.send(leader, PeerMessage::WritersOrder { writers }),
            None => {}
        }
    }

    /// Leader only: an operator of member `from` wants the setting to be changed.
    pub(in crate::driver) fn handle_writers_order(&mut self, from: MemberId, writers: Writers) {
        let change = ConfigChange::SetWriters(writers);
        let error = match self.ctx.core.change_config(self.ctx.turns.now, change) {
            Ok(_) => {
                let by = self.ctx.name_of(from);
                let text = format!("an operator of {by} sets whose writes are taken: {writers}");
                return self.ctx.log(Level::Info, text);
            }
            Err(error) => error,
        };
        let refused = match error {
            // The order is repeated.
            ConfigError::NotLeader { .. }
            | ConfigError::LeaderTransfer
            | ConfigError::InProgress { .. }
            | ConfigError::NotReady
            | ConfigError::WritersAlreadySo { .. } => return,
            error => error.to_string(),
        };
        if from == self.ctx.identity.me.member {
            self.proposals.writers.orders.refused(writers, &refused);
        } else {
            let text = refused;
            self.ctx
                .send(from, PeerMessage::WritersRefused { writers, text });
        }
    }

    /// The leader refuses what an operator of this member wants.
    pub(in crate::driver) fn writers_refused(&mut self, writers: Writers, text: &str) {
        self.proposals.writers.orders.refused(writers, text);
    }

    // --- what follows from it ----------------------------------------------------------------

    /// The rule by which this member, as the leader, orders proposals now. The configuration is in
    /// force from its entry on, committed or not: what is ordered now comes after it.
    pub(in crate::driver) fn writer_rule(&self) -> WriterRule {
        WriterRule::of(
            self.writers_in_force(),
            self.ctx.identity.me.member,
            self.proposals.ordering.term_after(),
        )
    }

    /// The setting in force: as the group has set it. In a group of relays always the leader's
    /// writes: the leader alone pulls from the upstream, and continues what the leaders before it
    /// have ordered.
    fn writers_in_force(&self) -> Writers {
        match self.ctx.identity.config.in_relay_group {
            true => Writers::Leader,
            false => self.ctx.core.config().config.writers,
        }
    }

    /// Tells the host, if it has changed, whether it may take writes. The host may look at the
    /// status for the writer's name.
    pub(in crate::driver) fn tell_write_permission(&mut self) {
        let permission = WritePermission::of(
            self.writers_in_force(),
            self.ctx.identity.me.member,
            self.ctx.core.leader(),
            self.proposals.ordering.term_after(),
        );
        if self.proposals.writers.told != permission {
            self.proposals.writers.told = permission;
            self.publish_status();
            self.ctx.links.host.write_permission(permission);
        }
    }
}

/// Why a group with this configuration cannot obey an order.
fn cannot_obey(config: &Config) -> Option<String> {
    if config.members.is_empty() || config.protocol >= WRITERS_SINCE {
        return None;
    }
    let members = config.members.values();
    let old = members.filter(|member| member.versions.max < WRITERS_SINCE);
    let names: Vec<&str> = old.map(|member| member.name.as_str()).collect();
    Some(if names.is_empty() {
        "the group is about to raise its protocol version: repeat the order in a few seconds"
            .to_owned()
    } else {
        format!(
            "these members run a program that does not know the setting: {}. Upgrade them first",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{Member, Role, VersionRange};

    fn config(protocol: u16, newest: u16) -> Config {
        let member = Member {
            role: Role::Voter,
            has_data: true,
            name: "db2".to_owned(),
            address: String::new(),
            versions: VersionRange {
                min: 1,
                max: newest,
            },
            certificate: None,
        };
        Config {
            protocol,
            members: [(MemberId(2), member)].into(),
            ..Config::default()
        }
    }

    #[test]
    fn group_of_older_programs_refuses_and_names_them() {
        let why = |protocol, newest| cannot_obey(&config(protocol, newest));
        assert!(why(4, 4).is_some_and(|why| why.contains("know the setting: db2. Upgrade")));
        assert!(why(4, 5).is_some_and(|why| why.contains("repeat")));
        assert_eq!(why(5, 5), None);
        assert_eq!(cannot_obey(&Config::default()), None, "no group yet");
    }
}

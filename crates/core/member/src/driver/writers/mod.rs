//! The members whose writes the group takes: a setting in its configuration, obeyed by the leader
//! when it orders.
//!
//! ```text
//! every member     permission  whether the host may take writes of its clients, and who else may
//! every member     orders      the setting that operators of this member want
//! the leader       rule        whether a proposal is one of the writer
//! ```
//!
//! The rule at the order decides. The permission only lets hosts refuse early: it may be late.

mod orders;
mod permission;
mod rule;

pub use orders::{WritersRefusal, WritersRequest};
pub use permission::WritePermission;
pub(super) use rule::WriterRule;

use synod_consensus::{Config, ConfigChange, ConfigError, MemberId, WRITERS_SINCE, Writers};
use synod_wire::PeerMessage;

use super::context::Context;
use crate::host::Level;
use orders::WritersOrders;

#[derive(Default)]
pub(super) struct WritersSetting {
    orders: WritersOrders,
    pub(super) told: WritePermission,
}

impl WritersSetting {
    // --- the setting -------------------------------------------------------------------------

    pub(super) fn order_writers(&mut self, ctx: &mut Context, request: WritersRequest) {
        self.orders.add(ctx.turns.now, request);
        self.look_at_orders(ctx);
        self.pursue_orders(ctx);
    }

    /// Pursues what operators of this member want, with each slow tick.
    pub(super) fn writers_tick(&mut self, ctx: &mut Context) {
        self.orders.expire(ctx.turns.now);
        self.look_at_orders(ctx);
        self.pursue_orders(ctx);
    }

    pub(super) fn look_at_orders(&mut self, ctx: &Context) {
        let at = ctx.core.config();
        let is_committed = at.index <= ctx.core.commit_index();
        if is_committed && !at.config.members.is_empty() {
            self.orders.committed(at.config.writers);
        }
    }

    fn pursue_orders(&mut self, ctx: &mut Context) {
        let Some(writers) = self.orders.wanted() else {
            return;
        };
        // A leader of an older version would not understand the order.
        if let Some(why) = cannot_obey(&ctx.core.config().config) {
            return self.orders.refused(writers, &why);
        }
        match ctx.core.leader() {
            Some(leader) if leader == ctx.identity.me.member => {
                self.handle_writers_order(ctx, leader, writers);
            }
            Some(leader) => ctx.send(leader, PeerMessage::WritersOrder { writers }),
            None => {}
        }
    }

    pub(super) fn handle_writers_order(
        &mut self,
        ctx: &mut Context,
        from: MemberId,
        writers: Writers,
    ) {
        let change = ConfigChange::SetWriters(writers);
        let error = match ctx.core.change_config(ctx.turns.now, change) {
            Ok(_) => {
                let by = ctx.name_of(from);
                let text = format!("an operator of {by} sets whose writes are taken: {writers}");
                return ctx.log(Level::Info, text);
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
        if from == ctx.identity.me.member {
            self.orders.refused(writers, &refused);
        } else {
            let text = refused;
            ctx.send(from, PeerMessage::WritersRefused { writers, text });
        }
    }

    pub(super) fn writers_refused(&mut self, writers: Writers, text: &str) {
        self.orders.refused(writers, text);
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

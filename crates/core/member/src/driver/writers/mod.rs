//! The members whose writes the group takes: a setting in its configuration, obeyed by the leader
//! when it orders. And the orders of operators for this and the other settings there.
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

pub use orders::{SettingRefusal, SettingRequest};
pub use permission::WritePermission;
pub(super) use rule::WriterRule;

use synod_consensus::{ConfigChange, ConfigError, GroupSetting, MemberId};
use synod_wire::PeerMessage;

use super::context::Context;
use crate::host::Level;
use orders::SettingOrders;

#[derive(Default)]
pub(super) struct WritersSetting {
    orders: SettingOrders,
    pub(super) told: WritePermission,
}

impl WritersSetting {
    pub(super) fn order_setting(&mut self, ctx: &mut Context, request: SettingRequest) {
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
            self.orders.committed(at.config.settings);
        }
    }

    fn pursue_orders(&mut self, ctx: &mut Context) {
        let Some(setting) = self.orders.wanted() else {
            return;
        };
        match ctx.core.leader() {
            Some(leader) if leader == ctx.identity.me.member => {
                self.handle_setting_order(ctx, leader, setting);
            }
            Some(leader) => ctx.send(leader, PeerMessage::SettingOrder { setting }),
            None => {}
        }
    }

    pub(super) fn handle_setting_order(
        &mut self,
        ctx: &mut Context,
        from: MemberId,
        setting: GroupSetting,
    ) {
        let change = ConfigChange::Set(setting);
        let error = match ctx.core.change_config(ctx.turns.now, change) {
            Ok(_) => {
                let by = ctx.name_of(from);
                let text = format!("as an operator of {by} orders, the group {setting}");
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
            | ConfigError::SettingAlreadySo { .. } => return,
            error => error.to_string(),
        };
        if from == ctx.identity.me.member {
            self.orders.refused(setting, &refused);
        } else {
            let text = refused;
            ctx.send(from, PeerMessage::SettingRefused { setting, text });
        }
    }

    pub(super) fn setting_refused(&mut self, setting: GroupSetting, text: &str) {
        self.orders.refused(setting, text);
    }
}

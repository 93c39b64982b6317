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

use synod_consensus::{ConfigChange, ConfigError, MemberId, Writers};
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

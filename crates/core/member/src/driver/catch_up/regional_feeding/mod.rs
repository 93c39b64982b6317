//! Feeding: learners far from the leader get its log from a member near them, so that one copy of
//! it crosses the link between two regions.
//!
//! ```text
//!  region of the leader  |  another region
//!                        |
//!       leader --- entries ---> feeder --- entries, in the leader's name ---> learners
//!         ^ \---- orders ------^   |                                            |
//!         '-------------------- acknowledgements --------------------------------'
//! ```
//!
//! The leader keeps all state of replication (decision 029): only the entries take another way.
//! Heartbeats, commit indexes, probes and bases do not.
//!
//! ```text
//! the leader    feeders   which member feeds which learner?
//! a feeder      orders    which orders wait for entries that have not come yet?
//! ```

mod feeders;
mod orders;

use synod_consensus::{EntryId, LogIndex, MemberId, ProgressMode, Role, SendEntries};
use synod_wire::{FeedOrder, PeerMessage};

use crate::driver::EntrySender;
use crate::driver::context::Context;
use crate::driver::leadership::Leadership;
use crate::driver::own_log::Replication;
use crate::host::{Level, Topic};
use crate::read_for_peer::ReadForPeer;
use feeders::{Changed, Feeders, Peer};
use orders::FeedOrders;

#[derive(Default)]
pub(in crate::driver) struct Feeding {
    pub(in crate::driver) feeders: Feeders,
    orders: FeedOrders,
}

impl Feeding {
    // --- the leader ----------------------------------------------------------------------------

    /// Leader only: chooses who feeds whom. With each slow tick.
    pub(in crate::driver) fn choose_feeders(&mut self, ctx: &Context, leadership: &Leadership) {
        let config = &ctx.core.config().config;
        let Some(own) = leadership.regions.of(ctx.identity.me.member) else {
            return;
        };
        let (answering, regions) = (ctx.answering(), &leadership.regions);
        let peers = ctx.core.progress().filter_map(|progress| {
            let role = config.members.get(&progress.member)?.role;
            let answers = answering.contains(&progress.member);
            let is_up_to_date = answers && progress.mode == ProgressMode::Stream;
            let catches_up = answers && progress.mode == ProgressMode::CatchUp;
            Some(Peer {
                member: progress.member,
                region: regions.of(progress.member)?,
                is_voter: role == Role::Voter,
                is_up_to_date,
                takes_entries: is_up_to_date || catches_up,
            })
        });
        for changed in self.feeders.choose(ctx.turns.now, own, peers) {
            note_feeder(ctx, changed);
        }
    }

    /// Leader only: has these entries sent by the feeder of their receiver; whether it has one.
    pub(in crate::driver) fn order_feeding(&mut self, ctx: &Context, range: &SendEntries) -> bool {
        let learner = range.to;
        let Some(feeder) = self.feeders.of(learner) else {
            return false;
        };
        let progress = ctx.core.progress().find(|peer| peer.member == learner);
        if !progress.is_some_and(|peer| takes_entries(peer.mode)) {
            // What was sent before has been refused, so the leader looks where the logs agree, and
            // nothing may stand in between.
            self.feeders.failed(ctx.turns.now, learner);
            return false;
        }
        let Some(term) = ctx.core.term_at(range.last) else {
            return false;
        };
        let order = FeedOrder {
            learner,
            term: range.term,
            prev: range.prev,
            last: EntryId::new(term, range.last),
            may_shorten: range.may_shorten,
            commit: range.commit,
            sent_at: range.sent_at,
        };
        ctx.send(feeder, PeerMessage::Feed(order));
        true
    }

    /// Leader only: serves the learners itself that got no entries by way of their feeders. The
    /// core has just looked at the time: it asks such learners where the logs agree, without
    /// entries.
    pub(in crate::driver) fn notice_failed_feeding(&mut self, ctx: &Context) {
        let waiting = ctx.core.progress().filter(|peer| !takes_entries(peer.mode));
        for learner in waiting.map(|peer| peer.member) {
            self.feeders.failed(ctx.turns.now, learner);
        }
    }

    // --- a feeder ------------------------------------------------------------------------------

    pub(in crate::driver) fn handle_feed(
        &mut self,
        ctx: &mut Context,
        leader: MemberId,
        order: FeedOrder,
    ) {
        let is_sound = order.prev.index < order.last.index;
        if is_sound && order.term == ctx.core.term() {
            self.feed(ctx, leader, order);
        }
    }

    /// Sends on what has come, or become committed, since the orders for it came.
    pub(in crate::driver) fn feed_waiting(&mut self, ctx: &mut Context) {
        if self.orders.is_empty() {
            return;
        }
        let Some(leader) = ctx.core.leader() else {
            return;
        };
        for order in self.orders.take() {
            self.handle_feed(ctx, leader, order);
        }
    }

    fn feed(&mut self, ctx: &mut Context, leader: MemberId, order: FeedOrder) {
        if ctx.core.term_at(order.last.index) != Some(order.last.term) {
            return self.orders.wait(order);
        }
        let range = SendEntries {
            to: order.learner,
            term: order.term,
            prev: order.prev,
            first: order.prev.index.next(),
            last: end_of_feeding(ctx, &order),
            is_first_time: false,
            may_shorten: order.may_shorten,
            commit: order.commit,
            sent_at: order.sent_at,
        };
        let inflight_max = ctx.identity.config.limits.inflight_messages_max;
        let sender = EntrySender::FeederOf(leader);
        match ctx.own_log.replicate(sender, range, inflight_max) {
            Replication::Send(message) => ctx.send(order.learner, message),
            // What is committed is the same when it is read.
            Replication::Read(request) if range.last <= ctx.core.commit_index() => {
                ctx.links.disk.read(ReadForPeer::OldEntries(request));
            }
            Replication::Read(_) => self.orders.wait(order),
            Replication::UnderWay => {}
        }
    }
}

fn note_feeder(ctx: &Context, Changed { learner, feeder }: Changed) {
    let learner = ctx.name_of(learner);
    let text = match feeder {
        Some(feeder) => {
            let feeder = ctx.name_of(feeder);
            format!("{learner} gets the log by way of {feeder}, which is in its region")
        }
        None => format!("{learner} gets the log from the leader itself"),
    };
    ctx.note(Topic::Log, Level::Info, text);
}

/// A long range is read from the disk, and ends with what is committed if it may.
fn end_of_feeding(ctx: &Context, order: &FeedOrder) -> LogIndex {
    let committed = ctx.core.commit_index();
    if order.may_shorten && committed > order.prev.index {
        order.last.index.min(committed)
    } else {
        order.last.index
    }
}

pub(in crate::driver) fn may_be_fed_by(
    ctx: &Context,
    leadership: &Leadership,
    feeder: MemberId,
) -> bool {
    let me = ctx.identity.me.member;
    let own = leadership.regions.of(me);
    let is_near = own.is_some() && leadership.regions.of(feeder) == own;
    is_near && !ctx.core.config().config.is_voter(me)
}

fn takes_entries(mode: ProgressMode) -> bool {
    matches!(mode, ProgressMode::Stream | ProgressMode::CatchUp)
}

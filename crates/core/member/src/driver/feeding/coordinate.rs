//! The driver's dealings with [`super::Feeding`]: it orders entries to be sent on, sends them on,
//! and takes those that others send on.

use bytes::Bytes;
use synod_consensus::{EntryId, LogIndex, MemberId, Message, ProgressMode, Role, SendEntries};
use synod_wire::{FeedOrder, PeerMessage, has_feeders};

use super::feeders::{Changed, Peer};
use crate::disk_read::DiskRead;
use crate::driver::own_log::Replication;
use crate::driver::{Driver, EntrySender};
use crate::host::{Level, Topic};

impl Driver {
    // --- the leader ----------------------------------------------------------------------------

    /// Leader only: chooses who feeds whom. With each slow tick.
    pub(in crate::driver) fn choose_feeders(&mut self) {
        let config = &self.ctx.core.config().config;
        let Some(own) = self.leadership.regions.of(self.ctx.identity.me.member) else {
            return;
        };
        if !has_feeders(config.protocol) {
            return;
        }
        let (answering, regions) = (self.answering(), &self.leadership.regions);
        let peers = self.ctx.core.progress().filter_map(|progress| {
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
        for changed in self
            .catch_up
            .feeding
            .feeders
            .choose(self.ctx.turns.now, own, peers)
        {
            self.note_feeder(changed);
        }
    }

    fn note_feeder(&self, Changed { learner, feeder }: Changed) {
        let learner = self.ctx.name_of(learner);
        let text = match feeder {
            Some(feeder) => {
                let feeder = self.ctx.name_of(feeder);
                format!("{learner} gets the log by way of {feeder}, which is in its region")
            }
            None => format!("{learner} gets the log from the leader itself"),
        };
        self.ctx.note(Topic::Log, Level::Info, text);
    }

    /// Leader only: has these entries sent by the feeder of their receiver; whether it has one.
    pub(in crate::driver) fn order_feeding(&mut self, range: &SendEntries) -> bool {
        let learner = range.to;
        let Some(feeder) = self.catch_up.feeding.feeders.of(learner) else {
            return false;
        };
        let progress = self.ctx.core.progress().find(|peer| peer.member == learner);
        if !progress.is_some_and(|peer| takes_entries(peer.mode)) {
            // What was sent before has been refused, so the leader looks where the logs agree, and
            // nothing may stand in between.
            self.catch_up
                .feeding
                .feeders
                .failed(self.ctx.turns.now, learner);
            return false;
        }
        let Some(term) = self.ctx.core.term_at(range.last) else {
            return false;
        };
        let order = FeedOrder {
            learner,
            term: range.term,
            prev: range.prev,
            last: EntryId {
                term,
                index: range.last,
            },
            may_shorten: range.may_shorten,
            commit: range.commit,
            sent_at: range.sent_at,
        };
        self.ctx.send(feeder, PeerMessage::Feed(order));
        true
    }

    /// Leader only: serves the learners itself that got no entries by way of their feeders. The
    /// core has just looked at the time: it asks such learners where the logs agree, without
    /// entries.
    pub(in crate::driver) fn notice_failed_feeding(&mut self) {
        let waiting = self
            .ctx
            .core
            .progress()
            .filter(|peer| !takes_entries(peer.mode));
        for learner in waiting.map(|peer| peer.member) {
            self.catch_up
                .feeding
                .feeders
                .failed(self.ctx.turns.now, learner);
        }
    }

    // --- a feeder ------------------------------------------------------------------------------

    /// The leader orders this member to send entries on.
    pub(in crate::driver) fn handle_feed(&mut self, leader: MemberId, order: FeedOrder) {
        let is_sound = order.prev.index < order.last.index;
        if is_sound && order.term == self.ctx.core.term() {
            self.feed(leader, order);
        }
    }

    /// Sends on what has come, or become committed, since the orders for it came.
    pub(in crate::driver) fn feed_waiting(&mut self) {
        if self.catch_up.feeding.orders.is_empty() {
            return;
        }
        let Some(leader) = self.ctx.core.leader() else {
            return;
        };
        for order in self.catch_up.feeding.orders.take() {
            self.handle_feed(leader, order);
        }
    }

    fn feed(&mut self, leader: MemberId, order: FeedOrder) {
        if self.ctx.core.term_at(order.last.index) != Some(order.last.term) {
            return self.catch_up.feeding.orders.wait(order);
        }
        let range = SendEntries {
            to: order.learner,
            term: order.term,
            prev: order.prev,
            first: order.prev.index.next(),
            last: self.end_of_feeding(&order),
            is_first_time: false,
            may_shorten: order.may_shorten,
            commit: order.commit,
            sent_at: order.sent_at,
        };
        let inflight_max = self.ctx.identity.config.limits.inflight_messages_max;
        let sender = EntrySender::FeederOf(leader);
        match self.ctx.own_log.replicate(sender, range, inflight_max) {
            Replication::Send(message) => self.ctx.send(order.learner, message),
            // What is committed is the same when it is read.
            Replication::Read(request) if range.last <= self.ctx.core.commit_index() => {
                self.ctx.links.disk.read(DiskRead::CatchUp(request));
            }
            Replication::Read(_) => self.catch_up.feeding.orders.wait(order),
            Replication::UnderWay => {}
        }
    }

    /// A long range is read from the disk, and ends with what is committed if it may.
    fn end_of_feeding(&self, order: &FeedOrder) -> LogIndex {
        let committed = self.ctx.core.commit_index();
        if order.may_shorten && committed > order.prev.index {
            order.last.index.min(committed)
        } else {
            order.last.index
        }
    }

    // --- a learner -----------------------------------------------------------------------------

    /// A feeder sends an append of the leader on. It counts only for a leader that this member
    /// follows already: that a member leads is never learned from another one. And only from a
    /// member that may be chosen for it: voters are never fed, and learners only within a region.
    pub(in crate::driver) fn handle_fed(
        &mut self,
        from: MemberId,
        message: Message,
        payloads: Vec<Option<Bytes>>,
    ) {
        let leader = message.from;
        let is_current =
            self.ctx.core.leader() == Some(leader) && message.term == self.ctx.core.term();
        if is_current && self.may_be_fed_by(from) {
            self.handle_consensus(leader, message, payloads);
        }
    }

    fn may_be_fed_by(&self, feeder: MemberId) -> bool {
        let me = self.ctx.identity.me.member;
        let own = self.leadership.regions.of(me);
        let is_near = own.is_some() && self.leadership.regions.of(feeder) == own;
        is_near && !self.ctx.core.config().config.is_voter(me)
    }
}

/// Whether a member in this mode takes entries one message after the other.
fn takes_entries(mode: ProgressMode) -> bool {
    matches!(mode, ProgressMode::Stream | ProgressMode::CatchUp)
}

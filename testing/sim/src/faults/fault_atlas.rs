//! The map of what faults have destroyed, and the decision whether one more loss is survivable.
//!
//! Consulted before a disk is lost or damaged and before operators change the voters. Without it,
//! the simulator would report a group that nothing can save as a bug.

use std::collections::BTreeSet;

use synod_consensus::{Config, MemberId};
use synod_wire::PeerMessage;

use crate::member::Node;
use crate::world::World;
use crate::world::peers::decode;

/// Decides which disks may be lost or damaged, so that the group can still be asked to come to rest
/// (compare TigerBeetle's `ClusterFaultAtlas`). A good copy of everything committed stays on a
/// majority:
///
/// 1. *Settled group.* Disks are lost or damaged only while the newest configuration is committed,
///    no disk of a configured member is lost, and no member is about to leave.
/// 2. *Intact majority.* Voters with undamaged logs stay a majority, also of the members that the
///    group may promote before it notices that their logs are damaged.
/// 3. *No last copy.* The disk of the leader is not lost, nor a disk that holds the only database
///    with what logs have purged or may still purge.
/// 4. *Careful operators.* Operators neither add nor remove a voter if rule 2 would break.
///
/// What damage does to one log is found by a trial on a copy of the disk (`disk_faults.rs`). Damage
/// that a log cannot distinguish from a torn tail is not made.
#[derive(Clone, Copy)]
pub(crate) struct FaultAtlas<'a> {
    world: &'a World,
}

impl World {
    /// The atlas of this moment.
    pub(crate) fn fault_atlas(&self) -> FaultAtlas<'_> {
        FaultAtlas { world: self }
    }
}

impl<'a> FaultAtlas<'a> {
    /// Rule 1: the configuration, if the group is settled. A leaver is removed from the voters as
    /// soon as the others can do without it, which may be long after its process has ended.
    fn settled_config(&self) -> Option<&'a Config> {
        let leader = self.world.ready_leader()?;
        let leads = self.world.node(leader).process.as_ref()?;
        let core = leads.driver.core();
        let config = core.config();
        let is_lost = |member: &MemberId| self.world.nodes.get(member).is_none_or(|node| node.gone);
        let running = || {
            self.world
                .nodes
                .values()
                .filter_map(|node| node.process.as_ref())
        };
        let asks_to_leave = |frame| matches!(decode(frame), Ok(PeerMessage::Leave { .. }));
        let settled = config.index <= core.commit_index()
            && leads.driver.leavers().next().is_none()
            && !self.world.frames_to(leader).any(asks_to_leave)
            && !config.config.members.keys().any(is_lost)
            && running().all(|process| {
                let config = &process.driver.core().config().config;
                !process.is_leaving && !config.members.keys().any(is_lost)
            });
        settled.then_some(&config.config)
    }

    /// Whether rule 2 holds without this member, in a group that has enough voters.
    fn can_spare(&self, config: &Config, id: MemberId) -> bool {
        let voters: BTreeSet<MemberId> = config.voters().collect();
        voters.len() >= 3
            && config.members.contains_key(&id)
            && self.keeps_intact_majority(&voters, Some(id))
    }

    /// Rule 2: voters with undamaged logs, not counting `damaged`, are a majority of these voters
    /// and of the damaged members that the group may still promote. The group promotes a member
    /// that wants to vote and has caught up; damage that no member has met yet does not prevent
    /// that.
    fn keeps_intact_majority(
        &self,
        voters: &BTreeSet<MemberId>,
        damaged: Option<MemberId>,
    ) -> bool {
        let needs_repair =
            |id: &MemberId| damaged == Some(*id) || self.world.node(*id).disk.needs_repair();
        let is_whole = |id: &&MemberId| !self.world.node(**id).gone && !needs_repair(id);
        let may_come = |(id, node): &(&MemberId, &Node)| {
            node.wants_vote && !node.gone && needs_repair(id) && !voters.contains(id)
        };
        let all = voters.len() + self.world.nodes.iter().filter(may_come).count();
        voters.iter().filter(is_whole).count() > all / 2
    }

    /// Whether the group certainly survives the loss of this disk (rules 1 to 3). The caller has
    /// flushed the databases up to now.
    pub(crate) fn may_lose_disk(&self, id: MemberId) -> bool {
        let leads = self.world.leader() == Some(id);
        let config = self.settled_config();
        !leads
            && config.is_some_and(|config| {
                self.can_spare(config, id)
                    && (self.has_databases_to_spare(config) || self.is_elsewhere(config, id))
            })
    }

    /// Whether as many databases vote as must hold what logs purge. With loggers in place of
    /// databases, or if operators say so, what is older than the logs may be in one database only
    /// (decision 011).
    fn has_databases_to_spare(&self, config: &Config) -> bool {
        let voters = config.voters().count();
        let databases = config.voters().filter(|id| config.members[id].has_data);
        !self.world.options.drops_full_logs && databases.count() > (voters - 1) / 2 * 2
    }

    /// Whether another voter's database holds everything that logs have purged, or may still purge
    /// because this member has reported it as flushed (an absent member's report counts). A log
    /// that begins earlier does not help: a joiner gets its log from the leader, and everything
    /// before the log from a database.
    fn is_elsewhere(&self, config: &Config, id: MemberId) -> bool {
        let others = || {
            let others = config.voters().filter(|other| *other != id);
            others.filter_map(|other| self.world.nodes.get(&other))
        };
        let before_log = |node: &Node| {
            let base = node.disk.written.base.index;
            self.world
                .checks
                .committed
                .get(base)
                .map_or(0, |h| h.seqno.0)
        };
        let whole = others().filter(|node| node.has_data && !node.database.copying);
        let newest = whole.map(|node| node.database.durable.0).max();
        let reported = self.world.nodes.get(&id).map(|node| node.database.had.0);
        newest >= others().map(before_log).chain(reported).max()
    }

    /// Whether the group certainly survives it if this log has to be repaired from others (rules 1
    /// and 2).
    pub(crate) fn may_damage(&self, id: MemberId) -> bool {
        let config = self.settled_config();
        config.is_some_and(|config| self.can_spare(config, id))
    }

    /// Rule 4, without a voter: no disk of the other voters is lost or damaged, and they stay a
    /// majority of all members that may vote.
    pub(crate) fn survives_without(&self, config: &Config, without: MemberId) -> bool {
        let rest: BTreeSet<MemberId> = config.voters().filter(|id| *id != without).collect();
        let is_good = |node: &Node| !node.gone && !node.disk.needs_repair();
        let all_good = rest.iter().all(|id| is_good(self.world.node(*id)));
        rest.len() >= 2 && all_good && self.keeps_intact_majority(&rest, None)
    }

    /// Rule 4, with one more voter: where a disk is lost already, one more voter with a damaged log
    /// may be one too many.
    pub(crate) fn survives_with(&self, config: &Config, with: MemberId) -> bool {
        let voters: BTreeSet<MemberId> = config.voters().chain([with]).collect();
        self.keeps_intact_majority(&voters, None)
    }
}

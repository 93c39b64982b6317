//! Changing the configuration, at most one voter at a time.
//!
//! The leader appends a configuration as an entry, and it is in force at once. Learners that have
//! caught up are promoted by themselves if the driver has allowed that ([`Core::set_eligible`]).
//!
//! Sources: Ongaro's dissertation, sections 4.1 (single-server changes, in force when appended),
//! 4.2.1 (catching up as a learner first), 4.2.2 (removing the leader); and Ongaro's correction of
//! 2015 ("bug in single-server membership changes", raft-dev): no change before the leader has
//! committed an entry of its own term.

use std::collections::BTreeSet;

use rand::Rng;
use synod_planted::planted;

use crate::commands::{BootstrapError, ConfigChange, ConfigError, ForceError};
use crate::core::{Core, State};
use crate::effect::Effect;
use crate::membership::config::{
    CONFIG_BYTES_MAX, Config, MEMBERS_MAX, Member, Role, TEXT_BYTES_MAX,
};
use crate::membership::settings::{GroupSetting, GroupSettings};
use crate::message::Body;
use crate::replication::progress::Peer;
use crate::types::{LogIndex, MemberId, Term, Time};

/// A learner that lacks this many entries may become a voter: it will have them within a round
/// trip.
const PROMOTION_LAG_MAX: u64 = 1000;

/// Distance of a forced leader's term from the term of its member. No group raises its term so far
/// by elections, nor by a repair of unknown promises (2^32). There is room for 2^28 such orders.
const FORCED_TERMS: u64 = 1 << 34;

impl Config {
    /// The configuration with which a group begins: one member, which votes.
    pub fn first(id: MemberId, me: Member) -> Result<Config, BootstrapError> {
        check_member(id, &me).map_err(|reason| BootstrapError::Invalid { reason })?;
        let protocol = me.versions.max;
        let role = Role::Voter;
        Ok(Config {
            protocol,
            protocol_is_held: false,
            settings: GroupSettings::default(),
            members: [(id, Member { role, ..me })].into(),
        })
    }
}

impl Core {
    /// Starts a new group: appends the first configuration as entry 1, in the first term, with the
    /// vote for itself. The member leads as soon as that is durable. Errors: [`BootstrapError`] if
    /// this member's log is not empty, it takes part in a group, or its description is not valid.
    pub fn bootstrap(&mut self, now: Time, me: Member) -> Result<(), BootstrapError> {
        self.observe(now);
        // A log under repair had entries, even if it has none now.
        if !self.log.is_blank() || self.repairing_until().is_some() {
            return Err(BootstrapError::NotEmpty);
        }
        if self.leader.is_some() || !matches!(self.state, State::Follower) {
            return Err(BootstrapError::NotIdle);
        }
        let config = Config::first(self.id, me)?;
        // A candidacy in a group of one. The vote is written before the entry.
        self.campaign(false);
        self.append_config(config);
        Ok(())
    }

    /// Continues without a majority, as a forced primary. The operator who orders this knows that
    /// the other voters are lost, or accepts what follows if they are not. This member becomes the
    /// only voter and the others learners, in a term that no other member has led. It leads as soon
    /// as that is durable. Other members that return follow it, and vote again once they have
    /// caught up.
    ///
    /// **This is not safe**, unlike everything else here. Entries that a majority has committed and
    /// this member lacks are lost. If that majority continues, there are two histories. Members
    /// detect that when they meet, and the member that would have to undo committed entries stops.
    /// Errors: [`ForceError`] if there is a leader, this member is not configured, or its log is
    /// under repair, so that it may lack any entry. A learner may be forced: it may have more than
    /// all voters that are left.
    pub fn force(&mut self, now: Time) -> Result<(), ForceError> {
        self.observe(now);
        if let Some(leader) = self.leader {
            return Err(ForceError::HasLeader { leader });
        }
        let mut config = self.log.config().config.clone();
        if !config.members.contains_key(&self.id) {
            return Err(ForceError::NotConfigured);
        }
        if let Some(until) = self.repairing_until() {
            return Err(ForceError::UnderRepair { until });
        }
        for (id, member) in &mut config.members {
            member.role = if *id == self.id {
                Role::Voter
            } else {
                Role::Learner
            };
        }
        // As for a new group, the vote is written before the entry.
        let term = self.forced_term();
        self.campaign_in(term, false);
        self.append_config(config);
        Ok(())
    }

    /// A term that no other member has led or will lead. The lost voters may have led terms that
    /// this member does not know. Entries are named by term and index, so in one of those terms two
    /// different entries would have one name. The term is random, so that two members that are
    /// forced without knowing of each other lead different terms, too.
    fn forced_term(&mut self) -> Term {
        let drawn = self.rng.random_range(0..FORCED_TERMS);
        Term(self.hard.term.0 + FORCED_TERMS + drawn)
    }

    /// Whether a primary was ever forced in the history that this member follows ([`Core::force`]):
    /// no election leads to such a term. A group in which the promises of several members had to be
    /// repaired may count as one, too.
    pub fn has_forced_history(&self) -> bool {
        self.hard.term.0 >= FORCED_TERMS
    }

    /// Changes the configuration; at most one change may be uncommitted. Returns the index of its
    /// entry, which is in force at once and final when committed. Errors: [`ConfigError`] if this
    /// member cannot make that change, or cannot make it now. A learner becomes a voter only while
    /// it answers and its log has caught up.
    pub fn change_config(
        &mut self,
        now: Time,
        change: ConfigChange,
    ) -> Result<LogIndex, ConfigError> {
        self.observe(now);
        self.may_change_config()?;
        let config = changed(&self.log.config().config, &change)?;
        if let ConfigChange::Promote(id) = change
            && !self.is_ready_to_vote(id)
        {
            return Err(ConfigError::NotCaughtUp { id });
        }
        self.revoke_eligibility(&change);
        let index = self.append_config(config);
        self.sync_peers();
        Ok(index)
    }

    /// Whether a change may be appended now (Ongaro's dissertation, section 4.1, with the
    /// correction of 2015).
    pub(crate) fn may_change_config(&self) -> Result<(), ConfigError> {
        let Some(leading) = self.leading() else {
            return Err(ConfigError::NotLeader {
                leader: self.leader,
            });
        };
        if leading.leader_transfer.is_some() {
            return Err(ConfigError::LeaderTransfer);
        }
        if !self.is_ready_leader() {
            return Err(ConfigError::NotReady);
        }
        let index = self.log.config().index;
        if planted!(TwoChangesAtOnce, index > self.commit, else false) {
            return Err(ConfigError::InProgress { index });
        }
        Ok(())
    }

    /// A member that is demoted or removed on purpose is not promoted again without an order.
    fn revoke_eligibility(&mut self, change: &ConfigChange) {
        match change {
            ConfigChange::Demote(id)
            | ConfigChange::Remove(id)
            | ConfigChange::Replace { old: id, .. } => {
                self.eligible.remove(id);
            }
            ConfigChange::AddLearner { .. }
            | ConfigChange::Promote(_)
            | ConfigChange::Update { .. }
            | ConfigChange::Unbind(_)
            | ConfigChange::RaiseProtocol(_)
            | ConfigChange::HoldProtocol(_)
            | ConfigChange::ReleaseProtocol
            | ConfigChange::Set(_) => {}
        }
    }

    /// Sets whether a leader may promote this member without an order, once its log has caught up.
    pub fn set_eligible(&mut self, member: MemberId, eligible: bool) {
        if eligible {
            self.eligible.insert(member);
            self.maybe_promote();
        } else {
            self.eligible.remove(&member);
        }
    }

    /// Promotes an eligible learner whose log has caught up (dissertation, section 4.2.1), one at a
    /// time. The learner has to answer: a voter that is down would only weaken the group.
    pub(crate) fn maybe_promote(&mut self) {
        if self.eligible.is_empty() || self.may_change_config().is_err() {
            return;
        }
        let config = &self.log.config().config;
        let is_learner = |id: &MemberId| {
            let member = config.members.get(id);
            member.is_some_and(|m| m.role == Role::Learner)
        };
        let mut eligible = self.eligible.iter().copied();
        let ready = eligible.find(|id| is_learner(id) && self.is_ready_to_vote(*id));
        if let Some(id) = ready {
            let promoted = self.change_config(self.now, ConfigChange::Promote(id));
            debug_assert!(promoted.is_ok(), "{promoted:?}");
        }
    }

    /// False on members that do not lead.
    pub fn is_ready_to_vote(&self, id: MemberId) -> bool {
        let peer = self.leading().and_then(|leading| leading.peers.get(&id));
        peer.is_some_and(|peer| self.answers_closely(peer))
    }

    fn answers_closely(&self, peer: &Peer) -> bool {
        let heard = peer.last_heard.map(|at| self.now.since_us(at));
        let answers = heard.is_some_and(|ago_us| ago_us < self.timing.election_timeout_min_us);
        answers && peer.is_caught_up(self.commit, PROMOTION_LAG_MAX)
    }

    /// Makes the leader's peers those of the configuration. A removed member is still sent the log
    /// for a while, so that it learns of its removal.
    pub(crate) fn sync_peers(&mut self) {
        let (now, me) = (self.now, self.id);
        let next = self.log.last().index.next();
        let leaving_until = now.plus_us(self.timing.election_timeout_max_us);
        let wanted: BTreeSet<MemberId> = self.log.config().config.members.keys().copied().collect();
        let State::Leader(leading) = &mut self.state else {
            return;
        };
        for (id, peer) in &mut leading.peers {
            if !wanted.contains(id) {
                peer.leaving_until.get_or_insert(leaving_until);
            }
        }
        for id in wanted.into_iter().filter(|id| *id != me) {
            let peer = leading
                .peers
                .entry(id)
                .or_insert_with(|| Peer::new(next, now));
            peer.leaving_until = None;
        }
        self.replicate = true;
    }

    /// A leader that is no longer a voter leads until that is committed (dissertation, section
    /// 4.2.2). Then it sends the commit index, and orders a voter to become a candidate at once.
    /// Returns whether it has stepped down.
    pub(crate) fn step_down_if_removed(&mut self) -> bool {
        let config = self.log.config();
        if config.index > self.commit || config.config.is_voter(self.id) || !self.is_leader() {
            return false;
        }
        let successor = self.best_successor();
        self.send_heartbeats();
        if let Some(to) = successor {
            self.emit(Effect::Send(self.message(to, Body::TimeoutNow)));
        }
        self.become_follower(None);
        true
    }
}

fn changed(current: &Config, change: &ConfigChange) -> Result<Config, ConfigError> {
    let mut config = current.clone();
    match change {
        ConfigChange::AddLearner { id, member } => add_learner(&mut config, *id, member)?,
        ConfigChange::Promote(id) => set_role(&mut config, *id, Role::Voter)?,
        ConfigChange::Demote(id) => set_role(&mut config, *id, Role::Learner)?,
        ConfigChange::Remove(id) => remove(&mut config, *id)?,
        ConfigChange::Replace { old, id, member } => {
            remove(&mut config, *old)?;
            add_learner(&mut config, *id, member)?;
        }
        ConfigChange::Update {
            id,
            name,
            address,
            versions,
            certificate,
        } => update(&mut config, *id, |known| Member {
            name: name.clone(),
            address: address.clone(),
            versions: *versions,
            certificate: certificate.clone().or(known.certificate),
            ..known
        })?,
        ConfigChange::Unbind(id) => update(&mut config, *id, |known| Member {
            certificate: None,
            ..known
        })?,
        ConfigChange::RaiseProtocol(protocol) => raise_protocol(&mut config, *protocol)?,
        ConfigChange::HoldProtocol(protocol) => hold_protocol(&mut config, *protocol)?,
        ConfigChange::ReleaseProtocol => release_protocol(&mut config)?,
        ConfigChange::Set(setting) => set(&mut config, *setting)?,
    }
    check_protocol(&config)?;
    check_size(current, &config)?;
    let voters = |config: &Config| config.voters().collect::<BTreeSet<_>>();
    let altered = voters(current)
        .symmetric_difference(&voters(&config))
        .count();
    assert!(altered <= 1, "{change:?} alters {altered} voters");
    if config.voters().next().is_none() {
        return Err(ConfigError::NoVoterLeft);
    }
    Ok(config)
}

fn add_learner(config: &mut Config, id: MemberId, member: &Member) -> Result<(), ConfigError> {
    check_member(id, member).map_err(|reason| ConfigError::Invalid { reason })?;
    if config.members.contains_key(&id) {
        return Err(ConfigError::AlreadySo { id });
    }
    check_seat(config, id, member)?;
    if config.members.len() >= MEMBERS_MAX {
        return Err(ConfigError::Invalid {
            reason: "the group has 1024 members",
        });
    }
    config.members.insert(
        id,
        Member {
            role: Role::Learner,
            ..member.clone()
        },
    );
    Ok(())
}

fn set_role(config: &mut Config, id: MemberId, role: Role) -> Result<(), ConfigError> {
    let member = config
        .members
        .get_mut(&id)
        .ok_or(ConfigError::UnknownMember { id })?;
    if member.role == role {
        return Err(ConfigError::AlreadySo { id });
    }
    member.role = role;
    Ok(())
}

fn remove(config: &mut Config, id: MemberId) -> Result<(), ConfigError> {
    config
        .members
        .remove(&id)
        .map(|_| ())
        .ok_or(ConfigError::UnknownMember { id })
}

fn update(
    config: &mut Config,
    id: MemberId,
    renew: impl Fn(Member) -> Member,
) -> Result<(), ConfigError> {
    let known = config
        .members
        .get(&id)
        .ok_or(ConfigError::UnknownMember { id })?;
    let updated = renew(known.clone());
    if updated == *known {
        return Err(ConfigError::AlreadySo { id });
    }
    check_member(id, &updated).map_err(|reason| ConfigError::Invalid { reason })?;
    check_seat(config, id, &updated)?;
    config.members.insert(id, updated);
    Ok(())
}

fn raise_protocol(config: &mut Config, protocol: u16) -> Result<(), ConfigError> {
    if planted!(RiseThoughHeld, config.protocol_is_held, else false) {
        return Err(ConfigError::ProtocolHeld {
            protocol: config.protocol,
        });
    }
    if protocol <= config.protocol {
        return Err(ConfigError::ProtocolNotNewer {
            protocol: config.protocol,
        });
    }
    config.protocol = protocol;
    Ok(())
}

fn hold_protocol(config: &mut Config, protocol: u16) -> Result<(), ConfigError> {
    if protocol < config.protocol {
        return Err(ConfigError::ProtocolNotNewer {
            protocol: config.protocol,
        });
    }
    if config.protocol_is_held && protocol == config.protocol {
        return Err(ConfigError::ProtocolHeld { protocol });
    }
    (config.protocol, config.protocol_is_held) = (protocol, true);
    Ok(())
}

fn release_protocol(config: &mut Config) -> Result<(), ConfigError> {
    if !config.protocol_is_held {
        return Err(ConfigError::ProtocolNotHeld);
    }
    config.protocol_is_held = false;
    Ok(())
}

fn set(config: &mut Config, setting: GroupSetting) -> Result<(), ConfigError> {
    if config.settings.has(setting) {
        return Err(ConfigError::SettingAlreadySo { setting });
    }
    config.settings = config.settings.with(setting);
    Ok(())
}

/// Every member has to speak the group's version.
fn check_protocol(config: &Config) -> Result<(), ConfigError> {
    let mut members = config.members.values();
    let unable = members.find(|member| !member.versions.contains(config.protocol));
    match planted!(RiseTooHigh, unable, else None) {
        Some(member) => Err(ConfigError::Protocol {
            protocol: config.protocol,
            name: member.name.clone(),
            spoken: member.versions,
        }),
        None => Ok(()),
    }
}

/// A log that begins with a base has to hold the configuration in one record. A group that is too
/// large already may shrink.
fn check_size(current: &Config, config: &Config) -> Result<(), ConfigError> {
    let (before, bytes) = (current.encode().len(), config.encode().len());
    if bytes <= CONFIG_BYTES_MAX || bytes <= before {
        return Ok(());
    }
    Err(ConfigError::TooLarge {
        bytes,
        max: CONFIG_BYTES_MAX,
    })
}

/// Two members may share a name or, for a while, an address, but not both.
fn check_seat(config: &Config, id: MemberId, new: &Member) -> Result<(), ConfigError> {
    let is_same = |member: &Member| member.name == new.name && member.address == new.address;
    let holder = config
        .members
        .iter()
        .find(|(other, member)| **other != id && is_same(member));
    match holder {
        Some((other, _)) => Err(ConfigError::SeatTaken {
            name: new.name.clone(),
            address: new.address.clone(),
            id: *other,
        }),
        None => Ok(()),
    }
}

fn check_member(id: MemberId, member: &Member) -> Result<(), &'static str> {
    if id == MemberId::NONE {
        return Err("the id is zero");
    }
    if member.name.len() > TEXT_BYTES_MAX || member.address.len() > TEXT_BYTES_MAX {
        return Err("name or address is longer than 1024 bytes");
    }
    let subject = member.certificate.as_ref();
    if subject.is_some_and(|subject| subject.len() > TEXT_BYTES_MAX) {
        return Err("the certificate's subject is longer than 1024 bytes");
    }
    if !member.versions.is_valid() {
        return Err("the protocol versions are no range");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::config::VersionRange;

    fn member(name: String) -> Member {
        Member {
            role: Role::Learner,
            has_data: true,
            name,
            address: "a:1".to_owned(),
            versions: VersionRange { min: 1, max: 5 },
            certificate: Some("CN=one".to_owned()),
        }
    }

    #[test]
    fn configuration_grows_up_to_its_bound_and_a_larger_one_may_shrink() {
        let mut config = Config::first(MemberId(1), member("one".to_owned())).unwrap();
        let mut id = 1;
        let refused = loop {
            id += 1;
            let member = member(format!("{id:0>900}"));
            let change = ConfigChange::AddLearner {
                id: MemberId(id),
                member,
            };
            match changed(&config, &change) {
                Ok(next) => config = next,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, ConfigError::TooLarge { .. }), "{refused}");
        assert!((40..50).contains(&id), "{id}");
        assert!(config.encode().len() <= CONFIG_BYTES_MAX);
        let last = member(format!("{id:0>900}"));
        config.members.insert(MemberId(id), last);
        let smaller = changed(&config, &ConfigChange::Remove(MemberId(2)));
        assert!(smaller.is_ok(), "{smaller:?}");
        let unbound = changed(&config, &ConfigChange::Unbind(MemberId(2))).unwrap();
        assert_eq!(unbound.members[&MemberId(2)].certificate, None);
        let again = changed(&unbound, &ConfigChange::Unbind(MemberId(2)));
        assert!(matches!(again, Err(ConfigError::AlreadySo { .. })));
    }
}

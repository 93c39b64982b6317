//! Finding the group, and becoming present in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{
    ConfigChange, ConfigError, EntryId, GroupId, LogBase, LogIndex, Member, MemberId, Role, Seqno,
    SessionId, Time,
};
use synod_wire::{Join, JoinRefusal, JoinReply, PeerMessage};

use super::Driver;
use crate::config::StartMode;
use crate::host::Level;
use crate::payload::view::{View, ViewMember};
use crate::storage::Job;

/// A join request is repeated this often.
const RETRY: Duration = Duration::from_millis(400);
/// More members than this are refused.
const MEMBERS_MAX: usize = 64;
/// Different refusals remembered, so that each is logged once.
const REFUSALS_MAX: usize = 64;
/// A new member gives up when it is refused by all who answered for so long.
const NEWCOMER_PATIENCE: Duration = Duration::from_secs(2);
/// A member of a group waits longer: one server gone astray must not keep the others from starting.
const MEMBER_PATIENCE: Duration = Duration::from_secs(10);

/// A member's way into the group.
pub(super) struct Joining {
    mode: StartMode,
    last_sent: Option<Time>,
    /// Members found that may know the leader.
    contacts: Vec<MemberId>,
    /// What was logged already about addresses that did not let this member in.
    refusals: BTreeSet<String>,
    /// Since when addresses refuse this member for good, and none welcomes it.
    refused_since: Option<Time>,
    /// Answers that somebody has this member's name. It may be this member's own former self, whose death
    /// the group has not noticed yet: only answers that keep coming count.
    name_taken: Recurring,
    /// For a leader: who asks to be in a view that it is in.
    missed_views: BTreeMap<MemberId, MissedView>,
}

/// Requests of a member that does not know of a view.
#[derive(Default)]
struct MissedView {
    number: u64,
    asks: Recurring,
}

/// Messages that mean something only if they keep coming.
#[derive(Default)]
struct Recurring {
    since: Option<Time>,
    last: Option<Time>,
}

impl Recurring {
    /// One more; how long they have been coming without a pause of more than `pause_max`.
    fn again(&mut self, now: Time, pause_max: Duration) -> Duration {
        let goes_on = |last: Time| now.since(last) <= pause_max;
        if !self.last.is_some_and(goes_on) {
            self.since = None;
        }
        self.last = Some(now);
        now.since(*self.since.get_or_insert(now))
    }
}

impl Joining {
    pub(super) fn new(mode: StartMode) -> Joining {
        Joining {
            mode,
            last_sent: None,
            contacts: Vec::new(),
            refusals: BTreeSet::new(),
            refused_since: None,
            name_taken: Recurring::default(),
            missed_views: BTreeMap::new(),
        }
    }
}

impl Driver {
    pub(super) fn as_view_member(&self) -> ViewMember {
        ViewMember {
            member: self.me.member,
            session: self.me.session,
            name: self.config.name.clone(),
            incoming: self.config.incoming.clone(),
        }
    }

    pub(super) fn start_peers(&mut self) {
        let config = self.core.config().clone();
        self.config_changed(&config);
        let is_new =
            self.core.config().config.members.is_empty() && self.core.repairing_until().is_none();
        if self.joining.mode == StartMode::Bootstrap && is_new {
            let me = Member {
                role: Role::Voter,
                has_data: self.config.has_data,
                name: self.config.name.clone(),
                address: self.config.address.clone(),
                versions: self.config.versions,
            };
            if let Err(error) = self.core.bootstrap(self.now(), me) {
                self.fail(&format!("cannot begin a new group: {error}"));
            }
        }
    }

    /// A member was found at an address.
    pub(super) fn found(&mut self, member: MemberId, address: &str, group: GroupId) {
        if member == self.me.member {
            return;
        }
        self.links.peers.connect(member, address);
        let knows_group = group != GroupId::NONE;
        if knows_group {
            self.joining.refused_since = None;
            self.add_contact(member);
        }
    }

    fn add_contact(&mut self, member: MemberId) -> bool {
        let contacts = &mut self.joining.contacts;
        let is_new = !contacts.contains(&member) && contacts.len() < MEMBERS_MAX;
        if is_new {
            contacts.push(member);
        }
        is_new
    }

    /// An address did not let this member in. If it was the only one there is, this member gives up.
    pub(super) fn refused_at(&mut self, text: &str, is_final: bool) {
        self.note_refusal(text, is_final);
        let alone = self.joining.contacts.is_empty() && self.core.leader().is_none();
        if !is_final || self.joined_host || !alone {
            return;
        }
        let since = *self.joining.refused_since.get_or_insert(self.now);
        let patience = match self.group {
            GroupId::NONE => NEWCOMER_PATIENCE,
            _ => MEMBER_PATIENCE,
        };
        if self.now.since(since) >= patience {
            self.fail(text);
        }
    }

    /// The group does not take this member.
    fn refused(&mut self, text: &str, is_final: bool) {
        self.note_refusal(text, is_final);
        if is_final && !self.joined_host {
            self.fail(text);
        }
    }

    fn note_refusal(&mut self, text: &str, is_final: bool) {
        let known = &mut self.joining.refusals;
        if known.len() >= REFUSALS_MAX {
            known.clear();
        }
        if known.insert(text.to_owned()) {
            let level = if is_final { Level::Error } else { Level::Info };
            self.log(level, text);
        }
    }

    fn is_present(&self) -> bool {
        self.committed_view
            .contains(self.me.member, self.me.session)
    }

    pub(super) fn send_join_if_needed(&mut self) {
        if self.is_present() || self.leaving.is_some() || self.core.is_leader() {
            return;
        }
        let sent = self.joining.last_sent;
        if sent.is_some_and(|at| self.now.since(at) < RETRY) {
            return;
        }
        let targets = match self.core.leader() {
            Some(leader) => vec![leader],
            None => self.joining.contacts.clone(),
        };
        if targets.is_empty() {
            return;
        }
        self.joining.last_sent = Some(self.now);
        let join = Join {
            session: self.me.session,
            name: self.config.name.clone(),
            address: self.config.address.clone(),
            incoming: self.config.incoming.clone(),
            has_data: self.config.has_data,
            group: self.group,
            db_group: self.database().group,
            db_seqno: self.database().seqno,
            last: self.core.last_id(),
            versions: self.config.versions,
        };
        for target in targets {
            self.send(target, PeerMessage::Join(join.clone()));
        }
    }

    pub(super) fn handle_join_reply(&mut self, reply: JoinReply) {
        let name_is_taken = matches!(
            reply,
            JoinReply::Refused {
                reason: JoinRefusal::NameTaken,
                ..
            }
        );
        if !name_is_taken {
            self.joining.name_taken = Recurring::default();
        }
        match reply {
            JoinReply::Accepted { group } => self.accepted_by(group),
            JoinReply::NotLeader {
                leader: Some((member, address)),
            } => {
                self.found(member, &address, self.group);
                if self.add_contact(member) {
                    self.joining.last_sent = None;
                }
            }
            JoinReply::NotLeader { leader: None } => {}
            JoinReply::Refused {
                reason: JoinRefusal::NameTaken,
                text,
            } => self.name_taken(&text),
            JoinReply::Refused { text, .. } => self.refused(&text, true),
            JoinReply::Retry { text } => {
                self.log(Level::Debug, format!("the group asks to wait: {text}"));
            }
        }
    }

    fn name_taken(&mut self, text: &str) {
        let suspect = self.config.suspect;
        let lasting = self.joining.name_taken.again(self.now, suspect);
        self.refused(text, lasting > suspect * 2);
    }

    fn accepted_by(&mut self, group: GroupId) {
        if self.group == group {
            return;
        }
        if self.group != GroupId::NONE {
            let text = format!(
                "two groups call themselves '{}': this member is in group {}, and group {group} takes \
                 it, too. One of them was begun by mistake",
                self.config.cluster_name, self.group
            );
            self.note_refusal(&text, true);
            return;
        }
        self.log(Level::Info, format!("joining group {group}"));
        self.group = group;
        // Ordered before every write that the group may cause.
        self.links.disk.write(Job::SetGroup(group));
        self.links.peers.set_group(group);
    }

    /// A member wants to be present.
    pub(super) fn handle_join(&mut self, from: MemberId, join: Join) {
        let reply = self.answer_join(from, join);
        self.send(from, PeerMessage::JoinReply(reply));
    }

    fn answer_join(&mut self, from: MemberId, join: Join) -> JoinReply {
        if !self.core.is_leader() {
            return self.name_the_leader();
        }
        if !self.core.is_ready_leader() {
            return retry("the leader has just been elected");
        }
        let other_group = join.group != GroupId::NONE && join.group != self.group;
        if other_group {
            let text = format!(
                "the log of {} belongs to group {}, this group is {}. To join as a new member, move \
                 its synod-*.log files away",
                join.name, join.group, self.group
            );
            return JoinReply::Refused {
                reason: JoinRefusal::WrongGroup,
                text,
            };
        }
        match self.configure(from, &join) {
            Ok(()) => {
                let Join {
                    session,
                    name,
                    incoming,
                    last,
                    ..
                } = join;
                let member = ViewMember {
                    member: from,
                    session,
                    name,
                    incoming,
                };
                self.repeats_view |= self.has_missed_the_view(from, session, last.index);
                self.presence.enter(self.now, member);
                self.update_view();
                JoinReply::Accepted { group: self.group }
            }
            Err(reply) => reply,
        }
    }

    /// Whether a member keeps asking to be present although it is in the latest view, and its log goes
    /// beyond that: its log began anew behind the view, so it will never see it.
    fn has_missed_the_view(&mut self, from: MemberId, session: SessionId, last: LogIndex) -> bool {
        let (view, index) = (self.views.latest(), self.views.latest_index());
        let is_in_it = |view: &&View| view.contains(from, session) && index <= Some(last);
        let Some(number) = view.filter(is_in_it).map(|view| view.number) else {
            self.joining.missed_views.remove(&from);
            return false;
        };
        let missed = self.joining.missed_views.entry(from).or_default();
        if missed.number != number {
            *missed = MissedView {
                number,
                asks: Recurring::default(),
            };
        }
        // It may not know yet that the view is committed.
        let suspect = self.config.suspect;
        missed.asks.again(self.now, suspect) >= suspect / 2
    }

    fn name_the_leader(&self) -> JoinReply {
        let config = &self.core.config().config;
        let leader = self.core.leader().and_then(|id| {
            config
                .members
                .get(&id)
                .map(|member| (id, member.address.clone()))
        });
        JoinReply::NotLeader { leader }
    }

    /// Sees to it that the configuration has the joiner.
    fn configure(&mut self, from: MemberId, join: &Join) -> Result<(), JoinReply> {
        let config = self.core.config().config.clone();
        if !join.versions.contains(config.protocol) {
            let text = format!(
                "the group speaks protocol version {}, and {} speaks {}: run a program there that \
                 speaks it",
                config.protocol, join.name, join.versions
            );
            return Err(JoinReply::Refused {
                reason: JoinRefusal::UnknownVersion,
                text,
            });
        }
        let predecessor = self.predecessor(from, join)?;
        let member = Member {
            role: Role::Learner,
            has_data: join.has_data,
            name: join.name.clone(),
            address: join.address.clone(),
            versions: join.versions,
        };
        let change = match (config.members.get(&from), predecessor) {
            (Some(known), _)
                if known.name == join.name
                    && known.address == join.address
                    && known.versions == join.versions =>
            {
                return Ok(());
            }
            (Some(_), _) => ConfigChange::Update {
                id: from,
                name: join.name.clone(),
                address: join.address.clone(),
                versions: join.versions,
            },
            (None, Some(old)) => ConfigChange::Replace {
                old,
                id: from,
                member,
            },
            (None, None) if config.members.len() >= MEMBERS_MAX => {
                let text = format!("the group has {MEMBERS_MAX} members, which is the most");
                return Err(JoinReply::Refused {
                    reason: JoinRefusal::GroupFull,
                    text,
                });
            }
            (None, None) => ConfigChange::AddLearner { id: from, member },
        };
        if join.last == EntryId::default() {
            let base = self.base_for(join);
            self.core.set_install_base(from, base);
        }
        self.core
            .change_config(self.now(), change)
            .map_err(|error| retry_config(&error))?;
        // Not before: as long as the change is impossible, the joiner asks again and again.
        self.log(
            Level::Info,
            format!("{} joins from {}", join.name, join.address),
        );
        Ok(())
    }

    /// Who the joiner was before it lost its log: the member of its name at its address, or the absent
    /// and only one of its name, if it has moved. A name that several members have says nothing about
    /// anybody: servers that were not given one are called after their host.
    fn predecessor(&self, from: MemberId, join: &Join) -> Result<Option<MemberId>, JoinReply> {
        let config = &self.core.config().config;
        let is_live = |id| id == self.me.member || self.is_alive(id);
        // In the benefit of the doubt: this leader has not heard of it yet.
        let is_unclear = |id| id != self.me.member && is_live(id) && self.presence.is_granted(id);
        let namesakes: Vec<(MemberId, &Member)> = config
            .members
            .iter()
            .filter(|(id, member)| **id != from && member.name == join.name)
            .map(|(id, member)| (*id, member))
            .collect();
        let in_place = namesakes.iter().find(|(_, m)| m.address == join.address);
        match (in_place, namesakes.as_slice()) {
            (Some((id, _)), _) | (None, [(id, _)]) if is_unclear(*id) => {
                Err(retry("this leader has not heard of the namesake yet"))
            }
            (Some((id, _)), _) if is_live(*id) => Err(JoinReply::Refused {
                reason: JoinRefusal::NameTaken,
                text: format!(
                    "a live member is called '{}' and reached at {} already: give this server a \
                     wsrep_node_name and a wsrep_node_address of its own",
                    join.name, join.address
                ),
            }),
            (Some((id, _)), _) => Ok(Some(*id)),
            (None, [(id, _)]) if !is_live(*id) => Ok(Some(*id)),
            (None, _) => Ok(None),
        }
    }

    /// Where a new member's log shall start: late, but early enough for what its database lacks.
    fn base_for(&self, join: &Join) -> LogBase {
        let oldest = self.core.base().last.index;
        let mut index = LogIndex(
            self.core
                .commit_index()
                .0
                .saturating_sub(self.tuning.join_backlog),
        );
        if join.db_group == self.group
            && join.db_seqno > Seqno(0)
            // What it lacks, not what it has: that may be the last action dropped here.
            && let Ok(next) = self.links.reader.seek_seqno(join.db_seqno.next())
        {
            let before = next.prev().0;
            index = index.min(LogIndex(before.saturating_sub(self.tuning.join_backlog)));
        }
        if let Ok(header) = self.links.reader.header(index)
            && let Some(chunk) = self
                .retention
                .first_chunk_after(&self.certified_log(), header.seqno)
        {
            index = index.min(chunk.prev());
        }
        if index <= oldest {
            return self.core.base().clone();
        }
        let header = self.links.reader.header(index);
        let config = self.core.config_at(index).cloned();
        match (header, config) {
            (Ok(header), Some(config)) => LogBase {
                last: header.id(),
                seqno: header.seqno,
                config,
            },
            _ => self.core.base().clone(),
        }
    }

    /// Members of one name work, but operators and `wsrep_sst_donor` cannot tell them apart.
    fn tell_shared_name(&self) {
        let own = &self.config.name;
        let named = |member: &&ViewMember| member.name == *own;
        if self.committed_view.members.iter().filter(named).count() > 1 {
            let text = format!(
                "another member is called '{own}', too: give each server a wsrep_node_name of its own"
            );
            self.log(Level::Info, text);
        }
    }

    /// A committed view is in force.
    pub(super) fn view_committed(&mut self) {
        let Some(view) = self.views.committed(self.last_committed) else {
            return;
        };
        if *view == self.committed_view {
            return;
        }
        let view: View = view.clone();
        let names: Vec<&str> = view.members.iter().map(|m| m.name.as_str()).collect();
        let text = format!(
            "view {} at {}: {}",
            view.number,
            view.seqno,
            names.join(", ")
        );
        self.log(Level::Info, text);
        self.committed_view = view;
        self.publish_view();
        let is_first = self.is_present() && !self.joined_host;
        if is_first && self.may_join(self.committed_view.seqno) {
            self.joined_host = true;
            self.links.peers.stop_seeking();
            self.tell_shared_name();
            self.watch_primary();
            self.links.host.joined(&self.committed_view);
        }
    }
}

fn retry(text: &str) -> JoinReply {
    JoinReply::Retry {
        text: text.to_owned(),
    }
}

fn retry_config(error: &ConfigError) -> JoinReply {
    retry(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_keep_coming_say_that_a_name_is_taken() {
        let at = |ms| Time(7).plus(Duration::from_millis(ms));
        let pause_max = Duration::from_secs(2);
        let mut taken = Recurring::default();
        let mut again = |ms| taken.again(at(ms), pause_max).as_millis();
        assert_eq!(again(0), 0);
        assert_eq!(again(500), 500);
        assert_eq!(again(2500), 2500);
        assert_eq!(again(4501), 0, "this process or the leader stood still");
        assert_eq!(again(6000), 1499);
    }
}

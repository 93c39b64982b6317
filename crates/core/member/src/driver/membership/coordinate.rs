//! The driver's dealings with [`super::Membership`] as a member: it joins, obeys configurations,
//! follows views, and leaves.

use std::time::Duration;

use synod_consensus::{Config, ConfigAt, GroupId, MemberId};
use synod_log::LogFormat;
use synod_wire::{JoinRefusal, JoinReply, PeerMessage};

use super::join::Refusal;
use super::leave::{LeaveFacts, LeaveStep};
use super::protocol_version::Obeyed;
use crate::driver::{Driver, LeaveDone};
use crate::host::{Level, Topic};
use crate::setting::Setting;
use crate::storage::Job;

/// Why a member stops that was removed.
const REMOVED: &str = "an operator has removed this member from the group, or another one has \
                       taken its place, or it was silent for so long that the group has forgotten \
                       it. To join again, as a new member, start it again";

impl Driver {
    /// Connects to the members that the log knows, or begins a group if this member was started to
    /// do so.
    pub(in crate::driver) fn start_membership(&mut self) {
        let config = self.core.config().clone();
        self.config_changed(&config);
        let is_new =
            self.core.config().config.members.is_empty() && self.core.repairing_until().is_none();
        if self.membership.join.begins_group() && is_new {
            let me = self.identity.config.first_voter();
            if let Err(error) = self.core.bootstrap(self.now(), me) {
                self.fail(&format!("cannot begin a new group: {error}"));
            }
        }
    }

    // --- the way in --------------------------------------------------------------------------

    /// A member was found at an address. It concerns only a member that looks for its group: the
    /// others are found by the configuration.
    pub(in crate::driver) fn found(&mut self, member: MemberId, address: &str, group: GroupId) {
        if member == self.identity.me.member || !self.is_searching() {
            return;
        }
        self.links.peers.connect(member, address);
        if group != GroupId::NONE {
            self.membership.join.found(member);
        }
        self.publish_known();
    }

    /// An address did not let this member in.
    pub(in crate::driver) fn refused_by_address(
        &mut self,
        text: &str,
        is_final: bool,
        needs_operator: bool,
    ) {
        let (has_leader, is_in_group) = (
            self.core.leader().is_some(),
            self.identity.group != GroupId::NONE,
        );
        let join = &mut self.membership.join;
        let refusal =
            join.refused_by_address(self.turns.now, text, is_final, has_leader, is_in_group);
        let level = match (is_final, needs_operator) {
            (true, _) => Level::Error,
            (false, true) => Level::Warning,
            (false, false) => Level::Info,
        };
        self.follow_refusal(text, level, refusal);
    }

    fn refused_by_group(&mut self, text: &str, is_final: bool) {
        let refusal = self.membership.join.refused_by_group(text, is_final);
        let level = if is_final { Level::Error } else { Level::Info };
        self.follow_refusal(text, level, refusal);
    }

    fn follow_refusal(&mut self, text: &str, level: Level, refusal: Refusal) {
        if refusal.is_new {
            self.note(Topic::Membership, level, text);
        }
        if refusal.is_fatal {
            self.fail(text);
        }
    }

    fn is_present(&self) -> bool {
        self.membership
            .is_in_view(self.identity.me.member, self.identity.me.session)
    }

    /// Whether the leader has this session among the members that are present, as far as this
    /// member knows. Views say so of members with databases only.
    fn is_known_as_present(&self) -> bool {
        let (now, limit) = (self.turns.now, self.identity.config.suspect);
        let join = &self.membership.join;
        let has_data = self.identity.config.has_data;
        self.is_present()
            || !has_data && join.has_joined() && join.was_accepted(now, self.core.term(), limit)
    }

    /// Asks to be present, unless this member is, or is leaving. A member that has lost its group
    /// asks, too: it may have been absent while all the members that it knew were replaced.
    pub(in crate::driver) fn send_join_if_needed(&mut self) {
        let (now, suspect) = (self.turns.now, self.identity.config.suspect);
        let is_lost = self.primary.has_lost_group(now, suspect);
        if self.is_known_as_present() && !is_lost
            || self.membership.leave.is_under_way()
            || self.membership.join.is_removed()
            || self.core.is_leader()
        {
            return;
        }
        // One that was removed while it was cut off hears nothing of that from anybody by itself.
        let me = self.identity.me.member;
        let members = self.core.config().config.members.keys().copied();
        let others = members.filter(|id| is_lost && *id != me);
        let leader = self.core.leader();
        let targets = self.membership.join.targets(now, leader, others);
        if targets.is_empty() {
            return;
        }
        let has_joined = self.membership.join.has_joined();
        let (database, last) = (self.database(), self.core.last_id());
        let join = self.identity.join_request(database, last, has_joined);
        for target in &targets {
            self.authorization.known_peers.ask(*target);
        }
        // The network has to know them before they answer.
        self.publish_known();
        for target in targets {
            self.send(target, PeerMessage::Join(join.clone()));
        }
    }

    fn names_me(&self, at: &ConfigAt) -> bool {
        at.config.members.contains_key(&self.identity.me.member)
    }

    /// Whether the latest configuration that this member knows to be committed has this member.
    fn is_committed_member(&self) -> bool {
        let committed = self.core.config_at(self.core.commit_index());
        committed.is_some_and(|at| self.names_me(at))
    }

    /// Stops a member that was taken out of the group while it ran: it would ask to join at once.
    pub(in crate::driver) fn watch_removal(&mut self) {
        let committed = self.core.config_at(self.core.commit_index());
        let is_out =
            !self.names_me(self.core.config()) && committed.is_some_and(|at| !self.names_me(at));
        let (now, patience) = (self.turns.now, self.identity.config.suspect);
        if self.membership.join.removed(now, is_out, patience) {
            self.fail(REMOVED);
        }
    }

    /// A leader says that this member was removed. It matters if this member follows no leader:
    /// otherwise its own log says the same.
    fn told_of_removal(&mut self) {
        let (now, suspect) = (self.turns.now, self.identity.config.suspect);
        if self.primary.has_lost_group(now, suspect) {
            self.fail(REMOVED);
        }
    }

    pub(in crate::driver) fn handle_join_reply(&mut self, reply: JoinReply) {
        if let JoinReply::Refused {
            reason: JoinRefusal::NameTaken,
            text,
        } = reply
        {
            let suspect = self.identity.config.suspect;
            let is_final = self.membership.join.name_taken(self.turns.now, suspect);
            return self.refused_by_group(&text, is_final);
        }
        self.membership.join.name_not_taken();
        self.membership.join.answered(answer_text(&reply));
        match reply {
            JoinReply::Accepted { group } => self.accepted_by(group),
            JoinReply::NotLeader {
                leader: Some((member, address)),
            } => {
                self.found(member, &address, self.identity.group);
                self.membership.join.leader_named(member);
            }
            JoinReply::NotLeader { leader: None } => {}
            JoinReply::Refused {
                reason: JoinRefusal::Removed,
                ..
            } => self.told_of_removal(),
            JoinReply::Refused { text, .. } => self.refused_by_group(&text, true),
            JoinReply::Retry { text } => {
                self.log(Level::Debug, format!("the group asks to wait: {text}"));
            }
        }
    }

    fn accepted_by(&mut self, group: GroupId) {
        if self.identity.group == group {
            let (now, term) = (self.turns.now, self.core.term());
            self.membership.join.accepted(now, term);
            return;
        }
        if self.identity.group != GroupId::NONE {
            let text = format!(
                "two groups are called '{}': this member is in group {}, and group {group} \
                 accepts it, too. One of them was begun by mistake",
                self.identity.config.cluster_name, self.identity.group
            );
            let refusal = self.membership.join.refused_by_group(&text, true);
            if refusal.is_new {
                self.note(Topic::Membership, Level::Error, text);
            }
            return;
        }
        self.log(Level::Info, format!("joining group {group}"));
        self.identity.group = group;
        // Ordered before every write that the group may cause.
        self.links.disk.write(Job::SetGroup(group));
        self.links.peers.set_group(group);
    }

    // --- configurations and views ------------------------------------------------------------

    pub(in crate::driver) fn config_changed(&mut self, config: &ConfigAt) {
        self.obey_protocol(&config.config);
        for (member, entry) in &config.config.members {
            if *member != self.identity.me.member {
                self.links.peers.connect(*member, &entry.address);
            }
        }
        self.publish_members();
        self.publish_known();
        self.drop_strangers();
    }

    fn obey_protocol(&mut self, config: &Config) {
        let spoken = self.identity.config.versions;
        match self.membership.protocol.obey(config, spoken) {
            Obeyed::Unchanged => {}
            Obeyed::Now(version) => {
                let text = format!("the group speaks protocol version {version}");
                self.log(Level::Info, text);
            }
            Obeyed::NotSpoken(version) => self.fail(&format!(
                "the group speaks protocol version {version}, and this program speaks {spoken}: \
                 run one that speaks version {version}"
            )),
        }
    }

    /// The commit index has moved. Once it is certain that the group speaks a protocol version, the
    /// log is written in the format that goes with it. Not before: until then the member's program
    /// may be replaced by an older one, which does not read that format.
    pub(in crate::driver) fn raise_log_format(&mut self) {
        let at = self.core.config();
        let (protocol, is_committed) = (at.config.protocol, at.index <= self.core.commit_index());
        let format = LogFormat::of_group(protocol);
        if !is_committed || format <= self.membership.log_format {
            return;
        }
        self.membership.log_format = format;
        let text = format!(
            "the group speaks protocol version {protocol}: the log is written in format {format} \
             from now on"
        );
        self.log(Level::Info, text);
        self.links.disk.write(Job::RaiseFormat(format));
    }

    /// Forgets processes that are not in the group, and closes connections to them unless they ask
    /// to be.
    pub(in crate::driver) fn drop_strangers(&mut self) {
        self.links.peers.keep_only(&|member| self.is_wanted(member));
        let links = &self.links.peers;
        self.proposals.retain_links(|member| links.knows(member));
        let members = &self.core.config().config.members;
        self.membership
            .presence
            .forget_others(|member| members.contains_key(&member));
    }

    /// The commit index has moved: another view may be in force.
    pub(in crate::driver) fn view_committed(&mut self) {
        self.join_without_view();
        let Some(view) = self.membership.views.commit(self.own_log.committed()) else {
            return;
        };
        let names: Vec<&str> = view.members.iter().map(|m| m.name.as_str()).collect();
        let text = format!(
            "view {} at {}: {}",
            view.number,
            view.seqno,
            names.join(", ")
        );
        let seqno = view.seqno;
        self.note(Topic::Membership, Level::Info, text);
        self.publish_view();
        self.ask_for_positions();
        self.publish_everywhere();
        let is_first = self.is_present() && !self.membership.join.is_completed();
        if is_first && self.may_join(seqno) {
            self.membership.join.complete();
            self.links.peers.stop_seeking();
            self.announce_shared_name();
            self.watch_primary();
            self.links.host.joined(self.membership.views.committed());
        }
    }

    /// No view lists a member without a database. It has joined when it hears a leader with a
    /// quorum, and is in a configuration that is committed.
    pub(in crate::driver) fn join_without_view(&mut self) {
        let is_without_view = !self.identity.config.has_data && !self.membership.join.has_joined();
        let follows = is_without_view && self.core.leader().is_some();
        if follows && self.is_committed_member() && self.membership.join.take_part() {
            self.links.peers.stop_seeking();
            let text = format!(
                "this member takes part in group {} without a database",
                self.identity.group
            );
            self.log(Level::Info, text);
        }
    }

    /// Members of one name work, but neither operators nor a joiner's choice of a donor can
    /// distinguish them.
    fn announce_shared_name(&self) {
        let (me, own) = (self.identity.me.member, &self.identity.config.name);
        let mut members = self.core.config().config.members.iter();
        let Some((_, other)) = members.find(|(id, other)| **id != me && other.name == *own) else {
            return;
        };
        let setting = self.links.host.setting_name(Setting::MemberName);
        let text = format!(
            "another member is called '{own}', too, at {}: no person can tell the two apart in 'synod \
             status' and in alerts, and orders have to name them by address. Set another {setting} \
             in the configuration of one of them, and restart it",
            other.address
        );
        self.note(Topic::Membership, Level::Warning, text);
    }

    // --- the way out -------------------------------------------------------------------------

    /// Begins an orderly shutdown, within `limit` if there is one.
    pub(in crate::driver) fn begin_leave(&mut self, done: LeaveDone, limit: Option<Duration>) {
        if self.membership.leave.begin(self.turns.now, done, limit) {
            self.leave_tick();
        }
    }

    /// Takes the next step of an orderly shutdown, if one is under way.
    pub(in crate::driver) fn leave_tick(&mut self) {
        let (me, config) = (self.identity.me.member, &self.core.config().config);
        let leads = self.core.is_leader();
        let answering = self.answering();
        // A new leader has not heard anybody yet.
        let knows = self.core.is_ready_leader();
        let counts = |id: MemberId| id != me && (!knows || answering.contains(&id));
        let facts = LeaveFacts {
            leads,
            others_leave: !self.membership.presence.leavers().is_empty(),
            others_vote: config.voters().any(counts),
            is_out_of_view: self.core.leader().is_some()
                && config.is_voter(me)
                && !self.is_present(),
        };
        match self.membership.leave.step(self.turns.now, facts) {
            LeaveStep::Wait => {}
            LeaveStep::GoWithoutConsent => {
                self.log(
                    Level::Info,
                    "leaving without the group's consent: it did not answer in time",
                );
                self.finish_leave();
            }
            LeaveStep::GoThoughNeeded => {
                self.log(
                    Level::Warning,
                    "this member leaves, and the voters that are left are no majority without it: \
                     the group is not primary until one of the absent voters is back",
                );
                self.finish_leave();
            }
            LeaveStep::Go => self.finish_leave(),
            // Refused while another transfer is under way, or no voter is fit: the next tick tries
            // again.
            LeaveStep::TransferLeadership => {
                let _ = self.core.transfer_leadership(self.now(), None);
            }
            LeaveStep::AskLeader => {
                if let Some(leader) = self.core.leader() {
                    let session = self.identity.me.session;
                    self.send(leader, PeerMessage::Leave { session });
                }
            }
        }
    }

    /// This member goes, with the group's consent or without.
    pub(in crate::driver) fn finish_leave(&mut self) {
        if let Some(done) = self.membership.leave.finish() {
            (done.0)();
            // A member that has left takes no further part, even before its process ends.
            self.turns.stop();
        }
    }
}

/// A leader's answer to a join, as log lines say it.
fn answer_text(reply: &JoinReply) -> String {
    match reply {
        JoinReply::Accepted { .. } => "accepted".to_owned(),
        JoinReply::NotLeader { .. } => "it does not lead".to_owned(),
        JoinReply::Refused { text, .. } => format!("refused, {text}"),
        JoinReply::Retry { text } => format!("try again, {text}"),
    }
}

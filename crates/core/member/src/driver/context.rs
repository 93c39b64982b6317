//! [`Context`]: what every component of the driver may use.
//!
//! A component owns its state. Its methods take `&mut self` and the context, and each other
//! component that they need as an argument: a signature says what a method may touch.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{
    ConfigAt, Core, EntryHeader, EntryKind, LogIndex, Member, MemberId, Origin, Proposal,
    ProposeError, Role, Seqno, SessionId, Time, Writers,
};
use synod_log::{Entry, LogError, PAYLOAD_BYTES_MAX};
use synod_wire::{DataState, PeerMessage, Report};

use super::clock::Turns;
use super::failed_actions::Decisions;
use super::identity::Identity;
use super::membership::Views;
use super::own_log::OwnLog;
use super::purge_policy::CertifiedLog;
use super::{DriverLinks, Me};
use crate::certification::CertificationState;
use crate::config::DatabasePosition;
use crate::host::{Level, Remedy, Topic};
use crate::payload::decision::OutcomeDecision;
use crate::payload::discard::Discard;
use crate::payload::view::View;
use crate::shared::lock;

/// The consensus core, this member's log with what follows from its entries, and the links to the
/// outside. Invariant: certification, views and decisions have seen the entries of the log, each
/// once, in order.
pub(super) struct Context {
    pub(super) identity: Identity,
    pub(super) turns: Turns,
    pub(super) core: Core,
    pub(super) links: DriverLinks,
    pub(super) own_log: OwnLog,
    pub(super) certification: CertificationState,
    pub(super) views: Views,
    pub(super) decisions: Decisions,
    pub(super) data_state: DataState,
}

impl Context {
    pub(super) fn log(&self, level: Level, text: impl AsRef<str>) {
        self.links.host.log(level, text.as_ref());
    }

    /// Like [`Context::log`], for an event that operators ask for afterwards.
    pub(super) fn note(&self, topic: Topic, level: Level, text: impl AsRef<str>) {
        self.links.host.note(topic, level, text.as_ref());
    }

    pub(super) fn send(&self, to: MemberId, message: PeerMessage) {
        self.links.peers.send(to, message);
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.stop_for(why, Remedy::Operator);
    }

    pub(super) fn stop_for(&mut self, why: &str, remedy: Remedy) {
        let text = format!("this member stops: {why}");
        self.note(Topic::Membership, Level::Error, text);
        self.links.host.failed(why, remedy);
        self.turns.stop();
    }

    /// The member's name; of one that is in no configuration, its number.
    pub(super) fn name_of(&self, member: MemberId) -> String {
        let configured = self.core.config().config.members.get(&member);
        configured.map_or_else(|| format!("member {member}"), |m| m.name.clone())
    }

    /// History that every present member has applied can no longer conflict with anything.
    pub(super) fn advance_window(&mut self, reports: &[Report]) {
        let low_water: Option<Seqno> = reports.iter().map(|r| r.seen).min();
        if let Some(low_water) = low_water {
            self.certification.advance_window(low_water);
        }
    }

    pub(super) fn log_damaged(&mut self, error: &LogError) {
        let damage = error.damage().unwrap_or_else(|| error.to_string());
        let why = format!(
            "its log is damaged: {damage}. Restart it: it then gets what is lost from the other \
             members"
        );
        // The only voter of a group would not start.
        let me = self.identity.me.member;
        let remedy = if self.core.config().config.voters().any(|id| id != me) {
            Remedy::Restart
        } else {
            Remedy::Operator
        };
        self.stop_for(&why, remedy);
    }

    /// The entry to write. Certification sees it if it has not.
    pub(super) fn entry(&mut self, header: &EntryHeader) -> Entry {
        let core = &self.core;
        let config = || {
            let config = core.config_at(header.index);
            Bytes::from(config.expect("the core made this entry").config.encode())
        };
        let entry = self.own_log.entry(header, config);
        if self.is_own_action(header) {
            self.own_log.times.appended(header.index, self.turns.now);
        }
        self.ingest_entry(header, &entry.payload);
        entry
    }

    pub(super) fn is_own_action(&self, header: &EntryHeader) -> bool {
        let (origin, me) = (&header.origin, &self.identity.me);
        let is_own = origin.member == me.member && origin.session == me.session;
        is_own && header.kind == EntryKind::Action
    }

    /// More of the log may be durable, by a sync that began then: measures the own actions in it.
    pub(super) fn note_durable(&mut self, sync_began: Time) {
        let (durable, now) = (self.core.durable_index(), self.turns.now);
        while let Some(times) = self.own_log.times.next_durable(durable, sync_began, now) {
            self.links.host.own_action_durable(times);
        }
    }

    pub(super) fn note_committed(&mut self, index: LogIndex) {
        let now = self.turns.now;
        while let Some(took) = self.own_log.times.next_committed(index, now) {
            self.links.host.own_action_committed(took);
        }
    }

    /// Shows an appended entry to the components that follow the log, once.
    fn ingest_entry(&mut self, header: &EntryHeader, payload: &Bytes) {
        let certification = &mut self.certification;
        if header.index <= certification.last_index() {
            return;
        }
        if let Err(error) = certification.appended(self.turns.now, header, payload) {
            self.log(Level::Error, format!("entry {}: {error}", header.id()));
        }
        if header.kind == EntryKind::View {
            match View::decode(header.seqno, payload.clone()) {
                Ok(view) => self.views.appended(header.index, view),
                Err(error) => self.log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
        if header.kind == EntryKind::Decision {
            match OutcomeDecision::decode(payload.clone()) {
                Ok(decision) => self.decisions.appended(header.index, decision),
                Err(error) => self.log(Level::Error, format!("entry {}: {error}", header.id())),
            }
        }
    }

    pub(super) fn trim_cache(&mut self) {
        self.own_log.trim(self.core.durable_index());
    }

    /// Publishes how far the logs of others are durable, as a leader knows it, and in which format
    /// the own log is written. After each slow tick.
    pub(super) fn publish_progress(&self) {
        let leads = self.core.is_leader();
        let progress = self.core.progress().filter(|_| leads);
        let known = progress.filter(|progress| progress.match_index != LogIndex(0));
        let elsewhere = known.map(|progress| (progress.member, progress.match_index));
        let mut status = lock(&self.links.shared.status);
        status.durable_elsewhere = elsewhere.collect();
        status.log_format = self.links.reader.format().number();
        if status.leader.is_none() {
            status.databases.clear();
        }
    }

    /// The setting in force: as the group has set it. Always the leader's writes if the group keeps
    /// its log only: the leader alone fills the log, and continues what others have ordered.
    pub(super) fn writers_in_force(&self) -> Writers {
        match self.identity.config.keeps_log_only {
            true => Writers::Leader,
            false => self.core.config().config.settings.writers,
        }
    }

    pub(super) fn certified_log(&self) -> CertifiedLog {
        let (start, start_seqno) = self.certification.start();
        CertifiedLog {
            start,
            start_seqno,
            discard: self.certification.partial_actions().last_bulk_discard(),
            first_partial_chunk: self.certification.partial_actions().first_chunk(),
            committed: self.own_log.committed(),
            written: self.links.reader.last_index(),
        }
    }

    /// Whether the database is one that follows the log, and is not being replaced.
    pub(super) fn has_database(&self) -> bool {
        let state = self.data_state;
        let follows = !matches!(state, DataState::Joining | DataState::Error);
        follows && self.identity.config.has_data && !self.links.shared.is_database_diverged()
    }

    pub(super) fn discard(&mut self, what: &Discard, level: Level, why: String) {
        // Refused when there is no room, or while leadership is transferred: the next tick tries
        // again.
        if self.append_own(EntryKind::Discard, &what.encode()) {
            self.log(level, why);
        }
    }

    pub(super) fn is_present(&self) -> bool {
        let Me { member, session } = self.identity.me;
        self.views.committed().contains(member, session)
    }

    pub(super) fn names_me(&self, at: &ConfigAt) -> bool {
        at.config.members.contains_key(&self.identity.me.member)
    }

    /// How long this member waits for a leader before it takes the group for lost: the suspect
    /// timeout, or longer if an ordinary election may last longer. Otherwise clients would get
    /// unknown outcomes whenever a leader fails.
    pub(super) fn group_patience(&self) -> Duration {
        let election = Duration::from_micros(self.core.longest_deferred_election_us());
        self.identity.config.suspect.max(election)
    }

    pub(super) fn voter_names(&self) -> String {
        let config = &self.core.config().config;
        let voters = config.members.values().filter(|m| m.role == Role::Voter);
        let names: Vec<String> = voters
            .map(|m| format!("{} at {}", m.name, m.address))
            .collect();
        names.join(", ")
    }

    /// Position of the database at the start, unless that position has lost its meaning.
    pub(super) fn database(&self) -> DatabasePosition {
        self.links.shared.position_of(self.identity.config.database)
    }

    pub(super) fn session_in_view(&self, member: MemberId) -> Option<SessionId> {
        let members = self.views.committed().members.iter();
        members
            .filter(|m| m.member == member)
            .map(|m| m.session)
            .next()
    }

    /// The member as the latest configuration names it; if that does not, as the latest committed
    /// one does: another leader may truncate the latest.
    pub(super) fn configured(&self, member: MemberId) -> Option<&Member> {
        let latest = &self.core.config().config;
        let committed = || {
            let at = self.core.config_at(self.core.commit_index())?;
            at.config.members.get(&member)
        };
        latest.members.get(&member).or_else(committed)
    }

    pub(super) fn is_configured(&self, member: MemberId) -> bool {
        self.configured(member).is_some()
    }

    pub(super) fn append(
        &mut self,
        kind: EntryKind,
        origin: Origin,
        depends_on: Seqno,
        payload: &Bytes,
    ) -> Result<EntryHeader, ProposeError> {
        // Before it is sent: an entry that the logs refuse would stop every member.
        assert!(
            payload.len() <= PAYLOAD_BYTES_MAX as usize,
            "{kind:?} of {} bytes: no log takes it",
            payload.len()
        );
        let payload_len = payload.len() as u32; // bounded above
        let payload_crc = crc32c::crc32c(payload);
        let proposal = Proposal {
            kind,
            origin,
            depends_on,
            payload_len,
            payload_crc,
        };
        let header = self.core.propose(self.turns.now, proposal)?;
        self.own_log.put(header, payload);
        self.ingest_entry(&header, payload);
        Ok(header)
    }

    /// Appends an entry of the leader's own; false if that is refused, as during a leader transfer.
    pub(super) fn append_own(&mut self, kind: EntryKind, payload: &Bytes) -> bool {
        let origin = Origin::new(self.identity.me.member, SessionId(0), 0);
        let depends_on = if kind.is_ordered() {
            self.core.last_seqno()
        } else {
            Seqno::UNDEFINED
        };
        self.append(kind, origin, depends_on, payload).is_ok()
    }

    pub(super) fn other_members(&self) -> Vec<MemberId> {
        let members = self.core.config().config.members.keys().copied();
        members
            .filter(|id| *id != self.identity.me.member)
            .collect()
    }

    pub(super) fn answering(&self) -> BTreeSet<MemberId> {
        let limit_us = self.identity.config.timing.election_timeout_min_us;
        let now = self.turns.now;
        let is_recent = |heard: Time| now.since_us(heard) < limit_us;
        let answering = self.core.progress();
        answering
            .filter(|progress| progress.last_heard.is_some_and(is_recent))
            .map(|progress| progress.member)
            .chain([self.identity.me.member])
            .collect()
    }

    pub(super) fn send_vote_order(&mut self, member: MemberId, votes: bool) {
        if member == self.identity.me.member {
            self.identity.config.wants_vote = votes;
        } else {
            self.send(member, PeerMessage::VoteOrder { votes });
        }
    }
}

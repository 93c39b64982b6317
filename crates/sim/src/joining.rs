//! Members that want to be present, views, and the slow tick: the calls of the node's `driver/join.rs`,
//! `driver/presence.rs` and `driver/leader.rs`, with seeds and addresses left out.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use synod_consensus::{
    ConfigAt, ConfigChange, EntryId, EntryKind, LogBase, LogIndex, Member, MemberId, Role,
    SessionId, VersionRange,
};
use synod_log::LogReader;

use crate::member::{Job, Present, Wire};
use crate::world::{Event, World};

/// Entries a new member's log begins with, behind the commit index.
const JOIN_BACKLOG: u64 = 20;
/// An action in chunks that nobody continued for so many slow ticks is given up.
const STALE_TICKS: u64 = 20;
/// Slow ticks between two looks at retention.
const RETENTION_TICKS: u64 = 6;

type View = Vec<(MemberId, SessionId)>;

pub(crate) fn encode_view(view: &[(MemberId, SessionId)]) -> Bytes {
    let mut out = BytesMut::with_capacity(16 * view.len());
    for (member, session) in view {
        out.put_u64_le(member.0);
        out.put_u64_le(session.0);
    }
    out.freeze()
}

pub(crate) fn decode_view(payload: &[u8]) -> View {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    payload
        .chunks_exact(16)
        .map(|pair| (MemberId(word(&pair[..8])), SessionId(word(&pair[8..]))))
        .collect()
}

/// The newest views in a log.
pub(crate) fn views_in(reader: &LogReader) -> VecDeque<(LogIndex, View)> {
    let mut views = VecDeque::new();
    let last = reader.last_index();
    let mut next = reader.first_index();
    while next <= last {
        let Ok(entries) = reader.read(next, last, 64 << 10) else {
            break;
        };
        for entry in entries {
            next = entry.header.index.next();
            if entry.header.kind == EntryKind::View {
                views.push_back((entry.header.index, decode_view(&entry.payload)));
            }
        }
    }
    while views.len() > 2 {
        views.pop_front();
    }
    views
}

impl World {
    fn slow_us(&self) -> u64 {
        self.options.timing.heartbeat_us * 5 / 2
    }

    fn suspect_us(&self) -> u64 {
        2 * self.options.timing.election_timeout_max_us
    }

    /// The slow work of a member.
    pub(crate) fn slow_tick(&mut self, id: MemberId) {
        let (node, epoch) = (id, self.node(id).epoch);
        let slow_us = self.slow_us();
        self.schedule(slow_us, Event::SlowTick { node, epoch });
        self.send_join(id);
        self.send_report(id);
        if self.core(id).is_ready_leader() {
            self.update_view(id);
            self.discard_stale(id);
            self.broadcast_status(id);
        }
        if self.now_us / slow_us % RETENTION_TICKS == id.0 % RETENTION_TICKS {
            self.retain(id, None);
        }
        if self.chance(0.2) {
            self.flush_database(id);
        }
        self.idle_floor(id);
        if self.is_up(id) {
            self.settle(id);
        }
    }

    // --- presence ---------------------------------------------------------------------------

    /// Asks to be let in, until the view has this session.
    fn send_join(&mut self, id: MemberId) {
        let process = self.process(id);
        let (session, last, leader) = (
            process.session,
            process.core.last_id(),
            process.core.leader(),
        );
        let present = process
            .views
            .back()
            .is_some_and(|(_, view)| view.contains(&(id, session)));
        if present || leader == Some(id) || self.node(id).removed {
            return;
        }
        let (name, has_data) = (self.node(id).name.clone(), self.node(id).has_data);
        // Without a leader, somebody found by the seeds is asked.
        let anybody = || {
            self.up()
                .into_iter()
                .filter(|other| *other != id)
                .collect::<Vec<_>>()
        };
        let to = match leader {
            Some(leader) => Some(leader),
            None => {
                let others = anybody();
                self.pick(&others)
            }
        };
        if let Some(to) = to {
            self.send(
                id,
                to,
                Wire::Join {
                    session,
                    name,
                    has_data,
                    last,
                },
            );
        }
    }

    pub(crate) fn handle_join(
        &mut self,
        id: MemberId,
        from: MemberId,
        session: SessionId,
        name: String,
        has_data: bool,
        last: EntryId,
    ) {
        if !self.core(id).is_ready_leader() || self.node(from).removed {
            return;
        }
        if !self.configure(id, from, name, has_data, last) {
            return;
        }
        let present = Present {
            session,
            heard_us: self.now_us,
            applied: None,
        };
        self.process(id).presence.insert(from, present);
        self.update_view(id);
    }

    /// Sees to it that the configuration has the joiner.
    fn configure(
        &mut self,
        id: MemberId,
        from: MemberId,
        name: String,
        has_data: bool,
        last: EntryId,
    ) -> bool {
        let config = self.core(id).config().config.clone();
        if config.members.contains_key(&from) {
            return true;
        }
        let namesake = config
            .members
            .iter()
            .find(|(_, member)| member.name == name)
            .map(|(id, _)| *id);
        let alive_since = self.now_us.saturating_sub(self.suspect_us());
        let alive = |member: &MemberId| {
            let presence = self.nodes[&id]
                .process
                .as_ref()
                .and_then(|p| p.presence.get(member));
            *member == id || presence.is_some_and(|p| p.heard_us > alive_since)
        };
        if namesake.as_ref().is_some_and(alive) {
            return false;
        }
        let address = name.clone();
        let member = Member {
            role: Role::Learner,
            has_data,
            name,
            address,
            versions: VersionRange { min: 1, max: 1 },
        };
        let change = match namesake {
            Some(old) => ConfigChange::Replace {
                old,
                id: from,
                member,
            },
            None => ConfigChange::AddLearner { id: from, member },
        };
        if last == EntryId::default() {
            let base = self.base_for(id);
            self.process(id).core.set_install_base(from, base);
        }
        let local = self.local(id);
        let changed = self.process(id).core.change_config(local, change);
        self.coverage.count(if changed.is_ok() {
            "member joined"
        } else {
            "join put off"
        });
        changed.is_ok()
    }

    /// Where a new member's log shall start.
    fn base_for(&mut self, id: MemberId) -> LogBase {
        let process = self.process(id);
        let core = &process.core;
        let mut index = LogIndex(core.commit_index().0.saturating_sub(JOIN_BACKLOG));
        if let Some(chunk) = process.ingest.oldest_open_chunk() {
            index = index.min(chunk.prev());
        }
        if index <= core.base().last.index {
            return core.base().clone();
        }
        match (process.reader.header(index), core.config_at(index).cloned()) {
            (Ok(header), Some(config)) => LogBase {
                last: header.id(),
                seqno: header.seqno,
                config,
            },
            _ => core.base().clone(),
        }
    }

    /// A new leader starts from the latest view and itself.
    pub(crate) fn begin_leading(&mut self, id: MemberId) {
        let heard_us = self.now_us;
        let process = self.process(id);
        let present = |session| Present {
            session,
            heard_us,
            applied: None,
        };
        let latest = process
            .views
            .back()
            .map(|(_, view)| view.clone())
            .unwrap_or_default();
        process.presence = latest
            .into_iter()
            .map(|(member, session)| (member, present(session)))
            .collect();
        let session = process.session;
        process.presence.insert(id, present(session));
    }

    /// Announces who is present, if that has changed.
    fn update_view(&mut self, id: MemberId) {
        let alive_since = self.now_us.saturating_sub(self.suspect_us());
        let process = self.process(id);
        process
            .presence
            .retain(|member, p| *member == id || p.heard_us >= alive_since);
        let config = &process.core.config().config;
        let has_data = |member: &MemberId| config.members.get(member).is_some_and(|m| m.has_data);
        let present = process
            .presence
            .iter()
            .filter(|(member, _)| has_data(member));
        let view: View = present.map(|(member, p)| (*member, p.session)).collect();
        if process
            .views
            .back()
            .is_some_and(|(_, latest)| *latest == view)
        {
            return;
        }
        while process.views.len() > 8 {
            process.views.pop_front();
        }
        self.coverage.count("view");
        self.append_own(id, EntryKind::View, &encode_view(&view));
    }

    fn discard_stale(&mut self, id: MemberId) {
        let before_us = self.now_us.saturating_sub(STALE_TICKS * self.slow_us());
        for open in self.process(id).ingest.stale(before_us) {
            self.coverage.count("chunks discarded");
            self.append_own(id, EntryKind::Discard, &open.encode());
        }
    }

    // --- reports ----------------------------------------------------------------------------

    /// Tells the leader of this member's database.
    fn send_report(&mut self, id: MemberId) {
        let node = self.node(id);
        let applied = node.database.applied.0;
        let level = node
            .process
            .as_ref()
            .is_some_and(|p| p.deliver_next.is_some());
        let eligible = node.wants_vote && (level || !node.has_data);
        let process = self.process(id);
        let (session, Some(leader)) = (process.session, process.core.leader()) else {
            return;
        };
        if leader == id {
            self.handle_report(id, id, session, applied, eligible);
        } else {
            self.send(
                id,
                leader,
                Wire::Report {
                    session,
                    applied,
                    eligible,
                },
            );
        }
    }

    pub(crate) fn handle_report(
        &mut self,
        id: MemberId,
        from: MemberId,
        session: SessionId,
        applied: i64,
        eligible: bool,
    ) {
        let has_data = self.node(from).has_data;
        let process = self.process(id);
        let known = process
            .presence
            .get_mut(&from)
            .filter(|p| p.session == session);
        let Some(present) = known else {
            return;
        };
        if !process.core.is_leader() {
            return;
        }
        present.applied = has_data.then_some(applied);
        if from != id {
            process.core.set_eligible(from, eligible);
        }
    }

    fn broadcast_status(&mut self, id: MemberId) {
        let process = self.process(id);
        let low_water = process.presence.values().filter_map(|p| p.applied).min();
        if let Some(low_water) = low_water {
            process.ingest.advance_window(low_water);
        }
        let term = process.core.term();
        let others: Vec<MemberId> = process
            .core
            .config()
            .config
            .members
            .keys()
            .copied()
            .collect();
        for other in others {
            self.send(id, other, Wire::Status { term, low_water });
        }
    }

    // --- retention --------------------------------------------------------------------------

    /// Lets the log drop what nobody needs; up to `force`, if given, whoever needs it.
    pub(crate) fn retain(&mut self, id: MemberId, force: Option<LogIndex>) {
        let alive_since = self.now_us.saturating_sub(self.suspect_us());
        let has_data = self.node(id).has_data;
        let process = self.process(id);
        let committed = process.last_committed;
        // Production keeps what was not delivered; a database that flushes lazily may come back
        // before that, and if all do at once, the logs must still have the rest.
        let mut keep_from = match has_data {
            true => process.delivered.min(committed).min(process.flushed),
            false => committed,
        };
        let flushed = keep_from;
        let leads = process.core.is_leader();
        if leads {
            let alive = |member: &MemberId| {
                process
                    .presence
                    .get(member)
                    .is_some_and(|p| p.heard_us > alive_since)
            };
            let needed = process.core.progress().filter(|p| alive(&p.member));
            keep_from = needed.map(|p| p.match_index).fold(keep_from, LogIndex::min);
        }
        if let Some(chunk) = process.ingest.oldest_open_chunk() {
            keep_from = keep_from.min(chunk.prev());
        }
        if committed <= process.core.base().last.index {
            return;
        }
        let mut configs: Vec<ConfigAt> = Vec::new();
        let mut at = Some(committed);
        while let Some(config) = at.and_then(|index| process.core.config_at(index)) {
            configs.push(config.clone());
            at = (config.index > process.core.base().last.index).then(|| config.index.prev());
        }
        configs.reverse();
        process.jobs.push_back(Job::Retain {
            keep_from: force.map_or(keep_from, |index| index.min(flushed)),
            keep_after: if leads { None } else { process.slowest_applied },
            committed: flushed,
            configs,
            force: force.is_some(),
        });
    }
}

//! Replication at the leader: appending, sending, counting acknowledgements, staying leader. A
//! leader never changes or removes an entry of its log. It writes and sends in the same step, and
//! commits by counting durable positions of the voters, its own disk among them. Sources: Raft,
//! sections 5.3 (log replication) and 5.4.2 (committing by counting only in the own term); Ongaro's
//! dissertation, sections 6.2 (a leader that lost its quorum steps down), 10.2.1 (writing to the
//! own disk in parallel), 10.2.2 (batching and pipelining).

use std::collections::BTreeMap;

use synod_planted::planted;

use crate::commands::{Proposal, ProposeError};
use crate::core::{Core, State};
use crate::effect::{Effect, SendEntries};
use crate::election::succession::{LeaderTransfer, Trials};
use crate::membership::config::Config;
use crate::message::{Append, AppendOutcome, AppendReply, Body, LogBase};
use crate::quorum::reached_by_majority;
use crate::read_index::LeaderReads;
use crate::replication::progress::{Outgoing, Peer, cost_bytes};
use crate::replication::regions::RegionWait;
use crate::tail::LogView;
use crate::types::{EntryHeader, EntryKind, LogIndex, MemberId, Origin, Seqno, SessionId, Time};

#[derive(Debug)]
pub(crate) struct Leading {
    /// All other members, and for a while those that were just removed.
    pub(crate) peers: BTreeMap<MemberId, Peer>,
    uncommitted_bytes: u64,
    /// Counts as the time of a voter's latest answer until it answers.
    pub(crate) since: Time,
    heartbeat_at: Time,
    pub(crate) leader_transfer: Option<LeaderTransfer>,
    /// Whether a voter was ordered to become a candidate in spite of the promises. That order may
    /// arrive at any time in the rest of the term.
    pub(crate) has_ordered_election: bool,
    pub(crate) reads: LeaderReads,
    pub(crate) trials: Trials,
    pub(crate) region_wait: RegionWait,
}

impl Leading {
    pub(crate) fn new(now: Time) -> Leading {
        Leading {
            peers: BTreeMap::new(),
            uncommitted_bytes: 0,
            since: now,
            heartbeat_at: now,
            leader_transfer: None,
            has_ordered_election: false,
            reads: LeaderReads::default(),
            trials: Trials::default(),
            region_wait: RegionWait::None,
        }
    }

    /// Counts the uncommitted entries that a new leader inherits.
    pub(crate) fn take_over(&mut self, log: &LogView, commit: LogIndex) {
        self.uncommitted_bytes = log.headers_from(commit.next()).map(cost_bytes).sum();
    }

    /// The highest value that a majority of the configuration's voters has reached; the default
    /// without voters. Removed members and learners do not count.
    pub(crate) fn quorum<T: Ord + Copy + Default>(
        &self,
        me: MemberId,
        config: &Config,
        own: T,
        of_peer: impl Fn(&Peer) -> T,
    ) -> T {
        let value = |id| self.value_of(id, me, own, &of_peer);
        reached_by_majority(config.voters().map(value).collect()).unwrap_or_default()
    }

    /// The value of one voter; the default for one that this leader has no word of.
    pub(crate) fn value_of<T: Default>(
        &self,
        voter: MemberId,
        me: MemberId,
        own: T,
        of_peer: impl Fn(&Peer) -> T,
    ) -> T {
        match self.peers.get(&voter) {
            Some(peer) => of_peer(peer),
            None if voter == me => own,
            None => T::default(),
        }
    }

    /// The latest moment at or after which a majority has answered.
    fn heard_quorum_at(&self, me: MemberId, config: &Config, now: Time) -> Time {
        self.quorum(me, config, now, |peer| {
            peer.last_heard.unwrap_or(self.since)
        })
    }
}

impl Core {
    /// Appends a proposal. The next poll of effects writes and sends it. Errors: [`ProposeError`]
    /// if this member does not lead, hands leadership over, or has too many uncommitted bytes.
    ///
    /// # Panics
    ///
    /// If the kind is one that only the core makes, or an ordered proposal depends on itself or the
    /// future: mistakes of the caller that would spread to all members.
    pub fn propose(&mut self, now: Time, proposal: Proposal) -> Result<EntryHeader, ProposeError> {
        self.observe(now);
        let Proposal {
            kind,
            origin,
            depends_on,
            payload_len,
            payload_crc,
        } = proposal;
        assert!(
            !matches!(kind, EntryKind::NoOp | EntryKind::Config),
            "{kind:?} is the core's own"
        );
        let leader = self.leader;
        let Some(leading) = self.leading() else {
            return Err(ProposeError::NotLeader { leader });
        };
        if leading.leader_transfer.is_some() {
            return Err(ProposeError::LeaderTransfer);
        }
        let bytes = leading
            .uncommitted_bytes
            .saturating_add(u64::from(payload_len));
        if leading.uncommitted_bytes > 0 && bytes > self.limits.uncommitted_bytes_max {
            return Err(ProposeError::Busy);
        }
        if kind.is_ordered() {
            assert!(
                depends_on <= self.last_seqno(),
                "depends on {depends_on}, the future"
            );
        }
        let header = self.next_header(kind, origin, depends_on, payload_len, payload_crc);
        self.append_own(header, None);
        Ok(header)
    }

    pub(crate) fn append_no_op(&mut self) {
        let header = self.next_header(EntryKind::NoOp, self.own_origin(), Seqno::UNDEFINED, 0, 0);
        self.append_own(header, None);
    }

    pub(crate) fn append_config(&mut self, config: Config) -> LogIndex {
        let payload = config.encode();
        let length = u32::try_from(payload.len()).expect("at most 1024 members of about 2 KiB");
        let (kind, crc) = (EntryKind::Config, crc32c::crc32c(&payload));
        let header = self.next_header(kind, self.own_origin(), Seqno::UNDEFINED, length, crc);
        self.append_own(header, Some(config));
        self.emit(Effect::Config(self.log.config().clone()));
        header.index
    }

    fn own_origin(&self) -> Origin {
        Origin::new(self.id, SessionId(0), 0)
    }

    fn next_header(
        &self,
        kind: EntryKind,
        origin: Origin,
        depends_on: Seqno,
        payload_len: u32,
        payload_crc: u32,
    ) -> EntryHeader {
        let last = self.last_seqno();
        let (seqno, depends_on) = if kind.is_ordered() {
            (last.next(), depends_on)
        } else {
            (last, Seqno::UNDEFINED)
        };
        let (term, index) = (self.hard.term, self.log.last().index.next());
        EntryHeader {
            term,
            index,
            seqno,
            kind,
            origin,
            depends_on,
            payload_len,
            payload_crc,
        }
    }

    fn append_own(&mut self, header: EntryHeader, config: Option<Config>) {
        self.log.push(header, config);
        self.gather_from(header.index);
        self.replicate = true;
        let now = self.now;
        if let Some(leading) = self.leading_mut() {
            leading.uncommitted_bytes += cost_bytes(&header);
            let peers = leading.peers.values_mut();
            peers.for_each(|peer| peer.entry_appended(header.index, now));
        }
    }

    pub(crate) fn replicate(&mut self) {
        if !std::mem::take(&mut self.replicate) {
            return;
        }
        let Some(leading) = self.leading() else {
            return;
        };
        let members: Vec<MemberId> = leading.peers.keys().copied().collect();
        for id in members {
            while let Some(outgoing) = self.poll_peer(id) {
                self.send_outgoing(id, outgoing);
            }
            self.send_commit(id);
        }
    }

    fn poll_peer(&mut self, id: MemberId) -> Option<Outgoing> {
        let commit = self.commit;
        let State::Leader(leading) = &mut self.state else {
            return None;
        };
        let peer = leading.peers.get_mut(&id)?;
        let install = peer.usable_base(&self.log, commit);
        peer.poll(&self.log, &self.limits, install.as_ref(), self.now)
    }

    fn send_outgoing(&mut self, to: MemberId, outgoing: Outgoing) {
        let sent_at = self.now;
        let commit = self.commit;
        match outgoing {
            Outgoing::Empty { prev } => {
                let entries = Vec::new();
                let append = Append {
                    prev,
                    entries,
                    commit,
                    sent_at,
                };
                self.send(to, Body::Append(append));
            }
            Outgoing::Entries {
                prev,
                first,
                last,
                is_first_time,
                may_shorten,
            } => {
                let term = self.hard.term;
                self.emit(Effect::SendEntries(SendEntries {
                    to,
                    term,
                    prev,
                    first,
                    last,
                    is_first_time,
                    may_shorten,
                    commit,
                    sent_at,
                }));
            }
            Outgoing::Install(base) => self.send(to, Body::InstallBase { base, sent_at }),
        }
        if let Some(peer) = self.leading_mut().and_then(|l| l.peers.get_mut(&to)) {
            peer.note_append_sent(commit);
        }
    }

    /// Followers would have to wait for the next heartbeat before they deliver.
    fn send_commit(&mut self, id: MemberId) {
        let commit = self.commit;
        let Some(peer) = self.leading_mut().and_then(|l| l.peers.get_mut(&id)) else {
            return;
        };
        if peer.lacks_commit(commit) {
            let commit = peer.usable_commit(commit);
            self.send(id, Body::CommitNotice { commit });
        }
    }

    pub(crate) fn send_heartbeats(&mut self) {
        let next = self.now.plus_us(self.timing.heartbeat_us);
        let Some(leading) = self.leading_mut() else {
            return;
        };
        leading.heartbeat_at = next;
        let members: Vec<MemberId> = leading.peers.keys().copied().collect();
        for id in members {
            self.send_heartbeat(id);
        }
    }

    fn send_heartbeat(&mut self, to: MemberId) {
        let (own_commit, sent_at) = (self.commit, self.now);
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let read_round = leading.reads.round();
        let Some(peer) = leading.peers.get_mut(&to) else {
            return;
        };
        let commit = peer.usable_commit(own_commit);
        self.send(
            to,
            Body::Heartbeat {
                commit,
                sent_at,
                read_round,
            },
        );
    }

    /// A member of the group has answered in this term what was sent at `sent_at`.
    fn heard_from(&mut self, from: MemberId, sent_at: Time) -> Option<&mut Peer> {
        let now = self.now;
        if sent_at > now {
            self.counters.malformed += 1;
            return None;
        }
        let peer = self.leading_mut()?.peers.get_mut(&from)?;
        peer.last_heard = Some(now);
        Some(peer)
    }

    pub(crate) fn handle_heartbeat_reply(
        &mut self,
        from: MemberId,
        sent_at: Time,
        read_round: u64,
    ) {
        let current = self.leading().map_or(0, |leading| leading.reads.round());
        let Some(peer) = self.heard_from(from, sent_at) else {
            return;
        };
        if read_round <= current {
            peer.read_round = peer.read_round.max(read_round);
        }
        self.answer_confirmed_reads();
    }

    pub(crate) fn handle_append_reply(&mut self, from: MemberId, reply: AppendReply) {
        let last = self.log.last().index;
        let now = self.now;
        let AppendReply { outcome, sent_at } = reply;
        let sound = match outcome {
            AppendOutcome::Durable { index } | AppendOutcome::PayloadMissing { index } => {
                index <= last
            }
            AppendOutcome::Rejected { refused, hint } => refused <= last && hint.index <= refused,
        };
        if !sound && self.is_leader() {
            self.counters.malformed += 1;
            return;
        }
        if self.heard_from(from, sent_at).is_none() {
            return;
        }
        let State::Leader(leading) = &mut self.state else {
            return;
        };
        let Some(peer) = leading.peers.get_mut(&from) else {
            return;
        };
        self.replicate = true;
        match outcome {
            AppendOutcome::Durable { index } => {
                peer.acknowledged(index, now, &self.log);
                self.advance_commit();
                self.advance_leader_transfer();
                self.maybe_promote();
            }
            AppendOutcome::PayloadMissing { index } => peer.payload_missing(index, sent_at),
            AppendOutcome::Rejected { refused, hint } => {
                peer.rejected(refused, self.log.agreement_below(hint), hint, sent_at);
            }
        }
    }

    /// Commits what is durable on a majority, counting this member only for what its own disk has
    /// (dissertation, section 10.2.1), and only entries of the own term (Raft, section 5.4.2); in
    /// as many regions as the configuration asks for.
    pub(crate) fn advance_commit(&mut self) {
        let Some(leading) = self.leading() else {
            return;
        };
        let config = &self.log.config().config;
        let durable =
            planted!(CountOwnDiskEarly, self.durability.index(), else self.log.last().index);
        let majority = leading.quorum(self.id, config, durable, |peer| peer.match_index);
        let index = self.in_regions(majority, durable);
        let is_own_term = planted!(
            CommitOlderTerms,
            self.log.term_at(index) == Some(self.hard.term),
            else true
        );
        if index <= self.commit || !is_own_term {
            return;
        }
        let uncommitted = self.log.headers_from(self.commit.next());
        let committed: u64 = uncommitted
            .take_while(|header| header.index <= index)
            .map(cost_bytes)
            .sum();
        if let State::Leader(leading) = &mut self.state {
            leading.uncommitted_bytes = leading.uncommitted_bytes.saturating_sub(committed);
        }
        self.commit_to(index);
        self.replicate = true;
        self.leader_committed();
    }

    fn leader_committed(&mut self) {
        if self.step_down_if_removed() {
            return;
        }
        self.start_waiting_reads();
        self.maybe_promote();
    }

    pub(crate) fn tick_leader(&mut self) {
        let (now, id) = (self.now, self.id);
        let Some(leading) = self.leading() else {
            return;
        };
        let config = &self.log.config().config;
        let heard = leading.heard_quorum_at(id, config, now);
        if now.since_us(heard) > self.timing.election_timeout_max_us {
            // Clients must not wait for a leader without a quorum (dissertation, section 6.2).
            return self.become_follower(None);
        }
        if leading.heartbeat_at <= now {
            self.send_heartbeats();
            self.tick_regions();
            self.maybe_promote();
            self.consider_handover();
        }
        self.tick_leader_transfer();
        self.tick_peers();
    }

    fn tick_peers(&mut self) {
        let now = self.now;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        leading
            .peers
            .retain(|_, peer| peer.leaving_until.is_none_or(|until| now < until));
        let members: Vec<MemberId> = leading.peers.keys().copied().collect();
        for id in members {
            let State::Leader(leading) = &mut self.state else {
                return;
            };
            let Some(peer) = leading.peers.get_mut(&id) else {
                continue;
            };
            if peer
                .deadline(&self.timing)
                .is_none_or(|deadline| now < deadline)
            {
                continue;
            }
            self.replicate = true;
            if let Some(outgoing) = peer.tick(now, &self.timing, &self.log) {
                self.send_outgoing(id, outgoing);
            }
        }
    }

    pub(crate) fn leader_deadline(&self, leading: &Leading) -> Time {
        let config = &self.log.config().config;
        let heard = leading.heard_quorum_at(self.id, config, Time(u64::MAX));
        let quorum_lost = heard.plus_us(self.timing.election_timeout_max_us + 1);
        let peers = leading
            .peers
            .values()
            .filter_map(|peer| peer.deadline(&self.timing))
            .min();
        let leader_transfer = leading
            .leader_transfer
            .as_ref()
            .map(|transfer| transfer.deadline);
        [
            Some(leading.heartbeat_at),
            Some(quorum_lost),
            peers,
            leader_transfer,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(leading.heartbeat_at)
    }

    /// The connection to this member broke. Only a hint: it saves waiting for timeouts.
    pub fn peer_disconnected(&mut self, now: Time, peer: MemberId) {
        self.observe(now);
        if self.leader == Some(peer) {
            self.leader_disconnected();
        }
        self.forget_weight(peer);
        if let Some(leading) = self.leading_mut() {
            if let Some(peer) = leading.peers.get_mut(&peer) {
                peer.disconnected(now);
            }
            leading.reads.forget_member(peer);
        }
    }

    /// There is a connection to this member again: a leader probes it at once.
    pub fn peer_connected(&mut self, now: Time, peer: MemberId) {
        self.observe(now);
        if let Some(peer) = self.leading_mut().and_then(|l| l.peers.get_mut(&peer)) {
            peer.connected();
            self.replicate = true;
        }
    }

    /// Sets where that member's log shall start if it needs a base: because it lacks entries that
    /// this member has purged, or because its log is empty. The base has to be committed and in
    /// this member's log when it is used; otherwise this member's own base is sent. It holds for a
    /// configured member, until that has acknowledged it, and while this member leads.
    pub fn set_install_base(&mut self, member: MemberId, base: LogBase) {
        if let Some(peer) = self.leading_mut().and_then(|l| l.peers.get_mut(&member)) {
            peer.set_install_base(base);
            self.replicate = true;
        }
    }
}

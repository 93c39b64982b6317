//! The state machine. The rules live in the sibling modules, one per concern, each as an `impl
//! Core`. This file has what they share: the fields and the dispatch of messages.

use std::collections::{BTreeSet, VecDeque};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_planted::planted;

use crate::commands::{Counters, Progress};
use crate::durability::Durability;
use crate::effect::{Effect, RoleChange, RoleName, WriteOp, WriteTicket};
use crate::election::priority::{Deference, Priorities};
use crate::election::silence::Silence;
use crate::election::slow_votes::VoteRound;
use crate::election::succession::Succession;
use crate::membership::config::{Config, ConfigAt};
use crate::message::{Body, LogBase, Message};
use crate::params::{CoreParams, Limits, Recovered, Timing};
use crate::read_index::FollowerReads;
use crate::replication::leader::Leading;
use crate::replication::regions::VoterRegions;
use crate::tail::LogView;
use crate::types::{EntryId, HardState, LogIndex, MemberId, Seqno, Term, Time};
use crate::unsent_answers::Waiting;

/// One member's part of the protocol. Sans-IO: inputs say what happened, effects say what to do.
/// The crate's documentation has the driver's duties in order; `docs/protocol.md` draws the states.
/// Time must not go backwards.
#[derive(Debug)]
pub struct Core {
    pub(crate) id: MemberId,
    pub(crate) timing: Timing,
    pub(crate) limits: Limits,
    pub(crate) rng: SmallRng,
    pub(crate) now: Time,
    /// Current term and vote; durable once `vote_ticket` is.
    pub(crate) hard: HardState,
    /// Ticket of the latest write of `hard`; zero: what was recovered, which is durable.
    pub(crate) vote_ticket: WriteTicket,
    pub(crate) log: LogView,
    /// Commit index. Invariant: `base <= commit <= last`; never decreases.
    pub(crate) commit: LogIndex,
    pub(crate) state: State,
    pub(crate) leader: Option<MemberId>,
    /// The mark that a damaged log has to reach again (see [`crate::damaged_log`]); `None`: whole.
    pub(crate) repair: Option<EntryId>,
    /// The log up to here is known to be that of the current term's leader; zero at the start of
    /// each term. A leader does not use it.
    pub(crate) matched: LogIndex,
    /// Highest commit index that the current term's leader has sent. May be above the last entry.
    pub(crate) leader_commit: LogIndex,
    /// End of this member's promise: until then it votes only for a candidate that its leader
    /// ordered to stand. Survives changes of term.
    pub(crate) promise_until: Time,
    /// Time before which no message raises the term by a leap; see `election/mod.rs`.
    pub(crate) next_leap_at: Time,
    /// When to ask for an election (again). `None`: not before the own vote is durable or a leader
    /// heard.
    pub(crate) election_at: Option<Time>,
    pub(crate) silence: Silence,
    pub(crate) vote_round: VoteRound,
    /// A candidate that cannot win counts this learner among the voters. Set by
    /// `note_unwinnable_candidate`, until a leader is heard.
    pub(crate) may_stand_as_learner: bool,
    pub(crate) deference: Deference,
    pub(crate) priorities: Priorities,
    pub(crate) succession: Succession,
    pub(crate) durability: Durability,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) effects: VecDeque<Effect>,
    /// First entry of the log that no write effect covers yet: proposals gather until polled.
    unwritten_from: Option<LogIndex>,
    pub(crate) replicate: bool,
    published: RoleChange,
    pub(crate) eligible: BTreeSet<MemberId>,
    pub(crate) reads: FollowerReads,
    pub(crate) regions: VoterRegions,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
pub(crate) enum State {
    Follower,
    PreCandidate {
        /// Members that would vote for this one, itself included.
        consents: BTreeSet<MemberId>,
    },
    Candidate {
        /// Good as long as the term is the member's own.
        votes: BTreeSet<MemberId>,
        /// Members that would vote for this one in the next term, itself included; `None`: it does
        /// not ask, because its window is not over.
        consents: Option<BTreeSet<MemberId>>,
    },
    Leader(Box<Leading>),
}

impl Core {
    /// A member with what its disk holds. Polls and ticks may start at once.
    ///
    /// The only voter of a group becomes a candidate at once.
    ///
    /// # Panics
    ///
    /// If the id is zero, the timing is not in order (see [`Timing`]), or the recovered log
    /// contradicts the recovered term: the log layer refuses such a disk.
    pub fn new(params: CoreParams, recovered: Recovered, now: Time) -> Core {
        let CoreParams {
            id,
            timing,
            limits,
            seed,
        } = params;
        assert!(id != MemberId::NONE, "a member has an id");
        assert!(
            timing.promise_us < timing.election_timeout_min_us
                && timing.election_timeout_min_us < timing.election_timeout_max_us,
            "promise < shortest election timeout < longest: {timing:?}"
        );
        let repair = planted!(ForgetMark, recovered.repair, else None);
        let hard = HardState::new(
            recovered.vote.term,
            planted!(ForgetVote, recovered.vote.voted_for, else None),
        );
        let log = LogView::recover(recovered);
        assert!(
            repair.is_none_or(|until| until.term <= hard.term),
            "entries up to {repair:?} were held, but the vote record says {}",
            hard.term
        );
        assert!(
            log.last().term <= hard.term,
            "the log has an entry of term {}, but the vote record says {}",
            log.last().term,
            hard.term
        );
        let mut core = Core {
            id,
            limits,
            rng: SmallRng::seed_from_u64(seed),
            now,
            hard,
            vote_ticket: WriteTicket(0),
            commit: log.base().last.index,
            state: State::Follower,
            leader: None,
            repair,
            matched: LogIndex(0),
            leader_commit: LogIndex(0),
            promise_until: now,
            next_leap_at: now,
            election_at: None,
            silence: Silence::default(),
            vote_round: VoteRound::default(),
            may_stand_as_learner: false,
            deference: Deference::default(),
            priorities: Priorities::default(),
            succession: Succession::default(),
            durability: Durability::new(log.last().index),
            waiting: VecDeque::new(),
            effects: VecDeque::new(),
            unwritten_from: None,
            replicate: false,
            published: RoleChange {
                term: hard.term,
                role: RoleName::Follower,
                leader: None,
            },
            eligible: BTreeSet::new(),
            reads: FollowerReads::default(),
            regions: VoterRegions::default(),
            counters: Counters::default(),
            timing,
            log,
        };
        core.reads.seed(&mut core.rng);
        core.check_repaired();
        core.reset_election_timer();
        if core.may_stand() && core.log.config().config.is_sole_voter(id) {
            core.election_at = Some(now);
        }
        core
    }

    /// Appends with config entries need [`Core::handle_message_with`].
    pub fn handle_message(&mut self, now: Time, message: Message) {
        self.handle_message_with(now, message, &[]);
    }

    /// `configs` are the decoded payloads of the config entries in the message. An append with a
    /// config entry that is not among them is ignored and counted.
    pub fn handle_message_with(
        &mut self,
        now: Time,
        message: Message,
        configs: &[(LogIndex, Config)],
    ) {
        self.observe(now);
        let Message { from, to, .. } = message;
        if to != self.id || from == self.id || from == MemberId::NONE {
            self.counters.misaddressed += 1;
            return;
        }
        if !self.admit_term(&message) {
            return;
        }
        let term = message.term;
        match message.body {
            Body::PreVote { last } => self.handle_pre_vote(from, term, last),
            Body::PreVoteReply { granted } => self.handle_pre_vote_reply(from, term, granted),
            Body::Vote { last, transfer } => self.handle_vote(from, last, transfer),
            Body::VoteReply { granted } => self.handle_vote_reply(from, granted),
            Body::Append(append) => self.handle_append(from, append, configs),
            Body::AppendReply(reply) => self.handle_append_reply(from, reply),
            Body::Heartbeat {
                commit,
                sent_at,
                read_round,
            } => {
                self.handle_heartbeat(from, commit, sent_at, read_round);
            }
            Body::HeartbeatReply {
                sent_at,
                read_round,
            } => {
                self.handle_heartbeat_reply(from, sent_at, read_round);
            }
            Body::CommitNotice { commit } => self.handle_commit_notice(from, commit),
            Body::InstallBase { base, sent_at } => self.handle_install_base(from, base, sent_at),
            Body::TimeoutNow => self.handle_timeout_now(from),
            Body::Read { id } => self.handle_read(from, id),
            Body::ReadReply { id, index, seqno } => {
                self.handle_read_reply(from, id, index, seqno);
            }
        }
    }

    /// Does nothing when called too early.
    pub fn handle_tick(&mut self, now: Time) {
        self.observe(now);
        self.tick_reads();
        match &self.state {
            State::Leader(_) => self.tick_leader(),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => {
                if self.election_at.is_some_and(|at| at <= now) && !self.waits_after_standstill() {
                    self.election_timeout();
                }
            }
        }
    }

    /// The write of this ticket, and every earlier one, is on stable storage.
    ///
    /// # Panics
    ///
    /// If the ticket was never issued.
    pub fn persisted(&mut self, now: Time, ticket: WriteTicket) {
        self.observe(now);
        let was_durable = self.durability.covers(self.vote_ticket);
        self.durability.persisted(ticket);
        self.check_repaired();
        self.release_waiting();
        if !was_durable && self.durability.covers(self.vote_ticket) {
            self.vote_durable();
        }
        self.advance_commit();
    }

    /// The log was purged and begins after `base` now.
    ///
    /// # Panics
    ///
    /// If the prefix was not committed, or `base` is not in the log.
    pub fn purged(&mut self, base: LogBase) {
        if base.last.index <= self.log.base().last.index {
            return;
        }
        assert!(
            base.last.index <= self.commit,
            "purged up to {}, but only {} is committed",
            base.last.index,
            self.commit
        );
        debug_assert_eq!(
            self.log
                .config_at(base.last.index)
                .map(|config| config.index),
            Some(base.config.index),
            "the base names the configuration in force at it"
        );
        self.log.purge(base);
        self.replicate = true;
    }

    /// The next effect to perform, in order; `None`: all are polled. Proposed entries and
    /// followers' windows become writes and messages only here, so that what gathered since travels
    /// together.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.effects.is_empty() {
            self.write_gathered();
            self.replicate();
        }
        self.effects.pop_front()
    }

    /// When the driver has to call [`Core::handle_tick`] at the latest; `None`: no timer is set.
    pub fn poll_timeout(&self) -> Option<Time> {
        let role = match &self.state {
            State::Leader(leading) => Some(self.leader_deadline(leading)),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => {
                self.election_at
            }
        };
        role.into_iter().chain(self.reads_deadline()).min()
    }

    pub fn id(&self) -> MemberId {
        self.id
    }

    pub fn term(&self) -> Term {
        self.hard.term
    }

    pub fn role(&self) -> RoleName {
        match self.state {
            State::Follower => RoleName::Follower,
            State::PreCandidate { .. } => RoleName::PreCandidate,
            State::Candidate { .. } => RoleName::Candidate,
            State::Leader(_) => RoleName::Leader,
        }
    }

    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.state, State::Leader(_))
    }

    /// Whether this member leads and has committed an entry of its own term. Only then does it know
    /// the group's commit index (Raft, section 8).
    pub fn is_ready_leader(&self) -> bool {
        self.is_leader() && self.log.term_at(self.commit) == Some(self.hard.term)
    }

    /// Entries up to here are committed. May be above [`Core::durable_index`]: any majority
    /// suffices, with or without this member.
    pub fn commit_index(&self) -> LogIndex {
        self.commit
    }

    /// This member's own disk holds the current log up to here.
    pub fn durable_index(&self) -> LogIndex {
        self.durability.index()
    }

    pub fn last_id(&self) -> EntryId {
        self.log.last()
    }

    /// Seqno at an entry, if that is still in memory.
    pub fn seqno_at(&self, index: LogIndex) -> Option<Seqno> {
        self.log.seqno_at(index)
    }

    /// Seqno at the last entry: the next ordered action gets the one after it.
    pub fn last_seqno(&self) -> Seqno {
        self.log.last_seqno()
    }

    pub fn config(&self) -> &ConfigAt {
        self.log.config()
    }

    pub fn base(&self) -> &LogBase {
        self.log.base()
    }

    /// The configuration in force at an index of the log (or its base).
    pub fn config_at(&self, index: LogIndex) -> Option<&ConfigAt> {
        self.log.config_at(index)
    }

    /// The term of an entry of the log (or its base).
    pub fn term_at(&self, index: LogIndex) -> Option<Term> {
        self.log.term_at(index)
    }

    /// Progress of the other members, as the leader knows it; empty on members that do not lead.
    pub fn progress(&self) -> impl Iterator<Item = Progress> + '_ {
        let peers = self.leading().map(|leading| leading.peers.iter());
        peers
            .into_iter()
            .flatten()
            .map(|(id, peer)| peer.snapshot(*id))
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn observe(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub(crate) fn leading(&self) -> Option<&Leading> {
        match &self.state {
            State::Leader(leading) => Some(leading),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => None,
        }
    }

    pub(crate) fn leading_mut(&mut self) -> Option<&mut Leading> {
        match &mut self.state {
            State::Leader(leading) => Some(leading),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => None,
        }
    }

    pub(crate) fn random_us(&mut self, from_us: u64, to_us: u64) -> u64 {
        self.rng.random_range(from_us..=to_us.max(from_us))
    }

    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn message(&self, to: MemberId, body: Body) -> Message {
        Message::new(self.id, to, self.hard.term, body)
    }

    /// Sends now. Only for messages that promise nothing that is not durable.
    pub(crate) fn send(&mut self, to: MemberId, body: Body) {
        let message = self.message(to, body);
        self.emit(Effect::Send(message));
    }

    /// Emits a storage effect, after the entries that gathered before it.
    pub(crate) fn write(&mut self, op: WriteOp) -> WriteTicket {
        self.write_gathered();
        self.write_now(op)
    }

    fn write_now(&mut self, op: WriteOp) -> WriteTicket {
        let ticket = self.durability.issue();
        self.emit(Effect::Write { ticket, op });
        ticket
    }

    pub(crate) fn write_vote(&mut self) {
        self.vote_ticket = self.write(WriteOp::Vote(self.hard));
        self.vote_round.vote_written(self.now);
    }

    /// The entries from here to the end of the log have to be written.
    pub(crate) fn gather_from(&mut self, first: LogIndex) {
        self.unwritten_from.get_or_insert(first);
    }

    pub(crate) fn write_gathered(&mut self) {
        let Some(first) = self.unwritten_from.take() else {
            return;
        };
        let headers: Vec<_> = self.log.headers_from(first).copied().collect();
        assert_eq!(
            headers.first().map(|header| header.index),
            Some(first),
            "unwritten headers are in memory"
        );
        let ticket = self.write_now(WriteOp::Append(headers));
        self.durability.appended(ticket, self.log.last().index);
    }

    /// Raises the commit index, and removes old headers from memory.
    pub(crate) fn commit_to(&mut self, index: LogIndex) {
        assert!(
            index <= self.log.last().index,
            "cannot commit {index} beyond the log"
        );
        if index <= self.commit {
            return;
        }
        self.commit = index;
        match self.effects.back_mut() {
            Some(Effect::Committed { index: last }) => *last = index,
            _ => self.emit(Effect::Committed { index }),
        }
        self.trim();
    }

    pub(crate) fn trim(&mut self) {
        let unwritten = self.unwritten_from.unwrap_or(LogIndex(u64::MAX));
        self.log
            .trim(self.commit.min(unwritten), self.limits.tail_headers_max);
    }

    pub(crate) fn publish_role(&mut self) {
        let change = RoleChange {
            term: self.hard.term,
            role: self.role(),
            leader: self.leader,
        };
        if change != self.published {
            self.published = change;
            self.emit(Effect::Role(change));
        }
    }
}

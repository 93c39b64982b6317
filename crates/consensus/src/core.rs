//! The state machine: its state, its inputs and outputs. The rules live in the sibling modules, one
//! per concern: [`crate::election`], `replication` (leader), `following` (everybody else),
//! `membership`, `transfer`, `preference`, `read`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::commands::{Counters, Progress};
use crate::durability::Durability;
use crate::effect::{Effect, RoleChange, RoleName, WriteOp, WriteTicket};
use crate::election::priority::{Precedence, Preferences};
use crate::membership::config::{Config, ConfigAt};
use crate::message::{AppendOutcome, AppendReply, Body, LogBase, Message};
use crate::params::{CoreParams, InstallBases, Limits, Recovered, Timing};
use crate::read_index::FollowerReads;
use crate::replication::leader::Leading;
use crate::tail::LogView;
use crate::types::{EntryId, HardState, LogIndex, MemberId, Seqno, Term, Time};

/// Answers that may wait for the disk at once. A peer that sends more gets none for the excess.
const WAITING_MAX: usize = 4096;

/// One member's part of the protocol. Sans-IO: it is told what happened and says what to do.
///
/// The methods are of four classes:
///
/// - inputs: [`Core::handle_message`], [`Core::handle_message_with`], [`Core::handle_tick`],
///   [`Core::persisted`], [`Core::peer_connected`], [`Core::peer_disconnected`], [`Core::purged`];
/// - commands: [`Core::bootstrap`], [`Core::propose`], [`Core::change_config`],
///   [`Core::transfer_leadership`], [`Core::read`], [`Core::cancel_read`],
///   [`Core::set_install_base`], [`Core::set_eligible`], [`Core::set_leader_preference`],
///   [`Core::set_leader_weights`];
/// - outputs: [`Core::poll_effect`] until `None`, then [`Core::poll_timeout`];
/// - getters.
///
/// All effects have to be polled before the next message is handled; several commands or completions
/// may go before one round of polling, and then share one write and one message per follower. Time
/// must not go backwards.
///
/// ```text
///             timeout, hint            majority would             majority did
///   Follower ---------------> PreCandidate ------------> Candidate ------------> Leader
///     ^  ^ ^--- leader heard -----|                          |                     |
///     |  '---------- leader heard, higher term --------------'                     |
///     '------------- higher term, quorum lost, removed ----------------------------'
/// ```
#[derive(Debug)]
pub struct Core {
    pub(crate) id: MemberId,
    pub(crate) timing: Timing,
    pub(crate) limits: Limits,
    pub(crate) rng: SmallRng,
    /// Latest time seen.
    pub(crate) now: Time,
    /// Current term and vote; durable once `vote_ticket` is.
    pub(crate) hard: HardState,
    pub(crate) vote_ticket: WriteTicket,
    pub(crate) log: LogView,
    /// At or above the base, at or below the last entry. Only ever grows.
    pub(crate) commit: LogIndex,
    pub(crate) state: State,
    /// The leader of the current term, if known.
    pub(crate) leader: Option<MemberId>,
    /// See [`crate::damaged_log`].
    pub(crate) repair: Option<EntryId>,
    /// The log up to here is known to be that of the current term's leader (not used by a leader).
    pub(crate) matched: LogIndex,
    /// Highest commit index heard from the current term's leader.
    pub(crate) leader_commit: LogIndex,
    /// No vote for another leader before. Survives changes of term: a promise is a promise.
    pub(crate) promise_until: Time,
    /// When to ask for an election (again). Not used by a leader.
    pub(crate) election_at: Option<Time>,
    /// Somebody counts this learner among the voters and lacks what it has: it may stand. Until a leader is heard.
    pub(crate) is_called: bool,
    pub(crate) precedence: Precedence,
    pub(crate) preferences: Preferences,
    pub(crate) durability: Durability,
    waiting: VecDeque<Waiting>,
    effects: VecDeque<Effect>,
    /// First entry of the log that no write effect covers yet: proposals gather until polled.
    unwritten_from: Option<LogIndex>,
    /// Something may have to be sent to a follower.
    pub(crate) replicate: bool,
    published: RoleChange,
    pub(crate) eligible: BTreeSet<MemberId>,
    pub(crate) install_bases: InstallBases,
    pub(crate) reads: FollowerReads,
    pub(crate) counters: Counters,
}

/// What a member is, with the data that exists only then.
#[derive(Debug)]
pub(crate) enum State {
    Follower,
    /// Members that would vote for us.
    PreCandidate {
        granted: BTreeSet<MemberId>,
    },
    /// Members that did. Our own vote counts once `own_vote` is durable.
    Candidate {
        granted: BTreeSet<MemberId>,
        own_vote: WriteTicket,
    },
    Leader(Box<Leading>),
}

/// An answer that may not leave before a write is durable. Void when the term changes.
#[derive(Debug)]
struct Waiting {
    until: WriteTicket,
    term: Term,
    what: Answer,
}

#[derive(Debug)]
enum Answer {
    Message(Message),
    /// "Durable up to `end`", or further if that is so when it leaves.
    Durable {
        to: MemberId,
        end: LogIndex,
        sent_at: Time,
    },
}

impl Core {
    /// A member with what its disk holds. Polls and ticks may start at once.
    ///
    /// A restarted voter has forgotten whom it heard from, so it waits one promise before it votes
    /// (Raft dissertation, section 6.4.1, on leases: what was promised must survive the restart).
    /// The only voter of a group stands right after that. Not before: a leader that voted itself out
    /// leads until that is committed (section 4.2.2), so even the only voter may have made a promise to
    /// somebody else.
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
        let (mut hard, mut repair) = (recovered.vote, recovered.repair);
        if synod_planted::is(synod_planted::Bug::ForgetMark) {
            repair = None;
        }
        if synod_planted::is(synod_planted::Bug::ForgetVote) {
            hard.voted_for = None;
        }
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
        let promise_until = match synod_planted::is(synod_planted::Bug::NoPromiseAfterRestart) {
            true => now,
            false => now.plus_us(timing.promise_us),
        };
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
            promise_until,
            election_at: None,
            is_called: false,
            precedence: Precedence::default(),
            preferences: Preferences::default(),
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
            install_bases: BTreeMap::new(),
            reads: FollowerReads::default(),
            counters: Counters::default(),
            timing,
            log,
        };
        core.reads.seed(&mut core.rng);
        core.check_repaired();
        core.reset_election_timer();
        if core.may_stand() && core.log.config().config.is_sole_voter(id) {
            core.election_at = Some(promise_until);
        }
        core
    }

    // --- inputs -----------------------------------------------------------------------------

    /// A message of a peer came. For appends with config entries use [`Core::handle_message_with`].
    pub fn handle_message(&mut self, now: Time, message: Message) {
        self.handle_message_with(now, message, &[]);
    }

    /// A message of a peer came; `configs` are the decoded payloads of the config entries in it. An
    /// append with a config entry that is not among them is dropped.
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
            Body::InstallBase { base, sent_at } => self.handle_install_base(from, base, sent_at),
            Body::TimeoutNow => self.handle_timeout_now(from),
            Body::Read { id } => self.handle_read(from, id),
            Body::ReadReply { id, index, seqno } => self.handle_read_reply(id, index, seqno),
        }
    }

    /// Time passed. Harmless when early.
    pub fn handle_tick(&mut self, now: Time) {
        self.observe(now);
        self.tick_reads();
        match &self.state {
            State::Leader(_) => self.tick_leader(),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => {
                if self.election_at.is_some_and(|at| at <= now) {
                    self.election_timeout();
                }
            }
        }
    }

    /// The write of this name, and every earlier one, is on stable storage.
    pub fn persisted(&mut self, now: Time, ticket: WriteTicket) {
        self.observe(now);
        self.durability.persisted(ticket);
        self.check_repaired();
        self.release_waiting();
        self.own_vote_durable();
        self.advance_commit();
    }

    /// The driver purged the log's prefix: the log starts after `base` now.
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

    // --- outputs ----------------------------------------------------------------------------

    /// The next thing to do, in order. Entries proposed and followers' windows are turned into
    /// writes and messages only here, so that whatever gathered since travels together.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.effects.is_empty() {
            self.write_gathered();
            self.replicate();
        }
        self.effects.pop_front()
    }

    /// When [`Core::handle_tick`] has to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        let role = match &self.state {
            State::Leader(leading) => Some(self.leader_deadline(leading)),
            State::Follower | State::PreCandidate { .. } | State::Candidate { .. } => {
                self.election_at
            }
        };
        role.into_iter().chain(self.reads_deadline()).min()
    }

    // --- getters ----------------------------------------------------------------------------

    /// Who this is.
    pub fn id(&self) -> MemberId {
        self.id
    }

    /// The current term.
    pub fn term(&self) -> Term {
        self.hard.term
    }

    /// The current role. Learners are followers.
    pub fn role(&self) -> RoleName {
        match self.state {
            State::Follower => RoleName::Follower,
            State::PreCandidate { .. } => RoleName::PreCandidate,
            State::Candidate { .. } => RoleName::Candidate,
            State::Leader(_) => RoleName::Leader,
        }
    }

    /// The leader of the current term, if known.
    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// Whether this member leads.
    pub fn is_leader(&self) -> bool {
        matches!(self.state, State::Leader(_))
    }

    /// Whether this member leads and has committed an entry of its own term, so that it knows the
    /// group's commit index (Raft, section 8).
    pub fn is_ready_leader(&self) -> bool {
        self.is_leader() && self.log.term_at(self.commit) == Some(self.hard.term)
    }

    /// Entries up to here cannot be lost. May be ahead of [`Core::durable_index`]: a majority
    /// suffices, whoever is in it.
    pub fn commit_index(&self) -> LogIndex {
        self.commit
    }

    /// This member's own disk holds the current log up to here.
    pub fn durable_index(&self) -> LogIndex {
        self.durability.index()
    }

    /// The last entry.
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

    /// The configuration in force.
    pub fn config(&self) -> &ConfigAt {
        self.log.config()
    }

    /// Where the log starts.
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

    /// What a leader knows of the other members; empty for everybody else.
    pub fn progress(&self) -> impl Iterator<Item = Progress> + '_ {
        let peers = self.leading().map(|leading| leading.peers.iter());
        peers
            .into_iter()
            .flatten()
            .map(|(id, peer)| peer.snapshot(*id))
    }

    /// Whether leadership is being handed over.
    pub fn transfer_in_progress(&self) -> bool {
        self.leading()
            .is_some_and(|leading| leading.transfer.is_some())
    }

    /// What was dropped since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    // --- shared by the rules ----------------------------------------------------------------

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
        Message {
            from: self.id,
            to,
            term: self.hard.term,
            body,
        }
    }

    /// Sends now. Only for what promises nothing that is not durable.
    pub(crate) fn send(&mut self, to: MemberId, body: Body) {
        let message = self.message(to, body);
        self.emit(Effect::Send(message));
    }

    /// Sends once the current term and vote are durable.
    pub(crate) fn send_when_term_durable(&mut self, to: MemberId, body: Body) {
        let message = self.message(to, body);
        self.wait(self.vote_ticket, Answer::Message(message));
    }

    /// Like [`Core::send_when_term_durable`], for a message with a term of its own.
    pub(crate) fn answer_when_term_durable(&mut self, message: Message) {
        self.wait(self.vote_ticket, Answer::Message(message));
    }

    /// Tells the leader "durable up to `end`" as soon as that is true (and so is the term).
    pub(crate) fn acknowledge(&mut self, to: MemberId, end: LogIndex, sent_at: Time) {
        let stored = end <= self.durability.index();
        let until = if stored {
            self.vote_ticket
        } else {
            self.durability.issued()
        };
        self.wait(until, Answer::Durable { to, end, sent_at });
    }

    fn wait(&mut self, until: WriteTicket, what: Answer) {
        if self.durability.covers(until) {
            self.release(what);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Waiting {
                until,
                term: self.hard.term,
                what,
            });
        } else {
            self.counters.waiting_overflow += 1;
        }
    }

    fn release_waiting(&mut self) {
        for answer in std::mem::take(&mut self.waiting) {
            if answer.term != self.hard.term {
                continue;
            }
            if self.durability.covers(answer.until) {
                self.release(answer.what);
            } else {
                self.waiting.push_back(answer);
            }
        }
    }

    /// An acknowledgement names what is durable of the log of this term's leader, and replaces an
    /// earlier one that was not polled yet.
    fn release(&mut self, what: Answer) {
        match what {
            Answer::Message(message) => self.emit(Effect::Send(message)),
            Answer::Durable { to, end, sent_at } => {
                let index = self.durability.index().min(self.matched);
                if index < end {
                    // The log was reset meanwhile; the reset has an acknowledgement of its own.
                    return;
                }
                let outcome = AppendOutcome::Durable { index };
                let message = self.message(to, Body::AppendReply(AppendReply { outcome, sent_at }));
                match self.effects.back_mut() {
                    Some(Effect::Send(last)) if supersedes(&message, last) => *last = message,
                    _ => self.emit(Effect::Send(message)),
                }
            }
        }
    }

    /// Names and emits a storage effect, after everything gathered before it.
    pub(crate) fn write(&mut self, op: WriteOp) -> WriteTicket {
        self.write_gathered();
        self.write_now(op)
    }

    fn write_now(&mut self, op: WriteOp) -> WriteTicket {
        let ticket = self.durability.issue();
        self.emit(Effect::Write { ticket, op });
        ticket
    }

    pub(crate) fn write_vote(&mut self) -> WriteTicket {
        self.vote_ticket = self.write(WriteOp::Vote(self.hard));
        self.vote_ticket
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

    /// Moves the commit index and lets go of old headers.
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

    /// Tells the driver when term, role or leader changed.
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

/// Whether an acknowledgement says all that another one does.
fn supersedes(new: &Message, old: &Message) -> bool {
    let (Body::AppendReply(new_reply), Body::AppendReply(old_reply)) = (&new.body, &old.body)
    else {
        return false;
    };
    let durable = |reply: &AppendReply| matches!(reply.outcome, AppendOutcome::Durable { .. });
    new.to == old.to
        && new.term == old.term
        && durable(new_reply)
        && durable(old_reply)
        && new_reply.sent_at >= old_reply.sent_at
}

//! Elections: terms, pre-votes, votes, promises. A leader exists per term at most once, because
//! every voter has one vote per term and stores it before it answers. [`priority`] delays
//! candidacies, and [`succession`] hands leadership over; neither changes who may vote for whom.
//! [`silence`] says when a leader counts as lost, [`slow_votes`] how long members wait for the
//! votes of a term. Sources: Raft (Ongaro and Ousterhout, 2014), sections 5.1, 5.2 and 5.4.1;
//! Ongaro's dissertation, sections 3.4, 3.6, 4.1, 4.2.3 (disruptive servers) and 9.6 (pre-vote).

pub(crate) mod priority;
pub(crate) mod silence;
pub(crate) mod slow_votes;
pub(crate) mod succession;

use std::collections::BTreeSet;

use synod_planted::planted;

use crate::core::{Core, State};
use crate::effect::RoleName;
use crate::election::priority::Deference;
use crate::message::{AppendOutcome, AppendReply, Body, Message};
use crate::quorum::majority;
use crate::replication::leader::Leading;
use crate::types::{EntryId, HardState, LogIndex, MemberId, Term};

/// Terms above the own one that are no leap. More than elections come to while a member is away for
/// a moment; a member that was away for longer makes a leap.
const NEAR_TERMS: u64 = 1 << 10;

/// The farthest leap that any message may bring: as far as 32 forced primaries in a row.
const LEAP_TERMS: u64 = 1 << 40;

/// No leap leads to a higher term: as many terms again are left for elections.
const LEAP_MAX: Term = Term(1 << 62);

/// The highest term to which a leader may bring a member in one leap. Millions of forced primaries
/// are needed to get there, and there is room for millions more.
const LEADER_LEAP_MAX: Term = Term(1 << 60);

/// No message may name a higher term.
const TERM_MAX: Term = Term(u64::MAX / 2);

impl Core {
    /// Applies the rules for terms that hold for all messages. False: the message needs no further
    /// handling.
    ///
    /// A higher term is adopted (Raft, section 5.1), except:
    /// - one that is too far above the own one ([`Core::may_name_term`]);
    /// - a pre-vote and the consent to one name a term that no member is in yet (dissertation 9.6);
    /// - a vote request within the promise to a leader is ignored (dissertation 4.2.3), unless the
    ///   leader itself may have asked for it (3.10);
    /// - a leader ignores answers of members that are not in its configuration.
    pub(crate) fn admit_term(&mut self, message: &Message) -> bool {
        if !self.may_name_term(message) {
            self.counters.far_terms += 1;
            return false;
        }
        match &message.body {
            Body::PreVote { .. } | Body::PreVoteReply { granted: true } => return true,
            Body::Vote { transfer, .. }
                if message.term > self.hard.term
                    && self.is_promised()
                    && !(*transfer && self.may_be_ordered(message.from, message.term)) =>
            {
                self.counters.promised += 1;
                return false;
            }
            Body::AppendReply(_) | Body::HeartbeatReply { .. } | Body::Read { .. }
                if self
                    .leading()
                    .is_some_and(|l| !l.peers.contains_key(&message.from)) =>
            {
                self.counters.strangers += 1;
                return false;
            }
            Body::PreVoteReply { .. }
            | Body::Vote { .. }
            | Body::VoteReply { .. }
            | Body::Append(_)
            | Body::AppendReply(_)
            | Body::Heartbeat { .. }
            | Body::HeartbeatReply { .. }
            | Body::CommitNotice { .. }
            | Body::InstallBase { .. }
            | Body::TimeoutNow
            | Body::Read { .. }
            | Body::ReadReply { .. } => {}
        }
        if message.term > self.hard.term {
            self.note_leap(message.term);
            self.adopt_term(message.term);
        }
        if message.term < self.hard.term {
            self.counters.stale += 1;
            self.answer_stale(message);
            return false;
        }
        true
    }

    /// Answers a leader or candidate of an older term with this member's term (Raft, section 5.1).
    fn answer_stale(&mut self, message: &Message) {
        let last = self.log.last();
        let rejected = |refused: LogIndex, sent_at| {
            let outcome = AppendOutcome::Rejected {
                refused,
                hint: last,
            };
            Body::AppendReply(AppendReply { outcome, sent_at })
        };
        let body = match &message.body {
            Body::Append(append) => rejected(append.prev.index, append.sent_at),
            Body::InstallBase { base, sent_at } => rejected(base.last.index, *sent_at),
            Body::Heartbeat {
                sent_at,
                read_round,
                ..
            } => Body::HeartbeatReply {
                sent_at: *sent_at,
                read_round: *read_round,
            },
            Body::Vote { .. } => Body::VoteReply { granted: false },
            Body::PreVote { .. }
            | Body::PreVoteReply { .. }
            | Body::VoteReply { .. }
            | Body::AppendReply(_)
            | Body::HeartbeatReply { .. }
            | Body::CommitNotice { .. }
            | Body::TimeoutNow
            | Body::Read { .. }
            | Body::ReadReply { .. } => return,
        };
        self.send_when_term_durable(message.from, body);
    }

    fn adopt_term(&mut self, term: Term) {
        self.enter_term(HardState::new(term, None));
        self.become_follower(None);
    }

    /// Enters a higher term. Knowledge of the old term's leader is void in it; the promise is not.
    fn enter_term(&mut self, hard: HardState) {
        assert!(
            hard.term > self.hard.term,
            "from term {} to {}",
            self.hard.term,
            hard.term
        );
        self.hard = hard;
        self.matched = LogIndex(0);
        self.leader_commit = LogIndex(0);
        self.write_vote();
    }

    pub(crate) fn become_follower(&mut self, leader: Option<MemberId>) {
        let was_leader = std::mem::replace(&mut self.state, State::Follower);
        self.leader = leader;
        self.may_stand_as_learner = false;
        self.reset_election_timer();
        if let State::Leader(leading) = was_leader {
            self.reclaim_reads(leading.reads);
        }
        self.publish_role();
        self.ask_again();
    }

    /// Whether the present leader may have ordered this candidacy (dissertation, section 3.10). The
    /// order goes to a voter, which stands in the next term, and a leader knows whether it has
    /// given one. In doubt the answer is no: such a vote only waits for the promise to end.
    fn may_be_ordered(&self, candidate: MemberId, term: Term) -> bool {
        let is_voter = self.log.config().config.is_voter(candidate);
        let is_next = term == self.hard.term.next();
        let gave_order = |leading: &Leading| leading.has_ordered_election;
        is_voter && is_next && self.leading().is_none_or(gave_order)
    }

    /// Whether a vote for another member than the current leader would break a promise. A leader
    /// has promised to itself; it stops leading when it loses its quorum.
    fn is_promised(&self) -> bool {
        self.now < self.promise_until || self.is_leader()
    }

    /// False if the sender cannot lead the current term, because another member does.
    pub(crate) fn heard_leader(&mut self, from: MemberId) -> bool {
        let impossible = self.is_leader() || self.leader.is_some_and(|leader| leader != from);
        if impossible {
            self.counters.malformed += 1;
            return false;
        }
        self.vote_round.decided();
        self.promise_until = self.now.plus_us(self.timing.promise_us);
        if self.leader.is_none() || self.role() != RoleName::Follower {
            self.become_follower(Some(from));
        } else {
            self.reset_election_timer();
        }
        true
    }

    pub(crate) fn reset_election_timer(&mut self) {
        self.deference = Deference::default();
        let (min, max) = (
            self.timing.election_timeout_min_us,
            self.timing.election_timeout_max_us,
        );
        self.election_in(min, max);
        self.begin_silence();
    }

    pub(crate) fn election_in(&mut self, min_us: u64, max_us: u64) {
        self.election_at = Some(self.now.plus_us(self.random_us(min_us, max_us)));
    }

    /// Whether this member may become a candidate. A voter by its *own* latest configuration may
    /// (dissertation, section 4.1), unless its log is under repair; other candidates would only
    /// disturb. A member that this configuration removes from the voters may, too, until that is
    /// committed. Without the leader that appended the change, it may be the only member with a log
    /// that others can vote for (section 4.2.2). It does not count itself. Nor does a learner that
    /// may stand by [`Core::note_unwinnable_candidate`].
    pub(crate) fn may_stand(&self) -> bool {
        let latest = self.log.config();
        let is_voter = || {
            let before = self.log.config_at(latest.index.prev());
            let was_voter = before.is_some_and(|before| before.config.is_voter(self.id));
            latest.config.is_voter(self.id) || latest.index > self.commit && was_voter
        };
        self.repairing_until().is_none() && (self.may_stand_as_learner || is_voter())
    }

    /// A member asks for a vote that it cannot get, because its log ends at `last` and this
    /// member's log is longer. If this member is a learner, it may stand itself from now on: the
    /// candidate counts it as a voter, by a configuration that this member lacks and that was never
    /// committed.
    ///
    /// Example. The leader of three voters promotes a learner, and loses leadership before any
    /// member receives that entry. The next leader writes an entry to the learner only, and is
    /// lost. Two voters of three are left. The first leader counts four voters and needs three
    /// votes, but the learner has the longer log and refuses its vote. The other voter's log is too
    /// short as well. Now only the learner can be elected: by its own configuration, without
    /// counting itself (dissertation, section 4.2.2). It hands leadership over as soon as it has
    /// committed an entry ([`Core::step_down_if_removed`]).
    fn note_unwinnable_candidate(&mut self, last: EntryId) {
        let is_whole = self.repairing_until().is_none();
        let is_free = self.leader.is_none() && !self.is_promised();
        let is_member = self.log.config().config.members.contains_key(&self.id);
        if last < self.log.last() && is_whole && is_free && is_member && !self.may_stand() {
            self.may_stand_as_learner = true;
            self.election_in(self.timing.heartbeat_us, 3 * self.timing.heartbeat_us);
        }
    }

    /// No leader was heard for too long, or a round of votes or pre-votes has failed.
    pub(crate) fn election_timeout(&mut self) {
        if self.succession.stalled_disk.is_some() {
            // Another term would only wait for the same slow disk.
            return self.election_in(self.timing.promise_us, 2 * self.timing.promise_us);
        }
        if self.may_stand() {
            if !self.defer_to_higher_priority() {
                self.pre_campaign();
            }
        } else {
            // A learner, or a member under repair: wait for a leader, without a timer.
            self.become_follower(None);
            self.election_at = None;
        }
    }

    /// The connection to the leader broke, so its process is probably dead. Ask for pre-votes as
    /// soon as this member's own promise has ended, dispersed a little against split votes.
    pub(crate) fn leader_disconnected(&mut self) {
        let wait = self.promise_until.since_us(self.now);
        let jitter = self.random_us(0, self.timing.heartbeat_us);
        let at = self.now.plus_us(wait + jitter);
        self.election_at = self.election_at.map(|planned| planned.min(at));
        self.deference.is_hinted = true;
    }

    /// Asks whether an election could be won, without raising the term (dissertation, section 9.6).
    /// That disturbs no leader, so it is repeated at short intervals. A candidate that asks keeps
    /// the votes of its term, and is elected if the missing ones arrive first.
    fn pre_campaign(&mut self) {
        if self.log.config().config.is_sole_voter(self.id) {
            return self.campaign(false);
        }
        let own = BTreeSet::from([self.id]);
        match &mut self.state {
            State::Candidate { consents, .. } => {
                if consents.replace(own).is_none() {
                    self.vote_round.lost();
                }
            }
            State::Follower | State::PreCandidate { .. } | State::Leader(_) => {
                self.state = State::PreCandidate { consents: own };
            }
        }
        self.leader = None;
        self.election_in(self.timing.heartbeat_us, 3 * self.timing.heartbeat_us);
        self.publish_role();
        let last = self.log.last();
        for to in self.other_voters() {
            let mut message = self.message(to, Body::PreVote { last });
            message.term = self.hard.term.next();
            self.emit(crate::Effect::Send(message));
        }
    }

    /// The requests leave, and the own vote counts, once term and vote are durable (Raft, section
    /// 5.2 and figure 2, "persistent state").
    pub(crate) fn campaign(&mut self, transfer: bool) {
        self.campaign_in(self.hard.term.next(), transfer);
    }

    pub(crate) fn campaign_in(&mut self, term: Term, transfer: bool) {
        self.enter_term(HardState::new(term, Some(self.id)));
        self.state = State::Candidate {
            votes: BTreeSet::new(),
            consents: None,
        };
        self.leader = None;
        self.election_at = None;
        self.publish_role();
        let last = self.log.last();
        for to in self.other_voters() {
            self.send_when_term_durable(to, Body::Vote { last, transfer });
        }
    }

    fn other_voters(&self) -> Vec<MemberId> {
        self.log
            .config()
            .config
            .voters()
            .filter(|id| *id != self.id)
            .collect()
    }

    /// Grants a pre-vote if it would grant the vote, and awaits no leader of its own term. Ignores
    /// configurations, as [`Core::handle_vote`] does.
    pub(crate) fn handle_pre_vote(&mut self, from: MemberId, term: Term, last: EntryId) {
        let awaits_elected = planted!(ConsentWhileVoting, self.awaits_elected(), else false);
        let is_free = !self.is_promised() && !awaits_elected && !self.leader_shows_life();
        let granted = term > self.hard.term && self.is_up_to_date(last) && is_free;
        let mut message = self.message(from, Body::PreVoteReply { granted });
        if granted {
            message.term = term;
        } else {
            self.note_unwinnable_candidate(last);
            self.stop_deferring_to(from, last);
        }
        self.answer_when_term_durable(message);
    }

    pub(crate) fn handle_pre_vote_reply(&mut self, from: MemberId, term: Term, granted: bool) {
        let consents = match &mut self.state {
            State::PreCandidate { consents } => consents,
            State::Candidate {
                consents: Some(consents),
                ..
            } => consents,
            State::Candidate { consents: None, .. } | State::Follower | State::Leader(_) => return,
        };
        if !granted || term != self.hard.term.next() {
            return;
        }
        consents.insert(from);
        if is_majority(consents, self.log.config().config.voters()) {
            self.campaign(false);
        }
    }

    /// Gives one vote per term, for a log at least as complete as this member's, not against a
    /// promise. The voter ignores its configuration. The candidate may be a member whose promotion
    /// this one has not received yet, or this one a learner that does not know of its own promotion
    /// (dissertation, section 4.1, "servers process incoming RPC requests without consulting their
    /// current configurations"). The *candidate* counts by its own configuration.
    pub(crate) fn handle_vote(&mut self, from: MemberId, last: EntryId, transfer: bool) {
        let voted_for = self.hard.voted_for;
        let free = planted!(VoteTwice, voted_for.is_none_or(|member| member == from), else true);
        // Where the request has raised the term, `may_be_ordered` has judged it, too.
        let is_voter = self.log.config().config.is_voter(from);
        let kept = transfer && is_voter || !self.is_promised();
        let granted = free && kept && !self.is_leader() && self.is_up_to_date(last);
        if granted {
            if voted_for.is_none() {
                self.hard.voted_for = Some(from);
                self.write_vote();
            }
            self.state = State::Follower;
            self.may_stand_as_learner = false;
            self.reset_election_timer();
            if self.leader.is_none() && !self.durability.covers(self.vote_ticket) {
                // The vote leaves first.
                self.election_at = None;
            }
            self.publish_role();
        }
        self.send_when_term_durable(from, Body::VoteReply { granted });
    }

    pub(crate) fn handle_vote_reply(&mut self, from: MemberId, granted: bool) {
        let State::Candidate { votes, consents } = &mut self.state else {
            return;
        };
        if planted!(DropLateVotes, granted, else granted && consents.is_none()) {
            votes.insert(from);
            self.count_votes();
        }
    }

    /// Elects this candidate if a majority has voted for it, itself included once its own vote is
    /// durable: without that it could vote for another member of this term after a crash.
    fn count_votes(&mut self) {
        let State::Candidate { votes, .. } = &self.state else {
            return;
        };
        let mut votes = votes.clone();
        votes.insert(self.id);
        let own = self.durability.covers(self.vote_ticket);
        if own && is_majority(&votes, self.log.config().config.voters()) {
            self.become_leader();
        }
    }

    /// Becomes the leader of the term: at most one member ever does (Raft, election safety). Its
    /// first entry is a no-op, because only entries of its own term commit by counting (sections
    /// 5.4.2, 8).
    fn become_leader(&mut self) {
        assert_eq!(
            self.hard.voted_for,
            Some(self.id),
            "a leader voted for itself"
        );
        self.vote_round.decided();
        let mut leading = Leading::new(self.now);
        leading.take_over(&self.log, self.commit);
        self.state = State::Leader(Box::new(leading));
        self.leader = Some(self.id);
        self.election_at = None;
        self.sync_peers();
        self.publish_role();
        self.append_no_op();
        self.send_heartbeats();
        self.adopt_reads();
    }
}

/// Limits on the terms in messages: which a message may name, and which this member adopts.
///
/// So no message uses up the terms (E1 of `docs/protocol.md`):
///
/// - up to `NEAR_TERMS` above the own term: as elections raise it;
/// - further, up to `LEAP_TERMS` above the own term and up to `LEAP_MAX`: a *leap*. A forced
///   primary makes one ([`crate::Core::force`]), and so does a repaired log of which the promises
///   are lost;
/// - as far as `LEADER_LEAP_MAX`, if a leader says so (an append, a heartbeat, or a base): a
///   member that was down while others were forced again and again follows at once.
///
/// Leaps are rare, so a member makes at most one within the shortest election timeout. A peer that
/// names ever higher terms would have to do so for months, and a leader that a member has to follow
/// repeats itself. A message that is refused here counts as lost.
impl Core {
    /// Whether a message may name its term. A pre-vote and the consent to one do not raise the term
    /// of the member that receives them.
    fn may_name_term(&self, message: &Message) -> bool {
        let term = message.term;
        if term == Term(0) || term > TERM_MAX {
            return false;
        }
        match message.body {
            Body::PreVote { .. } | Body::PreVoteReply { granted: true } => true,
            _ if !self.is_leap(term) => true,
            Body::Append(_) | Body::Heartbeat { .. } | Body::InstallBase { .. }
                if term <= LEADER_LEAP_MAX =>
            {
                self.may_leap()
            }
            _ => {
                let farthest = self.hard.term.0.saturating_add(LEAP_TERMS);
                term <= LEAP_MAX && term.0 <= farthest && self.may_leap()
            }
        }
    }

    fn is_leap(&self, term: Term) -> bool {
        term.0 > self.hard.term.0.saturating_add(NEAR_TERMS)
    }

    fn may_leap(&self) -> bool {
        self.now >= self.next_leap_at
    }

    fn note_leap(&mut self, term: Term) {
        if self.is_leap(term) {
            self.next_leap_at = self.now.plus_us(self.timing.election_timeout_min_us);
        }
    }
}

fn is_majority(granted: &BTreeSet<MemberId>, voters: impl Iterator<Item = MemberId>) -> bool {
    let (mut count, mut votes) = (0, 0);
    for voter in voters {
        count += 1;
        votes += usize::from(granted.contains(&voter));
    }
    votes >= majority(count)
}

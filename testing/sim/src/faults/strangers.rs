//! Members with bad intentions: processes outside the group that send valid messages of every kind.
//!
//! They have read the traffic of the group. Each message is one that was under way a moment ago,
//! sent again in the name of a process that has no right to it, and altered to be as tempting as it
//! can be: of a later term, of another member, from another session. None may change anything; see
//! `invariants/strangers.rs`.
//!
//! Join is left out: a process that asks to join in the right way is a member, and credentials
//! decide who can ask. Strangers draw from a generator of their own, so a run with them has the
//! same events as the run without.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{Body, LogIndex, MemberId, Message, Term};
use synod_member::Event as Input;
use synod_wire::{JoinReply, PeerMessage};

use crate::invariants::strangers::MemberState;
use crate::world::World;

/// One message of a stranger for so many of the group's.
const SHARE: u32 = 300;
/// Messages remembered.
const OVERHEARD_MAX: usize = 60;
/// Highest term that a core accepts.
const TERM_MAX: u64 = u64::MAX / 2;

/// Processes outside the group.
pub(crate) struct Strangers {
    rng: SmallRng,
    overheard: VecDeque<PeerMessage>,
    pub(crate) is_silent: bool,
}

impl Strangers {
    pub(crate) fn new(seed: u64) -> Strangers {
        Strangers {
            rng: SmallRng::seed_from_u64(seed ^ 0x57a4_6e55),
            overheard: VecDeque::new(),
            is_silent: false,
        }
    }

    /// A message is on its way. Whether a stranger speaks now.
    fn overhear(&mut self, message: &PeerMessage) -> bool {
        if self.is_silent {
            return false;
        }
        if self.overheard.len() >= OVERHEARD_MAX {
            self.overheard.pop_front();
        }
        self.overheard.push_back(message.clone());
        self.rng.random_ratio(1, SHARE)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.rng.random_range(0..from.len().max(1));
        from.get(at).copied()
    }

    /// A message for `to`, in the name of `name`.
    fn message(&mut self, name: MemberId, to: MemberId) -> Option<PeerMessage> {
        let at = self.rng.random_range(0..self.overheard.len().max(1));
        let message = match self.overheard.get(at)?.clone() {
            // Joins are answered; what answers them is as good for a stranger.
            PeerMessage::Join(_) => PeerMessage::JoinReply(JoinReply::NotLeader {
                leader: Some((name, "stranger".to_owned())),
            }),
            other => other,
        };
        Some(self.forge(message, name, to))
    }

    fn forge(&mut self, message: PeerMessage, name: MemberId, to: MemberId) -> PeerMessage {
        match message {
            PeerMessage::Consensus(message) => {
                PeerMessage::Consensus(self.forge_consensus(message, name, to))
            }
            PeerMessage::Append { message, payloads } => PeerMessage::Append {
                message: self.forge_consensus(message, name, to),
                payloads,
            },
            PeerMessage::Fed { message, payloads } => PeerMessage::Fed {
                message: self.forge_consensus(message, name, to),
                payloads,
            },
            PeerMessage::Feed(mut order) => {
                order.learner = name;
                PeerMessage::Feed(order)
            }
            PeerMessage::Propose(mut propose) => {
                propose.origin.member = name;
                propose.origin.number += self.rng.random_range(0..9);
                PeerMessage::Propose(propose)
            }
            PeerMessage::Report(mut report) => {
                report.member = name;
                PeerMessage::Report(report)
            }
            PeerMessage::Status(mut status) => {
                status.purge_limit = LogIndex(u64::MAX);
                PeerMessage::Status(status)
            }
            PeerMessage::StateRequest(mut request) => {
                request.id += self.rng.random_range(0..3);
                if self.rng.random() {
                    request.joiner = name;
                }
                PeerMessage::StateRequest(request)
            }
            PeerMessage::StateOffer(mut offer) => {
                (offer.donor, offer.accepted) = (name, true);
                PeerMessage::StateOffer(offer)
            }
            PeerMessage::Introduction(mut introduction) => {
                introduction.index.0 += self.rng.random_range(0..99);
                for introduced in &mut introduction.members {
                    introduced.member = MemberId(introduced.member.0 ^ name.0);
                }
                PeerMessage::Introduction(introduction)
            }
            PeerMessage::AppliedPosition(mut position) => {
                position.lag_us = u64::MAX;
                PeerMessage::AppliedPosition(position)
            }
            PeerMessage::Survivor(mut report) => {
                (report.last.term, report.leader) = (Term(TERM_MAX), Some(name));
                PeerMessage::Survivor(report)
            }
            PeerMessage::Pace(mut pace) => {
                (pace.rate, pace.slowest) = (1, name);
                PeerMessage::Pace(pace)
            }
            PeerMessage::Leave { .. } if self.rng.random() => PeerMessage::LeaveReply,
            other @ (PeerMessage::ProposalRefused { .. }
            | PeerMessage::Join(_)
            | PeerMessage::JoinReply(_)
            | PeerMessage::Leave { .. }
            | PeerMessage::LeaveReply
            | PeerMessage::StateResult(_)
            | PeerMessage::OutcomeReport(_)
            | PeerMessage::OutcomeQuery { .. }
            | PeerMessage::AppliedQuery { .. }
            | PeerMessage::Command { .. }
            | PeerMessage::CommandAnswer { .. }
            | PeerMessage::VoteOrder { .. }
            | PeerMessage::SettingOrder { .. }
            | PeerMessage::SettingRefused { .. }
            | PeerMessage::Ping { .. }
            | PeerMessage::Pong { .. }
            | PeerMessage::Fetch(_)
            | PeerMessage::Fetched(_)
            | PeerMessage::Presence(_)) => other,
        }
    }

    fn forge_consensus(&mut self, message: Message, name: MemberId, to: MemberId) -> Message {
        let term = match self.rng.random_range(0..4) {
            0 => message.term,
            1 => Term(message.term.0 + 1),
            2 => Term(message.term.0 + self.rng.random_range(0..1000)),
            _ => Term(TERM_MAX),
        };
        let body = match message.body {
            Body::PreVote { last } | Body::Vote { last, .. } if self.rng.random() => Body::Vote {
                last,
                transfer: true,
            },
            Body::PreVoteReply { .. } | Body::VoteReply { .. } => Body::VoteReply { granted: true },
            Body::HeartbeatReply { .. } if self.rng.random_ratio(1, 3) => Body::TimeoutNow,
            other => other,
        };
        Message::new(name, to, term, body)
    }
}

impl World {
    /// Strangers read what is under way, and sometimes one of them speaks.
    pub(crate) fn overheard(&mut self, message: &PeerMessage) {
        if self.strangers.overhear(message) && !self.is_liveness_phase {
            self.stranger_speaks();
        }
    }

    fn stranger_speaks(&mut self) {
        let up = self.up();
        let Some(to) = self.strangers.pick(&up) else {
            return;
        };
        let names = self.names_of_strangers(to);
        let Some(name) = self.strangers.pick(&names) else {
            return;
        };
        let Some(message) = self.strangers.message(name, to) else {
            return;
        };
        let what = format!("{message:?} of {name}");
        let input = if self.strangers.rng.random_ratio(1, 20) {
            Input::DuplicateIdentity {
                by: name,
                text: "a stranger says so".to_owned(),
            }
        } else {
            Input::Peer {
                from: name,
                certificate: None,
                group: self.process(to).driver.group(),
                message,
            }
        };
        let before = MemberState::of(self.process(to));
        let now = self.local(to);
        self.process(to).driver.handle(now, input);
        let after = MemberState::of(self.process(to));
        let effects = self.take_effects(to);
        let checked = before.is_untouched(to, &after, &effects, &what);
        self.judge(checked);
        self.coverage.count("message of a stranger");
    }

    /// Names in which a stranger may speak to `to`: no member's, its own, and those of members that
    /// it knows to be removed for good.
    fn names_of_strangers(&mut self, to: MemberId) -> Vec<MemberId> {
        let mut names = vec![MemberId(u64::MAX - 7), MemberId(u64::MAX / 2), to];
        let is_lost = |id: &MemberId| self.nodes.get(id).is_some_and(|node| node.gone);
        let lost: Vec<MemberId> = self.nodes.keys().copied().filter(is_lost).collect();
        let core = self.core(to);
        let has = |at: Option<&synod_consensus::ConfigAt>, id: &MemberId| {
            at.is_some_and(|at| at.config.members.contains_key(id))
        };
        let committed = core.config_at(core.commit_index());
        let follows = core.leader();
        let is_settled = follows.is_some_and(|leader| has(Some(core.config()), &leader));
        let is_removed = |id: &MemberId| {
            let is_sent_the_log = core.progress().any(|peer| peer.member == *id);
            !has(committed, id) && !has(Some(core.config()), id) && !is_sent_the_log
        };
        let removed: Vec<MemberId> = lost.into_iter().filter(is_removed).collect();
        if is_settled && !self.process(to).is_seeking {
            names.extend(removed);
        }
        names
    }
}

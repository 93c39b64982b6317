//! The table of rights: the right that each message needs, and the senders that have it. A
//! configured member is trusted: a member that sends what its state does not allow is late, not
//! hostile, and the handler of the message decides by terms and sessions. A process outside the
//! group is refused everything but the question whether it may join. A voter has to vote for, and
//! follow, members that its own configuration does not name yet (Ongaro's dissertation, sections
//! 4.1 and 4.2.2). They are those that configured members introduce; see [`super::known_peers`].

use synod_consensus::{Body, MemberId};
use synod_planted::planted;
use synod_wire::PeerMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Everyone,
    Configured,
    /// A member to which a leader sends its log; or an introduced one, which lets the origin of an
    /// entry know that it is durable.
    Follower,
    /// A member that may lead now or later.
    MayLead,
    /// The leader that this member follows; any that may lead while this member follows none.
    Leader,
    /// The leader that this member follows, and no other.
    FollowedLeader,
    Asked,
    Introducer,
}

/// Knowledge of this member about a sender. Several of these may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sender {
    /// In the latest configuration of this member's log, or in the latest that is committed.
    pub(super) is_configured: bool,
    /// Removed a moment ago: this leader still sends it the log.
    pub(super) is_leaving: bool,
    /// Named by a configured member, by a configuration beyond this member's commit index.
    pub(super) is_introduced: bool,
    /// This member has asked it to join, and has not found its group since.
    pub(super) is_asked: bool,
    pub(super) is_followed: bool,
    /// This member follows or is a leader.
    pub(super) has_leader: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Allowed,
    /// Its sender is known and has no right to it now, as after a change of leader: it is ignored.
    Late,
    /// Its sender may not send it: it is counted, and changes nothing.
    Refused,
}

impl Sender {
    pub(super) fn is_known(self) -> bool {
        self.is_configured || self.is_introduced || self.is_asked || self.is_followed
    }

    pub(super) fn judge(self, right: Right) -> Judgement {
        let is_known = self.is_known();
        let (is_allowed, is_late) = match right {
            Right::Everyone => (true, false),
            Right::Configured => (self.is_configured, false),
            Right::Follower => {
                let follows = self.is_configured || self.is_leaving || self.is_introduced;
                (follows, is_known)
            }
            Right::MayLead => (planted!(StrangerMayVote, is_known, else true), false),
            Right::Leader => {
                let leads = self.is_followed || is_known && !self.has_leader;
                (leads, is_known)
            }
            Right::FollowedLeader => (self.is_followed, is_known),
            Right::Asked => (self.is_asked || self.is_followed, is_known),
            Right::Introducer => (self.is_configured || self.is_asked, is_known),
        };
        match (is_allowed, is_late) {
            (true, _) => Judgement::Allowed,
            (false, true) => Judgement::Late,
            (false, false) => Judgement::Refused,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    PreVote,
    PreVoteReply,
    Vote,
    VoteReply,
    Append,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    CommitNotice,
    InstallBase,
    TimeoutNow,
    Read,
    ReadReply,
    Propose,
    ProposalRefused,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    Report,
    Status,
    OutcomeReport,
    OutcomeQuery,
    /// From a joiner, for itself.
    OwnStateRequest,
    /// For another member: the leader chose this one as the donor.
    StateRequest,
    StateOffer,
    StateResult,
    Introduction,
    AppliedPosition,
    Pace,
    AppliedQuery,
    Command,
    CommandAnswer,
    VoteOrder,
    WritersOrder,
    WritersRefused,
    Survivor,
    Feed,
    Fed,
    Ping,
    Pong,
    Fetch,
    Fetched,
    Presence,
}

impl Kind {
    pub(super) fn of(from: MemberId, message: &PeerMessage) -> Kind {
        match message {
            PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => {
                Kind::of_body(&message.body)
            }
            PeerMessage::Propose(_) => Kind::Propose,
            PeerMessage::ProposalRefused { .. } => Kind::ProposalRefused,
            PeerMessage::Join(_) => Kind::Join,
            PeerMessage::JoinReply(_) => Kind::JoinReply,
            PeerMessage::Leave { .. } => Kind::Leave,
            PeerMessage::LeaveReply => Kind::LeaveReply,
            PeerMessage::Report(_) => Kind::Report,
            PeerMessage::Status(_) => Kind::Status,
            PeerMessage::OutcomeReport(_) => Kind::OutcomeReport,
            PeerMessage::OutcomeQuery { .. } => Kind::OutcomeQuery,
            PeerMessage::StateRequest(request) if request.joiner == from => Kind::OwnStateRequest,
            PeerMessage::StateRequest(_) => Kind::StateRequest,
            PeerMessage::StateOffer(_) => Kind::StateOffer,
            PeerMessage::StateResult(_) => Kind::StateResult,
            PeerMessage::Introduction(_) => Kind::Introduction,
            PeerMessage::AppliedPosition(_) => Kind::AppliedPosition,
            PeerMessage::Pace(_) => Kind::Pace,
            PeerMessage::AppliedQuery { .. } => Kind::AppliedQuery,
            PeerMessage::Command { .. } => Kind::Command,
            PeerMessage::CommandAnswer { .. } => Kind::CommandAnswer,
            PeerMessage::VoteOrder { .. } => Kind::VoteOrder,
            PeerMessage::WritersOrder { .. } => Kind::WritersOrder,
            PeerMessage::WritersRefused { .. } => Kind::WritersRefused,
            PeerMessage::Survivor(_) => Kind::Survivor,
            PeerMessage::Feed(_) => Kind::Feed,
            PeerMessage::Fed { .. } => Kind::Fed,
            PeerMessage::Ping { .. } => Kind::Ping,
            PeerMessage::Pong { .. } => Kind::Pong,
            PeerMessage::Fetch(_) => Kind::Fetch,
            PeerMessage::Fetched(_) => Kind::Fetched,
            PeerMessage::Presence(_) => Kind::Presence,
        }
    }

    fn of_body(body: &Body) -> Kind {
        match body {
            Body::PreVote { .. } => Kind::PreVote,
            Body::PreVoteReply { .. } => Kind::PreVoteReply,
            Body::Vote { .. } => Kind::Vote,
            Body::VoteReply { .. } => Kind::VoteReply,
            Body::Append(_) => Kind::Append,
            Body::AppendReply(_) => Kind::AppendReply,
            Body::Heartbeat { .. } => Kind::Heartbeat,
            Body::HeartbeatReply { .. } => Kind::HeartbeatReply,
            Body::CommitNotice { .. } => Kind::CommitNotice,
            Body::InstallBase { .. } => Kind::InstallBase,
            Body::TimeoutNow => Kind::TimeoutNow,
            Body::Read { .. } => Kind::Read,
            Body::ReadReply { .. } => Kind::ReadReply,
        }
    }

    pub(super) fn right(self) -> Right {
        match self {
            Kind::Join => Right::Everyone,
            Kind::PreVoteReply
            | Kind::VoteReply
            | Kind::Read
            | Kind::Leave
            | Kind::Report
            | Kind::AppliedPosition
            | Kind::AppliedQuery
            | Kind::Command
            | Kind::CommandAnswer
            | Kind::WritersOrder
            | Kind::Survivor
            | Kind::Ping
            | Kind::Pong
            | Kind::Fetch
            | Kind::Fetched
            | Kind::OutcomeReport
            | Kind::OwnStateRequest => Right::Configured,
            Kind::Propose => planted!(StrangerMayPropose, Right::Configured, else Right::Everyone),
            // A learner may not have the entry yet that configures its feeder.
            Kind::AppendReply | Kind::HeartbeatReply | Kind::Fed => Right::Follower,
            Kind::PreVote
            | Kind::Vote
            | Kind::Append
            | Kind::Heartbeat
            | Kind::CommitNotice
            | Kind::InstallBase
            | Kind::TimeoutNow
            | Kind::ReadReply
            | Kind::StateOffer
            | Kind::StateResult => Right::MayLead,
            Kind::ProposalRefused
            | Kind::LeaveReply
            | Kind::Status
            | Kind::Pace
            | Kind::Presence
            | Kind::WritersRefused
            | Kind::OutcomeQuery => Right::Leader,
            Kind::StateRequest | Kind::VoteOrder | Kind::Feed => Right::FollowedLeader,
            Kind::JoinReply => Right::Asked,
            Kind::Introduction => Right::Introducer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that operators and auditors read.
    const DOCUMENT: &str = include_str!("../../../../../../docs/rights.md");

    const KINDS: [Kind; 44] = [
        Kind::PreVote,
        Kind::PreVoteReply,
        Kind::Vote,
        Kind::VoteReply,
        Kind::Append,
        Kind::AppendReply,
        Kind::Heartbeat,
        Kind::HeartbeatReply,
        Kind::CommitNotice,
        Kind::InstallBase,
        Kind::TimeoutNow,
        Kind::Read,
        Kind::ReadReply,
        Kind::Propose,
        Kind::ProposalRefused,
        Kind::Join,
        Kind::JoinReply,
        Kind::Leave,
        Kind::LeaveReply,
        Kind::Report,
        Kind::Status,
        Kind::OutcomeReport,
        Kind::OutcomeQuery,
        Kind::OwnStateRequest,
        Kind::StateRequest,
        Kind::StateOffer,
        Kind::StateResult,
        Kind::Introduction,
        Kind::AppliedPosition,
        Kind::Pace,
        Kind::AppliedQuery,
        Kind::Command,
        Kind::CommandAnswer,
        Kind::VoteOrder,
        Kind::WritersOrder,
        Kind::WritersRefused,
        Kind::Survivor,
        Kind::Feed,
        Kind::Fed,
        Kind::Ping,
        Kind::Pong,
        Kind::Fetch,
        Kind::Fetched,
        Kind::Presence,
    ];

    /// Senders in the order of the document's columns: configured, the leader that is followed,
    /// removed a moment ago, introduced, asked, unknown.
    fn columns(has_leader: bool) -> [Sender; 6] {
        let sender = Sender {
            has_leader,
            ..Sender::default()
        };
        [
            Sender {
                is_configured: true,
                ..sender
            },
            Sender {
                is_followed: true,
                has_leader: true,
                ..sender
            },
            Sender {
                is_leaving: true,
                ..sender
            },
            Sender {
                is_introduced: true,
                ..sender
            },
            Sender {
                is_asked: true,
                ..sender
            },
            sender,
        ]
    }

    fn cell(kind: Kind, column: usize) -> &'static str {
        let judge = |has_leader| columns(has_leader)[column].judge(kind.right());
        match (judge(true), judge(false)) {
            (Judgement::Allowed, Judgement::Allowed) => "yes",
            (Judgement::Late, Judgement::Allowed) => "leaderless",
            (Judgement::Late, Judgement::Late) => "late",
            (Judgement::Refused, Judgement::Refused) => "-",
            other => panic!("{kind:?} in column {column}: {other:?}"),
        }
    }

    #[test]
    fn document_has_the_table() {
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for kind in KINDS {
            let cells: Vec<&str> = (0..6).map(|column| cell(kind, column)).collect();
            let (cells, name) = (cells.join(" | "), format!("{kind:?}"));
            match rows.iter_mut().find(|(of, _)| *of == cells) {
                Some((_, names)) => names.push(name),
                None => rows.push((cells, vec![name])),
            }
        }
        let line = |(cells, names): &(String, Vec<String>)| {
            let names = names.join(", ");
            format!("| {names} | {cells} |\n")
        };
        let table: String = rows.iter().map(line).collect();
        assert!(DOCUMENT.contains(&table), "docs/rights.md lacks\n{table}");
    }

    #[test]
    fn every_kind_is_in_the_table_once() {
        assert!(KINDS.is_sorted());
        assert_eq!(KINDS.len(), Kind::Presence as usize + 1);
    }

    #[test]
    fn unknown_process_may_ask_to_join_and_nothing_else() {
        for kind in KINDS {
            for has_leader in [true, false] {
                let [.., unknown] = columns(has_leader);
                let expected = match kind {
                    Kind::Join => Judgement::Allowed,
                    _ => Judgement::Refused,
                };
                assert_eq!(unknown.judge(kind.right()), expected, "{kind:?}");
            }
        }
    }
}

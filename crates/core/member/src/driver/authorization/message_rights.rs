//! The table of rights: the right that each message needs, and the senders that have it. A
//! configured member is trusted: a member that sends what its state does not allow is late, not
//! hostile, and the handler of the message decides by terms and sessions. A process outside the
//! group is refused everything but the question whether it may join. A voter has to vote for, and
//! follow, members that its own configuration does not name yet (Ongaro's dissertation, sections
//! 4.1 and 4.2.2). They are those that configured members introduce; see
//! [`super::unconfigured_peers`].

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

macro_rules! kinds {
    (
        Body: { $($body:ident: $body_right:expr,)* }
        PeerMessage: { $($(#[$doc:meta])* $message:ident: $right:expr,)* }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind {
            $($body,)*
            $($(#[$doc])* $message,)*
            /// From a joiner, for itself.
            OwnStateRequest,
        }

        impl Kind {
            #[cfg(test)]
            const ALL: &[Kind] = &[$(Kind::$body,)* $(Kind::$message,)* Kind::OwnStateRequest];

            pub(super) fn of(from: MemberId, message: &PeerMessage) -> Kind {
                match message {
                    PeerMessage::Consensus(inner) | PeerMessage::Append { message: inner, .. } => {
                        match &inner.body {
                            $(Body::$body { .. } => Kind::$body,)*
                        }
                    }
                    PeerMessage::StateRequest(request) if request.joiner == from => {
                        Kind::OwnStateRequest
                    }
                    $(PeerMessage::$message { .. } => Kind::$message,)*
                }
            }

            pub(super) fn right(self) -> Right {
                match self {
                    $(Kind::$body => $body_right,)*
                    $(Kind::$message => $right,)*
                    Kind::OwnStateRequest => Right::Configured,
                }
            }
        }
    };
}

kinds! {
    Body: {
        PreVote: Right::MayLead,
        PreVoteReply: Right::Configured,
        Vote: Right::MayLead,
        VoteReply: Right::Configured,
        Append: Right::MayLead,
        AppendReply: Right::Follower,
        Heartbeat: Right::MayLead,
        HeartbeatReply: Right::Follower,
        CommitNotice: Right::MayLead,
        InstallBase: Right::MayLead,
        TimeoutNow: Right::MayLead,
        Read: Right::Configured,
        ReadReply: Right::MayLead,
    }
    PeerMessage: {
        Propose: planted!(StrangerMayPropose, Right::Configured, else Right::Everyone),
        ProposalRefused: Right::Leader,
        Join: Right::Everyone,
        JoinReply: Right::Asked,
        Leave: Right::Configured,
        LeaveReply: Right::Leader,
        Report: Right::Configured,
        Status: Right::Leader,
        OutcomeReport: Right::Configured,
        OutcomeQuery: Right::Leader,
        /// For another member: the leader chose this one as the donor.
        StateRequest: Right::FollowedLeader,
        StateOffer: Right::MayLead,
        StateResult: Right::MayLead,
        Introduction: Right::Introducer,
        AppliedPosition: Right::Configured,
        Pace: Right::Leader,
        AppliedQuery: Right::Configured,
        Command: Right::Configured,
        CommandAnswer: Right::Configured,
        VoteOrder: Right::FollowedLeader,
        SettingOrder: Right::Configured,
        SettingRefused: Right::Leader,
        Survivor: Right::Configured,
        Feed: Right::FollowedLeader,
        /// A learner may not have the entry yet that configures its feeder.
        Fed: Right::Follower,
        Ping: Right::Configured,
        Pong: Right::Configured,
        Fetch: Right::Configured,
        Fetched: Right::Configured,
        Presence: Right::Leader,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that operators and auditors read.
    const DOCUMENT: &str = include_str!("../../../../../../docs/rights.md");

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
        for &kind in Kind::ALL {
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
    fn unknown_process_may_ask_to_join_and_nothing_else() {
        for &kind in Kind::ALL {
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

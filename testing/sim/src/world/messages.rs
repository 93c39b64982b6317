//! Kinds of messages for the trace: number, name and index of each message between members.
//!
//! The number is hashed, so it never changes. The name is for people. A new message gets the next
//! free number.

use synod_consensus::{AppendOutcome, Body, LogIndex, Message};
use synod_wire::PeerMessage;

use crate::trace::MessageKind;

/// Makes the function and the list of all kinds from one table.
macro_rules! kinds {
    (
        consensus { $($body:pat => ($body_number:literal, $body_name:literal),)* }
        others { $($message:pat => ($number:literal, $name:literal),)* }
    ) => {
        /// Names of all kinds.
        pub(crate) const KINDS: &[&str] = &[$($body_name,)* $($name,)*];

        /// Number and name of a message for the trace.
        pub(crate) fn kind_of(message: &PeerMessage) -> MessageKind {
            let (number, name) = match message {
                PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => {
                    match &message.body {
                        $($body => ($body_number, $body_name),)*
                    }
                }
                $($message => ($number, $name),)*
            };
            MessageKind { number, name }
        }
    };
}

kinds! {
    consensus {
        Body::PreVote { .. } => (1, "pre-vote"),
        Body::PreVoteReply { .. } => (2, "pre-vote reply"),
        Body::Vote { .. } => (3, "vote"),
        Body::VoteReply { granted: true } => (4, "vote granted"),
        Body::VoteReply { granted: false } => (5, "vote refused"),
        Body::Append(_) => (6, "append"),
        Body::AppendReply(_) => (7, "append reply"),
        Body::Heartbeat { .. } => (8, "heartbeat"),
        Body::HeartbeatReply { .. } => (9, "heartbeat reply"),
        Body::CommitNotice { .. } => (28, "commit notice"),
        Body::InstallBase { .. } => (10, "install base"),
        Body::TimeoutNow => (11, "timeout now"),
        Body::Read { .. } => (12, "read"),
        Body::ReadReply { .. } => (13, "read reply"),
    }
    others {
        PeerMessage::Propose(_) => (14, "propose"),
        PeerMessage::ProposalRefused { .. } => (15, "proposal refused"),
        PeerMessage::Join(_) => (16, "join"),
        PeerMessage::JoinReply(_) => (17, "join reply"),
        PeerMessage::Leave { .. } => (18, "leave"),
        PeerMessage::LeaveReply => (19, "leave reply"),
        PeerMessage::Report(_) => (20, "report"),
        PeerMessage::Status(_) => (21, "status"),
        PeerMessage::StateRequest(_) => (22, "state request"),
        PeerMessage::StateOffer(_) => (23, "state offer"),
        PeerMessage::StateResult(_) => (24, "state result"),
        PeerMessage::OutcomeReport(_) => (25, "outcome report"),
        PeerMessage::OutcomeQuery { .. } => (26, "outcome query"),
        PeerMessage::Introduction(_) => (27, "introduction"),
        PeerMessage::AppliedPosition(_) => (29, "applied position"),
        PeerMessage::Pace(_) => (30, "pace"),
        PeerMessage::AppliedQuery { .. } => (31, "applied query"),
        PeerMessage::Command { .. } => (32, "command"),
        PeerMessage::CommandAnswer { .. } => (33, "command answer"),
        PeerMessage::VoteOrder { .. } => (34, "vote order"),
        PeerMessage::SettingOrder { .. } => (35, "setting order"),
        PeerMessage::SettingRefused { .. } => (36, "setting refused"),
        PeerMessage::Survivor(_) => (37, "survivor"),
        PeerMessage::Feed(_) => (38, "feed"),
        PeerMessage::Fed { .. } => (39, "fed append"),
        PeerMessage::Ping { .. } => (40, "ping"),
        PeerMessage::Pong { .. } => (41, "pong"),
        PeerMessage::Fetch(_) => (42, "fetch"),
        PeerMessage::Fetched(_) => (43, "fetched"),
        PeerMessage::Presence(_) => (44, "presence"),
    }
}

/// The consensus message inside, if it is one.
pub(crate) fn protocol(message: &PeerMessage) -> Option<&Message> {
    match message {
        PeerMessage::Consensus(message)
        | PeerMessage::Append { message, .. }
        | PeerMessage::Fed { message, .. } => Some(message),
        _ => None,
    }
}

/// Whether the protocol makes up for the loss of this message by itself.
pub(crate) fn is_repeated(message: &PeerMessage) -> bool {
    protocol(message).is_some() || matches!(message, PeerMessage::Feed(_))
}

/// The log index that a message is about; zero if it is about none.
pub(crate) fn index_of(message: &PeerMessage) -> LogIndex {
    match protocol(message).map(|message| &message.body) {
        Some(Body::Append(append)) => append.entries.last().map_or(append.prev.index, |e| e.index),
        Some(Body::AppendReply(reply)) => match reply.outcome {
            AppendOutcome::Durable { index } | AppendOutcome::PayloadMissing { index } => index,
            AppendOutcome::Rejected { hint, .. } => hint.index,
        },
        Some(Body::Heartbeat { commit, .. } | Body::CommitNotice { commit }) => *commit,
        Some(Body::InstallBase { base, .. }) => base.last.index,
        _ => LogIndex(0),
    }
}

//! No vote and no acknowledgement leaves a member before what it promises is durable there.
//!
//! Checked for every message that a driver sends, against the member's disk model.

use synod_consensus::{AppendOutcome, Body, HardState, Message};

use super::{Checked, require};
use crate::member::disk_model::LogImage;

/// A message is about to leave a member that has written `written`; its disk holds `durable`.
pub(crate) fn may_leave(message: &Message, written: &LogImage, durable: &LogImage) -> Checked {
    let HardState { term, voted_for } = durable.vote;
    let in_term = || {
        require(
            term == message.term,
            "no answer before its term is durable",
            || format!("{message:?} leaves, but the disk has term {term}"),
        )
    };
    match &message.body {
        Body::Vote { .. } => {
            let own = (term, voted_for) == (message.term, Some(message.from));
            require(own, "no candidacy before the own vote is durable", || {
                format!("{message:?} leaves, but the disk has {:?}", durable.vote)
            })
        }
        Body::VoteReply { granted: true } => {
            let voted = (term, voted_for) == (message.term, Some(message.to));
            require(voted, "no vote before it is durable", || {
                format!("{message:?} leaves, but the disk has {:?}", durable.vote)
            })
        }
        Body::AppendReply(reply) => {
            in_term()?;
            let AppendOutcome::Durable { index } = reply.outcome else {
                return Ok(());
            };
            let stored = durable.last().index >= index
                && (index < written.base.index || durable.id_at(index) == written.id_at(index));
            require(stored, "no acknowledgement before it is durable", || {
                let (has, wants) = (durable.last(), written.id_at(index));
                format!("{message:?} leaves for {wants:?}, but the disk ends at {has}")
            })
        }
        Body::HeartbeatReply { .. } => in_term(),
        Body::PreVote { .. }
        | Body::PreVoteReply { .. }
        | Body::VoteReply { granted: false }
        | Body::Append(_)
        | Body::Heartbeat { .. }
        | Body::CommitNotice { .. }
        | Body::InstallBase { .. }
        | Body::TimeoutNow
        | Body::Read { .. }
        | Body::ReadReply { .. } => Ok(()),
    }
}

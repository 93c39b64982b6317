//! Orders of operators, given to the group by way of this member.

use std::thread;
use std::time::{Duration, Instant};

use synod_admin::outlook::Outlook;
use synod_admin::protocol::{Answer, Done, Reason, Reply, Request};
use synod_node::{self as node, Command, LeaderWeight, LogIndex, Node, NodeStatus, RefusalReason};

use crate::status;

/// Reason for a member that is in no group.
pub const NOT_CONNECTED: &str = "this server is not connected to a group: see its error log";

const NO_UPSTREAM: &str = "this member keeps no binlog of an upstream. On a machine with a relay \
                           of one, name its log directory with --dir. A relay of a group has no \
                           more to say than 'synod status'";

/// Longest wait of an order for the group: less than clients wait for the answer.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// Longest wait of an answer for this member's own log to have the change that the leader has
/// committed, and the time between two looks.
const KNOWN_LIMIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// Gives an order to the group, by way of this member; none, if it is in no group.
pub fn carry_out(node: Option<&Node>, order: Request) -> Reply {
    let Some(node) = node else {
        return Reply::refused(Reason::NotConnected, NOT_CONNECTED);
    };
    if is_about_upstream(&order) {
        return Reply::refused(Reason::Refused, NO_UPSTREAM);
    }
    let done_in_words = done_in_words(&order, &node.status());
    let Some(command) = command(order) else {
        let text = "the order is not understood: a weight is a number from 0 to 100, a protocol \
                    version one from 1 on";
        return Reply::refused(Reason::NotUnderstood, text);
    };
    match node.administrate(command, ORDER_LIMIT) {
        Ok(done) => {
            let index = match &done {
                node::Done::Committed { index } => Some(*index),
                node::Done::Leads { .. }
                | node::Done::WeightSet { .. }
                | node::Done::Continues { .. } => None,
            };
            let text = match (done_in_words, index) {
                (Some(what), Some(index)) => changed(&what, index, outlook_after(node, index)),
                _ => done.to_string(),
            };
            let log_index = index.map(|index| index.0);
            Reply::Answer(Answer::Done(Done { text, log_index }))
        }
        Err(refusal) => Reply::refused(reason(refusal.reason), refusal.text),
    }
}

/// The end of an order that changes the group, once that is committed; none for other orders.
/// `before`: the status when it was given.
fn done_in_words(order: &Request, before: &NodeStatus) -> Option<String> {
    Some(match order {
        Request::RemoveMember { member, .. } => format!("{member} is no member any more"),
        Request::PromoteMember { member } => format!("{member} votes"),
        Request::DemoteMember { member, .. } => format!("{member} does not vote any more"),
        Request::ReplaceMember { old, new, .. } => {
            format!("{old} is no member any more, and {new} votes")
        }
        Request::UnbindMember { member } => format!("{member} is bound to no certificate"),
        Request::SetProtocol { version, .. } => {
            let was = (before.protocol, before.protocol_is_held);
            protocol_set(*version, before.members.len(), was)
        }
        _ => return None,
    })
}

/// A set protocol version in words. `was`: the one before, 0 if it is not known here, and whether
/// it was held.
fn protocol_set(version: Option<u16>, members: usize, was: (u16, bool)) -> String {
    let all = match members {
        1 => "the group's only member".to_owned(),
        count => format!("all {count} members of the group"),
    };
    let was = match was {
        (0, _) => "what it was before is not known here".to_owned(),
        (version, true) => format!("it was held at {version} before"),
        (version, false) => format!("it was {version} before, and rose by itself"),
    };
    match version {
        Some(version) => format!(
            "the protocol version of {all} is {version}, and stays so until the next 'synod \
             protocol set'; {was}"
        ),
        None => format!(
            "the protocol version of {all} rises by itself from now on, to the newest that all \
             speak; {was}"
        ),
    }
}

/// A change of the group in words, and what may fail from now on.
fn changed(what: &str, index: LogIndex, outlook: Option<Outlook>) -> String {
    let outlook = outlook.map_or_else(String::new, |outlook| format!(". {}", outlook.text));
    format!("{what} (committed at {index}){outlook}")
}

/// The outlook with the change at `index`; none if this member's log does not get it soon.
fn outlook_after(node: &Node, index: LogIndex) -> Option<Outlook> {
    let deadline = Instant::now() + KNOWN_LIMIT;
    loop {
        let status = node.status();
        if status.commit_index >= index {
            return Some(status::outlook(&status));
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(LOOK);
    }
}

pub(crate) fn is_order(request: &Request) -> bool {
    match request {
        Request::Status
        | Request::Events
        | Request::Conflicts
        | Request::RecoveryPlan
        | Request::RelayStatus => false,
        Request::TransferLeadership { .. }
        | Request::SetWeight { .. }
        | Request::RemoveMember { .. }
        | Request::PromoteMember { .. }
        | Request::DemoteMember { .. }
        | Request::ReplaceMember { .. }
        | Request::UnbindMember { .. }
        | Request::SetProtocol { .. }
        | Request::PauseUpstream
        | Request::ResumeUpstream
        | Request::SwitchUpstream { .. }
        | Request::SkipTransaction { .. }
        | Request::RegisterReader { .. }
        | Request::RemoveReader { .. }
        | Request::PurgeRelays { .. }
        | Request::Recover => true,
    }
}

/// Whether only a relay that keeps an upstream's binlog can answer.
fn is_about_upstream(request: &Request) -> bool {
    matches!(
        request,
        Request::RelayStatus
            | Request::PauseUpstream
            | Request::ResumeUpstream
            | Request::SwitchUpstream { .. }
            | Request::SkipTransaction { .. }
            | Request::RegisterReader { .. }
            | Request::RemoveReader { .. }
            | Request::PurgeRelays { .. }
    )
}

/// The order as the group takes it; none if it is none, or makes no sense.
fn command(order: Request) -> Option<Command> {
    Some(match order {
        Request::Status
        | Request::Events
        | Request::Conflicts
        | Request::RecoveryPlan
        | Request::RelayStatus
        | Request::PauseUpstream
        | Request::ResumeUpstream
        | Request::SwitchUpstream { .. }
        | Request::SkipTransaction { .. }
        | Request::RegisterReader { .. }
        | Request::RemoveReader { .. }
        | Request::PurgeRelays { .. } => return None,
        Request::TransferLeadership { to } => Command::TransferLeadership { to },
        Request::SetWeight { member, weight } => Command::SetWeight {
            member,
            weight: LeaderWeight::new(weight)?,
        },
        Request::RemoveMember { member, force } => Command::Remove { member, force },
        Request::PromoteMember { member } => Command::Promote { member },
        Request::DemoteMember { member, force } => Command::Demote { member, force },
        Request::ReplaceMember { old, new, force } => Command::Replace { old, new, force },
        Request::UnbindMember { member } => Command::Unbind { member },
        Request::SetProtocol {
            version: Some(0), ..
        } => return None,
        Request::Recover => Command::Recover,
        Request::SetProtocol { version, force } => Command::SetProtocol { version, force },
    })
}

fn reason(reason: RefusalReason) -> Reason {
    match reason {
        RefusalReason::UnknownMember | RefusalReason::AmbiguousName => Reason::UnknownMember,
        RefusalReason::WouldLoseTolerance | RefusalReason::MemberSilent => Reason::NeedsForce,
        RefusalReason::NoLeader => Reason::NoLeader,
        RefusalReason::Unsure => Reason::Unknown,
        RefusalReason::Stopped => Reason::NotConnected,
        RefusalReason::NotLost => Reason::NotLost,
        RefusalReason::OtherHasMore => Reason::OtherHasMore,
        RefusalReason::AlreadySo
        | RefusalReason::LastVoter
        | RefusalReason::NotCaughtUp
        | RefusalReason::NotVoter
        | RefusalReason::InProgress
        | RefusalReason::WouldLoseQuorum
        | RefusalReason::NotSpoken
        | RefusalReason::ProtocolFell
        | RefusalReason::TransferFailed
        | RefusalReason::Unfit => Reason::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_version_is_told_with_its_members_and_what_it_was() {
        let held = "the protocol version of all 3 members of the group is 6, and stays so until the \
                    next 'synod protocol set'; it was 5 before, and rose by itself";
        assert_eq!(protocol_set(Some(6), 3, (5, false)), held);
        let released = "the protocol version of the group's only member rises by itself from now \
                        on, to the newest that all speak; it was held at 6 before";
        assert_eq!(protocol_set(None, 1, (6, true)), released);
    }

    #[test]
    fn change_is_told_with_what_may_fail_from_now_on() {
        let outlook = Outlook {
            text: "3 voters: 1 may fail at a time".to_owned(),
            ..Outlook::default()
        };
        let what = "relay6 is no member any more";
        let told = "relay6 is no member any more (committed at 17163)";
        assert_eq!(changed(what, LogIndex(17163), None), told);
        let with_outlook = format!("{told}. 3 voters: 1 may fail at a time");
        assert_eq!(changed(what, LogIndex(17163), Some(outlook)), with_outlook);
    }
}

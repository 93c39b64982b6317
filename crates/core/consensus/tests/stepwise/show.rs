//! Format of a script's output.
//!
//! Every line begins with the member that it is about. Messages name sender, receiver, kind and
//! term.

use std::collections::BTreeMap;

use synod_consensus::{
    AppendOutcome, Body, Config, DedupVerdict, Effect, EntryHeader, EntryKind, LogBase, MemberId,
    Message, Origin, Role, RoleChange, RoleName, WriteOp,
};

use crate::harness::{Event, Seen};

/// Kinds of messages, as scripts name them.
pub const KINDS: &[&str] = &[
    "pre-vote",
    "pre-vote-reply",
    "vote",
    "vote-reply",
    "append",
    "append-reply",
    "heartbeat",
    "heartbeat-reply",
    "notice",
    "base",
    "stand-now",
    "read",
    "read-reply",
    "propose",
    "refused",
];

/// Names that scripts give to their transactions and reads.
#[derive(Default)]
pub struct Names {
    pub proposals: BTreeMap<Origin, String>,
    pub reads: BTreeMap<u64, String>,
}

pub fn member(id: MemberId) -> String {
    format!("n{}", id.0)
}

pub fn members(ids: impl Iterator<Item = MemberId>) -> String {
    let names: Vec<String> = ids.map(member).collect();
    names.join(" ")
}

pub fn role(role: RoleName) -> &'static str {
    match role {
        RoleName::Follower => "follower",
        RoleName::PreCandidate => "pre-candidate",
        RoleName::Candidate => "candidate",
        RoleName::Leader => "leader",
    }
}

/// Sender, receiver and kind of something on its way; nothing for a sync.
pub fn route(event: &Event) -> Option<(MemberId, MemberId, &'static str)> {
    match event {
        Event::Message { message, .. } => Some((message.from, message.to, kind(&message.body))),
        Event::Propose { to, origin, .. } => Some((origin.member, *to, "propose")),
        Event::Refused { from, to, .. } => Some((*from, *to, "refused")),
        Event::Synced { .. } => None,
    }
}

fn kind(body: &Body) -> &'static str {
    match body {
        Body::PreVote { .. } => "pre-vote",
        Body::PreVoteReply { .. } => "pre-vote-reply",
        Body::Vote { .. } => "vote",
        Body::VoteReply { .. } => "vote-reply",
        Body::Append(_) => "append",
        Body::AppendReply(_) => "append-reply",
        Body::Heartbeat { .. } => "heartbeat",
        Body::HeartbeatReply { .. } => "heartbeat-reply",
        Body::CommitNotice { .. } => "notice",
        Body::InstallBase { .. } => "base",
        Body::TimeoutNow => "stand-now",
        Body::Read { .. } => "read",
        Body::ReadReply { .. } => "read-reply",
    }
}

pub fn config(config: &Config) -> String {
    let learners = config.members.iter();
    let learners = learners.filter(|(_, member)| member.role == Role::Learner);
    let learners = members(learners.map(|(id, _)| *id));
    let voters = members(config.voters());
    if learners.is_empty() {
        format!("voters {voters}")
    } else {
        format!("voters {voters}, learners {learners}")
    }
}

impl Names {
    pub fn proposal(&self, origin: Origin) -> &str {
        self.proposals.get(&origin).map_or("?", String::as_str)
    }

    pub fn entry(&self, header: &EntryHeader) -> String {
        let what = match header.kind {
            EntryKind::NoOp => "no-op",
            EntryKind::Config => "config",
            // Entries that were on a disk before the script have no names.
            EntryKind::View
            | EntryKind::Action
            | EntryKind::Chunk
            | EntryKind::Discard
            | EntryKind::Decision => self
                .proposals
                .get(&header.origin)
                .map_or("", String::as_str),
        };
        format!("{} {what}", header.id()).trim_end().to_owned()
    }

    pub fn entries<'a>(&self, headers: impl Iterator<Item = &'a EntryHeader>) -> String {
        let entries: Vec<String> = headers.map(|header| self.entry(header)).collect();
        entries.join(", ")
    }

    pub fn event(&self, event: &Event) -> String {
        match event {
            Event::Message { message, .. } => self.message(message),
            Event::Propose {
                to, tag, origin, ..
            } => {
                let (from, what) = (member(origin.member), self.proposal(*origin));
                format!("{from} > {} propose {what} (for term {tag})", member(*to))
            }
            Event::Refused {
                from,
                to,
                term,
                origin,
            } => {
                let (from, to, what) = (member(*from), member(*to), self.proposal(*origin));
                format!("{from} > {to} refused {what} (term {term})")
            }
            Event::Synced { node, .. } => format!("{} synced", member(*node)),
        }
    }

    fn message(&self, message: &Message) -> String {
        let Message {
            from,
            to,
            term,
            body,
        } = message;
        let content = self.body(body);
        let (from, to, kind) = (member(*from), member(*to), kind(body));
        let line = format!("{from} > {to} {kind} t{term} {content}");
        line.trim_end().to_owned()
    }

    fn body(&self, body: &Body) -> String {
        let answer = |granted: &bool| if *granted { "yes" } else { "no" }.to_owned();
        match body {
            Body::PreVote { last } => format!("last {last}"),
            Body::PreVoteReply { granted } | Body::VoteReply { granted } => answer(granted),
            Body::Vote { last, transfer } => {
                let transfer = if *transfer {
                    ", ordered by the leader"
                } else {
                    ""
                };
                format!("last {last}{transfer}")
            }
            Body::Append(append) => {
                let entries = self.entries(append.entries.iter());
                format!("after {} [{entries}] commit {}", append.prev, append.commit)
            }
            Body::AppendReply(reply) => match reply.outcome {
                AppendOutcome::Durable { index } => format!("durable {index}"),
                AppendOutcome::PayloadMissing { index } => format!("lacks the payload of {index}"),
                AppendOutcome::Rejected { refused, hint } => {
                    format!("not after {refused}; perhaps after {hint}")
                }
            },
            Body::Heartbeat {
                commit, read_round, ..
            } => {
                format!("commit {commit} {}", round(*read_round))
            }
            Body::HeartbeatReply { read_round, .. } => round(*read_round),
            Body::CommitNotice { commit } => format!("commit {commit}"),
            Body::InstallBase { base, .. } => self.base(base),
            Body::TimeoutNow | Body::Read { .. } => String::new(),
            Body::ReadReply { index, seqno, .. } => format!("index {index} seqno {seqno}"),
        }
    }

    fn base(&self, base: &LogBase) -> String {
        format!("start after {} seqno {}", base.last, base.seqno)
    }

    /// Whether it is a message, and how it is written; `None` if it is not shown.
    pub fn seen(
        &self,
        seen: &Seen,
        disk_held: impl Fn(MemberId) -> bool,
    ) -> Option<(bool, String)> {
        match seen {
            Seen::Sent { event, lost } => {
                let lost = if *lost { " (lost)" } else { "" };
                Some((true, format!("{}{lost}", self.event(event))))
            }
            Seen::Effect(node, effect) => {
                let text = self.effect(effect, disk_held(*node))?;
                Some((false, format!("{} {text}", member(*node))))
            }
            Seen::ProposalDedup(node, origin, verdict) => {
                let what = self.proposal(*origin);
                let verdict = match verdict {
                    DedupVerdict::New => return None,
                    DedupVerdict::WrongTerm => "of another term: ignores it",
                    DedupVerdict::AlreadyAppended => "again: has it already",
                    DedupVerdict::AlreadyRefused => "again: refuses it again",
                };
                Some((false, format!("{} gets {what} {verdict}", member(*node))))
            }
            Seen::Resolved { origin, committed } => {
                let result = if *committed { "committed" } else { "refused" };
                let (node, what) = (member(origin.member), self.proposal(*origin));
                Some((
                    false,
                    format!("{node} answers its client: {what} is {result}"),
                ))
            }
        }
    }

    fn effect(&self, effect: &Effect, disk_held: bool) -> Option<String> {
        match effect {
            Effect::Write { op, .. } => self.write(op, disk_held),
            Effect::Send(_) | Effect::SendEntries(_) => None,
            Effect::Committed { index } => Some(format!("commit {index}")),
            Effect::Role(change) => Some(role_change(change)),
            Effect::Config(at) => Some(format!("config of {}: {}", at.index, config(&at.config))),
            Effect::ReadReady { id, index, seqno } => {
                let name = self.reads.get(id).map_or("?", String::as_str);
                Some(format!("answers {name}: index {index} seqno {seqno}"))
            }
        }
    }

    /// Shows writes that wait for the disk or remove entries.
    fn write(&self, op: &WriteOp, disk_held: bool) -> Option<String> {
        let held = if disk_held { " (not synced)" } else { "" };
        let text = match op {
            WriteOp::Append(headers) if disk_held => {
                format!("writes {}", self.entries(headers.iter()))
            }
            WriteOp::Vote(hard) if disk_held => {
                let vote = hard.voted_for.map_or("no member".to_owned(), member);
                format!("writes term {}, vote for {vote}", hard.term)
            }
            WriteOp::Append(_) | WriteOp::Vote(_) => return None,
            WriteOp::Truncate { from } => format!("truncates its log from {from}"),
            WriteOp::Reset(base) => format!("resets its log: {}", self.base(base)),
        };
        Some(format!("{text}{held}"))
    }
}

fn round(read_round: u64) -> String {
    if read_round == 0 {
        String::new()
    } else {
        format!("read-round {read_round}")
    }
}

fn role_change(change: &RoleChange) -> String {
    let leader = match (change.role, change.leader) {
        (RoleName::Follower, Some(leader)) => format!(" of {}", member(leader)),
        (RoleName::Follower, None) => " without a leader".to_owned(),
        _ => String::new(),
    };
    format!("{}{leader}, term {}", role(change.role), change.term)
}

//! Lists of what many seeds together must have seen: each message, fault, scene, option, kind of
//! entry, answer and refusal. What no seed meets is a blind spot: nothing holds the code for it.
//!
//! The lists are made from the matches that name what happens, so a new variant does not compile
//! without its name here.

use synod_consensus::{AppendOutcome, Body, EntryKind};
use synod_member::{CommitWait, ProposalResult, Remedy, StateTransferEvent};
use synod_wire::{
    Command, CommandRefusal, DataState, Done, FetchAnswer, FetchRefusal, JoinRefusal, JoinReply,
    PeerMessage, RefusalReason,
};

use crate::faults::scenes::Scene;
use crate::options::{Fault, Options};
use crate::report::Coverage;
use crate::run::options_of;
use crate::world::messages::{KINDS, kind_of, protocol};

/// Makes a list from a match: `of` names a value, `ALL` has all names.
macro_rules! list {
    ($list:ident, $title:literal, $type:ty, $($pattern:pat => $name:literal,)*) => {
        pub(crate) mod $list {
            use super::*;

            pub(super) const TITLE: &str = $title;
            pub(super) const ALL: &[&str] = &[$($name),*];

            pub(crate) fn count(coverage: &mut Coverage, value: &$type) {
                let name = match value {
                    $($pattern => $name,)*
                };
                coverage.count_kind(TITLE, name);
            }
        }
    };
}

list! { entries, "committed entry", EntryKind,
    EntryKind::NoOp => "no-op",
    EntryKind::Config => "configuration",
    EntryKind::View => "view",
    EntryKind::Action => "action",
    EntryKind::Chunk => "chunk",
    EntryKind::Discard => "discard",
    EntryKind::Decision => "decision",
}

list! { signs_of_life, "sign of life of a process that stands still", bool,
    true => "the leader's",
    false => "another one's",
}

list! { append_outcomes, "answer to an append", AppendOutcome,
    AppendOutcome::Durable { .. } => "durable",
    AppendOutcome::PayloadMissing { .. } => "payload missing",
    AppendOutcome::Rejected { .. } => "rejected",
}

list! { results, "result of a proposal", ProposalResult,
    ProposalResult::Ordered { .. } => "ordered",
    ProposalResult::Conflict { .. } => "conflict",
    ProposalResult::TooOld => "too old",
    ProposalResult::GivenUp => "given up",
    ProposalResult::NotWriter => "not the writer",
    ProposalResult::Rejected => "rejected",
    ProposalResult::Unknown => "unknown",
    ProposalResult::Withdrawn => "withdrawn",
    ProposalResult::NotProposed => "not proposed",
}

list! { join_replies, "answer to a join", JoinReply,
    JoinReply::Accepted { .. } => "accepted",
    JoinReply::NotLeader { .. } => "not the leader",
    JoinReply::Retry { .. } => "retry",
    JoinReply::Refused { reason: JoinRefusal::WrongGroup, .. } => "wrong group",
    JoinReply::Refused { reason: JoinRefusal::NameTaken, .. } => "name taken",
    JoinReply::Refused { reason: JoinRefusal::UnknownVersion, .. } => "unknown version",
    JoinReply::Refused { reason: JoinRefusal::GroupFull, .. } => "group full",
    JoinReply::Refused { reason: JoinRefusal::CertificateMismatch, .. } => "certificate mismatch",
    JoinReply::Refused { reason: JoinRefusal::Removed, .. } => "removed",
}

list! { fetch_answers, "answer to a fetch", FetchAnswer,
    FetchAnswer { result: Ok(_), .. } => "entries",
    FetchAnswer { result: Err(FetchRefusal::Purged { .. }), .. } => "purged",
    FetchAnswer { result: Err(FetchRefusal::Behind), .. } => "behind",
}

list! { data_states, "reported state of a database", DataState,
    DataState::Disconnected => "disconnected",
    DataState::Joining => "joining",
    DataState::Donor => "donor",
    DataState::Joined => "joined",
    DataState::Synced => "synced",
    DataState::Error => "error",
}

list! { copies, "progress of a full copy", StateTransferEvent,
    StateTransferEvent::Accepted { .. } => "accepted",
    StateTransferEvent::NoDonor { .. } => "no donor",
    StateTransferEvent::Done { .. } => "done",
    StateTransferEvent::Failed { .. } => "failed",
}

list! { remedies, "remedy of a member that stopped", Remedy,
    Remedy::Restart => "restart",
    Remedy::FullCopy => "full copy",
    Remedy::Operator => "operator",
}

list! { commands, "command", Command,
    Command::Remove { .. } => "remove",
    Command::Promote { .. } => "promote",
    Command::Demote { .. } => "demote",
    Command::Replace { .. } => "replace",
    Command::Unbind { .. } => "unbind",
    Command::TransferLeadership { .. } => "transfer leadership",
    Command::SetWeight { .. } => "set weight",
    Command::SetProtocol { .. } => "set protocol",
    Command::Recover => "recover",
}

list! { done, "command done", Done,
    Done::Committed { .. } => "committed",
    Done::Leads { .. } => "leads",
    Done::WeightSet { .. } => "weight set",
    Done::Continues { .. } => "continues",
}

list! { command_refusals, "command refused", RefusalReason,
    RefusalReason::UnknownMember => "unknown member",
    RefusalReason::AmbiguousName => "ambiguous name",
    RefusalReason::AlreadySo => "already so",
    RefusalReason::LastVoter => "last voter",
    RefusalReason::NotCaughtUp => "not caught up",
    RefusalReason::NotVoter => "not a voter",
    RefusalReason::InProgress => "in progress",
    RefusalReason::WouldLoseQuorum => "would lose quorum",
    RefusalReason::WouldLoseTolerance => "would lose tolerance",
    RefusalReason::NoLeader => "no leader",
    RefusalReason::Unsure => "unsure",
    RefusalReason::Stopped => "stopped",
    RefusalReason::TransferFailed => "transfer failed",
    RefusalReason::NotSpoken => "version not spoken",
    RefusalReason::ProtocolFell => "protocol fell",
    RefusalReason::MemberSilent => "member silent",
    RefusalReason::NotLost => "not lost",
    RefusalReason::OtherHasMore => "other has more",
    RefusalReason::Unfit => "unfit",
}

list! { waits, "wait of commits", CommitWait,
    CommitWait::Durable => "durable",
    CommitWait::Applied => "applied",
}

/// Scenes have names of their own, which are in the hash of a run.
pub(crate) const SCENE: &str = "scene";

const MESSAGE: &str = "message";
const FAULT: &str = "fault";
const OPTION: &str = "option";

/// Options that are on or off, by name.
fn switches(options: &Options) -> [(&'static str, bool); 17] {
    [
        ("loggers", options.loggers > 0),
        ("learners", options.learners > 0),
        ("regions", options.has_regions),
        ("commits in regions", options.commits_in_regions),
        ("bounded disks", options.disk_bytes > 0),
        ("drops full logs", options.drops_full_logs),
        ("bounded lag", options.apply_lag_max_us > 0),
        ("two histories", options.two_histories),
        ("loses its log", options.loses_log),
        ("hung disks", options.hung_disks),
        ("slow disks", options.slow_disks),
        ("lagging databases", options.lagging_databases),
        ("lost beside a logger", options.lost_beside_logger),
        ("following writers", options.following_writers),
        ("replaced voters", options.replaced_voters),
        ("long copies", options.long_copies),
        ("orders of all kinds", options.any_orders),
    ]
}

/// A run begins with these options.
pub(crate) fn count_options(coverage: &mut Coverage, options: &Options) {
    for (name, is_on) in switches(options) {
        if is_on {
            coverage.count_kind(OPTION, name);
        }
    }
    for fault in &options.faults {
        coverage.count_kind(FAULT, fault.name());
    }
}

/// A message is handed to a member.
pub(crate) fn count_message(coverage: &mut Coverage, message: &PeerMessage) {
    coverage.count_kind(MESSAGE, kind_of(message).name);
    match message {
        PeerMessage::JoinReply(reply) => join_replies::count(coverage, reply),
        PeerMessage::Fetched(answer) => fetch_answers::count(coverage, answer),
        PeerMessage::Report(report) => data_states::count(coverage, &report.state),
        _ => {}
    }
    if let Some(Body::AppendReply(reply)) = protocol(message).map(|message| &message.body) {
        append_outcomes::count(coverage, &reply.outcome);
    }
}

/// An operator is answered.
pub(crate) fn count_answer(coverage: &mut Coverage, answer: &Result<Done, CommandRefusal>) {
    match answer {
        Ok(what) => done::count(coverage, what),
        Err(refusal) => command_refusals::count(coverage, &refusal.reason),
    }
}

/// Cannot be met here, or is met too seldom to ask for it, with what holds it instead.
const NOT_SIMULATED: &[(&str, &str)] = &[
    (
        "message: ping",
        "sent by the node's connections: node/transport/pings.rs",
    ),
    ("message: pong", "as the ping"),
    (
        "message: setting refused",
        "needs a silent leader: member/driver/writers",
    ),
    (
        "answer to an append: payload missing",
        "needs a session that ends: consensus/replication",
    ),
    (
        "result of a proposal: rejected",
        "members send nothing malformed: node/group/ordering",
    ),
    (
        "result of a proposal: withdrawn",
        "clients here do not: provider/transaction/tests",
    ),
    (
        "answer to a join: certificate mismatch",
        "no certificates: node/group/encryption",
    ),
    (
        "answer to a join: group full",
        "fewer members: member/driver/membership/admission",
    ),
    (
        "answer to a join: removed",
        "members forget it here: node/group/orders",
    ),
    (
        "answer to a join: unknown version",
        "versions overlap: node/group",
    ),
    (
        "answer to a join: wrong group",
        "one group: node/group/strangers",
    ),
    (
        "reported state of a database: donor",
        "copies take no turn: node/group/copies",
    ),
    (
        "reported state of a database: error",
        "such a process ends: e2e",
    ),
    (
        "progress of a full copy: failed",
        "donors do not fail: node/group/copies",
    ),
    (
        "remedy of a member that stopped: full copy",
        "not asked for: node/group/recovery",
    ),
    (
        "command: recover",
        "given as an event: faults/quorum_loss.rs",
    ),
    ("command done: continues", "as recover"),
    (
        "command refused: not lost",
        "as recover: member/driver/recovery",
    ),
    ("command refused: other has more", "as recover"),
    ("command refused: unfit", "as recover"),
    (
        "command refused: ambiguous name",
        "few members share one: member/driver/commands/plan.rs",
    ),
    (
        "command refused: last voter",
        "refused for the quorum first: member/driver/commands/plan.rs",
    ),
    (
        "command refused: member silent",
        "rare: member/driver/commands/protocol_order.rs",
    ),
    (
        "command refused: stopped",
        "answered by the node: node/group/orders",
    ),
    (
        "command refused: unsure",
        "needs a lost leader: node/group/orders",
    ),
];

/// Everything of the lists that these counts lack, as `LIST: NAME`.
pub fn missing(coverage: &Coverage) -> Vec<String> {
    let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    let scenes: Vec<&str> = Scene::ALL.iter().map(|scene| scene.name()).collect();
    let options: Vec<&str> = switches(&options_of(1)).map(|(name, _)| name).to_vec();
    let lists: [(&str, &[&str]); 17] = [
        (MESSAGE, KINDS),
        (FAULT, &faults),
        (SCENE, &scenes),
        (OPTION, &options),
        (entries::TITLE, entries::ALL),
        (signs_of_life::TITLE, signs_of_life::ALL),
        (append_outcomes::TITLE, append_outcomes::ALL),
        (results::TITLE, results::ALL),
        (join_replies::TITLE, join_replies::ALL),
        (fetch_answers::TITLE, fetch_answers::ALL),
        (data_states::TITLE, data_states::ALL),
        (copies::TITLE, copies::ALL),
        (remedies::TITLE, remedies::ALL),
        (commands::TITLE, commands::ALL),
        (done::TITLE, done::ALL),
        (command_refusals::TITLE, command_refusals::ALL),
        (waits::TITLE, waits::ALL),
    ];
    let all = lists
        .iter()
        .flat_map(|(list, names)| names.iter().map(move |name| (*list, *name)));
    let absent = all.filter(|(list, name)| !coverage.has_kind(list, name));
    let absent = absent.map(|(list, name)| format!("{list}: {name}"));
    absent
        .filter(|text| NOT_SIMULATED.iter().all(|(not, _)| not != text))
        .collect()
}

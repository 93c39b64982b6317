//! Events of a member, which the driver handles: [`Event`], and the values that come with events.
//! Other threads make events; the thread of the driver hands each to [`crate::Driver::handle`], in
//! order.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{
    EntryKind, ForceError, GroupId, LeaderPreference, LogBase, MemberId, Seqno, SessionId, Time,
    WriteTicket,
};
use synod_log::LogError;
use synod_wire::{DataState, PeerMessage, StateOffer, StateRequest, StateResult};

use super::commands::CommandRequest;
use super::commit_wait::CommitWait;
use super::leadership::{LeaderPlacement, QuorumLossPolicy};
use super::membership::VoterPolicy;
use super::purge_policy::FullLogPolicy;
use super::writers::SettingRequest;
use crate::client::Waiter;
use crate::outcome::{ApplyOutcome, InconsistencyPolicy};
use crate::snapshots::Snapshot;

pub struct Submission {
    /// [`EntryKind::Chunk`] or [`EntryKind::Action`].
    pub kind: EntryKind,
    pub payload: Bytes,
    /// The client that waits for the action; with every piece, so that a lost chunk ends the wait.
    pub waiter: Waiter,
    /// Holds the action's snapshot position, which is in its last piece; `None` with a chunk.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Anything that the host wants kept as long as the piece is on its way.
    pub held: Option<Box<dyn Any + Send>>,
}

/// Takes an answer. If it is dropped uncalled, there will be none.
pub type Reply = Box<dyn FnOnce(Seqno) + Send>;

pub struct ReadDone {
    pub id: u64,
    pub reply: Reply,
}

/// Called when this member is out of the voters, or cannot be.
pub struct LeaveDone(pub Box<dyn FnOnce() + Send>);

/// Takes the answer whether this member continues without a majority.
pub struct ForceDone(pub Box<dyn FnOnce(Result<(), ForceError>) + Send>);

/// A call of this member that has not led to a connection with the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    pub address: String,
    /// The member that was called; none: any, at an address of this member's own list.
    pub member: Option<MemberId>,
    /// The reason: the rest of a sentence that begins with the address.
    pub why: String,
    pub sign: SignOfLife,
}

/// Sign of life at an address that has not let this member in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignOfLife {
    /// None: the system there, which runs, has said that no program listens.
    NoneListens,
    /// None: nothing has answered. The machine may be off, or the network between cut.
    Silence,
    /// A program has accepted the connection, and not answered as a member (yet): it may hang.
    Listens,
    /// This member has answered, which may be the caller itself, and not the one that was called.
    OtherMember(MemberId),
    /// The program there and this member do not trust each other: an operator has to do something,
    /// about credentials, say.
    Distrust,
    /// The member there refuses this one, and asking again cannot help.
    RefusedForGood,
}

impl SignOfLife {
    pub(super) fn is_refusal(self) -> bool {
        matches!(self, SignOfLife::Distrust | SignOfLife::RefusedForGood)
    }
}

/// A setting of a member that may change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveSetting {
    QuorumLossPolicy(QuorumLossPolicy),
    VoterPolicy(VoterPolicy),
    FullLogPolicy(FullLogPolicy),
    LeaderPreference(LeaderPreference),
    /// Handover by this member. Its weight stays, also one that an operator has
    /// ordered by a command.
    LeaderHandover(bool),
    LeaderPlacement(LeaderPlacement),
    ApplyLagMax(Duration),
    /// Wait of the host's clients before they are told that an action is committed. In
    /// force for actions submitted afterwards;
    /// [`crate::Host::applied_everywhere`] then says how far the other databases are.
    CommitWait(CommitWait),
    /// Silence of [`MemberConfig::suspect`](crate::MemberConfig::suspect).
    SuspectTimeout(Duration),
    InconsistencyPolicy(InconsistencyPolicy),
    /// For how long commits wait for a region that lacks them while this member leads; `None`:
    /// without end.
    RegionPatience(Option<Duration>),
}

pub enum Event {
    Peer {
        from: MemberId,
        /// Subject of the certificate that the sender's connection showed. None if the transport
        /// requires none from it: it has the group's secret, or connections in clear are accepted.
        certificate: Option<Arc<str>>,
        /// The group the sender was in when it connected.
        group: GroupId,
        message: PeerMessage,
    },
    LinkUp {
        member: MemberId,
        connection: u64,
        session: SessionId,
    },
    InboundLink {
        member: MemberId,
    },
    LinkDown {
        member: MemberId,
    },
    /// A member's process has answered a ping that was sent just now. Its driver may stand still.
    Alive {
        member: MemberId,
    },
    /// A member was found: this member has called an address of its own, and that member answered.
    /// A call of another process is not one of these.
    MemberFound {
        member: MemberId,
        address: String,
        /// The group it is in; `NONE` if it has none yet.
        group: GroupId,
    },
    CallFailed(FailedCall),
    DuplicateIdentity {
        /// The member that reports it, called because the configuration or another member names it.
        by: MemberId,
        text: String,
    },
    Persisted {
        ticket: WriteTicket,
        /// When the sync began that made them durable: all of them were written then.
        sync_began: Time,
    },
    Purged(LogBase),
    StorageFailed(String),
    LogDamaged(LogError),
    /// A reader wants entries that this member's log lacks ([`crate::Delivered::Fetching`]). It may
    /// say so more than once.
    Fetch,
    Submit(Submission),
    Read(ReadDone),
    CancelRead(u64),
    DataState(DataState),
    /// The host needs a full copy (SST).
    RequestState(StateRequest),
    StateOffer {
        joiner: MemberId,
        offer: StateOffer,
    },
    StateResult {
        joiner: MemberId,
        result: StateResult,
    },
    /// An operator gives an order to this member, which passes it on if it is for another one.
    Command(CommandRequest),
    /// An operator orders this member to continue without a majority, now.
    ForcePrimary(ForceDone),
    Set(LiveSetting),
    /// An operator wants the group to have this setting. Any member accepts that, and asks the
    /// leader.
    OrderSetting(SettingRequest),
    /// An action has failed on the host, which waits for [`crate::Host::outcome_decided`].
    ActionFailed {
        seqno: Seqno,
        outcome: ApplyOutcome,
    },
    /// The host has applied the action of which [`crate::Shared::set_applied`] was to tell.
    Applied,
    /// An orderly shutdown begins; it ends without the group's consent if that takes too long.
    Leave(LeaveDone),
    /// Like [`Event::Leave`], but without a deadline: as long as the other members need this
    /// member's vote, it remains a voter and keeps its log, without a database.
    LeaveWhenNotNeeded(LeaveDone),
    Stop,
}

impl Event {
    pub fn log_failed(error: LogError) -> Event {
        match error {
            LogError::Damaged { .. } => Event::LogDamaged(error),
            _ => Event::StorageFailed(error.to_string()),
        }
    }
}

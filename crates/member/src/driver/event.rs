//! What the driver is told.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{
    EntryKind, ForceError, GroupId, LeaderPreference, LogBase, MemberId, Seqno, WriteTicket,
};
use synod_log::LogError;
use synod_wire::{DataState, PeerMessage, StateOffer, StateRequest, StateResult};

use super::leadership::QuorumLossPolicy;
use super::membership::operator::{ConfigRequest, LeaderTransferRequest};
use crate::client::Waiter;
use crate::outcome::{ApplyOutcome, InconsistencyPolicy};
use crate::snapshots::Snapshot;

/// A proposal of this member: a chunk or the last piece of an action.
pub struct Submission {
    /// [`EntryKind::Chunk`] or [`EntryKind::Action`].
    pub kind: EntryKind,
    /// See [`crate::split_into_chunks`].
    pub payload: Bytes,
    /// Who waits for the action; with every piece, so that a lost chunk ends the wait.
    pub waiter: Waiter,
    /// What the action has seen; with every piece.
    pub snapshot: Arc<Snapshot>,
    /// Whatever is to be kept as long as the piece is on its way.
    pub held: Option<Box<dyn Any + Send>>,
}

/// Takes an answer. Dropped without one, there will be none.
pub type Reply = Box<dyn FnOnce(Seqno) + Send>;

/// Where the answer to a read goes.
pub struct ReadDone {
    /// Names the read in [`Event::CancelRead`].
    pub id: u64,
    /// Told the group's position.
    pub reply: Reply,
}

/// Told when this member is out of the voters, or cannot be.
pub struct LeaveDone(pub Box<dyn FnOnce() + Send>);

/// Told whether this member goes on without a majority.
pub struct ForceDone(pub Box<dyn FnOnce(Result<(), ForceError>) + Send>);

/// See the module.
pub enum Event {
    /// A message.
    Peer {
        /// Who sent it.
        from: MemberId,
        /// The group the sender was in when it connected.
        group: GroupId,
        /// What it says.
        message: PeerMessage,
    },
    /// Both lanes to a member are up. Proposals go out over this connection only.
    LinkUp {
        /// To whom.
        member: MemberId,
        /// Names the connection, see [`crate::Network::send_over`].
        connection: u64,
    },
    /// A member has connected to this one.
    InboundLink {
        /// Who.
        member: MemberId,
    },
    /// A connection to or from a member broke.
    LinkDown {
        /// Whose.
        member: MemberId,
    },
    /// A member was found, by calling an address or by being called.
    MemberFound {
        /// Who.
        member: MemberId,
        /// Where.
        address: String,
        /// The group it is in.
        group: GroupId,
    },
    /// An address refused us.
    SeedRefused {
        /// Why.
        text: String,
        /// Asking again cannot help.
        is_final: bool,
    },
    /// Another process has this member's identity, says a peer.
    DuplicateIdentity(String),
    /// Storage effects up to here are durable.
    Persisted(WriteTicket),
    /// The log starts here now.
    Purged(LogBase),
    /// The log cannot be written any more.
    StorageFailed(String),
    /// The log cannot be read at some place.
    LogDamaged(LogError),
    /// A piece of an action of this member.
    Submit(Submission),
    /// A client asks for the group's position.
    Read(ReadDone),
    /// It does not wait any longer.
    CancelRead(u64),
    /// The host's database changed its state.
    DataState(DataState),
    /// The host needs a full copy.
    RequestState(StateRequest),
    /// The host, as a donor, accepts or declines.
    StateOffer {
        /// Who asked for the copy.
        joiner: MemberId,
        /// Its word.
        offer: StateOffer,
    },
    /// The host, as a donor, has finished.
    StateResult {
        /// Who asked for the copy.
        joiner: MemberId,
        /// How it went.
        result: StateResult,
    },
    /// An operator orders a change of the configuration. Only the leader accepts it.
    ChangeConfig(ConfigRequest),
    /// An operator orders a leader transfer. Only the leader accepts it.
    TransferLeadership(LeaderTransferRequest),
    /// Go on without the others, now.
    ForcePrimary(ForceDone),
    /// Whether to go on without the others whenever they are not heard of for too long.
    QuorumLossPolicy(QuorumLossPolicy),
    /// What this member wants for itself when it comes to leading.
    LeaderPreference(LeaderPreference),
    /// Another limit of silence, see [`MemberConfig::suspect`](crate::MemberConfig::suspect).
    SuspectTimeout(Duration),
    /// An action has failed on the host, which waits for [`crate::Host::outcome_decided`].
    ActionFailed {
        /// Which.
        seqno: Seqno,
        /// How.
        outcome: ApplyOutcome,
    },
    /// The host has applied what [`crate::Shared::set_applied`] was to tell of.
    Applied,
    /// How votes are counted while this member leads.
    InconsistencyPolicy(InconsistencyPolicy),
    /// Leave the group in good order; without the group's consent if that takes too long.
    Leave(LeaveDone),
    /// As [`Event::Leave`], but as long as the others need this member's vote it keeps it, and its
    /// log, without a database.
    LeaveWhenNotNeeded(LeaveDone),
    /// Stop at once.
    Stop,
}

impl Event {
    /// The log cannot be used any more, for this reason.
    pub fn log_failed(error: LogError) -> Event {
        match error {
            LogError::Damaged { .. } => Event::LogDamaged(error),
            _ => Event::StorageFailed(error.to_string()),
        }
    }
}

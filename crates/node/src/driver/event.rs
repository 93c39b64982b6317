//! What the core thread is told.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::Sender;
use synod_consensus::{EntryKind, GroupId, LogBase, MemberId, Seqno, WriteTicket};
use synod_wire::{DataState, PeerMessage, StateOffer, StateRequest, StateResult};

use crate::pending::Waiter;
use crate::snapshots::Snapshot;

/// A proposal of this member: a chunk or the last piece of an action.
pub(crate) struct Submission {
    pub(crate) kind: EntryKind,
    pub(crate) payload: Bytes,
    /// Who waits for the action; with every piece, so that a lost chunk ends the wait.
    pub(crate) pending: Waiter,
    /// What the action has seen; with every piece.
    pub(crate) snapshot: Arc<Snapshot>,
}

/// Where the answer to a read goes.
pub(crate) struct ReadDone {
    pub(crate) id: u64,
    pub(crate) reply: Sender<Seqno>,
}

/// Told when this member is out of the voters, or cannot be.
pub(crate) struct LeaveDone(pub(crate) Sender<()>);

/// See the module.
pub(crate) enum Event {
    /// A message, and the bytes it took from the inbound budget.
    Peer {
        from: MemberId,
        /// The group the sender was in when it connected.
        group: GroupId,
        message: PeerMessage,
        bytes: usize,
    },
    /// Both lanes to a member are up. Proposals go out over this connection only.
    LinkUp {
        member: MemberId,
        connection: u64,
    },
    /// A member has connected to this one.
    Called {
        member: MemberId,
    },
    /// A connection to or from a member broke.
    LinkDown {
        member: MemberId,
    },
    /// A member was found, by calling an address or by being called.
    Found {
        member: MemberId,
        address: String,
        group: GroupId,
    },
    /// An address refused us.
    SeedRefused {
        text: String,
        is_final: bool,
    },
    /// Storage effects up to here are durable.
    Persisted(WriteTicket),
    /// The log starts here now.
    Purged(LogBase),
    /// The log cannot be written any more.
    StorageFailed(String),
    Submit(Submission),
    Read(ReadDone),
    CancelRead(u64),
    /// The host's database changed its state.
    DataState(DataState),
    /// The host needs a full copy.
    RequestState(StateRequest),
    /// The host, as a donor, accepts or declines.
    StateOffer {
        joiner: MemberId,
        offer: StateOffer,
    },
    /// The host, as a donor, has finished.
    StateResult {
        joiner: MemberId,
        result: StateResult,
    },
    /// Leave the group in good order.
    Leave(LeaveDone),
    /// Stop at once.
    Stop,
}

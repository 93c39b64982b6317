//! What a node needs of the program it runs in, and what it hands to it.

use std::ops::ControlFlow;

use bytes::Bytes;
use synod_consensus::{LeaderWeight, MemberId, Origin, Seqno, SessionId};

use crate::payload::decision::OutcomeDecision;
use crate::payload::view::View;
use crate::setting::Setting;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// Normal events.
    Info,
    /// Something to look at; the member goes on.
    Warning,
    /// Something failed.
    Error,
}

/// One thing to do, in order.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An ordered action.
    Action {
        /// Its position.
        seqno: Seqno,
        /// Everything up to here must be applied before it.
        depends_on: Seqno,
        /// Who proposed it.
        origin: Origin,
        /// Its data; `None` if it was proposed here in this session and its client still waits: the
        /// client's own thread finishes it.
        data: Option<Bytes>,
    },
    /// Members came or went.
    View(View),
}

impl Delivery {
    /// Its position.
    pub fn seqno(&self) -> Seqno {
        match self {
            Delivery::Action { seqno, .. } => *seqno,
            Delivery::View(view) => view.seqno,
        }
    }
}

/// A joiner's wish for a full copy, as its donor sees it.
#[derive(Clone, Debug)]
pub struct DonorRequest {
    /// Names the request in answers.
    pub id: u64,
    /// Who asks.
    pub joiner: MemberId,
    /// The copy must contain everything up to here.
    pub after: Seqno,
    /// The host's own words, carried unchanged from host to host.
    pub request: Bytes,
}

/// How a state transfer is going, as the joiner hears it.
#[derive(Clone, Debug)]
pub enum StateTransferEvent {
    /// A donor has begun.
    Accepted {
        /// Who.
        donor: MemberId,
    },
    /// Nobody can at present; ask again.
    NoDonor {
        /// Why.
        text: String,
    },
    /// The donor has finished.
    Done {
        /// Position of the copy as the donor knows it.
        seqno: Seqno,
    },
    /// The donor failed.
    Failed {
        /// The donor's code for it.
        code: i32,
        /// Why.
        text: String,
    },
}

/// The program a node runs in. [`Host::deliver`] runs on a thread of its own
/// and may wait; [`Host::allows`] runs on connection threads; every other method may be called from
/// the node's core thread and must return at once.
pub trait Host: Send + Sync {
    /// What operators of this host call a setting, for texts that tell them to change it.
    fn setting_name(&self, setting: Setting) -> &'static str {
        setting.plain_name()
    }
    /// A line for the log.
    fn log(&self, level: Level, text: &str);
    /// The next thing to do. Waits for room; `Break` once the host has stopped.
    fn deliver(&self, delivery: Delivery) -> ControlFlow<()>;
    /// This session is in a committed view for the first time since it started.
    fn joined(&self, view: &View);
    /// A leader with a quorum is heard (or not any more).
    fn primary_changed(&self, primary: bool);
    /// A joiner asks this member for a copy. Answer by `Node::answer_state_request`.
    fn donate(&self, request: DonorRequest);
    /// About the copy this member asked for.
    fn state_transfer_event(&self, id: u64, news: StateTransferEvent);
    /// Whether a peer with this IP address may connect. Called from connection threads.
    fn allows(&self, ip: &str) -> bool;
    /// Which outcome of an action stands, as soon as that is committed; for whoever waits with an error.
    fn outcome_decided(&self, _decision: &OutcomeDecision) {}
    /// As [`Host::outcome_decided`], in its place among what is delivered, and also for what was decided
    /// before this session. Called by whoever calls [`Host::deliver`], and may wait.
    fn deliver_decision(&self, _decision: &OutcomeDecision) {}
    /// The log has dropped entries before they were delivered. There was no action among them, but perhaps
    /// decisions: of those that came to the log in this session, [`Host::outcome_decided`] has told.
    fn entries_skipped(&self) {}
    /// The node has stopped for good: its disk failed, or the group refused it.
    fn failed(&self, why: &str);
    /// As [`Host::failed`]: the log cannot give the database what it needs next. A later start must not try
    /// that again from where the database is, but take a full copy.
    fn needs_copy(&self, why: &str) {
        self.failed(why);
    }
}

/// A member as status output shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Identity.
    pub member: MemberId,
    /// Its session, if it is present.
    pub session: Option<SessionId>,
    /// Name.
    pub name: String,
    /// Peer address.
    pub address: String,
    /// Whether it votes.
    pub voter: bool,
    /// How much it should lead; none if that is not known here, or it is not fit to lead now.
    pub leader_weight: Option<LeaderWeight>,
}

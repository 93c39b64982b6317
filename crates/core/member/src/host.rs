//! The host: the program that a member runs in, such as a database server. The member calls
//! [`Host`]: it delivers actions and views, asks for state transfers, and logs. The host calls the
//! node. Nothing here names an option of a certain host ([`Host::setting_name`]).

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use synod_consensus::{LeaderWeight, MemberId, Origin, Seqno, SessionId, Term, VersionRange};
use synod_wire::Region;

use crate::consequence::Consequence;
use crate::driver::{OwnLogTimes, WritePermission};
use crate::payload::decision::OutcomeDecision;
use crate::payload::view::View;
use crate::setting::Setting;

/// How much a line of the host's log matters to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    /// Something that an operator should look at; the member keeps serving.
    Warning,
    Error,
}

/// Topic of an event that operators ask for afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    Leadership,
    /// Members of the group: views, joins, leaves, refusals.
    Membership,
    /// The pace at which writes are taken, and databases that commits do not wait for.
    Pace,
    Consistency,
    Log,
    Clock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    pub term: Term,
    pub leader: String,
    pub why: String,
}

#[derive(Clone, Debug)]
pub enum Delivery {
    Action {
        seqno: Seqno,
        /// Everything up to this seqno must be applied before it.
        depends_on: Seqno,
        /// The member and session that proposed it, and its number there.
        origin: Origin,
        /// The action's data. `None` if it was proposed here, in this session, and its client still
        /// waits: the client's own thread finishes it.
        data: Option<Bytes>,
    },
    View(View),
}

#[derive(Clone, Debug)]
pub struct DataChunk {
    pub seqno: Seqno,
    pub depends_on: Seqno,
    pub action_bytes: usize,
    pub data: Bytes,
}

impl Delivery {
    pub fn seqno(&self) -> Seqno {
        match self {
            Delivery::Action { seqno, .. } => *seqno,
            Delivery::View(view) => view.seqno,
        }
    }
}

/// A joiner's request for a full copy, as its donor sees it.
#[derive(Clone, Debug)]
pub struct DonorRequest {
    pub id: u64,
    pub joiner: MemberId,
    /// The copy must contain everything up to here.
    pub after: Seqno,
    /// The host's own words, carried unchanged from host to host.
    pub request: Bytes,
}

/// Progress of a state transfer, as the joiner receives it.
#[derive(Clone, Debug)]
pub enum StateTransferEvent {
    Accepted {
        donor: MemberId,
    },
    /// No member can be the donor at present; ask again later.
    NoDonor {
        text: String,
    },
    Done {
        /// The last action in the copy, as the donor knows it.
        seqno: Seqno,
    },
    Failed {
        code: i32,
        text: String,
    },
}

/// Action that brings a member back that has stopped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A restart, once its disk works again: it gets what it lacks from the other members.
    Restart,
    /// A restart that takes a full copy. The next start must not continue from the position of the
    /// database, although the log seems to reach back to it.
    FullCopy,
    /// A person must look at it first, and decide.
    Operator,
}

/// The program that a member runs in. The node calls [`Host::deliver`], [`Host::deliver_chunk`] and
/// [`Host::deliver_decision`] from a thread of their own, where they may wait, and the first also
/// from a thread that drives, if [`Host::takes_now`] says that it will not. It calls
/// [`Host::allows`] from connection threads. It may call every other method from any thread that
/// drives, among them the host's own that submits an action: they must return at once, and take no
/// lock that is held during a submission.
pub trait Host: Send + Sync {
    /// The name that operators of this host know a setting by, for texts that ask to change it.
    fn setting_name(&self, setting: Setting) -> &'static str {
        setting.plain_name()
    }
    /// Words for a consequence, in texts for the operators of this host.
    fn consequence(&self, consequence: Consequence) -> &'static str {
        consequence.for_databases()
    }
    /// Takes a line for the host's log; does not wait for that to be written.
    fn log(&self, level: Level, text: &str);
    /// Like [`Host::log`], for an event that operators ask for afterwards.
    fn note(&self, _topic: Topic, level: Level, text: &str) {
        self.log(level, text);
    }
    fn elected(&self, _election: &Election) {}
    /// Takes the next delivery. Waits for room; returns `Break` once the host has stopped.
    fn deliver(&self, delivery: Delivery) -> ControlFlow<()>;
    /// Whether the next [`Host::deliver`] returns at once: there is room, and the host has not
    /// stopped. Asked by the thread that delivers next.
    fn takes_now(&self) -> bool {
        false
    }
    /// Whether data of chunks come by [`Host::deliver_chunk`], so that no large action is in memory
    /// as a whole.
    fn takes_chunks(&self) -> bool {
        false
    }
    /// Takes the next chunk of an action, as [`Host::deliver`] takes deliveries. The action follows
    /// with the last part of its data.
    fn deliver_chunk(&self, _chunk: DataChunk) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn joined(&self, view: &View);
    /// This member became primary (it hears a leader with a quorum), or is no longer primary.
    fn primary_changed(&self, primary: bool);
    /// Everything up to `seqno` is applied on all other databases that are waited for; the largest
    /// number while none is. It falls when a database comes that is further behind, and counts
    /// from then on. Told only with [`CommitWait::Applied`](crate::CommitWait::Applied).
    fn applied_everywhere(&self, _seqno: Seqno) {}
    /// Whether the host may take writes of its clients has changed; at first it may. The leader
    /// refuses those that a host takes although it may not, so a late call costs nothing but that.
    fn write_permission(&self, _permission: WritePermission) {}
    /// A joiner asks this member for a full copy. The host answers by `Node::answer_state_request`.
    fn donate(&self, request: DonorRequest);
    fn state_transfer_event(&self, id: u64, news: StateTransferEvent);
    fn allows(&self, ip: &str) -> bool;
    /// Whether this program has cut itself off: no message may be sent or taken. Asked before each
    /// message, so the answer must cost no more than the load of a number.
    fn is_isolated(&self) -> bool {
        false
    }
    /// Whether the database's engine says that it has this action, and its end here is unknown: the
    /// process was killed before it noted that.
    fn is_end_unknown(&self, _seqno: Seqno) -> bool {
        false
    }
    /// The decision about the outcomes of an action is committed. Called as soon as it is, for
    /// threads that wait with an error.
    fn outcome_decided(&self, _decision: &OutcomeDecision) {}
    /// Like [`Host::outcome_decided`], but in the decision's place among the deliveries, and also
    /// for decisions from before this session.
    fn deliver_decision(&self, _decision: &OutcomeDecision) {}
    /// Entries were purged from the log before they were delivered. There was no action among them,
    /// but there may have been decisions. Those that came to the log in this session were reported
    /// by [`Host::outcome_decided`].
    fn entries_skipped(&self) {}
    /// An action of this session took so long on its way to this member's disk. Not called for
    /// each: a member with very many on their way leaves some out.
    fn own_action_durable(&self, _times: OwnLogTimes) {}
    /// The time of such an action from its append to the log until it was known here to be
    /// committed.
    fn own_action_committed(&self, _took: Duration) {}
    /// Leader only: this member begins to certify an action, of this or another member. The host
    /// measures how long that takes: within a turn the member itself has no clock.
    fn certification_begins(&self) {}
    fn certification_ends(&self) {}
    /// The node has stopped for good: its disk failed, or the group refused it.
    fn failed(&self, why: &str, remedy: Remedy);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub member: MemberId,
    pub session: Option<SessionId>,
    pub name: String,
    /// `host:port` at which peers reach it.
    pub address: String,
    pub voter: bool,
    /// Whether it has a database; a logger has none, and is never in a view.
    pub has_data: bool,
    /// Its preference for leadership; none if that is not known here, or it cannot lead now.
    pub leader_weight: Option<LeaderWeight>,
    /// The region that it is in; none if its operator has named none, or it is not known here.
    pub region: Option<Region>,
    pub versions: VersionRange,
}

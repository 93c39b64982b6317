//! Operators' orders to the group: [`Commands`] knows which orders wait for an answer here, and, on
//! the leader, which one is under way.
//!
//! ```text
//! operator ── Event::Command ──► any member ── PeerMessage::Command ──► leader: plan, append
//!    ◄────────── reply ──────────────┘ ◄──── PeerMessage::CommandAnswer ───┘ when committed
//! ```
//!
//! A leader has one order under way at a time: two operators who change the group at once would
//! each decide on what the other is about to change. [`plan`] has the rules, [`naming`] says which
//! member is meant, and `coordinate` performs.

mod coordinate;
mod naming;
mod plan;
mod protocol_order;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{ConfigChange, LogIndex, MemberId, SessionId, Term, Time};
use synod_wire::{Command, CommandRefusal, Done};

pub(in crate::driver) use plan::refuse;

/// Takes the answer to a command. Called at most once; dropped uncalled if the driver stops first.
/// It runs on the driver's thread and must return at once.
pub type CommandReply = Box<dyn FnOnce(Result<Done, CommandRefusal>) + Send>;

/// An order that an operator gives to this member, for whichever member it is.
pub struct CommandRequest {
    /// The order.
    pub command: Command,
    /// The operator waits for so long.
    pub limit: Duration,
    /// Takes the answer.
    pub reply: CommandReply,
}

/// A leader gives an order up after this time. It may still be carried out later.
const WORK_LIMIT: Duration = Duration::from_secs(10);

/// Member, session and number that wait for the answer to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    member: MemberId,
    session: SessionId,
    number: u64,
}

/// A change of the configuration that is appended and not known to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Appended {
    index: LogIndex,
    term: Term,
}

/// Event that the leader waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The commit of a change, after which others follow.
    Change {
        appended: Appended,
        next: Vec<ConfigChange>,
    },
    /// The leadership of this member.
    Transfer { to: MemberId },
}

/// An order under way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    asker: Asker,
    /// When it is given up.
    until: Time,
    step: Step,
}

struct Waiting {
    until: Time,
    reply: CommandReply,
}

/// The component that knows which orders have no answer yet.
#[derive(Default)]
pub(super) struct Commands {
    /// Orders given to this member, by number.
    waiting: BTreeMap<u64, Waiting>,
    last_number: u64,
    /// Leader only: the order under way. Also kept for a moment by a leader that has stepped
    /// down, until it knows what became of it.
    work: Option<Work>,
    /// Leader only: learners that an operator has demoted, and that have not confirmed it.
    demoted: BTreeSet<MemberId>,
}

impl Commands {
    /// An operator waits for an answer; its number.
    fn wait(&mut self, now: Time, limit: Duration, reply: CommandReply) -> u64 {
        self.last_number += 1;
        let until = now.plus(limit);
        let waiting = Waiting { until, reply };
        self.waiting.insert(self.last_number, waiting);
        self.last_number
    }

    /// The answer to an order has come. Answers for which no operator waits are ignored.
    fn answered(&mut self, number: u64, answer: Result<Done, CommandRefusal>) {
        if let Some(waiting) = self.waiting.remove(&number) {
            (waiting.reply)(answer);
        }
    }

    /// Numbers of the orders for which the time is over.
    fn overdue(&self, now: Time) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let overdue = waiting.filter(|(_, waiting)| waiting.until <= now);
        overdue.map(|(number, _)| *number).collect()
    }

    /// This member leads. Another leader may have had those promoted that this one has demoted when
    /// it led before.
    pub(super) fn begin_leading(&mut self) {
        self.demoted.clear();
    }

    /// Whether this learner is not to be promoted, because an operator has demoted it and the
    /// member has not confirmed that yet.
    pub(super) fn is_demoted(&self, member: MemberId) -> bool {
        self.demoted.contains(&member)
    }

    /// The member has confirmed that it does not vote, or has a new process.
    pub(super) fn forget_demotion(&mut self, member: MemberId) {
        self.demoted.remove(&member);
    }
}

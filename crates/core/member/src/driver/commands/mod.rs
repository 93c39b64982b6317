//! Operators' orders to the group: [`Commands`] knows which orders wait for an answer here, and, on
//! the leader, which one is under way.
//!
//! ```text
//! operator ── Event::Command ──► any member ── PeerMessage::Command ──► leader: plan, append
//!    ◄────────── reply ──────────────┘ ◄──── PeerMessage::CommandAnswer ───┘ when committed
//! ```
//!
//! A leader has one order under way at a time: two operators who change the group at once would
//! each decide on what the other is about to change. [`mod@plan`] has the rules, [`naming`] says
//! which member is meant.

mod naming;
mod plan;
mod protocol_order;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use synod_consensus::{
    ConfigChange, ConfigError, LeaderTransferError, LogIndex, MemberId, SessionId, Term, Time,
};
use synod_wire::{Command, CommandRefusal, Done, PeerMessage, RefusalReason, Report};

use super::authorization::Authorization;
use super::context::Context;
use super::membership::Membership;
use crate::host::{Level, Topic};
use plan::{Facts, Plan, plan};

pub(super) use naming::find;
pub(super) use plan::refuse;

/// Takes the answer to a command. Called at most once; dropped uncalled if the driver stops first.
/// It runs on the driver's thread and must return at once.
pub type CommandReply = Box<dyn FnOnce(Result<Done, CommandRefusal>) + Send>;

/// An order that an operator gives to this member, for whichever member it is.
pub struct CommandRequest {
    pub command: Command,
    /// The operator waits for so long.
    pub limit: Duration,
    pub reply: CommandReply,
}

/// A leader gives an order up after this time. It may still be carried out later.
const WORK_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) member: MemberId,
    pub(super) session: SessionId,
    pub(super) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Appended {
    index: LogIndex,
    term: Term,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The commit of a change, after which others follow.
    Change {
        appended: Appended,
        next: Vec<ConfigChange>,
    },
    Transfer {
        to: MemberId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    asker: Asker,
    until: Time,
    step: Step,
}

struct Waiting {
    until: Time,
    reply: CommandReply,
}

#[derive(Default)]
pub(super) struct Commands {
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
    pub(super) fn wait(&mut self, now: Time, limit: Duration, reply: CommandReply) -> u64 {
        self.last_number += 1;
        let until = now.plus(limit);
        let waiting = Waiting { until, reply };
        self.waiting.insert(self.last_number, waiting);
        self.last_number
    }

    /// Ignores answers for which no operator waits.
    fn answered(&mut self, number: u64, answer: Result<Done, CommandRefusal>) {
        if let Some(waiting) = self.waiting.remove(&number) {
            (waiting.reply)(answer);
        }
    }

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
    fn is_demoted(&self, member: MemberId) -> bool {
        self.demoted.contains(&member)
    }

    pub(super) fn forget_demotion(&mut self, member: MemberId) {
        self.demoted.remove(&member);
    }
}

/// Text for an operator whose order has no answer.
const UNSURE: &str = "it may have been carried out, or may still be. Look at the members before \
                      you repeat it";

impl Commands {
    pub(super) fn pass_on(&mut self, ctx: &Context, to: MemberId, number: u64, command: Command) {
        let session = ctx.identity.me.session;
        let message = PeerMessage::Command {
            session,
            number,
            command,
        };
        ctx.send(to, message);
    }

    pub(super) fn handle_command_answer(
        &mut self,
        ctx: &Context,
        session: SessionId,
        number: u64,
        answer: Result<Done, CommandRefusal>,
    ) {
        if session == ctx.identity.me.session {
            self.answered(number, answer);
        }
    }

    pub(super) fn answer(
        &mut self,
        ctx: &Context,
        asker: Asker,
        answer: Result<Done, CommandRefusal>,
    ) {
        let text = match &answer {
            Ok(done) => format!("the operator's order is carried out: {done}"),
            Err(refusal) => format!("the operator's order is refused: {refusal}"),
        };
        ctx.note(Topic::Membership, Level::Info, text);
        if asker.member == ctx.identity.me.member {
            return self.answered(asker.number, answer);
        }
        let Asker {
            session, number, ..
        } = asker;
        let message = PeerMessage::CommandAnswer {
            session,
            number,
            answer,
        };
        ctx.send(asker.member, message);
    }

    // --- the leader ----------------------------------------------------------------------------
    pub(super) fn begin_work(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        authorization: &mut Authorization,
        asker: Asker,
        command: &Command,
    ) -> Result<(), CommandRefusal> {
        if !ctx.core.is_ready_leader() {
            let text = "the member that was asked does not lead, or not yet: repeat the command in \
                        a few seconds";
            return Err(refuse(RefusalReason::NoLeader, text));
        }
        if self.work.is_some() {
            let text = "another order of an operator is under way: repeat this one when that is \
                        answered";
            return Err(refuse(RefusalReason::InProgress, text));
        }
        let answering = ctx.answering();
        let facts = Facts {
            config: &ctx.core.config().config,
            answering: &answering,
            is_caught_up: &|id| ctx.core.is_ready_to_vote(id),
            is_whole: &|id| membership.has_whole_database(ctx, id),
        };
        let step = match plan(&facts, command)? {
            Plan::Change(changes) => self.change(ctx, authorization, changes)?,
            Plan::Transfer(to) => transfer(ctx, to)?,
        };
        let until = ctx.turns.now.plus(WORK_LIMIT);
        self.work = Some(Work { asker, until, step });
        Ok(())
    }

    /// Appends the first of these changes, of which there is at least one.
    fn change(
        &mut self,
        ctx: &mut Context,
        authorization: &mut Authorization,
        mut changes: Vec<ConfigChange>,
    ) -> Result<Step, CommandRefusal> {
        let change = changes.remove(0);
        let appended = ctx.core.change_config(ctx.turns.now, change.clone());
        let index = appended.map_err(refused_change)?;
        self.tell_whether_to_vote(ctx, &change);
        if let ConfigChange::Unbind(id) = change {
            // What it has shown so far is what it is not to be bound to.
            authorization.unbound.remove(&id);
        }
        let term = ctx.core.term();
        let appended = Appended { index, term };
        let next = changes;
        Ok(Step::Change { appended, next })
    }

    /// A member that an operator demotes would be promoted again at its next report, here or by
    /// another leader, if it did not know.
    fn tell_whether_to_vote(&mut self, ctx: &mut Context, change: &ConfigChange) {
        let (member, votes) = match change {
            ConfigChange::Demote(id) => (*id, false),
            ConfigChange::Promote(id) => (*id, true),
            _ => return,
        };
        if votes {
            self.demoted.remove(&member);
        } else {
            self.demoted.insert(member);
        }
        ctx.send_vote_order(member, votes);
    }

    /// Whether a member is to be promoted by itself, as far as it and operators want that.
    pub(super) fn may_want_vote(&mut self, ctx: &mut Context, report: &Report) -> bool {
        if !self.is_demoted(report.member) {
            return report.wants_vote;
        }
        if report.wants_vote {
            // It does not know yet.
            ctx.send_vote_order(report.member, false);
        } else {
            self.forget_demotion(report.member);
        }
        false
    }

    /// Answers, or takes the next step, when that of the order under way is done. After each turn.
    pub(super) fn follow_work(&mut self, ctx: &mut Context, authorization: &mut Authorization) {
        let Some(work) = self.work.take() else {
            return;
        };
        let asker = work.asker;
        match progress_of(ctx, &work) {
            Progress::UnderWay => self.work = Some(work),
            Progress::Next(changes) => match self.change(ctx, authorization, changes) {
                Ok(step) => self.work = Some(Work { step, ..work }),
                Err(refusal) => {
                    let text = format!(
                        "the first of two changes is committed, the second is refused: {refusal}"
                    );
                    let reason = RefusalReason::Unsure;
                    self.answer(ctx, asker, Err(refuse(reason, text)));
                }
            },
            Progress::Ended(answer) => self.answer(ctx, asker, answer),
        }
    }

    pub(super) fn commands_tick(&mut self, ctx: &mut Context, authorization: &mut Authorization) {
        for number in self.overdue(ctx.turns.now) {
            let text = format!("no answer came in time: {UNSURE}");
            let refusal = refuse(RefusalReason::Unsure, text);
            self.answered(number, Err(refusal));
        }
        self.follow_work(ctx, authorization);
    }
}

fn transfer(ctx: &mut Context, to: Option<MemberId>) -> Result<Step, CommandRefusal> {
    let begun = ctx.core.transfer_leadership(ctx.turns.now, to);
    let to = begun.map_err(|error| refused_transfer(ctx, error))?;
    Ok(Step::Transfer { to })
}

fn refused_transfer(ctx: &Context, error: LeaderTransferError) -> CommandRefusal {
    let (reason, text) = match error {
        LeaderTransferError::NotLeader { .. } => (
            RefusalReason::NoLeader,
            "the member that was asked does not lead any more: repeat the command".to_owned(),
        ),
        LeaderTransferError::InProgress { to } => (
            RefusalReason::InProgress,
            format!(
                "leadership is being handed to {} already: wait a few seconds",
                ctx.name_of(to)
            ),
        ),
        LeaderTransferError::NotVoter { to } => (
            RefusalReason::NotVoter,
            format!("{} has no vote, so it cannot lead", ctx.name_of(to)),
        ),
        LeaderTransferError::AlreadyLeader { to } => (
            RefusalReason::AlreadySo,
            format!("{} leads already: nothing is changed", ctx.name_of(to)),
        ),
        LeaderTransferError::NoCandidate => (
            RefusalReason::NotCaughtUp,
            "no other voter has answered lately: see that others run and can be reached".to_owned(),
        ),
    };
    refuse(reason, text)
}

fn progress_of(ctx: &Context, work: &Work) -> Progress {
    let is_over = ctx.turns.now >= work.until;
    let unsure = |what: &str| {
        let text = format!("{what}: {UNSURE}");
        Progress::Ended(Err(refuse(RefusalReason::Unsure, text)))
    };
    match &work.step {
        Step::Change { appended, next } => {
            let is_ours = ctx.core.term_at(appended.index) == Some(appended.term);
            if ctx.core.commit_index() >= appended.index && is_ours {
                let index = appended.index;
                match next.as_slice() {
                    [] => Progress::Ended(Ok(Done::Committed { index })),
                    _ if !ctx.core.is_leader() => unsure("leadership changed in between"),
                    next => Progress::Next(next.to_vec()),
                }
            } else if ctx.core.term() != appended.term {
                unsure("leadership changed before the change was committed")
            } else if is_over {
                unsure("a majority of the voters has not confirmed the change yet")
            } else {
                Progress::UnderWay
            }
        }
        Step::Transfer { to } => match ctx.core.leader() {
            Some(leader) if leader == *to => Progress::Ended(Ok(Done::Leads {
                member: ctx.name_of(*to),
            })),
            Some(leader) if leader != ctx.identity.me.member => {
                let text = format!(
                    "{} leads now, and not {}: repeat the command",
                    ctx.name_of(leader),
                    ctx.name_of(*to)
                );
                Progress::Ended(Err(refuse(RefusalReason::TransferFailed, text)))
            }
            Some(_) if ctx.core.leader_transfer().is_none() => {
                let text = format!(
                    "{} has not taken leadership over: see that it runs, can be reached and \
                     does not lag, and repeat the command",
                    ctx.name_of(*to)
                );
                Progress::Ended(Err(refuse(RefusalReason::TransferFailed, text)))
            }
            _ if is_over => unsure("no member leads yet"),
            _ => Progress::UnderWay,
        },
    }
}

enum Progress {
    UnderWay,
    Next(Vec<ConfigChange>),
    Ended(Result<Done, CommandRefusal>),
}

/// The core refuses a change that was planned on what the leader knows.
fn refused_change(error: ConfigError) -> CommandRefusal {
    let (reason, advice) = match &error {
        ConfigError::NotLeader { .. } | ConfigError::NotReady | ConfigError::LeaderTransfer => (
            RefusalReason::NoLeader,
            "Repeat the command in a few seconds",
        ),
        ConfigError::InProgress { .. } => (
            RefusalReason::InProgress,
            "Repeat the command when it is; if it stays uncommitted, a majority of the voters \
             does not answer",
        ),
        ConfigError::UnknownMember { .. } => (RefusalReason::UnknownMember, "Look at the members"),
        ConfigError::AlreadySo { .. }
        | ConfigError::ProtocolHeld { .. }
        | ConfigError::ProtocolNotHeld
        | ConfigError::SettingAlreadySo { .. } => {
            (RefusalReason::AlreadySo, "There is nothing to do")
        }
        ConfigError::NotCaughtUp { .. } => (
            RefusalReason::NotCaughtUp,
            "See that it runs and can be reached",
        ),
        ConfigError::NoVoterLeft => (RefusalReason::LastVoter, "Promote another member first"),
        ConfigError::ProtocolNotNewer { .. } => (
            RefusalReason::ProtocolFell,
            "Keep running programs that speak it",
        ),
        ConfigError::Protocol { .. } => (RefusalReason::NotSpoken, "Upgrade it first"),
        ConfigError::SeatTaken { .. }
        | ConfigError::Invalid { .. }
        | ConfigError::TooLarge { .. } => (RefusalReason::AlreadySo, "Look at the members"),
    };
    refuse(reason, format!("{error}. {advice}"))
}

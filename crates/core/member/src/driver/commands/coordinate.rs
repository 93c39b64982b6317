//! The driver's dealings with [`super::Commands`]: it passes orders on, carries them out as the
//! leader, and answers.

use std::collections::BTreeSet;

use synod_consensus::{
    ConfigChange, ConfigError, LeaderPreference, LeaderTransferError, LeaderWeight, MemberId,
    SessionId, Time,
};
use synod_wire::{Command, CommandRefusal, Done, PeerMessage, RefusalReason, Report, has_commands};

use super::naming::find;
use super::plan::{Facts, Plan, plan, refuse};
use super::{Appended, Asker, CommandRequest, Step, WORK_LIMIT, Work};
use crate::driver::Driver;
use crate::host::{Level, Topic};

/// Text for an operator whose order has no answer.
const UNSURE: &str = "it may have been carried out, or may still be. Look at the members before \
                      you repeat it";

impl Driver {
    // --- the member that the operator asks ----------------------------------------------------

    /// An operator gives an order to this member.
    pub(in crate::driver) fn take_command(&mut self, request: CommandRequest) {
        let CommandRequest {
            command,
            limit,
            reply,
        } = request;
        let number = self.commands.wait(self.ctx.turns.now, limit, reply);
        let me = self.ctx.identity.me;
        let asker = Asker {
            member: me.member,
            session: me.session,
            number,
        };
        match self.addressee(&command) {
            Ok(to) if to == me.member => self.carry_out(asker, command),
            Ok(to) => self.pass_on(to, number, command),
            Err(refusal) => self.answer(asker, Err(refusal)),
        }
    }

    /// The member that carries an order out.
    fn addressee(&self, command: &Command) -> Result<MemberId, CommandRefusal> {
        if let Command::SetWeight { member, .. } = command {
            return find(&self.ctx.core.config().config, member);
        }
        if *command == Command::Recover {
            return self.choose_survivor(false);
        }
        self.ctx.core.leader().ok_or_else(|| {
            refuse(
                RefusalReason::NoLeader,
                "this member knows no leader: a majority of the voters does not answer, or an \
                 election is under way. Repeat the command in a few seconds",
            )
        })
    }

    fn pass_on(&mut self, to: MemberId, number: u64, command: Command) {
        let session = self.ctx.identity.me.session;
        let version = self.ctx.core.config().config.protocol;
        if !has_commands(version) {
            let text = format!(
                "the group speaks protocol version {version}, which passes no commands on: give \
                 it to {} itself, or upgrade all servers",
                self.ctx.name_of(to)
            );
            let refusal = refuse(RefusalReason::ProtocolTooOld, text);
            return self.commands.answered(number, Err(refusal));
        }
        let message = PeerMessage::Command {
            session,
            number,
            command,
        };
        self.ctx.send(to, message);
    }

    pub(in crate::driver) fn handle_command_answer(
        &mut self,
        session: SessionId,
        number: u64,
        answer: Result<Done, CommandRefusal>,
    ) {
        if session == self.ctx.identity.me.session {
            self.commands.answered(number, answer);
        }
    }

    // --- the member that carries it out --------------------------------------------------------

    pub(in crate::driver) fn handle_command(
        &mut self,
        from: MemberId,
        session: SessionId,
        number: u64,
        command: Command,
    ) {
        let asker = Asker {
            member: from,
            session,
            number,
        };
        self.carry_out(asker, command);
    }

    fn carry_out(&mut self, asker: Asker, command: Command) {
        let by = self.ctx.name_of(asker.member);
        let text = format!("an operator orders, by way of {by}: {command}");
        self.ctx.note(Topic::Membership, Level::Info, text);
        let begun = match &command {
            Command::SetWeight { member, weight } => self.weigh_myself(member, *weight).map(Some),
            Command::Recover => self
                .recover(asker.member != self.ctx.identity.me.member)
                .map(Some),
            _ => self.begin_work(asker, &command).map(|()| None),
        };
        match begun {
            // The answer follows when it is carried out.
            Ok(None) => {}
            Ok(Some(done)) => self.answer(asker, Ok(done)),
            Err(refusal) => self.answer(asker, Err(refusal)),
        }
    }

    fn answer(&mut self, asker: Asker, answer: Result<Done, CommandRefusal>) {
        let text = match &answer {
            Ok(done) => format!("the operator's order is carried out: {done}"),
            Err(refusal) => format!("the operator's order is refused: {refusal}"),
        };
        self.ctx.note(Topic::Membership, Level::Info, text);
        if asker.member == self.ctx.identity.me.member {
            return self.commands.answered(asker.number, answer);
        }
        let Asker {
            session, number, ..
        } = asker;
        let message = PeerMessage::CommandAnswer {
            session,
            number,
            answer,
        };
        self.ctx.send(asker.member, message);
    }

    fn weigh_myself(&mut self, member: &str, weight: LeaderWeight) -> Result<Done, CommandRefusal> {
        let config = &self.ctx.core.config().config;
        if find(config, member)? != self.ctx.identity.me.member {
            let text = format!("this member is not {member}: its configuration is an older one");
            return Err(refuse(RefusalReason::UnknownMember, text));
        }
        let has_data = |id| {
            config
                .members
                .get(&id)
                .is_some_and(|member| member.has_data)
        };
        if !self.ctx.identity.config.has_data && config.voters().any(has_data) {
            let text = format!(
                "{member} has no database: it leads only while no server can, whatever its weight"
            );
            return Err(refuse(RefusalReason::Unfit, text));
        }
        let preference = LeaderPreference {
            weight,
            ..self.ctx.core.leader_preference()
        };
        self.set_leader_preference(preference);
        Ok(Done::WeightSet {
            member: self.ctx.identity.config.name.clone(),
            weight,
        })
    }

    // --- the leader ----------------------------------------------------------------------------

    fn begin_work(&mut self, asker: Asker, command: &Command) -> Result<(), CommandRefusal> {
        if !self.ctx.core.is_ready_leader() {
            let text = "the member that was asked does not lead, or not yet: repeat the command in \
                        a few seconds";
            return Err(refuse(RefusalReason::NoLeader, text));
        }
        if self.commands.work.is_some() {
            let text = "another order of an operator is under way: repeat this one when that is \
                        answered";
            return Err(refuse(RefusalReason::InProgress, text));
        }
        let answering = self.answering();
        let facts = Facts {
            config: &self.ctx.core.config().config,
            answering: &answering,
            is_caught_up: &|id| self.ctx.core.is_ready_to_vote(id),
            is_whole: &|id| self.has_whole_database(id),
        };
        let step = match plan(&facts, command)? {
            Plan::Change(changes) => self.change(changes)?,
            Plan::Transfer(to) => self.transfer(to)?,
        };
        let until = self.ctx.turns.now.plus(WORK_LIMIT);
        self.commands.work = Some(Work { asker, until, step });
        Ok(())
    }

    /// Whether the member has reported, since it started, that its database is whole; or is to have
    /// none.
    fn has_whole_database(&self, member: MemberId) -> bool {
        let members = &self.ctx.core.config().config.members;
        if members.get(&member).is_some_and(|known| !known.has_data) {
            return true;
        }
        let presence = &self.membership.presence;
        let session = presence.session_of(member);
        let mut reports = presence.reports();
        reports.any(|report| {
            let is_current = report.member == member && session == Some(report.session);
            is_current && report.state.is_whole()
        })
    }

    /// Members that have answered this leader within the shortest election timeout, and itself.
    pub(in crate::driver) fn answering(&self) -> BTreeSet<MemberId> {
        let limit_us = self.ctx.identity.config.timing.election_timeout_min_us;
        let now = self.ctx.turns.now;
        let is_recent = |heard: Time| now.since_us(heard) < limit_us;
        let answering = self.ctx.core.progress();
        answering
            .filter(|progress| progress.last_heard.is_some_and(is_recent))
            .map(|progress| progress.member)
            .chain([self.ctx.identity.me.member])
            .collect()
    }

    /// Appends the first of these changes, of which there is at least one.
    fn change(&mut self, mut changes: Vec<ConfigChange>) -> Result<Step, CommandRefusal> {
        let change = changes.remove(0);
        let appended = self
            .ctx
            .core
            .change_config(self.ctx.turns.now, change.clone());
        let index = appended.map_err(refused_change)?;
        self.tell_whether_to_vote(&change);
        if let ConfigChange::Unbind(id) = change {
            // What it has shown so far is what it is not to be bound to.
            self.authorization.unbound.remove(&id);
        }
        let term = self.ctx.core.term();
        let appended = Appended { index, term };
        let next = changes;
        Ok(Step::Change { appended, next })
    }

    /// A member that an operator demotes would be promoted again at its next report, here or by
    /// another leader, if it did not know.
    fn tell_whether_to_vote(&mut self, change: &ConfigChange) {
        let (member, votes) = match change {
            ConfigChange::Demote(id) => (*id, false),
            ConfigChange::Promote(id) => (*id, true),
            _ => return,
        };
        if votes {
            self.commands.demoted.remove(&member);
        } else {
            self.commands.demoted.insert(member);
        }
        self.send_vote_order(member, votes);
    }

    /// Tells a member what an operator has ordered about its vote.
    pub(in crate::driver) fn send_vote_order(&mut self, member: MemberId, votes: bool) {
        if member == self.ctx.identity.me.member {
            self.ctx.identity.config.wants_vote = votes;
        } else {
            self.ctx.send(member, PeerMessage::VoteOrder { votes });
        }
    }

    /// Whether a member is to be promoted by itself, as far as it and operators want that.
    pub(in crate::driver) fn may_want_vote(&mut self, report: &Report) -> bool {
        if !self.commands.is_demoted(report.member) {
            return report.wants_vote;
        }
        if report.wants_vote {
            // It does not know yet.
            self.send_vote_order(report.member, false);
        } else {
            self.commands.forget_demotion(report.member);
        }
        false
    }

    pub(in crate::driver) fn handle_vote_order(&mut self, votes: bool) {
        self.ctx.identity.config.wants_vote = votes;
        self.send_report();
    }

    fn transfer(&mut self, to: Option<MemberId>) -> Result<Step, CommandRefusal> {
        let begun = self.ctx.core.transfer_leadership(self.ctx.turns.now, to);
        let to = begun.map_err(|error| self.refused_transfer(error))?;
        Ok(Step::Transfer { to })
    }

    fn refused_transfer(&self, error: LeaderTransferError) -> CommandRefusal {
        let (reason, text) = match error {
            LeaderTransferError::NotLeader { .. } => (
                RefusalReason::NoLeader,
                "the member that was asked does not lead any more: repeat the command".to_owned(),
            ),
            LeaderTransferError::InProgress { to } => (
                RefusalReason::InProgress,
                format!(
                    "leadership is being handed to {} already: wait a few seconds",
                    self.ctx.name_of(to)
                ),
            ),
            LeaderTransferError::NotVoter { to } => (
                RefusalReason::NotVoter,
                format!("{} has no vote, so it cannot lead", self.ctx.name_of(to)),
            ),
            LeaderTransferError::AlreadyLeader { to } => (
                RefusalReason::AlreadySo,
                format!("{} leads already: nothing is changed", self.ctx.name_of(to)),
            ),
            LeaderTransferError::NoCandidate => (
                RefusalReason::NotCaughtUp,
                "no other voter has answered lately: see that others run and can be reached"
                    .to_owned(),
            ),
        };
        refuse(reason, text)
    }

    /// Answers, or takes the next step, when that of the order under way is done. After each turn.
    pub(in crate::driver) fn follow_work(&mut self) {
        let Some(work) = self.commands.work.take() else {
            return;
        };
        let asker = work.asker;
        match self.progress_of(&work) {
            Progress::UnderWay => self.commands.work = Some(work),
            Progress::Next(changes) => match self.change(changes) {
                Ok(step) => self.commands.work = Some(Work { step, ..work }),
                Err(refusal) => {
                    let text = format!(
                        "the first of two changes is committed, the second is refused: {refusal}"
                    );
                    let reason = RefusalReason::Unsure;
                    self.answer(asker, Err(refuse(reason, text)));
                }
            },
            Progress::Ended(answer) => self.answer(asker, answer),
        }
    }

    fn progress_of(&self, work: &Work) -> Progress {
        let is_over = self.ctx.turns.now >= work.until;
        let unsure = |what: &str| {
            let text = format!("{what}: {UNSURE}");
            Progress::Ended(Err(refuse(RefusalReason::Unsure, text)))
        };
        match &work.step {
            Step::Change { appended, next } => {
                let is_ours = self.ctx.core.term_at(appended.index) == Some(appended.term);
                if self.ctx.core.commit_index() >= appended.index && is_ours {
                    let index = appended.index;
                    match next.as_slice() {
                        [] => Progress::Ended(Ok(Done::Committed { index })),
                        _ if !self.ctx.core.is_leader() => unsure("leadership changed in between"),
                        next => Progress::Next(next.to_vec()),
                    }
                } else if self.ctx.core.term() != appended.term {
                    unsure("leadership changed before the change was committed")
                } else if is_over {
                    unsure("a majority of the voters has not confirmed the change yet")
                } else {
                    Progress::UnderWay
                }
            }
            Step::Transfer { to } => match self.ctx.core.leader() {
                Some(leader) if leader == *to => Progress::Ended(Ok(Done::Leads {
                    member: self.ctx.name_of(*to),
                })),
                Some(leader) if leader != self.ctx.identity.me.member => {
                    let text = format!(
                        "{} leads now, and not {}: repeat the command",
                        self.ctx.name_of(leader),
                        self.ctx.name_of(*to)
                    );
                    Progress::Ended(Err(refuse(RefusalReason::TransferFailed, text)))
                }
                Some(_) if self.ctx.core.leader_transfer_target().is_none() => {
                    let text = format!(
                        "{} has not taken leadership over: see that it runs, can be reached and \
                         does not lag, and repeat the command",
                        self.ctx.name_of(*to)
                    );
                    Progress::Ended(Err(refuse(RefusalReason::TransferFailed, text)))
                }
                _ if is_over => unsure("no member leads yet"),
                _ => Progress::UnderWay,
            },
        }
    }

    /// Releases the operators that have waited long enough. At each slow tick.
    pub(in crate::driver) fn commands_tick(&mut self) {
        for number in self.commands.overdue(self.ctx.turns.now) {
            let text = format!("no answer came in time: {UNSURE}");
            let refusal = refuse(RefusalReason::Unsure, text);
            self.commands.answered(number, Err(refusal));
        }
        self.follow_work();
    }
}

/// How far an order under way is.
enum Progress {
    UnderWay,
    /// These changes come next.
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
        | ConfigError::WritersAlreadySo { .. } => {
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
        ConfigError::WritersUnknown { .. } | ConfigError::HoldUnknown { .. } => (
            RefusalReason::ProtocolTooOld,
            "Upgrade the members of older versions first",
        ),
        ConfigError::Protocol { .. } => (RefusalReason::NotSpoken, "Upgrade it first"),
        ConfigError::SeatTaken { .. }
        | ConfigError::Invalid { .. }
        | ConfigError::TooLarge { .. } => (RefusalReason::AlreadySo, "Look at the members"),
    };
    refuse(reason, format!("{error}. {advice}"))
}

//! The leader's plan for a command: the changes of the configuration in their order, or the reason
//! why there are none. A change is in force when it is appended. So the voters that answer have to
//! be a majority of those that are left: otherwise it could never be committed, nor anything after
//! it. That is never allowed. A change after which fewer of the voters that answer may be lost has
//! to be forced.

use std::collections::BTreeSet;

use synod_consensus::{Config, ConfigChange, MemberId, Role};
use synod_wire::{Command, CommandRefusal, RefusalReason};

use super::naming::{find, name_of};
use super::protocol_order::set_protocol;

pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    /// Members that answer the leader, itself included.
    pub(super) answering: &'a BTreeSet<MemberId>,
    /// Whether a learner answers, and has the log up to its end or nearly so.
    pub(super) is_caught_up: &'a dyn Fn(MemberId) -> bool,
    /// Whether a member has a whole database, if it is to have one.
    pub(super) is_whole: &'a dyn Fn(MemberId) -> bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// These changes one after the other, each when the one before is committed.
    Change(Vec<ConfigChange>),
    Transfer(Option<MemberId>),
}

#[derive(Clone, Copy)]
struct Votes {
    all: usize,
    answering: usize,
}

impl Votes {
    fn majority(self) -> usize {
        self.all / 2 + 1
    }

    /// How many of the voters that answer may be lost; none if they are no majority.
    fn tolerance(self) -> Option<usize> {
        self.answering.checked_sub(self.majority())
    }
}

impl Facts<'_> {
    fn votes(&self) -> Votes {
        let answers = |id: &MemberId| self.answering.contains(id);
        Votes {
            all: self.config.voters().count(),
            answering: self.config.voters().filter(answers).count(),
        }
    }

    pub(super) fn answers(&self, id: MemberId) -> bool {
        self.answering.contains(&id)
    }

    fn is_bound(&self, id: MemberId) -> bool {
        let member = self.config.members.get(&id);
        member.is_some_and(|member| member.certificate.is_some())
    }

    pub(super) fn name(&self, id: MemberId) -> String {
        name_of(self.config, id)
    }

    fn votes_without(&self, voter: MemberId) -> Votes {
        let votes = self.votes();
        Votes {
            all: votes.all - 1,
            answering: votes.answering - usize::from(self.answers(voter)),
        }
    }
}

pub(in crate::driver) fn refuse(reason: RefusalReason, text: impl Into<String>) -> CommandRefusal {
    CommandRefusal {
        reason,
        text: text.into(),
    }
}

/// Plans the steps for a command; otherwise, why nothing is done. Not for [`Command::SetWeight`]
/// and [`Command::Recover`], which are for the member itself.
pub(super) fn plan(facts: &Facts, command: &Command) -> Result<Plan, CommandRefusal> {
    let find = |text: &str| find(facts.config, text);
    match command {
        Command::Remove { member, force } => {
            let id = find(member)?;
            if facts.config.is_voter(id) {
                check_loss(facts, id, *force)?;
            }
            Ok(Plan::Change(vec![ConfigChange::Remove(id)]))
        }
        Command::Demote { member, force } => {
            let id = find(member)?;
            if !facts.config.is_voter(id) {
                return Err(already(facts, id, "a learner"));
            }
            check_loss(facts, id, *force)?;
            Ok(Plan::Change(vec![ConfigChange::Demote(id)]))
        }
        Command::Promote { member } => {
            let id = find(member)?;
            if facts.config.is_voter(id) {
                return Err(already(facts, id, "a voter"));
            }
            check_caught_up(facts, id)?;
            Ok(Plan::Change(vec![ConfigChange::Promote(id)]))
        }
        Command::Replace { old, new, .. } => {
            let (old, new) = (find(old)?, find(new)?);
            replace(facts, old, new)
        }
        Command::Unbind { member } => {
            let id = find(member)?;
            if !facts.is_bound(id) {
                return Err(already(facts, id, "bound to no certificate"));
            }
            Ok(Plan::Change(vec![ConfigChange::Unbind(id)]))
        }
        Command::TransferLeadership { to } => {
            let to = to.as_deref().map(find).transpose()?;
            if let Some(to) = to {
                check_next_leader(facts, to)?;
            }
            Ok(Plan::Transfer(to))
        }
        Command::SetProtocol { version, force } => set_protocol(facts, *version, *force),
        Command::SetWeight { member, .. } => Err(refuse(
            RefusalReason::UnknownMember,
            format!("the weight of {member} is set by that member itself"),
        )),
        Command::Recover => Err(refuse(
            RefusalReason::NotLost,
            "this member leads the group with a majority: nothing has to be recovered",
        )),
    }
}

/// A member without a database leads only while no server can: it hands on at the first
/// opportunity, and until then no server takes writes as the leader.
fn check_next_leader(facts: &Facts, to: MemberId) -> Result<(), CommandRefusal> {
    let (name, members) = (facts.name(to), &facts.config.members);
    if !facts.config.is_voter(to) {
        let text = format!("{name} is a learner, so it cannot lead. Promote it first");
        return Err(refuse(RefusalReason::NotVoter, text));
    }
    let has_data = |id: &MemberId| members.get(id).is_some_and(|member| member.has_data);
    if !has_data(&to) && facts.config.voters().any(|id| has_data(&id)) {
        let text = format!(
            "{name} has no database: while it leads, no server of the group does. Name a server, \
             or none, and the one with the most complete log leads"
        );
        return Err(refuse(RefusalReason::Unfit, text));
    }
    Ok(())
}

/// The new voter comes first if the old one answers, or has no vote, and last otherwise: so the
/// voters that answer are the largest majority at each step.
fn replace(facts: &Facts, old: MemberId, new: MemberId) -> Result<Plan, CommandRefusal> {
    if old == new {
        return Err(already(facts, old, "that member"));
    }
    let remove = ConfigChange::Remove(old);
    let has_vote = facts.config.is_voter(old);
    if facts.config.is_voter(new) {
        if !has_vote {
            return Ok(Plan::Change(vec![remove]));
        }
        let (old, new) = (facts.name(old), facts.name(new));
        let text = format!(
            "{new} votes already: name a member without a vote. To take {old} out without a \
             replacement: synod member remove {old}"
        );
        return Err(refuse(RefusalReason::AlreadySo, text));
    }
    check_caught_up(facts, new)?;
    let promote = ConfigChange::Promote(new);
    if !has_vote || facts.answers(old) {
        return Ok(Plan::Change(vec![promote, remove]));
    }
    check_quorum(facts, old)?;
    Ok(Plan::Change(vec![remove, promote]))
}

fn already(facts: &Facts, id: MemberId, what: &str) -> CommandRefusal {
    let text = format!("{} is {what} already: nothing is changed", facts.name(id));
    refuse(RefusalReason::AlreadySo, text)
}

fn check_caught_up(facts: &Facts, id: MemberId) -> Result<(), CommandRefusal> {
    let is_learner = facts.config.members.get(&id).map(|m| m.role) == Some(Role::Learner);
    let name = facts.name(id);
    let text = if !is_learner {
        return Ok(());
    } else if !facts.answers(id) {
        format!("{name} does not answer the leader: see that it runs and can be reached")
    } else if !(facts.is_caught_up)(id) {
        format!(
            "{name} lacks much of the log: as a voter it would only weaken the group. Wait until \
             it has caught up"
        )
    } else if !(facts.is_whole)(id) {
        format!(
            "{name} has no whole database yet: as a voter it could come to lead without one. Wait \
             until its full copy is complete, and its state is synced"
        )
    } else {
        return Ok(());
    };
    Err(refuse(RefusalReason::NotCaughtUp, text))
}

fn check_loss(facts: &Facts, voter: MemberId, force: bool) -> Result<(), CommandRefusal> {
    if facts.votes().all == 1 {
        let name = facts.name(voter);
        let text = format!("{name} is the only voter: promote another member first");
        return Err(refuse(RefusalReason::LastVoter, text));
    }
    let tolerance = check_quorum(facts, voter)?;
    let before = facts.votes().tolerance().unwrap_or(0);
    if tolerance < before && !force {
        let name = facts.name(voter);
        let text = format!(
            "without the vote of {name} the group survives the loss of {tolerance} voters, and now \
             that of {before}. Promote another member first, or repeat the command with --yes",
        );
        return Err(refuse(RefusalReason::WouldLoseTolerance, text));
    }
    Ok(())
}

/// How many voters may be lost after the vote of this one is gone.
fn check_quorum(facts: &Facts, voter: MemberId) -> Result<usize, CommandRefusal> {
    let left = facts.votes_without(voter);
    left.tolerance().ok_or_else(|| {
        let silent: Vec<String> = facts
            .config
            .voters()
            .filter(|id| *id != voter && !facts.answers(*id))
            .map(|id| facts.name(id))
            .collect();
        let text = format!(
            "without the vote of {}, {} of {} voters answer, and {} would have to: the group would \
             stop at once. Start or remove first: {}",
            facts.name(voter),
            left.answering,
            left.all,
            left.majority(),
            silent.join(", ")
        );
        refuse(RefusalReason::WouldLoseQuorum, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::voters_and_learners as config;

    /// Answer of the leader, member 1, while these members answer it.
    fn ask(config: &Config, answering: &[u64], command: &Command) -> Result<Plan, RefusalReason> {
        let answering: BTreeSet<MemberId> = answering.iter().map(|id| MemberId(*id)).collect();
        let facts = Facts {
            config,
            answering: &answering,
            is_caught_up: &|id| answering.contains(&id),
            is_whole: &|_| true,
        };
        plan(&facts, command).map_err(|refusal| refusal.reason)
    }

    fn remove(member: &str, force: bool) -> Command {
        Command::Remove {
            member: member.to_owned(),
            force,
        }
    }

    fn removal(id: u64) -> Result<Plan, RefusalReason> {
        Ok(Plan::Change(vec![ConfigChange::Remove(MemberId(id))]))
    }

    #[test]
    fn loss_of_a_vote_must_leave_a_majority_that_answers() {
        let three = config(3, 0);
        assert_eq!(ask(&three, &[1, 2], &remove("c", false)), removal(3));
        for force in [false, true] {
            let refused = ask(&three, &[1, 2], &remove("b", force));
            assert_eq!(refused, Err(RefusalReason::WouldLoseQuorum));
        }
    }

    #[test]
    fn loss_of_tolerance_has_to_be_forced() {
        let three = config(3, 0);
        let refused = ask(&three, &[1, 2, 3], &remove("b", false));
        assert_eq!(refused, Err(RefusalReason::WouldLoseTolerance));
        assert_eq!(ask(&three, &[1, 2, 3], &remove("b", true)), removal(2));
        let four = config(4, 0);
        assert_eq!(ask(&four, &[1, 2, 3, 4], &remove("b", false)), removal(2));
        assert_eq!(ask(&config(2, 0), &[1, 2], &remove("b", false)), removal(2));
    }

    #[test]
    fn last_voter_stays_and_learners_go_freely() {
        let one = config(1, 1);
        let refused = ask(&one, &[1, 2], &remove("a", true));
        assert_eq!(refused, Err(RefusalReason::LastVoter));
        assert_eq!(ask(&one, &[1], &remove("b", false)), removal(2));
    }

    #[test]
    fn replacement_keeps_as_many_answering_voters_as_it_can() {
        let four = config(3, 1);
        let replace = |old: &str, new: &str| Command::Replace {
            old: old.to_owned(),
            new: new.to_owned(),
            force: false,
        };
        let (promote, removed) = (
            ConfigChange::Promote(MemberId(4)),
            ConfigChange::Remove(MemberId(3)),
        );
        let live = Plan::Change(vec![promote.clone(), removed.clone()]);
        assert_eq!(ask(&four, &[1, 2, 3, 4], &replace("c", "d")), Ok(live));
        let dead = Plan::Change(vec![removed, promote]);
        assert_eq!(ask(&four, &[1, 2, 4], &replace("c", "d")), Ok(dead));
        let lags = ask(&four, &[1, 2], &replace("c", "d"));
        assert_eq!(lags, Err(RefusalReason::NotCaughtUp));
        let learners = Plan::Change(vec![
            ConfigChange::Promote(MemberId(3)),
            ConfigChange::Remove(MemberId(4)),
        ]);
        let without_vote = ask(&config(2, 2), &[1, 2, 3], &replace("d", "c"));
        assert_eq!(without_vote, Ok(learners), "c votes, as the answer says");
        let alone = ask(&config(2, 1), &[1, 3], &replace("b", "c"));
        assert!(alone.is_ok(), "one voter is left, and it answers");
    }

    #[test]
    fn learner_that_lags_or_has_no_whole_database_stays_one_and_the_operator_is_told_why() {
        let (some, answers) = (config(2, 1), [1, 2, 3].map(MemberId).into());
        let promote = Command::Promote {
            member: "c".to_owned(),
        };
        let text = |answering: &BTreeSet<MemberId>, is_caught_up: bool, is_whole: bool| {
            let facts = Facts {
                config: &some,
                answering,
                is_caught_up: &|_| is_caught_up,
                is_whole: &|_| is_whole,
            };
            let refusal = plan(&facts, &promote).expect_err("it does not keep up");
            assert_eq!(refusal.reason, RefusalReason::NotCaughtUp);
            refusal.text
        };
        let others = [1, 2].map(MemberId).into();
        let silent = text(&others, false, false);
        assert!(
            silent.contains("see that it runs and can be reached"),
            "{silent}"
        );
        let lags = text(&answers, false, true);
        assert!(lags.contains("Wait until it has caught up"), "{lags}");
        let copies = text(&answers, true, false);
        assert!(
            copies.contains("Wait until its full copy is complete"),
            "{copies}"
        );
    }

    #[test]
    fn what_is_so_already_and_unknown_members_are_refused() {
        let some = config(2, 1);
        let promote = |member: &str| Command::Promote {
            member: member.to_owned(),
        };
        let answers = [1, 2, 3];
        let ask = |command: &Command| ask(&some, &answers, command);
        assert_eq!(ask(&promote("b")), Err(RefusalReason::AlreadySo));
        assert_eq!(ask(&promote("x")), Err(RefusalReason::UnknownMember));
        let promoted = Plan::Change(vec![ConfigChange::Promote(MemberId(3))]);
        assert_eq!(ask(&promote("c")), Ok(promoted));
        let demote = Command::Demote {
            member: "c".to_owned(),
            force: true,
        };
        assert_eq!(ask(&demote), Err(RefusalReason::AlreadySo));
        let replace = Command::Replace {
            old: "a".to_owned(),
            new: "b".to_owned(),
            force: true,
        };
        assert_eq!(ask(&replace), Err(RefusalReason::AlreadySo), "b votes");
    }

    #[test]
    fn leadership_goes_to_voters_with_a_database_while_there_are_any() {
        let transfer = |config: &Config, to: &str| {
            let to = Some(to.to_owned());
            ask(config, &[1, 2, 3], &Command::TransferLeadership { to })
        };
        let mut servers = config(2, 1);
        assert_eq!(transfer(&servers, "c"), Err(RefusalReason::NotVoter));
        let to_server = Ok(Plan::Transfer(Some(MemberId(2))));
        assert_eq!(transfer(&servers, "b"), to_server);
        let without_database = |config: &mut Config, id| {
            let member = config.members.get_mut(&MemberId(id)).unwrap();
            member.has_data = false;
        };
        without_database(&mut servers, 2);
        assert_eq!(transfer(&servers, "b"), Err(RefusalReason::Unfit));
        let mut relays = servers;
        without_database(&mut relays, 1);
        assert_eq!(transfer(&relays, "b"), to_server, "a group of relays");
    }
}

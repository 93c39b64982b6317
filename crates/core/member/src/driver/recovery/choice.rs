//! The choice of the survivor that continues, or the reason why none does.
//!
//! Of the survivors the one whose last entry is the highest (term first) has everything that any of
//! them has and that may be committed: by this order voters choose leaders, too (Raft, section
//! 5.4.1). Whether it has a vote does not matter for that: a learner's log is written by the same
//! leaders.

use std::time::Duration;

use synod_consensus::{Config, MemberId};
use synod_wire::{CommandRefusal, RefusalReason, SurvivorReport};

use crate::config::DatabasePosition;
use crate::driver::commands::refuse;

pub(super) struct Facts<'a> {
    pub(super) me: MemberId,
    pub(super) config: &'a Config,
    pub(super) own: SurvivorReport,
    /// Report of another member, if it came a moment ago.
    pub(super) report_of: &'a dyn Fn(MemberId) -> Option<SurvivorReport>,
    /// For how long this member has heard no leader.
    pub(super) leaderless_for: Duration,
    pub(super) patience: Duration,
    /// Why voters may run that this member does not hear, see [`super::unheard()`].
    pub(super) unheard: Vec<String>,
    /// The order came from another member, which serves clients afterwards.
    pub(super) is_passed_on: bool,
}

impl Facts<'_> {
    fn name(&self, id: MemberId) -> String {
        let known = self.config.members.get(&id);
        known.map_or_else(|| format!("member {id}"), |member| member.name.clone())
    }

    /// This member and those that have reported, with what they have.
    fn survivors(&self) -> impl Iterator<Item = (MemberId, SurvivorReport)> + '_ {
        self.config.members.keys().filter_map(|id| {
            let own = (*id == self.me).then_some(self.own);
            own.or_else(|| (self.report_of)(*id))
                .map(|report| (*id, report))
        })
    }

    /// Whether the member can serve what the group keeps: it has a database, or no member has one,
    /// and the log is what the group keeps.
    fn has_data(&self, id: MemberId) -> bool {
        let members = &self.config.members;
        members.get(&id).is_some_and(|m| m.has_data) || members.values().all(|m| !m.has_data)
    }

    /// Whether the member may continue alone, if its log is long enough. A member without a vote
    /// has what the leaders sent it, as a voter has; but it may be new, and still without its
    /// database.
    fn may_lead(&self, id: MemberId, report: &SurvivorReport) -> bool {
        let keeps = || {
            let members = &self.config.members;
            let keeps_log_only = members.get(&id).is_some_and(|m| !m.has_data);
            keeps_log_only || report.applied != DatabasePosition::NONE.seqno
        };
        !report.is_under_repair && (self.config.is_voter(id) || keeps())
    }
}

/// The member that continues: the one that is asked, or a logger that has more of the log than all
/// servers. That one hands over when the server has it, too.
pub(super) fn choose(facts: &Facts) -> Result<MemberId, CommandRefusal> {
    check_lost(facts)?;
    check_fit(facts)?;
    let rivals = facts.survivors().filter(|(id, report)| {
        *id != facts.me && facts.may_lead(*id, report) && report.last > facts.own.last
    });
    let Some((best, report)) = rivals.max_by_key(|(_, report)| report.last) else {
        return Ok(facts.me);
    };
    if !facts.has_data(best) && !facts.is_passed_on {
        return check_servers(facts).map(|()| best);
    }
    Err(more(facts, best, &report))
}

fn check_servers(facts: &Facts) -> Result<(), CommandRefusal> {
    let servers = facts.survivors().filter(|(id, report)| {
        facts.has_data(*id) && facts.may_lead(*id, report) && report.last > facts.own.last
    });
    match servers.max_by_key(|(_, report)| report.last) {
        Some((server, report)) => Err(more(facts, server, &report)),
        None => Ok(()),
    }
}

fn more(facts: &Facts, other: MemberId, report: &SurvivorReport) -> CommandRefusal {
    let address = facts.config.members.get(&other).map(|m| m.address.as_str());
    let text = format!(
        "{} at {} has more: its log ends with entry {}, that of this server with {}. What it has \
         more would be lost. Give the order there",
        facts.name(other),
        address.unwrap_or("an unknown address"),
        report.last,
        facts.own.last
    );
    refuse(RefusalReason::OtherHasMore, text)
}

fn check_lost(facts: &Facts) -> Result<(), CommandRefusal> {
    let not_lost = |text: String| Err(refuse(RefusalReason::NotLost, text));
    if let Some(leader) = facts.own.leader {
        let leader = facts.name(leader);
        return not_lost(format!(
            "{leader} leads the group with a majority: nothing has to be recovered"
        ));
    }
    let with_leader = facts
        .survivors()
        .find_map(|(id, report)| report.leader.map(|leader| (id, leader)));
    if let Some((id, leader)) = with_leader {
        return not_lost(format!(
            "{} hears a leader, {}: the group runs. Find out why this server does not hear it: the \
             network, or the error log of {0}",
            facts.name(id),
            facts.name(leader)
        ));
    }
    let voters = facts.config.voters().count();
    let answering = facts
        .survivors()
        .filter(|(id, report)| facts.config.is_voter(*id) && facts.may_lead(*id, report));
    let answering = answering.count();
    if answering > voters / 2 {
        return not_lost(format!(
            "{answering} of {voters} voters answer, which is a majority: they elect a leader by \
             themselves within seconds. If they do not, 'synod why' says what they wait for"
        ));
    }
    if facts.leaderless_for < facts.patience {
        return not_lost(format!(
            "a leader was heard a moment ago, or this server has just started: the others may \
             answer yet. Repeat the order in {} s",
            facts.patience.as_secs().max(1)
        ));
    }
    if !facts.unheard.is_empty() {
        return not_lost(format!(
            "the group may run without this server, and would then have two histories. {}",
            facts.unheard.join(". ")
        ));
    }
    Ok(())
}

fn check_fit(facts: &Facts) -> Result<(), CommandRefusal> {
    let unfit = |text: &str| Err(refuse(RefusalReason::Unfit, text));
    if !facts.config.members.contains_key(&facts.me) {
        return unfit("this server is not in the group's configuration: it has never joined");
    }
    if facts.own.is_under_repair {
        return unfit(
            "this server's log was damaged, and lacks entries that it has acknowledged. Give the \
             order on another server; if there is none, see 'When logs are damaged' in \
             docs/operating/shutdown-and-recovery.md",
        );
    }
    if !facts.may_lead(facts.me, &facts.own) {
        return unfit(
            "this server has no vote, and its database is not complete yet. Give the order on \
             another server",
        );
    }
    if !facts.has_data(facts.me) && !facts.is_passed_on {
        return unfit(
            "this is a logger: it has a log and no database, and cannot serve. Give the order on \
             a server. That one takes from this log what it lacks, if both hear each other",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use synod_consensus::{EntryId, LogIndex, Role, Seqno, Term};

    use super::*;
    use crate::driver::example_groups::{self, voter};

    const NAMES: [&str; 5] = ["db1", "db2", "db3", "witness", "copy"];

    /// Three servers and a logger that vote, and a learner.
    fn config() -> Config {
        let members = (1..).zip(NAMES).map(|(id, name)| {
            let mut member = voter(name, &format!("{name}:4567"));
            member.has_data = name != "witness";
            if name == "copy" {
                member.role = Role::Learner;
            }
            (id, member)
        });
        example_groups::of(members)
    }

    fn has(term: u64, index: u64) -> SurvivorReport {
        SurvivorReport {
            last: EntryId::new(Term(term), LogIndex(index)),
            ..SurvivorReport::default()
        }
    }

    /// The order, given to this member, where these members have these logs.
    fn order(me: u64, survivors: &[(u64, SurvivorReport)]) -> Result<u64, (RefusalReason, String)> {
        order_by(me, survivors, false)
    }

    fn order_by(
        me: u64,
        survivors: &[(u64, SurvivorReport)],
        is_passed_on: bool,
    ) -> Result<u64, (RefusalReason, String)> {
        let known = |id: MemberId| {
            let found = survivors.iter().find(|(known, _)| *known == id.0);
            found.map(|(_, report)| *report)
        };
        let config = config();
        let facts = Facts {
            me: MemberId(me),
            config: &config,
            own: known(MemberId(me)).unwrap(),
            report_of: &known,
            leaderless_for: Duration::from_secs(5),
            patience: Duration::from_secs(5),
            unheard: Vec::new(),
            is_passed_on,
        };
        let chosen = choose(&facts).map(|id| id.0);
        chosen.map_err(|refusal| (refusal.reason, refusal.text))
    }

    fn reason(order: Result<u64, (RefusalReason, String)>) -> RefusalReason {
        order.unwrap_err().0
    }

    #[test]
    fn survivor_with_the_highest_last_entry_continues() {
        assert_eq!(order(1, &[(1, has(2, 5))]), Ok(1));
        let both = [(1, has(2, 9)), (2, has(3, 5))];
        assert_eq!(order(2, &both), Ok(2));
        let (why, text) = order(1, &both).unwrap_err();
        assert_eq!(why, RefusalReason::OtherHasMore);
        assert!(text.contains("db2 at db2:4567 has more"), "{text}");
        let same = [(1, has(3, 5)), (2, has(3, 5))];
        assert_eq!((order(1, &same), order(2, &same)), (Ok(1), Ok(2)));
    }

    #[test]
    fn group_that_is_not_lost_is_left_alone() {
        use RefusalReason::NotLost;
        let led = SurvivorReport {
            leader: Some(MemberId(3)),
            ..has(2, 5)
        };
        assert_eq!(reason(order(1, &[(1, led)])), NotLost);
        let (why, text) = order(1, &[(1, has(2, 5)), (2, led)]).unwrap_err();
        assert_eq!(why, NotLost);
        assert!(text.contains("db2 hears a leader, db3"), "{text}");
        let three = [(1, has(2, 5)), (2, has(2, 5)), (4, has(2, 5))];
        let (why, text) = order(1, &three).unwrap_err();
        assert_eq!(why, NotLost);
        assert!(text.contains("3 of 4 voters answer"), "{text}");
    }

    #[test]
    fn damaged_log_is_unfit_and_does_not_count() {
        let damaged = SurvivorReport {
            is_under_repair: true,
            ..has(2, 9)
        };
        assert_eq!(reason(order(1, &[(1, damaged)])), RefusalReason::Unfit);
        let others = [(1, has(2, 5)), (2, damaged), (3, damaged), (5, damaged)];
        assert_eq!(order(1, &others), Ok(1));
    }

    #[test]
    fn learner_with_more_than_every_voter_continues() {
        let longer = [(1, has(2, 5)), (5, has(2, 9))];
        let (why, text) = order(1, &longer).unwrap_err();
        assert_eq!(why, RefusalReason::OtherHasMore);
        assert!(text.contains("copy at copy:4567 has more"), "{text}");
        assert_eq!(order(5, &longer), Ok(5));
        let shorter = [(1, has(2, 9)), (5, has(2, 5))];
        assert_eq!(reason(order(5, &shorter)), RefusalReason::OtherHasMore);
        assert_eq!(order(1, &shorter), Ok(1));
        // It counts for no majority.
        let half = [(1, has(2, 5)), (2, has(2, 5)), (5, has(2, 9))];
        assert_eq!(reason(order(1, &half)), RefusalReason::OtherHasMore);
    }

    #[test]
    fn learner_without_a_whole_database_is_unfit_and_does_not_count() {
        let copying = SurvivorReport {
            applied: Seqno::UNDEFINED,
            ..has(2, 9)
        };
        let both = [(1, has(2, 5)), (5, copying)];
        assert_eq!(order(1, &both), Ok(1));
        let (why, text) = order(5, &both).unwrap_err();
        assert_eq!(why, RefusalReason::Unfit);
        assert!(text.contains("not complete"), "{text}");
    }

    #[test]
    fn logger_serves_no_clients_and_is_heard_first_if_it_has_more() {
        let longest = [(1, has(2, 5)), (4, has(2, 7))];
        assert_eq!(order(1, &longest), Ok(4));
        assert_eq!(reason(order(4, &longest)), RefusalReason::Unfit);
        assert_eq!(order_by(4, &longest, true), Ok(4), "the server's order");
        assert_eq!(order(1, &[(1, has(2, 7)), (4, has(2, 5))]), Ok(1));
        let better = [(1, has(2, 5)), (2, has(2, 6)), (4, has(2, 7))];
        // Of four voters three answer: a majority.
        assert_eq!(reason(order(1, &better)), RefusalReason::NotLost);
    }

    #[test]
    fn logger_that_is_asked_by_a_member_checks_for_itself() {
        let shorter = [(1, has(2, 9)), (4, has(2, 7))];
        let why = reason(order_by(4, &shorter, true));
        assert_eq!(why, RefusalReason::OtherHasMore);
    }

    #[test]
    fn order_right_after_the_loss_is_too_early() {
        let config = config();
        let facts = Facts {
            me: MemberId(1),
            config: &config,
            own: has(2, 5),
            report_of: &|_| None,
            leaderless_for: Duration::from_secs(4),
            patience: Duration::from_secs(5),
            unheard: Vec::new(),
            is_passed_on: false,
        };
        let refusal = choose(&facts).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::NotLost);
        assert!(refusal.text.contains("in 5 s"), "{refusal}");
    }
}

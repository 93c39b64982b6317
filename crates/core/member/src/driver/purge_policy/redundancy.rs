//! Number of databases that have flushed what is committed: the condition for purging a log that is
//! full.
//!
//! Before the logs of a majority purge an action, so many databases must have flushed it that it
//! survives the loss of any minority ([`needed`]; decision 011).
//!
//! A group that keeps its log only has no database. A full log is not purged there of what readers
//! of a present member need, which each member reports in the place of a database.

use std::collections::BTreeMap;

use synod_consensus::{Config, MemberId, Seqno};
use synod_wire::{DataState, Report};

use super::FullLogPolicy;

/// Last action that each database has flushed, by its member's own estimate. A database whose
/// member is absent keeps what it had. Zero: nothing is known of it.
pub(super) struct Redundancy {
    flushed: BTreeMap<MemberId, Seqno>,
    keeps_log_only: bool,
}

/// Everything, in a form that has a successor.
const EVERYTHING: Seqno = Seqno(i64::MAX - 1);

impl Redundancy {
    pub(super) fn new(keeps_log_only: bool) -> Redundancy {
        Redundancy {
            flushed: BTreeMap::new(),
            keeps_log_only,
        }
    }

    /// Notes what the members present report of their databases, and forgets members that are not
    /// configured.
    pub(super) fn note(&mut self, config: &Config, reports: &[Report]) {
        if self.keeps_log_only {
            // An absent member has no readers.
            self.flushed.clear();
        }
        for report in reports {
            let known = self.flushed.entry(report.member).or_default();
            *known = match report.state {
                // No database, or one that a copy is about to replace.
                DataState::Joining | DataState::Error => Seqno(0),
                _ => report.db_flushed.max(*known),
            };
        }
        let members = &config.members;
        self.flushed
            .retain(|member, _| members.contains_key(member));
    }

    /// Up to where enough databases have flushed, or, with [`FullLogPolicy::Drop`], one has.
    pub(super) fn flushed(&self, config: &Config, policy: FullLogPolicy) -> Seqno {
        if self.keeps_log_only && config.members.values().all(|member| !member.has_data) {
            return self.passed_by_readers(policy);
        }
        let voters = config
            .members
            .iter()
            .filter(|(id, m)| m.has_data && config.is_voter(**id));
        let mut flushed: Vec<Seqno> = voters
            .map(|(id, _)| self.flushed.get(id).copied().unwrap_or_default())
            .collect();
        flushed.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = match policy {
            FullLogPolicy::Wait => needed(config.voters().count(), flushed.len()),
            FullLogPolicy::Drop => 1,
        };
        flushed.get(wanted - 1).copied().unwrap_or_default()
    }

    /// Without databases: what no reader needs, or everything with [`FullLogPolicy::Drop`].
    fn passed_by_readers(&self, policy: FullLogPolicy) -> Seqno {
        match policy {
            FullLogPolicy::Wait => self.flushed.values().min().copied().unwrap_or_default(),
            FullLogPolicy::Drop => EVERYTHING,
        }
    }
}

/// How many of the voters' databases must have flushed an action before full logs may purge it.
/// With `voters` voters a group survives the loss of any `f` of them, and serves without any `f`.
/// So `f + 1` databases, for one of them to be left (P1); but never more than there are while `f`
/// are absent, or absent members would stop the group (P5). The two differ only where loggers vote
/// in place of databases.
fn needed(voters: usize, databases: usize) -> usize {
    let may_fail = voters.saturating_sub(1) / 2;
    let right = (may_fail + 1)
        .min(databases.saturating_sub(may_fail))
        .max(1);
    synod_planted::planted!(RetainForOne, right, else 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::{self, voter};
    use synod_consensus::{Member, Role, SessionId};

    fn config(with_data: &[u64], without: &[u64]) -> Config {
        let member = |id: &u64, has_data| {
            let name = id.to_string();
            (
                *id,
                Member {
                    has_data,
                    ..voter(&name, "")
                },
            )
        };
        let data = with_data.iter().map(|id| member(id, true));
        let loggers = without.iter().map(|id| member(id, false));
        example_groups::of(data.chain(loggers))
    }

    fn report(member: u64, flushed: i64, state: DataState) -> Report {
        Report {
            member: MemberId(member),
            session: SessionId(1),
            state,
            applied: Seqno(flushed + 5),
            db_flushed: Seqno(flushed),
            ..Report::default()
        }
    }

    fn synced(reports: &[(u64, i64)]) -> Vec<Report> {
        let report = |(id, flushed): &(u64, i64)| report(*id, *flushed, DataState::Synced);
        reports.iter().map(report).collect()
    }

    #[test]
    fn loss_of_a_minority_leaves_a_database_and_its_absence_stops_no_member() {
        assert_eq!(needed(1, 1), 1);
        assert_eq!(needed(2, 2), 1, "nothing may fail");
        assert_eq!(needed(3, 3), 2);
        assert_eq!(needed(4, 4), 2);
        assert_eq!(needed(5, 5), 3);
        assert_eq!(needed(7, 7), 4);
        assert_eq!(needed(3, 2), 1, "with a logger");
        assert_eq!(needed(5, 4), 2, "with a logger");
        assert_eq!(needed(1, 0), 1);
    }

    #[test]
    fn only_databases_of_voters_count() {
        let mut three = config(&[1, 2, 3], &[4]);
        three.members.get_mut(&MemberId(4)).unwrap().role = Role::Learner;
        let most = |reports: &[Report]| {
            let mut redundancy = Redundancy::new(false);
            redundancy.note(&three, reports);
            redundancy.flushed(&three, FullLogPolicy::Wait)
        };
        assert_eq!(most(&[]), Seqno(0));
        assert_eq!(most(&synced(&[(4, 99)])), Seqno(0), "not a voter");
        assert_eq!(most(&synced(&[(1, 10), (2, 20), (3, 30)])), Seqno(20));
        assert_eq!(most(&synced(&[(1, 10), (2, 20)])), Seqno(10));
        assert_eq!(most(&synced(&[(1, 10)])), Seqno(0), "one of three");
        let mut reports = synced(&[(1, 10), (2, 20), (3, 30)]);
        reports[2].state = DataState::Joining;
        assert_eq!(most(&reports), Seqno(10), "half a copy is none");
    }

    #[test]
    fn database_of_an_absent_member_keeps_what_it_had_until_a_copy_replaces_it() {
        let three = config(&[1, 2, 3], &[]);
        let mut redundancy = Redundancy::new(false);
        let mut flushed = |reports: &[Report]| {
            redundancy.note(&three, reports);
            redundancy.flushed(&three, FullLogPolicy::Wait)
        };
        assert_eq!(flushed(&synced(&[(1, 10), (2, 10), (3, 9)])), Seqno(10));
        assert_eq!(
            flushed(&synced(&[(1, 50)])),
            Seqno(10),
            "the others are absent"
        );
        let mut reports = synced(&[(1, 60), (2, 0)]);
        reports[1].state = DataState::Joining;
        assert_eq!(flushed(&reports), Seqno(9), "what the third has");
        assert_eq!(flushed(&synced(&[(1, 70), (2, 65)])), Seqno(65));
    }

    #[test]
    fn logs_without_databases_keep_what_readers_of_present_members_need() {
        let without = config(&[], &[1, 2, 3]);
        let mut redundancy = Redundancy::new(true);
        assert_eq!(redundancy.flushed(&without, FullLogPolicy::Wait), Seqno(0));
        redundancy.note(&without, &synced(&[(1, 90), (2, 40), (3, 95)]));
        assert_eq!(redundancy.flushed(&without, FullLogPolicy::Wait), Seqno(40));
        redundancy.note(&without, &synced(&[(1, 90), (3, 95)]));
        assert_eq!(redundancy.flushed(&without, FullLogPolicy::Wait), Seqno(90));
        assert!(redundancy.flushed(&without, FullLogPolicy::Drop) > Seqno(95));
        let beside_servers = Redundancy::new(false);
        let none = beside_servers.flushed(&without, FullLogPolicy::Drop);
        assert_eq!(none, Seqno(0), "loggers of servers that are absent");
    }

    #[test]
    fn operator_may_choose_that_one_database_is_enough() {
        let three = config(&[1, 2, 3], &[]);
        let mut redundancy = Redundancy::new(false);
        let mut reports = synced(&[(1, 60), (2, 0), (3, 9)]);
        reports[1].state = DataState::Joining;
        redundancy.note(&three, &reports);
        assert_eq!(redundancy.flushed(&three, FullLogPolicy::Wait), Seqno(9));
        assert_eq!(redundancy.flushed(&three, FullLogPolicy::Drop), Seqno(60));
    }
}

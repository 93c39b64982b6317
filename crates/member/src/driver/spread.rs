//! How far what is committed has spread to databases: what a log may drop if it has to.
//!
//! A log that reaches its disk bound drops what some members still need. It must not drop what too few
//! databases have (promise P1): the entries that brought an action are durable on a majority of the voters,
//! and once their logs drop them, as many databases must have the action on their disks as make it survive
//! the loss of any minority ([`needed`]). If that is not enough, the leader takes no new actions until it
//! is (`Driver::order`).

use std::collections::BTreeMap;

use synod_consensus::{Config, MemberId, Seqno};
use synod_wire::{DataState, Report};

/// What each database has surely on its own disk. One that is away keeps what it had.
#[derive(Default)]
pub(super) struct Spread {
    flushed: BTreeMap<MemberId, Seqno>,
}

impl Spread {
    /// Notes what the members present say of their databases.
    pub(super) fn note(&mut self, config: &Config, reports: &[Report]) {
        for report in reports {
            let known = self.flushed.entry(report.member).or_default();
            *known = match report.state {
                // None, or one that a copy is to replace.
                DataState::Joining | DataState::Error => Seqno(0),
                _ => report.db_flushed.max(*known),
            };
        }
        let members = &config.members;
        self.flushed
            .retain(|member, _| members.contains_key(member));
    }

    /// Enough databases have this on their own disks.
    pub(super) fn flushed(&self, config: &Config) -> Seqno {
        let voters = config
            .members
            .iter()
            .filter(|(id, m)| m.has_data && config.is_voter(**id));
        let mut flushed: Vec<Seqno> = voters
            .map(|(id, _)| self.flushed.get(id).copied().unwrap_or_default())
            .collect();
        flushed.sort_unstable_by(|a, b| b.cmp(a));
        let last = needed(config.voters().count(), flushed.len()) - 1;
        flushed.get(last).copied().unwrap_or_default()
    }
}

/// How many of the voters' databases must have an action before logs may drop it by force.
///
/// With `voters` voters a group outlives the loss of any `f` of them, and goes on without any `f`. So `f + 1`
/// databases, for one of them to be left (P1); but never more than there are when `f` are away, or logs would
/// hold up the group for the sake of the dead (P5). The two differ only where loggers vote in place of
/// databases.
pub(super) fn needed(voters: usize, databases: usize) -> usize {
    if synod_planted::is(synod_planted::Bug::RetainForOne) {
        return 1;
    }
    let may_fail = voters.saturating_sub(1) / 2;
    (may_fail + 1)
        .min(databases.saturating_sub(may_fail))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{Member, Role, SessionId, VersionRange};

    fn config(with_data: &[u64], without: &[u64]) -> Config {
        let member = |id: u64, has_data| {
            let member = Member {
                role: Role::Voter,
                has_data,
                name: id.to_string(),
                address: String::new(),
                versions: VersionRange { min: 1, max: 1 },
            };
            (MemberId(id), member)
        };
        let data = with_data.iter().map(|id| member(*id, true));
        let loggers = without.iter().map(|id| member(*id, false));
        Config {
            protocol: 1,
            members: data.chain(loggers).collect(),
        }
    }

    fn report(member: u64, durable: i64, state: DataState) -> Report {
        Report {
            member: MemberId(member),
            session: SessionId(1),
            state,
            applied: Seqno(durable + 5),
            db_flushed: Seqno(durable),
            ..Report::default()
        }
    }

    fn synced(reports: &[(u64, i64)]) -> Vec<Report> {
        let report = |(id, durable): &(u64, i64)| report(*id, *durable, DataState::Synced);
        reports.iter().map(report).collect()
    }

    #[test]
    fn loss_of_a_minority_leaves_a_database_and_its_absence_holds_up_nobody() {
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
    fn voters_databases_count_and_nothing_else() {
        let mut three = config(&[1, 2, 3], &[4]);
        three.members.get_mut(&MemberId(4)).unwrap().role = Role::Learner;
        let most = |reports: &[Report]| {
            let mut spread = Spread::default();
            spread.note(&three, reports);
            spread.flushed(&three)
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
    fn database_that_is_away_keeps_what_it_had_until_a_copy_replaces_it() {
        let three = config(&[1, 2, 3], &[]);
        let mut spread = Spread::default();
        let mut flushed = |reports: &[Report]| {
            spread.note(&three, reports);
            spread.flushed(&three)
        };
        assert_eq!(flushed(&synced(&[(1, 10), (2, 10), (3, 9)])), Seqno(10));
        assert_eq!(
            flushed(&synced(&[(1, 50)])),
            Seqno(10),
            "the others are away"
        );
        let mut reports = synced(&[(1, 60), (2, 0)]);
        reports[1].state = DataState::Joining;
        assert_eq!(flushed(&reports), Seqno(9), "what the third has");
        assert_eq!(flushed(&synced(&[(1, 70), (2, 65)])), Seqno(65));
    }
}

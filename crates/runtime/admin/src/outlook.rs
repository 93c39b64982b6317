//! Number of voters that may fail now: one answer, for all who ask. Voters that answer count, not
//! those that are configured: one that is absent has failed already. A logger's vote is as good.

use std::collections::{BTreeMap, BTreeSet};

use crate::span;
use crate::status::Member;

/// The group's power to commit, and the voters that it can lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    pub voters: u64,
    /// Voters that answer.
    pub answering: u64,
    /// Number of voters that answer and may fail while the rest still commits.
    pub tolerates: u64,
    /// Whether something can be committed now.
    pub can_commit: bool,
    /// All of that in words: who is missing, and what may fail.
    pub text: String,
}

impl Outlook {
    /// The outlook by the members as a server knows them. `hears_leader`: whether it hears a
    /// leader with a majority. `regions`: in how many of them each commit is to be on a disk.
    pub fn of(members: &[Member], hears_leader: bool, regions: usize) -> Outlook {
        let voters = members.iter().filter(|member| member.is_voter);
        let all = voters.clone().count() as u64;
        let missing: Vec<String> = voters.filter(|v| !v.answers()).map(absence).collect();
        let answering = all - missing.len() as u64;
        let needed = all / 2 + 1;
        let has_majority = all > 0 && answering >= needed;
        let can_commit = has_majority && hears_leader;
        let spare = spare_in_regions(members, regions);
        let tolerates = match spare {
            Some(spare) if can_commit => spare.min(answering - needed),
            Some(_) | None => 0,
        };
        let count = count_of(all, &missing);
        let text = match (has_majority, hears_leader) {
            _ if all == 0 => "the voters are not known yet".to_owned(),
            (false, _) => {
                let verb = if needed == 1 { "answers" } else { "answer" };
                format!("{count}: nothing commits until {needed} {verb}")
            }
            (true, false) => format!("{count}: nothing commits until they have elected a leader"),
            (true, true) if spare.is_none() => format!(
                "{count}: commits wait for another region, or do without it: \
                 wsrep_synod_commit_regions_trouble on the leader"
            ),
            (true, true) => format!("{count}: {}", losses(tolerates, missing.is_empty())),
        };
        Outlook {
            voters: all,
            answering,
            tolerates,
            can_commit,
            text,
        }
    }
}

/// Number of voters that answer and may fail before too few regions for a commit are left; none:
/// too few answer now. Where voters are in fewer regions, theirs are enough.
fn spare_in_regions(members: &[Member], regions: usize) -> Option<u64> {
    let voters = || members.iter().filter(|member| member.is_voter);
    let named: BTreeSet<&str> = voters().filter_map(|v| v.region.as_deref()).collect();
    let needed = regions.min(named.len());
    if needed < 2 {
        return Some(u64::MAX);
    }
    let mut answering: BTreeMap<&str, u64> = BTreeMap::new();
    for voter in voters().filter(|voter| voter.answers()) {
        if let Some(region) = voter.region.as_deref() {
            *answering.entry(region).or_default() += 1;
        }
    }
    let mut counts: Vec<u64> = answering.into_values().collect();
    counts.sort_unstable();
    let may_be_lost = counts.len().checked_sub(needed)?;
    let until_lost: u64 = counts[..=may_be_lost].iter().sum();
    Some(until_lost - 1)
}

/// Number of voters, and the names of those that do not answer.
fn count_of(voters: u64, missing: &[String]) -> String {
    let number = match voters {
        1 => "1 voter".to_owned(),
        count => format!("{count} voters"),
    };
    if missing.is_empty() {
        return number;
    }
    let answer = match voters - missing.len() as u64 {
        0 => "none answers".to_owned(),
        1 => "1 answers".to_owned(),
        count => format!("{count} answer"),
    };
    format!("{number}, {answer} ({})", missing.join(", "))
}

fn losses(tolerates: u64, all_answer: bool) -> String {
    match (tolerates, all_answer) {
        (0, true) => "none may fail".to_owned(),
        (count, true) => format!("{count} may fail at a time"),
        (0, false) => "no further one may fail".to_owned(),
        (count, false) => format!("{count} more may fail"),
    }
}

/// A voter that does not answer, and since when.
fn absence(member: &Member) -> String {
    let name = &member.name;
    match (member.is_present, member.silent_ms) {
        (true, None) => format!("{name} silent"),
        (true, Some(silent)) => format!("{name} silent for {}", span::text(silent)),
        (false, Some(silent)) => format!("{name} absent for {}", span::text(silent)),
        // Also absent: one that was there before this process began.
        (false, None) => format!("{name} not heard yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(name: &str) -> Member {
        Member {
            name: name.into(),
            is_voter: true,
            is_present: true,
            silent_ms: Some(200),
            ..Member::default()
        }
    }

    fn absent(name: &str, silent_ms: Option<u64>) -> Member {
        Member {
            is_present: false,
            silent_ms,
            ..voter(name)
        }
    }

    fn text(members: &[Member]) -> String {
        Outlook::of(members, true, 1).text
    }

    #[test]
    fn voters_that_all_answer_may_fail_up_to_a_minority() {
        let names = ["db1", "db2", "witness", "relay", "db5"];
        let texts = [
            "1 voter: none may fail",
            "2 voters: none may fail",
            "3 voters: 1 may fail at a time",
            "4 voters: 1 may fail at a time",
            "5 voters: 2 may fail at a time",
        ];
        for (number, expected) in (1..=5).zip(texts) {
            let members: Vec<Member> = names[..number].iter().map(|name| voter(name)).collect();
            assert_eq!(text(&members), expected);
        }
    }

    #[test]
    fn voters_whose_loss_leaves_too_few_regions_may_not_fail() {
        let of = |regions: &[&str], wanted, absent: usize| {
            let mut voters: Vec<Member> = regions
                .iter()
                .map(|region| Member {
                    region: Some((*region).to_owned()),
                    ..voter("db")
                })
                .collect();
            for voter in voters.iter_mut().take(absent) {
                voter.is_present = false;
            }
            let outlook = Outlook::of(&voters, true, wanted);
            (outlook.tolerates, outlook.text.contains("another region"))
        };
        assert_eq!(of(&["far", "near", "near"], 1, 0), (1, false));
        assert_eq!(of(&["far", "near", "near"], 2, 0), (0, false));
        assert_eq!(of(&["far", "near", "near"], 2, 1), (0, true));
        assert_eq!(of(&["a", "b", "c"], 2, 0), (1, false));
        assert_eq!(of(&["a", "a", "a"], 2, 0), (1, false), "all of them");
        assert_eq!(of(&["a", "a", "b", "b", "c"], 2, 0), (2, false));
    }

    #[test]
    fn absent_voter_has_failed_already() {
        let three = [voter("db1"), absent("db2", Some(200_000)), voter("witness")];
        let outlook = Outlook::of(&three, true, 1);
        let counts = (outlook.voters, outlook.answering, outlook.tolerates);
        assert_eq!(counts, (3, 2, 0));
        assert!(outlook.can_commit);
        let expected = "3 voters, 2 answer (db2 absent for 3 min): no further one may fail";
        assert_eq!(outlook.text, expected);
        let mut five = three.to_vec();
        five.extend([voter("db4"), voter("db5")]);
        let expected = "5 voters, 4 answer (db2 absent for 3 min): 1 more may fail";
        assert_eq!(text(&five), expected);
    }

    #[test]
    fn silent_voter_does_not_answer() {
        let silent = Member {
            is_silent: true,
            silent_ms: Some(2_100),
            ..voter("db2")
        };
        let expected = "3 voters, 2 answer (db2 silent for 2 s): no further one may fail";
        assert_eq!(text(&[voter("db1"), silent, voter("db3")]), expected);
    }

    #[test]
    fn learners_do_not_count() {
        let learner = Member {
            is_voter: false,
            ..absent("relay", None)
        };
        assert_eq!(text(&[voter("db1"), learner]), "1 voter: none may fail");
    }

    #[test]
    fn nothing_commits_without_a_majority_or_without_a_leader() {
        let three = [
            voter("db1"),
            absent("db2", Some(9_000)),
            absent("db3", None),
        ];
        for hears_leader in [true, false] {
            let outlook = Outlook::of(&three, hears_leader, 1);
            assert!(!outlook.can_commit && outlook.tolerates == 0);
            let expected = "3 voters, 1 answers (db2 absent for 9 s, db3 not heard yet): nothing commits \
                            until 2 answer";
            assert_eq!(outlook.text, expected);
        }
        let outlook = Outlook::of(&[voter("db1"), voter("db2"), voter("db3")], false, 1);
        assert!(!outlook.can_commit && outlook.tolerates == 0);
        let expected = "3 voters: nothing commits until they have elected a leader";
        assert_eq!(outlook.text, expected);
        assert!(!Outlook::of(&[], true, 1).can_commit);
    }
}

//! Number of voters that may fail now: one answer, for all who ask. Voters that answer count, not
//! those that are configured: one that is absent has failed already. A logger's vote is as good.

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
    /// leader with a majority.
    pub fn of(members: &[Member], hears_leader: bool) -> Outlook {
        let voters = members.iter().filter(|member| member.is_voter);
        let all = voters.clone().count() as u64;
        let missing: Vec<String> = voters.filter(|v| !v.answers()).map(absence).collect();
        let answering = all - missing.len() as u64;
        let needed = all / 2 + 1;
        let has_majority = all > 0 && answering >= needed;
        let can_commit = has_majority && hears_leader;
        let tolerates = if can_commit { answering - needed } else { 0 };
        let count = count_of(all, &missing);
        let text = match (has_majority, hears_leader) {
            _ if all == 0 => "the voters are not known yet".to_owned(),
            (false, _) => {
                let verb = if needed == 1 { "answers" } else { "answer" };
                format!("{count}: nothing commits until {needed} {verb}")
            }
            (true, false) => format!("{count}: nothing commits until they have elected a leader"),
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
        Outlook::of(members, true).text
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
    fn absent_voter_has_failed_already() {
        let three = [voter("db1"), absent("db2", Some(200_000)), voter("witness")];
        let outlook = Outlook::of(&three, true);
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
            let outlook = Outlook::of(&three, hears_leader);
            assert!(!outlook.can_commit && outlook.tolerates == 0);
            let expected = "3 voters, 1 answers (db2 absent for 9 s, db3 not heard yet): nothing commits \
                            until 2 answer";
            assert_eq!(outlook.text, expected);
        }
        let outlook = Outlook::of(&[voter("db1"), voter("db2"), voter("db3")], false);
        assert!(!outlook.can_commit && outlook.tolerates == 0);
        let expected = "3 voters: nothing commits until they have elected a leader";
        assert_eq!(outlook.text, expected);
        assert!(!Outlook::of(&[], true).can_commit);
    }
}

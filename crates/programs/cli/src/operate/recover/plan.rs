//! The plan for a lost majority, from the logs and databases of the survivors.
//!
//! The server that is given the order decides for itself, by the same rule; here it is for the
//! operator, who may ask several servers.

use serde::Serialize;
use synod_admin::recovery::{Holdings, Recovery, Survivor};

/// For the case that all data are marked.
pub(super) const NO_DATA: &str = "'synod copy' on the machine of a stopped server says what becomes of its data. If no server \
     has data, see 'No server has data' in docs/operating/shutdown-and-recovery.md";

pub(super) struct Asked {
    /// Its log directory, if it was named.
    pub(super) dir: Option<String>,
    pub(super) recovery: Recovery,
}

/// The server that should continue, and the loss that comes with it.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    /// `wsrep_cluster_name`.
    pub(super) group: String,
    /// All configured members, by name.
    pub(super) members: Vec<Survivor>,
    /// The server that should continue; none if no survivor can.
    pub(super) continue_with: Option<Chosen>,
    /// Voters that lose their votes: they do not answer, or their logs are damaged.
    pub(super) lost: Vec<String>,
    /// The greatest possible loss.
    pub(super) loss: Loss,
}

/// The server that should continue.
#[derive(Debug, Serialize)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) address: String,
    /// Its log directory, if it was asked by that.
    pub(super) dir: Option<String>,
    /// Whether it has a vote now.
    pub(super) is_voter: bool,
    /// A logger that has more of the log, from which the server takes that first.
    pub(super) after_logger: Option<String>,
    /// Survivors that have more and cannot continue: what they have more is lost.
    pub(super) unfit_with_more: Vec<String>,
    /// Its data must not be used, and it serves no client until they are accepted.
    pub(super) is_marked: bool,
}

/// The greatest possible loss.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Loss {
    /// Every majority of the voters has a member among the survivors.
    Nothing,
    /// Actions that were committed after a time, or at any time if that is not known.
    After {
        /// In milliseconds since 1970.
        unix_ms: Option<u64>,
        /// Entries that were committed for sure and that no survivor has.
        entries_surely: u64,
    },
}

impl Plan {
    /// The plan; or, in a sentence, why there is nothing to recover.
    pub(super) fn of(asked: &[Asked]) -> Result<Plan, String> {
        let members = merged(asked);
        let lost = check_lost(&members).and_then(|()| check_gone(asked));
        lost.map_err(|why| match defects(&members).as_slice() {
            [] => why,
            defects => format!(
                "{}.\n{}\n{NO_DATA}",
                why.trim_end_matches('.'),
                defects.join("\n")
            ),
        })?;
        let first = asked.first().map(|asked| &asked.recovery);
        let continue_with = chosen(&members, asked);
        let silent = members.iter().filter(|m| m.is_voter && !is_fit(m));
        Ok(Plan {
            group: first.map(|r| r.group.clone()).unwrap_or_default(),
            lost: silent.map(|member| member.name.clone()).collect(),
            loss: loss(&members),
            continue_with,
            members,
        })
    }
}

/// One row for each member: what a server says of itself counts most, then what others heard.
fn merged(asked: &[Asked]) -> Vec<Survivor> {
    let mut rows: Vec<Survivor> = Vec::new();
    for row in asked.iter().flat_map(|asked| &asked.recovery.members) {
        let rank = |row: &Survivor| (row.is_own, row.has.is_some(), row.heard_unix_ms);
        match rows.iter_mut().find(|known| known.id == row.id) {
            Some(known) if rank(row) > rank(known) => *known = row.clone(),
            Some(_) => {}
            None => rows.push(row.clone()),
        }
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// A line for each database that is known to lack something, or to be marked.
pub(super) fn defects(members: &[Survivor]) -> Vec<String> {
    let faulty = members.iter().filter(|member| !member.defects.is_empty());
    let line = |member: &Survivor| format!("data of {}: {}", member.name, member.defects.join(" "));
    faulty.map(line).collect()
}

fn check_lost(members: &[Survivor]) -> Result<(), String> {
    let leader = members
        .iter()
        .find_map(|m| Some((m, m.has.as_ref()?.leader.as_ref()?)));
    if let Some((member, leader)) = leader {
        let heard_by = match member.is_own {
            true => String::new(),
            false => format!(
                " {} hears it: find out why this server does not (network, error log)",
                member.name
            ),
        };
        return Err(format!(
            "{leader} leads the group with a majority: nothing has to be recovered.{heard_by}"
        ));
    }
    let voters = members.iter().filter(|m| m.is_voter).count();
    let answering = members.iter().filter(|m| m.is_voter && is_fit(m)).count();
    if answering > voters / 2 {
        return Err(format!(
            "{answering} of {voters} voters answer, which is a majority: they elect a leader by \
             themselves within seconds. If they do not, 'synod why' says what they wait for"
        ));
    }
    Ok(())
}

/// All other voters are gone, as far as the servers know that were asked: by the same rule these
/// refuse the order.
fn check_gone(asked: &[Asked]) -> Result<(), String> {
    match asked
        .iter()
        .find(|asked| !asked.recovery.unheard.is_empty())
    {
        None => Ok(()),
        Some(Asked { recovery, .. }) => Err(format!(
            "the group may run without {}, and would then have two histories.\n{}",
            recovery.server,
            recovery.unheard.join("\n")
        )),
    }
}

/// Whether the member may lead alone, if its log is long enough. A member without a vote has what
/// the leaders sent it; but it may be new, and still without its database.
fn is_fit(member: &Survivor) -> bool {
    let keeps = |has: &Holdings| !member.has_database || has.applied_seqno.is_some();
    let is_whole = |has: &Holdings| !has.is_under_repair && (member.is_voter || keeps(has));
    member.has.as_ref().is_some_and(is_whole)
}

/// Term and index of a member's last entry, which elections compare (Raft, section 5.4.1).
fn last(member: &Survivor) -> (u64, u64) {
    let has = member.has.as_ref();
    has.map_or((0, 0), |has| (has.last_term, has.last_index))
}

fn chosen(members: &[Survivor], asked: &[Asked]) -> Option<Chosen> {
    let fit = || members.iter().filter(|member| is_fit(member));
    let servers = fit().filter(|member| member.has_database);
    // Of equals one that votes, and of these the one that was asked: the operator is there.
    let server = servers.max_by_key(|m| (last(m), m.is_voter, m.is_own))?;
    let loggers = fit().filter(|m| !m.has_database && last(m) > last(server));
    let logger = loggers.max_by_key(|member| last(member));
    let kept = logger.map_or(last(server), last);
    let unfit_with_more = members.iter().filter(|m| !is_fit(m) && last(m) > kept);
    let dir = asked.iter().find(|asked| {
        let mut rows = asked.recovery.members.iter();
        rows.any(|row| row.is_own && row.id == server.id)
    });
    Some(Chosen {
        name: server.name.clone(),
        address: server.address.clone(),
        is_voter: server.is_voter,
        dir: dir.and_then(|asked| asked.dir.clone()),
        after_logger: logger.map(|logger| logger.name.clone()),
        unfit_with_more: unfit_with_more.map(|m| m.name.clone()).collect(),
        is_marked: server.is_marked,
    })
}

fn loss(members: &[Survivor]) -> Loss {
    let voters = members.iter().filter(|m| m.is_voter).count();
    let silent = members.iter().filter(|m| m.is_voter && !is_fit(m)).count();
    let has = || {
        members
            .iter()
            .filter(|m| is_fit(m))
            .filter_map(|m| m.has.as_ref())
    };
    let kept = has().max_by_key(|has| (has.last_term, has.last_index));
    let kept = kept.map_or(0, |has| has.last_index);
    let stated = has().map(|has| has.stated_index).max().unwrap_or(0);
    let entries_surely = stated.saturating_sub(kept);
    if silent < voters / 2 + 1 && entries_surely == 0 {
        return Loss::Nothing;
    }
    Loss::After {
        unix_ms: has().filter_map(|has| has.complete_unix_ms).max(),
        entries_surely,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::operate::recover) fn member(name: &str, has: Option<(u64, u64)>) -> Survivor {
        Survivor {
            id: name.into(),
            name: name.into(),
            address: format!("{name}:4567"),
            is_voter: true,
            has_database: true,
            has: has.map(|(last_term, last_index)| Holdings {
                last_term,
                last_index,
                ..Holdings::default()
            }),
            ..Survivor::default()
        }
    }

    pub(in crate::operate::recover) fn plan(members: &[Survivor]) -> Result<Plan, String> {
        let recovery = Recovery {
            members: members.to_vec(),
            ..Recovery::default()
        };
        Plan::of(&[Asked {
            dir: None,
            recovery,
        }])
    }

    fn name(plan: &Plan) -> &str {
        &plan.continue_with.as_ref().unwrap().name
    }

    #[test]
    fn highest_last_entry_is_chosen_term_first() {
        let members = [
            member("db1", Some((2, 90))),
            member("db2", Some((3, 50))),
            member("db3", None),
            member("db4", None),
            member("db5", None),
        ];
        let plan = plan(&members).unwrap();
        assert_eq!(name(&plan), "db2");
        assert_eq!(plan.lost, ["db3", "db4", "db5"]);
    }

    #[test]
    fn nothing_is_recovered_in_a_group_that_lives() {
        let mut led = member("db1", Some((2, 9)));
        led.has.as_mut().unwrap().leader = Some("db2".into());
        let why = plan(&[led, member("db2", None)]).unwrap_err();
        assert!(why.contains("db2 leads"), "{why}");
        let two = [
            member("db1", Some((2, 9))),
            member("db2", Some((2, 9))),
            member("db3", None),
        ];
        let why = plan(&two).unwrap_err();
        assert!(why.contains("2 of 3 voters answer"), "{why}");
    }

    #[test]
    fn plan_is_refused_while_voters_may_run() {
        let refuses = "db1 at db1:4567 does not let this member in: its secret differs";
        let recovery = Recovery {
            server: "db3".into(),
            unheard: vec![refuses.into()],
            members: vec![member("db1", None), member("db3", Some((2, 9)))],
            ..Recovery::default()
        };
        let asked = Asked {
            dir: None,
            recovery,
        };
        let Err(why) = Plan::of(&[asked]) else {
            panic!("there is a plan");
        };
        assert!(why.contains(refuses) && !why.contains("--force"), "{why}");
    }

    #[test]
    fn marked_data_are_named_where_nothing_else_is_to_be_recovered() {
        let mut marked = member("db1", Some((2, 9)));
        marked.has.as_mut().unwrap().leader = Some("db2".into());
        marked.defects = vec!["Marked as not to be used: it differs.".into()];
        let why = plan(&[marked, member("db2", None)]).unwrap_err();
        assert!(
            why.contains("data of db1: Marked as not to be used"),
            "{why}"
        );
        assert!(why.contains("'synod copy'"), "{why}");
    }

    #[test]
    fn half_of_the_voters_have_everything() {
        let plan = plan(&[member("db1", Some((2, 9))), member("db2", None)]).unwrap();
        assert_eq!(plan.loss, Loss::Nothing);
    }

    #[test]
    fn loss_is_bounded_by_the_last_time_at_which_a_survivor_had_everything() {
        let mut one = member("db1", Some((2, 9)));
        let mut two = member("db2", Some((2, 7)));
        let has = |m: &mut Survivor, stated, complete| {
            let has = m.has.as_mut().unwrap();
            (has.stated_index, has.complete_unix_ms) = (stated, complete);
        };
        has(&mut one, 9, Some(1000));
        has(&mut two, 12, Some(3000));
        let others = ["db3", "db4", "db5"].map(|name| member(name, None));
        let members = [&[one, two][..], &others].concat();
        let expected = Loss::After {
            unix_ms: Some(3000),
            entries_surely: 3,
        };
        assert_eq!(plan(&members).unwrap().loss, expected);
    }

    #[test]
    fn logger_is_not_chosen_and_gives_what_it_has_more() {
        let mut logger = member("witness", Some((2, 12)));
        logger.has_database = false;
        let copying = learner("copy", (2, 13), None);
        let lost = ["db2", "db3"].map(|name| member(name, None));
        let members = [&[member("db1", Some((2, 9))), logger, copying][..], &lost].concat();
        let plan = plan(&members).unwrap();
        let chosen = plan.continue_with.unwrap();
        assert_eq!(chosen.name, "db1");
        assert_eq!(chosen.after_logger.as_deref(), Some("witness"));
        assert_eq!(chosen.unfit_with_more, ["copy"]);
    }

    /// A member without a vote, whose database has this.
    pub(in crate::operate::recover) fn learner(
        name: &str,
        last: (u64, u64),
        applied: Option<i64>,
    ) -> Survivor {
        let mut learner = member(name, Some(last));
        learner.is_voter = false;
        learner.has.as_mut().unwrap().applied_seqno = applied;
        learner
    }

    #[test]
    fn learner_continues_if_it_has_more_than_each_voter() {
        let lost = ["db2", "db3"].map(|name| member(name, None));
        let plan = |voter, copy| {
            let own = learner("copy", copy, Some(1));
            plan(&[&[own, member("db1", Some(voter))][..], &lost].concat()).unwrap()
        };
        let more = plan((2, 9), (2, 13));
        assert_eq!(name(&more), "copy");
        assert!(!more.continue_with.unwrap().is_voter);
        assert_eq!(more.lost, ["db2", "db3"]);
        assert_eq!(name(&plan((2, 9), (2, 9))), "db1", "of equals the voter");
        assert_eq!(name(&plan((3, 8), (2, 9))), "db1", "term first");
    }

    #[test]
    fn logger_alone_is_not_chosen() {
        let mut logger = member("witness", Some((2, 12)));
        logger.has_database = false;
        let plan = plan(&[logger, member("db1", None), member("db2", None)]).unwrap();
        assert!(plan.continue_with.is_none());
    }

    #[test]
    fn what_a_server_says_of_itself_counts_most() {
        let asked = |own: &str, rows: &[Survivor]| Asked {
            dir: Some(format!("/{own}")),
            recovery: Recovery {
                members: rows
                    .iter()
                    .cloned()
                    .map(|row| Survivor {
                        is_own: row.name == own,
                        ..row
                    })
                    .collect(),
                ..Recovery::default()
            },
        };
        let silent = |name| member(name, None);
        let lost = ["x", "y", "z"].map(silent);
        let one = [&[member("db1", Some((2, 9))), silent("db2")][..], &lost].concat();
        let two = [
            &[member("db1", Some((2, 8))), member("db2", Some((2, 9)))][..],
            &lost,
        ]
        .concat();
        let plan = Plan::of(&[asked("db1", &one), asked("db2", &two)]).unwrap();
        let lasts: Vec<u64> = plan.members.iter().map(|m| last(m).1).collect();
        assert_eq!(lasts, [9, 9, 0, 0, 0]);
        assert_eq!(plan.continue_with.unwrap().dir.as_deref(), Some("/db2"));
    }
}

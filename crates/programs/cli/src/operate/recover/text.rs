//! The plan as text for people.

use synod_admin::recovery::Survivor;

use super::plan::{Chosen, Loss, NO_DATA, Plan, defects};
use crate::operate::utc;
use crate::table::{lay_out, or_dash};

/// The plan: a table, what to do, and what that costs.
pub(super) fn text(plan: &Plan) -> String {
    let head = format!("group {}: no leader with a majority is heard", plan.group);
    let mut parts = vec![head, table(&plan.members)];
    let defects = defects(&plan.members);
    if !defects.is_empty() {
        parts.push(format!("{}\n{NO_DATA}", defects.join("\n")));
    }
    match &plan.continue_with {
        Some(chosen) => {
            parts.push(consequences(plan, chosen));
            parts.push(order(chosen));
        }
        None => parts.push(no_server().to_owned()),
    }
    parts.join("\n\n")
}

/// Text for the operator when the order is carried out.
pub(super) fn done(text: &str) -> String {
    format!(
        "{text}.\n\
         Start the other servers that are left: they join it by themselves, and vote when they\n\
         have caught up. 'synod status' shows them.\n\
         A server that comes back with what is lost stops and says so: compare by hand if it\n\
         matters, then delete its data and start it again. It takes a full copy (SST)"
    )
}

const COLUMNS: [&str; 9] = [
    "name",
    "votes",
    "state",
    "last term",
    "last index",
    "durable",
    "committed",
    "applied",
    "has all before",
];

fn table(members: &[Survivor]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(members.iter().map(row));
    lay_out(&rows)
}

fn row(member: &Survivor) -> [String; 9] {
    let has = member.has.as_ref();
    let mark = if member.is_own { "*" } else { "" };
    let votes = if member.is_voter { "yes" } else { "no" };
    [
        format!("{}{mark}", member.name),
        votes.to_owned(),
        state(member),
        or_dash(has.map(|has| has.last_term)),
        or_dash(has.map(|has| has.last_index)),
        or_dash(has.map(|has| has.durable_index)),
        or_dash(has.map(|has| has.commit_index)),
        or_dash(has.and_then(|has| has.applied_seqno)),
        or_dash(has.and_then(|has| has.complete_unix_ms).map(utc::text)),
    ]
}

fn state(member: &Survivor) -> String {
    match (&member.has, member.heard_unix_ms) {
        (Some(has), _) if has.is_under_repair => "answers, log damaged".to_owned(),
        (Some(_), _) if !member.has_database => "answers, no database".to_owned(),
        (Some(_), _) => "answers".to_owned(),
        (None, Some(heard)) => format!("last heard {}", utc::text(heard)),
        (None, None) => "not heard since this server's start".to_owned(),
    }
}

fn consequences(plan: &Plan, chosen: &Chosen) -> String {
    let mut rows = vec![["continue with", &choice(chosen)].map(str::to_owned)];
    if chosen.is_marked {
        let text = format!(
            "the data of {}, above: as long as they are marked, it continues and serves no client. \
             Stop it, have them used ('synod copy --accept --yes'), and start it",
            chosen.name
        );
        rows.push(["first".to_owned(), text]);
    }
    if let Some(logger) = &chosen.after_logger {
        let text = format!(
            "{logger} leads for a moment: it is a logger and has more of the log, which {} takes \
             from it before it serves. Both must hear each other",
            chosen.name
        );
        rows.push(["first".to_owned(), text]);
    }
    let lost = format!(
        "{}: no votes any more. One that comes back votes again when it has caught up",
        plan.lost.join(", ")
    );
    rows.push(["thrown out".to_owned(), lost]);
    rows.push(["lost at most".to_owned(), loss(&plan.loss)]);
    if !chosen.unfit_with_more.is_empty() {
        let text = format!(
            "what {} has more: it cannot continue, because its log is damaged, or it has no vote \
             and no complete database yet",
            chosen.unfit_with_more.join(", ")
        );
        rows.push(["lost, too".to_owned(), text]);
    }
    lay_out(&rows)
}

fn choice(chosen: &Chosen) -> String {
    let Chosen { name, address, .. } = chosen;
    let others = match chosen.unfit_with_more.is_empty() {
        true => "no server that answers has a higher last entry",
        false => "of the servers that can continue none has a higher last entry",
    };
    let vote = match chosen.is_voter {
        true => "",
        false => ". It has no vote now, and more than all voters that answer",
    };
    format!("{name} at {address}: {others}{vote}")
}

fn loss(loss: &Loss) -> String {
    match loss {
        Loss::Nothing => "nothing that was acknowledged: every majority of these voters has a \
                          member among those that answer (unless the lost ones have changed who \
                          votes without them)"
            .to_owned(),
        Loss::After {
            unix_ms,
            entries_surely,
        } => {
            let after = match unix_ms {
                Some(at) => format!(
                    "what was committed after {}: until then the leader had nothing more",
                    utc::text(*at)
                ),
                None => "not known, because these servers have heard no leader since their start. \
                         Their error logs say when they heard one last"
                    .to_owned(),
            };
            match entries_surely {
                0 => after,
                1 => format!("{after}. 1 committed entry is lost for sure"),
                some => format!("{after}. {some} committed entries are lost for sure"),
            }
        }
    }
}

fn order(chosen: &Chosen) -> String {
    let dir = match &chosen.dir {
        Some(dir) => format!(" --dir {dir}"),
        None => String::new(),
    };
    format!(
        "Do this only if the lost servers surely do not run and cannot be started. Any of them\n\
         that can be started with its disk is better than this order.\n\
         Start first every other server that is left and not shown as answering, and ask again:\n\
         it may have more.\n\
         Give the order on one server only. Two servers that do not hear each other, and are both\n\
         ordered to continue, make two histories, one of which has to be given up.\n\
         Then, on the machine of {}:\n\n  synod recover --force --yes{dir}",
        chosen.name
    )
}

fn no_server() -> &'static str {
    "No server that answers can continue: each of them has no database, or a damaged log. \
     Start a server that is left, and ask again. A logger has no database and cannot serve; a \
     server that hears it takes from it what it lacks. If there is no other server, see 'When logs \
     are damaged' in docs/operating/shutdown-and-recovery.md"
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::{learner, member, plan};
    use super::*;

    #[test]
    fn plan_names_the_server_the_loss_and_the_command() {
        let mut one = member("db1", Some((2, 9)));
        let has = one.has.as_mut().unwrap();
        (has.stated_index, has.complete_unix_ms) = (11, Some(1_795_421_000_000));
        one.defects = vec!["Marked as not to be used: it differs.".into()];
        one.is_marked = true;
        let members = [one, member("db2", None), member("db3", None)];
        let text = text(&plan(&members).unwrap());
        for words in [
            "db1 at db1:4567",
            "db2, db3: no votes",
            "committed after 2026-",
            "2 committed entries are lost for sure",
            "on the machine of db1",
            "synod recover --force --yes",
            "make two histories",
            "data of db1: Marked",
            "synod copy --accept --yes",
        ] {
            assert!(text.contains(words), "no '{words}' in:\n{text}");
        }
    }

    #[test]
    fn plan_says_who_has_more() {
        let voters = [member("db1", Some((2, 9))), member("db2", None)];
        let lost = member("db3", None);
        let text = |copy| text(&plan(&[&voters[..], &[lost.clone(), copy]].concat()).unwrap());
        let continues = text(learner("copy", (2, 12), Some(9)));
        assert!(continues.contains("copy at copy:4567: no server that answers has a higher"));
        assert!(continues.contains("It has no vote now, and more than all voters"));
        let copying = text(learner("copy", (2, 12), None));
        assert!(copying.contains("db1 at db1:4567: of the servers that can continue"));
        assert!(copying.contains("what copy has more: it cannot continue"));
    }

    #[test]
    fn plan_without_a_server_gives_no_order() {
        let mut logger = member("witness", Some((2, 12)));
        logger.has_database = false;
        let members = [logger, member("db1", None), member("db2", None)];
        let text = text(&plan(&members).unwrap());
        assert!(text.contains("No server that answers can continue"));
        assert!(!text.contains("--force"), "{text}");
    }
}

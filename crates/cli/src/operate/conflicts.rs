//! `synod conflicts`: which tables lose, and to whom.

use clap::Args;
use synod_admin::conflict::Conflicts;
use synod_admin::protocol::{Answer, Request};

use super::utc;
use super::{EXIT_CODES, OperateError, ServerArgs, ask, print, unexpected};
use crate::table::{lay_out, or_dash};

/// Arguments of `synod conflicts`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct ConflictsArgs {
    #[command(flatten)]
    server: ServerArgs,
}

fn help() -> String {
    format!(
        "\
Example:

  synod conflicts

Each server counts transactions of its own clients, since its start. A transaction that changed
several tables counts for each of them: which of its rows conflicted is not known. To have each one
in the error log, set wsrep_log_conflicts or cert.log_conflicts.

{EXIT_CODES}"
    )
}

/// Runs the command; gives the exit code.
///
/// # Errors
/// No server answers, or the answer cannot be written.
pub fn run(arguments: &ConflictsArgs) -> Result<u8, OperateError> {
    let server = &arguments.server;
    let Answer::Conflicts(conflicts) = ask(server, Request::Conflicts)? else {
        return Err(unexpected(server));
    };
    print(server.json, &conflicts, || text(&conflicts))?;
    Ok(0)
}

fn text(conflicts: &Conflicts) -> String {
    if conflicts.total() == 0 {
        return "none of this server's transactions has lost since its start".to_owned();
    }
    let mut parts = vec![format!(
        "{} transactions of this server have lost: {} refused because of an action before them, \
         {} because their snapshot was too old, {} because their first part was discarded, {} \
         aborted by an action that needed their locks",
        conflicts.total(),
        conflicts.refused,
        conflicts.too_old,
        conflicts.given_up,
        conflicts.aborted
    )];
    if !conflicts.tables.is_empty() {
        parts.push(tables(conflicts));
    }
    if !conflicts.winners.is_empty() {
        let winners = conflicts.winners.iter();
        let winners: Vec<String> = winners.map(|w| format!("{} {}", w.name, w.total)).collect();
        parts.push(format!("they lost to actions of: {}", winners.join(", ")));
    }
    parts.join("\n\n")
}

fn tables(conflicts: &Conflicts) -> String {
    let head = [
        "table",
        "all",
        "last hour",
        "last 10 min",
        "latest",
        "lost to seqno",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(conflicts.tables.iter().map(|row| {
        [
            row.table.clone(),
            row.total.to_string(),
            row.last_hour.to_string(),
            row.last_10_minutes.to_string(),
            utc::text(row.last_unix_ms),
            or_dash(row.last_lost_to),
        ]
    }));
    let others = conflicts.other_tables;
    if others > 0 {
        let more = ["(other tables)".to_owned(), others.to_string()];
        let [name, count] = more;
        rows.push([
            name,
            count,
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    lay_out(&rows)
}

#[cfg(test)]
mod tests {
    use synod_admin::conflict::{TableConflicts, Winner};

    use super::*;

    #[test]
    fn losers_and_winners_are_listed() {
        let mut conflicts = Conflicts::default();
        assert!(text(&conflicts).starts_with("none of this"));
        conflicts.refused = 3;
        conflicts.tables.push(TableConflicts {
            table: "shop.stock".into(),
            total: 3,
            last_lost_to: Some(77),
            ..TableConflicts::default()
        });
        conflicts.winners.push(Winner {
            name: "db2".into(),
            total: 2,
        });
        conflicts.other_tables = 1;
        let shown = text(&conflicts);
        for words in ["shop.stock", "77", "db2 2", "(other tables)", "3 refused"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}

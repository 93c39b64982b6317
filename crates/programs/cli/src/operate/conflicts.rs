//! `synod conflicts`: the tables and rows that lose most, and to whom.

use clap::Args;
use synod_admin::conflict::{Conflicts, LostTransaction};
use synod_admin::protocol::{Answer, Request};

use super::utc;
use super::{EXIT_CODES, OperateError, ServerArgs, ask, print, unexpected};
use crate::table::{lay_out, or_dash};

/// Losers that are listed one by one; with --json there are more.
const LATEST_MAX: usize = 10;

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
several tables counts for each of them. A row is shown by the bytes of its key: one for the index
(00 is the first of the table), then the values; in brackets is what they may say. A row of which
only the hash is known has the same hash on all servers.

The library is not told statements. To have the server write those of both sides to its error log:
SET GLOBAL wsrep_log_conflicts=ON.

{EXIT_CODES}"
    )
}

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
        return "no transaction of this server has got error 1213 since its start".to_owned();
    }
    let kinds = [
        (conflicts.refused, "at COMMIT"),
        (conflicts.aborted, "while they ran"),
        (
            conflicts.too_old,
            "at COMMIT, because they had been open for too long",
        ),
        (
            conflicts.given_up,
            "because their first part was given up by the group",
        ),
    ];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(count, how)| format!("{count} {how}")).collect();
    let mut parts = vec![format!(
        "{} transactions of this server got error 1213: {}",
        conflicts.total(),
        kinds.join(", ")
    )];
    if let Some(since) = conflicts.recent_since_unix_ms {
        let (recent, since) = (conflicts.recent, utc::text(since));
        parts.push(format!("recent: the last {recent} of them, since {since}"));
    }
    if !conflicts.tables.is_empty() {
        parts.push(tables(conflicts));
    }
    if !conflicts.keys.is_empty() || conflicts.unknown_keys > 0 {
        parts.push(keys(conflicts));
    }
    if !conflicts.winners.is_empty() {
        let winners = conflicts.winners.iter();
        let winners: Vec<String> = winners.map(|w| format!("{} {}", w.name, w.total)).collect();
        parts.push(format!("they lost to actions of: {}", winners.join(", ")));
    }
    if !conflicts.latest.is_empty() {
        parts.push(latest(&conflicts.latest));
    }
    parts.join("\n\n")
}

fn tables(conflicts: &Conflicts) -> String {
    let head = ["table", "all", "recent", "latest", "lost to seqno"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(conflicts.tables.iter().map(|row| {
        [
            row.table.clone(),
            row.total.to_string(),
            row.recent.to_string(),
            utc::text(row.last_unix_ms),
            or_dash(row.last_lost_to),
        ]
    }));
    rows.extend(others_row(conflicts.other_tables));
    lay_out(&rows)
}

/// The rows for which most of the last losers have lost.
fn keys(conflicts: &Conflicts) -> String {
    let head = ["table", "key", "recent", "latest"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(conflicts.keys.iter().map(|row| {
        let table = (!row.table.is_empty()).then_some(&row.table);
        [
            or_dash(table),
            row.key.clone(),
            row.recent.to_string(),
            utc::text(row.last_unix_ms),
        ]
    }));
    let unknown = conflicts.unknown_keys;
    rows.extend(
        (unknown > 0).then(|| ["(key not known)", "", &unknown.to_string(), ""].map(str::to_owned)),
    );
    lay_out(&rows)
}

/// A line for the tables that have no line of their own.
fn others_row(count: u64) -> Option<[String; 5]> {
    (count > 0).then(|| ["(other tables)", &count.to_string(), "", "", ""].map(str::to_owned))
}

/// The last losers, latest first.
fn latest(losers: &[LostTransaction]) -> String {
    let head = [
        "latest",
        "how",
        "connection",
        "table",
        "key",
        "lost to",
        "seqno",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(losers.iter().take(LATEST_MAX).map(|loser| {
        let connection = loser.winner_connection;
        let winner = loser.winner.as_ref().map(|name| match connection {
            Some(connection) => format!("{name}, connection {connection}"),
            None => name.clone(),
        });
        [
            utc::text(loser.at_unix_ms),
            loser.how.clone(),
            or_dash(loser.connection),
            or_dash(loser.table.as_ref()),
            or_dash(loser.key.as_ref()),
            or_dash(winner),
            or_dash(loser.lost_to),
        ]
    }));
    lay_out(&rows)
}

#[cfg(test)]
mod tests {
    use synod_admin::conflict::{KeyConflicts, TableConflicts, Winner};

    use super::*;

    #[test]
    fn losers_and_winners_are_listed() {
        let mut conflicts = Conflicts::default();
        assert!(text(&conflicts).starts_with("no transaction of this server has got"));
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
        conflicts.keys.push(KeyConflicts {
            table: "shop.stock".into(),
            key: "000a000000 (10)".into(),
            ..KeyConflicts::default()
        });
        conflicts.unknown_keys = 1;
        conflicts.latest.push(LostTransaction {
            how: "aborted".into(),
            connection: Some(41),
            winner: Some("db3".into()),
            winner_connection: Some(57),
            ..LostTransaction::default()
        });
        let shown = text(&conflicts);
        for words in [
            "shop.stock",
            "77",
            "db2 2",
            "(other tables)",
            "got error 1213: 3 at COMMIT\n",
            "000a000000 (10)",
            "(key not known)",
            "41",
            "db3, connection 57",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}

//! `synod status`: the group as one server knows it.

use clap::Args;
use synod_admin::protocol::{Answer, Request};
use synod_admin::span;
use synod_admin::status::{CommitStep, Member, Status};
use synod_doctor::bytes_text;

use super::utc;
use super::{EXIT_CODES, OperateError, ServerArgs, ask, print, unexpected};
use crate::table::{lay_out, or_dash};

/// Arguments of `synod status`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Show the group only, and end with 6 if the server is outside one that commits
    #[arg(long)]
    check: bool,
}

/// Exit code of `--check` for a server that waits, has lost its majority, or hears that nothing
/// commits. Not that of the command itself, which is a probe whether the process answers.
const OUTSIDE: u8 = 6;

fn help() -> String {
    format!(
        "\
Example, on the machine of any server of the group:

  synod status
  synod status --dir /var/lib/mysql --json | jq '.members[] | select(.lag_ms > 1000)'
  synod status --check || echo 'this server is outside its group'

'*' marks the server that answers. The state of a member is 'absent' if it has left, or nothing has
come from it for evs.suspect_timeout; and 'silent' after a second without a message. What the server
does not know of another one is shown as '-': logs of other members are known to the leader only.
'trip' and 'clock' are measured from the server that answers: 'clock' is by how much another one's
clock is ahead of its own.

{EXIT_CODES}
  6  --check: the server answers, and is outside a group that commits: it waits, hears no majority,
     or has just lost its leader"
    )
}

pub fn run(arguments: &StatusArgs) -> Result<u8, OperateError> {
    let server = &arguments.server;
    let Answer::Status(status) = ask(server, Request::Status)? else {
        return Err(unexpected(server));
    };
    if !arguments.check {
        print(server.json, &status, || text(&status))?;
        return Ok(0);
    }
    print(server.json, &status, || head(&status))?;
    Ok(match status.is_in_service() {
        true => 0,
        false => OUTSIDE,
    })
}

pub(super) fn text(status: &Status) -> String {
    let mut parts = vec![head(status)];
    if !status.members.is_empty() {
        parts.push(members(&status.members));
    }
    parts.push(details(status));
    parts.join("\n\n")
}

fn head(status: &Status) -> String {
    let server = &status.server;
    let Some(group) = &status.group else {
        let text = format!(
            "{} ({}): not connected to a group",
            server.name, server.state
        );
        return match status.unheard.is_empty() {
            true => format!("{text}. Its error log says why"),
            false => format!("{text}.\n{}", status.unheard.join("\n")),
        };
    };
    let primary = match (group.is_primary, status.unheard.is_empty()) {
        (true, _) => "primary",
        (false, true) => {
            "NOT PRIMARY: no leader with a majority is heard, writes are refused. If the majority \
             is lost for good: synod recover --plan"
        }
        (false, false) => {
            "NOT PRIMARY: no leader with a majority is heard, writes are refused. The group may \
             run without this server"
        }
    };
    // A leader that is lost, or has lost the others, is noticed before the group is.
    let primary = match group.is_primary && !group.can_commit {
        true => "primary, but nothing commits at the moment",
        false => primary,
    };
    let leader = or_dash(group.leader.as_ref());
    let protocol = or_dash(group.protocol);
    let mut lines = vec![
        format!("group {} ({}): {primary}", group.name, group.id),
        format!(
            "term {}, leader {leader}, view {}, protocol {protocol}; {}",
            group.term, group.view, group.outlook
        ),
    ];
    if !group.is_primary {
        lines.extend(status.unheard.iter().cloned());
    }
    if let Some(election) = &status.last_election {
        let at = utc::text(election.at_unix_ms);
        let (term, leader, why) = (election.term, &election.leader, &election.why);
        lines.push(format!(
            "leader heard since {at}, term {term}, {leader}: {why}"
        ));
    }
    lines.join("\n")
}

const COLUMNS: [&str; 16] = [
    "name", "role", "state", "region", "weight", "term", "log", "durable", "applied", "lag",
    "lag ms", "queue", "trip ms", "clock ms", "speaks", "address",
];

pub(super) fn members(members: &[Member]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(members.iter().map(member_row));
    lay_out(&rows)
}

fn member_row(member: &Member) -> [String; 16] {
    let mark = if member.is_own { "*" } else { "" };
    let state = state(member);
    let versions = member.oldest_protocol.zip(member.newest_protocol);
    [
        format!("{}{mark}", member.name),
        member.role.clone(),
        state,
        or_dash(member.region.as_ref()),
        or_dash(member.weight),
        or_dash(member.term),
        or_dash(member.log_index),
        or_dash(member.durable_index),
        or_dash(member.applied_seqno),
        or_dash(member.lag_actions),
        or_dash(member.lag_ms),
        or_dash(member.apply_queue),
        or_dash(member.round_trip_us.map(millis)),
        or_dash(member.clock_ahead_us.map(signed_millis)),
        or_dash(versions.map(|(oldest, newest)| format!("{oldest}-{newest}"))),
        member.address.clone(),
    ]
}

/// State of a member. Without a database: whether it is present.
pub(super) fn state(member: &Member) -> String {
    match &member.state {
        _ if !member.is_present => "absent".to_owned(),
        _ if member.is_silent => format!("silent {} s", member.silent_ms.unwrap_or(0) / 1000),
        None if member.kind != "database" => "present".to_owned(),
        state => or_dash(state.as_ref()),
    }
}

/// Microseconds as milliseconds, so that a local network and an ocean both have digits that count.
fn millis(microseconds: u64) -> String {
    let digits = if microseconds < 10_000 { 2 } else { 0 };
    format!("{:.digits$}", microseconds as f64 / 1e3) // exact below 285 years
}

fn signed_millis(microseconds: i64) -> String {
    let sign = if microseconds < 0 { '-' } else { '+' };
    format!("{sign}{}", millis(microseconds.unsigned_abs()))
}

fn details(status: &Status) -> String {
    let figures = [
        ("server", server(status)),
        ("log", log(status)),
        ("writes", writes(status)),
        ("commits wait", commit_wait(status)),
        ("commit steps", commit_steps(&status.commit_steps)),
        ("conflicts", conflicts(status)),
    ];
    let trouble = status.server.trouble.clone().map(|why| ("trouble", why));
    let rows = trouble.into_iter().chain(figures);
    let rows: Vec<[String; 2]> = rows.map(|(name, text)| [name.to_owned(), text]).collect();
    lay_out(&rows)
}

fn server(status: &Status) -> String {
    let (server, queues) = (&status.server, &status.queues);
    // A member without a database has no clients.
    let has_clients = status.own().is_none_or(|own| own.kind == "database");
    let ready = match has_clients && !server.is_ready {
        true => " (clients are refused until it is synced, in a group with a majority)",
        false => "",
    };
    format!(
        "{}: {}{ready}, library {}, pid {}; {} actions wait for the group, {} to be applied",
        server.name,
        server.state,
        server.program,
        server.pid,
        queues.pending_actions,
        queues.apply_actions
    )
}

fn log(status: &Status) -> String {
    let log = &status.log;
    let mut text = format!("{} in {}", bytes_text(log.bytes), log.dir);
    if let Some(first) = log.first_seqno {
        text += &format!(", back to seqno {first}");
    }
    if let Some(begins) = log.begins_unix_ms {
        let age = span::text(status.at_unix_ms.saturating_sub(begins));
        text += &format!(", begun {age} ago");
    }
    text
}

fn writes(status: &Status) -> String {
    let flow = &status.flow_control;
    let waited = format!(
        "{} pauses, {:.1} s in all",
        flow.pauses,
        flow.paused_ms as f64 / 1000.0
    );
    match (flow.is_active, &flow.slowest, flow.slowest_lag_ms) {
        (false, _, _) => format!("not slowed down ({waited})"),
        (true, Some(name), Some(lag)) => {
            format!("slowed down: {name} lags {lag} ms and is needed for a majority ({waited})")
        }
        (true, _, _) => format!("slowed down ({waited})"),
    }
}

fn commit_wait(status: &Status) -> String {
    let wait = &status.commit_wait;
    let what = match wait.in_force.as_str() {
        "applied" => "until all synced servers have applied them",
        "durable" => "until they are durable on a majority",
        _ => "-",
    };
    match wait.excluded.is_empty() {
        true => what.to_owned(),
        false => format!("{what}, without {}", wait.excluded.join(", ")),
    }
}

fn commit_steps(steps: &[CommitStep]) -> String {
    let measured = steps.iter().filter(|step| step.samples > 0);
    let texts: Vec<String> = measured
        .map(|step| {
            let (name, p50, p99) = (&step.step, step.p50_us, step.p99_us);
            format!("{name} {}/{}", milliseconds(p50), milliseconds(p99))
        })
        .collect();
    match texts.is_empty() {
        true => "none measured lately".to_owned(),
        false => format!("{} (p50/p99 in ms)", texts.join(", ")),
    }
}

fn conflicts(status: &Status) -> String {
    let found = &status.conflicts;
    if status.server.is_mysql {
        let refused = status.counters.writes_refused;
        return format!("{refused} transactions of this server got error 3101");
    }
    match found.total() {
        0 => "no transaction of this server has got error 1213".to_owned(),
        total => format!(
            "{total} transactions of this server got error 1213 ({} at COMMIT, {} while they ran): \
             see synod conflicts",
            total - found.aborted,
            found.aborted
        ),
    }
}

/// Microseconds as milliseconds, with two digits behind the point.
fn milliseconds(us: u64) -> String {
    format!("{:.2}", us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use synod_admin::status::{Election, FlowControl, Group, Log, Server};

    use super::*;

    fn status() -> Status {
        Status {
            at_unix_ms: 1_000_000_000,
            server: Server {
                name: "db1".into(),
                state: "Synced".into(),
                ..Server::default()
            },
            group: Some(Group {
                name: "shop".into(),
                is_primary: true,
                leader: Some("db1".into()),
                can_commit: true,
                outlook: "3 voters: 1 may fail at a time".into(),
                ..Group::default()
            }),
            members: vec![
                Member {
                    name: "db1".into(),
                    is_own: true,
                    is_present: true,
                    role: "leader".into(),
                    state: Some("Synced".into()),
                    durable_index: Some(42),
                    ..Member::default()
                },
                Member {
                    name: "db2".into(),
                    role: "follower".into(),
                    state: Some("Synced".into()),
                    ..Member::default()
                },
            ],
            log: Log {
                bytes: 3 << 30,
                begins_unix_ms: Some(1_000_000_000 - 7_200_000),
                ..Log::default()
            },
            ..Status::default()
        }
    }

    fn row(member: Member) -> Vec<String> {
        let table = members(&[member]);
        let row = table.lines().nth(1).unwrap_or_default();
        row.split("  ").map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_what_is_away_is_absent() {
        let text = members(&status().members);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1][..3], ["db1*", "leader", "Synced"]);
        assert_eq!(rows[1][7], "42");
        assert_eq!(rows[2][..4], ["db2", "follower", "absent", "-"]);
        assert_eq!(rows[2][7], "-");
    }

    #[test]
    fn member_of_each_kind_is_present_silent_or_absent() {
        for (kind, role, present) in [
            ("database", "follower", "Synced"),
            ("logger", "logger", "present"),
            ("relay", "relay", "present"),
        ] {
            let mut member = Member {
                name: "db2".into(),
                kind: kind.into(),
                role: role.into(),
                is_present: true,
                state: (kind == "database").then(|| "Synced".into()),
                silent_ms: Some(2_300),
                ..Member::default()
            };
            assert_eq!(row(member.clone())[..3], ["db2", role, present]);
            member.is_silent = true;
            assert!(row(member.clone()).contains(&"silent 2 s".to_owned()));
            member.is_present = false;
            assert!(row(member).contains(&"absent".to_owned()), "{kind}");
        }
    }

    #[test]
    fn group_that_has_lost_its_leader_a_moment_ago_is_not_well() {
        let mut status = status();
        assert!(text(&status).contains("): primary\n") && status.is_in_service());
        let group = status.group.as_mut().unwrap();
        group.can_commit = false;
        assert!(text(&status).contains("primary, but nothing commits at the moment"));
        assert!(!status.is_in_service());
        let group = status.group.as_mut().unwrap();
        (group.is_primary, group.can_commit) = (false, true);
        assert!(text(&status).contains("): NOT PRIMARY: no leader"));
        assert!(!status.is_in_service());
        status.group = None;
        assert!(!status.is_in_service(), "it waits for its first group");
    }

    #[test]
    fn voters_that_may_run_are_named_instead_of_a_recovery() {
        let mut status = status();
        let group = status.group.as_mut().unwrap();
        group.is_primary = false;
        let lost = text(&status);
        assert!(lost.contains("synod recover --plan"), "{lost}");
        let refuses = "db1 at db1:4567 does not let this member in: its secret differs";
        status.unheard = vec![refuses.into()];
        let shown = text(&status);
        assert!(
            shown.contains(refuses) && !shown.contains("recover"),
            "{shown}"
        );
        status.group = None;
        let shown = text(&status);
        assert!(
            shown.contains("not connected to a group.\ndb1 at"),
            "{shown}"
        );
    }

    #[test]
    fn round_trips_have_the_digits_that_count() {
        let shown = [87, 1_250, 9_999, 10_000, 231_400].map(millis);
        assert_eq!(shown, ["0.09", "1.25", "10.00", "10", "231"]);
    }

    #[test]
    fn clocks_are_ahead_or_behind() {
        let shown = [-12_345_678, -80, 0, 1_500].map(signed_millis);
        assert_eq!(shown, ["-12346", "-0.08", "+0.00", "+1.50"]);
    }

    #[test]
    fn group_is_described_in_words() {
        let mut status = status();
        let shown = text(&status);
        for words in [
            "3 voters: 1 may fail at a time",
            "3.0 GiB",
            "begun 2.0 h ago",
            "primary",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        status.flow_control = FlowControl {
            is_active: true,
            slowest: Some("db3".into()),
            slowest_lag_ms: Some(900),
            ..FlowControl::default()
        };
        status.last_election = Some(Election {
            term: 7,
            leader: "db1".into(),
            why: "db2 has handed leadership over".into(),
            ..Election::default()
        });
        let shown = text(&status);
        assert!(shown.contains("db3 lags 900 ms"), "{shown}");
        assert!(shown.contains("term 7, db1: db2 has handed"), "{shown}");
    }

    #[test]
    fn trouble_of_the_server_is_its_first_figure() {
        let mut status = status();
        assert!(!text(&status).contains("trouble"));
        status.server.trouble = Some("out of its group, waits for a person: it differs".into());
        let shown = details(&status);
        assert!(shown.starts_with("trouble"), "{shown}");
        assert!(shown.contains("waits for a person: it differs"), "{shown}");
    }

    #[test]
    fn server_without_a_group_says_so() {
        let status = Status {
            group: None,
            members: Vec::new(),
            ..status()
        };
        assert!(text(&status).starts_with("db1 (Synced): not connected to a group"));
    }
}

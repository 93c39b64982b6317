//! `synod relay status`, `stop`, `start`, `switch`, `skip`, `readers`, `purge`: a relay that keeps
//! an upstream's binlog; and `synod relay gtid`.

use clap::{Args, Subcommand};
use synod_admin::protocol::{Answer, Request};
use synod_admin::relay::{PullState, RegisteredReader, RelayReader, RelayStatus};
use synod_admin::span;

use synod_relay::MysqlGtidSet;

use super::orders::{carry_out, weakening};
use super::{OperateError, ServerArgs, ask, print, unexpected};
use crate::number::{ID_MAX, number};
use crate::table::{lay_out, or_dash};

/// Commands for a running relay of an upstream.
#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamCommand {
    /// Show the upstream, who pulls from it, and the readers of a running relay
    Status {
        #[command(flatten)]
        relay: ServerArgs,
    },
    /// Pull nothing until 'resume'; at the relay that leads
    ///
    /// Readers are served all the time. The program itself ends by a signal (systemctl stop).
    #[command(visible_alias = "stop")]
    Pause {
        #[command(flatten)]
        relay: ServerArgs,
    },
    /// Pull again; at the relay that leads
    #[command(visible_alias = "start")]
    Resume {
        #[command(flatten)]
        relay: ServerArgs,
    },
    /// Pull from another server that has the same transactions; at the relay that leads
    ///
    /// All relays of the group do so until the next such order, also after a restart. The account
    /// is that of relay.upstream.
    Switch {
        /// Its address: HOST or HOST:PORT
        to: String,
        #[command(flatten)]
        relay: ServerArgs,
    },
    /// Leave out the transaction of MySQL that stops the pull; at the relay that leads
    ///
    /// Every replica stops at its place, and says so, until its changes were made there.
    /// 'synod relay status' names the transaction.
    Skip {
        /// Its GTID in MySQL: 3e11fa47-71ca-11e1-9e33-c80aa9429562:4711
        gtid: String,
        #[command(flatten)]
        relay: ServerArgs,
    },
    /// Show the GTID that a reader of relays of MySQL has which has this set
    ///
    /// The set is what a backup or gtid_executed says. The output is for gtid_slave_pos.
    Gtid {
        /// A set of MySQL's GTIDs
        set: MysqlGtidSet,
        /// relay.upstream_mysql_domain of the relays
        #[arg(long, default_value_t = 0, value_parser = number::<u32, 0, ID_MAX>)]
        domain: u32,
    },
    /// Register readers, whose places all relays hold while they are away; at any relay
    Readers(ReadersArgs),
    /// Purge the logs of all relays; at any relay
    ///
    /// Whole files are purged, never the newest transaction, and nothing that a registered or
    /// connected reader needs unless --yes is given.
    Purge {
        /// Up to these GTIDs, one of each domain: 0-1-4711 [default: all that no reader needs]
        #[arg(long, value_name = "GTIDS")]
        to: Option<String>,
        /// Also of what readers need: the relays tell them which transactions they have lost
        #[arg(long, visible_alias = "force", requires = "to")]
        yes: bool,
        #[command(flatten)]
        relay: ServerArgs,
    },
}

/// Arguments of `synod relay readers`.
#[derive(Debug, Args)]
pub(crate) struct ReadersArgs {
    #[command(subcommand)]
    command: ReadersCommand,
}

#[derive(Debug, Subcommand)]
enum ReadersCommand {
    /// Hold what a reader needs from now on, also while it is not connected
    ///
    /// The relays stop pulling before they purge what it needs, unless their files say
    /// synod.log_full = "drop".
    Add(ReaderArgs),
    /// Hold nothing for a reader any more while it is not connected
    Remove(ReaderArgs),
}

#[derive(Debug, Args)]
struct ReaderArgs {
    /// Its server_id
    #[arg(value_parser = number::<u32, 1, ID_MAX>)]
    server_id: u32,
    #[command(flatten)]
    relay: ServerArgs,
}

pub(crate) fn run(command: &UpstreamCommand) -> Result<u8, OperateError> {
    match command {
        UpstreamCommand::Status { relay } => {
            let Answer::Relay(status) = ask(relay, Request::RelayStatus)? else {
                return Err(unexpected(relay));
            };
            print(relay.json, &status, || text(&status))?;
            Ok(0)
        }
        UpstreamCommand::Pause { relay } => carry_out(relay, Request::PauseUpstream),
        UpstreamCommand::Resume { relay } => carry_out(relay, Request::ResumeUpstream),
        UpstreamCommand::Switch { to, relay } => {
            carry_out(relay, Request::SwitchUpstream { to: to.clone() })
        }
        UpstreamCommand::Skip { gtid, relay } => {
            let gtid = gtid.clone();
            carry_out(relay, Request::SkipTransaction { gtid })
        }
        UpstreamCommand::Gtid { set, domain } => {
            println!("{}", set.given_after(*domain));
            Ok(0)
        }
        UpstreamCommand::Readers(readers) => match &readers.command {
            ReadersCommand::Add(ReaderArgs { server_id, relay }) => {
                let server_id = *server_id;
                carry_out(relay, Request::RegisterReader { server_id })
            }
            ReadersCommand::Remove(ReaderArgs { server_id, relay }) => {
                let server_id = *server_id;
                carry_out(relay, Request::RemoveReader { server_id })
            }
        },
        UpstreamCommand::Purge { to, yes, relay } => {
            let (to, force) = (to.clone(), *yes);
            weakening(relay, Request::PurgeRelays { to, force })
        }
    }
}

/// Number of the row that says up to where the log is.
const KEPT_ROW: usize = 2;

fn text(status: &RelayStatus) -> String {
    if status.upstream.is_empty() {
        return text_of_group(status);
    }
    let rows = [
        ["upstream", &upstream(status)],
        ["pulled by", &pulled_by(status)],
        ["kept up to", or_none(&status.gtids)],
        ["binlog place", or_none(&status.place)],
        [
            "delay",
            &or_dash(status.delay_ms.map(|ms| format!("{ms} ms"))),
        ],
        ["quiet for", &or_dash(status.quiet_ms.map(span::text))],
    ];
    let mut rows = rows.map(|row| row.map(str::to_owned)).to_vec();
    if !status.mysql_gtids.is_empty() {
        let set = ["in MySQL".to_owned(), status.mysql_gtids.clone()];
        rows.insert(KEPT_ROW + 1, set);
    }
    let mut lines = vec![lay_out(&rows)];
    if let Some(error) = &status.error {
        let since = status
            .stuck_ms
            .map(|ms| format!(" (for {})", span::text(ms)));
        lines.push(format!("error{}: {error}", since.unwrap_or_default()));
    }
    if let Some(warning) = &status.warning {
        lines.push(format!("warning: {warning}"));
    }
    lines.push(String::new());
    lines.push(readers(&status.readers));
    if !status.registered.is_empty() {
        lines.push(String::new());
        lines.push(registered(&status.registered));
    }
    lines.join("\n")
}

fn text_of_group(status: &RelayStatus) -> String {
    let rows = [
        ["serves", "the group that it is in"],
        ["up to", or_none(&status.gtids)],
    ];
    let rows = rows.map(|row| row.map(str::to_owned));
    [lay_out(&rows), String::new(), readers(&status.readers)].join("\n")
}

fn upstream(status: &RelayStatus) -> String {
    let switched = if status.is_switched {
        " (as ordered; the relays' files may name another one)"
    } else {
        ""
    };
    format!("{}{switched}", status.upstream)
}

fn pulled_by(status: &RelayStatus) -> String {
    let state = match status.pull {
        PullState::Elsewhere => "not this relay",
        PullState::Connecting => "this relay; no connection now",
        PullState::Pulling | PullState::Paused => "this relay",
        PullState::Other => "in a state that this program does not know",
    };
    let paused = if status.is_paused {
        "; paused by order"
    } else {
        ""
    };
    match status.puller.as_str() {
        "" => "no relay: none leads".to_owned(),
        puller => format!("{puller} ({state}{paused})"),
    }
}

fn or_none(text: &str) -> &str {
    match text {
        "" => "none",
        text => text,
    }
}

fn readers(readers: &[RelayReader]) -> String {
    if readers.is_empty() {
        return "no reader is connected".to_owned();
    }
    let head = ["reader", "server_id", "behind", "transactions"].map(str::to_owned);
    let row = |reader: &RelayReader| {
        [
            reader.from.clone(),
            reader.server_id.to_string(),
            or_dash(reader.behind),
            or_dash(reader.gtids.as_deref()),
        ]
    };
    let rows: Vec<_> = [head].into_iter().chain(readers.iter().map(row)).collect();
    lay_out(&rows)
}

fn registered(readers: &[RegisteredReader]) -> String {
    let head = [
        "registered",
        "connected",
        "last seen",
        "held",
        "transactions",
    ];
    let row = |reader: &RegisteredReader| {
        let seen = match (reader.is_here, reader.unseen_ms) {
            (true, _) => "now".to_owned(),
            (false, Some(ms)) => format!("{} ago", span::text(ms)),
            (false, None) => "never".to_owned(),
        };
        [
            reader.server_id.to_string(),
            if reader.is_here { "here" } else { "not here" }.to_owned(),
            seen,
            reader.holds.to_string(),
            reader.gtids.clone().unwrap_or_else(|| "purged".to_owned()),
        ]
    };
    let head = head.map(str::to_owned);
    let rows: Vec<_> = [head].into_iter().chain(readers.iter().map(row)).collect();
    lay_out(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_says_who_pulls_and_where_readers_are() {
        let status = RelayStatus {
            upstream: "db1:3306".to_owned(),
            puller: "relay2".to_owned(),
            gtids: "0-1-7".to_owned(),
            error: Some("no route to host".to_owned()),
            warning: Some("rows without all columns".to_owned()),
            readers: vec![RelayReader {
                from: "127.0.0.1:4000".to_owned(),
                server_id: 9,
                gtids: Some("0-1-5".to_owned()),
                behind: Some(2),
            }],
            ..RelayStatus::default()
        };
        let expected = "\
upstream      db1:3306
pulled by     relay2 (not this relay)
kept up to    0-1-7
binlog place  none
delay         -
quiet for     -
error: no route to host
warning: rows without all columns

reader          server_id  behind  transactions
127.0.0.1:4000  9          2       0-1-5";
        assert_eq!(text(&status), expected);
    }

    #[test]
    fn registered_readers_are_listed_with_what_they_hold() {
        let away = RegisteredReader {
            server_id: 9,
            unseen_ms: Some(7_200_000),
            holds: 700,
            gtids: Some("0-1-5".to_owned()),
            ..RegisteredReader::default()
        };
        let here = RegisteredReader {
            server_id: 10,
            is_here: true,
            ..RegisteredReader::default()
        };
        let status = RelayStatus {
            upstream: "db1:3306".to_owned(),
            registered: vec![away, here],
            ..RelayStatus::default()
        };
        let expected = "\
registered  connected  last seen  held  transactions
9           not here   2.0 h ago  700   0-1-5
10          here       now        0     purged";
        assert!(text(&status).ends_with(expected), "{}", text(&status));
    }

    #[test]
    fn relay_without_readers_or_leader_says_so() {
        let status = RelayStatus {
            upstream: "db1:3306".to_owned(),
            ..RelayStatus::default()
        };
        let text = text(&status);
        assert!(text.contains("no relay: none leads"), "{text}");
        assert!(text.contains("no reader is connected"), "{text}");
    }
}

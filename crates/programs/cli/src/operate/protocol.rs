//! `synod protocol`: which protocol version the group speaks, and whether it rises by itself.

use clap::{Args, Subcommand};
use serde::Serialize;
use synod_admin::protocol::Request;
use synod_admin::status::{Group, Member, Status};

use super::orders::{ask_status, weakening};
use super::{EXIT_CODES, OperateError, ServerArgs, print};
use crate::table::{lay_out, or_dash};

/// Arguments of `synod protocol`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct ProtocolArgs {
    #[command(subcommand)]
    command: ProtocolCommand,
}

#[derive(Debug, Subcommand)]
enum ProtocolCommand {
    /// Show the group's version, and what each member's program speaks
    Get {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Raise the version, or hold it, or let it rise by itself
    Set {
        /// The version that the group is to speak until the next such order, or 'auto': it rises by
        /// itself when all members speak a newer one
        #[arg(value_parser = Wanted::read)]
        version: Wanted,
        /// Do it, whatever is at stake
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// The version that an operator orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Auto,
    Version(u16),
}

impl Wanted {
    fn read(text: &str) -> Result<Wanted, String> {
        if text == "auto" {
            return Ok(Wanted::Auto);
        }
        match text.parse() {
            Ok(version) if version > 0 => Ok(Wanted::Version(version)),
            _ => Err("a version is a number from 1 on, or 'auto'".to_owned()),
        }
    }
}

fn help() -> String {
    format!(
        "\
Example: an upgrade that can be undone. Before it, the group speaks version 5:

  synod protocol set 5

Upgrade one server after the other. Going back to the old program is possible until

  synod protocol set auto

{EXIT_CODES}"
    )
}

pub fn run(arguments: &ProtocolArgs) -> Result<u8, OperateError> {
    match &arguments.command {
        ProtocolCommand::Get { server } => {
            let status = ask_status(server)?;
            let protocol = Protocol::of(&status);
            print(server.json, &protocol, || protocol.text())?;
            Ok(0)
        }
        ProtocolCommand::Set {
            version,
            yes,
            server,
        } => {
            let version = match version {
                Wanted::Auto => None,
                Wanted::Version(version) => Some(*version),
            };
            let force = *yes;
            weakening(server, Request::SetProtocol { version, force })
        }
    }
}

/// The group's version and what it can become.
#[derive(Debug, Serialize)]
struct Protocol<'a> {
    /// None: not known.
    version: Option<u16>,
    /// None: not known.
    is_held: Option<bool>,
    /// The versions that can be set, ascending: the present one, and newer ones that all members
    /// speak.
    can_be_set: Vec<u16>,
    members: Vec<MemberVersions<'a>>,
}

#[derive(Debug, Serialize)]
struct MemberVersions<'a> {
    name: &'a str,
    is_present: bool,
    is_silent: bool,
    oldest: Option<u16>,
    newest: Option<u16>,
    log_format: Option<u32>,
}

impl Protocol<'_> {
    fn of(status: &Status) -> Protocol<'_> {
        let group = status.group.as_ref();
        let members = status.members.iter().map(|member| MemberVersions {
            name: &member.name,
            is_present: member.is_present,
            is_silent: member.is_silent,
            oldest: member.oldest_protocol,
            newest: member.newest_protocol,
            log_format: member.log_format,
        });
        Protocol {
            version: group.and_then(|group| group.protocol),
            is_held: group.and_then(|group| group.protocol_is_held),
            can_be_set: group.map_or_else(Vec::new, |group| can_be_set(group, &status.members)),
            members: members.collect(),
        }
    }

    fn text(&self) -> String {
        let head = ["member", "present", "oldest", "newest", "log format"].map(str::to_owned);
        let rows = self.members.iter().map(|member| {
            [
                member.name.to_owned(),
                match (member.is_present, member.is_silent) {
                    (true, false) => "yes",
                    (true, true) => "silent",
                    (false, _) => "no",
                }
                .to_owned(),
                or_dash(member.oldest),
                or_dash(member.newest),
                or_dash(member.log_format),
            ]
        });
        let rows: Vec<[String; 5]> = [head].into_iter().chain(rows).collect();
        format!("{}\n\n{}", self.summary(), lay_out(&rows))
    }

    /// Members that do not speak a newer version, which others speak already. The group keeps its
    /// version until these are upgraded or removed, also if they are not present.
    fn who_blocks(&self, version: u16) -> String {
        let is_behind = |member: &&MemberVersions<'_>| member.newest.is_none_or(|n| n <= version);
        let behind: Vec<&str> = self
            .members
            .iter()
            .filter(is_behind)
            .map(|member| member.name)
            .collect();
        if behind.len() == self.members.len() {
            return "all members".to_owned();
        }
        format!(
            "{}: upgrade, or 'synod member remove' what is gone for good",
            behind.join(", ")
        )
    }

    fn summary(&self) -> String {
        let Some(version) = self.version else {
            return "this server does not know which protocol version its group speaks".to_owned();
        };
        let newer = self.can_be_set.iter().filter(|other| **other > version);
        let newer: Vec<String> = newer.map(u16::to_string).collect();
        let what_can_be_set = if newer.is_empty() {
            format!("no newer one is spoken by {}", self.who_blocks(version))
        } else {
            format!("can be raised to {}", newer.join(", "))
        };
        let until = match self.is_held {
            Some(true) => "held until 'synod protocol set'",
            Some(false) => "rises by itself",
            None => "whether it rises by itself is not known here",
        };
        format!("protocol version {version}: {until}; {what_can_be_set}")
    }
}

/// The group's version, and the newer ones that all members speak. A group with a member of which
/// that is not known stays as it is.
fn can_be_set(group: &Group, members: &[Member]) -> Vec<u16> {
    let Some(present) = group.protocol else {
        return Vec::new();
    };
    let newest = members.iter().map(|member| member.newest_protocol);
    let newest = newest.map(|newest| newest.unwrap_or(present)).min();
    (present..=newest.unwrap_or(present).max(present)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(protocol: u16, is_held: bool, newest: &[u16]) -> Status {
        let member = |(place, newest): (usize, &u16)| Member {
            name: format!("db{}", place + 1),
            is_present: true,
            oldest_protocol: Some(1),
            newest_protocol: Some(*newest),
            log_format: (place == 0).then_some(3),
            ..Member::default()
        };
        Status {
            group: Some(Group {
                protocol: Some(protocol),
                protocol_is_held: Some(is_held),
                ..Group::default()
            }),
            members: newest.iter().enumerate().map(member).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn members_of_each_kind_are_present_silent_or_not() {
        let mut status = status(5, true, &[5, 5, 5]);
        for (member, kind) in status
            .members
            .iter_mut()
            .zip(["database", "logger", "relay"])
        {
            member.kind = kind.to_owned();
        }
        status.members[1].is_silent = true;
        status.members[2].is_present = false;
        let text = Protocol::of(&status).text();
        let rows = text.lines().skip(3).map(str::split_whitespace);
        let shown: Vec<&str> = rows.filter_map(|mut cells| cells.nth(1)).collect();
        assert_eq!(shown, ["yes", "silent", "no"]);
    }

    #[test]
    fn versions_that_all_members_speak_can_be_set() {
        let set = |protocol, newest: &[u16]| {
            let status = status(protocol, true, newest);
            Protocol::of(&status).can_be_set
        };
        assert_eq!(set(5, &[7, 6]), [5, 6]);
        assert_eq!(set(5, &[5, 7]), [5]);
        assert!(Protocol::of(&Status::default()).can_be_set.is_empty());
    }

    #[test]
    fn text_says_what_is_so_and_what_can_be_done() {
        let text = Protocol::of(&status(5, true, &[6, 6])).text();
        assert!(text.starts_with("protocol version 5: held"), "{text}");
        assert!(text.contains("can be raised to 6\n"), "{text}");
        let text = Protocol::of(&status(5, false, &[5, 6])).text();
        let blocked = "5: rises by itself; no newer one is spoken by db1: upgrade";
        assert!(text.contains(blocked), "{text}");
        let text = Protocol::of(&status(5, false, &[5, 5])).text();
        assert!(
            text.contains("no newer one is spoken by all members"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("db1")), "{text}");
    }

    #[test]
    fn wanted_version_is_a_number_or_auto() {
        assert_eq!(Wanted::read("auto"), Ok(Wanted::Auto));
        assert_eq!(Wanted::read("6"), Ok(Wanted::Version(6)));
        for text in ["0", "-1", "six", "70000", ""] {
            assert!(Wanted::read(text).is_err(), "{text}");
        }
    }
}

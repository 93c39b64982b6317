//! `synod member`, `synod leader`, `synod weight`: who is in the group, who votes, who leads.
//!
//! What can cost data or availability says so, and is done with `--yes` only.

use clap::{Args, Subcommand};
use synod_admin::ClientError;
use synod_admin::protocol::{Answer, Reason, Request};
use synod_admin::status::{Election, Status};

use super::{EXIT_CODES, OperateError, ServerArgs, ask, print, status, unexpected};
use crate::number::number;

/// Arguments of `synod member`.
#[derive(Debug, Args)]
#[command(after_help = member_help())]
pub struct MemberArgs {
    #[command(subcommand)]
    command: MemberCommand,
}

#[derive(Debug, Subcommand)]
enum MemberCommand {
    /// Show the members
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Take a member that is gone for good out of the group
    Remove(MemberOrder),
    /// Let a member vote
    Promote(MemberOrder),
    /// Let a member not vote any more
    Demote(MemberOrder),
    /// Remove a member, and let another one vote in its place
    Replace {
        /// The member to remove: its name, or its address or id if two have one name
        old: String,
        #[command(flatten)]
        order: MemberOrder,
    },
    /// Forget which certificate a member is bound to: the next one that it shows binds it
    Unbind(MemberOrder),
}

#[derive(Debug, Args)]
struct MemberOrder {
    /// The member: its name, or its address or id if two have one name
    name: String,
    /// Do it, whatever is at stake
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    server: ServerArgs,
}

fn member_help() -> String {
    format!(
        "\
Example: db4 has joined as a learner (synod.voter=no) and takes the place of db3, whose machine is
lost. On the machine of any server of the group:

  synod member list
  synod member replace db3 db4

{EXIT_CODES}"
    )
}

/// Arguments of `synod leader`.
#[derive(Debug, Args)]
#[command(after_help = leader_help())]
pub struct LeaderArgs {
    #[command(subcommand)]
    command: Option<LeaderCommand>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum LeaderCommand {
    /// Hand leadership over
    Transfer {
        /// Name of the next leader, a voter [default: the one with the most complete log]
        name: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
}

fn leader_help() -> String {
    format!(
        "\
Example: before the leader's machine is restarted, on the machine of any server:

  synod leader
  synod leader transfer db2

{EXIT_CODES}"
    )
}

/// Arguments of `synod weight`.
#[derive(Debug, Args)]
#[command(after_help = weight_help())]
pub struct WeightArgs {
    /// The server: its name, or its address or id if two have one name
    name: String,
    /// How much it should lead, 0 (never by preference) to 100
    #[arg(value_parser = number::<u8, 0, 100>)]
    weight: u8,
    #[command(flatten)]
    server: ServerArgs,
}

fn weight_help() -> String {
    format!(
        "\
Example: prefer another leader than db1, until db1 is restarted:

  synod weight db1 10

{EXIT_CODES}"
    )
}

pub fn member(arguments: &MemberArgs) -> Result<u8, OperateError> {
    match &arguments.command {
        MemberCommand::List { server } => {
            let status = ask_status(server)?;
            print(server.json, &status.members, || {
                status::members(&status.members)
            })?;
            Ok(0)
        }
        MemberCommand::Remove(order) => remove(order),
        MemberCommand::Promote(order) => {
            let member = order.name.clone();
            carry_out(&order.server, Request::PromoteMember { member })
        }
        MemberCommand::Demote(order) => {
            let (member, force) = (order.name.clone(), order.yes);
            weakening(&order.server, Request::DemoteMember { member, force })
        }
        MemberCommand::Replace { old, order } => {
            let (old, new, force) = (old.clone(), order.name.clone(), order.yes);
            weakening(&order.server, Request::ReplaceMember { old, new, force })
        }
        MemberCommand::Unbind(order) => unbind(order),
    }
}

/// Removes a member. That cannot be undone, so it is confirmed in any case.
fn remove(order: &MemberOrder) -> Result<u8, OperateError> {
    let member = order.name.clone();
    if !order.yes {
        // The confirmation does not depend on the answer; what is at stake does.
        let status = ask_status(&order.server).ok();
        let stakes = stakes_of_removal(status.as_ref(), &member);
        return Err(OperateError::NeedsYes { stakes });
    }
    let force = true;
    carry_out(&order.server, Request::RemoveMember { member, force })
}

fn stakes_of_removal(status: Option<&Status>, member: &str) -> String {
    let mut members = status.iter().flat_map(|status| &status.members);
    let votes = members
        .find(|known| known.name == member)
        .map(|known| known.is_voter);
    let loss = match votes {
        Some(false) => {
            "it has no vote, so the group survives as many failures as now, and its copy of the \
             log counts for nothing from then on"
        }
        Some(true) | None => {
            "its vote and its copy of the log count for nothing from then on. The group may \
             survive fewer failures than now; to keep their number, use 'synod member replace'"
        }
    };
    format!(
        "'{member}' would be no member any more: {loss}. If it runs, it stops, and comes back as a \
         new member only"
    )
}

/// Until the member has shown its certificate, another holder of one may come first.
fn unbind(order: &MemberOrder) -> Result<u8, OperateError> {
    let member = order.name.clone();
    if !order.yes {
        let stakes = format!(
            "'{member}' would be bound to no certificate until it shows one, and to that one then. \
             In between, a process with any certificate of this group that no other member is \
             bound to can speak in its name"
        );
        return Err(OperateError::NeedsYes { stakes });
    }
    carry_out(&order.server, Request::UnbindMember { member })
}

/// An order that the group carries out by itself unless something is at stake.
pub(super) fn weakening(server: &ServerArgs, request: Request) -> Result<u8, OperateError> {
    carry_out(server, request).map_err(|error| match error {
        OperateError::Client(ClientError::Refused(refusal))
            if refusal.reason == Reason::NeedsForce =>
        {
            let stakes = refusal.text.trim_end_matches('.').to_owned();
            OperateError::NeedsYes { stakes }
        }
        error => error,
    })
}

pub fn leader(arguments: &LeaderArgs) -> Result<u8, OperateError> {
    match &arguments.command {
        Some(LeaderCommand::Transfer { name, server }) => {
            carry_out(server, Request::TransferLeadership { to: name.clone() })
        }
        None => {
            let server = &arguments.server;
            let status = ask_status(server)?;
            let leader = Leader::of(&status);
            print(server.json, &leader, || leader.text())?;
            Ok(0)
        }
    }
}

pub fn weight(arguments: &WeightArgs) -> Result<u8, OperateError> {
    let request = Request::SetWeight {
        member: arguments.name.clone(),
        weight: arguments.weight,
    };
    carry_out(&arguments.server, request)
}

/// The leader, its term and the last election.
#[derive(Debug, serde::Serialize)]
struct Leader<'a> {
    leader: Option<&'a str>,
    term: Option<u64>,
    last_election: Option<&'a Election>,
}

impl Leader<'_> {
    fn of(status: &Status) -> Leader<'_> {
        let group = status.group.as_ref();
        Leader {
            leader: group.and_then(|group| group.leader.as_deref()),
            term: group.map(|group| group.term),
            last_election: status.last_election.as_ref(),
        }
    }

    fn text(&self) -> String {
        let why = self.last_election.map_or(String::new(), |election| {
            let of_another = match self.leader == Some(&election.leader) {
                true => String::new(),
                false => format!("{}: ", election.leader),
            };
            format!(" ({of_another}{})", election.why)
        });
        match (self.leader, self.term) {
            (Some(leader), Some(term)) => format!("{leader} leads term {term}{why}"),
            _ => format!("this server knows no leader{why}"),
        }
    }
}

pub(super) fn ask_status(server: &ServerArgs) -> Result<Status, OperateError> {
    match ask(server, Request::Status)? {
        Answer::Status(status) => Ok(*status),
        _ => Err(unexpected(server)),
    }
}

/// An order, whose answer is printed.
pub(super) fn carry_out(server: &ServerArgs, request: Request) -> Result<u8, OperateError> {
    let Answer::Done(done) = ask(server, request)? else {
        return Err(unexpected(server));
    };
    print(server.json, &done, || done.text.clone())?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use synod_admin::status::Member;

    use super::*;
    use crate::operate::PlaceArgs;

    fn order(yes: bool) -> MemberOrder {
        MemberOrder {
            name: "db3".into(),
            yes,
            server: ServerArgs {
                place: PlaceArgs {
                    dir: Some("/nowhere".into()),
                    ..PlaceArgs::default()
                },
                json: false,
            },
        }
    }

    #[test]
    fn removal_says_what_the_group_loses() {
        let member = |name: &str, is_voter| Member {
            name: name.into(),
            is_voter,
            ..Member::default()
        };
        let status = Status {
            members: vec![member("db3", true), member("relay", false)],
            ..Status::default()
        };
        let stakes = |name: &str| stakes_of_removal(Some(&status), name);
        assert!(stakes("relay").contains("survives as many failures as now"));
        assert!(stakes("db3").contains("may survive fewer failures"));
        assert!(stakes("other").contains("may survive fewer failures"));
        assert!(stakes_of_removal(None, "relay").contains("may survive fewer failures"));
    }

    #[test]
    fn leader_is_named_once() {
        let election = Election {
            leader: "db2".into(),
            why: "db1 has handed leadership over".into(),
            ..Election::default()
        };
        let leader = |name| Leader {
            leader: name,
            term: Some(7),
            last_election: Some(&election),
        };
        let text = leader(Some("db2")).text();
        assert_eq!(text, "db2 leads term 7 (db1 has handed leadership over)");
        let text = leader(None).text();
        assert!(
            text.ends_with("no leader (db2: db1 has handed leadership over)"),
            "{text}"
        );
    }

    #[test]
    fn removal_is_confirmed_before_a_server_is_asked() {
        let error = remove(&order(false)).unwrap_err();
        assert!(matches!(error, OperateError::NeedsYes { .. }), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().ends_with("with --yes"), "{error}");
        assert_eq!(
            remove(&order(true)).unwrap_err().exit_code(),
            3,
            "no server"
        );
    }
}

//! Members of the group as Group Replication's tables show them.

use std::time::{Duration, Instant};

use synod_binlog::mysql_gtid::Uuid;
use synod_node::{Command, DataState, MemberId, NodeStatus, Presence, RefusalReason};

use crate::host::Member;

/// The group is asked so long for another writer.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(30);
/// Between two of these questions.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Address of a server for clients, and its own UUID: what the other members know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incoming<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) server: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) server: Uuid,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// ONLINE, RECOVERING, UNREACHABLE or ERROR.
    pub(crate) state: &'static str,
    pub(crate) is_writer: bool,
    pub(crate) is_self: bool,
}

impl Incoming<'_> {
    /// Reads `host:port (server_uuid)`, as the plugin writes it; none: another text.
    pub(crate) fn parse(text: &str) -> Option<Incoming<'_>> {
        let (address, server) = text.strip_suffix(')')?.split_once(" (")?;
        let (host, port) = address.rsplit_once(':')?;
        Some(Incoming {
            host,
            port: port.parse().ok()?,
            server: server.parse().ok()?,
        })
    }
}

/// The servers in the latest view, in its order.
pub(crate) fn list(status: &NodeStatus) -> Vec<Listed> {
    let listed = status.view.members.iter().filter_map(|member| {
        let incoming = Incoming::parse(&member.incoming)?;
        Some(Listed {
            server: incoming.server,
            name: member.name.clone(),
            host: incoming.host.to_owned(),
            port: incoming.port,
            state: state(status, member.member),
            is_writer: status.leader == Some(member.member),
            is_self: member.member == status.member,
        })
    });
    listed.collect()
}

impl Member {
    /// Has the server with this UUID become the writer.
    pub(crate) fn hand_over_to(&self, server: &str) -> Result<(), String> {
        let members = list(&self.node().status());
        let is_meant = |member: &&Listed| member.server.to_string().eq_ignore_ascii_case(server);
        let Some(meant) = members.iter().find(is_meant) else {
            return Err(format!(
                "no present server of the group has the server_uuid {server}"
            ));
        };
        if meant.is_writer {
            return Ok(());
        }
        let command = Command::TransferLeadership {
            to: Some(meant.name.clone()),
        };
        let end = Instant::now() + HAND_OVER_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.node().administrate(command.clone(), left) {
                Ok(_) => return Ok(()),
                // An earlier order has just been carried out: the leader is a new one.
                Err(refusal)
                    if refusal.reason == RefusalReason::NoLeader
                        && Instant::now() + ASK_AGAIN < end
                        && !self.pause(ASK_AGAIN) => {}
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
    }
}

fn state(status: &NodeStatus, member: MemberId) -> &'static str {
    let is_here = |known: &&synod_node::MemberPresence| known.member == member;
    let presence = status.presence.iter().find(is_here);
    let is_heard = presence.is_some_and(|known| known.presence == Presence::Present);
    let database = status.databases.iter().find(|known| known.member == member);
    match database.map(|known| known.state) {
        _ if member != status.member && !is_heard => "UNREACHABLE",
        Some(DataState::Synced) => "ONLINE",
        Some(DataState::Error) => "ERROR",
        _ => "RECOVERING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_uuid_of_a_server_are_read() {
        let server: Uuid = "5e0dc0de-0000-4000-8000-000000000001".parse().unwrap();
        let text = format!("[::1]:3306 ({server})");
        let incoming = Incoming::parse(&text).unwrap();
        assert_eq!((incoming.host, incoming.port), ("[::1]", 3306));
        assert_eq!(incoming.server, server);
        for other in ["", "db1:3306", "db1:3306 (x)", "db1 (5e0dc0de)"] {
            assert_eq!(Incoming::parse(other), None, "{other}");
        }
    }
}

//! The name and the address by which others know the server. Copied files have another's.

use synod_options::whereabouts;

use crate::facts::{LocalFacts, PeerFacts, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(server: &ServerFacts, local: &LocalFacts, peers: &[PeerFacts]) -> Vec<Finding> {
    let address = foreign_address(server, local.has_own_address);
    address
        .into_iter()
        .chain(name_of_another(server, peers))
        .collect()
}

/// A member that others have reached is where they look for it, whatever its machine calls that.
fn foreign_address(server: &ServerFacts, is_here: Option<bool>) -> Option<Finding> {
    let address = server.planned("wsrep_node_address");
    let is_reached = server.is_in_group() && server.counter("wsrep_cluster_size") > 1;
    if address.is_empty() || is_reached {
        return None;
    }
    let fault = whereabouts::fault_of_own(is_here)?;
    Some(Finding::new(
        Subject::Network,
        Severity::Problem,
        format!("wsrep_node_address is {address}, {fault}"),
        "the other servers connect to this one there. Is it the sample's, or that of the server \
         from which the file was copied? It may be right only where a router translates addresses",
        "wsrep_node_address = one of these: hostname --all-ip-addresses",
    ))
}

fn name_of_another(server: &ServerFacts, peers: &[PeerFacts]) -> Option<Finding> {
    let name = server.planned("wsrep_node_name");
    let is_another = |peer: &&PeerFacts| !peer.is_own && peer.is_here != Some(true);
    let mut others = peers.iter().filter(is_another);
    let peer = others.find(|peer| peer.host == name || answers_as(peer, name))?;
    let machine = match server.variable("hostname") {
        "" => "this machine".to_owned(),
        hostname => format!("this machine, {hostname}"),
    };
    Some(Finding::new(
        Subject::Network,
        Severity::Problem,
        format!(
            "wsrep_node_name is {name}: that is the server at {}, not {machine}",
            peer.address
        ),
        "the name is unique in a group. Is it the sample's, or that of the server from which the \
         file was copied?",
        "wsrep_node_name = a name of its own; hostname --short shows the machine's",
    ))
}

fn answers_as(peer: &PeerFacts, name: &str) -> bool {
    let answer = peer.answer.as_ref().and_then(|answer| answer.as_ref().ok());
    !name.is_empty() && answer.is_some_and(|status| status.server.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_admin::status::{Server, Status};

    fn server(name: &str, more: &[(&str, &str)]) -> ServerFacts {
        let named = [
            ("wsrep_node_name", name),
            ("wsrep_node_address", "192.0.2.11"),
        ];
        let all = named.iter().chain(more);
        let variables = all.map(|(name, value)| (name.to_string(), value.to_string()));
        ServerFacts {
            variables: variables.collect(),
            ..ServerFacts::default()
        }
    }

    fn peer(host: &str, is_here: bool, answers_as: Option<&str>) -> PeerFacts {
        let status = answers_as.map(|name| Status {
            server: Server {
                name: name.to_owned(),
                ..Server::default()
            },
            ..Status::default()
        });
        PeerFacts {
            address: format!("{host}:4567"),
            host: host.to_owned(),
            is_here: Some(is_here),
            is_own: is_here,
            seen: Err("not asked".to_owned()),
            blocked_copies: None,
            is_galera: false,
            answer: status.map(|status| Ok(Box::new(status))),
        }
    }

    #[test]
    fn address_of_another_machine_is_a_problem_until_others_have_reached_it() {
        let alone = server("db2", &[]);
        assert_eq!(foreign_address(&alone, Some(true)), None);
        assert_eq!(
            foreign_address(&alone, Some(false)).unwrap().severity,
            Severity::Problem
        );
        assert!(
            foreign_address(&alone, None)
                .unwrap()
                .what
                .contains("not known")
        );
        let mut member = server(
            "db2",
            &[("wsrep_on", "ON"), ("wsrep_provider", "libsynod.so")],
        );
        member
            .status
            .insert("wsrep_cluster_size".to_owned(), "3".to_owned());
        assert_eq!(
            foreign_address(&member, Some(false)),
            None,
            "behind a translation"
        );
    }

    #[test]
    fn name_of_the_server_that_the_file_was_copied_from_is_a_problem() {
        let peers = [peer("db1", false, None), peer("db2", true, Some("db2"))];
        let found = name_of_another(&server("db1", &[]), &peers).unwrap();
        assert!(
            found.what.contains("that is the server at db1:4567"),
            "{found:?}"
        );
        assert_eq!(name_of_another(&server("db2", &[]), &peers), None);
        let by_address = [peer("192.0.2.1", false, Some("db1"))];
        assert!(name_of_another(&server("db1", &[]), &by_address).is_some());
        assert_eq!(name_of_another(&server("", &[]), &peers[1..]), None);
    }
}

//! The group: what the members themselves say of it.
//!
//! A server knows of the group that it is in, and of no other: that `galera_new_cluster` was run on
//! two servers shows only if both are asked.

use std::collections::BTreeMap;

use synod_admin::status::{Group, Member, Status};

use crate::facts::{PeerFacts, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

/// The id of a server that is in no group.
const NO_GROUP: &str = "00000000-0000-0000-0000-000000000000";

/// `own`: the status of the server's own library.
pub(super) fn judge(
    server: &ServerFacts,
    own: Option<&Status>,
    peers: &[PeerFacts],
) -> Vec<Finding> {
    let answers: Vec<(&PeerFacts, &Status)> = answers(peers).collect();
    let groups = Groups::of(server, own, &answers);
    let of_own = |status: &&Status| group_of(status).is_some_and(|group| groups.is_own(&group.id));
    let statuses = answers.iter().map(|(_, status)| *status);
    let known_by = own.into_iter().chain(statuses).find(of_own);
    let mut findings: Vec<Finding> = groups.judge().into_iter().collect();
    let are_refusing = peers.iter().any(|peer| silent_peer(peer).is_some());
    findings.extend(known_by.and_then(|status| absent(status, are_refusing)));
    findings.extend(peers.iter().filter_map(silent_peer));
    findings.extend(not_asked(peers));
    findings.extend(
        answers
            .iter()
            .filter_map(|(peer, status)| waiting(peer, status)),
    );
    findings
}

fn answers(peers: &[PeerFacts]) -> impl Iterator<Item = (&PeerFacts, &Status)> {
    let others = peers.iter().filter(|peer| !peer.is_own);
    others.filter_map(|peer| Some((peer, &**peer.answer.as_ref()?.as_ref().ok()?)))
}

fn group_of(status: &Status) -> Option<&Group> {
    status.group.as_ref().filter(|group| group.id != NO_GROUP)
}

struct Groups<'a> {
    own: Option<String>,
    members: BTreeMap<String, Vec<String>>,
    statuses: BTreeMap<String, &'a Status>,
}

impl<'a> Groups<'a> {
    fn of(
        server: &ServerFacts,
        own: Option<&'a Status>,
        answers: &[(&PeerFacts, &'a Status)],
    ) -> Groups<'a> {
        let by_sql = server.status.get("wsrep_cluster_state_uuid");
        let by_sql = by_sql.filter(|id| server.is_in_group() && *id != NO_GROUP);
        let own_id = own.and_then(group_of).map(|group| group.id.clone());
        let own_id = own_id.or_else(|| by_sql.cloned());
        let mut groups = Groups {
            own: own_id,
            members: BTreeMap::new(),
            statuses: BTreeMap::new(),
        };
        if let Some(id) = groups.own.clone() {
            groups.add(id, "this server".to_owned(), own);
        }
        for (peer, status) in answers {
            if let Some(group) = group_of(status) {
                groups.add(group.id.clone(), peer.address.clone(), Some(status));
            }
        }
        groups
    }

    fn add(&mut self, id: String, name: String, status: Option<&'a Status>) {
        if let Some(status) = status {
            self.statuses.entry(id.clone()).or_insert(status);
        }
        self.members.entry(id).or_default().push(name);
    }

    fn is_own(&self, id: &str) -> bool {
        self.own.as_deref() == Some(id)
    }

    /// More than one is a problem, whichever of them the server is in.
    fn judge(&self) -> Option<Finding> {
        if self.members.len() < 2 {
            return None;
        }
        let each = self.members.iter().map(|(id, members)| {
            let status = self.statuses.get(id);
            let counts = status.map(|status| size(status)).unwrap_or_default();
            format!("{} in {id}{counts}", members.join(", "))
        });
        let each: Vec<String> = each.collect();
        Some(Finding::new(
            Subject::Group,
            Severity::Problem,
            format!(
                "the servers are in {} groups, which share no data: {}",
                self.members.len(),
                each.join("; ")
            ),
            "each was begun by galera_new_cluster (--wsrep-new-cluster), and serves its own \
             clients: what is written in one is never in the other, and they do not join by \
             themselves. None of these numbers says which data count",
            REMEDY,
        ))
    }
}

/// Only people know which data count, so nothing here is deleted.
const REMEDY: &str = "\
delete nothing and restart nothing yet. Keep clients at one group. Find the one whose data count,
by rows that you know, on a server of each group:
  SELECT table_schema, COUNT(*), SUM(data_length), MAX(create_time) FROM information_schema.tables
    WHERE table_schema NOT IN ('mysql','sys','information_schema','performance_schema') GROUP BY 1;
Leave the servers of that group as they are. On each server of the OTHER group only:
  mariadb-dump --all-databases > /root/before-joining.sql    # what only this server has
  systemctl stop mariadb
  mv /var/lib/mysql /var/lib/mysql.other-group
  install -d -o mysql -g mysql -m 755 /var/lib/mysql
  systemctl start mariadb                                    # joins, with a full copy (SST)";

fn size(status: &Status) -> String {
    let Some(group) = &status.group else {
        return String::new();
    };
    let (members, seqno) = (status.members.len(), group.commit_seqno);
    let word = if members == 1 { "member" } else { "members" };
    format!(" ({members} {word}, {seqno} actions)")
}

/// Members that the group knows, and that are not there. `are_refusing`: some run, and do not let
/// this one in.
fn absent(status: &Status, are_refusing: bool) -> Option<Finding> {
    let group = group_of(status)?;
    let gone = status.members.iter().filter(|member| !member.is_present);
    let gone: Vec<&Member> = gone.collect();
    if gone.is_empty() && group.can_commit {
        return Some(Finding::good(
            Subject::Group,
            format!("all members of the group are present; {}", group.outlook),
        ));
    }
    let named = |member: &&Member| format!("{} ({})", member.name, member.address);
    let names: Vec<String> = gone.iter().map(named).collect();
    let what = match names.is_empty() {
        true => "the group commits nothing at the moment".to_owned(),
        false => format!("absent from the group: {}", names.join(", ")),
    };
    let (severity, remedy) = match (group.can_commit, names.is_empty()) {
        (false, true) => (
            Severity::Problem,
            "wait for its election; 'synod why' says what happens",
        ),
        (false, false) if are_refusing => (
            Severity::Problem,
            "give up nothing: members run, and do not let this one in. Correct that first",
        ),
        (false, false) => (
            Severity::Problem,
            "start the absent servers. Are they lost for good? synod recover --plan",
        ),
        (true, _) => (
            Severity::Warning,
            "start it, or, if it is gone for good: synod member remove NAME",
        ),
    };
    let outlook = group.outlook.clone();
    Some(Finding::new(
        Subject::Group,
        severity,
        what,
        outlook,
        remedy,
    ))
}

/// A member that runs, and does not say to which group it belongs.
fn silent_peer(peer: &PeerFacts) -> Option<Finding> {
    let error = peer.answer.as_ref()?.as_ref().err()?;
    (!peer.is_galera).then(|| {
        Finding::new(
            Subject::Group,
            Severity::Problem,
            format!(
                "{} does not take this member for one of its group: {error}",
                peer.address
            ),
            "members join if their group secret (or the authority of their certificates) and the \
             cluster name are the same",
            "compare on both: sha256sum of the file that synod.secret_file names, and \
             wsrep_cluster_name (of a logger or relay: cluster_name in its file); tls.md",
        )
    })
}

/// Members that run, and were not asked for want of credentials.
fn not_asked(peers: &[PeerFacts]) -> Option<Finding> {
    let is_it = |peer: &&PeerFacts| {
        peer.seen.is_ok() && peer.answer.is_none() && !peer.is_own && !peer.is_galera
    };
    let names = peers.iter().filter(is_it).map(|peer| peer.address.as_str());
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| {
        Finding::new(
            Subject::Group,
            Severity::Note,
            format!("to which group these belong was not asked: {}", names.join(", ")),
            "a member answers only who shows its group's secret or a certificate, and there is none \
             to show here: two groups, or another cluster name, are not seen",
            "on each of these machines: synod status. The first line has the group's id, which is \
             the same on all",
        )
    })
}

fn waiting(peer: &PeerFacts, status: &Status) -> Option<Finding> {
    if group_of(status).is_some() {
        return None;
    }
    let why = status.server.trouble.clone();
    Some(Finding::new(
        Subject::Group,
        Severity::Warning,
        format!("{} runs, and is in no group yet", peer.address),
        why.unwrap_or_else(|| "it looks for a group, as this server would".to_owned()),
        "exactly one server begins a group, once: galera_new_cluster on the one whose data count. \
         The others join it by themselves",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Reached;

    fn status(id: &str, names: &[(&str, bool)]) -> Status {
        let member = |(name, is_present): &(&str, bool)| Member {
            name: (*name).to_owned(),
            address: format!("{name}:4567"),
            is_voter: true,
            is_present: *is_present,
            ..Member::default()
        };
        let group = Group {
            id: id.to_owned(),
            can_commit: true,
            outlook: "3 voters, 2 answer".to_owned(),
            commit_seqno: 17,
            ..Group::default()
        };
        Status {
            group: (!id.is_empty()).then_some(group),
            members: names.iter().map(member).collect(),
            ..Status::default()
        }
    }

    fn peer(answer: Result<Status, &str>) -> PeerFacts {
        PeerFacts {
            address: "db1:4567".to_owned(),
            host: "db1".to_owned(),
            is_here: Some(false),
            is_own: false,
            seen: Err("not asked".to_owned()),
            blocked_copies: None,
            is_galera: false,
            answer: Some(answer.map(Box::new).map_err(str::to_owned)),
        }
    }

    fn judged(own: Option<&Status>, peers: &[PeerFacts]) -> Vec<Finding> {
        judge(&ServerFacts::default(), own, peers)
    }

    #[test]
    fn two_groups_are_a_problem_on_the_servers_of_both() {
        let (with_data, stray) = (
            status("aaaa", &[("db1", true)]),
            status("bbbb", &[("db2", true)]),
        );
        for (own, other) in [(&with_data, &stray), (&stray, &with_data)] {
            let found = judged(Some(own), &[peer(Ok(other.clone()))]);
            assert_eq!(found[0].severity, Severity::Problem);
            let what = &found[0].what;
            assert!(
                what.contains("in 2 groups") && what.contains("db1:4567 in "),
                "{what}"
            );
            assert!(
                what.contains("this server in ") && what.contains("(1 member, 17"),
                "{what}"
            );
            assert!(found[0].remedy.starts_with("delete nothing"), "{found:?}");
        }
        let joined = judged(Some(&with_data), &[peer(Ok(with_data.clone()))]);
        assert_eq!(joined.len(), 1, "{joined:?}");
        assert_eq!(joined[0].severity, Severity::Good);
    }

    /// A server that waits, or does not run, is in none of them.
    #[test]
    fn two_groups_are_seen_by_a_server_in_neither() {
        let peers = ["aaaa", "bbbb"].map(|id| peer(Ok(status(id, &[("db", true)]))));
        assert!(judged(None, &peers)[0].what.contains("in 2 groups"));
        assert_eq!(judged(None, &peers[..1]), []);
    }

    #[test]
    fn members_that_are_not_there_are_named() {
        let mut group = status("aaaa", &[("db1", true), ("db2", false), ("witness", false)]);
        let found = judged(Some(&group), &[]);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            found[0].what,
            "absent from the group: db2 (db2:4567), witness (witness:4567)"
        );
        assert_eq!(found[0].why, "3 voters, 2 answer");
        group.group.as_mut().unwrap().can_commit = false;
        let lost = &judged(Some(&group), &[])[0];
        assert_eq!(lost.severity, Severity::Problem);
        assert!(lost.remedy.contains("recover --plan"), "{lost:?}");
        let refused = &judged(Some(&group), &[peer(Err("another secret"))])[0];
        assert!(refused.remedy.starts_with("give up nothing"), "{refused:?}");
    }

    /// A group without credentials, or a doctor on another machine than the server's.
    #[test]
    fn members_that_cannot_be_asked_are_told() {
        let reached = PeerFacts {
            seen: Ok(Reached {
                round_trip: std::time::Duration::from_millis(1),
                path_mtu: None,
            }),
            answer: None,
            ..peer(Err("not asked"))
        };
        let own = PeerFacts {
            is_own: true,
            ..reached.clone()
        };
        let found = judged(None, &[own, reached.clone()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].severity, Severity::Note);
        assert!(found[0].what.ends_with("not asked: db1:4567"), "{found:?}");
        let answers = [peer(Ok(status("aaaa", &[("db1", true)])))];
        assert_eq!(judged(None, &answers), [], "it was asked");
    }

    #[test]
    fn peer_that_refuses_or_waits_is_told() {
        let refused = judged(None, &[peer(Err("another secret"))]);
        assert_eq!(refused[0].severity, Severity::Problem);
        assert!(refused[0].what.contains("another secret"), "{refused:?}");
        let waits = judged(None, &[peer(Ok(status("", &[])))]);
        assert!(waits[0].what.contains("in no group yet"), "{waits:?}");
    }
}

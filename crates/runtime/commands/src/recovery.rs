//! Holdings of the survivors of a lost majority.

use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Reason, Reply};
use synod_admin::recovery::{Holdings, Recovery, Survivor};
use synod_admin::unix_ms;
use synod_node::{GroupId, MemberStatus, Node, NodeStatus, SurvivorReport};

use crate::orders::NOT_CONNECTED;
use crate::status::name_of;

/// Longest wait for the first calls to the voters, and the time between two looks.
const FIRST_CALLS: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(50);

/// Holdings as the node knows them. `describe_own` adds the state of the server's own data.
pub fn plan(node: Option<&Node>, server: &str, describe_own: impl FnOnce(&mut Survivor)) -> Reply {
    let Some(node) = node else {
        return Reply::refused(Reason::NotConnected, NOT_CONNECTED);
    };
    let status = after_first_calls(node);
    if status.group == GroupId::NONE {
        let text = "this server belongs to no group yet: nothing of it can be recovered here";
        return Reply::refused(Reason::NotConnected, text);
    }
    let mut recovery = recovery(server, node.cluster_name(), &status);
    if let Some(own) = recovery.members.iter_mut().find(|member| member.is_own) {
        describe_own(own);
    }
    Reply::Answer(Answer::Recovery(Box::new(recovery)))
}

/// Status once the first call to each voter has ended, or has lasted too long. A server that has
/// just started knows no more of the others until then.
fn after_first_calls(node: &Node) -> NodeStatus {
    let deadline = Instant::now() + FIRST_CALLS;
    loop {
        let status = node.status();
        if !status.is_calling || Instant::now() >= deadline {
            return status;
        }
        std::thread::sleep(LOOK);
    }
}

fn recovery(server: &str, group: &str, node: &NodeStatus) -> Recovery {
    let now = unix_ms();
    let mut members: Vec<Survivor> = node
        .members
        .iter()
        .map(|member| survivor(node, member, now))
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Recovery {
        at_unix_ms: now,
        server: server.to_owned(),
        group_id: node.group.to_string(),
        group: group.to_owned(),
        is_primary: node.primary,
        unheard: node.unheard.clone(),
        members,
    }
}

fn survivor(node: &NodeStatus, member: &MemberStatus, now: u64) -> Survivor {
    let known = node.survivors.iter().find(|s| s.member == member.member);
    let report = known.and_then(|s| s.report.as_ref());
    let mut presence = node.presence.iter();
    let seen = presence.find(|p| p.member == member.member);
    let heard = seen.and_then(|p| p.silent_for);
    Survivor {
        id: member.member.to_string(),
        name: member.name.clone(),
        address: member.address.clone(),
        is_own: member.member == node.member,
        is_voter: member.voter,
        has_database: member.has_data,
        heard_unix_ms: heard.map(|ago| before(now, ago)),
        has: report.map(|report| holdings(&node.members, report, now)),
        defects: Vec::new(),
        is_marked: false,
    }
}

fn holdings(members: &[MemberStatus], report: &SurvivorReport, now: u64) -> Holdings {
    let incomplete = report.incomplete_us.map(Duration::from_micros);
    let applied = report.applied.0;
    Holdings {
        last_term: report.last.term.0,
        last_index: report.last.index.0,
        durable_index: report.durable.0,
        commit_index: report.commit.0,
        stated_index: report.stated.0,
        complete_unix_ms: incomplete.map(|ago| before(now, ago)),
        applied_seqno: (applied >= 0).then_some(applied),
        is_under_repair: report.is_under_repair,
        leader: report.leader.map(|leader| name_of(members, leader)),
    }
}

/// So long before a time, in milliseconds.
fn before(now: u64, ago: Duration) -> u64 {
    let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
    now.saturating_sub(ago)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::{
        LogIndex, MemberId, MemberPresence, Presence, Seqno, SurvivorStatus, VersionRange,
    };

    fn configured(id: u64, name: &str) -> MemberStatus {
        MemberStatus {
            member: MemberId(id),
            session: None,
            name: name.into(),
            address: format!("{name}:4567"),
            voter: true,
            leader_weight: None,
            region: None,
            has_data: true,
            versions: VersionRange { min: 1, max: 5 },
        }
    }

    #[test]
    fn survivor_has_what_it_reports_and_a_silent_member_nothing() {
        let report = SurvivorReport {
            durable: LogIndex(9),
            incomplete_us: Some(2_000_000),
            applied: Seqno::UNDEFINED,
            leader: Some(MemberId(2)),
            ..SurvivorReport::default()
        };
        let node = NodeStatus {
            member: MemberId(1),
            members: vec![configured(1, "db1"), configured(2, "db2")],
            survivors: vec![
                SurvivorStatus {
                    member: MemberId(1),
                    report: Some(report),
                },
                SurvivorStatus {
                    member: MemberId(2),
                    report: None,
                },
            ],
            presence: vec![MemberPresence {
                member: MemberId(2),
                presence: Presence::Absent,
                silent_for: Some(Duration::from_secs(60)),
                readers_at: None,
            }],
            ..NodeStatus::default()
        };
        let found = recovery("db1", "group", &node);
        let [own, silent] = found.members.as_slice() else {
            panic!("{found:?}");
        };
        let has = own.has.as_ref().unwrap();
        assert!(own.is_own && has.durable_index == 9);
        assert_eq!(has.complete_unix_ms, Some(found.at_unix_ms - 2000));
        assert_eq!(
            (has.applied_seqno, has.leader.as_deref()),
            (None, Some("db2"))
        );
        assert_eq!(silent.has, None);
        assert_eq!(silent.heard_unix_ms, Some(found.at_unix_ms - 60_000));
    }
}

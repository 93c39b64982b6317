//! The answer to the request for a plan: what the survivors of a lost majority have.

use std::time::Duration;

use synod_admin::protocol::{Answer, Reason, Reply};
use synod_admin::recovery::{Holdings, Recovery, Survivor};
use synod_commands::status::name_of;
use synod_commands::{NOT_CONNECTED, unix_ms};
use synod_node::{GroupId, MemberStatus, NodeStatus, SurvivorReport};

use crate::provider::Provider;

/// Recovery plan, from what this server knows of the survivors now.
pub(super) fn plan(provider: &Provider) -> Reply {
    let Some(node) = provider.running_node() else {
        return Reply::refused(Reason::NotConnected, NOT_CONNECTED);
    };
    let status = node.status();
    if status.group == GroupId::NONE {
        let text = "this server belongs to no group yet: nothing of it can be recovered here";
        return Reply::refused(Reason::NotConnected, text);
    }
    let mut recovery = recovery(provider.server_name(), node.cluster_name(), &status);
    for own in recovery.members.iter_mut().filter(|member| member.is_own) {
        own.defects = provider.position().defects();
        own.is_marked = provider.position().record().needs_copy();
    }
    Reply::Answer(Answer::Recovery(Box::new(recovery)))
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
    use synod_node::{
        LogIndex, MemberId, MemberPresence, Presence, Seqno, SurvivorStatus, VersionRange,
    };

    use super::*;

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

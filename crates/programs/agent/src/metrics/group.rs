//! The group, as this server knows it: majority, elections, pace.

use std::fmt;

use synod_admin::status::{FlowControl, Group, Member, Status};

use super::families::{Families, seconds};
use super::server::stateset;

const ROLES: [&str; 6] = [
    "leader",
    "follower",
    "candidate",
    "learner",
    "logger",
    "relay",
];
const KINDS: [&str; 3] = ["database", "logger", "relay"];

pub(super) fn write(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let is_primary = status.group.as_ref().is_some_and(|group| group.is_primary);
    page.gauge(
        "synod_primary",
        "Whether the member hears a leader with a majority (1). If 0, a server refuses statements",
        Some(u64::from(is_primary)),
    )?;
    let role = status.own().map_or("", |own| &*own.role);
    let roles = stateset("role", &ROLES, role).into_iter();
    page.gauges(
        "synod_role",
        "Role of the server: 1 at the present one. All are 0 while it is in no group",
        roles.filter(|(labels, _)| !labels[0].1.is_empty()),
    )?;
    if let Some(group) = &status.group {
        majority(page, group)?;
        position(page, group)?;
    }
    members(page, status)?;
    election(page, status)?;
    pace(page, &status.flow_control)?;
    commit_wait(page, status)
}

fn majority(page: &mut Families<'_>, group: &Group) -> fmt::Result {
    page.gauges(
        "synod_group_info",
        "Name (wsrep_cluster_name) and id of the group, and its leader. The value is always 1",
        [(
            [
                ("group", &*group.name),
                ("id", &*group.id),
                ("leader", group.leader.as_deref().unwrap_or_default()),
            ],
            1_u64,
        )],
    )?;
    page.gauge(
        "synod_term",
        "Term of the group. It grows with each election: if that is often, network or machines are \
         unstable",
        Some(group.term),
    )?;
    page.gauge("synod_voters", "Members that vote", Some(group.voters))?;
    page.gauge(
        "synod_voters_present",
        "Members that vote and are present. At half of synod_voters or below, nothing commits",
        Some(group.voters_present),
    )?;
    page.gauge(
        "synod_failures_tolerated",
        "How many of the voters that are present may fail, and the rest still commits",
        Some(group.tolerates),
    )
}

fn position(page: &mut Families<'_>, group: &Group) -> fmt::Result {
    page.gauge(
        "synod_view",
        "Number of the view: it grows when a member comes or leaves",
        Some(group.view),
    )?;
    page.gauge(
        "synod_protocol_version",
        "What the group speaks. It rises when the last server of an upgrade is done",
        group.protocol.map(u64::from),
    )?;
    page.gauge(
        "synod_commit_seqno",
        "The last action that the server knows to be committed in the group",
        Some(group.commit_seqno),
    )?;
    page.gauge(
        "synod_commit_index",
        "The highest log index that the server knows to be committed",
        Some(group.commit_index),
    )
}

fn members(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let count = |kind: &str, is_counted: fn(&Member) -> bool| {
        let of_kind = status.members.iter().filter(|member| member.kind == kind);
        of_kind.filter(|member| is_counted(member)).count() as u64
    };
    page.gauge(
        "synod_cluster_size",
        "Servers with a database that are present, as wsrep_cluster_size",
        Some(count("database", Member::answers)),
    )?;
    page.gauges(
        "synod_members_present",
        "Members of each kind that are present: heard by the leader within the last second",
        KINDS.map(|kind| ([("kind", kind)], count(kind, Member::answers))),
    )?;
    page.gauges(
        "synod_members",
        "Configured members of each kind, absent ones included",
        KINDS.map(|kind| ([("kind", kind)], count(kind, |_| true))),
    )
}

fn election(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let election = status.last_election.as_ref();
    page.gauge(
        "synod_last_election_timestamp_seconds",
        "When this server first heard the present leader",
        election.map(|election| seconds(election.at_unix_ms)),
    )?;
    page.gauge(
        "synod_last_election_term",
        "Term of the last election that this server saw",
        election.map(|election| election.term),
    )
}

fn pace(page: &mut Families<'_>, flow: &FlowControl) -> fmt::Result {
    page.gauge(
        "synod_flow_control_active",
        "Whether writes of the group are slowed down (1), because a majority of the databases lags",
        Some(u64::from(flow.is_active)),
    )?;
    page.gauge(
        "synod_flow_control_actions_per_second",
        "Writes that are taken per second. Missing: all",
        flow.rate_per_second,
    )?;
    let slowest = flow.slowest.as_deref().zip(flow.slowest_lag_ms);
    page.gauges(
        "synod_flow_control_slowest_lag_seconds",
        "Lag of the member that writes wait for. Missing: they wait for none",
        slowest.map(|(member, lag)| ([("member", member)], seconds(lag))),
    )?;
    page.counter(
        "synod_flow_control_paused_seconds",
        "Time in which writes of the group waited, since this server connected",
        seconds(flow.paused_ms),
    )?;
    page.counter(
        "synod_flow_control_pauses",
        "How often writes of the group began to wait",
        flow.pauses,
    )?;
    page.counter(
        "synod_flow_control_caused",
        "How often writes of the group began to wait for this server's database",
        flow.caused,
    )
}

fn commit_wait(page: &mut Families<'_>, status: &Status) -> fmt::Result {
    let wait = &status.commit_wait;
    page.gauge(
        "synod_commit_wait_applied",
        "Whether commits wait until all databases have applied them (1), or until they are durable \
         on a majority (0)",
        Some(u64::from(wait.in_force == "applied")),
    )?;
    page.gauge(
        "synod_commit_wait_excluded_members",
        "Servers that commits do not wait for, because they were too slow. Reads there may be old",
        Some(wait.excluded.len() as u64),
    )?;
    page.counter(
        "synod_commit_wait_exclusions",
        "How often a server was excluded from being waited for",
        wait.exclusions,
    )
}

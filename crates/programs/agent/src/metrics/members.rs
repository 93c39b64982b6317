//! Each member, as this server knows it. Of other members' logs only the leader knows.

use std::fmt;

use prometheus_client::encoding::EncodeGaugeValue;
use synod_admin::status::Member;

use super::families::{Families, seconds};

pub(super) fn write(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let own = members.iter().find(|member| member.is_own);
    page.gauge(
        "synod_lag_seconds",
        "For how long this server's database has lacked a committed action: how old reads are here",
        own.and_then(|own| Some(seconds(own.lag_ms?))),
    )?;
    presence(page, members)?;
    logs(page, members)?;
    databases(page, members)?;
    links(page, members)
}

/// A family with a value for each member of which it is known.
fn of_each<V: EncodeGaugeValue>(
    page: &mut Families<'_>,
    members: &[Member],
    (name, help): (&str, &str),
    value: impl Fn(&Member) -> Option<V>,
) -> fmt::Result {
    let known = members.iter().filter_map(|member| {
        let labels = [("member", &*member.name), ("member_id", &*member.id)];
        Some((labels, value(member)?))
    });
    page.gauges(name, help, known)
}

fn presence(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let present = (
        "synod_member_present",
        "Whether the member is present (1): heard by the leader within the last second, or by this \
         server while it hears no leader. Whatever its kind",
    );
    of_each(page, members, present, |member| {
        Some(u64::from(member.answers()))
    })?;
    let voter = ("synod_member_voter", "Whether the member votes (1)");
    of_each(page, members, voter, |member| {
        Some(u64::from(member.is_voter))
    })?;
    let leader = (
        "synod_member_leader",
        "Whether the member leads (1), as this server knows",
    );
    of_each(page, members, leader, |member| {
        Some(u64::from(member.role == "leader"))
    })?;
    let weight = (
        "synod_member_leader_weight",
        "The member's synod.leader_weight",
    );
    of_each(page, members, weight, |member| member.weight.map(u64::from))?;
    regions(page, members)?;
    let term = ("synod_member_term", "Term of the member");
    of_each(page, members, term, |member| member.term)
}

/// A family of the kind that has its knowledge in a label.
fn regions(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let known = members.iter().filter_map(|member| {
        let region = member.region.as_deref()?;
        let labels = [
            ("member", &*member.name),
            ("member_id", &*member.id),
            ("region", region),
        ];
        Some((labels, 1_u64))
    });
    let help = "The member's synod.region, as a label; always 1";
    page.gauges("synod_member_region_info", help, known)
}

fn logs(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let last = (
        "synod_member_log_index",
        "The last index in the member's log",
    );
    of_each(page, members, last, |member| member.log_index)?;
    let durable = (
        "synod_member_durable_index",
        "The last index that is durable on the member's disk. The leader knows it of all",
    );
    of_each(page, members, durable, |member| member.durable_index)
}

fn databases(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let applied = (
        "synod_member_applied_seqno",
        "The last action in the member's database, with all before it",
    );
    of_each(page, members, applied, |member| member.applied_seqno)?;
    let flushed = (
        "synod_member_flushed_seqno",
        "The last action that the member's database has flushed to disk, by estimate",
    );
    of_each(page, members, flushed, |member| member.flushed_seqno)?;
    let actions = (
        "synod_member_lag_actions",
        "How many committed actions the member's database lacks",
    );
    of_each(page, members, actions, |member| member.lag_actions)?;
    let lag = (
        "synod_member_lag_seconds",
        "For how long the member's database has lacked a committed action",
    );
    of_each(page, members, lag, |member| member.lag_ms.map(seconds))?;
    let queue = (
        "synod_member_apply_queue_actions",
        "Actions that the member's database was given and has not applied",
    );
    of_each(page, members, queue, |member| member.apply_queue)
}

fn links(page: &mut Families<'_>, members: &[Member]) -> fmt::Result {
    let trip = (
        "synod_member_round_trip_seconds",
        "Time from a ping of this server to the member's answer, smoothed",
    );
    of_each(page, members, trip, |member| {
        member.round_trip_us.map(|us| us as f64 / 1e6) // exact below 285 years
    })?;
    let offset = (
        "synod_member_clock_offset_seconds",
        "How far the member's clock is ahead of this server's; negative: behind",
    );
    of_each(page, members, offset, |member| {
        member.clock_ahead_us.map(|us| us as f64 / 1e6) // exact below 285 years
    })?;
    let error = (
        "synod_member_clock_offset_error_seconds",
        "By how much the offset of the member's clock may be wrong",
    );
    of_each(page, members, error, |member| {
        member.clock_error_us.map(|us| us as f64 / 1e6) // exact below 285 years
    })
}

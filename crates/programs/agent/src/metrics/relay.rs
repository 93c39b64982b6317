//! Metrics of a relay: what comes from its upstream, and who reads.

use std::fmt;

use synod_admin::relay::{PullState, RelayStatus};

use super::families::{Families, seconds};

pub(super) fn write(page: &mut Families<'_>, status: &RelayStatus) -> fmt::Result {
    if !status.upstream.is_empty() {
        upstream(page, status)?;
    }
    readers(page, status)?;
    page.gauge(
        "synod_relay_certificate_expiry_timestamp_seconds",
        "When the certificate expires that readers of the relay are shown",
        status.certificate_until_unix,
    )
}

fn upstream(page: &mut Families<'_>, status: &RelayStatus) -> fmt::Result {
    page.gauges(
        "synod_relay_upstream_info",
        "The server whose binlog the relays keep. The value is always 1",
        [([("upstream", &*status.upstream)], 1_u64)],
    )?;
    let present = match status.pull {
        PullState::Elsewhere => "elsewhere",
        PullState::Connecting => "connecting",
        PullState::Pulling => "pulling",
        PullState::Paused => "paused",
        PullState::Other => "other",
    };
    let states = ["elsewhere", "connecting", "pulling", "paused"];
    page.gauges(
        "synod_relay_pull_state",
        "What the relay does about its upstream: 1 at the present state. One relay of the group \
         pulls, for the others it is elsewhere",
        states.map(|state| ([("state", state)], u64::from(state == present))),
    )?;
    page.gauge(
        "synod_relay_stuck_seconds",
        "For how long an error has kept the relay from new transactions of its upstream; 0 while \
         there is none. 'synod relay status' shows the error",
        Some(seconds(status.stuck_ms.unwrap_or(0))),
    )?;
    page.gauge(
        "synod_relay_delay_seconds",
        "How long the newest transaction took from the upstream to a majority of the relays, by \
         the clocks of both",
        status.delay_ms.map(seconds),
    )?;
    page.gauge(
        "synod_relay_quiet_seconds",
        "For how long no transaction has come",
        status.quiet_ms.map(seconds),
    )?;
    page.gauge(
        "synod_relay_rows_missing",
        "Whether the relay has pulled transactions whose changes readers of rows do not get (1)",
        Some(u64::from(status.warning.is_some())),
    )
}

fn readers(page: &mut Families<'_>, status: &RelayStatus) -> fmt::Result {
    page.gauge(
        "synod_relay_readers",
        "Readers that are connected to the relay",
        Some(status.readers.len() as u64),
    )?;
    let behind = status.readers.iter().filter_map(|reader| reader.behind);
    page.gauge(
        "synod_relay_slowest_reader_behind_actions",
        "Actions of the group's log that the slowest connected reader has not been given",
        behind.max(),
    )?;
    let numbers: Vec<String> = status
        .registered
        .iter()
        .map(|reader| reader.server_id.to_string())
        .collect();
    let registered = || {
        numbers
            .iter()
            .map(|number| [("server_id", &**number)])
            .zip(&status.registered)
    };
    page.gauges(
        "synod_relay_registered_reader_held_actions",
        "Actions that all relays keep in their logs for a registered reader",
        registered().map(|(labels, reader)| (labels, reader.holds)),
    )?;
    page.gauges(
        "synod_relay_registered_reader_unseen_seconds",
        "For how long no relay has seen a registered reader. Below 600 is normal",
        registered().filter_map(|(labels, reader)| Some((labels, seconds(reader.unseen_ms?)))),
    )
}

//! The page for Prometheus, in the OpenMetrics text format 1.0 or in its own older one.
//!
//! It is made for each request from the server's status. What the server does not know is missing,
//! not zero. Names end in their unit; HELP texts say what a value is and, where that is not plain,
//! which value is good.

mod commits;
mod families;
mod format;
mod group;
mod members;
mod relay;
mod server;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use synod_admin::relay::RelayStatus;

use crate::Seen;
use families::Families;
pub use format::Format;

/// The page in this format. `relay`: only of a relay; the certificate's end is in seconds since
/// 1970. No error is known: text is written to memory.
pub fn page(
    seen: &Seen,
    relay: Option<&RelayStatus>,
    certificate_until_unix: Option<u64>,
    format: Format,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let seen = seen.clone();
    registry.register_collector(Box::new(Shown {
        seen,
        relay: relay.cloned(),
        certificate_until_unix,
    }));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(format.of(page))
}

#[derive(Debug)]
struct Shown {
    seen: Seen,
    relay: Option<RelayStatus>,
    certificate_until_unix: Option<u64>,
}

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Families::new(encoder);
        page.gauge(
            "synod_up",
            "Whether the agent could ask its server (1) or not (0). All that the server tells is \
             missing while it is 0",
            Some(u64::from(self.seen.is_ok())),
        )?;
        page.gauge(
            "synod_agent_certificate_expiry_timestamp_seconds",
            "When the agent's own certificate expires. Clients refuse it from then on",
            self.certificate_until_unix,
        )?;
        let Ok(status) = &self.seen else {
            return Ok(());
        };
        server::write(&mut page, status)?;
        group::write(&mut page, status)?;
        members::write(&mut page, &status.members)?;
        commits::write(&mut page, status)?;
        match &self.relay {
            Some(status) => relay::write(&mut page, status),
            None => Ok(()),
        }
    }
}
